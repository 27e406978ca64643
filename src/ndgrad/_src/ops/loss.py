"""Losses that have an op of their own, either to save memory (cross entropy) or for their derivative at the edges.

`softmax_cross_entropy` saves its input and its (small) output: the softmax is exp(x - out - x[target]), so no second
array of the input's size is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.blocked_sums import reduce_sum
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import widen
from ndgrad._src.arrays.short_rows import is_lines, line_sum
from ndgrad._src.ops.composite import composite_elementwise
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.extremum import largest
from ndgrad._src.ops.table import op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _unsqueeze(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    return ops.reshape(x, shape=(*x.shape[:dim], 1, *x.shape[dim:]))


# ----- cross entropy -------------------------------------------------------------------------------------------------

#: Up to this many classes, scores are transposed first: reducing a few long columns is faster than many short rows.
_FEW_CLASSES = 32
#: The exponential of logarithms up to this bound loses at most one digit.
_MODERATE = 16.0


def _target_index(np: Library, target: Payload, ndim: int, dim: int) -> tuple[Any, ...]:
    """Return the index of each row's target element."""
    if ndim == 2:
        rows = np.arange(target.size)
        return (rows, target) if dim else (target, rows)
    grid = [np.arange(n).reshape(-1, *(1,) * (ndim - 2 - i)) for i, n in enumerate(target.shape)]
    return (*grid[:dim], target, *grid[dim:])


def _kernels(x: Payload, target: Payload, dim: int) -> Any:
    """Return the native kernels if they can be used, else None."""
    if not native_kernels.is_large(x) or x.ndim != 2 or target.dtype != numpy.int64 or not target.flags.c_contiguous:
        return None
    kernels = native_kernels.row_kernels_along(dim, x)
    if kernels is None or is_on_device(x):  # device kernels check the targets; a check here would wait
        return kernels
    # Native code does not check bounds.
    return None if target.min() < 0 or target.max() >= x.shape[1] else kernels


def _cross_entropy(np: Library, x: Payload, target: Payload, *, dim: int) -> Payload:
    refuse_complex("cross_entropy", x)
    kernels = _kernels(x, target, dim)
    if kernels is not None:
        return kernels.cross_entropy(x, target)
    if dim == 1 and x.ndim == 2 and x.shape[1] <= _FEW_CLASSES:
        x, dim = x.T.copy(), 0
    shifted = x - largest(np, x, (dim,), True)
    at = shifted[_target_index(np, target, x.ndim, dim)]
    np.exp(shifted, out=shifted)
    total = (
        line_sum(np, shifted, False)
        if is_lines(np, x, (dim,)) and x.dtype.char in "fd"
        else reduce_sum(np, shifted, (dim,))
    )
    return np.log(total) - at


