"""Distributions of transformed samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.foundations.sizes import Size
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.independent import Independent
from ndgrad.distributions.transforms import ComposeTransform, Transform
from ndgrad.distributions.utils import _sum_rightmost

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.constraints import Constraint

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of transformed samples of another one.

    With y = T(x), log p(y) = log p(x) - log |det dy/dx|.

    Args:
        base_distribution: distribution of x.
        transforms: transform, or list of transforms of which the first is applied first.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> from ndgrad.distributions import ExpTransform, Normal, TransformedDistribution
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(ndgrad.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    base_dist: Distribution
    transforms: list[Transform]

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError(
                    f"transforms must be a Transform or a list of Transforms, but is {transforms}. [nd-type]"
                )
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms} [nd-type]")
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        needed, own = whole.domain.event_dim, len(base_distribution.event_shape)
        if len(shape) < needed:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {needed}, but got {shape}. The transform "
                f"maps values of {needed} dimensions; expand the distribution. [nd-shape]"
            )
        # Parameters of the transforms may broadcast the batch.
        result_shape = Size(whole.forward_shape(shape))
        base_shape = Size(whole.inverse_shape(result_shape))
        if base_shape != shape:
            base_distribution = base_distribution.expand(base_shape[: len(base_shape) - own])
        if needed > own:
            base_distribution = Independent(base_distribution, needed - own)
        self.base_dist = base_distribution
        cut = len(result_shape) - (whole.codomain.event_dim + max(own - needed, 0))
        super().__init__(result_shape[:cut], result_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return self._finish_expanded(TransformedDistribution, new, batch_shape)

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        support: Constraint = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _apply_transforms(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _invert_transforms(self, y: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            y = transform.inv(y)
        return y

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with ndgrad.no_grad():
            return self._apply_transforms(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._apply_transforms(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, y = len(self._event_shape), value
        result: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            result = result - _sum_rightmost(change, event_dim - transform.domain.event_dim)
            y = x
        return result + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Return the probability on the other side if the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self.base_dist._validate_sample(self._invert_transforms(value))
        return self._monotonize_cdf(self.base_dist.cdf(self._invert_transforms(value)))

    def icdf(self, value: Tensor) -> Tensor:
        return self._apply_transforms(self.base_dist.icdf(self._monotonize_cdf(value)))
