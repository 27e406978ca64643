"""Joining arrays, and adding or removing parts: concatenation, stacks, blocks, padding, insertion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_floating, is_inexact
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import join as ops
from ndgrad._src.ops import padding
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy import reductions, statistics
from ndgrad.numpy.coercion import (
    arrange_like,
    as_array,
    broadcast,
    constant,
    deliver,
    flat,
    holds_tensors,
    move_axis,
    one_axis,
    part,
    plain,
    shares_memory,
    take_copy,
    together,
    with_dtype,
)
from ndgrad.numpy.shapes import atleast_1d, atleast_2d, atleast_3d, expand_dims

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Dtype, Out
    from ndgrad.numpy._array import Array

__all__ = [
    "append", "block", "column_stack", "concat", "concatenate", "delete", "dstack", "hstack", "insert", "pad", "stack",
    "vstack",
]  # fmt: skip

# ----- end to end, side by side ---------------------------------------------------------------------------------------


def _parts(name: str, arrays: Any) -> list[Array]:
    found = [as_array(a) for a in arrays]
    if not found:
        raise ValueError(f"need at least one array to {name} [nd-too-few]")
    return found


def _convert_parts(found: list[Any], dtype: Dtype, casting: str) -> list[Array]:
    if dtype is None:
        return together(found)
    for t in found:
        if not np.can_cast(np_dtype(t), dtype, casting):  # type: ignore[arg-type]  # the stubs want a literal casting
            raise TypeError(
                f"Cannot cast array data from {np_dtype(t)!r} to {np.dtype(dtype)!r} according to the rule {casting!r} "
                "[nd-cast]"
            )
    return [with_dtype(t, dtype) for t in found]


def concatenate(
    arrays: Sequence[ArrayLike], /, axis: int | None = 0, out: Out = None, *, dtype: Dtype = None,
    casting: str = "same_kind",
) -> Array:  # fmt: skip
    """Join arrays along an existing axis; with axis=None they are flattened first.

    Args:
        arrays: arrays whose sizes are equal except along the axis.
        axis: axis along which to join. None flattens the arrays first.
        out: array that receives the result.
        dtype: dtype of the result. None takes the common one.
        casting: rule that limits conversions of the dtype: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.

    >>> import ndgrad.numpy as np
    >>> np.concatenate([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    found = _parts("concatenate", arrays)
    if axis is None:
        found, axis = [flat(t) for t in found], 0
    if found[0].ndim == 0:
        raise ValueError(
            "zero-dimensional arrays cannot be concatenated. Use stack(), or atleast_1d() first. [nd-ndim]"
        )
    axis = one_axis(axis, found[0].ndim)
    for position, t in enumerate(found):
        if t.ndim != found[0].ndim or any(t.shape[d] != n for d, n in enumerate(found[0].shape) if d != axis):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, "
                f"but along axis {axis} the array at index 0 has shape {found[0].shape} and the array at index "
                f"{position} has shape {t.shape} [nd-shape]"
            )
    if isinstance(out, Variable) and any(shares_memory(out, t) for t in found):
        return _join_in_turn(found, axis, out, casting)
    return deliver("concatenate", ops.cat(*_convert_parts(found, dtype, casting), dim=axis), out, casting)


def _join_in_turn(found: list[Array], axis: int, out: Any, casting: str) -> Any:
    """Write one array after the other to `out`, as NumPy does: an array inside `out` may have been overwritten by
    then.
    """
    shape, begin = list(found[0].shape), 0
    shape[axis] = sum(t.shape[axis] for t in found)
    if tuple(out.shape) != tuple(shape):
        raise ValueError(
            f"concatenate(): out= has shape {tuple(out.shape)}, and the result {tuple(shape)}. "
            "Give an out= of that shape. [nd-out]"
        )
    for t in found:
        end = begin + t.shape[axis]
        deliver("concatenate", t, out[(slice(None),) * axis + (slice(begin, end),)], casting)
        begin = end
    return out


concat = concatenate


def stack(
    arrays: Sequence[ArrayLike], axis: int = 0, out: Out = None, *, dtype: Dtype = None, casting: str = "same_kind"
) -> Array:
    """Join arrays of one shape along a new axis.

    Args:
        arrays: arrays of one shape.
        axis: position of the new axis in the result.
        out: array that receives the result.
        dtype: dtype of the result. None takes the common one.
        casting: rule that limits conversions of the dtype: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.

    >>> import ndgrad.numpy as np
    >>> np.stack([np.array([1, 2]), np.array([3, 4])])
    array([[1, 2],
           [3, 4]])
    """
    found = _parts("stack", arrays)
    if len({t.shape for t in found}) != 1:
        raise ValueError(
            f"all input arrays must have the same shape, and they have {[t.shape for t in found]} [nd-shape]"
        )
    if isinstance(out, Variable) and any(shares_memory(out, t) for t in found):
        return concatenate([expand_dims(t, axis) for t in found], axis, out, dtype=dtype, casting=casting)
    made = ops.stack(*_convert_parts(found, dtype, casting), dim=one_axis(axis, found[0].ndim + 1))
    return deliver("stack", made, out, casting)


def vstack(tup: Sequence[ArrayLike], *, dtype: Dtype = None, casting: str = "same_kind") -> Array:
    """Join arrays along the first axis; lines count as rows.

    Args:
        tup: arrays whose sizes are equal except along the first axis.
        dtype: dtype of the result. None takes the common one.
        casting: rule that limits conversions of the dtype: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.

    >>> import ndgrad.numpy as np
    >>> np.vstack([np.array([1, 2]), np.array([3, 4])])
    array([[1, 2],
           [3, 4]])
    """
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Sequence[ArrayLike], *, dtype: Dtype = None, casting: str = "same_kind") -> Array:
    """Join arrays along the second axis, lines along their only one.

    Args:
        tup: arrays whose sizes are equal except along the second axis.
        dtype: dtype of the result. None takes the common one.
        casting: rule that limits conversions of the dtype: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.

    >>> import ndgrad.numpy as np
    >>> np.hstack([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    found = [atleast_1d(a) for a in tup]
    return concatenate(found, 0 if found and found[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def dstack(tup: Sequence[ArrayLike]) -> Array:
    """Join arrays along the third axis.

    Args:
        tup: arrays whose sizes are equal except along the third axis. A line of n elements counts as (1, n, 1), a
            matrix gets a last axis of size 1.

    >>> import ndgrad.numpy as np
    >>> np.dstack([np.zeros((2, 2)), np.ones((2, 2))]).shape
    (2, 2, 2)
    """
    return concatenate([atleast_3d(a) for a in tup], 2)


def column_stack(tup: Sequence[ArrayLike]) -> Array:
    """Join arrays side by side; lines count as columns.

    Args:
        tup: lines of one length, and matrices with that number of rows.

    >>> import ndgrad.numpy as np
    >>> np.column_stack([np.array([1, 2]), np.array([3, 4])])
    array([[1, 3],
           [2, 4]])
    """
    columns = [as_array(a) for a in tup]
    return concatenate([shape_ops.reshape(t, shape=(t.size, 1)) if t.ndim < 2 else t for t in columns], 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Append values to an array; both are flattened if no axis is given.

    Args:
        arr: array at the front.
        values: array at the back.
        axis: axis along which to join. None flattens both.

    >>> import ndgrad.numpy as np
    >>> np.append(np.array([1, 2]), 3)
    array([1, 2, 3])
    """
    return concatenate((arr, values), axis)


