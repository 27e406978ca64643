"""What classification losses are made of: picking one element per line, and the cross entropy of a softmax.

`pick` and `place` are transposes of each other. `softmax_cross_entropy` saves its input and its (small) output: the
softmax is exp(x - out - x[target]), so no array of the input's size is kept beside the input itself.

`dim` is the dimension of the classes; `target` has x's shape without it, and holds valid classes.
"""

from __future__ import annotations

from typing import Any

import numpy

from ndgrad.ops.table import elementwise, op

Shape = tuple[int, ...]


def _without(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], *shape[dim + 1 :])


def _with_one(x: Any, dim: int, ops: Any) -> Any:
    return ops.reshape(x, shape=(*x.shape[:dim], 1, *x.shape[dim:]))


# ----- one element per line ------------------------------------------------------------------------------------------------------


def _lines(np: Any, shape: Shape, target: Any, dim: int) -> tuple[Any, ...]:
    """An index of the element that each line's target names."""
    if len(shape) == 2:
        rows = np.arange(target.size)
        return (rows, target) if dim else (target, rows)
    grid = np.ogrid[tuple(slice(n) for n in target.shape)]
    return (*grid[:dim], target, *grid[dim:])


def _pick(np: Any, x: Any, target: Any, *, dim: int) -> Any:
    return x[_lines(np, x.shape, target, dim)] if x.ndim > 1 else x[target]


def _place(np: Any, x: Any, target: Any, *, dim: int, classes: int) -> Any:
    shape = (*x.shape[:dim], classes, *x.shape[dim:])
    out = np.zeros(shape, x.dtype)
    out[_lines(np, shape, target, dim) if len(shape) > 1 else target] = x
    return out


# From each line of x along `dim`, the element that `target` names.
pick = op(
    "pick", "x target",
    _pick,
    settings={"dim": 0},
    vjp={"x": lambda g, target, x_shape, dim, ops: ops.place(g, target, dim=dim, classes=x_shape[dim])},
    jvp={"x": lambda t, target, dim, ops: ops.pick(t, target, dim=dim)},
    batch="dims",
    backward_name="NllLossBackward0",
)  # fmt: skip

# Lines of zeros along a new dimension `dim`, with x where `target` says.
place = op(
    "place", "x target",
    _place,
    settings={"dim": 0, "classes": 0},
    vjp={"x": lambda g, target, dim, ops: ops.pick(g, target, dim=dim)},
    jvp={"x": lambda t, target, dim, classes, ops: ops.place(t, target, dim=dim, classes=classes)},
    batch="dims",
    backward_name="NllLossBackwardBackward0",
)  # fmt: skip


# ----- cross entropy ----------------------------------------------------------------------------------------------------------------


def _cross_entropy(np: Any, x: Any, target: Any, *, dim: int) -> Any:
    top = np.maximum.reduce(x, axis=dim, keepdims=True)
    shifted = x - top
    at = _pick(np, shifted, target, dim=dim)
    np.exp(shifted, out=shifted)
    return np.log(np.add.reduce(shifted, axis=dim)) - at


def _cross_entropy_vjp(g: Any, x: Any, target: Any, out: Any, dim: int, ops: Any) -> Any:
    """(softmax - one hot) g, with the softmax from the output at hand."""
    if not ops.raw:
        p = ops.softmax(x, dim=dim)
        return p * _with_one(g, dim, ops) - ops.place(g, target, dim=dim, classes=x.shape[dim])
    np = ops.np
    normaliser = out + _pick(np, x, target, dim=dim)
    grad = x - np.expand_dims(normaliser, dim)
    np.exp(grad, out=grad)
    grad *= np.expand_dims(g, dim)
    grad[_lines(np, x.shape, target, dim) if x.ndim > 1 else target] -= g
    return grad


def _cross_entropy_jvp(x_t: Any, x: Any, target: Any, dim: int, ops: Any) -> Any:
    return ops.sum(ops.softmax(x, dim=dim) * x_t, dim=(dim,), keepdim=False) - ops.pick(x_t, target, dim=dim)


# logsumexp(x) - x[target], line by line.
softmax_cross_entropy = op(
    "softmax_cross_entropy", "x target",
    _cross_entropy,
    settings={"dim": 0},
    vjp={"x": _cross_entropy_vjp},
    jvp={"x": lambda t, x, target, dim, ops: _cross_entropy_jvp(t, x, target, dim, ops)},
    batch="dims",
    backward_name="NllLossBackward0",
)  # fmt: skip


# ----- elementwise terms ---------------------------------------------------------------------------------------------------------


def _binary_cross_entropy(np: Any, x: Any, y: Any) -> Any:
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
)  # fmt: skip


def _smooth_l1(np: Any, x: Any, y: Any, *, beta: float) -> Any:
    size = np.abs(x - y)
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
)  # fmt: skip


def _slope(difference: Any, beta: float, ops: Any) -> Any:
    return ops.clamp(difference * (1.0 / beta), -1.0, 1.0)
