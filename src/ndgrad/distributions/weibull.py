"""The Weibull distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.exponential import Exponential
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import AffineTransform, PowerTransform, Transform
from ndgrad.distributions.utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Weibull distribution: lifetimes.

    The probability of values up to x is `1 - exp(-(x / scale) ** k)`.

    Args:
        scale: scale, above 0.
        concentration: shape k, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ndgrad.ones_like(self.scale), validate_args=validate_args)
        transforms: list[Transform] = [
            PowerTransform(exponent=self.concentration.reciprocal()),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale = self.scale.expand(tuple(batch_shape))
        new.concentration = self.concentration.expand(tuple(batch_shape))
        return super().expand(batch_shape, new)

    def _moment(self, n: int) -> Tensor:
        """Return E[(x / scale)^n]."""
        return ndgrad.exp(ndgrad.lgamma(1 + n / self.concentration))

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        peaked = self.concentration > 1  # otherwise the density is largest at 0
        k = ndgrad.where(peaked, self.concentration, 2.0)
        return ndgrad.where(peaked, self.scale * ((k - 1) / k) ** k.reciprocal(), 0.0)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        k = self.concentration
        return euler_constant * (1 - k.reciprocal()) + ndgrad.log(self.scale / k) + 1
