"""The binomial distribution: the number of successful trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.utils import broadcast_all, either
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Binomial"]


class Binomial(ByProbability):
    """Binomial distribution: the number of successes among independent trials.

    Args:
        total_count: number of trials.
        probs: probability that a trial succeeds.
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Binomial(2, ndgrad.tensor(0.5)).log_prob(ndgrad.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.2500, 0.5000, 0.2500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | int = 1,
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
        return self._expand_parameters(Binomial, batch_shape, _instance)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ndgrad.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with ndgrad.no_grad():
            return ndgrad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = ndgrad.lgamma(n + 1) - ndgrad.lgamma(value + 1) - ndgrad.lgamma(n - value + 1)
        # This is k log p + (n - k) log(1 - p), by logits.
        return ways + value * self.logits - n * F.softplus(self.logits)

    def _largest_count(self, wanted_by: str) -> int:
        largest = int(self.total_count.max())
        if not bool(self.total_count.min() == largest):
            raise NotImplementedError(
                f"Inhomogeneous total count not supported by `{wanted_by}`. Make a distribution for each count. "
                "[nd-unsupported]"
            )
        return largest

    def entropy(self) -> Tensor:
        self._largest_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(ndgrad.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._largest_count("enumerate_support")
        values = ndgrad.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
