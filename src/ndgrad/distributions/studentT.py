"""Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.chi2 import Chi2
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import _standard_normal, broadcast_all

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution, with heavier tails than the normal distribution.

    The density is proportional to `(1 + z ** 2 / df) ** (-(df + 1) / 2)` with `z = (x - loc) / scale`.

    Args:
        df: degrees of freedom, above 0.
        loc: centre.
        scale: scale, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self, df: Parameter, loc: Parameter = 0.0, scale: Parameter = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(StudentT, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return ndgrad.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        many = ndgrad.where(self.df > 2, self.df, 3.0)
        variance = self.scale.pow(2) * many / (many - 2)
        return ndgrad.where(self.df > 2, variance, ndgrad.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return a normal number divided by the root of an independent mean square with `df` degrees of freedom.

        Args:
            sample_shape: shape of the batch of samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, self.df.dtype, self.df.device)
        z = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * (x * ndgrad.rsqrt(z / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half = 0.5 * self.df
        y = (value - self.loc) / self.scale
        log_normalizer = (
            self.scale.log() + 0.5 * (self.df * math.pi).log() + ndgrad.lgamma(half) - ndgrad.lgamma(half + 0.5)
        )
        return -(half + 0.5) * ndgrad.log1p(y**2.0 / self.df) - log_normalizer

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        log_beta = ndgrad.lgamma(half) + math.lgamma(0.5) - ndgrad.lgamma(half + 0.5)
        rise = ndgrad.digamma(half + 0.5) - ndgrad.digamma(half)
        return self.scale.log() + (half + 0.5) * rise + 0.5 * self.df.log() + log_beta
