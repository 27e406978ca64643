"""Reading and writing at indices: take, put, choose, where, masks, diagonals; and functions that write into their
argument.

Functions that write take Arrays and record the write. A plain ndarray has no graph to record in, so writing a value
that requires grad into one raises.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import arithmetic, comparison, gather, scan, selection
from ndgrad._src.ops import cast as cast_ops
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.storage import is_open, sample_of, values_to_check
from ndgrad.numpy.coercion import (
    arrange,
    as_array,
    as_arrays,
    broadcast,
    constant,
    deliver,
    flat,
    one_axis,
    operands,
    plain,
    refuse_loss_in_memory,
    shares_memory,
    swept_line,
    take_copy,
    truth_of,
    values_of,
    with_dtype,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Axis, Dtype, Out, Shape
    from ndgrad.numpy._array import Array

__all__ = [
    "argwhere", "choose", "compress", "copyto", "diag_indices_from", "extract", "fill_diagonal", "flatnonzero", "ix_",
    "nonzero", "piecewise", "place", "put", "put_along_axis", "putmask", "ravel_multi_index", "select", "take",
    "take_along_axis", "tril_indices_from", "triu_indices_from", "unravel_index", "where",
]  # fmt: skip

# ----- choosing between arrays ----------------------------------------------------------------------------------------


@overload
def where(condition: ArrayLike, /) -> tuple[Array, ...]: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
def where(condition: ArrayLike, /, *values: ArrayLike) -> Any:
    """`x` if the condition is true, else `y`, elementwise; with the condition alone, the indices of true elements.

    Args:
        condition: mask. Numbers other than 0 count as true.
        *values: nothing, or the two arrays `x` and `y`, which broadcast with the condition.

    Returns:
        An Array, or without `values` a tuple of indices as from `nonzero`.

    >>> import ndgrad.numpy as np
    >>> np.where(np.array([True, False]), 1.0, np.array([3.0, 4.0]))
    array([1., 4.])
    """
    if not values:
        return nonzero(condition)
    if len(values) != 2:
        raise ValueError("either both or neither of x and y should be given [nd-exclusive]")
    mask = as_array(condition)
    mask = mask if np_dtype(mask).kind == "b" else comparison.ne(mask, 0)
    return selection.where(mask, *operands(*values))


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """The first of several choices whose condition is true, else the default.

    Args:
        condlist: masks of dtype bool.
        choicelist: an array for each mask.
        default: value of elements for which all masks are false.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> np.select([x < 2, x > 2], [x, -x], 0.0)
    array([ 1.,  0., -3.])
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions [nd-shape]")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible [nd-too-few]")
    *choices, result = operands(*choicelist, default)
    for condition, choice in zip(reversed(list(condlist)), reversed(choices), strict=True):
        mask = as_array(condition)
        if np_dtype(mask).kind != "b":
            raise TypeError(f"invalid entry in condlist: should be boolean ndarray, but is {np_dtype(mask)} [nd-dtype]")
        result = selection.where(mask, choice, result)
    return arrange(broadcast(result, np.broadcast_shapes(result.shape, *(np.shape(c) for c in condlist))))


