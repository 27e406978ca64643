"""Sums of exponentials and functions normalised by them: logsumexp, softmax, log_softmax.

Nothing overflows: elements are shifted by the largest, unless all are of moderate size. Moderate size is the common
case in real models. Exponentials are then taken without a shift, which is faster and just as accurate.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.blocked_sums import reduce_dot, reduce_sum
from ndgrad._src.arrays.precision import FLOATING, is_half, run_in_single
from ndgrad._src.arrays.short_rows import SMALL, is_lines, line_sum
from ndgrad._src.ops.composite import composite, fused_rule
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.extremum import largest
from ndgrad._src.ops.reduce import drop_dims, keep

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
line_dot = composite(
    "line_dot", "x y",
    lambda x, y, dim, ops: ops.sum(x * y, dim=(dim,), keepdim=True),
    kernel=_line_dot,
    settings={"dim": 0},
    vjp={"x": lambda g, y, ops: g * ops.conj(y), "y": lambda g, x, ops: g * ops.conj(x)},
    jvp="multilinear",
    batch="dims", moves_dims=True,
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
    if is_half(x.dtype):
        return run_in_single(functools.partial(_softmax, np), (x,), {"dim": dim})
    out, total, _ = _exponentials(np, x, (dim,), False)
    out /= total
    return out


@fused_rule("t out")
def _softmax_t(t: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Apply the Jacobian diag(out) - out out'. It is symmetric, so both modes share it."""
    return (t - ops.line_dot(t, out, dim=dim)) * out


def _softmax_body(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    weights = ops.exp(x - ops.amax(x, dim=(dim,), keepdim=True))
    return weights / ops.sum(weights, dim=(dim,), keepdim=True)


softmax = composite(
    "softmax", "x",
    _softmax_body,
    kernel=_softmax,
    fused=True,
    settings={"dim": 0},
    vjp={"x": lambda g, out, dim, ops: _softmax_t(g, out, dim, ops)},
    jvp={"x": _softmax_t},
    batch="dims",
    kind="saturating",
    halves_on_device=True, memory_order="C",
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
    if is_half(x.dtype):
        return run_in_single(functools.partial(_log_softmax, np), (x,), {"dim": dim})
    out = x - _line_max(np, x, dim)
    out -= np.log(_line_sum(np, np.exp(out), dim))
    return out


@fused_rule("g out")
def _log_softmax_x(g: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    return ops.exp(out) * -ops.sum(g, dim=(dim,), keepdim=True) + g


def _log_softmax_body(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    shifted = x - ops.amax(x, dim=(dim,), keepdim=True)
    return shifted - ops.log(ops.sum(ops.exp(shifted), dim=(dim,), keepdim=True))


log_softmax = composite(
    "log_softmax", "x",
    _log_softmax_body,
    kernel=_log_softmax,
    fused=True,
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


@fused_rule("g x out")
def _logsumexp_x(
    g: Payload, x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, ops: Vocabulary
) -> Payload:
    g = keep(g, tuple(x.shape), dim, keepdim, ops)
    return ops.conj(_weights(x, out, dim, keepdim, ops)) * g


def _logsumexp_body(x: Payload, dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    """Shift by the largest element, if it is finite: log 0 = -inf, and the sum of inf is inf."""
    top = ops.amax(x, dim=dim, keepdim=True)
    top = ops.where(ops.isfinite(top), top, 0.0)
    out = ops.log(ops.sum(ops.exp(x - top), dim=dim, keepdim=True)) + top
    return out if keepdim else drop_dims(out, dim, ops)


logsumexp = composite(
    "logsumexp", "x",
    _logsumexp_body,
    kernel=_logsumexp,
    fused=True,
    settings={"dim": (), "keepdim": False},
    vjp={"x": _logsumexp_x},
    jvp={"x": lambda t, x, out, dim, keepdim, ops: ops.sum(t * _weights(x, out, dim, keepdim, ops), dim=dim,
            keepdim=keepdim)},
    batch="dims",
    kind="saturating", reduces="logsumexp",
)  # fmt: skip


def _weights(x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    """Return the softmax of x from the saved logsumexp.

    For large numbers the logsumexp has lost the logarithm of their count, so the weights are divided by their sum.
    """
    weights = ops.exp(x - keep(out, tuple(x.shape), dim, keepdim, ops))
    if not dim:
        return weights
    total = ops.sum(weights, dim=dim, keepdim=True)
    return weights / ops.where(ops.abs(total) < math.inf, total, 1.0)


