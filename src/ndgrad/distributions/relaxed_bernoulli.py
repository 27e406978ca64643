"""Bernoulli samples relaxed to differentiable numbers between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import SigmoidTransform
from ndgrad.distributions.utils import broadcast_all, clamp_probs, either
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ByProbability):
    """The log odds of a relaxed Bernoulli sample: logistic numbers around `logits`, over a temperature.

    Args:
        temperature: temperature, above 0.
        probs: probability of 1, in [0, 1].
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._given_name, given = either(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, self._given_name, value)
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._expand_parameters(LogitRelaxedBernoulli, batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = clamp_probs(self.probs.expand(self._extended_shape(sample_shape)))
        uniform = clamp_probs(ndgrad.rand(probs.shape, dtype=probs.dtype, device=probs.device))
        noise = uniform.log() - (-uniform).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return ndgrad.as_tensor(self.temperature).log() + difference - 2 * F.softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """Relaxed Bernoulli distribution on (0, 1), whose samples are differentiable in the parameters.

    Args:
        temperature: temperature, above 0. Samples approach 0 and 1 as it decreases.
        probs: probability of 1, in [0, 1].
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.RelaxedBernoulli(ndgrad.tensor(2.0), probs=ndgrad.tensor(0.5))
    >>> d.log_prob(ndgrad.tensor(0.5))
    tensor(0.6931)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Tensor,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
