"""The inverse gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.gamma import Gamma
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import PowerTransform

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Inverse gamma distribution: reciprocals of gamma numbers.

    Args:
        concentration: shape, above 0.
        rate: rate of the gamma distribution, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        finite = self.concentration > 1
        return ndgrad.where(finite, self.rate / (ndgrad.where(finite, self.concentration, 2.0) - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        finite = self.concentration > 2
        c = ndgrad.where(finite, self.concentration, 3.0)
        return ndgrad.where(finite, self.rate.square() / ((c - 1).square() * (c - 2)), math.inf)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + self.rate.log() + ndgrad.lgamma(c) - (1 + c) * ndgrad.digamma(c)
