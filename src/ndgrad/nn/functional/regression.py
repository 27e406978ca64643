"""Losses of numeric predictions: distances, and likelihoods of distributions around them."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.ops import loss as loss_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.nn.functional.reduction import read_reduction, reduce_loss

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss", "gaussian_nll_loss"]


def _check_sizes(name: str, input: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
    a, b = tuple(input.shape), tuple(target.shape)
    if a != b:
        warnings.warn(
            (
                f"{name}: Using a target size ({b}) that is different to the input size ({a}): "
                "they are broadcast against each other, which is rarely what is meant. Give both the same size."
            ),
            stacklevel=3,
        )
        try:
            np.broadcast_shapes(a, b)
        except ValueError:
            raise RuntimeError(
                f"{name}: a target of size {b} cannot be broadcast against an input of size {a}. Reshape one of them. "
                "[nd-broadcast]"
            ) from None
    if weight is not None and tuple(weight.shape) != a:
        raise ValueError(
            f"{name}: Weights and input must have the same size, but have {tuple(weight.shape)} and {a}. [nd-shape]"
        )


def _reduce_weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Reduce a loss with weights: the mean divides by their sum."""
    if weight is None:
        return reduce_loss(loss, reduction)
    loss = loss * weight
    return ops.sum_all(loss) / ops.sum_all(weight) if reduction == "mean" else reduce_loss(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared difference `(input - target) ** 2`, reduced.

    Args:
        input: predictions of any shape.
        target: targets of the same shape.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        weight: factors of the losses, of the shape of the input. The mean divides by their sum.

    >>> import ndgrad
    >>> ndgrad.nn.functional.mse_loss(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    _check_sizes("mse_loss", input, target, weight)
    return _reduce_weighted(ops.square(input - target), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute difference, reduced. The gradient of equal elements is 0.

    Args:
        input: predictions of any shape.
        target: targets of the same shape.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        weight: factors of the losses, of the shape of the input. The mean divides by their sum.

    >>> import ndgrad
    >>> ndgrad.nn.functional.l1_loss(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 4.0]))
    tensor(1.)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    _check_sizes("l1_loss", input, target, weight)
    return _reduce_weighted(ops.abs(input - target), weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the absolute difference, with a parabola near 0.

    For a difference d the loss is `d ** 2 / (2 * beta)` if |d| < beta, and `|d| - beta / 2` otherwise.

    Args:
        input: predictions of any shape.
        target: targets of the same shape.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        beta: half the width of the parabola, at least 0. With 0 the loss is `l1_loss`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.smooth_l1_loss(ndgrad.tensor([0.5, 3.0]), ndgrad.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = read_reduction(reduction, size_average, reduce)
    _check_sizes("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(
            f"smooth_l1_loss does not support negative values for beta, but it is {beta}. Give a width of at least 0. "
            "[nd-range]"
        )
    loss = ops.abs(input - target) if beta == 0 else loss_ops.smooth_l1.eager(input, target, beta=beta)
    return reduce_loss(loss, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return half the squared difference, with lines for large differences.

    For a difference d the loss is `d ** 2 / 2` if |d| < delta, and `delta * (|d| - delta / 2)` otherwise.

    Args:
        input: predictions of any shape.
        target: targets of the same shape.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        delta: difference from which the loss is a line of this slope, above 0.
        weight: factors of the losses, of the shape of the input. The mean divides by the number of elements.

    >>> import ndgrad
    >>> ndgrad.nn.functional.huber_loss(ndgrad.tensor([0.5, 3.0]), ndgrad.zeros(2), reduction="none", delta=2.0)
    tensor([0.1250, 4.0000])
    """
    reduction = read_reduction(reduction)
    _check_sizes("huber_loss", input, target, weight)
    if delta <= 0:
        raise RuntimeError(
            f"huber_loss does not support non-positive values for delta, but it is {delta}. Give a width above 0. "
            "[nd-range]"
        )
    loss = loss_ops.smooth_l1.eager(input, target, beta=delta)
    if delta != 1:
        loss = loss * delta
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of counts under Poisson distributions.

    The loss is `exp(input) - target * input`, without the constant log(target!).

    Args:
        input: logarithms of the means, or with `log_input=False` the means.
        target: counts of the same shape.
        log_input: whether `input` holds logarithms.
        full: whether Stirling's approximation of log(target!) is added for targets above 1.
        size_average, reduce: old forms of `reduction`.
        eps: number added to the means before their logarithm, without `log_input`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.poisson_nll_loss(ndgrad.tensor([0.0]), ndgrad.tensor([3.0]))
    tensor(1.)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    loss = ops.exp(input) - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        # Stirling's formula for log(target!).
        safe = ops.where(target > 1, target, 1.0)
        loss = loss + ops.where(target > 1, safe * ops.log(safe) - safe + ops.log(safe * (2 * math.pi)) * 0.5, 0.0)
    return reduce_loss(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return the negative log-likelihood of targets under normal distributions.

    The loss is `(log(v) + (input - target) ** 2 / v) / 2` with `v = max(var, eps)`. The gradient with respect to `var`
    is nonzero below `eps`, so that a variance can recover.

    Args:
        input: means.
        target: observations, of the same shape.
        var: variances of the same shape, of this shape without the last dimension, or with one size that is 1 instead;
            or a number.
        full: whether the constant log(2 pi) / 2 is added.
        eps: smallest variance.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    Raises:
        ValueError: if a variance is negative, or if its shape does not fit.

    >>> import ndgrad
    >>> ndgrad.nn.functional.gaussian_nll_loss(ndgrad.tensor([1.0]), ndgrad.tensor([3.0]), ndgrad.tensor([4.0]))
    tensor(1.1931)
    """
    reduction = read_reduction(reduction)
    variance: Tensor = ops.zeros_like(ops.detach(input)) + float(var) if isinstance(var, (int, float)) else var
    known = values_to_check(variance)
    if known is not None and (known < 0).any():
        raise ValueError(
            f"gaussian_nll_loss: var has negative entry/entries, the least being {known.min()}. "
            "A variance is at least 0; take exp() or softplus(). [nd-values]"
        )
    shape, given = tuple(input.shape), tuple(variance.shape)
    if given != shape:
        if shape[:-1] == given:
            variance = ops.unsqueeze(variance, dim=len(given))
        elif len(given) != len(shape) or sum(b for a, b in zip(shape, given, strict=True) if a != b) != 1:
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size: {given}, for an input of size {shape}. "
                "Give that size, or 1 in one dimension. [nd-shape]"
            )
    variance = variance + ops.detach(ops.clamp_min(variance, as_number("gaussian_nll_loss", "eps", eps)) - variance)
    loss = (ops.log(variance) + ops.square(input - target) / variance) * 0.5
    return reduce_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
