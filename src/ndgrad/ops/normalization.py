"""Standardising over some dimensions, fused with the affine map behind it: layer, group, instance and batch normalisation.

Composed of elementwise ops this would save five arrays of the input's size; fused, it saves the input. The constraint is
that it stays differentiable to any order: the rules below are written once, and the statistics they need are computed
again from the input (a tenth of the work of the rest), or, in batch normalisation, are outputs of the op with gradients
of their own.

Derivation. With n elements to a group, m their mean, v their variance, r = (v + eps)^(-1/2), y = (x - m) r and out = y w + b, the
differential of y is
    dy = r (dx - mean(dx) - y mean(y dx)),
because dm = mean(dx) and dr = -r^3 mean((x - m) dx) = -r^2 mean(y dx). As a map of dx it is symmetric, so for h = g w the
gradient in x is r (h - mean(h) - y mean(h y)); those in w and b are the sums of g y and g.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ndgrad.arrays import threads
from ndgrad.ops.table import op

Shape = tuple[int, ...]

#: Elements of a block: large enough that NumPy's cost per call does not count, small enough for a core's cache.
_BLOCK = 2**18
#: Lines longer than this are summed pairwise by NumPy rather than by a dot product.
_LONG = 4096


# ----- sums over a group, on raw arrays ------------------------------------------------------------------------------


def _ends_with(dim: Shape, ndim: int) -> bool:
    return dim == tuple(range(ndim - len(dim), ndim))


def _total(np: Any, x: Any, y: Any, dim: Shape) -> Any:
    """The sum of x y over `dim`, which is kept; y None stands for ones.

    Along the last dimensions of contiguous arrays these are dot products: NumPy's reductions cost five times as much there.
    """
    ndim = x.ndim
    kept = tuple(1 if d in dim else n for d, n in enumerate(x.shape))
    inner = 0
    while inner < ndim and ndim - 1 - inner in dim:
        inner += 1
    length = prod(x.shape[ndim - inner :])
    if inner and 1 < length <= _LONG and x.size and x.flags.c_contiguous and (y is None or y.flags.c_contiguous):
        lines = x.reshape(*x.shape[: ndim - inner], length)
        sums = np.vecdot(lines, np.ones(length, x.dtype) if y is None else y.reshape(lines.shape))
        outer = tuple(d for d in dim if d < ndim - inner)
        return (sums.sum(axis=outer) if outer else sums).reshape(kept)
    return np.add.reduce(x if y is None else x * y, axis=dim).reshape(kept)


def _sum_rows(np: Any, x: Any) -> Any:
    """The sum over the first of two dimensions, as a product with ones."""
    return np.ones(len(x), x.dtype) @ x


def _computing(np: Any, *arrays: Any) -> tuple[Any, ...]:
    """Half precision is too short for sums of squares: it is computed with in single."""
    return tuple(a.astype(np.float32) if a is not None and a.dtype.itemsize == 2 and a.dtype.kind == "f" else a for a in arrays)


def _moments(np: Any, x: Any, dim: Shape) -> tuple[Any, Any, Any]:
    """Mean, variance, and the centred input, which is a new array."""
    n = max(prod(x.shape[d] for d in dim), 1)
    mean = _total(np, x, None, dim) / x.dtype.type(n)
    centred = x - mean
    return mean, _total(np, centred, centred, dim) / x.dtype.type(n), centred


def _affine_in_place(out: Any, w: Any, b: Any) -> Any:
    if w is not None:
        out *= w
    if b is not None:
        out += b
    return out


def _blocks(x: Any, dim: Shape) -> list[slice] | None:
    """Ranges of the first dimension to work on one after another or in threads; None where it is best left whole."""
    if x.size <= _BLOCK or 0 in dim or not x.shape[0]:
        return None
    rows = max(1, _BLOCK * x.shape[0] // x.size)
    return [slice(i, i + rows) for i in range(0, x.shape[0], rows)]


# ----- the rules, on whatever they run on ----------------------------------------------------------------------------


def _mean(x: Any, dim: Shape, ops: Any) -> Any:
    return ops.mean(x, dim=dim, keepdim=True)


def _standardise(x: Any, dim: Shape, eps: float, ops: Any) -> tuple[Any, Any]:
    """y and r, as differentiable functions of x."""
    centred = x - _mean(x, dim, ops)
    r = ops.rsqrt(_mean(centred * centred, dim, ops) + eps)
    return centred * r, r


def _symmetric(h: Any, y: Any, r: Any, dim: Shape, ops: Any) -> Any:
    """r (h - mean(h) - y mean(h y)): the derivative of y in either mode."""
    return r * (h - _mean(h, dim, ops) - y * _mean(h * y, dim, ops))


def _affine(y: Any, w: Any, b: Any) -> Any:
    out = y if w is None else y * w
    return out if b is None else out + b


# ----- layer, group and instance normalisation: the statistics stay inside -------------------------------------------


def _norm(np: Any, x: Any, w: Any, b: Any, *, dim: Shape, eps: float) -> Any:
    dtype = x.dtype
    x, w, b = _computing(np, x, w, b)

    def whole(x: Any) -> Any:
        _, variance, centred = _moments(np, x, dim)
        centred *= 1 / np.sqrt(variance + x.dtype.type(eps))
        return _affine_in_place(centred, w, b)

    blocks = _blocks(x, dim)
    if blocks is None or np.__name__ != "numpy" or _has_rows(w, x) or _has_rows(b, x):
        return whole(x).astype(dtype, copy=False)
    out = np.empty(x.shape, dtype)

    def worker(mine: Any) -> None:
        for block in mine:
            out[block] = whole(x[block])

    threads.share(blocks, worker, threads=len(blocks))
    return out


def _has_rows(w: Any, x: Any) -> bool:
    """Whether w varies along the first dimension of x, and so cannot be used with a part of it as it stands."""
    return w is not None and w.ndim == x.ndim and w.shape[0] != 1


def _norm_vjp(g: Any, x: Any, w: Any, dim: Shape, eps: float, needs: tuple[bool, ...], ops: Any) -> tuple[Any, ...]:
    if ops.raw:
        return _norm_pull(ops.np, g, x, w, dim, eps, needs)
    y, r = _standardise(x, dim, eps, ops)
    gx = _symmetric(g if w is None else g * w, y, r, dim, ops) if needs[0] else None
    return gx, g * y if needs[1] else None, g if needs[2] else None


def _norm_pull(np: Any, g: Any, x: Any, w: Any, dim: Shape, eps: float, needs: tuple[bool, ...]) -> tuple[Any, ...]:
    """The rule on raw arrays, with few temporaries and, where w lies along the last dimensions, with matrix products."""
    dtype = x.dtype
    g, x, w = _computing(np, g, x, w)
    lines = _ends_with(dim, x.ndim) and (w is None or w.shape == x.shape[x.ndim - len(dim) :])
    if not lines or not x.size:
        _, variance, y = _moments(np, x, dim)
        r = 1 / np.sqrt(variance + x.dtype.type(eps))
        y *= r
        return _pull_whole(np, g, y, r, w, dim, needs)
    length = prod(x.shape[x.ndim - len(dim) :])
    shape, x, g = x.shape, x.reshape(-1, length), g.reshape(-1, length)
    flat = np.ones(length, x.dtype) if w is None else w.reshape(length)
    gx = np.empty(x.shape, x.dtype) if needs[0] else None
    blocks = (_blocks(x, (1,)) if np.__name__ == "numpy" else None) or [slice(0, len(x))]
    sums = np.zeros((len(blocks), length), x.dtype)

    def worker(mine: Any) -> None:
        for number in mine:
            rows = blocks[number]
            sums[number] = _pull_lines(
                np, g[rows], x[rows], None if w is None else flat, flat, eps, None if gx is None else gx[rows], needs[1]
            )

    threads.share(range(len(blocks)), worker, threads=len(blocks))
    return (
        None if gx is None else gx.reshape(shape).astype(dtype, copy=False),
        sums.sum(axis=0).reshape(w.shape) if needs[1] else None,
        None if not needs[2] else _sum_rows(np, g).reshape(w.shape) if w is not None else g.reshape(shape),
    )


def _pull_lines(np: Any, g: Any, x: Any, w: Any, w_or_ones: Any, eps: float, gx: Any, wants_w: bool) -> Any:
    """Writes the gradient in x for some lines, and returns what they add to the gradient in w (0 if not wanted)."""
    n = x.dtype.type(x.shape[1])
    _, variance, y = _moments(np, x, (1,))
    r = 1 / np.sqrt(variance + x.dtype.type(eps))
    y *= r
    product = g * y
    grad_w = _sum_rows(np, product) if wants_w else 0
    if gx is None:
        return grad_w
    mean_h, mean_hy = g @ w_or_ones, product @ w_or_ones
    r_line = r[:, 0]
    mean_h *= r_line / n
    mean_hy *= r_line / n
    np.multiply(g, r, out=gx)
    if w is not None:
        gx *= w
    gx -= mean_h[:, None]
    y *= mean_hy[:, None]
    gx -= y
    return grad_w


def _pull_whole(
    np: Any, g: Any, y: Any, r: Any, w: Any, dim: Shape, needs: tuple[bool, ...], add_mean: Any = 0, add_y: Any = 0
) -> tuple[Any, ...]:
    """r (h - mean(h) - y mean(h y)) + add_mean + y add_y, and the terms of the sums for w and b. y is overwritten."""
    n = y.dtype.type(max(prod(y.shape[d] for d in dim), 1))
    grad_w = None
    product = g * y
    if needs[1]:
        grad_w = _sum_to(np, product, w.shape)
    grad_b = _sum_to(np, g, w.shape) if needs[2] and w is not None else g if needs[2] else None
    if not needs[0]:
        return None, grad_w, grad_b
    if w is None or all(w.ndim < y.ndim - d or w.shape[d - y.ndim] == 1 for d in dim):
        # w is constant within a group: it can wait until the sums are taken
        mean_h, mean_hy = _total(np, g, None, dim) / n, _total(np, product, None, dim) / n
        if w is not None:
            mean_h, mean_hy = mean_h * w, mean_hy * w
    else:
        mean_h, mean_hy = _total(np, g * w, None, dim) / n, _total(np, product * w, None, dim) / n
    scale = r if w is None else r * w
    gx = g * scale
    gx -= r * mean_h - add_mean
    y *= r * mean_hy - add_y
    gx -= y
    return gx, grad_w, grad_b


def _sum_to(np: Any, x: Any, shape: Shape) -> Any:
    lead = x.ndim - len(shape)
    dim = (*range(lead), *(lead + d for d, n in enumerate(shape) if n == 1))
    return _total(np, x, None, dim).reshape(shape) if dim else x


def _norm_jvp(x: Any, w: Any, x_t: Any, w_t: Any, b_t: Any, dim: Shape, eps: float, ops: Any) -> Any:
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


def _behind_batch(w: Any, batched: bool, ndim: int, ops: Any) -> Any:
    """A weight that lines up with an input of `ndim` dimensions, batch included."""
    if w is None or not batched:
        return w
    return ops.reshape(w, shape=(w.shape[0], *(1,) * (ndim - len(w.shape)), *w.shape[1:]))


def _norm_batch(x: Any, w: Any, b: Any, dim: Shape, eps: float, batched: Any, ops: Any, size: int) -> Any:
    if not batched[0]:
        y = ops.native_layer_norm(x, None, None, dim=dim, eps=eps)
        y = ops.reshape(y, shape=(1, *y.shape))
        return _affine(y, _behind_batch(w, batched[1], len(y.shape), ops), _behind_batch(b, batched[2], len(y.shape), ops))
    ndim = len(x.shape)
    w, b = _behind_batch(w, batched[1], ndim, ops), _behind_batch(b, batched[2], ndim, ops)
    return ops.native_layer_norm(x, w, b, dim=tuple(d + 1 for d in dim), eps=eps)


# (x - mean) (variance + eps)^(-1/2) w + b with statistics over `dim`. Either of w and b may be None; they broadcast against x,
# and have one shape if both are given.
native_layer_norm = op(
    "native_layer_norm", "x w b",
    _norm,
    settings={"dim": (), "eps": 1e-5},
    vjp=_norm_vjp,
    jvp=_norm_jvp,
    batch=_norm_batch,
    optional="w b",
)  # fmt: skip


# ----- batch normalisation: the statistics are outputs, for the running averages -------------------------------------


def _batch_norm(np: Any, x: Any, w: Any, b: Any, *, dim: Shape, eps: float) -> tuple[Any, Any, Any]:
    dtype = x.dtype
    x, w, b = _computing(np, x, w, b)
    mean, variance, centred = _moments(np, x, dim)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    centred *= scale if w is None else scale * w
    if b is not None:
        centred += b
    return centred.astype(dtype, copy=False), mean, variance


def _batch_norm_vjp(
    g0: Any, g1: Any, g2: Any, x: Any, w: Any, out1: Any, out2: Any, dim: Shape, eps: float, needs: tuple[bool, ...], ops: Any
) -> tuple[Any, ...]:
    """As above, with the gradients of the two statistics: g1 / n, and g2 2 (x - m) / n = y g2 2 / (n r)."""
    n = max(prod(x.shape[d] for d in dim), 1)
    if ops.raw:
        np = ops.np
        g, x, w = _computing(np, g0, x, w)
        r = 1 / np.sqrt(out2 + x.dtype.type(eps))
        y = x - out1
        y *= r
        return _pull_whole(np, g, y, r, w, dim, needs, g1 / x.dtype.type(n), g2 * x.dtype.type(2 / n) / r)
    r = ops.rsqrt(out2 + eps)
    centred = x - out1
    y = centred * r
    gx = None
    if needs[0]:
        gx = _symmetric(g0 if w is None else g0 * w, y, r, dim, ops) + g1 / n + centred * (g2 * (2 / n))
    return gx, g0 * y if needs[1] else None, g0 if needs[2] else None


def _batch_norm_jvp(
    x: Any, w: Any, x_t: Any, w_t: Any, b_t: Any, out1: Any, out2: Any, dim: Shape, eps: float, ops: Any
) -> tuple[Any, Any, Any]:
    r = ops.rsqrt(out2 + eps)
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


def _batch_norm_batch(x: Any, w: Any, b: Any, dim: Shape, eps: float, batched: Any, ops: Any, size: int) -> Any:
    ndim = len(x.shape) + (not batched[0])
    w, b = _behind_batch(w, batched[1], ndim, ops), _behind_batch(b, batched[2], ndim, ops)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    return ops.native_batch_norm(x, w, b, dim=tuple(d + 1 for d in dim), eps=eps)


# As native_layer_norm, with two more outputs: mean and (biased) variance, `dim` kept.
native_batch_norm = op(
    "native_batch_norm", "x w b",
    _batch_norm,
    settings={"dim": (), "eps": 1e-5},
    vjp=_batch_norm_vjp,
    jvp=_batch_norm_jvp,
    batch=_batch_norm_batch,
    optional="w b",
    outputs=3,
)  # fmt: skip


# ----- normalisation by the root mean square -------------------------------------------------------------------------
# With r = (mean(x^2) + eps)^(-1/2) and y = x r: dy = r (dx - y mean(y dx)), symmetric again.


def _rms_norm(np: Any, x: Any, w: Any, *, dim: Shape, eps: float) -> Any:
    dtype = x.dtype
    x, w = _computing(np, x, w)
    n = x.dtype.type(max(prod(x.shape[d] for d in dim), 1))
    out = x * (1 / np.sqrt(_total(np, x, x, dim) / n + x.dtype.type(eps)))
    if w is not None:
        out *= w
    return out.astype(dtype, copy=False)


def _rms(x: Any, dim: Shape, eps: float, ops: Any) -> tuple[Any, Any]:
    r = ops.rsqrt(_mean(x * x, dim, ops) + eps)
    return x * r, r


def _rms_symmetric(h: Any, y: Any, r: Any, dim: Shape, ops: Any) -> Any:
    return r * (h - y * _mean(h * y, dim, ops))


def _rms_norm_vjp(g: Any, x: Any, w: Any, dim: Shape, eps: float, needs: tuple[bool, ...], ops: Any) -> tuple[Any, ...]:
    y, r = _rms(x, dim, eps, ops)
    gx = _rms_symmetric(g if w is None else g * w, y, r, dim, ops) if needs[0] else None
    return gx, g * y if needs[1] else None


def _rms_norm_jvp(x: Any, w: Any, x_t: Any, w_t: Any, dim: Shape, eps: float, ops: Any) -> Any:
    y, r = _rms(x, dim, eps, ops)
    if x_t is None:
        return y * w_t
    out = _rms_symmetric(x_t, y, r, dim, ops)
    out = out if w is None else out * w
    return out if w_t is None else out + y * w_t


def _rms_norm_batch(x: Any, w: Any, dim: Shape, eps: float, batched: Any, ops: Any, size: int) -> Any:
    w = _behind_batch(w, batched[1], len(x.shape) + (not batched[0]), ops)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    return ops.rms_norm(x, w, dim=tuple(d + 1 for d in dim), eps=eps)


rms_norm = op(
    "rms_norm", "x w",
    _rms_norm,
    settings={"dim": (), "eps": 1e-5},
    vjp=_rms_norm_vjp,
    jvp=_rms_norm_jvp,
    batch=_rms_norm_batch,
    optional="w",
)  # fmt: skip
