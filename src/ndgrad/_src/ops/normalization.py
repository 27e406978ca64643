"""Standardising over some dimensions, fused with the affine map: layer, group, instance and batch normalisation.

Composed of elementwise ops this would save several arrays of the input's size; the fused op saves only the input. The
constraint is that it stays differentiable to any order. So rules compute the statistics again from the input. In batch
normalisation they are outputs of the op, with gradients of their own.

Derivation. With n elements in a group, m their mean, v their variance, r = (v + eps)^(-1/2), y = (x - m) r and out = y
w + b, the differential of y is
    dy = r (dx - mean(dx) - y mean(y dx)),
because dm = mean(dx) and dr = -r^3 mean((x - m) dx) = -r^2 mean(y dx). As a map of dx it is symmetric, so for h = g w
the gradient in x is r (h - mean(h) - y mean(h y)); those in w and b are the sums of g y and g.
"""

from __future__ import annotations

import math
from math import prod
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels, threads
from ndgrad._src.arrays.blocked_sums import reduce_sum
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import is_half, widen
from ndgrad._src.ops.composite import composite, composite_elementwise, fused_rule

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

Shape = tuple[int, ...]

#: Number of elements in a block: large enough to hide NumPy's cost per call, small enough for a core's cache.
_BLOCK = 2**18
#: NumPy sums rows longer than this pairwise, instead of by a dot product.
_LONG = 4096


# ----- sums over a group, on raw arrays -------------------------------------------------------------------------------


def _total(np: Library, x: Payload, y: Payload, dim: Shape) -> Payload:
    """Return the sum of x y over `dim`, which is kept. If y is None, it stands for ones.

    Along the last dimensions of contiguous arrays these are dot products, which take less than half the time of
    reductions.
    """
    ndim = x.ndim
    kept = tuple([1 if d in dim else n for d, n in enumerate(x.shape)])
    inner = 0
    while inner < ndim and ndim - 1 - inner in dim:
        inner += 1
    length = prod(x.shape[ndim - inner :])
    if (
        np is numpy
        and inner
        and 1 < length <= _LONG
        and x.size
        and x.flags.c_contiguous
        and (y is None or y.flags.c_contiguous)
    ):
        lines = x.reshape(-1, length)
        sums = np.matmul(lines, np.ones(length, x.dtype)) if y is None else np.vecdot(lines, y.reshape(-1, length))
        outer = tuple([d for d in dim if d < ndim - inner])
        return (reduce_sum(np, sums.reshape(x.shape[: ndim - inner]), outer) if outer else sums).reshape(kept)
    return reduce_sum(np, x if y is None else x * y, dim).reshape(kept)


def _sum_to(np: Library, x: Payload, shape: Shape) -> Payload:
    lead = x.ndim - len(shape)
    dim = (*range(lead), *(lead + d for d, n in enumerate(shape) if n == 1 and x.shape[lead + d] != 1))
    return _total(np, x, None, dim).reshape(shape) if dim else x.reshape(shape)


def _sum_rows(np: Library, x: Payload, weights: Any = None) -> Payload:
    """Return the sum over the first of two dimensions; with weights it is a product."""
    return reduce_sum(np, x, (0,)) if weights is None else weights @ x


def _count(x: Any, dim: Shape) -> int:
    return int(max(prod([x.shape[d] for d in dim]), 1))


# Note [Half precision]: these ops take halves as they are, because their weights and statistics may be in single
# precision. The result still has the dtype of x.


def _moments(np: Library, x: Payload, dim: Shape) -> tuple[Any, Any, Any]:
    """Return mean, variance, and the centred input as a new array."""
    share = x.dtype.type(1 / _count(x, dim))
    if (
        np is numpy
        and len(dim) == 1
        and dim[0] == x.ndim - 1
        and 1 < x.shape[-1] <= _LONG
        and x.size
        and x.flags.c_contiguous
    ):
        return _moments_of_rows(np, x, share)
    mean = _total(np, x, None, dim)
    mean *= share
    centred = x - mean
    variance = _total(np, centred, centred, dim)
    variance *= share
    return mean, variance, centred


