"""Argument handling of NumPy's functions: conversion to arrays, axes, and output.

NumPy's functions take anything like an array. Here everything that can carry a derivative becomes an `Array`. Values
that cannot (strings, dates, records, objects), and classes with a meaning of their own (masks, matrices, other
libraries' arrays), are never converted silently.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ndgrad._src.arrays.precision import is_inexact, is_number, result_dtype
from ndgrad._src.core.borrowed_memory import wrap_lent
from ndgrad._src.core.detach_checks import first_at_stake, stake_of
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.open_levels import birth_level
from ndgrad._src.core.plain_arrays import NotNumbers, check_plain
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, wrap
from ndgrad._src.debug.scipy_calls import lift_line
from ndgrad._src.foundations import devices
from ndgrad._src.ops import cast as cast_ops
from ndgrad._src.ops import comparison as comparison_ops
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.ops import gather as gather_ops
from ndgrad._src.ops import join as join_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.ops import slices as slice_ops
from ndgrad._src.tensor.arguments import keywords_of, rename_keywords, takes_any_keyword
from ndgrad._src.tensor.checks import vmap_error
from ndgrad._src.tensor.storage import batch_dims, memory_of, sample_of, values_to_check
from ndgrad.numpy._array import Array, as_no_numbers, to_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Axes, Axis, Device, Dtype, Out


# ----- what counts as an array ---------------------------------------------------------------------------------------


def as_array(x: ArrayLike) -> Array:
    """Convert anything like an array to an Array that shares its memory and graph, if it has one."""
    if x.__class__ is Array:
        return x
    if isinstance(x, Variable):
        return to_array(x)
    if isinstance(x, np.ndarray):
        t = wrap_lent(Array, check_plain(x))
        if thread.levels:
            meta_of(t).made_in = thread.levels[-1].number
        return t
    if isinstance(x, (list, tuple)) and holds_tensors(x):
        return stack_items(x)
    if x.__class__ not in _PLAIN_VALUES:
        if is_other_array(x):
            raise OtherArray(f"{type(x).__qualname__} has functions of its own for NumPy's [nd-dispatch]")
        if getattr(type(x), "stands_for_numbers", False):
            return x.as_array(Array)  # type: ignore[union-attr]  # a LoopNumber of the compiler
        if hasattr(type(x), "__array__") and not isinstance(x, np.generic):
            inner: Any = x.__array__()  # type: ignore[union-attr]
            return to_array(inner) if isinstance(inner, Variable) else constant(check_plain(np.asarray(inner)))
    return constant(check_plain(np.asarray(x)))


_PLAIN_VALUES = frozenset((bool, int, float, complex, list, tuple, np.float64, np.int64, np.bool_))


class OtherArray(NotNumbers):
    """An argument is an array of another library, whose class implements NumPy's functions."""


def is_other_array(x: object) -> bool:
    """True if the class of an argument implements NumPy's functions itself: a quantity with a unit, an array of another
    library, or a lifted subclass of ndarray."""
    if isinstance(x, Variable):
        return hasattr(x, "follows_numpy_subclass")
    kind = type(x)
    return (
        hasattr(kind, "__array_function__")
        and getattr(kind, "__array_ufunc__", None) is not None
        and not isinstance(x, (np.ndarray, np.generic))
    )


def constant(values: Any) -> Array:
    """Return an Array over a NumPy array, outside every graph."""
    t = wrap(Array, values)
    if process.open or thread.levels:
        meta_of(t).made_in = birth_level()
    return t


def holds_tensors(items: Iterable[Any]) -> bool:
    """True if nested sequences contain a tensor."""
    return any(isinstance(i, Variable) or (isinstance(i, (list, tuple)) and holds_tensors(i)) for i in items)


