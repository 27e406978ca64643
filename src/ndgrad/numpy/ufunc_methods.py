"""The methods of ufuncs on Arrays: reduce, accumulate, reduceat, outer and at, for every binary ufunc.

If one op computes the whole result (a sum, a running product, a scatter), it is used. Otherwise the ufunc is applied
step by step along the axis. This is the definition, and has the right derivative for any ufunc.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import INEXACT
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import arithmetic, extremum, index, join, reduce, scan, selection, softmax
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.functions.index import put_at
from ndgrad.numpy.coercion import (
    as_array,
    broadcast,
    constant,
    deliver,
    many_axes,
    one_axis,
    part,
    permute,
    plain,
    refuse_loss_in_memory,
    values_of,
    with_dtype,
)
from ndgrad.numpy.ufuncs import call, implementation

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axes, Dtype, Out
    from ndgrad.numpy._array import Array


class _NoValue:
    def __repr__(self) -> str:
        return "<no value>"


#: Default of arguments for which None has a meaning.
NO_VALUE: Any = _NoValue()

# ----- reduce ---------------------------------------------------------------------------------------------------------


def _all_or_dims(whole: Any, along: Any, t: Array, dims: tuple[int, ...], keepdims: bool, **settings: Any) -> Array:
    if len(dims) == t.ndim and not keepdims:
        return whole.eager(t, **settings)
    return along.eager(t, dim=dims, keepdim=keepdims, **settings)


def _kept_dtype(t: Array) -> np.dtype[Any] | None:
    """Return the dtype unchanged: integers were widened already as in NumPy, and must not be widened again."""
    dtype = np_dtype(t)
    return None if dtype.kind in INEXACT else dtype


def _sum(t: Array, dims: tuple[int, ...], keepdims: bool) -> Array:
    return _all_or_dims(reduce.sum_all, reduce.sum, t, dims, keepdims, dtype=_kept_dtype(t))


def _prod(t: Array, dims: tuple[int, ...], keepdims: bool) -> Array:
    if len(dims) == t.ndim and not keepdims:
        return reduce.prod_all(t, dtype=_kept_dtype(t))
    if len(dims) == 1:
        return reduce.prod(t, dim=dims, keepdim=keepdims, dtype=_kept_dtype(t))
    made = reduce.prod(merge_axes(t, dims), dim=(t.ndim - len(dims),), keepdim=False, dtype=_kept_dtype(t))
    return shape_ops.reshape(made, shape=reduced_shape(t, dims, True)) if keepdims else made


def _extremum(whole: Any, along: Any) -> Callable[..., Any]:
    return lambda t, dims, keepdims: _all_or_dims(whole, along, t, dims, keepdims)


def _logsumexp(t: Array, dims: tuple[int, ...], keepdims: bool) -> Array:
    return softmax.logsumexp(t, dim=dims, keepdim=keepdims)


def _truth(along: Any) -> Callable[..., Any]:
    return lambda t, dims, keepdims: along(t, dim=dims, keepdim=keepdims)


#: Reductions over any number of axes by one op.
_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: _sum,
    np.multiply: _prod,
    np.maximum: _extremum(extremum.max_all, extremum.amax),
    np.minimum: _extremum(extremum.min_all, extremum.amin),
    np.logaddexp: _logsumexp,
    np.logical_and: _truth(reduce.all),
    np.logical_or: _truth(reduce.any),
}


def merge_axes(t: Array, dims: Sequence[int]) -> Array:
    """Merge the given axes into one, the last."""
    rest = [d for d in range(t.ndim) if d not in dims]
    return shape_ops.reshape(
        permute(t, (*rest, *dims)), shape=(*(t.shape[d] for d in rest), math.prod(t.shape[d] for d in dims))
    )


def reduced_shape(t: Array, dims: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    return tuple(1 if d in dims else n for d, n in enumerate(t.shape) if keepdims or d not in dims)


def reduce_along(
    ufunc: np.ufunc, array: ArrayLike, axis: Axes = 0, dtype: Dtype = None, out: Out = None, keepdims: bool = False,
    initial: ArrayLike = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Implement `ufunc.reduce(array, ...)`."""
    t = as_array(array)
    dims = many_axes(axis, t.ndim)
    quick = _REDUCTIONS.get(ufunc)
    if (
        quick is not None
        and where is True
        and initial is NO_VALUE
        and dtype is None
        and out is None
        and dims
        and t.size
    ):
        if np_dtype(t).kind in INEXACT:
            return quick(t, dims, keepdims)
    _check_binary(ufunc, "reduce")
    t = with_dtype(t, reduction_dtype(ufunc, np_dtype(t), dtype))
    start = _start(ufunc, t, dims, initial, where)
    if where is not True:
        mask = as_array(where)
        if start is None:
            raise ValueError(
                f"reduction operation {ufunc.__name__!r} does not have an identity, so to use a where mask one "
                "has to specify 'initial'. [nd-arguments]"
            )
        t = selection.where(
            mask, broadcast(t, np.broadcast_shapes(t.shape, mask.shape)), with_dtype(as_array(start), np_dtype(t))
        )
        if not _absorbs(ufunc):
            return deliver(ufunc.__name__, _fold_masked(ufunc, t, mask, dims, keepdims, start), out)
    return deliver(
        ufunc.__name__, _reduce_all(ufunc, t, dims, keepdims, start, None if initial is NO_VALUE else initial), out
    )


