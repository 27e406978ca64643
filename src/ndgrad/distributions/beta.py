"""The beta distribution: a random probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.dirichlet import Dirichlet
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Beta distribution on [0, 1], of mean a / (a + b).

    The density is proportional to `x ** (a - 1) * (1 - x) ** (b - 1)`.

    Args:
        concentration1: parameter a, above 0. Larger values move samples towards 1.
        concentration0: parameter b, above 0. Larger values move samples towards 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _dirichlet: Dirichlet

    def __init__(self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None) -> None:
        pair = ndgrad.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return self._finish_expanded(Beta, new, batch_shape)

    @property
    def concentration1(self) -> Tensor:
        """The shape parameter at 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The shape parameter at 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        log_beta = ndgrad.lgamma(a) + ndgrad.lgamma(b) - ndgrad.lgamma(a + b)
        return ndgrad.xlogy(a - 1.0, value) + ndgrad.special.xlog1py(b - 1.0, -value) - log_beta

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1 - 1, self.concentration0 - 1

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # as many as there are
        return ndgrad.lgamma(x + 1) + ndgrad.lgamma(y + 1) - ndgrad.lgamma(x + y + 2)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
