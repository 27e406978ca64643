"""Sums of exponentials and what they normalise: logsumexp, softmax, log_softmax.

All are shifted by the largest element, so nothing overflows. They are hot in real models, where lines are short and many;
NumPy's reductions pay some 40 ns a line, so the line sums here are dot products, and maxima go through `reduceat`.
"""

from __future__ import annotations

from typing import Any

import numpy

from ndgrad.ops.extremum import largest
from ndgrad.ops.reduce import keep
from ndgrad.ops.table import op

#: Lines of up to this length are reduced faster by the ways below than by `reduce`.
_SHORT = 1024
#: Arrays smaller than this are not worth the detour.
_LARGE = 4096


def _is_lines(np: Any, x: Any, dim: int) -> bool:
    """Whether x is many short contiguous lines along `dim`."""
    return np is numpy and dim == len(x.shape) - 1 and x.size > _LARGE and 1 < x.shape[dim] <= _SHORT and x.flags.c_contiguous


def _line_max(np: Any, x: Any, dim: int) -> Any:
    """The maximum along `dim`, which is kept."""
    if _is_lines(np, x, dim):
        flat = x.reshape(-1)
        starts = np.arange(0, flat.size, x.shape[dim])
        return np.maximum.reduceat(flat, starts).reshape((*x.shape[:dim], 1))
    return largest(np, x, (dim,), True)


def _line_sum(np: Any, x: Any, dim: int) -> Any:
    """The sum along `dim`, which is kept; of numbers of one sign, so that the order of summation does not matter."""
    if _is_lines(np, x, dim) and x.dtype.char in "fd":
        return np.vecdot(x, np.ones(x.shape[dim], x.dtype))[..., None]
    return np.add.reduce(x, axis=dim, keepdims=True)


# ----- the dot product along a dimension --------------------------------------------------------------------------------


def _line_dot(np: Any, x: Any, y: Any, *, dim: int) -> Any:
    if np is numpy and dim == len(x.shape) - 1 and x.dtype.kind == "f" and x.dtype == y.dtype:
        return np.asarray(np.vecdot(x, y))[..., None]
    return np.add.reduce(x * y, axis=dim, keepdims=True)


# The sum of x y along `dim`, which is kept: no array of the products is made.
line_dot = op(
    "line_dot", "x y",
    _line_dot,
    settings={"dim": 0},
    vjp={"x": lambda g, y, ops: g * ops.conj(y), "y": lambda g, x, ops: g * ops.conj(x)},
    jvp="multilinear",
    batch="dims",
)  # fmt: skip


# ----- softmax -----------------------------------------------------------------------------------------------------------


def _softmax(np: Any, x: Any, *, dim: int) -> Any:
    if x.dtype.char == "e":
        return _softmax(np, x.astype(np.float32), dim=dim).astype(x.dtype)
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    out = x - _line_max(np, x, dim)
    np.exp(out, out=out)
    out /= _line_sum(np, out, dim)
    return out


def _softmax_t(t: Any, out: Any, dim: int, ops: Any) -> Any:
    """The Jacobian diag(out) - out out' is symmetric, so this serves both modes."""
    return (t - ops.line_dot(t, out, dim=dim)) * out


softmax = op(
    "softmax", "x",
    _softmax,
    settings={"dim": 0},
    vjp={"x": lambda g, out, dim, ops: _softmax_t(g, out, dim, ops)},
    jvp={"x": _softmax_t},
    batch="dims",
)  # fmt: skip


def _log_softmax(np: Any, x: Any, *, dim: int) -> Any:
    if x.dtype.char == "e":
        return _log_softmax(np, x.astype(np.float32), dim=dim).astype(x.dtype)
    if x.size == 0:
        return np.empty(x.shape, x.dtype)
    out = x - _line_max(np, x, dim)
    out -= np.log(_line_sum(np, np.exp(out), dim))
    return out


log_softmax = op(
    "log_softmax", "x",
    _log_softmax,
    settings={"dim": 0},
    vjp={"x": lambda g, out, dim, ops: g - ops.exp(out) * ops.sum(g, dim=(dim,), keepdim=True)},
    jvp={"x": lambda t, out, dim, ops: t - ops.line_dot(ops.exp(out), t, dim=dim)},
    batch="dims",
)  # fmt: skip


# ----- logsumexp ---------------------------------------------------------------------------------------------------------


def _logsumexp(np: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    if x.dtype.kind not in "fc":
        x = x.astype(np.exp(np.zeros(1, x.dtype)).dtype)
    if x.dtype.char == "e":
        return _logsumexp(np, x.astype(np.float32), dim=dim, keepdim=keepdim).astype(x.dtype)
    if x.size == 0:
        return np.log(np.add.reduce(x, axis=dim, keepdims=keepdim))
    real = x.real if x.dtype.kind == "c" else x
    top = _line_max(np, real, dim[0]) if len(dim) == 1 else largest(np, real, dim, True)
    # a line of nothing but -inf has the sum 0, not NaN; and so with inf
    top = np.where(np.isfinite(top), top, np.zeros((), top.dtype))
    scaled = x - top
    if isinstance(scaled, numpy.ndarray):
        np.exp(scaled, out=scaled)
    else:
        scaled = np.exp(scaled)
    total = _line_sum(np, scaled, dim[0]) if len(dim) == 1 else np.add.reduce(scaled, axis=dim, keepdims=True)
    out = np.log(total) + top
    return out if keepdim or not dim else out.reshape([n for i, n in enumerate(x.shape) if i not in dim])


logsumexp = op(
    "logsumexp", "x",
    _logsumexp,
    settings={"dim": (), "keepdim": False},
    vjp={"x": lambda g, x, out, dim, keepdim, ops: _weigh(keep(g, tuple(x.shape), dim, keepdim, ops), x, out, dim, keepdim, ops)},
    jvp={"x": lambda t, x, out, dim, keepdim, ops: ops.sum(t * _weights(x, out, dim, keepdim, ops), dim=dim, keepdim=keepdim)},
    batch="dims",
)  # fmt: skip


def _weights(x: Any, out: Any, dim: tuple[int, ...], keepdim: bool, ops: Any) -> Any:
    """The softmax of x, from the logsumexp at hand."""
    return ops.exp(x - keep(out, tuple(x.shape), dim, keepdim, ops))


def _weigh(g: Any, x: Any, out: Any, dim: tuple[int, ...], keepdim: bool, ops: Any) -> Any:
    return ops.conj(_weights(x, out, dim, keepdim, ops)) * g
