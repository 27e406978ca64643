"""The Gumbel distribution: the maximum of many samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import AffineTransform, ExpTransform, Transform
from ndgrad.distributions.uniform import Uniform
from ndgrad.distributions.utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """Gumbel distribution: the limit of the maximum of many samples.

    The probability of values up to x is `exp(-exp(-(x - loc) / scale))`.

    Args:
        loc: mode.
        scale: scale, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = ndgrad.finfo(self.loc.dtype)
        # The formula is y = loc - scale log(-log u), with u away from 0 and 1.
        base = Uniform(
            ndgrad.full_like(self.loc, info.tiny), ndgrad.full_like(self.loc, 1 - info.eps), validate_args=validate_args
        )
        transforms: list[Transform] = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-ndgrad.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(tuple(batch_shape)), self.scale.expand(tuple(batch_shape))
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