def block(arrays: Any) -> Array:
    """Assemble an array from nested lists of blocks.

    Args:
        arrays: array, or nested lists of arrays. Innermost lists are joined along the last axis, the next ones along
            the axis before it.

    >>> import ndgrad.numpy as np
    >>> np.block([[np.eye(2), np.zeros((2, 1))]])
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    depth = _depth(arrays)
    if not depth:
        return as_array(arrays).copy()
    ndim = max(depth, *(t.ndim for t in _leaves(arrays)))
    return _blocks(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise TypeError(
            "block(): only lists can be used to arrange blocks, and a tuple was given. Use a list. [nd-type]"
        )
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("block(): List depths are mismatched: a list is empty. Give a block in each list. [nd-data]")
    depths = {_depth(a) for a in arrays}
    if len(depths) != 1:
        raise ValueError(
            f"block(): List depths are mismatched: {sorted(depths)} within one list. Nest all blocks alike. [nd-data]"
        )
    return depths.pop() + 1


def _leaves(arrays: Any) -> list[Any]:
    return [t for a in arrays for t in _leaves(a)] if isinstance(arrays, list) else [as_array(arrays)]


def _blocks(arrays: Any, depth: int, ndim: int) -> Array:
    if not isinstance(arrays, list):
        t = as_array(arrays)
        return shape_ops.reshape(t, shape=(1,) * (ndim - t.ndim) + t.shape)
    return concatenate([_blocks(a, depth - 1, ndim) for a in arrays], -depth)


# ----- taking out and putting in --------------------------------------------------------------------------------------


def _places(obj: Any, length: int) -> Any:
    """Return indices along an axis as non-negative ints; a mask selects its true elements."""
    if isinstance(obj, slice):
        return np.arange(length)[obj]
    given = np.asarray(plain(obj))
    if given.dtype.kind == "b":
        if given.shape != (length,):
            raise ValueError(f"boolean array argument must have shape ({length},), but has {given.shape}. [nd-shape]")
        return np.flatnonzero(given)
    if given.size == 0:
        given = given.astype(np.intp)
    if given.dtype.kind not in "iu":
        raise IndexError(f"places must be ints, slices or booleans, but are {given.dtype}. [nd-index]")
    return given


def delete(arr: ArrayLike, obj: int | slice | ArrayLike, axis: int | None = None) -> Array:
    """A copy without the slices at these indices along an axis.

    Args:
        arr: array to copy.
        obj: indices to leave out: an int, a slice, integers, or a mask.
        axis: axis along which to delete. None deletes from the flattened array.

    Raises:
        IndexError: if an index is out of bounds.

    >>> import ndgrad.numpy as np
    >>> np.delete(np.array([1, 2, 3]), 1)
    array([1, 3])
    """
    t = as_array(arr)
    if axis is None:
        t, axis = flat(t), 0
    axis = one_axis(axis, t.ndim)
    length = t.shape[axis]
    places = _places(obj, length)
    if (places < -length).any() or (places >= length).any():
        raise IndexError(f"index {np.ravel(places)} is out of bounds for axis {axis} with size {length} [nd-index]")
    kept = np.ones(length, bool)
    kept[places] = False
    if places.size == 1 or isinstance(obj, slice):
        return arrange_like(take_copy(t, axis, np.flatnonzero(kept)), t, "A")
    return part(t, axis, np.flatnonzero(kept))


def insert(arr: ArrayLike, obj: int | slice | ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """A copy with values inserted before these indices along an axis.

    Args:
        arr: array to copy.
        obj: indices before which to insert, counted before the insertion: an int, a slice, integers, or a mask.
        values: values, which broadcast to the inserted part and take the dtype of `arr`.
        axis: axis along which to insert. None inserts into the flattened array.

    Raises:
        IndexError: if an index is out of bounds.

    >>> import ndgrad.numpy as np
    >>> np.insert(np.array([1, 3]), 1, 2)
    array([1, 2, 3])
    """
    t = as_array(arr)
    if axis is None:
        t, axis = flat(t), 0
    axis = one_axis(axis, t.ndim)
    length = t.shape[axis]
    places = _places(obj, length)
    new = with_dtype(as_array(values), np_dtype(t))
    if places.ndim == 0:
        # For a single index, NumPy aligns the values from the first axis.
        new = shape_ops.reshape(new, shape=(1,) * (t.ndim - new.ndim) + new.shape)
        new = move_axis(new, 0, axis)
        count = new.shape[axis]
        places = np.full(count, int(places))
    else:
        places = places.ravel()
        count = len(places)
        if new.ndim < t.ndim:
            new = shape_ops.reshape(new, shape=(1,) * (t.ndim - new.ndim) + new.shape)
    if (places < -length).any() or (places > length).any():
        raise IndexError(f"index {places} is out of bounds for axis {axis} with size {length} [nd-index]")
    places = np.where(places < 0, places + length, places)
    new = broadcast(new, (*t.shape[:axis], count, *t.shape[axis + 1 :]))
    order = np.argsort(places, kind="stable")
    at = np.empty(count, np.intp)
    at[order] = places[order] + np.arange(count)
    is_new = np.zeros(length + count, bool)
    is_new[at] = True
    source = np.empty(length + count, np.intp)
    source[~is_new] = np.arange(length)
    source[at] = length + np.arange(count)
    return arrange_like(take_copy(ops.cat(t, new, dim=axis), axis, source), t, "A")


# ----- padding --------------------------------------------------------------------------------------------------------


def pad(array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Array:
    """Pad the array with margins. Gradients of elements that are copied into a margin are summed.

    Args:
        array: array to pad.
        pad_width: sizes of the margins: one number, one pair (before, after), a pair for each axis, or a dict from axes
            to these.
        mode: content of the margins: `"constant"`, `"edge"`, `"linear_ramp"`, `"maximum"`, `"mean"`, `"median"`,
            `"minimum"`, `"reflect"`, `"symmetric"`, `"wrap"`, `"empty"` (zeros here), or a function that fills one line
            in place, as in NumPy.
        **kwargs: option of the mode: `constant_values`, `end_values` (of a ramp), `stat_length` (number of elements at
            the edge that a statistic uses) or `reflect_type` (`"even"` or `"odd"`).

    >>> import ndgrad.numpy as np
    >>> np.pad(np.array([1, 2]), 1, mode="edge")
    array([1, 1, 2, 2])
    """
    t = as_array(array)
    return arrange_like(_pad(t, pad_width, mode, kwargs), t, "A")


def _pad(t: Array, pad_width: Any, mode: str | Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    widths = _widths(pad_width, t.ndim)
    if callable(mode):
        return _pad_by_function(t, widths, mode, kwargs)
    _check_options(mode, kwargs)
    if mode == "constant":
        return _pad_constant(t, widths, kwargs.get("constant_values", 0))
    for d, (before, after) in enumerate(widths):
        if (before or after) and t.shape[d] == 0 and mode != "empty":
            raise ValueError(f"can't extend empty axis {d} using modes other than 'constant' or 'empty' [nd-too-few]")
        t = _pad_axis(t, d, before, after, mode, kwargs)
    return t


_OPTIONS = {
    "constant": ("constant_values",), "linear_ramp": ("end_values",), "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",), "minimum": ("stat_length",), "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "edge": (), "wrap": (), "empty": (),
}  # fmt: skip


def _check_options(mode: str, kwargs: dict[str, Any]) -> None:
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported. Choose one of {', '.join(_OPTIONS)}. [nd-option]")
    unknown = set(kwargs) - set(_OPTIONS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown} [nd-arguments]")


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        found = [(0, 0)] * ndim
        for d, w in pad_width.items():
            found[one_axis(d, ndim)] = (w, w) if np.ndim(w) == 0 else tuple(w)
        pad_width = found
    given = np.asarray(plain(pad_width))
    if given.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type. [nd-dtype]")
    if given.size and given.min() < 0:
        raise ValueError("index can't contain negative values [nd-range]")
    pairs = (
        np.broadcast_to(given, (ndim, 2)) if given.ndim != 1 or given.shape != (1,) else np.full((ndim, 2), given[0])
    )
    return [(int(b), int(a)) for b, a in pairs]


def _pairs(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Normalise a setting that may be one value, one pair, or a pair for each axis."""
    v = as_array(values)
    whole = broadcast(v, (ndim, 2))
    return [(whole[d, 0], whole[d, 1]) for d in range(ndim)]


