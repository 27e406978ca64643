"""The end of gradients: addition to a leaf's `.grad`.

Note [Steal or copy]
The first gradient becomes `.grad` itself if its array is not shared and has the memory layout of `.grad`. That is the
layout of the leaf if the leaf is dense (so that optimizers run over both in one pass), otherwise C order. Otherwise the
gradient is copied: two leaves must never share one `.grad` (`a + b` passes the same gradient to both), and `.grad` must
not alias a buffer that the engine or the user still holds. Sharing is detected by the reference count, as in torch.
Gradients that `autograd.grad` and `func.vjp` return have the same layout (`lay_out_as_inputs`), so that it does not
depend on how a rule computes them. Under create_graph they have the layout of the ops that compute them.
Later gradients are added in place, so `.grad` stays the same object, except under create_graph, where the sum is a new
tensor.

Threads may bring gradients to one leaf at the same time. Slow steps and user code run outside the leaf's lock. Only the
check of `.grad`, the exchange, and the addition in place run under it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ndgrad._src.arrays import copies
from ndgrad._src.arrays.device_kernels import copy_array
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.layout import copy_in_order, is_dense_in, order_of
from ndgrad._src.core.modes import thread
from ndgrad._src.core.references import LOCAL
from ndgrad._src.core.sparse_gradients import is_structured, wrap_gradient
from ndgrad._src.core.subclass import as_type_of, has_dispatch
from ndgrad._src.core.variable import Variable, innermost_array, lock_of, meta_of, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.core.view import tangents_of


class Counts:
    """Reference counts of a gradient that only the engine holds: an array in `is_exclusive`, a tensor in
    `accumulate_tensor`.

    The engine measures them (see ndgrad._src.core.references). With 0, no gradient is stolen.
    """

    __slots__ = ("array", "seen", "tensor")

    def __init__(self) -> None:
        self.array = self.tensor = 0
        #: the last count that was too large
        self.seen = 0


counts = Counts()


def accumulate_array(node: Any, array: Any, may_steal: bool = True) -> None:
    """Add a raw gradient to the leaf's `.grad`. Without `may_steal`, a tensor elsewhere also holds it."""
    variable = node.variable
    meta = variable._meta
    if meta.reshapes:
        array = to_present_shape(node, array)
    if not meta.requires_grad:  # requires_grad_(False) or detach_() was called after the forward
        check_still_leaf(variable)
        return
    if meta.grad is None:
        stolen = (
            may_steal
            and is_exclusive(array)
            and (array.ndim < 2 or lies_like(array, variable._array) or not thread.enforce_grad_layout)
        )
        tensor_type = TENSOR_TYPES.get(variable.__class__) or variable.tensor_type
        made = wrap(tensor_type, array) if stolen else wrap_gradient(tensor_type, copy_like(array, variable._array))
        with lock_of(variable):
            if meta.grad is None:
                meta.grad = made
                return
    with lock_of(variable):
        grad = meta.grad
        if grad is None:  # removed by other code in the meantime
            meta.grad = wrap_gradient(variable.tensor_type, copy_like(array, variable._array))
        elif can_add_in_place(grad):
            storage = storage_of(grad)
            target = grad._array
            if storage.keeps:
                storage.store_before_write(target)
            target += array
            storage.bump("AccumulateGrad")
        else:
            meta.grad = wrap_gradient(variable.tensor_type, grad._array + array)


def accumulate_tensor(node: Any, g: Any) -> None:
    """Add a tensor gradient, which may have its own history, to the leaf's `.grad`."""
    variable = node.variable
    bare = (
        not isinstance(g._array, Variable)
        and not has_dispatch(g.__class__)
        and (g._meta is None or not g._meta.batch_level)
    )
    if not thread.grad_enabled and bare:
        count = sys.getrefcount(g)
        if count > counts.tensor:
            counts.seen = count
        accumulate_array(node, g._array, count <= counts.tensor)
        return
    meta = meta_of(variable)
    if meta.reshapes:
        g = to_present_shape(node, g)
    if not meta.requires_grad:
        check_still_leaf(variable)
        return
    if g._meta is not None and g._meta.batch_level:
        raise RuntimeError(
            f"backward() inside vmap reached a leaf of shape {tuple(variable.shape)} outside of it, "
            "and a batch of gradients cannot be added to its .grad. Use autograd.grad(), which returns them, "
            "or reduce the output over the batch first. [nd-in-transform]"
        )
    made = first = None
    while True:  # repeat if `.grad` changed while the sum was computed
        before = meta.grad
        if before is None:
            made = first = recorded_copy(g, variable) if first is None else first
        else:
            made = as_type_of(before + g, variable)
        with lock_of(variable):
            if meta.grad is before:
                meta.grad = made
                return


