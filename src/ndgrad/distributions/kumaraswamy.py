"""Kumaraswamy's distribution, which resembles the beta distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import AffineTransform, PowerTransform, Transform
from ndgrad.distributions.uniform import Uniform
from ndgrad.distributions.utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy's distribution on [0, 1], which resembles the beta distribution.

    The probability of values up to x is `1 - (1 - x ** a) ** b`.

    Args:
        concentration1: parameter a, above 0.
        concentration0: parameter b, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            ndgrad.full_like(self.concentration0, 0), ndgrad.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )  # fmt: skip
        transforms: list[Transform] = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(tuple(batch_shape))
        new.concentration0 = self.concentration0.expand(tuple(batch_shape))
        return super().expand(batch_shape, new)

    def _moment(self, n: int) -> Tensor:
        """Return E[x^n] = b B(1 + n/a, b)."""
        a, b = self.concentration1, self.concentration0
        power = 1 + n / a
        return ndgrad.exp(b.log() + ndgrad.lgamma(power) + ndgrad.lgamma(b) - ndgrad.lgamma(power + b))

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """((a - 1) / (a b - 1))^(1/a), if neither shape is below 1 and one is above."""
        a, b = self.concentration1, self.concentration0
        peaked = (a >= 1) & (b >= 1) & (a * b > 1)
        a, b = ndgrad.where(peaked, a, math.nan), ndgrad.where(peaked, b, math.nan)
        return ((a - 1) / (a * b - 1)) ** (1 / a)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log(a b x^(a-1) (1 - x^a)^(b-1)), for which the transforms would give NaN at the ends.

        Args:
            value: tensor that broadcasts against `batch_shape`.
        """
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        rest = ndgrad.special.xlog1py(b - 1, -(value**a))
        return a.log() + b.log() + ndgrad.xlogy(a - 1, value) + rest

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ndgrad.digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()
