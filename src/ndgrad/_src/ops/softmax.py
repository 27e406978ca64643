"""Sums of exponentials and functions normalised by them: logsumexp, softmax, log_softmax.

Nothing overflows: elements are shifted by the largest, unless all are of moderate size. Moderate size is the common
case in real models. Exponentials are then taken without a shift, which is faster and just as accurate.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.blocked_sums import reduce_dot, reduce_sum
from ndgrad._src.arrays.precision import FLOATING, is_half, run_in_single, widen
from ndgrad._src.arrays.short_rows import SMALL, is_lines, line_sum
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.extremum import largest
from ndgrad._src.ops.reduce import keep
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: e^60 can be summed, even in single precision, over any number of elements that fit into memory.
_HIGHEST = 60.0
#: With a sum of at least this, elements down to 1e-33 of it are still normal numbers in single precision.
_LOWEST_SUM = 1e-5


def _total(np: Library, x: Payload, dim: tuple[int, ...]) -> Payload:
    """Return the sum of exponentials over `dim`, which is kept.

    All terms have one sign, so the order of summation does not matter.
    """
    if x.dtype.char in "fd" and is_lines(np, x, dim):
        return line_sum(np, x, True)
    return reduce_sum(np, x, dim, True)


def _line_max(np: Library, x: Payload, dim: int) -> Payload:
    """Return the maximum along `dim`, which is kept."""
    return largest(np, x, (dim,), True)


def _line_sum(np: Library, x: Payload, dim: int) -> Payload:
    """Return the sum of exponentials along `dim`, which is kept."""
    return _total(np, x, (dim,))


def _exponentials(np: Library, x: Payload, dim: tuple[int, ...], infinite: bool) -> tuple[Any, Any, Any]:
    """Return e^(x - top), its sum over `dim`, and top, which is 0 if all elements are of moderate size. x is not empty.

    An infinite top makes NaNs, unless `infinite` is set: then log 0 = -inf has the sum 0, and the sum of inf is inf.
    """
    real = x.real if x.dtype.kind == "c" else x
    if real is x and is_lines(np, x, dim) and np.maximum.reduce(x, axis=None) <= _HIGHEST:
        out = np.exp(x)
        total = _total(np, out, dim)
        if np.minimum.reduce(total, axis=None) >= _LOWEST_SUM:
            return out, total, 0.0
    top = largest(np, real, dim, True)
    if infinite and not np.isfinite(top).all():
        top = np.where(np.isfinite(top), top, np.zeros((), top.dtype))
    out = x - top
    if not out.ndim:
        out = np.asarray(out)  # NumPy scalars cannot be written
    np.exp(out, out=out)
    return out, _total(np, out, dim), top


# ----- the dot product along a dimension ------------------------------------------------------------------------------


def _line_dot(np: Library, x: Payload, y: Payload, *, dim: int) -> Payload:
    if np is numpy and dim == len(x.shape) - 1 and x.dtype.kind in FLOATING and x.dtype == y.dtype:
        return np.asarray(reduce_dot(x, y))[..., None]
    return reduce_sum(np, x * y, (dim,), True)


# The sum of x y along `dim`, which is kept. No array of the products is made.
line_dot = op(
    "line_dot", "x y",
    _line_dot,
    settings={"dim": 0},
    vjp={"x": lambda g, y, ops: g * ops.conj(y), "y": lambda g, x, ops: g * ops.conj(x)},
    jvp="multilinear",
    batch="dims",
)  # fmt: skip


# ----- softmax --------------------------------------------------------------------------------------------------------


def _softmax(np: Library, x: Payload, *, dim: int) -> Payload:
    refuse_complex("softmax", x)
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    if x.size < SMALL and np is numpy:
        out = x - np.maximum.reduce(x, axis=dim, keepdims=True)
        np.exp(out, out=out)
        out /= np.add.reduce(out, axis=dim, keepdims=True)
        return out
    kernels = native_kernels.row_kernels_along(dim, x)
    if kernels is not None:
        return kernels.softmax(x)
    if is_half(x.dtype):
        return run_in_single(functools.partial(_softmax, np), (x,), {"dim": dim})
    out, total, _ = _exponentials(np, x, (dim,), False)
    out /= total
    return out


def _softmax_t(t: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Apply the Jacobian diag(out) - out out'. It is symmetric, so both modes share it."""
    if ops.raw:
        kernels = native_kernels.row_kernels_along(dim, t, out)
        if kernels is not None:
            return kernels.softmax_slope(t, out)
        t, out = widen(t), widen(out)
    return (t - ops.line_dot(t, out, dim=dim)) * out


