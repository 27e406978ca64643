"""Argument and state checks behind `Tensor`'s attributes, with their errors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.detach_checks import REQUIRES_GRAD, stake_of
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.subclass import scalar_of
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, recorded
from ndgrad._src.foundations import devices, registry
from ndgrad._src.tensor.arguments import as_dim, warn_user
from ndgrad._src.tensor.storage import batch_dims, memory_of


def existing_dim(dim: int, ndim: int) -> int:
    if ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions. Leave it out. [nd-dim]")
    return as_dim(dim, ndim)


def channels_last_order(wanted: devices.memory_format, ndim: int) -> tuple[int, ...] | None:
    """Return the dimensions in the order of a memory format, outermost first; None if the format needs
    another rank."""
    if wanted.name not in ("channels_last", "channels_last_3d"):
        return tuple(range(ndim))
    return (0, *range(2, ndim), 1) if ndim == (4 if wanted.name == "channels_last" else 5) else None


def set_requires_grad(t: Any, value: bool) -> None:
    if any(level.kind != "functional" for level in thread.levels):
        refuse_in_transform("Tensor.requires_grad_()")
    t = recorded(t)
    if value:
        check_differentiable(np_dtype(t))
        if t.is_inference() and not thread.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: "
                "its writes are not tracked. clone() it outside inference mode, and set it on the clone. [nd-inference]"
            )
    if value or t._meta is not None:
        meta_of(t).requires_grad = value


def as_leaf(t: Any) -> Any:
    """Make a new tensor require grad. Inside a grad transform it becomes a leaf of that level, whose
    graph is being recorded."""
    meta, level = t._meta, thread.levels[-1] if thread.levels else None
    if (
        level is None
        or t._node is not None
        or isinstance(t._array, Variable)
        or (meta is not None and (meta.level or meta.batch_level))
    ):
        return t.requires_grad_()
    check_differentiable(np_dtype(t))
    meta = meta_of(t)
    meta.requires_grad = True
    if level.kind == "grad":
        meta.level = level.number
    return t


def check_differentiable(dtype: np.dtype[Any]) -> None:
    """Raise if tensors of a dtype cannot require grad."""
    if not is_inexact(dtype):
        raise RuntimeError(
            f"Only Tensors of floating point and complex dtype can require gradients, but this one is {dtype}. "
            "Convert it first, for example with .double(), or give dtype= when it is made. [nd-grad-dtype]"
        )


def refuse_in_transform(what: str) -> None:
    if thread.levels:
        raise RuntimeError(
            f"You are attempting to call {what} inside a function that is being transformed by grad, vjp, vmap or "
            "functionalize, whose graphs are their "
            "own. Return what you want differentiated, or call it outside of the transform. [nd-in-transform]"
        )


def not_a_leaf(t: Any, value: bool) -> RuntimeError:
    remedy = "It requires grad already." if value else "For a copy outside the graph, use detach()."
    return RuntimeError(
        f"you can only change requires_grad flags of leaf variables, but this one (shape {tuple(t.shape)}) "
        f"was computed by {t._node}. {remedy} [nd-not-leaf]"
    )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Variable)


def check_grad(t: Any, grad: Any) -> None:
    if not _is_tensor(grad):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}. Wrap it with "
            "as_tensor(). [nd-grad-mismatch]"
        )
    if grad is t:
        raise RuntimeError("can't assign Variable as its own grad. Assign a clone() of it. [nd-grad-mismatch]")
    if grad.device.type != t.device.type:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{grad.device.type}' to a tensor with device type "
            f"'{t.device.type}'. "
            "Move the gradient with .to() first. [nd-grad-mismatch]"
        )
    wanted = t.dtype if not t.is_leaf else t.grad_dtype
    if wanted is not None and grad.dtype != wanted:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype {grad.dtype} to a tensor with grad_dtype {wanted} (by default "
            "the tensor's dtype). Convert the gradient with .to(), or set the tensor's grad_dtype. [nd-grad-mismatch]"
        )
    if tuple(grad.shape) != tuple(t.shape):
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(grad.shape)}' to a tensor of size '{list(t.shape)}'. "
            "Give a gradient of the tensor's size. [nd-grad-mismatch]"
        )


def vmap_error(what: str) -> RuntimeError:
    return RuntimeError(
        f"vmap: {what}. Its value differs from one sample to the next, while Python sees one. "
        "Use tensor operations (where, sums, masks) instead, or do it outside of vmap. [nd-vmap-value]"
    )


def only_element(t: Any, use: str) -> Any:
    """Return the only element of a tensor as a Python number."""
    if batch_dims(t):
        raise vmap_error(f"It looks like you're attempting to use a Tensor in {use}")
    return hand_out(t, use, scalar_of(t) if t.own_dispatch else memory_of(t).item())


def hand_out(t: Any, how: str, value: Any) -> Any:
    """Return plain values taken from a tensor. Debug mode records that they left the graph."""
    if process.busy and thread.debug:
        registry.provenance.note_departure(t, how, value)
    return value


def describe_loss(lost: str) -> str:
    """Rephrase the result of `stake_of` in the words of torch's warning."""
    return "with requires_grad=True" if lost == REQUIRES_GRAD else f"that {lost}"


def scalar(t: Any) -> Any:
    if t.numel() != 1:
        raise ValueError(
            f"only one element tensors can be converted to Python scalars, but this one has shape {tuple(t.shape)}. "
            "Index or reduce it first. [nd-one-value]"
        )
    lost = stake_of(t)
    if lost is not None and not batch_dims(t):
        warn_user(
            f"Converting a tensor {describe_loss(lost)} to a scalar may lead to unexpected behavior: "
            "the number is outside the graph. Consider using tensor.detach() first."
        )
    return only_element(t, "float(), int() or complex()")


def real_scalar(t: Any) -> Any:
    value = scalar(t)
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type double without overflow: {value} has an imaginary "
                "part. Take .real or .abs(). [nd-complex]"
            )
        return value.real
    return value


def warn_deprecated(name: str, ndim: int, instead: str) -> None:
    warn_user(f"Tensor.{name} is deprecated on {ndim}-D tensors: {instead}.")


#: scipy.sparse treats this value as "not an array" and leaves a product to the other operand.
NOT_AN_ARRAY = np.empty((), object)


def is_called_by_scipy_sparse() -> bool:
    """True if a product of scipy.sparse asks for the tensor's memory: ndgrad then computes `A @ t`.

    scipy.sparse offers one way to decline: an operand that converts to a 0-d array of objects is left alone.
    """
    if "scipy.sparse" not in sys.modules:
        return False
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "ndgrad._src.tensor.public":
        frame = frame.f_back  # skip the wrapper of a public method
    return frame.f_code.co_name == "_matmul_dispatch" and "scipy" in frame.f_code.co_filename
