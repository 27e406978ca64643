"""Distances between two sets of points.

Distances of few coordinates are computed from differences by one kernel, without an array of all differences. For many
coordinates, Euclidean distances use the product formula |x|^2 + |y|^2 - 2 x y^T. It is fast, but inaccurate for points
that are close together. These points are detected and computed again from their differences.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import library, native_kernels
from ndgrad._src.arrays.precision import finfo
from ndgrad._src.ops.composite import composite, fused_rule
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.matrix import align, transpose
from ndgrad._src.ops.reduce import drop_dims, keep
from ndgrad._src.ops.table import op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Up to this many differences are computed directly; above it, the product is faster.
_FEW = 1 << 15
#: Squared distances below this fraction of |x|^2 + |y|^2 have lost digits to cancellation.
_CLOSE = 0.05
#: Up to this many coordinates, a kernel computes Euclidean distances from differences as fast as the product.
_NARROW = 64
_SINGLE, _DOUBLE = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


def _square(np: Library, x: Payload) -> Payload:
    return np.einsum("...i,...i->...", x, x)


# ----- all differences, by one kernel --------------------------------------------------------------------------------
# A kernel over columns (ndgrad._src.compiler.lower.row_programs) reduces the middle one of three dimensions.


def _measure(ops: Vocabulary, arrays: Any, settings: Any) -> Payload:
    """Return the distances from x, of shape (rows, coordinates, 1), to y, of shape (coordinates, columns)."""
    x, y = arrays
    return _norm(x - y, settings["ord"], 1, ops)


def _norm(difference: Payload, ord: float, dim: int, ops: Vocabulary) -> Payload:
    if ord == 2:
        return ops.sqrt(ops.sum(difference * difference, dim=(dim,), keepdim=False))
    size = ops.abs(difference)
    return ops.sum(size, dim=(dim,), keepdim=False) if ord == 1 else ops.amax(size, dim=(dim,), keepdim=False)


def _count_largest(ops: Vocabulary, arrays: Any, settings: Any) -> Payload:
    """Return the number of coordinates in which points have the distance `out`, of shape (rows, 1, columns)."""
    x, y, out = arrays
    return ops.sum(ops.where(ops.abs(x - y) == out, 1.0, 0.0), dim=(1,), keepdim=False)


def _pull_differences(ops: Vocabulary, arrays: Any, settings: Any) -> Payload:
    """Return the sum over columns of w slope(x - y): x has the shape (rows, 1, coordinates), y (columns, coordinates),
    and w and `out` (rows, columns, 1).
    """
    w, x, y, *out = arrays
    d = x - y
    if settings["ord"] == 2:
        slope = d
    else:
        slope = ops.where(d > 0, 1.0, ops.where(d < 0, -1.0, d))  # d at 0 and NaN
        if out:
            slope = ops.where(ops.abs(d) == out[0], slope, 0.0)
    return ops.sum(w * slope, dim=(1,), keepdim=False)


def _pull_lengths(ops: Vocabulary, arrays: Any, settings: Any) -> Payload:
    """Compute what `_pull_differences` does for Euclidean distances with w = g / out, and 0 for distance 0."""
    g, x, y, out = arrays
    return ops.sum(ops.where(out == 0.0, 0.0, g / ops.where(out == 0.0, 1.0, out)) * (x - y), dim=(1,), keepdim=False)


def _for_kernel(x: Payload, y: Payload) -> bool:
    """True if a kernel may compute distances of these points: matrices on a device or of NumPy."""
    if library.is_on_device(x):
        if x.__class__ is not y.__class__ or x.dtype != y.dtype or x.dtype.char not in "fd":
            return False
        return x.ndim == 2 and y.ndim == 2 and x.size > 0 and y.size > 0
    if x.__class__ is not numpy.ndarray or y.__class__ is not numpy.ndarray:
        return False
    if x.ndim != 2 or y.ndim != 2 or x.dtype != y.dtype or not native_kernels.has_kernels(x.dtype):
        return False
    return x.size > 0 and y.size > 0


def _measure_natively(x: Payload, y: Payload, ord: float) -> Payload | None:
    """Return the distances of points by one kernel, or None."""
    if not _for_kernel(x, y):
        return None
    arrays = [native_kernels.dense(x)[:, :, None], native_kernels.dense(y.T)]
    return native_kernels.run_fused(_measure, arrays, {"ord": ord}, small=True)


def _pull_natively(w: Payload, x: Payload, y: Payload, out: Payload | None, ord: float) -> Payload | None:
    """Return the gradient in x for gradients w of distances, times their slopes, by one kernel; None without one.

    `out` holds the distances of the maximum norm.
    """
    if not _for_kernel(x, y) or w.dtype != x.dtype:
        return None
    arrays = [native_kernels.dense(w)[:, :, None], native_kernels.dense(x)[:, None, :], native_kernels.dense(y)]
    if out is not None:
        arrays.append(native_kernels.dense(out)[:, :, None])
    return native_kernels.run_fused(_pull_differences, arrays, {"ord": ord}, small=True)


# ----- Euclidean distances --------------------------------------------------------------------------------------------


def _cdist(np: Library, x: Payload, y: Payload) -> Payload:
    refuse_complex("cdist", x, y)
    if x.shape[-1] <= _NARROW:
        found = _measure_natively(x, y, 2.0)
        if found is not None:
            return found
    shape = (*numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-2])
    if math.prod(shape) * x.shape[-1] <= _FEW:
        return np.sqrt(_square(np, x[..., :, None, :] - y[..., None, :, :]))
    center = y.mean(axis=-2, keepdims=True)
    xc, yc = x - center, y - center
    size = _square(np, xc)[..., :, None] + _square(np, yc)[..., None, :]
    squares = size - 2 * (xc @ yc.swapaxes(-1, -2))
    close = squares <= _CLOSE * size
    if close.any():
        *stack, i, j = np.nonzero(close)
        xs = np.broadcast_to(x, shape[:-2] + x.shape[-2:])
        ys = np.broadcast_to(y, shape[:-2] + y.shape[-2:])
        step = max(_FEW // max(x.shape[-1], 1), 1)
        for start in range(0, len(i), step):
            part = slice(start, start + step)
            lead = tuple(s[part] for s in stack)
            difference = xs[(*lead, i[part])] - ys[(*lead, j[part])]
            squares[(*lead, i[part], j[part])] = _square(np, difference)
    return np.sqrt(squares)


@fused_rule("g out", small=True)
def _weights(g: Payload, out: Payload, ops: Vocabulary) -> Payload:
    """Return g / out, and 0 for distance 0: the subgradient of least norm."""
    zero = out == 0
    return ops.where(zero, 0.0, g / ops.where(zero, 1.0, out))


# d_ij = |x_i - y_j|, so the gradient of x_i is the sum over j of w_ij (x_i - y_j) with w = g / d: a row sum times x
# minus one product. Any origin gives the same result; with the origin at the centre of y the two terms cancel least.
# For points that are close together they still cancel, and w is large. Single precision would have no digits left, so
# both terms are computed in double precision.


def _center(y: Payload, ops: Vocabulary) -> Payload:
    return ops.detach(ops.sum(y, dim=(len(y.shape) - 2,), keepdim=True)) * (1 / max(y.shape[-2], 1))


def _cast_to_double(dtype: Any, values: tuple[Payload, ...], ops: Vocabulary) -> tuple[Payload, ...]:
    return tuple([ops.cast(v, dtype=_DOUBLE) for v in values]) if dtype == _SINGLE else values


def _side(w: Payload, x: Payload, y: Payload, dtype: Any, ops: Vocabulary) -> Payload:
    w, x, y = _cast_to_double(dtype, (w, x, y), ops)
    center = _center(y, ops)
    total = ops.sum(w, dim=(len(w.shape) - 1,), keepdim=True)
    out = total * (x - center) - ops.matmul(w, y - center)
    return ops.cast(out, dtype=dtype) if dtype == _SINGLE else out


def _pull_on_device(g: Payload, x: Payload, y: Payload, out: Payload) -> Payload | None:
    """Return the gradient in x by one kernel of a device, or None."""
    if not library.is_on_device(x) or not _for_kernel(x, y) or g.dtype != x.dtype:
        return None
    arrays = [
        native_kernels.dense(g)[:, :, None], native_kernels.dense(x)[:, None, :], native_kernels.dense(y),
        native_kernels.dense(out)[:, :, None],
    ]  # fmt: skip
    return native_kernels.run_fused(_pull_lengths, arrays, {}, small=True)


def _cdist_vjp(
    g: Payload, x: Payload, y: Payload, out: Payload, x_dtype: Any, needs: tuple[bool, bool], ops: Vocabulary
) -> tuple[Payload | None, Payload | None]:
    """Return both gradients. They share the weights."""
    direct = _pull_on_device(g, x, y, out) if ops.raw and needs[0] else None
    other = _pull_on_device(g.swapaxes(-1, -2), y, x, out.swapaxes(-1, -2)) if ops.raw and needs[1] else None
    if (direct is None) is not needs[0] and (other is None) is not needs[1]:
        return direct, other
    w = _weights(g, out, ops)

    def pull(w: Payload, x: Payload, y: Payload) -> Payload:
        found = _pull_natively(w, x, y, None, 2.0) if ops.raw else None
        return _side(w, x, y, x_dtype, ops) if found is None else found

    return pull(w, x, y) if needs[0] else None, pull(transpose(w, ops), y, x) if needs[1] else None


def _push(t: Payload, x: Payload, y: Payload, dtype: Any, ops: Vocabulary) -> Payload:
    """Return the change of half the squared distance when x moves by t: t_i . (x_i - y_j)."""
    t, x, y = _cast_to_double(dtype, (t, x, y), ops)
    center = _center(y, ops)
    along = t * (x - center)
    own = ops.sum(along, dim=(len(along.shape) - 1,), keepdim=True)
    out = own - ops.matmul(t, transpose(y - center, ops))
    return ops.cast(out, dtype=dtype) if dtype == _SINGLE else out


def _align_points(
    x: Payload, y: Payload, batched: tuple[bool, bool], ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Return points of one rank behind the batch."""
    rank = max(len(x.shape) - batched[0], len(y.shape) - batched[1])
    return align(x, batched[0], rank, ops), align(y, batched[1], rank, ops)