def _reduce_all(ufunc: np.ufunc, t: Array, dims: tuple[int, ...], keepdims: bool, start: Any, initial: Any) -> Array:
    """Reduce all elements of `t`; `start` is the result for none of them, `initial` the caller's first value."""
    quick = _REDUCTIONS.get(ufunc)
    is_empty = math.prod(t.shape[d] for d in dims) == 0
    if is_empty and start is not None:
        return with_dtype(broadcast(as_array(start), reduced_shape(t, dims, keepdims)), np_dtype(t))
    if not dims and (quick is None or t.ndim):  # along no axis: every element by itself
        if initial is not None:
            return call(ufunc, start, t)
        return t if np_dtype(t).kind == "b" else call(np.positive, t)
    if quick is None:
        return _fold(ufunc, t, dims, keepdims, initial)
    if is_empty:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity [nd-too-few]")
    result = quick(t, dims, keepdims)
    return result if initial is None else call(ufunc, initial, result)


def reduction_dtype(ufunc: np.ufunc, have: np.dtype[Any], dtype: Dtype) -> np.dtype[Any]:
    """Return the dtype of a reduction: the given one; for sums and products of small integers the machine's integer."""
    if dtype is not None:
        return np.dtype(dtype)
    if ufunc in (np.logical_and, np.logical_or, np.logical_xor):
        return np.dtype(bool)
    if ufunc in (np.add, np.multiply) and have.kind in "bui" and have.itemsize < np.dtype(np.int_).itemsize:
        return np.dtype(np.uint if have.kind == "u" else np.int_)
    if have.kind not in INEXACT and ufunc in (np.logaddexp, np.logaddexp2, np.hypot, np.divide, np.arctan2):
        return np.dtype(np.float64)
    return have


def _absorbs(ufunc: np.ufunc) -> bool:
    """True if combining with the start repeatedly changes nothing, so that it can replace masked elements."""
    return ufunc in _REDUCTIONS


def _start(ufunc: np.ufunc, t: Array, dims: tuple[int, ...], initial: Any, where: Any) -> Any:
    """Return the replacement of masked elements: the identity, or an extremum's `initial`."""
    if where is True and 0 not in [t.shape[d] for d in dims]:
        return None if initial is NO_VALUE else initial
    if (
        initial is not NO_VALUE
        and initial is not None
        and (where is True or ufunc in (np.maximum, np.minimum) or not _absorbs(ufunc))
    ):
        return initial
    return -math.inf if ufunc is np.logaddexp else ufunc.identity


