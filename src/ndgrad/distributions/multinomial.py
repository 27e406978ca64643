"""The multinomial distribution: counts of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.foundations.sizes import Size
from ndgrad.distributions import constraints
from ndgrad.distributions.binomial import Binomial
from ndgrad.distributions.categorical import Categorical
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.constraints import Constraint

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """Multinomial distribution: the counts of classes among several draws.

    Args:
        total_count: number of draws.
        probs: weights of the classes along the last dimension, at least 0, which are normalised.
        logits: logarithms of such weights. Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.Multinomial(10, ndgrad.tensor([1.0, 1.0, 2.0]))
    >>> d.mean, d.sample().sum()
    (tensor([2.5000, 2.5000, 5.0000]), tensor(10.))
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int
    _categorical: Categorical

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"inhomogeneous total_count is not supported: it is a {type(total_count).__name__}. Pass an int. "
                "[nd-type]"
            )
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Multinomial, _instance)
        new.total_count, new._categorical = self.total_count, self._categorical.expand(batch_shape)
        return self._finish_expanded(Multinomial, new, batch_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = ndgrad.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return counts.scatter_add(-1, drawn, ndgrad.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        impossible = (value == 0) & (logits == -float("inf"))  # 0 log 0 = 0
        terms = ndgrad.where(impossible, 0.0, logits) * value
        return ndgrad.lgamma(value.sum(-1) + 1) - ndgrad.lgamma(value + 1).sum(-1) + terms.sum(-1)

    def entropy(self) -> Tensor:
        """Return -log n! + n H(class) + the sum over classes of E[log x_i!], where x_i is binomial."""
        n = self.total_count
        counts = Binomial(n, self.probs).enumerate_support(expand=False)[1:]
        weights = ndgrad.exp(Binomial(n, self.probs).log_prob(counts))
        mean_log_factorial = (weights * ndgrad.lgamma(counts + 1)).sum((0, -1))
        factorial = ndgrad.lgamma(ndgrad.tensor(n + 1.0, dtype=self.probs.dtype))
        return n * self._categorical.entropy() + mean_log_factorial - factorial