cdist = op(
    "cdist", "x y",
    _cdist,
    vjp=_cdist_vjp,
    jvp={
        "x": lambda t, x, y, out, x_dtype, ops: _weights(_push(t, x, y, x_dtype, ops), out, ops),
        "y": lambda t, x, y, out, x_dtype, ops: _weights(transpose(_push(t, y, x, x_dtype, ops), ops), out, ops),
    },
    batch=lambda x, y, batched, ops: ops.cdist(*_align_points(x, y, batched, ops)),
    saved_names={"x": "x1", "y": "x2"},
    promotes="x y",
)  # fmt: skip


# ----- sums and maxima of absolute differences ------------------------------------------------------------------------


def _differences(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Return x_i - y_j, of shape (..., rows, columns, coordinates)."""
    left = ops.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))
    return left - ops.reshape(y, shape=(*y.shape[:-2], 1, *y.shape[-2:]))


def _distances(x: Payload, y: Payload, ord: float, ops: Vocabulary) -> Payload:
    d = _differences(x, y, ops)
    return _norm(d, ord, len(d.shape) - 1, ops)


def _cdist_ord(np: Library, x: Payload, y: Payload, *, ord: float) -> Payload:
    refuse_complex("cdist", x, y)
    found = _measure_natively(x, y, ord)
    return _distances(x, y, ord, raw_ops(np)) if found is None else found


def _slopes(x: Payload, y: Payload, ord: float, ops: Vocabulary) -> Payload:
    """Return the derivatives of the distances by x: signs, which the coordinates of a maximum share equally.

    The maximum is computed again, because a result in half precision is rounded.
    """
    d = _differences(x, y, ops)
    slope = ops.sgn(d)
    if ord == 1:
        return slope
    size, last = ops.abs(d), (len(d.shape) - 1,)
    at_largest = size == ops.amax(size, dim=last, keepdim=True)
    is_largest = ops.cast(at_largest, dtype=getattr(d.dtype, "numpy", d.dtype))
    return slope * is_largest / ops.sum(is_largest, dim=last, keepdim=True)


def _cdist_ord_x(g: Payload, x: Payload, y: Payload, ord: float, ops: Vocabulary) -> Payload:
    if ops.raw and _for_kernel(x, y):
        found = _pull_ord(g, x, y, ord)
        if found is not None:
            return found
    slopes = _slopes(x, y, ord, ops)
    return ops.sum(ops.reshape(g, shape=(*g.shape, 1)) * slopes, dim=(len(slopes.shape) - 2,), keepdim=False)


def _pull_ord(g: Payload, x: Payload, y: Payload, ord: float) -> Payload | None:
    out = None if ord == 1 else _measure_natively(x, y, ord)
    if out is None:
        return _pull_natively(g, x, y, None, ord) if ord == 1 else None
    arrays = [native_kernels.dense(x)[:, :, None], native_kernels.dense(y.T), native_kernels.dense(out)[:, None, :]]
    count = native_kernels.run_fused(_count_largest, arrays, {}, small=True)
    return None if count is None else _pull_natively(g / count, x, y, out, ord)


def _cdist_ord_t(t: Payload, x: Payload, y: Payload, ord: float, ops: Vocabulary) -> Payload:
    slopes = _slopes(x, y, ord, ops)
    along = ops.reshape(t, shape=(*t.shape[:-1], 1, t.shape[-1])) * slopes
    return ops.sum(along, dim=(len(slopes.shape) - 1,), keepdim=False)


# The sums (`ord` is 1) or maxima (inf) of |x_i - y_j|. The distance does not change if x and y change places.
cdist_ord = composite(
    "cdist_ord", "x y",
    _distances,
    kernel=_cdist_ord,
    settings={"ord": 1.0},
    vjp={
        "x": _cdist_ord_x,
        "y": lambda g, x, y, ord, ops: _cdist_ord_x(transpose(g, ops), y, x, ord, ops),
    },
    jvp={
        "x": _cdist_ord_t,
        "y": lambda t, x, y, ord, ops: transpose(_cdist_ord_t(t, y, x, ord, ops), ops),
    },
    batch=lambda x, y, ord, batched, ops: ops.cdist_ord(*_align_points(x, y, batched, ops), ord=ord),
    backward_name="CdistBackward0",
    saved_names={"x": "x1", "y": "x2"},
    promotes="x y",
    piecewise_linear=True,
)  # fmt: skip


# ----- cosines --------------------------------------------------------------------------------------------------------
# With a = x / max(|x|, eps), b likewise, and c = <a, b>, dc = <b - c a, dx> / |x|; below eps, where the divisor is
# constant, dc = <b, dx> / eps.


def _lengths(x: Payload, dim: int, eps: float, ops: Vocabulary) -> tuple[Payload, Payload, Payload]:
    """Return x divided by a unit, its length in this unit, and the unit, with `dim` kept.

    The unit is 1, or the largest element if squares would leave the range of the dtype. It is at least `eps` then, so
    that `eps` in this unit is finite. Squares that vanish in the unit `eps` belong to lengths below `eps`.
    """
    limits = finfo(getattr(x.dtype, "numpy", x.dtype))
    most = math.sqrt(float(limits.max) / (8 * max(x.shape[dim], 1)))
    least = math.sqrt(float(limits.tiny) / float(limits.eps))
    top = ops.amax(ops.abs(x), dim=(dim,), keepdim=True)
    has_range = ((top > most) & (top < math.inf)) | ((top < least) & (top > 0.0))
    unit = ops.detach(ops.where(has_range, ops.maximum(top, eps), 1.0))
    scaled = x / unit
    square = ops.sum(scaled * scaled, dim=(dim,), keepdim=True)
    # The slope of the root at 0 is infinite; a length of 0 has derivatives that are 0.
    return scaled, ops.where(square == 0.0, 0.0, ops.sqrt(ops.where(square == 0.0, 1.0, square))), unit


def _cosines(x: Payload, y: Payload, dim: int, keepdim: bool, eps: float, ops: Vocabulary) -> Payload:
    if not x.shape[dim]:
        return ops.sum(x * y, dim=(dim,), keepdim=keepdim)
    (x, x_length, x_unit), (y, y_length, y_unit) = _lengths(x, dim, eps, ops), _lengths(y, dim, eps, ops)
    product = ops.sum(x * y, dim=(dim,), keepdim=True)
    lengths = ops.maximum(x_length, eps / x_unit) * ops.maximum(y_length, eps / y_unit)
    return product / lengths if keepdim else drop_dims(product / lengths, (dim,), ops)


@fused_rule("g x y", small=True)
def _cosine_slopes(
    g: Payload, x: Payload, y: Payload, dim: int, eps: float, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Return the gradients in x and y. `g` has `dim` kept."""
    (x, x_length, x_unit), (y, y_length, y_unit) = _lengths(x, dim, eps, ops), _lengths(y, dim, eps, ops)
    x_size, y_size = ops.maximum(x_length, eps / x_unit), ops.maximum(y_length, eps / y_unit)
    a, b = x / x_size, y / y_size
    cosine = ops.sum(a * b, dim=(dim,), keepdim=True)
    return tuple([
        (there - ops.where(length < size, 0.0, cosine) * here) * (g / size / unit)
        for here, there, length, size, unit in ((a, b, x_length, x_size, x_unit), (b, a, y_length, y_size, y_unit))
    ])  # fmt: skip


def _cosine_vjp(
    g: Payload, x: Payload, y: Payload, dim: int, keepdim: bool, eps: float, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    if not x.shape[dim]:
        return ops.zeros_like(x), ops.zeros_like(y)
    gx, gy = _cosine_slopes(keep(g, tuple(x.shape), (dim,), keepdim, ops), x, y, dim, eps, ops)
    return gx if needs[0] else None, gy if needs[1] else None


def _cosine_jvp(
    x: Payload, y: Payload, x_t: Payload, y_t: Payload, dim: int, keepdim: bool, eps: float, ops: Vocabulary
) -> Payload:
    """Return the sum of products of tangents and slopes."""
    ones = ops.zeros_like(ops.sum(x, dim=(dim,), keepdim=True)) + 1.0
    slopes = _cosine_slopes(ones, x, y, dim, eps, ops) if x.shape[dim] else (x, y)
    terms = [ops.sum(t * slope, dim=(dim,), keepdim=keepdim) for t, slope in zip((x_t, y_t), slopes) if t is not None]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


# <x, y> / (max(|x|, eps) max(|y|, eps)) along `dim`, for arrays of one shape.
cosine_similarity = composite(
    "cosine_similarity", "x y",
    _cosines,
    fused=True,
    small=True,
    refuses_complex=True,
    settings={"dim": 0, "keepdim": False, "eps": 1e-8},
    vjp=_cosine_vjp,
    jvp=_cosine_jvp,
    batch="dims",
    saved_names={"x": "x1", "y": "x2"},
    promotes="x y",
)  # fmt: skip


# ----- pairs ----------------------------------------------------------------------------------------------------------


def _pairs(np: Library, x: Payload) -> Payload:
    count = x.shape[-1]
    if x.__class__ is numpy.ndarray and count > 1:
        return np.concatenate([x[..., i, i + 1 :] for i in range(count - 1)], axis=-1)
    if not library.is_on_device(x):
        i, j = np.triu_indices(count, 1)
        return x[..., i, j]
    return x.reshape(*x.shape[:-2], count * count).take(_places_of_pairs(count, x.device.id), axis=-1)


@functools.lru_cache(maxsize=16)
def _places_of_pairs(count: int, device: int) -> Payload:
    """Return the flat indices of the entries above the diagonal of a matrix on a device.

    CuPy finds them by a search, which waits for the device and takes ten times as long as their use.
    """
    i, j = numpy.triu_indices(count, 1)
    return library.device_library.asarray(i * count + j)


def _from_pairs(np: Library, x: Payload, *, count: int) -> Payload:
    out = np.zeros((*x.shape[:-1], count, count), x.dtype)
    if x.__class__ is numpy.ndarray:
        start = 0
        for i in range(count - 1):
            out[..., i, i + 1 :] = x[..., start : start + count - 1 - i]
            start += count - 1 - i
        return out
    if not library.is_on_device(x):
        i, j = np.triu_indices(count, 1)
        out[..., i, j] = x
        return out
    out.reshape(*x.shape[:-1], count * count)[..., _places_of_pairs(count, x.device.id)] = x
    return out


# `pairs` are the entries above the diagonal, row by row. `from_pairs` is the matrix with these entries and zeros
# elsewhere. The two ops are transposes of each other.
pairs = op(
    "pairs", "x",
    _pairs,
    vjp={"x": lambda g, x_shape, ops: ops.from_pairs(g, count=x_shape[-1])},
    jvp="linear",
    batch="leading",
    moves_values=True, core_dims=[2], movement="rearrange",
)  # fmt: skip

from_pairs = op(
    "from_pairs", "x",
    _from_pairs,
    settings={"count": 0},
    vjp={"x": lambda g, ops: ops.pairs(g)},
    jvp="linear",
    batch="leading",
    moves_values=True, core_dims=[1], movement="rearrange",
)  # fmt: skip
