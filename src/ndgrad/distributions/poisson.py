"""The Poisson distribution: the number of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Poisson distribution: the number of independent events.

    The probability of k is `rate ** k * exp(-rate) / k!`.

    Args:
        rate: expected number of events, at least 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Poisson(2.0).log_prob(ndgrad.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(Poisson, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with ndgrad.no_grad():
            return ndgrad.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return ndgrad.xlogy(value, rate) - rate - ndgrad.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ndgrad.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of as many parameters as there are
        return ndgrad.exp(x)
