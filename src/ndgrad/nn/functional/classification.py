"""Losses of classifiers: cross entropy in its forms, and margins between classes.

The usual case (class indices, no weights) is one op on the scores. `ignore_index`, weights and reductions only change
one number per sample.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.device_kernels import targets_later
from ndgrad._src.arrays.native_kernels import class_loss_kernels
from ndgrad._src.arrays.precision import is_half, is_inexact
from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.variable import Variable, np_dtype, shape_of, wrap
from ndgrad._src.ops import loss as loss_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.nn.functional.affine import linear
from ndgrad.nn.functional.reduction import read_reduction, reduce_loss

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Sizes, Tensor

__all__ = [
    "cross_entropy", "linear_cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
]  # fmt: skip


def _unsqueeze(t: Tensor, dim: int) -> Tensor:
    return ops.unsqueeze(t, dim=dim)


# ----- classes by number ---------------------------------------------------------------------------------------------


def _class_dim(name: str, input: Tensor, target: Tensor, weight: Tensor | None) -> int:
    """Return the dimension of the classes, after a check of shapes and dtypes."""
    shape = shape_of(input)
    dim = 0 if len(shape) == 1 else 1
    if not shape or shape_of(target) != (*shape[:dim], *shape[dim + 1 :]):
        raise _wrong_target(name, shape, shape_of(target))
    if np_dtype(target).kind not in "iu":
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {np_dtype(target)}. Class numbers are "
            "integers: convert them with .long(); class probabilities have the shape of the input. [nd-target]"
        )
    if weight is not None and tuple(weight.shape) != (shape[dim],):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {shape[dim]} classes or no classes but got "
            f"weight tensor of shape: {list(weight.shape)}. Give one weight per class. [nd-shape]"
        )
    return dim


class _Targets:
    """Class numbers, checked against the scores, without ignored ones."""

    def __init__(self, name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> None:
        self.dim = _class_dim(name, input, target, weight)
        self.classes = shape_of(input)[self.dim]
        #: Mask of samples that count; None for all.
        self.counted: Tensor | None = None
        numbers = values_to_check(target)
        wrong = loss_ops.wrong_class(name, self.classes, ignore_index)
        is_plain = target.__class__ in TENSOR_TYPES and not isinstance(target._array, Variable)
        if getattr(numbers, "later_targets", None) is not None:  # during tracing
            later = numbers.later_targets(self.classes, ignore_index, wrong)
        else:
            later = targets_later(numbers, self.classes, ignore_index, wrong)
        self.is_on_device = later is not None
        if later is not None and is_plain:  # checking for ignored targets would have to wait
            target, self.counted = (wrap(TENSOR_TYPES[target.__class__], array) for array in later)
        elif later is not None or _some_are_ignored(numbers, self.classes, ignore_index, wrong):
            # Under transforms the numbers checked are those of all samples, so the mask is an op on the target itself.
            self.counted = target != ignore_index
            target = ops.where(self.counted, target, 0)
            if later is not None:  # a number that the device has noted reads no memory outside of the scores
                target = ops.clamp_max(ops.clamp_min(target, 0), self.classes - 1)
        self.target = target
        #: The weight of each sample's class, 0 for ignored ones; None if all are 1.
        self.weights: Tensor | None = None
        if weight is not None:
            self.weights = self.mask(ops.index(weight, target))

    def mask(self, per_sample: Tensor) -> Tensor:
        return per_sample if self.counted is None else ops.keep(per_sample, self.counted)

    def pick(self, scores: Tensor) -> Tensor:
        """Return the score of each sample's class."""
        return ops.reshape(
            ops.gather(scores, _unsqueeze(self.target, self.dim), dim=self.dim), shape=tuple(self.target.shape)
        )

    def apply_weights(self, per_sample: Tensor) -> Tensor:
        return self.mask(per_sample) if self.weights is None else per_sample * self.weights

    def reduce(self, per_sample: Tensor, reduction: str) -> Tensor:
        """Reduce the losses. The mean divides by the weights of the samples that count, not by their number."""
        if reduction != "mean" or (self.weights is None and self.counted is None):
            return reduce_loss(per_sample, reduction)
        dtype = np_dtype(per_sample)
        if self.weights is None and self.is_on_device and not is_half(dtype):  # two kernels instead of three
            return ops.sum_all(per_sample) / ops.sum_all(self.counted, dtype=dtype)
        share = self.weights if self.weights is not None else ops.cast(self.counted, dtype=dtype)
        return ops.sum_all(per_sample) / ops.sum_all(share)


