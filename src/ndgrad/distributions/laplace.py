"""The Laplace distribution."""

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

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Laplace distribution.

    The density is `exp(-|x - loc| / scale) / (2 * scale)`.

    Args:
        loc: mean.
        scale: mean distance from `loc`, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Laplace(0.0, 1.0).log_prob(ndgrad.tensor(1.0))
    tensor(-1.6931)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(Laplace, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Apply the inverse of the distribution function to a uniform number between -1 and 1.

        Args:
            sample_shape: shape of the batch of samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        u = self.loc.new_empty(self._extended_shape(sample_shape))
        u.uniform_(ndgrad.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ndgrad.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -ndgrad.log(2 * self.scale) - ndgrad.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * ndgrad.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ndgrad.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + ndgrad.log(2 * self.scale)
