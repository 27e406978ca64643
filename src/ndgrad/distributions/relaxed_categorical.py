"""Classes relaxed to differentiable vectors of probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.categorical import Categorical
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import ExpTransform
from ndgrad.distributions.utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from ndgrad._src.foundations.sizes import Size

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The logarithms of relaxed classes: the log-softmax of logits with Gumbel noise, divided by a temperature.

    Args:
        temperature: temperature, above 0.
        probs: weights of the classes along the last dimension, at least 0, which are normalised.
        logits: logarithms of such weights. Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # A logarithm of probabilities: the sum of exponentials is 1.
    support = constraints.real_vector
    has_rsample = True
    _categorical: Categorical
    temperature: Tensor

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        new.temperature, new._categorical = self.temperature, self._categorical.expand(batch_shape)
        return self._finish_expanded(ExpRelaxedCategorical, new, batch_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities of classes."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities of classes."""
        return self._categorical.probs

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(ndgrad.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-uniform.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log((n-1)!) + (n-1) log t + the sum over i of (s_i - logsumexp(s)), with s = logits - t x.

        Args:
            value: logarithms of probabilities along the last dimension.
        """
        if self._validate_args:
            self._validate_sample(value)
        n = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = ndgrad.as_tensor(self.temperature, dtype=logits.dtype)
        score = logits - value * temperature
        score = (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return score + math.lgamma(n) + (n - 1) * temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Relaxed one-hot categorical distribution: vectors of probabilities, differentiable in the parameters.

    Args:
        temperature: temperature, above 0. Samples approach one-hot vectors as it decreases.
        probs: weights of the classes along the last dimension, at least 0, which are normalised.
        logits: logarithms of such weights. Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.RelaxedOneHotCategorical(ndgrad.tensor(0.5), probs=ndgrad.tensor([0.5, 0.5]))
    >>> d.rsample().shape
    ndgrad.Size([2])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities of classes."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities of classes."""
        return self.base_dist.probs