def _some_are_ignored(
    numbers: Payload | None, classes: int, ignore_index: int, error: Callable[[int], Exception]
) -> bool:
    """True if some targets are `ignore_index`, after a check that all others are classes."""
    if numbers is None or not numbers.size:
        return False
    # Read as unsigned, a negative number is larger than all others: one pass instead of two.
    inside = (numbers if numbers.dtype.kind == "u" else numbers.view(f"u{numbers.itemsize}")).max() < classes
    if inside and not 0 <= ignore_index < classes:  # the usual case
        return False
    ignored = numbers == ignore_index
    if not inside:
        wrong = ((numbers < 0) | (numbers >= classes)) & ~ignored
        if wrong.any():
            raise error(int(numbers[wrong].reshape(-1)[0]))
    return bool(ignored.any())


def _wrong_target(name: str, shape: Sizes, target: Sizes) -> Exception:
    """Return the error for a target that does not fit the scores."""
    if not shape:
        return ValueError(
            f"{name}: Expected 1 or more dimensions (got 0). Give the scores of the classes along dimension 0 or 1. "
            "[nd-ndim]"
        )
    if len(shape) <= 2 and len(target) > 1:
        return RuntimeError(
            f"{name}: 0D or 1D target tensor expected, multi-target not supported (scores {shape}, target {target}). "
            "Give one class number per sample, or probabilities of the input's shape. [nd-target]"
        )
    if len(shape) > 1 and target and shape[0] != target[0]:
        return ValueError(
            f"{name}: Expected input batch_size ({shape[0]}) to match target batch_size ({target[0]}) "
            f"(scores {shape}, target {target}). [nd-target]"
        )
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    return RuntimeError(
        f"{name}: Expected target size {list(expected)}, got {list(target)} for scores of shape {shape}. "
        "Classes are along dimension 1. [nd-target]"
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-probability of the target classes.

    Args:
        input: log-probabilities of shape (N, C, ...), or (C,) for one sample.
        target: classes of shape (N, ...), or () for one sample.
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the targets.
        ignore_index: target of samples that do not count.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> log_p = ndgrad.tensor([[0.25, 0.75]]).log()
    >>> ndgrad.nn.functional.nll_loss(log_p, ndgrad.tensor([1]))
    tensor(0.2877)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    if _is_one_kernel(input, target, weight):
        _class_dim("nll_loss", input, target, weight)
        loss: Tensor = loss_ops.class_loss.eager(
            input, target, weight, ignore_index=ignore_index, reduction=reduction, form="log"
        )[0]
        return loss
    targets = _Targets("nll_loss", input, target, weight, ignore_index)
    return targets.reduce(-targets.apply_weights(targets.pick(input)), reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of softmax(input) with targets.

    For a target class c the loss is `-weight[c] * log_softmax(input)[c]`.

    Args:
        input: scores of shape (N, C, ...), or (C,) for one sample.
        target: classes of shape (N, ...), or probabilities of the shape of `input`.
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the target classes, or for
            probabilities by the number of samples.
        ignore_index: target of samples that do not count.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.
        label_smoothing: share of the target that goes equally to all classes, in [0, 1].

    >>> import ndgrad
    >>> scores = ndgrad.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> ndgrad.nn.functional.cross_entropy(scores, ndgrad.tensor([0, 1]))
    tensor(0.4100)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    label_smoothing = as_number("cross_entropy", "label_smoothing", label_smoothing)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing} [nd-range]"
        )
    if is_inexact(np_dtype(target)) and shape_of(input) == shape_of(target):
        return _cross_entropy_of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if _is_one_kernel(input, target, weight):
        _class_dim("cross_entropy", input, target, weight)
        loss: Tensor = loss_ops.class_loss.eager(
            input, target, weight, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
        )[0]
        return loss
    targets = _Targets("cross_entropy", input, target, weight, ignore_index)
    if not label_smoothing:
        per_sample = loss_ops.softmax_cross_entropy.eager(input, targets.target, dim=targets.dim)
        return targets.reduce(targets.apply_weights(per_sample), reduction)
    # A share of the target goes equally to all classes. Both parts are divided by the same total, so they can be added
    # first.
    log_p = ops.log_softmax(input, dim=targets.dim)
    every = log_p if weight is None else log_p * _along_classes(weight, log_p, targets.dim)
    spread = targets.mask(ops.sum(every, dim=(targets.dim,), keepdim=False))
    chosen = targets.apply_weights(targets.pick(log_p))
    return targets.reduce(chosen * (label_smoothing - 1.0) - spread * (label_smoothing / targets.classes), reduction)