def stack_items(items: Sequence[Any]) -> Array:
    """Stack nested sequences of tensors and numbers into one Array."""
    parts = [as_array(i) for i in items]
    shapes = {p.shape for p in parts}
    if len(shapes) > 1:
        raise ValueError(
            "setting an array element with a sequence: the requested array has an inhomogeneous shape (parts have "
            f"shapes {sorted(shapes)}). Give parts of one shape. [nd-data]"
        )
    return arrange(join_ops.stack(*together(parts), dim=0))


def together(parts: Sequence[Array]) -> list[Array]:
    """Convert arrays to their common dtype by NumPy's promotion."""
    dtype = result_dtype(*(np_dtype(p) for p in parts))
    return [with_dtype(p, dtype) for p in parts]


def operands(*values: ArrayLike) -> list[Array]:
    """Return the operands of an expression as Arrays of one dtype, which Python numbers do not influence, as in
    NumPy.
    """
    found = [v if v.__class__ in (bool, int, float, complex) else as_array(v) for v in values]
    dtype = result_dtype(*(np_dtype(v) if isinstance(v, Variable) else v for v in found))
    return [with_dtype(v, dtype) if isinstance(v, Variable) else constant(np.asarray(v, dtype)) for v in found]


def with_detour(function: Callable[..., Any], theirs: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function to also accept torch's keywords. If its arguments are strings, dates, records or objects and none
    is a tensor, NumPy's function runs instead.
    """
    known, options = keywords_of(function), takes_any_keyword(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not options and not kwargs.keys() <= known:
            if isinstance(kwargs.get("like"), (Array, np.ndarray)):
                kwargs = {k: v for k, v in kwargs.items() if k != "like"}  # results are Arrays
            kwargs = rename_keywords(function, known, kwargs)
        try:
            return function(*args, **kwargs)
        except OtherArray:
            return theirs(*args, **kwargs)
        except NotNumbers:
            if holds_tensors((*args, *kwargs.values())):
                raise
            return theirs(*args, **kwargs)

    # The name under which users and pickles find it, also a second name (`amax` is our `max`).
    call.__module__, call.__name__, call.__qualname__ = "ndgrad.numpy", name, name
    call.without_detour = function  # type: ignore[attr-defined]  # functions take attributes
    return call


# ----- dtypes ---------------------------------------------------------------------------------------------------------


def with_dtype(t: Array, dtype: Dtype) -> Array:
    """Return the Array in another dtype; None leaves it unchanged."""
    if dtype is None or np_dtype(t) == (wanted := np.dtype(dtype)):
        return t
    return cast_ops.cast(t, dtype=wanted) if is_number(wanted) else as_no_numbers(t, wanted)


def inexact(t: Array, dtype: Dtype = None) -> Array:
    """Convert for means and deviations: to the given dtype, else integers and booleans to float64."""
    return with_dtype(t, dtype if dtype is not None or is_inexact(np_dtype(t)) else np.float64)


# ----- devices --------------------------------------------------------------------------------------------------------


def on_device(t: Array, device: Device) -> Array:
    """Return the Array on a device; None leaves it in place."""
    return t if device is None else t.to(devices.device(device))


# ----- values, where a decision is made by them -----------------------------------------------------------------------


def values_of(x: ArrayLike) -> NDArray[Any]:
    """Return the plain values of an argument, for results without a derivative (indices, counts, booleans)."""
    if not isinstance(x, Variable):
        return np.asarray(x)
    if batch_dims(x):
        raise vmap_error("the values of a batched array decide what is computed")
    memory = memory_of(x)
    known = memory.constant_array if getattr(memory, "is_traced", False) else None  # constants of a trace
    return memory if known is None else known.copy()


def truth_of(mask: ArrayLike) -> Array:
    """Return a mask as booleans."""
    t = as_array(mask)
    return t if np_dtype(t).kind == "b" else comparison_ops.ne(t, 0)


def surely(condition: Array) -> bool:
    """True if a condition is known to hold for some element; inside vmap nothing is known."""
    return not batch_dims(condition) and bool(values_to_check(condition).any())


def plain(x: Any) -> Any:
    """Replace tensors by plain values, in an argument or a structure of arguments."""
    if isinstance(x, Variable):
        return values_of(x)
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(plain(i) for i in x)
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def as_arrays(x: Any) -> Any:
    """Replace arrays of numbers by Arrays, in a result of NumPy or a structure of results."""
    if isinstance(x, np.ndarray):
        return constant(x) if is_number(x.dtype) else x
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(as_arrays(i) for i in x))
    return type(x)(as_arrays(i) for i in x) if isinstance(x, (list, tuple)) else x


# ----- axes -----------------------------------------------------------------------------------------------------------


def one_axis(axis: SupportsIndex, ndim: int) -> int:
    """Return a non-negative axis; raise NumPy's AxisError if it does not exist."""
    return normalize_axis_index(operator.index(axis), ndim)


def many_axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Return non-negative axes; None means all. In reductions a 0-d array has an axis 0, as in NumPy."""
    if axis is None:
        return tuple(range(ndim))
    if ndim == 0 and not isinstance(axis, Sequence) and operator.index(axis) in (0, -1):
        return ()
    return tuple(normalize_axis_tuple(axis, ndim))


def swept(t: Array, axis: Axis) -> tuple[Array, int]:
    """Return the array and the axis for a function that flattens if no axis is given."""
    if axis is None:
        return flat(t), 0
    return t, one_axis(axis, t.ndim)


def swept_line(t: Array, axis: Axis) -> tuple[Array, int]:
    """Same as `swept`, for a function that treats a 0-d array as a line of one element, as in NumPy."""
    return swept(t, None if t.ndim == 0 and axis in (0, -1) else axis)


def flat(t: Array) -> Array:
    return t if t.ndim == 1 else shape_ops.reshape(t, shape=(t.size,))


def shares_memory(t: Array, other: Array) -> bool:
    """True if both are the same array, or views of one array."""
    return t is other or (t._storage is not None and t._storage is other._storage)


def permute(t: Array, order: Sequence[int]) -> Array:
    order = tuple(order)
    return t if order == tuple(range(t.ndim)) else shape_ops.permute(t, dims=order)


def move_axis(t: Array, source: int, destination: int) -> Array:
    """Move one axis."""
    source, destination = one_axis(source, t.ndim), one_axis(destination, t.ndim)
    order = [d for d in range(t.ndim) if d != source]
    order.insert(destination, source)
    return permute(t, order)


def part(t: Array, axis: int, where: Any) -> Array:
    """Return `t[..., where, ...]` with `where` along one axis."""
    return t[(slice(None),) * axis + (where,)]


def take_copy(t: Array, axis: int, places: Any) -> Array:
    """Return a new array, in C order, of the elements at indices along one axis: NumPy's take, which never returns a
    view.
    """
    places = places if isinstance(places, Variable) else constant(np.asarray(places))
    shape, length = tuple(places.shape), t.shape[axis]
    line = places if len(shape) == 1 else shape_ops.reshape(places, shape=(math.prod(shape),))
    made = slice_ops.index_select(t, gather_ops.wrap_index(line, length=length), dim=axis)
    return made if len(shape) == 1 else shape_ops.reshape(made, shape=(*t.shape[:axis], *shape, *t.shape[axis + 1 :]))


def broadcast(t: Array, shape: tuple[int, ...]) -> Array:
    return t if t.shape == shape else shape_ops.expand(t, shape=shape)


# ----- memory order ---------------------------------------------------------------------------------------------------


def order_like(sample: NDArray[Any], order: str = "K", ndim: int | None = None) -> tuple[int, ...]:
    """Return the dimensions, from the slowest to the fastest, of the array that NumPy creates for a sample with this
    memory layout.
    """
    dims = tuple(range(sample.ndim if ndim is None else ndim))
    if order == "C" or (order == "K" and (len(dims) != sample.ndim or sample.flags.c_contiguous)):
        return dims
    if order == "F" or (order == "A" and sample.flags.fnc) or (order == "K" and sample.flags.f_contiguous):
        return dims[::-1]
    return tuple(sorted(dims, key=lambda d: -abs(sample.strides[d]))) if order == "K" else dims


def arrange(t: Array, order: tuple[int, ...] | None = None) -> Array:
    """Return the Array if its memory is dense with its dimensions in an order (by default C's), else such a copy.

    The order of NumPy's results decides whether a later reshape is a view, through which writes are visible. This
    function gives ours the same order.
    """
    sample = sample_of(t)
    order = tuple(range(t.ndim)) if order is None else order
    step = sample.itemsize
    for d in reversed(order):
        if sample.shape[d] > 1 and sample.strides[d] != step:
            return cast_ops.clone_ordered(t, order=order)
        step *= sample.shape[d]
    return t


def arrange_like(t: Array, source: Array, order: str = "K") -> Array:
    """Return the Array in the memory order of NumPy's `empty_like(source, order=order, shape=t.shape)`."""
    return arrange(t, order_like(sample_of(source), order, t.ndim)) if t.ndim > 1 else arrange(t)


# ----- results --------------------------------------------------------------------------------------------------------


def deliver(name: str, result: Array, out: Out, casting: str = "same_kind", broadcasts: bool = False) -> Array:
    """Return the result, or write it to `out` and return that: with its history into a tensor, as plain values into an
    ndarray. With `broadcasts`, `out` may have more dimensions, as for ufuncs.
    """
    if out is None:
        return result
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError(f"{name}(): out= has {len(out)} arrays, and there is one result. Pass one array. [nd-out]")
        return deliver(name, result, out[0], casting, broadcasts)
    if isinstance(out, Variable):
        _check_out(name, result, tuple(out.shape), np_dtype(out), casting, broadcasts)
        return write(fill_ops.copy, out, (result,), {})
    if not isinstance(out, np.ndarray):
        raise TypeError(
            f"{name}(): out= must be an array, but is a {type(out).__name__}. Pass an Array, or leave it out. [nd-out]"
        )
    refuse_loss_in_memory(name, out, result)
    _check_out(name, result, out.shape, out.dtype, casting, broadcasts)
    out[...] = values_of(result)
    return out  # type: ignore[return-value]  # what was passed


def _check_out(name: str, result: Array, shape: tuple[int, ...], dtype: Dtype, casting: str, broadcasts: bool) -> None:
    if not np.can_cast(np_dtype(result), dtype, casting):  # type: ignore[arg-type]  # the stubs want a literal casting
        raise TypeError(
            f"{name}(): cannot cast the result from {np_dtype(result)!r} to {dtype!r} of out= with casting rule "
            f"{casting!r}. Give an out= that holds the result, or casting='unsafe'. [nd-out]"
        )
    have = tuple(result.shape)
    fits = len(have) <= len(shape) and all(h in (1, s) for h, s in zip(have[::-1], shape[::-1], strict=False))
    if not fits or (have != shape and not broadcasts):
        raise ValueError(
            f"{name}(): non-broadcastable output operand with shape {shape} doesn't match the broadcast shape {have}. "
            "Give an out= of that shape. [nd-out]"
        )


def refuse_loss_in_memory(name: str, out: Any, *values: object) -> None:
    """Raise if a value to be written into plain memory has a graph that memory cannot keep."""
    lost = first_at_stake(*values)
    if lost is not None:
        raise RuntimeError(
            f"{name}: what is written {stake_of(lost)} (shape {tuple(lost.shape)}), and the target is a plain "
            f"numpy.ndarray (shape {tuple(out.shape)}), which has no graph: the derivative would be lost. "
            "Make the buffer with ndgrad.numpy (zeros, array), or write x = x + y instead of x += y; "
            f"for values without derivatives, detach() the tensor.{lift_line()} [nd-drops-gradient]"
        )


