"""The von Mises distribution: angles around a direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.ops import random as random_ops
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Von Mises distribution: angles around a mean.

    The density is proportional to `exp(concentration * cos(x - loc))`. Samples lie in [-pi, pi], and are not
    differentiable in the parameters.

    Args:
        loc: mean angle, in radians.
        concentration: concentration around `loc`, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.VonMises(ndgrad.tensor(0.5), ndgrad.tensor(2.0)).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(VonMises, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1(k) / I0(k)."""
        k = self.concentration
        return 1 - ndgrad.special.i1e(k) / ndgrad.special.i0e(k)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with ndgrad.no_grad():
            return random_ops.von_mises(self.loc.expand(shape), self.concentration.expand(shape), generator=None)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        log_i0 = ndgrad.log(ndgrad.special.i0e(k)) + k
        return k * ndgrad.cos(value - self.loc) - math.log(2 * math.pi) - log_i0
