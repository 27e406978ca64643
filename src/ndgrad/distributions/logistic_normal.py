"""The logistic-normal distribution: probabilities made of normal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ndgrad.distributions import constraints
from ndgrad.distributions.independent import Independent
from ndgrad.distributions.normal import Normal
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import StickBreakingTransform

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.utils import Parameter

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Logistic-normal distribution: n probabilities from n - 1 normal numbers, by stick breaking.

    Args:
        loc: means of the n - 1 normal numbers along the last dimension.
        scale: their standard deviations, above 0.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.LogisticNormal(ndgrad.zeros(3), ndgrad.ones(3)).event_shape
    ndgrad.Size([4])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def _normal(self) -> Normal:
        found = self.base_dist.base_dist
        assert isinstance(found, Normal)
        return found

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self._normal.loc

    @property
    def scale(self) -> Tensor:
        """Their standard deviations."""
        return self._normal.scale