softmax = op(
    "softmax", "x",
    _softmax,
    settings={"dim": 0},
    vjp={"x": lambda g, out, dim, ops: _softmax_t(g, out, dim, ops)},
    jvp={"x": _softmax_t},
    batch="dims",
    kind="saturating",
    halves_on_device=True,
)  # fmt: skip


def _log_softmax(np: Library, x: Payload, *, dim: int) -> Payload:
    """Shift the elements always: for a large element the difference to its logsumexp would lose the digits of a small
    loss.
    """
    refuse_complex("log_softmax", x)
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    if x.size < SMALL and np is numpy:
        out = x - np.maximum.reduce(x, axis=dim, keepdims=True)
        out -= np.log(np.add.reduce(np.exp(out), axis=dim, keepdims=True))
        return out
    kernels = native_kernels.row_kernels_along(dim, x)
    if kernels is not None:
        return kernels.log_softmax(x)
    if is_half(x.dtype):
        return run_in_single(functools.partial(_log_softmax, np), (x,), {"dim": dim})
    out = x - _line_max(np, x, dim)
    out -= np.log(_line_sum(np, np.exp(out), dim))
    return out


def _log_softmax_x(g: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    if ops.raw:
        kernels = native_kernels.row_kernels_along(dim, g, out)
        if kernels is not None:
            return kernels.log_softmax_gradient(g, out)
        g, out = widen(g), widen(out)
    return ops.exp(out) * -ops.sum(g, dim=(dim,), keepdim=True) + g


log_softmax = op(
    "log_softmax", "x",
    _log_softmax,
    settings={"dim": 0},
    vjp={"x": _log_softmax_x},
    jvp={"x": lambda t, out, dim, ops: t - ops.line_dot(ops.exp(out), t, dim=dim)},
    batch="dims",
    kind="saturating",
    halves_on_device=True,
)  # fmt: skip


# ----- logsumexp ------------------------------------------------------------------------------------------------------


def _logsumexp(np: Library, x: Payload, *, dim: tuple[int, ...], keepdim: bool = False) -> Payload:
    if x.size == 0:
        return np.log(np.add.reduce(x, axis=dim, keepdims=keepdim))
    _, total, top = _exponentials(np, x, dim, True)
    out = np.log(total) + top
    return out if keepdim or not dim else out.reshape([n for i, n in enumerate(x.shape) if i not in dim])


logsumexp = op(
    "logsumexp", "x",
    _logsumexp,
    settings={"dim": (), "keepdim": False},
    vjp={"x": lambda g, x, out, dim, keepdim, ops: _weigh(keep(g, tuple(x.shape), dim, keepdim, ops), x, out, dim,
            keepdim, ops)},
    jvp={"x": lambda t, x, out, dim, keepdim, ops: ops.sum(t * _weights(x, out, dim, keepdim, ops), dim=dim,
            keepdim=keepdim)},
    batch="dims",
    kind="saturating",
)  # fmt: skip


def _weights(x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    """Return the softmax of x from the saved logsumexp.

    For large numbers the logsumexp has lost the logarithm of their count, so the weights are divided by their sum.
    """
    weights = ops.exp(x - keep(out, tuple(x.shape), dim, keepdim, ops))
    if not dim:
        return weights
    total = ops.sum(weights, dim=dim, keepdim=True)
    return weights / ops.where(abs(total) < math.inf, total, 1.0)


def _weigh(g: Payload, x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    return ops.conj(_weights(x, out, dim, keepdim, ops)) * g