def _is_one_kernel(input: Tensor, target: Tensor, weight: Tensor | None) -> bool:
    """True if there is a kernel for the whole loss: all tensors are plain arrays, and weights are given."""
    if input.__class__ not in TENSOR_TYPES or target.__class__ not in TENSOR_TYPES:
        return False
    if weight is not None and (weight.__class__ not in TENSOR_TYPES or weight.requires_grad):
        return False
    return class_loss_kernels(input._array, target._array, None if weight is None else weight._array) is not None


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the cross entropy of the scores of a linear layer.

    This is `cross_entropy(linear(input, linear_weight, linear_bias), target)`.

    Args:
        input: tensor of shape (N, in_features).
        linear_weight: weight of shape (C, in_features). A weight (C, ..., in_features) gives scores (N, C, ...), each
            with its own target.
        target: classes of shape (N, ...), or probabilities of the shape of the scores.
        linear_bias: bias of the shape of `linear_weight` without its last dimension.
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the target classes, or for
            probabilities by the number of samples.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.
        ignore_index: target of samples that do not count. The default is -100.
        label_smoothing: share of the target that goes equally to all classes, in [0, 1].
        options: torch's hints for accelerators; have no effect here.

    >>> import ndgrad
    >>> ndgrad.nn.functional.linear_cross_entropy(ndgrad.ones(1, 2), ndgrad.zeros(3, 2), ndgrad.tensor([0]))
    tensor(1.0986)
    """
    sizes = tuple(linear_weight.shape[:-1])
    if len(sizes) > 1:
        linear_weight = ops.reshape(linear_weight, shape=(math.prod(sizes), linear_weight.shape[-1]))
        linear_bias = None if linear_bias is None else ops.reshape(linear_bias, shape=(math.prod(sizes),))
    scores = linear(input, linear_weight, linear_bias)
    if len(sizes) > 1:
        scores = ops.reshape(scores, shape=(*tuple(scores.shape[:-1]), *sizes))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _along_classes(weight: Tensor, like: Tensor, dim: int) -> Tensor:
    return ops.reshape(weight, shape=(weight.shape[0], *(1,) * (len(like.shape) - dim - 1)))


def _cross_entropy_of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    if ignore_index >= 0:
        raise RuntimeError(
            f"cross_entropy: ignore_index is not supported for floating point target (got {ignore_index}). "
            "Give class numbers, or set the loss of what is to be ignored to zero with reduction='none'. [nd-target]"
        )
    shape = tuple(input.shape)
    dim = 0 if len(shape) == 1 else 1
    classes = shape[dim]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight of shape {list(weight.shape)} for {classes} classes. Give one weight per class. "
            "[nd-shape]"
        )
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    weighed = ops.log_softmax(input, dim=dim) * target
    if weight is not None:
        weighed = weighed * _along_classes(weight, weighed, dim)
    if reduction == "none":
        return -ops.sum(weighed, dim=(dim,), keepdim=False)
    total = -ops.sum_all(weighed)
    if reduction == "sum":
        return total
    samples = 1
    for d, n in enumerate(shape):
        samples *= 1 if d == dim else n
    return total / samples


# ----- yes or no -----------------------------------------------------------------------------------------------------


def _same_size(name: str, input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"{name}: Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)}). "
            "Reshape or expand one of them. [nd-target]"
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy of probabilities with targets between 0 and 1.

    The loss is `-(y * log(x) + (1 - y) * log(1 - x))`, with logarithms bounded below by -100.

    Args:
        input: probabilities of any shape.
        target: targets of the same shape.
        weight: factors of the losses, which broadcast against them.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.binary_cross_entropy(ndgrad.tensor([0.5, 0.9]), ndgrad.tensor([1.0, 1.0]))
    tensor(0.3993)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    _same_size("binary_cross_entropy", input, target)
    p = values_to_check(input)
    if p is not None and p.size and not (p.min() >= 0 and p.max() <= 1):
        raise RuntimeError(
            f"binary_cross_entropy: all elements of input should be between 0 and 1, and they lie between {p.min()} "
            f"and {p.max()}. Apply sigmoid first, or use binary_cross_entropy_with_logits. [nd-values]"
        )
    loss = loss_ops.binary_cross_entropy.eager(input, target)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross entropy of sigmoid(input), without overflow.

    Args:
        input: scores of any shape.
        target: targets between 0 and 1, of the same shape.
        weight: factors of the losses, which broadcast against them.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        pos_weight: factors of the loss of positive targets, which broadcast against the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.binary_cross_entropy_with_logits(ndgrad.tensor([0.0, 1000.0]), ndgrad.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    _same_size("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        loss = loss_ops.binary_cross_entropy_with_logits.eager(input, target)
    else:
        # The formula is (1 - y) (x + s) + w y s with s = softplus(-x) = -logsigmoid(x).
        loss = (1.0 - target) * input - ((pos_weight - 1.0) * target + 1.0) * ops.log_sigmoid(input)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the logistic loss log(1 + exp(-target * input)).

    Args:
        input: scores of any shape.
        target: targets 1 and -1, of the same shape.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.soft_margin_loss(ndgrad.tensor([0.0, 2.0]), ndgrad.tensor([1.0, -1.0]), reduction="none")
    tensor([0.6931, 2.1269])
    """
    reduction = read_reduction(reduction, size_average, reduce)
    return reduce_loss(-ops.log_sigmoid(target * input), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of binary cross entropies with logits.

    Args:
        input: scores of shape (N, C), or (C,).
        target: targets 0 and 1, of the same shape.
        weight: factors of the classes, of shape (C,).
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.multilabel_soft_margin_loss(ndgrad.tensor([[2.0, -2.0]]), ndgrad.tensor([[1.0, 0.0]]))
    tensor(0.1269)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    loss = loss_ops.binary_cross_entropy_with_logits.eager(input, target)
    if weight is not None:
        loss = loss * weight
    return reduce_loss(ops.mean(loss, dim=(len(loss.shape) - 1,), keepdim=False) if loss.shape else loss, reduction)


# ----- distributions -------------------------------------------------------------------------------------------------


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the terms of the Kullback-Leibler divergence, `target * (log(target) - input)`.

    Args:
        input: log-probabilities.
        target: probabilities, or log-probabilities with `log_target`.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one term per element, `"mean"` over all elements, `"sum"`, or `"batchmean"`, the sum
            divided by the first size. The divergence is `"batchmean"`.
        log_target: whether `target` holds logarithms.

    >>> import ndgrad
    >>> p, q = ndgrad.tensor([[0.5, 0.5]]), ndgrad.tensor([[0.25, 0.75]])
    >>> ndgrad.nn.functional.kl_div(q.log(), p, reduction="batchmean")
    tensor(0.1438)
    """
    reduction = read_reduction(reduction, size_average, reduce, more=("batchmean",))
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction 'mean' divides by the number of elements, batch and support alike; the divergence of "
            "distributions divides by the batch alone, which is reduction='batchmean'.",
            stacklevel=2,
        )
    loss = ops.exp(target) * (target - input) if log_target else ops.xlogy(target, target) - target * input
    if reduction == "batchmean":
        shape = tuple(input.shape)
        return ops.sum_all(loss) / shape[0] if shape else ops.sum_all(loss)
    return reduce_loss(loss, reduction)


# ----- margins -------------------------------------------------------------------------------------------------------


def _as_batch(name: str, input: Tensor) -> Tensor:
    ndim = len(input.shape)
    if ndim > 2:
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix, but got a tensor of shape {tuple(input.shape)}. "
            "Flatten the leading dimensions. [nd-ndim]"
        )
    return input if ndim == 2 else ops.reshape(input, shape=(1, -1 if ndim else 1))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of max(0, margin - score of the target + other score)^p.

    Args:
        input: scores of shape (N, C), or (C,).
        target: classes of shape (N,), or ().
        p: exponent, 1 or 2.
        margin: distance that the target's score should keep.
        weight: factors of the classes, of shape (C,).
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.multi_margin_loss(ndgrad.tensor([[1.0, 0.5]]), ndgrad.tensor([0]))
    tensor(0.2500)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, and p is {p}. [nd-option]")
    if weight is not None and len(weight.shape) != 1:
        raise ValueError(
            f"multi_margin_loss: weight must be one-dimensional, but has shape {tuple(weight.shape)}. "
            "Give one weight per class. [nd-ndim]"
        )
    rows = _as_batch("multi_margin_loss", input)
    if not target.shape:
        target = ops.reshape(target, shape=(1,))
    ignored = -1 - rows.shape[1]
    if len(input.shape) == 2 and isinstance(margin, (int, float)) and _is_one_kernel(rows, target, weight):
        _class_dim("multi_margin_loss", rows, target, weight)
        form = "margin" if p == 1 else "square margin"
        found: Tensor = loss_ops.class_loss.eager(
            rows, target, weight, ignore_index=ignored, label_smoothing=float(margin), reduction=reduction, form=form
        )[0]
        return found
    targets = _Targets("multi_margin_loss", rows, target, weight, ignore_index=ignored)
    column = _unsqueeze(targets.target, 1)
    over = ops.relu(margin - ops.gather(rows, column, dim=1) + rows)
    over = over if p == 1 else over * over
    if targets.weights is not None:
        over = over * _unsqueeze(targets.weights, 1)
    loss = ops.mean(ops.scatter(over, column, 0.0, dim=1), dim=(1,), keepdim=False)
    return reduce_loss(loss if len(input.shape) == 2 else ops.reshape(loss, shape=()), reduction)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the sum of max(0, 1 - (target's score - other's score)) / C over pairs of a target and another class.

    Args:
        input: scores of shape (N, C), or (C,).
        target: classes of the same shape, up to the first -1 of each row.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.multilabel_margin_loss(ndgrad.tensor([[1.0, 0.5]]), ndgrad.tensor([[0, -1]]))
    tensor(0.2500)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    if tuple(input.shape) != tuple(target.shape):
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(input.shape)}. [nd-target]"
        )
    rows, labels = _as_batch("multilabel_margin_loss", input), _as_batch("multilabel_margin_loss", target)
    classes = rows.shape[1]
    numbers = values_to_check(labels)
    if numbers is not None and numbers.size and (numbers.min() < -1 or numbers.max() >= classes):
        raise RuntimeError(
            f"multilabel_margin_loss: targets must lie between -1 and {classes - 1} for {classes} classes. [nd-target]"
        )
    given = ops.cumprod(ops.cast(labels >= 0, dtype=np_dtype(rows)), dim=1, reverse=False, dtype=None)
    safe = ops.clamp_min(labels, 0)
    is_target = ops.clamp_max(ops.scatter_add(ops.zeros_like(ops.detach(rows)), safe, given, dim=1), 1.0)
    pairs = ops.relu(1.0 - (_unsqueeze(ops.gather(rows, safe, dim=1), 2) - _unsqueeze(rows, 1)))
    pairs = pairs * _unsqueeze(given, 2) * (1.0 - _unsqueeze(is_target, 1))
    loss = ops.sum(pairs, dim=(1, 2), keepdim=False) / classes
    return reduce_loss(loss if len(input.shape) == 2 else ops.reshape(loss, shape=()), reduction)