def _pad_constant(t: Array, widths: list[tuple[int, int]], value: Any) -> Array:
    if np.ndim(value) == 0 and not holds_tensors([value]):
        fill = np.asarray(value).astype(np_dtype(t)).item()
        return padding.constant_pad_nd(t, pads=tuple(widths), value=fill)
    values = _pairs(value, t.ndim)
    for d, (before, after) in enumerate(widths):
        ends = [
            broadcast(with_dtype(v, np_dtype(t)), (*t.shape[:d], n, *t.shape[d + 1 :]))
            for v, n in zip(values[d], (before, after))
        ]
        t = ops.cat(ends[0], t, ends[1], dim=d)
    return t


def _pad_axis(t: Array, d: int, before: int, after: int, mode: str, kwargs: dict[str, Any]) -> Array:
    n = t.shape[d]
    if mode == "empty":
        return padding.constant_pad_nd(
            t, pads=tuple((before, after) if i == d else (0, 0) for i in range(t.ndim)), value=0.0
        )
    if mode in ("edge", "wrap"):
        places = np.arange(-before, n + after)
        return part(t, d, np.clip(places, 0, n - 1) if mode == "edge" else places % n)
    if mode in ("reflect", "symmetric"):
        return _pad_mirror(t, d, before, after, mode, kwargs.get("reflect_type", "even"))
    if mode == "linear_ramp":
        return _pad_ramp(t, d, before, after, _pairs(kwargs.get("end_values", 0), t.ndim)[d])
    return _pad_statistic(t, d, before, after, mode, kwargs.get("stat_length"))


