"""The negative binomial distribution: the number of successes before a number of failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.gamma import Gamma
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.utils import broadcast_all, either, lazy_property
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ByProbability):
    """Negative binomial distribution: the number of successes before a number of failures.

    Args:
        total_count: number of failures to wait for, at least 0, which may be fractional.
        probs: probability that a trial succeeds, in [0, 1).
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.NegativeBinomial(3.0, ndgrad.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self,
        total_count: Parameter,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._given_name, given = either(probs, logits)
        count, value = broadcast_all(total_count, given)
        self.total_count = count.type_as(value)
        setattr(self, self._given_name, value)
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(NegativeBinomial, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.total_count * ndgrad.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ndgrad.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        """The gamma distribution of the Poisson rate of which this is a mixture."""
        return Gamma(self.total_count, ndgrad.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with ndgrad.no_grad():
            return ndgrad.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalised = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        log_ways = ndgrad.lgamma(n + value) - ndgrad.lgamma(1.0 + value) - ndgrad.lgamma(n)
        # Without failures to wait for, there is no trial.
        return unnormalised + ndgrad.where(n + value == 0.0, 0.0, log_ways)
