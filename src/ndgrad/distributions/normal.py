"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.utils import _standard_normal, broadcast_all

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Normal"]


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """Normal distribution.

    The density is `exp(-(x - loc) ** 2 / (2 * scale ** 2)) / (scale * sqrt(2 * pi))`.

    Args:
        loc: mean.
        scale: standard deviation, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.Normal(0.0, 1.0)
    >>> d.log_prob(ndgrad.tensor([0.0, 1.0])), d.cdf(ndgrad.tensor(0.0))
    (tensor([-0.9189, -1.4189]), tensor(0.5000))
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
        return self._expand_parameters(Normal, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - _HALF_LOG_2PI

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ndgrad.special.ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ndgrad.special.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + ndgrad.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # as many as there are
        return -0.25 * x.pow(2) / y + 0.5 * ndgrad.log(-math.pi / y)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