def _pad_mirror(t: Array, d: int, before: int, after: int, mode: str, reflect_type: str) -> Array:
    """Pad by mirroring: indices beyond the ends are reflected repeatedly. An odd mirror also reflects the values about
    the edge.
    """
    n = t.shape[d]
    places = np.arange(-before, n + after)
    if n == 1 and mode == "reflect":
        return part(t, d, np.zeros(len(places), np.intp))
    period = 2 * n - (2 if mode == "reflect" else 0)
    phase = places % period
    index = np.where(phase < n, phase, period - phase - (0 if mode == "reflect" else 1))
    if reflect_type == "even":
        return part(t, d, index)
    # The result is value(index) = +-value(source) + constant * edges: each crossing of an edge with value e maps v to 2
    # e - v.
    first, last = part(t, d, slice(0, 1)), part(t, d, slice(n - 1, n))
    sign, of_first, of_last = np.ones(len(places)), np.zeros(len(places)), np.zeros(len(places))
    for k, place in enumerate(places):
        s, a, b, p = 1.0, 0.0, 0.0, int(place)
        while not 0 <= p < n:
            if p < 0:
                a, p = a + 2 * s, -p - (0 if mode == "reflect" else 1)
            else:
                b, p = b + 2 * s, 2 * (n - 1) - p + (0 if mode == "reflect" else 1)
            s = -s
        sign[k], of_first[k], of_last[k], index[k] = s, a, b, p
    along = (len(places), *(1,) * (t.ndim - d - 1))
    dtype = np_dtype(t)
    weights = (constant(w.reshape(along).astype(dtype)) for w in (sign, of_first, of_last))
    signed, from_first, from_last = (w * v for w, v in zip(weights, (part(t, d, index), first, last), strict=True))
    return signed + from_first + from_last


