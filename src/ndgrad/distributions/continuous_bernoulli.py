"""The continuous Bernoulli distribution: densities proportional to p^x (1 - p)^(1 - x) on [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import require
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.utils import broadcast_all, clamp_probs, either, lazy_property, logits_to_probs
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ByProbability, ExponentialFamily):
    """Continuous Bernoulli distribution: a density on [0, 1] proportional to p^x (1 - p)^(1 - x).

    All formulas are quotients that become 0 / 0 at p = 1/2; for p between `lims`, Taylor series are used.

    Args:
        probs: parameter p, in (0, 1).
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        lims: bounds around 1/2. Taylor series replace the formulas for p between them.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(
        self,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._given_name, given = either(probs, logits)
        (value,) = broadcast_all(given)
        if probs is not None:
            if validate_args if validate_args is not None else self._validate_args:
                unit = constraints.unit_interval
                require(
                    unit.check(value),
                    lambda: f"The parameter probs has invalid values: {value} is not in [0, 1]. [nd-distribution]",
                )
            value = clamp_probs(value)
        setattr(self, self._given_name, value)
        self._lims = lims
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._expand_parameters(ContinuousBernoulli, batch_shape, _instance)
        new._lims = self._lims
        return new

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter p, clamped away from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """Return p, or another value if the formulas do not hold."""
        return ndgrad.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """Return log(2 artanh(1 - 2p) / (1 - 2p)), the logarithm of the normalisation factor."""
        cut = self._cut_probs()
        formula = ndgrad.log(((ndgrad.log1p(-cut) - ndgrad.log(cut)) / (1 - 2 * cut)).abs())
        x = (self.probs - 0.5).pow(2)
        return ndgrad.where(self._outside_unstable_region(), formula, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        formula = cut / (2 * cut - 1) + 1 / (ndgrad.log1p(-cut) - ndgrad.log(cut))
        x = self.probs - 0.5
        return ndgrad.where(self._outside_unstable_region(), formula, 0.5 + (1 / 3 + 16 / 45 * x.pow(2)) * x)

    @property
    def stddev(self) -> Tensor:
        return ndgrad.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        formula = cut * (cut - 1) / (1 - 2 * cut).pow(2) + 1 / (ndgrad.log1p(-cut) - ndgrad.log(cut)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return ndgrad.where(self._outside_unstable_region(), formula, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ndgrad.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._cont_bern_log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        formula = (ndgrad.pow(cut, value) * ndgrad.pow(1 - cut, 1 - value) + cut - 1) / (2 * cut - 1)
        inside = ndgrad.where(self._outside_unstable_region(), formula, value)
        return ndgrad.where(value <= 0, 0.0, ndgrad.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        formula = (ndgrad.log1p(-cut + value * (2 * cut - 1)) - ndgrad.log1p(-cut)) / (
            ndgrad.log(cut) - ndgrad.log1p(-cut)
        )
        return ndgrad.where(self._outside_unstable_region(), formula, value)

    def entropy(self) -> Tensor:
        """Return -E[log p(x)], where log p is linear in x."""
        log_odds = ndgrad.log(self.probs) - ndgrad.log1p(-self.probs)
        return -self.mean * log_odds - ndgrad.log1p(-self.probs) - self._cont_bern_log_norm()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of as many parameters as there are
        """Return log((e^x - 1) / x), by its series near 0."""
        far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = ndgrad.where(far, x, self._lims[0] - 0.5)
        formula = ndgrad.log(((ndgrad.exp(cut) - 1) / cut).abs())
        return ndgrad.where(far, formula, 0.5 * x + x.pow(2) / 24 - x.pow(4) / 2880)
