"""The geometric distribution: the number of failures before the first success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import require
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.utils import broadcast_all, either
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["Geometric"]


class Geometric(ByProbability):
    """Geometric distribution: the number of failures before the first success.

    Args:
        probs: probability that a trial succeeds, in (0, 1].
        logits: log odds, log(p / (1 - p)). Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Geometric(ndgrad.tensor(0.25)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Parameter | None = None, logits: Parameter | None = None, validate_args: bool | None = None
    ) -> None:
        self._given_name, given = either(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, self._given_name, value)
        super().__init__(value.shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            # The constraint includes 0, with which no trial ever succeeds.
            require(
                value > 0,
                lambda: (
                    f"Expected parameter probs ({type(probs).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to be positive but found invalid values:\n{value[value <= 0]} "
                    "[nd-distribution]"
                ),
            )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expand_parameters(Geometric, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ndgrad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return the integer part of an exponential number of rate -log(1 - p).

        Args:
            sample_shape: shape of the batch of samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        with ndgrad.no_grad():
            probs = self.probs.expand(self._extended_shape(sample_shape))
            tiny = ndgrad.finfo(probs.dtype).tiny
            u = ndgrad.rand_like(probs).clamp(min=tiny)
            return (u.log() / (-probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        never = (probs == 1) & (value == 0)  # 0 log 0
        return value * (-ndgrad.where(never, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
