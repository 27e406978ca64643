"""The F distribution of Fisher and Snedecor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.gamma import _standard_gamma
from ndgrad.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """F distribution: the quotient of two independent mean squares.

    Args:
        df1: degrees of freedom of the numerator, above 0.
        df2: degrees of freedom of the denominator, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.FisherSnedecor(1.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Parameter, df2: Parameter, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(FisherSnedecor, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        df2 = ndgrad.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        df1 = ndgrad.where(self.df1 <= 2, math.nan, self.df1)
        return (df1 - 2) / df1 * self.df2 / (self.df2 + 2)

    @property
    def variance(self) -> Tensor:
        df2 = ndgrad.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above, below = (_standard_gamma((0.5 * df).expand(shape)) / df for df in (self.df1, self.df2))
        tiny = ndgrad.finfo(above.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        log_normalizer = ndgrad.lgamma(half1) + ndgrad.lgamma(half2) - ndgrad.lgamma(half1 + half2)
        return (
            half1 * ratio.log() + (half1 - 1) * value.log() - (half1 + half2) * (ratio * value).log1p() - log_normalizer
        )