def _cross_entropy_vjp(g: Payload, x: Payload, target: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Return (softmax - one hot) g. The softmax comes from the saved output if that has enough digits."""
    if not ops.raw:
        g = _unsqueeze(g, dim, ops)
        there = ops.gather_backward(g, _unsqueeze(target, dim, ops), dim=dim, shape=tuple(x.shape), distinct=True)
        return ops.softmax(x, dim=dim) * g - there
    np = ops.np
    kernels = _kernels(x, target, dim)
    if kernels is not None:
        return kernels.cross_entropy_gradient(x, target, native_kernels.dense(g, x.dtype))
    at = _target_index(np, target, x.ndim, dim)
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
    return along - ops.reshape(ops.gather(t, _unsqueeze(target, dim, ops), dim=dim), shape=tuple(target.shape))


# logsumexp(x) - x[target] along `dim`. `target` has x's shape without this dimension, and holds valid classes.
softmax_cross_entropy = op(
    "softmax_cross_entropy", "x target",
    _cross_entropy,
    settings={"dim": 0},
    vjp={"x": _cross_entropy_vjp},
    jvp={"x": _cross_entropy_jvp},
    batch="dims",
    backward_name="NllLossBackward0",
    may_raise=True, moves_dims=True,
)  # fmt: skip


# ----- the complete loss of a classifier -----------------------------------------------------------------------------


def wrong_class(name: str, classes: int, ignore_index: int) -> Callable[[int], Exception]:
    """Return a function that makes the error for a target that is no class."""

    def error(found: int) -> Exception:
        return IndexError(
            f"{name}: Target {found} is out of bounds for {classes} classes. Targets run from 0 to {classes - 1}; "
            f"ignore_index is {ignore_index}. [nd-target]"
        )

    return error


def _cast_like(counts: Payload, x: Payload, ops: Vocabulary) -> Payload:
    return ops.cast(counts, dtype=getattr(x.dtype, "numpy", x.dtype))


def _shares(
    x: Payload, target: Payload, weight: Payload, ignore_index: int, ops: Vocabulary
) -> tuple[Payload, Payload, Payload]:
    """Return for each row its class (0 for ignored rows), a mask of the rows that count, and the weight of its
    class.
    """
    counts = target != ignore_index
    there = ops.where(counts, target, 0)
    if weight is None:
        return there, counts, _cast_like(counts, x, ops)
    return there, counts, ops.keep(ops.gather(weight, there, dim=len(weight.shape) - 1), counts)


def _pick(x: Payload, there: Payload, ops: Vocabulary) -> Payload:
    last = len(x.shape) - 1
    return ops.reshape(ops.gather(x, _unsqueeze(there, last, ops), dim=last), shape=tuple(there.shape))


def _reduce(rows: Payload, total: Payload, reduction: str, ops: Vocabulary) -> Payload:
    if reduction == "none":
        return rows
    found = ops.sum(rows, dim=(len(rows.shape) - 1,), keepdim=False)
    return found / total if reduction == "mean" else found


#: Forms of the loss with a margin, which is given in place of `label_smoothing`, and the exponents.
_MARGINS = {"margin": 1, "square margin": 2}
_NAMES = {"softmax": "cross_entropy", "log": "nll_loss"}


def _excess(x: Payload, there: Payload, margin: float, form: str, ops: Vocabulary) -> tuple[Payload, Payload]:
    """Return max(0, margin - x[t] + x)^p for the classes other than t, and its derivative in x."""
    last = len(x.shape) - 1
    column = _unsqueeze(there, last, ops)
    size = ops.relu(margin - ops.gather(x, column, dim=last) + x)
    slope = ops.where(size > 0.0, 1.0, size) if _MARGINS[form] == 1 else size * 2.0
    size = size if _MARGINS[form] == 1 else size * size
    return ops.scatter(size, column, 0.0, dim=last), ops.scatter(slope, column, 0.0, dim=last)


def _class_formula(
    x: Payload,
    target: Payload,
    weight: Payload,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    form: str,
    ops: Vocabulary,
) -> tuple[Payload, Payload]:
    """Return the loss and the total weight of the rows that count, along the last dimensions, for any leading ones."""
    last = len(x.shape) - 1
    there, counts, share = _shares(x, target, weight, ignore_index, ops)
    if form in _MARGINS:
        over, _ = _excess(x, there, label_smoothing, form, ops)
        rows = ops.sum(over, dim=(last,), keepdim=False) * share * (1.0 / x.shape[last])
        total = ops.sum(_cast_like(counts, x, ops), dim=(last - 1,), keepdim=False)
        return _reduce(ops.keep(rows, counts), total, reduction, ops), total
    log_p = ops.log_softmax(x, dim=last) if form == "softmax" else x
    rows = ops.keep(_pick(log_p, there, ops) * share, counts) * (label_smoothing - 1.0)
    if label_smoothing:
        every = log_p if weight is None else log_p * _unsqueeze(weight, last - 1, ops)
        spread = ops.keep(ops.sum(every, dim=(last,), keepdim=False), counts)
        rows = rows - spread * (label_smoothing / x.shape[last])
    total = ops.sum(share, dim=(last - 1,), keepdim=False)
    return _reduce(rows, total, reduction, ops), total


def _class_loss(
    np: Library,
    x: Payload,
    target: Payload,
    weight: Payload,
    *,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    form: str,
) -> tuple[Payload, Payload]:
    refuse_complex(_NAMES.get(form, "multi_margin_loss"), x)
    kernels = native_kernels.class_loss_kernels(x, target, weight)
    error = wrong_class(_NAMES.get(form, "multi_margin_loss"), x.shape[1], ignore_index)
    if kernels is not None:
        found: tuple[Payload, Payload] = kernels.class_loss(
            x, target, weight, ignore_index, label_smoothing, reduction, error, form
        )
        return found
    wrong = ((target < 0) | (target >= x.shape[1])) & (target != ignore_index)
    if np is numpy and wrong.any():
        raise error(int(target[wrong][0]))
    loss, total = _class_formula(
        widen(x), target, widen(weight), ignore_index, label_smoothing, reduction, form, raw_ops(np)
    )
    return loss.astype(x.dtype, copy=False), total


def _class_loss_vjp(
    g0: Payload,
    x: Payload,
    target: Payload,
    weight: Payload,
    out1: Payload,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    form: str,
    ops: Vocabulary,
) -> Payload:
    """Return w[t] (softmax - one hot), plus a share of the same for all classes with smoothed labels."""
    kernels = native_kernels.class_loss_kernels(x, target, weight) if ops.raw else None
    if kernels is not None:
        g0 = native_kernels.dense(g0, x.dtype)
        return kernels.class_loss_gradient(g0, x, target, weight, out1, ignore_index, label_smoothing, reduction, form)
    if ops.raw:
        g0, x, weight = widen(g0), widen(x), widen(weight)
    there, counts, share = _shares(x, target, weight, ignore_index, ops)
    g = g0 / out1 if reduction == "mean" else g0
    if form in _MARGINS:
        each = _unsqueeze(ops.keep(g * share, counts) * (1.0 / x.shape[1]), 1, ops)
        pull = _excess(x, there, label_smoothing, form, ops)[1] * each
        own = ops.sum(pull, dim=(1,), keepdim=True)
        return pull - ops.gather_backward(own, _unsqueeze(there, 1, ops), dim=1, shape=tuple(x.shape), distinct=True)
    if form == "log":
        one = _unsqueeze(ops.keep(-g * share, counts), 1, ops)
        return ops.gather_backward(one, _unsqueeze(there, 1, ops), dim=1, shape=tuple(x.shape), distinct=True)
    one = _unsqueeze(ops.keep(g * share, counts) * (1.0 - label_smoothing), 1, ops)
    scale, spread = one, None
    if label_smoothing:
        each = _unsqueeze(g * _cast_like(counts, x, ops), 1, ops) * (label_smoothing / x.shape[1])
        scale = one + each * (x.shape[1] if weight is None else ops.sum(weight, dim=(0,), keepdim=False))
        spread = each if weight is None else each * weight
    at = ops.gather_backward(one, _unsqueeze(there, 1, ops), dim=1, shape=tuple(x.shape), distinct=True)
    grad = ops.softmax(x, dim=1) * scale - at
    return grad if spread is None else grad - spread


def _class_loss_jvp(
    t: Payload,
    x: Payload,
    target: Payload,
    weight: Payload,
    out1: Payload,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
    form: str,
    ops: Vocabulary,
) -> tuple[Payload, None]:
    there, counts, share = _shares(x, target, weight, ignore_index, ops)
    if form in _MARGINS:
        pull = _excess(x, there, label_smoothing, form, ops)[1]
        along = pull * (t - _unsqueeze(_pick(t, there, ops), 1, ops))
        rows = ops.keep(ops.sum(along, dim=(1,), keepdim=False) * share, counts) * (1.0 / x.shape[1])
        return _reduce(rows, out1, reduction, ops), None
    if form == "log":
        return _reduce(ops.keep(-_pick(t, there, ops) * share, counts), out1, reduction, ops), None
    along = ops.sum(ops.softmax(x, dim=1) * t, dim=(1,), keepdim=False)
    rows = ops.keep((along - _pick(t, there, ops)) * share, counts) * (1.0 - label_smoothing)
    if label_smoothing:
        every = x.shape[1] if weight is None else ops.sum(weight, dim=(0,), keepdim=False)
        spread = along * every - ops.sum(t if weight is None else t * weight, dim=(1,), keepdim=False)
        rows = rows + ops.keep(spread, counts) * (label_smoothing / x.shape[1])
    return _reduce(rows, out1, reduction, ops), None


# Cross entropy of scores (rows, classes) with a class number for each row, and the total weight of the counted rows,
# which divides the mean. On a GPU each direction is one kernel. With the form "log", x holds log-probabilities;
# with a margin, the loss is that of `multi_margin_loss`, and the mean counts rows.
class_loss = op(
    "class_loss", "x target weight",
    _class_loss,
    settings={"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean", "form": "softmax"},
    vjp={"x": _class_loss_vjp},
    jvp={"x": _class_loss_jvp},
    batch=_class_formula,
    outputs=2,
    discrete_outputs=(1,),
    optional="weight",
    backward_name="NllLossBackward0",
    halves=True,
    halves_on_device=True,
    may_raise=True,
)  # fmt: skip


# ----- elementwise terms ---------------------------------------------------------------------------------------------


def _binary_cross_entropy(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Cut off logarithms at -100, so that a certain but wrong answer has a finite loss."""
    return (y - 1.0) * ops.maximum(ops.log1p(-x), -100.0) - y * ops.maximum(ops.log(x), -100.0)


binary_cross_entropy = composite_elementwise(
    "binary_cross_entropy", _binary_cross_entropy,
    args="x y",
    divides_by_zero=True,
    x=lambda t, x, y, ops: t * (x - y) / ops.clamp_min(x - x * x, 1e-12),
    y=lambda t, x, ops: t * (ops.log1p(-x) - ops.log(x)),
    inplace=False,
    saved_names={"y": "target"},
)  # fmt: skip


def _binary_cross_entropy_with_logits(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Return the loss; the shorter max(x, 0) - x y would be NaN at infinity."""
    return ops.maximum(x, 0.0) * (1.0 - y) - ops.minimum(x, 0.0) * y + ops.log1p(ops.exp(-ops.abs(x)))


# Binary cross entropy of sigmoid(x), computed on the logarithmic scale.
binary_cross_entropy_with_logits = composite_elementwise(
    "binary_cross_entropy_with_logits", _binary_cross_entropy_with_logits,
    args="x y",
    refuses_complex=True,
    x=lambda t, x, y, ops: t * (ops.sigmoid(x) - y),
    y=lambda t, x: -(t * x),
    inplace=False,
    saved_names={"y": "target"},
)  # fmt: skip


def _smooth_l1(x: Payload, y: Payload, beta: float, ops: Vocabulary) -> Payload:
    size = ops.abs(x - y)
    return ops.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta)


# The absolute difference, rounded off quadratically within beta of zero. Its derivative is d / beta, clipped.
smooth_l1 = composite_elementwise(
    "smooth_l1", _smooth_l1,
    args="x y",
    refuses_complex=True,
    settings={"beta": 1.0},
    x=lambda t, x, y, beta, ops: t * _slope(x - y, beta, ops),
    y=lambda t, x, y, beta, ops: t * _slope(y - x, beta, ops),
    inplace=False,
    backward_name="SmoothL1LossBackward0",
    saved_names={"y": "target"},
)  # fmt: skip


def _slope(difference: Any, beta: float, ops: Vocabulary) -> Payload:
    return ops.clamp(difference * (1.0 / beta), -1.0, 1.0)
