"""Gradient clipping: bounding the gradients of parameters together, by their norm, or one by one, by their size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ndgrad.api.creation import zeros
from ndgrad.api.join import stack
from ndgrad.autograd.grad_mode import no_grad
from ndgrad.autograd.variable import Variable

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _grads(parameters: Any) -> list[Any]:
    given = [parameters] if isinstance(parameters, Variable) else list(parameters)
    return [p.grad for p in given if p.grad is not None]


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
    """The norm of all tensors together, as if they were one vector. (`foreach` is accepted and changes nothing.)"""
    from ndgrad.linalg import vector_norm  # here, since importing ndgrad.nn need not load linear algebra

    given: list[Any] = [tensors] if isinstance(tensors, Variable) else list(tensors)
    order = float(norm_type)
    if not given:
        return zeros(())
    norms = [vector_norm(t, order) for t in given]
    total = vector_norm(stack([n.to(norms[0].device) for n in norms]), order)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite ({total.detach().item()}), so it cannot be "
            "clipped. To scale by it anyway, set error_if_nonfinite=False."
        )
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale the gradients down, in place, by as much as `total_norm` exceeds `max_norm`."""
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in _grads(parameters):
            grad.mul_(factor.to(grad.device).to(grad.dtype) if not grad.is_complex() else factor)


def clip_grad_norm_(
    parameters: Variable | Iterable[Variable],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale the gradients of the parameters, in place, so that their common norm is at most `max_norm`; the norm they had.

    >>> import ndgrad
    >>> p = ndgrad.nn.Parameter(ndgrad.zeros(2))
    >>> p.grad = ndgrad.tensor([3.0, 4.0])
    >>> ndgrad.nn.utils.clip_grad_norm_([p], 1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    given = [parameters] if isinstance(parameters, Variable) else list(parameters)
    with no_grad():
        total = get_total_norm(_grads(given), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_value_(parameters: Variable | Iterable[Variable], clip_value: float, foreach: bool | None = None) -> None:
    """Move every element of the gradients, in place, into [-clip_value, clip_value]."""
    bound = float(clip_value)
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-bound, max=bound)