def _fold(ufunc: np.ufunc, t: Array, dims: Sequence[int], keepdims: bool, initial: Any) -> Array:
    """Combine one element after the other; for several axes, only if the order cannot matter, as in NumPy."""
    if len(dims) > 1 and ufunc.identity is None and ufunc not in (np.fmax, np.fmin):
        raise ValueError(
            f"reduction operation {ufunc.__name__!r} is not reorderable, so at most one axis may be specified. "
            "Reduce one axis after the other, in the order that you mean. [nd-dim]"
        )
    lines = merge_axes(t, dims)
    count = lines.shape[-1]
    if count == 0:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity [nd-too-few]")
    total = lines[..., 0] if initial is None else call(ufunc, initial, lines[..., 0])
    for i in range(1, count):
        total = call(ufunc, total, lines[..., i])
    return shape_ops.reshape(total, shape=reduced_shape(t, dims, True)) if keepdims else total


def _fold_masked(ufunc: np.ufunc, t: Array, mask: Array, dims: Sequence[int], keepdims: bool, start: Any) -> Array:
    lines, chosen = merge_axes(t, dims), merge_axes(broadcast(mask, t.shape), dims)
    total = with_dtype(broadcast(as_array(start), lines.shape[:-1]), np_dtype(t))
    for i in range(lines.shape[-1]):
        total = selection.where(chosen[..., i], call(ufunc, total, lines[..., i]), total)
    return shape_ops.reshape(total, shape=reduced_shape(t, dims, True)) if keepdims else total


def _check_binary(ufunc: np.ufunc, method: str) -> None:
    implementation(ufunc)
    if ufunc.nin != 2:
        raise ValueError(
            f"{method} only supported for binary functions, and {ufunc.__name__} takes {ufunc.nin}. [nd-unsupported]"
        )
    if ufunc.nout != 1 or ufunc.signature is not None:
        raise ValueError(
            f"{method} only supported for functions returning a single value of each pair, "
            f"and {ufunc.__name__} is none. [nd-unsupported]"
        )


# ----- accumulate -----------------------------------------------------------------------------------------------------

#: Running forms by one op.
_SCANS: dict[Any, Callable[..., Any]] = {
    np.add: lambda t, axis: scan.cumsum(t, dim=axis),
    np.multiply: lambda t, axis: scan.cumprod(t, dim=axis),
    np.maximum: lambda t, axis: scan.cummax(t, dim=axis)[0],
    np.minimum: lambda t, axis: scan.cummin(t, dim=axis)[0],
    np.logaddexp: lambda t, axis: scan.logcumsumexp(t, dim=axis),
}


def accumulate(ufunc: np.ufunc, array: ArrayLike, axis: int = 0, dtype: Dtype = None, out: Out = None) -> Array:
    """Implement `ufunc.accumulate(array, ...)`."""
    _check_binary(ufunc, "accumulate")
    t = as_array(array)
    if t.ndim == 0:
        raise TypeError("cannot accumulate on a scalar [nd-ndim]")
    axis = one_axis(axis, t.ndim)
    t = with_dtype(t, reduction_dtype(ufunc, np_dtype(t), dtype))
    quick = _SCANS.get(ufunc)
    if quick is not None:
        result = with_dtype(quick(t, axis), np_dtype(t))
    elif t.shape[axis] == 0:
        result = t
    else:
        steps = [part(t, axis, 0)]
        for i in range(1, t.shape[axis]):
            steps.append(call(ufunc, steps[-1], part(t, axis, i)))
        result = join.stack(*(with_dtype(s, np_dtype(steps[-1])) for s in steps), dim=axis)
    return deliver(ufunc.__name__, result, out)


# ----- reduceat, outer ------------------------------------------------------------------------------------------------


def reduceat(
    ufunc: np.ufunc, array: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: Dtype = None, out: Out = None
) -> Array:
    """Implement `ufunc.reduceat(array, indices, ...)`: slices from each index to the next, single elements if these do
    not increase.
    """
    _check_binary(ufunc, "reduceat")
    t = as_array(array)
    axis = one_axis(axis, t.ndim)
    t = with_dtype(t, reduction_dtype(ufunc, np_dtype(t), dtype))
    length = t.shape[axis]
    starts = [operator.index(i) for i in np.asarray(values_of(indices)).ravel()]
    if any(not 0 <= i < length for i in starts):
        raise IndexError(
            f"index {next(i for i in starts if not 0 <= i < length)} out-of-bounds in {ufunc.__name__}.reduceat [0, "
            f"{length}) [nd-index]"
        )
    pieces = []
    for start, stop in zip(starts, [*starts[1:], length], strict=True):
        piece = part(t, axis, slice(start, stop if stop > start else start + 1))
        pieces.append(reduce_along(ufunc, piece, axis))
    result = join.stack(*pieces, dim=axis) if pieces else part(t, axis, slice(0, 0))
    return deliver(ufunc.__name__, result, out)


