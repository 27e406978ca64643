"""Norms of vectors, of any order, over any dimensions.

At zero, where a norm has no derivative, the gradient is 0, the subgradient that torch uses. The infinity norm shares
the gradient equally among several largest elements. Rules never divide by a norm of zero, so second derivatives are
finite too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.blocked_sums import reduce_dot, reduce_sum
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import finfo, real_dtype
from ndgrad._src.ops.composite import fused_rule
from ndgrad._src.ops.extremum import equal_or_nan, largest, smallest
from ndgrad._src.ops.reduce import keep
from ndgrad._src.ops.shape import inverse_permutation
from ndgrad._src.ops.table import op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- vector norms ---------------------------------------------------------------------------------------------------


def _vector_norm(np: Library, x: Payload, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> Payload:
    if ord == 2 and is_on_device(x) and x.dtype.char in "fd":
        ops = raw_ops(np)
        squares = ops.square(x)
        is_whole = len(dim) == x.ndim and not keepdim
        return ops.sqrt(ops.sum_all(squares) if is_whole else ops.sum(squares, dim=dim, keepdim=keepdim))
    if ord == 2:
        with numpy.errstate(over="ignore"):
            if len(dim) == len(x.shape) and not keepdim:
                flat = x.reshape(-1)
                total = (reduce_dot(flat, flat) if flat.__class__ is numpy.ndarray else np.vdot(flat, flat)).real
            else:
                squares = x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x
                total = reduce_sum(np, squares, dim, keepdim)
        return (
            np.sqrt(total) if not x.size or _is_in_range(np, total) else _scaled_norm(np, np.abs(x), 2.0, dim, keepdim)
        )
    size = np.abs(x)
    if ord == 1:
        return reduce_sum(np, size, dim, keepdim)
    if ord == math.inf:
        return largest(np, size, dim, keepdim)
    if ord == -math.inf:
        return smallest(np, size, dim, keepdim)
    with numpy.errstate(over="ignore", divide="ignore"):
        total = reduce_sum(np, size**ord, dim, keepdim)
        return (
            total ** (1 / ord) if not x.size or _is_in_range(np, total) else _scaled_norm(np, size, ord, dim, keepdim)
        )


def _is_in_range(np: Library, total: Any) -> bool:
    """True if sums of powers have neither overflowed nor lost digits to underflow.

    A GPU is not checked, because reading the result would wait for the device.
    """
    if np is not numpy or getattr(total, "is_meta", False):
        return True
    limits = finfo(total.dtype)
    return bool(total.min() >= limits.tiny / limits.eps and total.max() < math.inf)


def _scaled_norm(np: Library, size: Any, ord: float, dim: tuple[int, ...], keepdim: bool) -> Payload:
    """Divide by the dominant element, take the norm, and multiply by that element.

    Only powers that do not matter leave the range of the dtype.
    """
    top = largest(np, size, dim, True) if ord > 0 else smallest(np, size, dim, True)
    usable = (top > 0) & (top < math.inf)
    scale = np.where(usable, top, np.ones((), size.dtype))
    total = reduce_sum(np, (size / scale) ** ord, dim, True) ** (1 / ord) * scale
    return total if keepdim else total.reshape([n for i, n in enumerate(size.shape) if i not in dim])


@fused_rule("g x out", only_on_device=True)
def _euclidean_slope(g: Payload, x: Payload, out: Payload, ops: Vocabulary) -> Payload:
    """Return g x / |x|, with 0 for 0/0. g / |x| alone would overflow if the norm is subnormal."""
    return x / ops.where(out == 0, 1.0, out) * ops.where(out == 0, 0.0, g)


def _slope(
    g: Payload, x: Payload, out: Payload, ord: float, dim: tuple[int, ...], out_dtype: Any, ops: Vocabulary
) -> Payload:
    """Return g times the norm's derivative with respect to x: sgn(x) (|x| / norm)^(ord - 1), with 0 for 0/0.

    `g` and `out` keep the reduced dimensions. For large orders the quotients do not overflow, while powers would.
    """
    if ord == 1:
        return ops.sgn(x) * g
    if abs(ord) == math.inf:
        ties = equal_or_nan(ops.abs(x), out, ops)
        return ops.sgn(x) * (ties * (g / ops.sum(ties, dim=dim, keepdim=True, dtype=out_dtype)))
    if ord == 2:
        return _euclidean_slope(g, x, out, ops)
    safe = ops.where(out == 0, 1.0, out)
    scale = ops.where(out == 0, 0.0, g)  # g / out would overflow if the norm is subnormal
    zero = x == 0
    return ops.sgn(x) * (scale * (ops.abs(ops.where(zero, 1.0, x)) / safe) ** (ord - 1))


def _vector_norm_x(
    g: Payload, x: Payload, out: Payload, ord: float, dim: tuple[int, ...], keepdim: bool, x_dtype: Any, ops: Vocabulary
) -> Payload:
    shape = tuple(x.shape)
    return _slope(
        keep(g, shape, dim, keepdim, ops), x, keep(out, shape, dim, keepdim, ops), ord, dim, real_dtype(x_dtype), ops
    )


def _vector_norm_t(
    t: Payload, x: Payload, out: Payload, ord: float, dim: tuple[int, ...], keepdim: bool, x_dtype: Any, ops: Vocabulary
) -> Payload:
    slope = _slope(1.0, x, keep(out, tuple(x.shape), dim, keepdim, ops), ord, dim, real_dtype(x_dtype), ops)
    along = ops.real(ops.conj(slope) * t) if x_dtype.kind == "c" else slope * t
    return ops.sum(along, dim=dim, keepdim=keepdim)


# Order 0, the number of nonzero elements, is count_nonzero and has no derivative.
vector_norm = op(
    "vector_norm", "x",
    _vector_norm,
    settings={"ord": 2.0, "dim": (), "keepdim": False},
    vjp={"x": _vector_norm_x},
    jvp={"x": _vector_norm_t},
    batch="dims",
    backward_name="LinalgVectorNormBackward0",
    aten_name="linalg_vector_norm",
)  # fmt: skip


# ----- renorm ---------------------------------------------------------------------------------------------------------

#: Added to the divisor, as in torch.
_EPSILON = 1e-7


def _others(shape: Any, dim: int) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape)) if i != dim)


def _renorm(np: Library, x: Payload, *, p: float, dim: int, maxnorm: float) -> Payload:
    size = _vector_norm(np, x, ord=p, dim=_others(x.shape, dim), keepdim=True)
    return x * np.where(size > maxnorm, maxnorm / (size + _EPSILON), np.ones((), size.dtype))


def _renorm_parts(x: Payload, p: float, dim: int, maxnorm: float, ops: Vocabulary) -> tuple[Any, Any, Any, Any]:
    """Return the norms of the slices, a mask of the slices that are too large, their factor, and its derivative in the
    norm.
    """
    size = ops.vector_norm(x, ord=p, dim=_others(x.shape, dim), keepdim=True)
    factor = maxnorm / (size + _EPSILON)
    return size, size > maxnorm, factor, -factor / (size + _EPSILON)


def _renorm_x(g: Payload, x: Payload, p: float, dim: int, maxnorm: float, x_dtype: Any, ops: Vocabulary) -> Payload:
    """Return the gradient of x f(|x|): the factor times g, and through the norm Re<g, x> f'(|x|) times its slope."""
    size, too_large, factor, bend = _renorm_parts(x, p, dim, maxnorm, ops)
    others = _others(x.shape, dim)
    inner = ops.conj(x) * g
    inner = ops.sum(ops.real(inner) if x_dtype.kind == "c" else inner, dim=others, keepdim=True)
    return ops.where(too_large, factor * g + _slope(inner * bend, x, size, p, others, real_dtype(x_dtype), ops), g)


