"""The generalised Pareto distribution: excesses over a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Generalised Pareto distribution: excesses over a threshold.

    The probability of values above x is `(1 + c * z) ** (-1 / c)` with `z = (x - loc) / scale`.

    Args:
        loc: lower end of the samples.
        scale: scale, above 0.
        concentration: shape c of the tail: bounded if it is negative, exponential at 0, a power law if it is positive.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Parameter, scale: Parameter, concentration: Parameter, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(GeneralizedPareto, batch_shape, _instance)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        bounded = self.concentration < 0
        end = self.loc - self.scale / ndgrad.where(bounded, self.concentration, -1.0)
        return constraints.interval(self.loc, ndgrad.where(bounded, end, math.inf))

    @property
    def mean(self) -> Tensor:
        finite = self.concentration < 1
        c = ndgrad.where(finite, self.concentration, 0.5)
        return ndgrad.where(finite, self.loc + self.scale / (1 - c), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.concentration < 0.5
        c = ndgrad.where(finite, self.concentration, 0.25)
        return ndgrad.where(finite, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.inf)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _is_exponential(self) -> Tensor:
        return ndgrad.isclose(self.concentration, ndgrad.zeros_like(self.concentration))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ndgrad.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of values above `value`: -log(1 + c z) / c, or -z for c = 0.

        Args:
            value: tensor that broadcasts against `batch_shape`.
        """
        if self._validate_args:
            self._validate_sample(value)
        z, exponential = self._z(value), self._is_exponential()
        c = ndgrad.where(exponential, 1.0, self.concentration)
        return ndgrad.where(exponential, -z, -ndgrad.log1p(c * ndgrad.where(exponential, 0.0, z)) / c)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z, exponential = self._z(value), self._is_exponential()
        c = ndgrad.where(exponential, 1.0, self.concentration)
        power = -(1 + 1 / c) * ndgrad.log1p(c * ndgrad.where(exponential, 0.0, z))
        return ndgrad.where(exponential, -z, power) - ndgrad.log(self.scale)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of values up to `value`.

        Args:
            value: tensor that broadcasts against `batch_shape`.
        """
        return ndgrad.log1p(-ndgrad.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return ndgrad.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        exponential = self._is_exponential()
        c = ndgrad.where(exponential, 1.0, self.concentration)
        log_rest = ndgrad.log1p(-value)
        z = ndgrad.where(exponential, -log_rest, ndgrad.expm1(-c * log_rest) / c)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return (ndgrad.log(self.scale) + self.concentration + 1).broadcast_to(self._batch_shape)
