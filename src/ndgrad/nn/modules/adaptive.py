"""Softmax over very many classes (Grave et al., 2017): a head for frequent classes, clusters for rare ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ndgrad._src.tensor.functions.data import tensor
from ndgrad._src.tensor.functions.join import cat
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.nn.functional import log_softmax
from ndgrad.nn.modules.container import ModuleList, Sequential
from ndgrad.nn.modules.linear import Linear
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Return the log-probability of each sample's class, and their negative mean, for very many classes.

    Classes are sorted by frequency. Those below the first cutoff are in the head, which also scores the clusters
    between the other cutoffs.

    Args:
        in_features: number of features of a sample.
        n_classes: number of classes.
        cutoffs: first classes of the clusters, increasing, between 1 and n_classes - 1.
        div_value: factor by which each cluster has fewer features than the one before.
        head_bias: whether the head has a bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> layer = ndgrad.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2)
    >>> result = layer(ndgrad.ones(3, 8), ndgrad.tensor([0, 7, 19]))
    >>> result.output.shape, result.loss.shape, layer.log_prob(ndgrad.ones(3, 8)).shape
    (ndgrad.Size([3]), ndgrad.Size([]), ndgrad.Size([3, 20]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        if not given:
            raise ValueError("cutoffs should be a sequence of length larger than 0 [nd-too-few]")
        if (
            given != sorted(set(given))
            or any(int(c) != c for c in given)
            or min(given) <= 0
            or max(given) > n_classes - 1
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1; they are {given}, for {n_classes} classes. [nd-values]"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for number, (first, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False), 1):
            features = int(in_features // div_value**number)
            self.tail.append(
                Sequential(
                    Linear(in_features, features, bias=False, device=device, dtype=dtype),
                    Linear(features, end - first, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Initialise the parameters again."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log-probabilities of the targets, and the loss.

        Args:
            input_: tensor of shape (N, in_features), or (in_features,) for one sample.
            target_: classes of shape (N,), or ().

        Returns:
            A named pair of `output`, of the shape of `target_`, and `loss`, a scalar.
        """
        if target_.dim() == 1:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError(
                    "Input and target should have the same size in the batch dimension, but have shapes "
                    f"{tuple(input_.shape)} and {tuple(target_.shape)}. [nd-target]"
                )
            if input_.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.shape} [nd-target]"
                )
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input_.shape} [nd-target]"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported [nd-target]")
        one = target_.dim() == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if one else (input_, target_)
        values = values_to_check(target)
        if values is not None and values.size and (values.min() < 0 or values.max() >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{values.min()}, {values.max()}] were found. [nd-target]"
            )
        head = log_softmax(self.head(input), dim=1)
        # The head's class is the target's own, or that of its cluster.
        bounds = tensor(self.cutoffs[:-1], device=target.device)
        cluster = (target.unsqueeze(1) >= bounds).sum(1)
        own = (cluster == 0).long() * target + (cluster > 0).long() * (self.shortlist_size + cluster - 1)
        output = head.gather(1, own.unsqueeze(1)).squeeze(1)
        for number, layer in enumerate(self.tail):
            members = (cluster == number + 1).nonzero().squeeze(1)
            if members.numel():
                scores = log_softmax(layer(input.index_select(0, members)), dim=1)
                place = (target.index_select(0, members) - self.cutoffs[number]).unsqueeze(1)
                output = output.index_add(0, members, scores.gather(1, place).squeeze(1))
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if one else output, loss)

    def _all(self, input: Tensor, head: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, from the head's scores."""
        scores = log_softmax(head, dim=1)
        parts = [scores[:, : self.shortlist_size]]
        for number, layer in enumerate(self.tail):
            entered = scores[:, self.shortlist_size + number].unsqueeze(1)
            parts.append(log_softmax(layer(input), dim=1) + entered)
        return cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes.

        Args:
            input: tensor of shape (N, in_features).

        Returns:
            A tensor of shape (N, n_classes).

        >>> import ndgrad
        >>> layer = ndgrad.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2)
        >>> bool((layer.log_prob(ndgrad.ones(3, 8)).exp().sum(1) - 1).abs().max() < 1e-5)
        True
        """
        return self._all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample.

        Args:
            input: tensor of shape (N, in_features).

        Returns:
            An integer tensor of shape (N,).

        >>> import ndgrad
        >>> layer = ndgrad.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2)
        >>> bool((layer.predict(ndgrad.ones(3, 8)) == layer.log_prob(ndgrad.ones(3, 8)).argmax(1)).all())
        True
        """
        return self.log_prob(input).argmax(1)