def check_still_leaf(variable: Any) -> None:
    if variable._node is not None:
        raise RuntimeError(
            f"a leaf of shape {tuple(variable.shape)} has been moved into the graph interior: after the forward "
            "it was detached in place and then overwritten, so its .grad would belong to another value. "
            "Use detach() or clone() instead of detach_(). [nd-leaf-write]"
        )


# ----- leaves that have changed their own shape in place (see _src.core.inplace_shape) --------------------------------


def former_accumulators(t: Any) -> list[Any]:
    """Return the accumulators of a leaf's former shapes that are still part of a graph."""
    meta = t._meta if isinstance(t, Variable) else None
    known = () if meta is None else meta.reshapes
    return [] if not known else [node for node in (ref and ref() for ref, _, _ in known) if node is not None]


def to_present_shape(node: Any, g: Any) -> Any:
    """Return a gradient of a leaf's former shape with the leaf's later shape changes applied."""
    reached = False
    for ref, op, settings in node.variable._meta.reshapes:
        reached = reached or (ref is not None and ref() is node)
        if reached:
            g = op(g, **settings) if isinstance(g, Variable) else op.forward_for(library_of(g))(g, **settings)
    return g


# ----- steal, copy or add ---------------------------------------------------------------------------------------------


def is_exclusive(array: Any) -> bool:
    """True if the memory of a gradient is not shared, so that it may become `.grad` without a copy."""
    cls = array.__class__
    on_device = cls is not np.ndarray and is_on_device(array)
    if cls is not np.ndarray and not on_device and not isinstance(array, np.ndarray):
        return isinstance(array, np.generic)  # a scalar cannot be changed
    count = sys.getrefcount(array)
    if count > counts.array:
        counts.seen = count
        return False
    base = array.base
    if base is None:
        return on_device or array.flags.writeable
    # A reshaped result covers its whole base, which only this view (and the local variable) holds.
    return (
        (base.__class__ is cls if on_device else isinstance(base, np.ndarray))
        and base.base is None
        and base.size == array.size
        and sys.getrefcount(base) <= LOCAL + 1
        and array.flags.c_contiguous
        and (on_device or array.flags.writeable)
    )


def can_add_in_place(grad: Any) -> bool:
    """True if `.grad`, which a user may have set, can be added to in place: a writable array without overlaps."""
    if grad._array.__class__ is np.ndarray:
        array = grad._array
        return array.flags.writeable and (0 not in array.strides or is_dense(array))
    return not isinstance(grad._array, Variable) and not is_structured(grad._array)


def is_dense(array: Any) -> bool:
    """True if an array fills its memory without gaps or overlaps, in some order of its dimensions."""
    flags = array.flags
    if flags.c_contiguous or flags.f_contiguous:
        return True
    expected = array.itemsize
    for stride, length in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= length
    return True


def lies_like(array: Any, leaf: Any) -> bool:
    """True if a gradient has the memory layout of the `.grad` of `leaf` (see Note [Steal or copy])."""
    if array.ndim < 2:
        return True  # an unshared array has no gaps
    if array.flags.c_contiguous:
        return leaf.flags.c_contiguous or not is_dense(leaf)
    return bool(is_dense(leaf) and array.strides == leaf.strides)


def copy_like(array: Any, leaf: Any) -> Any:
    """Return a copy of a gradient with the memory layout of the `.grad` of `leaf`."""
    if array.ndim < 2 or is_structured(array) or leaf.flags.c_contiguous or not is_dense(leaf):
        if is_on_device(array):
            return copy_array(library_of(array), array)
        if array.__class__ is np.ndarray:
            return copies.copy_in_order(array)
        return array.copy("C") if array.ndim else array.copy()
    out = library_of(array).empty_like(leaf, dtype=array.dtype)
    out[...] = array
    return out


