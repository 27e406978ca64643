"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.categorical import Categorical
from ndgrad.distributions.distribution import Distribution

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Mixture of distributions of one family.

    Args:
        mixture_distribution: `Categorical` with the probabilities of the components.
        component_distribution: distribution whose last batch dimension counts the components.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> from ndgrad.distributions import Categorical, MixtureSameFamily, Normal
    >>> d = MixtureSameFamily(Categorical(ndgrad.ones(2)), Normal(ndgrad.tensor([-1.0, 1.0]), 1.0))
    >>> d.mean, d.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical, but is a "
                f"{type(mixture_distribution).__name__}. [nd-type]"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution, but is a "
                f"{type(component_distribution).__name__}. [nd-type]"
            )
        batch, component_batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(batch), reversed(component_batch), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({batch}) is not compatible with "
                    f"`component_distribution.batch_shape`({component_batch}). Sizes must agree or be 1. [nd-shape]"
                )
        count = mixture_distribution.logits.shape[-1]
        if not component_distribution.batch_shape:
            raise IndexError(
                "the component distribution has no batch, along whose last dimension components would lie: give it "
                f"{count} of them. [nd-ndim]"
            )
        if component_distribution.batch_shape[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]}) [nd-shape]"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component = count
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(component_batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._finish_expanded(MixtureSameFamily, new, batch_shape)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the component's number."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last dimension of its batch."""
        return self._component_distribution

    def _pad(self, x: Tensor) -> Tensor:
        """Return x with a dimension for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """Return x with the dimensions of an event after that of the components."""
        missing = len(self._batch_shape) - len(self._mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape((*shape[:-1], *[1] * missing, *shape[-1:], *[1] * self._event_ndims))

    @property
    def mean(self) -> Tensor:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (probs * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances, plus the variance of the means."""
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        apart = (self.component_distribution.mean - self._pad(self.mean)).pow(2.0)
        return (probs * (self.component_distribution.variance + apart)).sum(-1 - self._event_ndims)

    def cdf(self, x: Tensor) -> Tensor:
        """Return the probability of values up to `x`.

        Args:
            x: tensor that broadcasts against `batch_shape`.
        """
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, at a value.

        Args:
            x: tensor that broadcasts against `batch_shape + event_shape`.
        """
        if self._validate_args:
            self._validate_sample(x)
        parts = self.component_distribution.log_prob(self._pad(x))
        return ndgrad.logsumexp(parts + ndgrad.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with ndgrad.no_grad():
            dim = len(sample_shape) + len(self._batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            missing = len(self._batch_shape) - len(self._mixture_distribution.batch_shape)
            shape = chosen.shape
            chosen = chosen.reshape(
                (
                    *shape[: len(sample_shape)],
                    *[1] * missing,
                    *shape[len(sample_shape) :],
                    *[1] * (1 + self._event_ndims),
                )
            )
            chosen = chosen.expand((*samples.shape[:dim], 1, *self._event_shape))
            return samples.gather(dim, chosen).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  {self.component_distribution!r})"
