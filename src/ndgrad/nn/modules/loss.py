"""Losses as modules: each stores the settings of a loss of `nn.functional` and calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn import functional as F
from ndgrad.nn.functional.reduction import read_reduction
from ndgrad.nn.modules.distance import PairwiseDistance
from ndgrad.nn.modules.linear import Linear
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """A loss and its reduction. A call checks the reduction, as in torch."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        old = size_average is not None or reduce is not None
        self.reduction = read_reduction("mean", size_average, reduce) if old else reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class, kept as a buffer so that it moves with the module."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# ----- classes --------------------------------------------------------------------------------------------------------


class NLLLoss(_WeightedLoss):
    """Negative log-probability of the target class.

    Args:
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the targets.
        ignore_index: target of samples that do not count.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.NLLLoss()(ndgrad.tensor([[0.25, 0.75]]).log(), ndgrad.tensor([1]))
    tensor(0.2877)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: log-probabilities of shape (N, C, ...), or (C,) for one sample.
            target: classes of shape (N, ...), or ().
        """
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """torch's deprecated name of NLLLoss for images.

    Args:
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the targets.
        ignore_index: target of samples that do not count.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.NLLLoss2d()(ndgrad.zeros(1, 2, 1, 1), ndgrad.tensor([[[1]]]))
    tensor(0.)
    """


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the softmax of scores with target classes or probabilities.

    For a target class c the loss is `-weight[c] * log_softmax(input)[c]`.

    Args:
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the target classes, or for
            probabilities by the number of samples.
        ignore_index: target of samples that do not count.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.
        label_smoothing: share of the target that goes equally to all classes, in [0, 1].

    >>> import ndgrad
    >>> loss = ndgrad.nn.CrossEntropyLoss()
    >>> loss(ndgrad.tensor([[0.0, 0.0]]), ndgrad.tensor([1]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: scores of shape (N, C, ...), or (C,) for one sample.
            target: classes of shape (N, ...), or probabilities of the shape of `input`.
        """
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class CTCLoss(_Loss):
    """Negative log-probability of sequences of classes, summed over all alignments (CTC).

    Args:
        blank: class that separates labels and is not part of a target.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`. The mean divides each loss by the length of
            its target first.
        zero_infinity: whether the loss is zero if an input is too short for its target. Otherwise it is infinite.

    >>> import ndgrad
    >>> log_probs = ndgrad.full((2, 1, 3), 1 / 3).log()
    >>> loss = ndgrad.nn.CTCLoss()(log_probs, ndgrad.tensor([[1]]), [2], [1])
    >>> (ndgrad.exp(-loss) * 9).round()
    tensor(3.)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the loss.

        Args:
            log_probs: logarithms of probabilities of shape (T, N, C), or (T, C) for one sample.
            targets: classes of shape (N, S), or one vector with all sequences concatenated.
            input_lengths: lengths of the inputs, at most T, one per sample.
            target_lengths: lengths of the targets, one per sample.
        """
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class LinearCrossEntropyLoss(Module):
    """A linear layer and the cross entropy of its result.

    Args:
        in_features: number of features of a sample.
        num_classes: number of classes.
        out_features: must be empty; classes along several dimensions are not supported.
        bias: whether the linear layer has a bias.
        device: device of the parameters.
        dtype: dtype of the parameters.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.
        weight: factors of the classes, of shape (C,). The mean divides by the factors of the target classes, or for
            probabilities by the number of samples.
        ignore_index: target of samples that do not count. The default is -100.
        label_smoothing: share of the target that goes equally to all classes, in [0, 1].
        options: torch's hints for accelerators; have no effect here.

    Raises:
        NotImplementedError: if `out_features` is not empty.

    >>> import ndgrad
    >>> loss = ndgrad.nn.LinearCrossEntropyLoss(4, 3)
    >>> loss(ndgrad.ones(2, 4), ndgrad.tensor([0, 2])).shape
    ndgrad.Size([])
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device = None,
        dtype: Dtype = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        if out_features:
            raise NotImplementedError(
                f"LinearCrossEntropyLoss: out_features={out_features}, classes along several dimensions, "
                "are not supported. Use nn.Linear and CrossEntropyLoss. [nd-unsupported]"
            )
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = out_features
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        self.register_buffer("weight", weight)
        self.linear = Linear(in_features, num_classes, bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: tensor of shape (N, in_features).
            target: classes of shape (N,), or probabilities of shape (N, num_classes).
        """
        return F.linear_cross_entropy(
            input,
            self.linear.weight,
            target,
            linear_bias=self.linear.bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities with targets between 0 and 1.

    The loss is `-(y * log(x) + (1 - y) * log(1 - x))`, with logarithms bounded below by -100.

    Args:
        weight: factors of the losses, which broadcast against them.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.BCELoss()(ndgrad.tensor([0.5]), ndgrad.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: probabilities of any shape.
            target: targets between 0 and 1, of the same shape.
        """
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of the sigmoid of scores, computed without overflow.

    Args:
        weight: factors of the losses, which broadcast against them.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        pos_weight: factors of the loss of positive targets, which broadcast against the input.

    >>> import ndgrad
    >>> ndgrad.nn.BCEWithLogitsLoss()(ndgrad.tensor([0.0]), ndgrad.tensor([1.0]))
    tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: scores of any shape.
            target: targets between 0 and 1, of the same shape.
        """
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """Logistic loss log(1 + exp(-target * input)).

    Args:
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.SoftMarginLoss()(ndgrad.tensor([2.0]), ndgrad.tensor([-1.0]))
    tensor(2.1269)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: scores of any shape.
            target: targets 1 and -1, of the same shape.
        """
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over classes of binary cross entropies of the sigmoid of scores.

    Args:
        weight: factors of the classes, of shape (C,).
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.MultiLabelSoftMarginLoss()(ndgrad.tensor([[2.0, -2.0]]), ndgrad.tensor([[1.0, 0.0]]))
    tensor(0.1269)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: scores of shape (N, C), or (C,).
            target: targets 0 and 1, of the same shape.
        """
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Sum of max(0, 1 - (target's score - other's score)) / C over pairs of a target and another class.

    Args:
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.MultiLabelMarginLoss()(ndgrad.tensor([[1.0, 0.5]]), ndgrad.tensor([[0, -1]]))
    tensor(0.2500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: scores of shape (N, C), or (C,).
            target: classes of the same shape, up to the first -1 of each row.
        """
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Mean over classes of max(0, margin - score of the target + other score)^p.

    Args:
        p: exponent, 1 or 2.
        margin: distance that the target's score should keep.
        weight: factors of the classes, of shape (C,).
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.MultiMarginLoss()(ndgrad.tensor([[1.0, 0.5]]), ndgrad.tensor([0]))
    tensor(0.2500)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, and p is {p}. [nd-option]")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead. [nd-ndim]"
            )
        super().__init__(weight, size_average, reduce, reduction)
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: scores of shape (N, C), or (C,).
            target: classes of shape (N,), or ().
        """
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of a predicted distribution from a target.

    Its terms are `target * (log(target) - input)` for log-probabilities `input`.

    Args:
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one term per element, `"mean"` over all elements, `"sum"`, or `"batchmean"`, the sum
            divided by the first size. The divergence is `"batchmean"`.
        log_target: whether targets are logarithms.

    >>> import ndgrad
    >>> loss = ndgrad.nn.KLDivLoss(reduction="batchmean")
    >>> loss(ndgrad.tensor([[0.25, 0.75]]).log(), ndgrad.tensor([[0.5, 0.5]]))
    tensor(0.1438)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: log-probabilities.
            target: probabilities, or log-probabilities with `log_target`, of the same shape.
        """
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


# ----- numbers --------------------------------------------------------------------------------------------------------


class MSELoss(_Loss):
    """Squared difference `(input - target) ** 2`, reduced to its mean by default.

    Args:
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.MSELoss()(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: predictions of any shape.
            target: targets of the same shape.
        """
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute difference, reduced to its mean by default.

    Args:
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.L1Loss()(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: predictions of any shape.
            target: targets of the same shape.
        """
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Absolute difference, with a parabola near 0.

    For a difference d the loss is `d ** 2 / (2 * beta)` if |d| < beta, and `|d| - beta / 2` otherwise.

    Args:
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        beta: half the width of the parabola, at least 0. With 0 the loss is `L1Loss`.

    >>> import ndgrad
    >>> ndgrad.nn.SmoothL1Loss(reduction="none")(ndgrad.tensor([0.5, 3.0]), ndgrad.zeros(2))
    tensor([0.1250, 2.5000])
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: predictions of any shape.
            target: targets of the same shape.
        """
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference, with lines for large differences.

    For a difference d the loss is `d ** 2 / 2` if |d| < delta, and `delta * (|d| - delta / 2)` otherwise: delta times
    `SmoothL1Loss`.

    Args:
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.
        delta: difference from which the loss is a line of this slope, above 0.

    >>> import ndgrad
    >>> ndgrad.nn.HuberLoss("none", delta=2.0)(ndgrad.tensor([0.5, 3.0]), ndgrad.zeros(2))
    tensor([0.1250, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: predictions of any shape.
            target: targets of the same shape.
        """
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts under Poisson distributions.

    The loss is `exp(input) - target * input`, without the constant log(target!).

    Args:
        log_input: whether inputs are logarithms of the means. Otherwise they are the means.
        full: whether Stirling's approximation of log(target!) is added for targets above 1.
        size_average, reduce: old forms of `reduction`.
        eps: number added to the means before their logarithm, without `log_input`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.PoissonNLLLoss()(ndgrad.tensor([0.0]), ndgrad.tensor([3.0]))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            log_input: logarithms of the means, or the means, by the setting of this name.
            target: counts of the same shape.
        """
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of targets under normal distributions.

    The loss is `(log(v) + (input - target) ** 2 / v) / 2` with `v = max(var, eps)`.

    Args:
        full: whether the constant log(2 pi) / 2 is added.
        eps: smallest variance.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.GaussianNLLLoss()(ndgrad.tensor([1.0]), ndgrad.tensor([3.0]), ndgrad.tensor([4.0]))
    tensor(1.1931)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: means.
            target: observations, of the same shape.
            var: variances of the same shape, of this shape without the last dimension, or with one size that is 1
                instead.
        """
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# ----- distances ------------------------------------------------------------------------------------------------------


class HingeEmbeddingLoss(_Loss):
    """Input for targets of 1, and max(0, margin - input) for targets of -1.

    Args:
        margin: distance from which different pairs cost nothing.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.HingeEmbeddingLoss(reduction="none")(ndgrad.tensor([0.25, 0.25]), ndgrad.tensor([1, -1]))
    tensor([0.2500, 0.7500])
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input: distances of any shape.
            target: 1 for similar pairs and -1 for different ones, of the same shape.
        """
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos for targets of 1, and max(0, cos - margin) for targets of -1.

    Args:
        margin: cosine up to which different pairs cost nothing.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> x, y = ndgrad.tensor([[1.0, 1.0]]), ndgrad.tensor([[1.0, 0.0]])
    >>> ndgrad.nn.CosineEmbeddingLoss()(x, y, ndgrad.tensor([1]))
    tensor(0.2929)
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input1, input2: vectors of shape (N, D), or (D,).
            target: 1 for similar pairs and -1 for different ones, of shape (N,), or ().
        """
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """Ranking loss max(0, margin - target * (input1 - input2)).

    Args:
        margin: difference that is demanded.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> x, y = ndgrad.tensor([2.0, 2.0]), ndgrad.tensor([1.0, 3.0])
    >>> ndgrad.nn.MarginRankingLoss(reduction="none")(x, y, ndgrad.tensor([1, 1]))
    tensor([0., 1.])
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input1, input2: scores of the same number of dimensions.
            target: 1 if `input1` should be larger, -1 if `input2` should be.
        """
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


def _check_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead. [nd-range]")


class TripletMarginLoss(_Loss):
    """Triplet loss max(0, margin + distance to the positive - distance to the negative).

    Args:
        margin: difference of distances that is demanded, above 0.
        p: order of the norm.
        eps: number added to each difference of vectors.
        swap: whether the distance from positive to negative is used for the second one if it is smaller.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> anchor, near, far = ndgrad.zeros(1, 2), ndgrad.tensor([[0.0, 1.0]]), ndgrad.tensor([[3.0, 4.0]])
    >>> ndgrad.nn.TripletMarginLoss(margin=5.0, eps=0.0)(anchor, near, far)
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin("TripletMarginLoss", margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss.

        Args:
            anchor, positive, negative: vectors of shape (N, D), or (D,). The anchor should be nearer to the positive
                than to the negative.
        """
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """Triplet loss of any distance.

    Args:
        distance_function: function or module of two tensors. The default is `PairwiseDistance()`.
        margin: difference of distances that is demanded, above 0.
        swap: whether the distance from positive to negative is used for the second one if it is smaller.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> loss = ndgrad.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1), margin=9.0)
    >>> loss(ndgrad.zeros(1, 2), ndgrad.tensor([[0.0, 1.0]]), ndgrad.tensor([[3.0, 4.0]]))
    tensor(3.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin("TripletMarginWithDistanceLoss", margin)
        self.distance_function: Callable[[Tensor, Tensor], Tensor] = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss.

        Args:
            anchor, positive, negative: vectors of shape (N, D), or (D,). The anchor should be nearer to the positive
                than to the negative.
        """
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