def _moments_of_rows(np: Library, x: Payload, share: Any) -> tuple[Any, Any, Any]:
    """Return the moments over the last dimension of a contiguous array, the most common case."""
    *lead, length = x.shape
    lines = x.reshape(-1, length)
    mean = np.matmul(lines, np.ones(length, x.dtype))
    mean *= share
    centred = lines - mean[:, None]
    variance = np.vecdot(centred, centred)
    variance *= share
    return mean.reshape(*lead, 1), variance.reshape(*lead, 1), centred.reshape(x.shape)


def _inverse_deviation(np: Library, variance: Any, eps: float) -> Payload:
    """Return (variance + eps)^(-1/2), and NaN (from 0 * inf) for a variance that has overflowed, because 0 would look
    valid.
    """
    return np.reciprocal(np.sqrt(variance + variance.dtype.type(eps))) + variance * 0.0


def _blocks(np: Library, x: Payload, dim: Shape) -> list[slice] | None:
    """Return ranges of the first dimension to process one after another or in threads; None if one pass is best."""
    if x.size <= _BLOCK or 0 in dim or not isinstance(x, numpy.ndarray):
        return None
    rows = max(1, _BLOCK * x.shape[0] // x.size)
    return [slice(i, i + rows) for i in range(0, x.shape[0], rows)]


# ----- native kernels ------------------------------------------------------------------------------------------------

#: Shorter rows are left to NumPy.
_SHORT = 16


def _rows(kernels: Any, shape: Shape, dim: Shape) -> Any:
    """Return the rows for native kernels over an array of this shape, reduced over `dim`; None if they do not apply.

    Last dimensions form rows. First and last dimensions together (batch normalisation) form segmented rows, with one
    segment per sample.
    """
    ndim = len(shape)
    inner = ndim
    while inner and inner - 1 in dim:
        inner -= 1
    length = prod(shape[inner:])
    outer = tuple([d for d in dim if d < inner])
    if length < _SHORT or outer not in ((), (0,)):
        return None
    rows = prod(shape[len(outer) : inner])
    return kernels.Geometry(rows, shape[0] if outer else 1, length, length, rows * length)


def _constant(shape: Shape, w: Any, dim: Shape) -> Shape:
    """Return the dimensions among `dim` along which w is constant."""
    lead = len(shape) if w is None else len(shape) - w.ndim
    return tuple([d for d in dim if d < lead or w.shape[d - lead] == 1])


def _expand_per_row(np: Library, x: Any, shape: Shape, dim: Shape) -> Any:
    """Expand numbers that broadcast to an array with one element per row. `dim` are the dimensions of `shape` within a
    row.
    """
    return np.ascontiguousarray(np.broadcast_to(x, tuple([1 if d in dim else n for d, n in enumerate(shape)]))).reshape(
        -1
    )


def _norm_natively(
    np: Library, x: Payload, w: Payload, b: Payload, dim: Shape, eps: float
) -> tuple[Any, Any, Any] | None:
    """Return (x - mean) (variance + eps)^(-1/2) w + b, mean and variance from native kernels; None if they do not
    apply.
    """
    if x.size < native_kernels.SMALLEST:
        return None
    kernels = native_kernels.kernels_for(x, *(y for y in (w, b) if y is not None))
    if kernels is None:
        return None
    constant = tuple([d for d in _constant(x.shape, w, dim) if d in _constant(x.shape, b, dim)])
    lines, parts = _rows(kernels, x.shape, dim), _rows(kernels, x.shape, constant)
    if lines is None or parts is None:
        return None
    kept = tuple([1 if d in dim else n for d, n in enumerate(x.shape)])
    mean, variance = (m.reshape(kept) for m in kernels.moments(x, lines))
    scale = _inverse_deviation(np, variance, eps)
    numbers = (mean, scale if w is None else scale * w, x.dtype.type(0) if b is None else b)
    out = kernels.affine(x, *(_expand_per_row(np, n, x.shape, constant) for n in numbers), parts)
    return out, mean, variance


# ----- rules, on arrays or tensors -----------------------------------------------------------------------------------


def _mean(x: Payload, dim: Shape, ops: Vocabulary) -> Payload:
    return ops.mean(x, dim=dim, keepdim=True)


def _standardise(x: Payload, dim: Shape, eps: float, ops: Vocabulary) -> tuple[Any, Any]:
    """Return y and r, as differentiable functions of x."""
    centred = x - _mean(x, dim, ops)
    r = _inverse_root(_mean(centred * centred, dim, ops) + eps, ops)
    return centred * r, r


def _inverse_root(variance: Any, ops: Vocabulary) -> Payload:
    return ops.where(variance < math.inf, ops.rsqrt(variance), math.nan)


def _symmetric(h: Payload, y: Payload, r: Payload, dim: Shape, ops: Vocabulary) -> Payload:
    """Return r (h - mean(h) - y mean(h y)): the derivative of y in both modes."""
    return r * (h - _mean(h, dim, ops) - y * _mean(h * y, dim, ops))


def _affine(y: Any, w: Any, b: Any) -> Any:
    out = y if w is None else y * w
    return out if b is None else out + b


# ----- layer, group and instance normalisation: statistics are internal ----------------------------------------------


def _norm(np: Library, x: Payload, w: Payload, b: Payload, *, dim: Shape, eps: float) -> Any:
    dtype = x.dtype
    x, w, b = widen(x), widen(w), widen(b)
    made = _norm_natively(np, x, w, b, dim, eps)
    if made is not None:
        return made[0].astype(dtype, copy=False)

    def whole(x: Any) -> Any:
        _, variance, out = _moments(np, x, dim)
        out *= _inverse_deviation(np, variance, eps)
        if w is not None:
            out *= w
        if b is not None:
            out += b
        return out

    blocks = _blocks(np, x, dim)
    if blocks is None or _has_rows(w, x) or _has_rows(b, x):
        return whole(x).astype(dtype, copy=False)
    out = np.empty(x.shape, dtype)

    def worker(mine: Any) -> None:
        for block in mine:
            out[block] = whole(x[block])

    threads.share(blocks, worker, threads=len(blocks))
    return out


def _row_length(x: Payload, dim: Shape, *weights: Any) -> int:
    """Return the row length of a layer normalisation in which each row uses all weights.

    Returns 0 for other normalisations, and for short rows of large arrays, except on a device.
    """
    inner = x.ndim - len(dim)
    last = x.shape[inner:]
    if dim[0] != inner or any(w is not None and w.shape != last for w in weights):
        return 0
    length = prod(last)
    return length if length >= _SHORT or not native_kernels.is_large(x) or is_on_device(x) else 0


def _has_rows(w: Any, x: Any) -> bool:
    """True if w varies along the first dimension of x, so that parts of x need parts of w."""
    return w is not None and w.ndim == x.ndim and w.shape[0] != 1


def _norm_vjp(
    g: Payload, x: Payload, w: Payload, dim: Shape, eps: float, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    if ops.raw:
        return _norm_pull(ops.np, g, x, w, dim, eps, needs)
    y, r = _standardise(x, dim, eps, ops)
    gx = _symmetric(g if w is None else g * w, y, r, dim, ops) if needs[0] else None
    return gx, g * y if needs[1] else None, g if needs[2] else None


def _channel_gradients(ops: Vocabulary, arrays: Any, settings: Any) -> tuple[Payload, Payload, Payload]:
    """Return the gradient in x, and those in w and b as sums over the dimensions along which w is the same."""
    (g, x, w), dim = arrays, settings["dim"]
    y, r = _standardise(x, dim, settings["eps"], ops)
    gx = _symmetric(g if w is None else g * w, y, r, dim, ops)
    sums = [ops.sum(v, dim=settings["constant"], keepdim=True) for v in (g * y, g)]
    return gx, *sums


def _pull_channels(
    np: Library, g: Payload, x: Payload, w: Payload, dim: Shape, eps: float, needs: tuple[bool, ...]
) -> tuple[Any, ...] | None:
    """Compute the rule by one kernel, if w is the same along some of the last dimensions; None without a kernel."""
    constant = _constant(x.shape, w, dim)
    if not constant or constant != dim[len(dim) - len(constant) :]:
        return None
    g = native_kernels.dense(g, x.dtype)
    settings = {"dim": dim, "eps": eps, "constant": constant}
    found = native_kernels.run_fused(_channel_gradients, [g, x, w], settings, small=True)
    if found is None:
        return None
    gx, gw, gb = found
    if w is None:
        return gx, None, g if needs[2] else None
    return gx, _sum_to(np, gw, w.shape) if needs[1] else None, _sum_to(np, gb, w.shape) if needs[2] else None


def _norm_pull(
    np: Library, g: Payload, x: Payload, w: Payload, dim: Shape, eps: float, needs: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Compute the rule on raw arrays, with few passes over them."""
    last = x.shape[x.ndim - len(dim) :]
    weights = () if w is None else (w,)
    kernels = native_kernels.row_kernels(x, *weights, small=True) if _row_length(x, dim, w) else None
    if kernels is not None:
        scale = np.ones(last, x.dtype) if w is None else w
        gx, gw, gb = kernels.layer_norm_gradient(native_kernels.dense(g, x.dtype), x, scale, eps)
        # Without w the dimensions along which b broadcasts are unknown, so the engine sums g.
        return gx, gw if needs[1] else None, g if w is None else gb
    if found := _pull_channels(np, g, x, w, dim, eps, needs):
        return found
    if is_half(x.dtype):
        return _norm_pull(np, widen(g), widen(x), widen(w), dim, eps, needs)
    if w is None or not x.size or w.shape != last or dim[0] != x.ndim - len(dim):
        return _pull(np, g, x, *_statistics(np, x, dim), eps, w, dim, needs)
    # In layer normalisation all rows have the same weight along them, so sums in both directions are products.
    shape, length = x.shape, prod(last)
    x, g, line = x.reshape(-1, length), np.ascontiguousarray(g).reshape(-1, length), w.reshape(length)
    gx = np.empty(x.shape, x.dtype) if needs[0] else None
    blocks = _blocks(np, x, (1,)) or [slice(0, len(x))]
    sums = np.zeros((len(blocks), length), x.dtype)

    def worker(mine: Any) -> None:
        for number in mine:
            rows = blocks[number]
            sums[number] = _pull_rows(np, g[rows], x[rows], line, eps, None if gx is None else gx[rows], needs[1])

    threads.share(range(len(blocks)), worker, threads=len(blocks))
    return (
        None if gx is None else gx.reshape(shape),
        np.add.reduce(sums, axis=0).reshape(last) if needs[1] else None,
        _sum_rows(np, g).reshape(last) if needs[2] else None,
    )


def _pull_rows(np: Library, g: Payload, x: Payload, w: Payload, eps: float, gx: Any, wants_w: bool) -> Payload:
    """Write the gradient in x for some rows, and return their contribution to the gradient in w (0 if not needed)."""
    share = x.dtype.type(1 / x.shape[1])
    _, variance, centred = _moments(np, x, (1,))
    r = _inverse_deviation(np, variance, eps)
    product = g * centred
    grad_w = _sum_rows(np, product, r[:, 0]) if wants_w else 0
    if gx is None:
        return grad_w
    # The gradient is r (h - mean(h) - y mean(h y)) with y = r centred.
    mean_h, mean_hy = g @ w, product @ w
    mean_hy *= r[:, 0]
    np.multiply(g, w, out=gx)
    centred *= r * (mean_hy * share)[:, None]
    gx -= centred
    gx -= (mean_h * share)[:, None]
    gx *= r
    return grad_w


def _statistics(np: Library, x: Payload, dim: Shape) -> tuple[Any, Any]:
    """Return mean and variance."""
    kernels = native_kernels.kernels_for(x)
    rows = None if kernels is None else _rows(kernels, x.shape, dim)
    if rows is None:
        return _moments(np, x, dim)[:2]
    kept = tuple([1 if d in dim else n for d, n in enumerate(x.shape)])
    mean, variance = kernels.moments(x, rows)
    return mean.reshape(kept), variance.reshape(kept)


def _pull(
    np: Library,
    g: Payload,
    x: Payload,
    mean: Any,
    variance: Any,
    eps: float,
    w: Payload,
    dim: Shape,
    needs: tuple[bool, ...],
    more_mean: Any = None,
    more_centred: Any = None,
) -> tuple[Any, ...]:
    """Return r (h - mean(h) - y mean(h y)) + more_mean + centred more_centred, and the gradients in w and b.

    Along dimensions where w is constant, it is applied after the sums, to small arrays.
    """
    share = x.dtype.type(1 / _count(x, dim))
    r = _inverse_deviation(np, variance, eps)
    constant = _constant(x.shape, w, dim)
    kernels = native_kernels.kernels_for(x)
    rows = None if kernels is None else _rows(kernels, x.shape, constant)
    if rows is not None:
        g, means = native_kernels.dense(g, x.dtype), _expand_per_row(np, mean, x.shape, constant)
        partial = tuple([1 if d in constant else n for d, n in enumerate(x.shape)])
        sum_g, moment = (total.reshape(partial) for total in kernels.centred_sums(g, x, means, rows))
        sum_gy = moment * r
    else:
        centred = x - mean
        if constant:
            sum_g, sum_gy = _total(np, g, None, constant), _total(np, np.ascontiguousarray(g), centred, constant) * r
        else:
            sum_g, sum_gy = g, g * centred * r
    grad_w = _sum_to(np, sum_gy, w.shape) if needs[1] else None
    grad_b = (g if w is None else _sum_to(np, sum_g, w.shape)) if needs[2] else None
    if not needs[0]:
        return None, grad_w, grad_b
    if w is not None:
        sum_g, sum_gy = sum_g * w, sum_gy * w
    if len(constant) < len(dim):
        varying = tuple([d for d in dim if d not in constant])
        sum_g, sum_gy = _total(np, sum_g, None, varying), _total(np, sum_gy, None, varying)
    shift, slope = sum_g * (r * -share), sum_gy * (r * r * -share)
    scale = r if w is None else r * w
    slope = slope if more_centred is None else slope + more_centred
    shift = shift if more_mean is None else shift + more_mean
    if rows is not None:
        numbers = (_expand_per_row(np, n, x.shape, constant) for n in (scale, slope, shift))
        return kernels.combine_rows(g, x, means, *numbers, rows), grad_w, grad_b
    gx = g * scale
    centred *= slope
    gx += centred
    gx += shift
    return gx, grad_w, grad_b


def _norm_jvp(
    x: Payload, w: Payload, x_t: Payload, w_t: Payload, b_t: Payload, dim: Shape, eps: float, ops: Vocabulary
) -> Payload:
    if x_t is None and w_t is None:
        return b_t
    y, r = _standardise(x, dim, eps, ops)
    out = None
    if x_t is not None:
        out = _symmetric(x_t, y, r, dim, ops)
        out = out if w is None else out * w
    if w_t is not None:
        out = y * w_t if out is None else out + y * w_t
    return out if b_t is None else out + b_t


def _align_behind_batch(w: Payload, batched: bool, ndim: int, ops: Vocabulary) -> Payload:
    """Align a weight with an input of `ndim` dimensions, including the batch."""
    if w is None or not batched:
        return w
    return ops.reshape(w, shape=(w.shape[0], *(1,) * (ndim - len(w.shape)), *w.shape[1:]))


def _norm_batch(
    x: Payload, w: Payload, b: Payload, dim: Shape, eps: float, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    if not batched[0]:
        y = ops.native_layer_norm(x, None, None, dim=dim, eps=eps)
        y = ops.reshape(y, shape=(1, *y.shape))
        return _affine(
            y,
            _align_behind_batch(w, batched[1], len(y.shape), ops),
            _align_behind_batch(b, batched[2], len(y.shape), ops),
        )
    ndim = len(x.shape)
    w, b = _align_behind_batch(w, batched[1], ndim, ops), _align_behind_batch(b, batched[2], ndim, ops)
    return ops.native_layer_norm(x, w, b, dim=tuple(d + 1 for d in dim), eps=eps)


# (x - mean) (variance + eps)^(-1/2) w + b with statistics over `dim`. w or b may be None. Both broadcast against x, and
# have the same shape if both are given.
native_layer_norm = composite(
    "native_layer_norm", "x w b",
    lambda x, w, b, dim, eps, ops: _affine(_standardise(x, dim, eps, ops)[0], w, b),
    fused=True,
    small=True,
    kernel=_norm,
    settings={"dim": (), "eps": 1e-5},
    vjp=_norm_vjp,
    jvp=_norm_jvp,
    batch=_norm_batch,
    optional="w b",
    halves=True,
    halves_on_device=True,
    saved_names={"x": "input", "w": "weight"},
)  # fmt: skip


# ----- batch normalisation: statistics are outputs, for the running averages -----------------------------------------


def _batch_norm(np: Library, x: Payload, w: Payload, b: Payload, *, dim: Shape, eps: float) -> tuple[Any, Any, Any]:
    dtype = x.dtype
    x, w, b = widen(x), widen(w), widen(b)
    made = _norm_natively(np, x, w, b, dim, eps)
    if made is not None:
        return made[0].astype(dtype, copy=False), made[1], made[2]
    mean, variance, out = _moments(np, x, dim)
    scale = _inverse_deviation(np, variance, eps)
    out *= scale if w is None else scale * w
    if b is not None:
        out += b
    return out.astype(dtype, copy=False), mean, variance


def _batch_norm_terms(
    g0: Payload, g1: Payload, g2: Payload, x: Payload, w: Payload, out1: Payload, out2: Payload, dim: Shape, eps: float,
    ops: Vocabulary,
) -> tuple[Payload, Payload, Payload]:  # fmt: skip
    """Return the gradient in x, and those in w and b as sums over `dim`, which is kept."""
    share = 1 / _count(x, dim)
    r = _inverse_root(out2 + eps, ops)
    centred = x - out1
    y = centred * r
    gx = _add_statistics(_symmetric(g0 if w is None else g0 * w, y, r, dim, ops), g1, g2, centred, share)
    return gx, ops.sum(g0 * y, dim=dim, keepdim=True), ops.sum(g0, dim=dim, keepdim=True)


def _add_statistics(gx: Payload, g1: Payload, g2: Payload, centred: Payload, share: float) -> Payload:
    """Add the gradients through mean and variance, g1 / n and g2 2 (x - m) / n, each of which may be None."""
    if g1 is not None:
        gx = gx + g1 * share
    return gx if g2 is None else gx + centred * (g2 * (2 * share))


def _batch_norm_gradients(*values: Any) -> tuple[Payload, Payload, Payload] | None:
    """Return the same on raw arrays by one kernel; None if there is none, or if a weight varies along `dim`."""
    *arrays, dim, eps, _ = values
    x, w = arrays[3], arrays[4]
    if w is not None and (w.size != prod([n for d, n in enumerate(x.shape) if d not in dim])):
        return None
    found: tuple[Payload, Payload, Payload] | None = native_kernels.run_fused(
        _on_batch_norm, arrays, {"dim": dim, "eps": eps}, small=True
    )
    return found


def _on_batch_norm(ops: Vocabulary, arrays: Any, settings: Any) -> tuple[Payload, Payload, Payload]:
    g0, g1, g2, x, w, mean, variance = arrays
    return _batch_norm_terms(g0, g1, g2, x, w, mean, variance, settings["dim"], settings["eps"], ops)


def _batch_norm_vjp(
    g0: Payload,
    g1: Payload,
    g2: Payload,
    x: Payload,
    w: Payload,
    out1: Payload,
    out2: Payload,
    dim: Shape,
    eps: float,
    needs: tuple[bool, ...],
    ops: Vocabulary,
) -> tuple[Any, ...]:
    """Return the gradients as for layer normalisation, plus those through the two statistics: g1 / n, and g2 2 (x - m)
    / n.
    """
    share = 1 / _count(x, dim)
    if g0 is None:
        g0 = ops.zeros_like(x)
    if ops.raw:
        g0 = native_kernels.dense(g0, x.dtype) if is_on_device(x) else g0
        found = _batch_norm_gradients(g0, g1, g2, x, w, out1, out2, dim, eps, ops)
        if found is not None:
            gx, gw, gb = found
            gb = gb if w is None else gb.reshape(w.shape)  # b has the shape of w, if both are given
            return gx, gw.reshape(w.shape) if w is not None and needs[1] else None, gb if needs[2] else None
        return _pull(
            ops.np, g0, x, out1, out2, eps, w, dim, needs, None if g1 is None else g1 * x.dtype.type(share),
            None if g2 is None else g2 * x.dtype.type(2 * share),
        )  # fmt: skip
    r = _inverse_root(out2 + eps, ops)
    centred = x - out1
    y = centred * r
    gx = None
    if needs[0]:
        gx = _add_statistics(_symmetric(g0 if w is None else g0 * w, y, r, dim, ops), g1, g2, centred, share)
    return gx, g0 * y if needs[1] else None, g0 if needs[2] else None


def _batch_norm_jvp(
    x: Payload,
    w: Payload,
    x_t: Payload,
    w_t: Payload,
    b_t: Payload,
    out1: Payload,
    out2: Payload,
    dim: Shape,
    eps: float,
    ops: Vocabulary,
) -> tuple[Any, Any, Any]:
    r = _inverse_root(out2 + eps, ops)
    centred = x - out1
    y = centred * r
    terms = []
    mean_t = variance_t = None
    if x_t is not None:
        term = _symmetric(x_t, y, r, dim, ops)
        terms.append(term if w is None else term * w)
        mean_t, variance_t = _mean(x_t, dim, ops), _mean(centred * x_t, dim, ops) * 2.0
    if w_t is not None:
        terms.append(y * w_t)
    if b_t is not None:
        terms.append(b_t)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total, mean_t, variance_t


def _batch_norm_batch(
    x: Payload, w: Payload, b: Payload, dim: Shape, eps: float, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> tuple[Payload, ...]:
    ndim = len(x.shape) + (not batched[0])
    w, b = _align_behind_batch(w, batched[1], ndim, ops), _align_behind_batch(b, batched[2], ndim, ops)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    return ops.native_batch_norm(x, w, b, dim=tuple(d + 1 for d in dim), eps=eps)


def _batch_norm_body(
    x: Payload, w: Payload, b: Payload, dim: Shape, eps: float, ops: Vocabulary
) -> tuple[Payload, Payload, Payload]:
    mean = _mean(x, dim, ops)
    centred = x - mean
    variance = _mean(centred * centred, dim, ops)
    return _affine(centred * _inverse_root(variance + eps, ops), w, b), mean, variance


# As native_layer_norm, with two more outputs: mean and (biased) variance, `dim` kept.
native_batch_norm = composite(
    "native_batch_norm", "x w b",
    _batch_norm_body,
    fused=True,
    small=True,
    kernel=_batch_norm,
    settings={"dim": (), "eps": 1e-5},
    vjp=_batch_norm_vjp,
    jvp=_batch_norm_jvp,
    batch=_batch_norm_batch,
    optional="w b",
    outputs=3,
    takes_undefined=True,
    halves=True,
    saved_names={"x": "input", "w": "weight"},
)  # fmt: skip


# ----- batch normalisation by fixed statistics ------------------------------------------------------------------------


@fused_rule("t variance w")
def _fixed_norm_x(t: Payload, variance: Payload, w: Payload, eps: float, ops: Vocabulary) -> Payload:
    return t * (ops.rsqrt(variance + eps) * w)


def _fixed_norm_variance(
    t: Payload, x: Payload, mean: Payload, variance: Payload, w: Payload, eps: float, ops: Vocabulary
) -> Payload:
    r = ops.rsqrt(variance + eps)
    return t * (x - mean) * (r * r * r * w * -0.5)


# (x - mean) (variance + eps)^(-1/2) w + b, with broadcasting. w and b may be numbers.
fixed_norm = composite_elementwise(
    "fixed_norm",
    lambda x, mean, variance, w, b, eps, ops: (x - mean) * (ops.rsqrt(variance + eps) * w) + b,
    args="x mean variance w b",
    settings={"eps": 1e-5},
    x=_fixed_norm_x,
    mean=lambda t, variance, w, eps, ops: -(t * (ops.rsqrt(variance + eps) * w)),
    variance=_fixed_norm_variance,
    w=lambda t, x, mean, variance, eps, ops: t * ((x - mean) * ops.rsqrt(variance + eps)),
    b=lambda t: t,
    inplace=False,
    backward_name="NativeBatchNormBackward0",
    saved_names={"x": "input", "w": "weight", "mean": "running_mean", "variance": "running_var"},
)


# ----- normalisation by the root mean square -------------------------------------------------------------------------
# With r = (mean(x^2) + eps)^(-1/2) and y = x r: dy = r (dx - y mean(y dx)), symmetric again.


def _rms_norm(np: Library, x: Payload, w: Payload, *, dim: Shape, eps: float) -> Payload:
    dtype = x.dtype
    x, w = widen(x), widen(w)
    out = x * _inverse_deviation(np, _total(np, x, x, dim) * x.dtype.type(1 / _count(x, dim)), eps)
    if w is not None:
        out *= w
    return out.astype(dtype, copy=False)


def _rms(x: Payload, dim: Shape, eps: float, ops: Vocabulary) -> tuple[Any, Any]:
    r = _inverse_root(_mean(x * x, dim, ops) + eps, ops)
    return x * r, r


def _rms_symmetric(h: Payload, y: Payload, r: Payload, dim: Shape, ops: Vocabulary) -> Payload:
    return r * (h - y * _mean(h * y, dim, ops))


def _rms_norm_vjp(
    g: Payload, x: Payload, w: Payload, dim: Shape, eps: float, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    if ops.raw and _row_length(x, dim, w):
        weights = ops.np.ones(x.shape[x.ndim - len(dim) :], x.dtype) if w is None else w
        kernels = native_kernels.row_kernels(x, weights, small=True)
        if kernels is not None:
            gx, gw = kernels.rms_norm_gradient(native_kernels.dense(g, x.dtype), x, weights, eps)
            return gx, gw if needs[1] else None
    y, r = _rms(x, dim, eps, ops)
    gx = _rms_symmetric(g if w is None else g * w, y, r, dim, ops) if needs[0] else None
    return gx, g * y if needs[1] else None


def _rms_norm_jvp(
    x: Payload, w: Payload, x_t: Payload, w_t: Payload, dim: Shape, eps: float, ops: Vocabulary
) -> Payload:
    y, r = _rms(x, dim, eps, ops)
    if x_t is None:
        return y * w_t
    out = _rms_symmetric(x_t, y, r, dim, ops)
    out = out if w is None else out * w
    return out if w_t is None else out + y * w_t


def _rms_norm_batch(
    x: Payload, w: Payload, dim: Shape, eps: float, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    w = _align_behind_batch(w, batched[1], len(x.shape) + (not batched[0]), ops)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    return ops.rms_norm(x, w, dim=tuple(d + 1 for d in dim), eps=eps)


rms_norm = composite(
    "rms_norm", "x w",
    lambda x, w, dim, eps, ops: _affine(_rms(x, dim, eps, ops)[0], w, None),
    fused=True,
    small=True,
    kernel=_rms_norm,
    settings={"dim": (), "eps": 1e-5},
    vjp=_rms_norm_vjp,
    jvp=_rms_norm_jvp,
    batch=_rms_norm_batch,
    optional="w",
    halves=True,
    may_be_discrete=True,
)  # fmt: skip


# ----- running statistics ---------------------------------------------------------------------------------------------


# old_share x + new_share (factor y). The factors are operands (numbers or tensors), because a program may compute them.
blend = composite_elementwise(
    "blend",
    lambda x, y, old_share, new_share, factor: x * old_share + y * factor * new_share,
    args="x y old_share new_share factor",
    x=lambda t, old_share: t * old_share,
    y=lambda t, new_share, factor: t * new_share * factor,
    old_share=lambda t, x: t * x,
    new_share=lambda t, y, factor: t * (y * factor),
    factor=lambda t, y, new_share: t * new_share * y,
)
