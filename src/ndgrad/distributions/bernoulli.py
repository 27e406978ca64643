"""The Bernoulli distribution: 1 with a probability, else 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.utils import broadcast_all, either
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["Bernoulli"]


class Bernoulli(ByProbability, ExponentialFamily):
    """Bernoulli distribution: 1 with a probability, and 0 otherwise.

    Args:
        probs: probability of 1, in [0, 1].
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Bernoulli(ndgrad.tensor([0.25])).log_prob(ndgrad.tensor([1.0]))
    tensor([-1.3863])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Parameter | None = None, logits: Parameter | None = None, validate_args: bool | None = None
    ) -> None:
        self._given_name, given = either(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, self._given_name, value)
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(Bernoulli, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs)
        return ndgrad.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with ndgrad.no_grad():
            return ndgrad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ndgrad.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ndgrad.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of as many parameters as there are
        return F.softplus(x)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
