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
    """The negative log-probability of the target class, from log-probabilities (N, C, ...).

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
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """torch's deprecated name of NLLLoss for images.

    >>> import ndgrad
    >>> ndgrad.nn.NLLLoss2d()(ndgrad.zeros(1, 2, 1, 1), ndgrad.tensor([[[1]]]))
    tensor(0.)
    """


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy of softmax(scores) with targets: class numbers, or probabilities.

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
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class CTCLoss(_Loss):
    """The loss of sequences without alignment: see `nn.functional.ctc_loss`.

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
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class LinearCrossEntropyLoss(Module):
    """A linear layer and the cross entropy of its result.

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
    """The binary cross entropy of probabilities with targets between 0 and 1.

    >>> import ndgrad
    >>> ndgrad.nn.BCELoss()(ndgrad.tensor([0.5]), ndgrad.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of the sigmoid of the input, computed without overflow.

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
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target input)), with targets 1 and -1.

    >>> import ndgrad
    >>> ndgrad.nn.SoftMarginLoss()(ndgrad.tensor([2.0]), ndgrad.tensor([-1.0]))
    tensor(2.1269)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of BCEWithLogitsLoss.

    >>> import ndgrad
    >>> ndgrad.nn.MultiLabelSoftMarginLoss()(ndgrad.tensor([[2.0, -2.0]]), ndgrad.tensor([[1.0, 0.0]]))
    tensor(0.1269)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The sum over pairs of a target and another class of max(0, 1 - difference of their scores), per class.

    >>> import ndgrad
    >>> ndgrad.nn.MultiLabelMarginLoss()(ndgrad.tensor([[1.0, 0.5]]), ndgrad.tensor([[0, -1]]))
    tensor(0.2500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The mean over other classes of max(0, margin - score of the target + their score)^p.

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
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The divergence of log-probabilities `input` from probabilities (or log-probabilities) `target`.

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
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


# ----- numbers --------------------------------------------------------------------------------------------------------


class MSELoss(_Loss):
    """The squared difference.

    >>> import ndgrad
    >>> ndgrad.nn.MSELoss()(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute difference.

    >>> import ndgrad
    >>> ndgrad.nn.L1Loss()(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """The absolute difference minus beta / 2; below beta, a parabola that continues it smoothly.

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
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference, and a line beyond delta; equal to delta times SmoothL1Loss.

    >>> import ndgrad
    >>> ndgrad.nn.HuberLoss("none", delta=2.0)(ndgrad.tensor([0.5, 3.0]), ndgrad.zeros(2))
    tensor([0.1250, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts under Poisson distributions with the input as (log of the) mean.

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
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood of targets under normal distributions of mean `input` and variance `var`.

    >>> import ndgrad
    >>> ndgrad.nn.GaussianNLLLoss()(ndgrad.tensor([1.0]), ndgrad.tensor([3.0]), ndgrad.tensor([4.0]))
    tensor(1.1931)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# ----- distances ------------------------------------------------------------------------------------------------------


class HingeEmbeddingLoss(_Loss):
    """The input (a distance) for targets of 1, max(0, margin - input) for targets of -1.

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
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos for targets of 1, max(0, cos - margin) for targets of -1.

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
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """max(0, margin - target (input1 - input2)), with targets 1 and -1.

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
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


def _check_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead. [nd-range]")


class TripletMarginLoss(_Loss):
    """max(0, margin + distance to the positive - distance to the negative).

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
    """TripletMarginLoss with another distance: a function of two tensors, or a module.

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
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