def choose(a: ArrayLike, choices: Sequence[ArrayLike], out: Out = None, mode: str = "raise") -> Array:
    """Elements of the choices, selected by the numbers in `a`.

    Args:
        a: integers, each the number of a choice.
        choices: arrays, which broadcast with `a` and with each other.
        out: array that receives the result.
        mode: treatment of numbers outside the choices: `"raise"`, `"wrap"` (modulo their count) or `"clip"` (the
            nearest one). Negative numbers do not count from the end.

    >>> import ndgrad.numpy as np
    >>> np.choose([0, 1], [np.array([1, 2]), np.array([30, 40])])
    array([ 1, 40])
    """
    stacked = operands(*choices)
    seen = values_to_check(a) if isinstance(a, Variable) else np.asarray(a)
    if mode == "raise" and seen is not None and ((seen < 0) | (seen >= len(stacked))).any():
        raise ValueError(
            f"choose(): invalid entry in choice array: a number is outside 0 to {len(stacked) - 1}. Choose mode='wrap' "
            "or 'clip', or correct the numbers. [nd-index]"
        )
    number: Any = (
        _fit_open_indices(a, len(stacked), mode) if is_open(a) else _fit_indices(values_of(a), len(stacked), mode)
    )
    shape = np.broadcast_shapes(number.shape, *(t.shape for t in stacked))
    result = stacked[0] if len(stacked) > 1 else stacked[0].copy()
    result = broadcast(result, shape)
    for k, t in enumerate(stacked[1:], 1):
        result = selection.where(broadcast(as_array(number == k), shape), t, result)
    return deliver("choose", arrange(result), out)


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Apply each function to the elements for which its condition is true; a last function without condition takes the
    rest.

    Args:
        x: array of arguments.
        condlist: mask, or a list of masks. If several are true, the last one decides.
        funclist: a function of the chosen elements, or a number, for each mask. One more is used for the rest.
        *args: further arguments passed on to the functions.
        **kw: keyword arguments passed on to the functions.

    >>> import ndgrad.numpy as np
    >>> x = np.array([-2.0, 2.0])
    >>> np.piecewise(x, [x < 0], [lambda v: -v, lambda v: v * v])
    array([2., 4.])
    """
    t = as_array(x)
    conditions = condlist
    several = isinstance(condlist, (list, tuple)) and any(isinstance(c, Variable) for c in condlist)
    if not several and (
        np.ndim(condlist) == 0 or (not isinstance(condlist[0], (list, Variable, np.ndarray)) and t.ndim != 0)
    ):
        conditions = [condlist]
    masks = [np.broadcast_to(np.asarray(values_of(c), bool), t.shape) for c in conditions]
    functions = list(funclist)
    if len(functions) == len(masks) + 1:
        masks.append(~np.logical_or.reduce(masks))
    elif len(functions) != len(masks):
        raise ValueError(
            f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions are expected "
            "[nd-arguments]"
        )
    result = constant(np.zeros_like(sample_of(t)))
    for mask, function in zip(masks, functions, strict=True):
        if not callable(function):
            result[mask] = function
        elif mask.any():
            result[mask] = function(t[mask], *args, **kw)
    return result


# ----- reading --------------------------------------------------------------------------------------------------------


def _fit_indices(indices: NDArray[Any], length: int, mode: str) -> NDArray[Any]:
    """Return indices within an axis, by NumPy's three modes."""
    if indices.dtype.kind not in "iub":
        raise TypeError(
            f"Cannot cast array data from {indices.dtype!r} to dtype('int64') according to the rule 'safe' [nd-cast]"
        )
    if mode == "wrap":
        return indices % length
    if mode == "clip":
        return np.clip(indices, 0, length - 1)
    if mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r}) [nd-option]")
    if indices.size and (indices.min() < -length or indices.max() >= length):
        raise IndexError(
            f"index {indices.max() if indices.max() >= length else indices.min()} is out of bounds "
            f"for axis of size {length} [nd-index]"
        )
    return np.where(indices < 0, indices + length, indices)


def _fit_open_indices(indices: Any, length: int, mode: str) -> Array:
    """Same as `_within` for unknown indices; if they must be within the axis, the call checks them."""
    t = as_array(indices)
    if mode == "wrap":
        return arithmetic.remainder(t, length)
    if mode == "clip":
        return selection.clamp(t, 0, length - 1)
    seen = values_to_check(t)
    if seen is None or ((seen < -length) | (seen >= length)).any():
        return as_array(_fit_indices(values_of(indices), length, mode))  # raises
    return selection.where(comparison.lt(t, 0), t + length, t)


