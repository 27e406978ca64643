"""Exponential families: densities h(x) exp(sum of natural parameters times statistics - log normalizer).

The gradient of the log normalizer is the mean of the statistics, so entropies and divergences follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ndgrad
from ndgrad.distributions.distribution import Distribution

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution that is given by natural parameters and the logarithm of its normalizer."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise self._missing("_natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise self._missing("_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Tensor | float:
        """The mean of log h(x)."""
        raise self._missing("_mean_carrier_measure")

    def _mean_statistics(self, params: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the means of the statistics: the gradient of the log normalizer, which is differentiable itself."""

        def total(params: Any) -> Tensor:
            return self._log_normalizer(*params).sum()

        return ndgrad.func.grad(total)(params)

    def entropy(self) -> Tensor:
        """Return minus the mean of log p = log h + <params, statistics> - A."""
        params = self._natural_params
        result = self._log_normalizer(*params) - self._mean_carrier_measure
        for param, mean in zip(params, self._mean_statistics(params), strict=True):
            # A parameter of a multivariate distribution has more dimensions than the batch.
            result = result - (param * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result