def _pad_ramp(t: Array, d: int, before: int, after: int, ends: tuple[Any, Any]) -> Array:
    """Pad linearly from the end value to the edge of the array, which itself is not repeated."""
    dtype, n = np_dtype(t), t.shape[d]
    ramps = []
    for edge, end, weight in (
        (part(t, d, slice(0, 1)), ends[0], np.arange(before) / max(before, 1)),
        (part(t, d, slice(n - 1, n)), ends[1], np.arange(after)[::-1] / max(after, 1)),
    ):
        ramp = end + (edge - end) * constant(weight.reshape((len(weight), *(1,) * (t.ndim - d - 1))))
        ramps.append(with_dtype(ramp, dtype))
    return ops.cat(ramps[0], t, ramps[1], dim=d)


def _pad_statistic(t: Array, d: int, before: int, after: int, mode: str, length: Any) -> Array:
    n = t.shape[d]
    lengths = (
        [(n, n)] * t.ndim
        if length is None
        else [tuple(int(v) for v in pair) for pair in np.broadcast_to(np.asarray(plain(length)), (t.ndim, 2))]
    )
    functions: dict[str, Any] = {
        "maximum": reductions.max, "minimum": reductions.min, "mean": reductions.mean, "median": statistics.median,
    }  # fmt: skip
    made = []
    for side, count, chosen in ((0, before, min(lengths[d][0], n)), (1, after, min(lengths[d][1], n))):
        if chosen <= 0:
            raise ValueError(f"stat_length of {chosen} yields no value for padding. Give a positive one. [nd-range]")
        piece = part(t, d, slice(0, chosen) if side == 0 else slice(n - chosen, n))
        value = functions[mode](piece, axis=d, keepdims=True)
        if not is_inexact(np_dtype(t)) and is_floating(np_dtype(value)):
            value = np.rint(value)
        made.append(broadcast(with_dtype(value, np_dtype(t)), (*t.shape[:d], count, *t.shape[d + 1 :])))
    return ops.cat(made[0], t, made[1], dim=d)


def _pad_by_function(
    t: Array, widths: list[tuple[int, int]], function: Callable[..., Any], kwargs: dict[str, Any]
) -> Array:
    """Let the user's function fill the margins of each line in place, which Arrays record."""
    padded = padding.constant_pad_nd(t, pads=tuple(widths), value=0.0).copy()
    for d in range(t.ndim):
        rows = move_axis(padded, d, t.ndim - 1)
        for index in np.ndindex(*rows.shape[:-1]):
            function(rows[index], widths[d], d, kwargs)
    return padded