def _renorm_t(t: Payload, x: Payload, p: float, dim: int, maxnorm: float, x_dtype: Any, ops: Vocabulary) -> Payload:
    size, too_large, factor, bend = _renorm_parts(x, p, dim, maxnorm, ops)
    size_t = _vector_norm_t(t, x, size, p, _others(x.shape, dim), True, x_dtype, ops)
    return ops.where(too_large, factor * t + x * (bend * size_t), t)


# Slices along `dim` whose p-norm exceeds maxnorm are scaled down to it.
renorm = op(
    "renorm", "x",
    _renorm,
    settings={"p": 2.0, "dim": 0, "maxnorm": 1.0},
    vjp={"x": _renorm_x},
    jvp={"x": _renorm_t},
    batch=lambda x, p, dim, maxnorm, ops: _renorm_batch(x, p, dim, maxnorm, ops),
)  # fmt: skip


def _renorm_batch(x: Payload, p: float, dim: int, maxnorm: float, ops: Vocabulary) -> Payload:
    """Merge batch and `dim` into one dimension, because each slice of each sample has its own norm."""
    n = len(x.shape)
    order = (0, dim + 1, *(i for i in range(1, n) if i != dim + 1))
    front = ops.permute(x, dims=order)
    shape = tuple(front.shape)
    merged = ops.reshape(front, shape=(shape[0] * shape[1], *shape[2:]))
    out = ops.reshape(ops.renorm(merged, p=p, dim=0, maxnorm=maxnorm), shape=shape)
    return ops.permute(out, dims=inverse_permutation(order))