def take(a: ArrayLike, indices: ArrayLike, axis: Axis = None, out: Out = None, mode: str = "raise") -> Array:
    """The elements at indices along an axis, or of the flattened array; always a copy.

    Args:
        a: array to read.
        indices: integers. Their shape replaces the axis.
        axis: axis along which to take. None takes from the flattened array.
        out: array that receives the result.
        mode: treatment of indices outside the axis: `"raise"`, `"wrap"` (modulo its size) or `"clip"` (the nearest
            one).

    >>> import ndgrad.numpy as np
    >>> np.take(np.array([10, 20, 30]), [2, 0])
    array([30, 10])
    """
    t, axis = swept_line(as_array(a), axis)
    if isinstance(indices, Variable) and mode == "raise":
        return deliver("take", take_copy(t, axis, indices), out)
    given = np.asarray(plain(indices))
    places = _fit_indices(
        given if given.size or isinstance(indices, np.ndarray) else given.astype(np.intp), t.shape[axis], mode
    )
    return deliver("take", take_copy(t, axis, places), out)


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """The elements at indices along one axis, one set of indices for each line.

    Args:
        arr: array to read.
        indices: integers with as many axes as `arr`. The other axes broadcast.
        axis: axis along which to take. None takes from the flattened array.

    >>> import ndgrad.numpy as np
    >>> np.take_along_axis(np.array([[3, 1], [2, 4]]), np.array([[1], [0]]), axis=1)
    array([[1],
           [2]])
    """
    t, places = as_array(arr), as_array(indices)
    if axis is None:
        if places.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension. [nd-ndim]")
        t, axis = flat(t), 0
    axis = one_axis(axis, t.ndim)
    if np_dtype(places).kind not in "iu":
        raise IndexError("`indices` must be an integer array [nd-index]")
    if places.ndim != t.ndim:
        raise ValueError(
            f"`indices` and `arr` must have the same number of dimensions, but have {places.ndim} and {t.ndim} "
            "[nd-ndim]"
        )
    # The other dimensions broadcast against each other.
    rest = np.broadcast_shapes(*((*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in (t, places)))
    t, places = (broadcast(x, (*rest[:axis], x.shape[axis], *rest[axis + 1 :])) for x in (t, places))
    length = t.shape[axis]
    return gather.gather(t, selection.where(comparison.lt(places, 0), places + length, places), dim=axis)


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Out = None) -> Array:
    """The slices along an axis where a condition is true.

    Args:
        condition: line of truth values, which may be shorter than the axis.
        a: array to read.
        axis: axis along which to choose. None chooses from the flattened array.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.compress([True, False, True], np.array([1, 2, 3]))
    array([1, 3])
    """
    t, axis = swept_line(as_array(a), axis)
    if len(np.shape(condition)) != 1:
        raise ValueError("condition must be a 1-d array [nd-ndim]")
    return deliver("compress", take_copy(t, axis, _true_places(condition)), out)


def extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    """The elements of the flattened array where a condition is true.

    Args:
        condition: mask of the shape of `arr`.
        arr: array to read.

    >>> import ndgrad.numpy as np
    >>> np.extract([[True, False]], np.array([[1, 2]]))
    array([1])
    """
    return flat(as_array(arr))[_true_places(condition)]


def _true_places(condition: ArrayLike) -> Any:
    """Return the indices of true elements of the flattened condition."""
    return flatnonzero(condition) if is_open(condition) else np.flatnonzero(np.ravel(values_of(condition)))


# ----- writing --------------------------------------------------------------------------------------------------------


