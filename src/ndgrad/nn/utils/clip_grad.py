"""Gradient clipping: by the common norm of all gradients, or element by element."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.creation import zeros
from ndgrad._src.tensor.functions.join import stack

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _as_list(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return cast("list[Tensor]", [tensors] if isinstance(tensors, Variable) else list(tensors))


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all tensors together, as if they were one vector.

    Args:
        tensors: tensor or tensors.
        norm_type: order of the norm.
        error_if_nonfinite: whether a norm that is infinite or nan raises an error.
        foreach: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> ndgrad.nn.utils.get_total_norm([ndgrad.tensor([3.0]), ndgrad.tensor([4.0])])
    tensor(5.)
    """
    from ndgrad.linalg import vector_norm  # importing ndgrad.nn need not load linear algebra

    given = _as_list(tensors)
    order = float(norm_type)
    if not given:
        return zeros(())
    if any(hasattr(t, "placements") for t in given):
        from ndgrad.distributed.tensor.norms import total_norm  # already loaded, because there is a DTensor

        total = total_norm(given, order)
    else:
        norms = [vector_norm(t, order) for t in given]
        total = vector_norm(stack([n.to(norms[0].device) for n in norms]), order)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite ({total.detach().item()}), "
            "so it cannot be clipped. To scale by it anyway, set error_if_nonfinite=False. [nd-values]"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply gradients, in place, by max_norm / total_norm if that is below 1.

    Args:
        parameters: tensor or tensors whose gradients are clipped. Those without gradient are skipped.
        max_norm: largest norm.
        total_norm: present norm, from `get_total_norm`.
        foreach: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> p = ndgrad.nn.Parameter(ndgrad.zeros(2))
    >>> p.grad = ndgrad.tensor([3.0, 4.0])
    >>> ndgrad.nn.utils.clip_grads_with_norm_(p, 1.0, ndgrad.tensor(5.0))
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    with no_grad():
        norm = total_norm.full_tensor() if hasattr(total_norm, "full_tensor") else total_norm
        factor = (float(max_norm) / (norm + 1e-6)).clamp(max=1.0)
        for grad in _grads(parameters):
            grad.mul_(factor.to(grad.device).to(grad.dtype) if not grad.is_complex() else factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients, in place, so that their common norm is at most `max_norm`.

    Args:
        parameters: tensor or tensors whose gradients are clipped. Those without gradient are skipped.
        max_norm: largest norm.
        norm_type: order of the norm.
        error_if_nonfinite: whether a norm that is infinite or nan raises an error.
        foreach: accepted as in torch; has no effect here.

    Returns:
        The norm before clipping.

    Raises:
        RuntimeError: if the norm is not finite and `error_if_nonfinite` is True.

    >>> import ndgrad
    >>> p = ndgrad.nn.Parameter(ndgrad.zeros(2))
    >>> p.grad = ndgrad.tensor([3.0, 4.0])
    >>> ndgrad.nn.utils.clip_grad_norm_([p], 1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    given = _as_list(parameters)
    with no_grad():
        total = get_total_norm(_grads(given), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated name of `clip_grad_norm_`.

    Args:
        parameters: tensor or tensors whose gradients are clipped. Those without gradient are skipped.
        max_norm: largest norm.
        norm_type: order of the norm.
        error_if_nonfinite: whether a norm that is infinite or nan raises an error.
        foreach: accepted as in torch; has no effect here.
    """
    warnings.warn("`clip_grad_norm` is deprecated: use `clip_grad_norm_`.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of the gradients, in place, to [-clip_value, clip_value].

    Args:
        parameters: tensor or tensors whose gradients are clipped. Those without gradient are skipped.
        clip_value: largest absolute value.
        foreach: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> p = ndgrad.nn.Parameter(ndgrad.zeros(2))
    >>> p.grad = ndgrad.tensor([3.0, -0.5])
    >>> ndgrad.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad
    tensor([ 1.0000, -0.5000])
    """
    bound = float(clip_value)
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-bound, max=bound)
