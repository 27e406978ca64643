"""Reinterpretation of batch dimensions as event dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import _sum_rightmost

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.constraints import Constraint

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose last batch dimensions become part of a sample. `log_prob` sums over them.

    Args:
        base_distribution: distribution with batch dimensions.
        reinterpreted_batch_ndims: number of its last batch dimensions that become dimensions of a sample.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.Independent(ndgrad.distributions.Normal(ndgrad.zeros(3), 1.0), 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(ndgrad.zeros(3))
    (ndgrad.Size([]), ndgrad.Size([3]), tensor(-2.7568))
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    base_dist: Distribution

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}: the batch has the shape {tuple(batch)}. [nd-range]"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        shape, cut = batch + base_distribution.event_shape, len(batch) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Independent, _instance)
        moved = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *moved))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._finish_expanded(Independent, new, batch_shape)

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        inner: Constraint = self.base_dist.support
        return (
            constraints.independent(inner, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else inner
        )

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "Enumeration over cartesian product is not implemented: the values of an independent batch are all "
                "combinations of theirs. Enumerate the support of base_dist. [nd-unsupported]"
            )
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