def _writes_plain_memory(name: str, target: Any, function: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """True if the target is plain memory, which NumPy then writes itself; raise for a differentiable value."""
    if isinstance(target, Variable):
        return False
    if not isinstance(target, np.ndarray):
        raise TypeError(
            f"{name}(): argument 1 must be an array, but is a {type(target).__name__}. Pass the Array to write into. "
            "[nd-type]"
        )
    refuse_loss_in_memory(f"{name}()", target, args, options)
    function(target, *plain(args), **plain(options))
    return True


def copyto(dst: Array | NDArray[Any], src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Write values into an array, at the true elements of a mask.

    Args:
        dst: array to write into.
        src: values, which broadcast to the shape of `dst`.
        casting: rule that limits conversions of the dtype: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.
        where: mask of the elements that are written.

    Raises:
        RuntimeError: if `dst` is a plain ndarray and `src` has a derivative, which it cannot keep.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros(2)
    >>> np.copyto(x, 1.0, where=[True, False])
    >>> x
    array([1., 0.])
    """
    if _writes_plain_memory("copyto", dst, np.copyto, src, casting=casting, where=where):
        return
    assert isinstance(dst, Variable)
    value = as_array(src)
    number = src.__class__ in (int, float, bool, complex)
    # The stubs require a literal casting.
    if not np.can_cast(np.min_scalar_type(src) if number else np_dtype(value), np_dtype(dst), casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {np_dtype(value)!r} to {np_dtype(dst)!r} according to the rule {casting!r} "
            "[nd-cast]"
        )
    value = broadcast(with_dtype(value, np_dtype(dst)), tuple(dst.shape))
    if where is not True:
        write(index_ops.masked_fill, dst, (broadcast(truth_of(where), tuple(dst.shape)), value), {})
        return
    write(fill_ops.copy, dst, (value,), {})


def put(a: Array | NDArray[Any], ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Write values at indices of the flattened array; too few values are repeated.

    Args:
        a: array to write into.
        ind: indices of the flattened array.
        v: values. Too few are repeated.
        mode: treatment of indices outside the array: `"raise"`, `"wrap"` (modulo its size) or `"clip"` (the nearest
            one).

    Raises:
        RuntimeError: if `a` is a plain ndarray and `v` has a derivative, which it cannot keep.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros(3)
    >>> np.put(x, [0, 2], [1.0, 2.0])
    >>> x
    array([1., 0., 2.])
    """
    if _writes_plain_memory("put", a, np.put, ind, v, mode=mode):
        return
    assert isinstance(a, Variable)
    if is_open(ind) and a.shape:
        _put_open(a, flat(as_array(ind)), v, mode)
        return
    places = _fit_indices(np.asarray(plain(ind)).ravel(), math.prod(a.shape), mode)
    if len(places):
        _put_flat(a, places, _again(v, len(places), np_dtype(a)))


def _put_open(a: Array, places: Array, v: ArrayLike, mode: str) -> None:
    """Same as `put` for unknown indices. Only the first dimension's index may count from the end or be out of range."""
    shape = tuple(a.shape)
    if mode != "raise":
        places = _fit_open_indices(places, math.prod(shape), mode)
    indices: list[Any] = []
    for n in reversed(shape[1:]):
        indices.append(arithmetic.remainder(places, n))
        places = arithmetic.floor_divide(places, n)
    as_array(a)[(places, *reversed(indices))] = _again(v, places.shape[0], np_dtype(a))


def _again(v: ArrayLike, count: int, dtype: Dtype) -> Array:
    """Return the values as one line of length `count`, repeated if there are too few."""
    values = flat(with_dtype(as_array(v), dtype))
    return values if values.shape[0] == count else values[np.arange(count) % values.shape[0]]


def _put_flat(a: Array, places: Any, values: Array) -> None:
    """Write at indices of the flattened array, for any memory order."""
    shape = tuple(a.shape)
    if not shape:
        write(fill_ops.copy, a, (shape_ops.reshape(values[-1:], shape=()),), {})
        return
    as_array(a)[tuple(np.unravel_index(places, shape))] = values


def put_in_turn(a: Array, places: Any, value: ArrayLike) -> None:
    """Write at indices of the flattened array as NumPy's flat iterators do: each value is read in its turn, so a value
    inside the array itself may have been overwritten by then.
    """
    values, shape = with_dtype(as_array(value), np_dtype(a)), tuple(a.shape)
    if not values.size or not shares_memory(a, values):
        _put_flat(a, places, _again(values, len(places), np_dtype(a)))
        return
    sources = [tuple(map(int, np.unravel_index(k, tuple(values.shape)))) for k in range(min(len(places), values.size))]
    for k, at in enumerate(np.ravel(places)):
        a[tuple(map(int, np.unravel_index(at, shape)))] = values[sources[k % len(sources)]]


def place(arr: Array | NDArray[Any], mask: ArrayLike, vals: ArrayLike) -> None:
    """Write values, in order, at the true elements of a mask.

    Args:
        arr: array to write into.
        mask: mask of the shape of `arr`.
        vals: values. Too few are repeated.

    Raises:
        RuntimeError: if `arr` is a plain ndarray and `vals` has a derivative, which it cannot keep.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros(3)
    >>> np.place(x, [True, False, True], [1.0, 2.0])
    >>> x
    array([1., 0., 2.])
    """
    if _writes_plain_memory("place", arr, np.place, mask, vals):
        return
    assert isinstance(arr, Variable)
    values = as_array(vals)
    if is_open(mask) and values.size and not shares_memory(as_array(arr), values):
        chosen = flat(truth_of(mask))
        turn = arithmetic.remainder(scan.cumsum(cast_ops.cast(chosen, dtype=np.dtype(np.intp)), dim=0) - 1, values.size)
        _put_chosen(arr, chosen, take_copy(flat(with_dtype(values, np_dtype(arr))), 0, turn))
        return
    places = np.flatnonzero(np.ravel(values_of(mask)))
    if len(places):
        if not values.size:
            raise ValueError("Cannot insert from an empty array! [nd-too-few]")
        if isinstance(vals, Variable) and np_dtype(vals) == np_dtype(arr) and sample_of(vals).flags.c_contiguous:
            put_in_turn(as_array(arr), places, vals)
        else:  # NumPy copies values that are not in one line
            _put_flat(arr, places, _again(vals, len(places), np_dtype(arr)))


def putmask(a: Array | NDArray[Any], mask: ArrayLike, values: ArrayLike) -> None:
    """Write values at the true elements of a mask; each gets the value at the same index of `values`, repeated.

    Args:
        a: array to write into.
        mask: mask of the shape of `a`.
        values: values. Too few are repeated.

    Raises:
        RuntimeError: if `a` is a plain ndarray and `values` has a derivative, which it cannot keep.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros(3)
    >>> np.putmask(x, [True, False, True], [1.0, 2.0, 3.0])
    >>> x
    array([1., 0., 3.])
    """
    if _writes_plain_memory("putmask", a, np.putmask, mask, values):
        return
    assert isinstance(a, Variable)
    line = flat(with_dtype(as_array(values), np_dtype(a)))
    if is_open(mask) and line.shape[0]:
        chosen = flat(truth_of(mask))
        if chosen.shape[0] == math.prod(a.shape):
            _put_chosen(a, chosen, _again(line, chosen.shape[0], np_dtype(a)))
            return
    places = np.flatnonzero(np.ravel(values_of(mask)))
    if len(places):
        _put_flat(a, places, line[places % line.shape[0]])


def _put_chosen(a: Array, chosen: Array, values: Array) -> None:
    """Write values at the chosen indices of the flattened array."""
    shape = tuple(a.shape)
    chosen, values = (shape_ops.reshape(t, shape=shape) for t in (chosen, values))
    write(index_ops.masked_fill, a, (chosen, values), {})


def put_along_axis(arr: Array | NDArray[Any], indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Write values at indices along one axis, one set of indices for each line.

    Args:
        arr: array to write into.
        indices: integers with as many axes as `arr`.
        values: values, which broadcast to the shape of `indices`.
        axis: axis along which to write. None writes into the flattened array.

    Raises:
        RuntimeError: if `arr` is a plain ndarray and `values` has a derivative, which it cannot keep.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros((2, 2))
    >>> np.put_along_axis(x, np.array([[1], [0]]), 5.0, axis=1)
    >>> x
    array([[0., 5.],
           [5., 0.]])
    """
    if _writes_plain_memory("put_along_axis", arr, np.put_along_axis, indices, values, axis):
        return
    assert isinstance(arr, Variable)
    places = values_of(indices)
    if axis is None:
        _put_flat(arr, places, broadcast(with_dtype(as_array(values), np_dtype(arr)), places.shape))
        return
    where_ = _open_grid(tuple(arr.shape), places, one_axis(axis, len(arr.shape)))
    as_array(arr)[where_] = with_dtype(as_array(values), np_dtype(arr))


def _open_grid(shape: tuple[int, ...], places: NDArray[Any], axis: int) -> tuple[NDArray[Any], ...]:
    """Return index arrays for all dimensions: the indices along one, and ranges along the others."""
    if places.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array [nd-index]")
    if places.ndim != len(shape):
        raise ValueError(
            f"`indices` and `arr` must have the same number of dimensions, but have {places.ndim} and {len(shape)} "
            "[nd-ndim]"
        )
    return tuple(
        places if d == axis else np.arange(n).reshape([-1 if i == d else 1 for i in range(len(shape))])
        for d, n in enumerate(shape)
    )


def fill_diagonal(a: Array | NDArray[Any], val: ArrayLike, wrap: bool = False) -> None:
    """Write a value, or repeated values, to the main diagonal.

    Args:
        a: array of at least two axes to write into. More than two must have one size.
        val: value, or values in order. Too few are repeated.
        wrap: whether the diagonal of a tall matrix starts again below the square part.

    Raises:
        RuntimeError: if `a` is a plain ndarray and `val` has a derivative, which it cannot keep.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros((2, 2))
    >>> np.fill_diagonal(x, 1.0)
    >>> x
    array([[1., 0.],
           [0., 1.]])
    """
    if _writes_plain_memory("fill_diagonal", a, np.fill_diagonal, val, wrap):
        return
    assert isinstance(a, Variable)
    shape = tuple(a.shape)
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d [nd-ndim]")
    end: int | None = None
    if len(shape) == 2:
        step = shape[1] + 1
        if not wrap:
            end = shape[1] * shape[1]
    else:
        if len(set(shape)) != 1:
            raise ValueError("All dimensions of input must be of equal length [nd-shape]")
        step = 1 + int(np.cumprod(shape[:-1]).sum())
    put_in_turn(as_array(a), np.arange(math.prod(shape))[:end:step], val)


# ----- places ---------------------------------------------------------------------------------------------------------


def nonzero(a: ArrayLike) -> tuple[Array, ...]:
    """The indices of nonzero elements, one array for each dimension.

    Args:
        a: array of at least one dimension.

    Raises:
        ValueError: if the array has no dimension.

    >>> import ndgrad.numpy as np
    >>> np.nonzero(np.array([0.0, 1.0, 2.0]))
    (array([1, 2]),)
    """
    t = as_array(a)
    if t.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead. [nd-ndim]"
        )
    rows = arrange(index_ops.nonzero(t))  # in C order, so that columns do not overlap in memory, as in NumPy
    return tuple(rows[:, d] for d in range(t.ndim))


def argwhere(a: ArrayLike) -> Array:
    """The indices of nonzero elements, one row for each.

    Args:
        a: array to search.

    >>> import ndgrad.numpy as np
    >>> np.argwhere(np.array([[0, 1], [2, 0]]))
    array([[0, 1],
           [1, 0]])
    """
    t = as_array(a)
    return index_ops.nonzero(t) if t.ndim else constant(np.argwhere(values_of(t)))


def flatnonzero(a: ArrayLike) -> Array:
    """The indices of nonzero elements in the flattened array.

    Args:
        a: array to search.

    >>> import ndgrad.numpy as np
    >>> np.flatnonzero(np.array([[0, 1], [2, 0]]))
    array([1, 2])
    """
    return nonzero(flat(as_array(a)))[0]


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays, shaped to index the rectangle of all combinations.

    Args:
        *args: a line of integers, or a mask, for each axis.

    >>> import ndgrad.numpy as np
    >>> np.arange(9).reshape(3, 3)[np.ix_([0, 2], [0, 1])]
    array([[0, 1],
           [6, 7]])
    """
    # the elements are those of the arguments, or the true indices of a mask
    found: tuple[Any, ...] = np.ix_(*plain(args))
    return tuple(
        shape_ops.reshape(as_array(a), shape=f.shape) if at_stake(a) else constant(f)
        for a, f in zip(args, found, strict=True)
    )


def unravel_index(indices: ArrayLike, shape: Shape, order: str = "C") -> tuple[Array, ...]:
    """Convert indices of the flattened array to indices along each dimension.

    Args:
        indices: integers.
        shape: shape of the array.
        order: order of the flattened array: `"C"` or `"F"`.

    Returns:
        A tuple with one Array for each axis.

    >>> import ndgrad.numpy as np
    >>> np.unravel_index([1, 5], (2, 3))
    (array([0, 1]), array([1, 2]))
    """
    sizes: Any = tuple(operator.index(n) for n in shape) if hasattr(shape, "__iter__") else operator.index(shape)
    if is_open(indices) and order in ("C", "F"):
        lengths = (sizes,) if isinstance(sizes, int) else sizes
        return _open_unravelled(as_array(indices), lengths, order)
    # The stubs require a literal order.
    found: tuple[Any, ...] = np.unravel_index(plain(indices), sizes, order)  # type: ignore[call-overload]
    return as_arrays(tuple(np.asarray(i) for i in found))


def _open_unravelled(places: Array, lengths: tuple[int, ...], order: str) -> tuple[Array, ...]:
    """Same as `unravel_index` for unknown indices; the call checks them."""
    seen = values_to_check(places)
    if np_dtype(places).kind not in "iu" or seen is None or ((seen < 0) | (seen >= math.prod(lengths))).any():
        return as_arrays(np.unravel_index(plain(places), lengths, order))  # type: ignore[call-overload]  # which raises
    places = cast_ops.cast(places, dtype=np.dtype(np.intp))
    found: list[Any] = []
    for n in lengths if order == "F" else reversed(lengths):
        found.append(arithmetic.remainder(places, n))
        places = arithmetic.floor_divide(places, n)
    return tuple(found if order == "F" else reversed(found))


def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str | tuple[str, ...] = "raise", order: str = "C"
) -> Array:
    """Convert indices along each dimension to indices of the flattened array.

    Args:
        multi_index: an array of integers for each axis.
        dims: shape of the array.
        mode: treatment of indices outside an axis, or one word for each axis: `"raise"`, `"wrap"` (modulo its size) or
            `"clip"` (the nearest one).
        order: order of the flattened array: `"C"` or `"F"`.

    >>> import ndgrad.numpy as np
    >>> np.ravel_multi_index(([0, 1], [1, 2]), (2, 3))
    array([1, 5])
    """
    if any(map(is_open, multi_index)) and order in ("C", "F") and len(multi_index) == len(dims):
        return _open_ravelled(multi_index, dims, mode, order)
    # The stubs require a literal order.
    return constant(np.asarray(np.ravel_multi_index(plain(multi_index), dims, mode, order)))  # type: ignore[call-overload]


def _open_ravelled(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str | tuple[str, ...], order: str
) -> Array:
    """Same as `ravel_multi_index` for unknown indices; the call checks those that must be within their dimension."""
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    total: Any = 0
    ordered = list(zip(multi_index, dims, modes, strict=True))
    for index, n, how in ordered if order == "C" else reversed(ordered):
        t = as_array(index)
        if how == "raise":
            seen = values_to_check(t)
            if seen is None or ((seen < 0) | (seen >= n)).any():
                return constant(np.asarray(np.ravel_multi_index(plain(multi_index), dims, mode, order)))  # type: ignore[call-overload]  # which raises
        else:
            t = _fit_open_indices(t, n, how)
        total = total * n + cast_ops.cast(t, dtype=np.dtype(np.intp))
    return as_array(total)


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array.

    Args:
        arr: array of at least two axes of one size.

    >>> import ndgrad.numpy as np
    >>> np.diag_indices_from(np.zeros((2, 2)))
    (array([0, 1]), array([0, 1]))
    """
    return as_arrays(np.diag_indices_from(np.empty(as_array(arr).shape, np.bool)))


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """The indices of the lower triangle of a matrix.

    Args:
        arr: matrix, of which only the shape matters.
        k: last diagonal of the triangle: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.tril_indices_from(np.zeros((2, 2)))
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    return as_arrays(np.tril_indices_from(np.empty(as_array(arr).shape, np.bool), k))


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """The indices of the upper triangle of a matrix.

    Args:
        arr: matrix, of which only the shape matters.
        k: first diagonal of the triangle: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.triu_indices_from(np.zeros((2, 2)))
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    return as_arrays(np.triu_indices_from(np.empty(as_array(arr).shape, np.bool), k))
