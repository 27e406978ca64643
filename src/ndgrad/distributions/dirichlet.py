"""The Dirichlet distribution: random probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.nn import functional as F

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution: vectors of probabilities, of mean proportional to `concentration`.

    The density is proportional to the product of `x_i ** (concentration_i - 1)`.

    Args:
        concentration: positive parameters along the last dimension, one per class. Their sum is large for little
            variation.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Dirichlet(ndgrad.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError(
                "`concentration` parameter must be at least one-dimensional. Categories lie along its last dimension. "
                "[nd-ndim]"
            )
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(Dirichlet, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The mode. If all concentrations are below 1, the density is largest at a corner; if the others are 1,
        nowhere.
        """
        above = (self.concentration - 1).clamp(min=0.0)
        total = above.sum(-1, True)
        mode = above / ndgrad.where(total > 0, total, math.nan)
        corner = F.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1]).to(mode)
        return ndgrad.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return ndgrad._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return ndgrad.xlogy(a - 1.0, value).sum(-1) + ndgrad.lgamma(a.sum(-1)) - ndgrad.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        log_beta = ndgrad.lgamma(a).sum(-1) - ndgrad.lgamma(total)
        spread = (total - a.shape[-1]) * ndgrad.digamma(total)
        return log_beta + spread - ((a - 1.0) * ndgrad.digamma(a)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]  # of as many parameters as there are
        return ndgrad.lgamma(x + 1).sum(-1) - ndgrad.lgamma((x + 1).sum(-1))

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
