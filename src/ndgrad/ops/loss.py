"""Losses that are worth an op of their own: for memory (cross entropy), or for their derivative at the edges.

`softmax_cross_entropy` saves its input and its (small) output: the softmax is exp(x - out - x[target]), so no array of
the input's size is kept beside the input itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad.arrays import native
from ndgrad.arrays.library import is_on_device
from ndgrad.arrays.scalar_operands import beside_arrays
from ndgrad.arrays.short_rows import is_lines, line_sum
from ndgrad.ops.errors import refuse_complex
from ndgrad.ops.extremum import largest
from ndgrad.ops.table import elementwise, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _with_one(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    return ops.reshape(x, shape=(*x.shape[:dim], 1, *x.shape[dim:]))


# ----- cross entropy -------------------------------------------------------------------------------------------------

#: Scores of so few classes are transposed first: a few long columns are reduced more quickly than many short rows.
_FEW_CLASSES = 32
#: Of logarithms up to this the exponential loses a digit at most.
_MODERATE = 16.0


def _at(np: Library, target: Payload, ndim: int, dim: int) -> tuple[Any, ...]:
    """An index of the element that each line's target names."""
    if ndim == 2:
        rows = np.arange(target.size)
        return (rows, target) if dim else (target, rows)
    grid = [np.arange(n).reshape(-1, *(1,) * (ndim - 2 - i)) for i, n in enumerate(target.shape)]
    return (*grid[:dim], target, *grid[dim:])


def _kernels(x: Payload, target: Payload, dim: int) -> Any:
    """The native kernels, if they can be used."""
    if not native.is_large(x) or x.ndim != 2 or target.dtype != numpy.int64 or not target.flags.c_contiguous:
        return None
    kernels = native.row_kernels_along(dim, x)
    if kernels is None or is_on_device(x):  # kernels there look by themselves; asking would be waiting
        return kernels
    # native code would read what is not there
    return None if target.min() < 0 or target.max() >= x.shape[1] else kernels


def _cross_entropy(np: Library, x: Payload, target: Payload, *, dim: int) -> Payload:
    refuse_complex("cross_entropy", x)
    kernels = _kernels(x, target, dim)
    if kernels is not None:
        return kernels.cross_entropy(x, target)
    if dim == 1 and x.ndim == 2 and x.shape[1] <= _FEW_CLASSES:
        x, dim = x.T.copy(), 0
    shifted = x - largest(np, x, (dim,), True)
    at = shifted[_at(np, target, x.ndim, dim)]
    np.exp(shifted, out=shifted)
    total = (
        line_sum(np, shifted, False)
        if is_lines(np, x, (dim,)) and x.dtype.char in "fd"
        else np.add.reduce(shifted, axis=dim)
    )
    return np.log(total) - at


def _cross_entropy_vjp(g: Payload, x: Payload, target: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    """(softmax - one hot) g, with the softmax from the output at hand, where that has the digits for it."""
    if not ops.raw:
        g = _with_one(g, dim, ops)
        there = ops.gather_backward(g, _with_one(target, dim, ops), dim=dim, shape=tuple(x.shape), distinct=True)
        return ops.softmax(x, dim=dim) * g - there
    np = ops.np
    kernels = _kernels(x, target, dim)
    if kernels is not None:
        return kernels.cross_entropy_gradient(x, target, native.dense(g, x.dtype))
    at = _at(np, target, x.ndim, dim)
    lines = (*(slice(None),) * dim, None)
    log_total = out + x[at]
    if np is numpy and np.abs(log_total).max(initial=0.0) <= _MODERATE:
        grad = x - log_total[lines]
        np.exp(grad, out=grad)
    else:
        grad = ops.softmax(x, dim=dim)
    grad *= g[lines]
    grad[at] -= g
    return grad


def _cross_entropy_jvp(t: Payload, x: Payload, target: Payload, dim: int, ops: Vocabulary) -> Payload:
    along = ops.sum(ops.softmax(x, dim=dim) * t, dim=(dim,), keepdim=False)
    return along - ops.reshape(ops.gather(t, _with_one(target, dim, ops), dim=dim), shape=tuple(target.shape))


# logsumexp(x) - x[target] along `dim`; `target` has x's shape without it, and holds valid classes.
softmax_cross_entropy = op(
    "softmax_cross_entropy", "x target",
    _cross_entropy,
    settings={"dim": 0},
    vjp={"x": _cross_entropy_vjp},
    jvp={"x": _cross_entropy_jvp},
    batch="dims",
    backward_name="NllLossBackward0",
)  # fmt: skip


# ----- elementwise terms ---------------------------------------------------------------------------------------------


@native.with_kernel("binary_cross_entropy")
def _binary_cross_entropy(np: Library, x: Payload, y: Payload) -> Payload:
    x, y = beside_arrays(np, x, y)
    with numpy.errstate(divide="ignore"):
        log_x, log_rest = np.log(x), np.log1p(-x)
    # logarithms are cut off at -100, so that a certain and wrong answer costs much, not infinitely much
    return (y - 1) * np.maximum(log_rest, -100) - y * np.maximum(log_x, -100)


binary_cross_entropy = elementwise(
    "binary_cross_entropy", _binary_cross_entropy,
    args="x y",
    x=lambda t, x, y, ops: t * (x - y) / ops.clamp_min(x - x * x, 1e-12),
    y=lambda t, x, ops: t * (ops.log1p(-x) - ops.log(x)),
    inplace=False,
    saved_names={"y": "target"},
)  # fmt: skip


@native.with_kernel("binary_cross_entropy_with_logits")
def _with_logits(np: Library, x: Payload, y: Payload) -> Payload:
    refuse_complex("binary_cross_entropy_with_logits", x)
    x, y = beside_arrays(np, x, y)
    # not max(x, 0) - x y, which is NaN at infinity
    return np.maximum(x, 0.0) * (1.0 - y) - np.minimum(x, 0.0) * y + np.log1p(np.exp(-np.abs(x)))


# The same of sigmoid(x), without leaving the logarithmic scale.
binary_cross_entropy_with_logits = elementwise(
    "binary_cross_entropy_with_logits", _with_logits,
    args="x y",
    x=lambda t, x, y, ops: t * (ops.sigmoid(x) - y),
    y=lambda t, x: -(t * x),
    inplace=False,
    saved_names={"y": "target"},
)  # fmt: skip


@native.with_kernel("smooth_l1")
def _smooth_l1(np: Library, x: Payload, y: Payload, *, beta: float) -> Payload:
    difference = x - y
    refuse_complex("smooth_l1", difference)
    size = np.abs(difference)
    return np.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta)


# The absolute difference, rounded off quadratically within beta of zero. d / beta clipped is its derivative.
smooth_l1 = elementwise(
    "smooth_l1", _smooth_l1,
    args="x y",
    settings={"beta": 1.0},
    x=lambda t, x, y, beta, ops: t * _slope(x - y, beta, ops),
    y=lambda t, x, y, beta, ops: t * _slope(y - x, beta, ops),
    inplace=False,
    backward_name="SmoothL1LossBackward0",
    saved_names={"y": "target"},
)  # fmt: skip


def _slope(difference: Any, beta: float, ops: Vocabulary) -> Payload:
    return ops.clamp(difference * (1.0 / beta), -1.0, 1.0)