def lay_out_as_inputs(found: list[Any], inputs: list[Any]) -> list[Any]:
    """Return requested gradients with the memory layout that the `.grad` of each input would have."""
    #: One copy of each gradient for each order: two inputs may share a gradient.
    copies: dict[tuple[int, Any], Any] = {}
    return [
        g if g is None or not isinstance(t, Variable) else _lay_out_as(g, t, copies)
        for g, t in zip(found, inputs, strict=True)
    ]


def _lay_out_as(g: Any, t: Any, copies: dict[tuple[int, Any], Any]) -> Any:
    if _is_certainly_laid_out(g, t._array):  # the most common case
        return g
    is_tensor = isinstance(g, Variable)
    array, leaf = innermost_array(g) if is_tensor else g, innermost_array(t)
    if not _has_layout(array, leaf) or (is_tensor and has_dispatch(g.__class__)):
        return g
    order = order_of(t) if is_dense(leaf) else None
    if is_tensor:
        is_same = all(_is_certainly_in(part, len(g.shape), order) for part in _arrays_of(g))
    else:
        is_same = lies_like(array, leaf) if array.ndim > 1 else array.flags.c_contiguous
    if is_same:
        return g
    key = id(g), order
    if key not in copies:
        copies[key] = _copy_in(order, g, array) if is_tensor else copy_like(array, leaf)
    return copies[key]


def _is_certainly_laid_out(g: Any, leaf: Any) -> bool:
    """True if a gradient and the array of its input are plain arrays in row-major order."""
    if g.__class__ is np.ndarray and leaf.__class__ is np.ndarray:
        return not g.ndim or (g.flags.c_contiguous and leaf.flags.c_contiguous)
    return is_on_device(g) and is_on_device(leaf) and bool(g._c_contiguous and leaf._c_contiguous)


def _has_layout(array: Any, leaf: Any) -> bool:
    """True if the gradient of a leaf is an array whose memory layout can differ from that of the leaf."""
    if not array.ndim or is_structured(array) or is_structured(leaf):
        return False
    is_meta = getattr(array, "is_meta", False) or getattr(leaf, "is_meta", False)
    return not is_meta or getattr(array, "is_traced", False)


def _copy_in(order: Any, g: Variable, array: Any) -> Any:
    """Return a copy of a tensor in an order of its dimensions. A trace needs no instruction for a plain copy."""
    is_plain = array is g._array and g._node is None and g._meta is None
    if getattr(array, "is_traced", False) and order is None and is_plain:
        return wrap(g.tensor_type, array.copy())
    return copy_in_order(g, order)


def _arrays_of(t: Any) -> Iterator[Any]:
    """Yield the arrays under all levels of a tensor and of its tangents.

    Tangents of other interpreters (index sets, Taylor series) are no tensors, and have no layout.
    """
    while isinstance(t, Variable):
        for tangent in (tangents_of(t) or {}).values():
            if isinstance(tangent, Variable):
                yield from _arrays_of(tangent)
        t = t._array
    yield t


def _is_certainly_in(array: Any, ndim: int, order: Any) -> bool:
    """True if an array is dense in an order of its last `ndim` dimensions, and in a trace if that is not only assumed.
    """
    if not getattr(array, "is_traced", False):
        return is_structured(array) or is_dense_in(array, ndim, order)
    return not array.is_assumed and is_dense_in(array.stand_in(), ndim, order)


def recorded_copy(g: Any, leaf: Any) -> Any:
    """Same as `copy_like`, under create_graph."""
    return as_type_of(copy_in_order(g, order_of(leaf)), leaf)


def convert_types(found: list[Any], inputs: list[Any]) -> list[Any]:
    """Return requested gradients as tensors of the classes of the inputs."""
    return [
        as_type_of(g, t) if isinstance(g, Variable) and isinstance(t, Variable) else g
        for g, t in zip(found, inputs, strict=True)
    ]