def outer(ufunc: np.ufunc, first: ArrayLike, second: ArrayLike, **options: Any) -> Array:
    """Implement `ufunc.outer(A, B)`: every pair of elements."""
    implementation(ufunc)
    if ufunc.nin != 2 or ufunc.signature is not None:
        raise ValueError(
            f"outer product only supported for binary functions, and {ufunc.__name__} takes {ufunc.nin}. "
            "[nd-unsupported]"
        )
    x, y = as_array(first), as_array(second)
    return call(ufunc, shape_ops.reshape(x, shape=(*x.shape, *(1,) * y.ndim)), y, **options)


# ----- at -------------------------------------------------------------------------------------------------------------


def apply_at(ufunc: np.ufunc, array: Any, indices: Any, *second: ArrayLike) -> None:
    """Implement `ufunc.at(array, indices[, values])`: in place; an index that occurs twice counts twice."""
    implementation(ufunc)
    if len(second) != ufunc.nin - 1:
        raise TypeError(
            f"{ufunc.__name__}.at() takes an array, indices{' and values' if ufunc.nin > 1 else ''}. "
            f"Give {ufunc.nin + 1} arguments. [nd-arguments]"
        )
    if not isinstance(array, Variable):
        refuse_loss_in_memory(f"numpy.{ufunc.__name__}.at(ndarray, ...)", array, second)
        ufunc.at(array, plain(indices), *plain(second))
        return
    items = indices if isinstance(indices, tuple) else (indices,)
    if ufunc in (np.add, np.subtract) and not _is_basic(items):
        value = as_array(second[0])
        value = with_dtype(arithmetic.neg(value) if ufunc is np.subtract else value, np_dtype(array))
        put_at(array, items, value, accumulate=True)
        return
    _apply_in_rounds(ufunc, array, items, second)


def _is_basic(items: tuple[Any, ...]) -> bool:
    return all(i is None or i is Ellipsis or isinstance(i, (int, np.integer, slice)) for i in items)


def _apply_in_rounds(ufunc: np.ufunc, array: Variable, items: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    """Apply in rounds: an element that occurs k times takes part in k rounds; within a round no element occurs
    twice.
    """
    numbers = np.arange(math.prod(array.shape)).reshape(tuple(array.shape))[plain(items)]
    shape = numbers.shape
    targets = numbers.ravel()
    order = np.argsort(targets, kind="stable")
    ranked = targets[order]
    firsts = (
        np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if len(ranked) else np.empty(0, np.intp)
    )
    rounds = np.empty(len(ranked), np.intp)
    rounds[order] = np.arange(len(ranked)) - np.repeat(firsts, np.diff(np.append(firsts, len(ranked))))
    values = [shape_ops.reshape(broadcast(as_array(v), shape), shape=(len(targets),)) for v in second]
    flat = shape_ops.reshape(as_array(array), shape=(math.prod(array.shape),))
    for number in range(rounds.max() + 1 if len(rounds) else 0):
        now = np.flatnonzero(rounds == number)
        made = call(ufunc, flat[targets[now]], *(v[now] for v in values))
        if not np.can_cast(np_dtype(made), np_dtype(array), "same_kind"):
            raise TypeError(
                f"{ufunc.__name__}.at(): cannot cast {np_dtype(made)} to {np_dtype(array)}. Convert the array first. "
                "[nd-cast]"
            )
        flat = _write_elements(flat, targets[now], with_dtype(made, np_dtype(array)))
    write(fill_ops.copy, array, (shape_ops.reshape(flat, shape=tuple(array.shape)),), {})


def _write_elements(flat: Array, places: Any, values: Array) -> Array:
    return index.index_put(flat, values, constant(places), accumulate=False)
