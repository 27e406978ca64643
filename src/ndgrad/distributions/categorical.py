"""The categorical distribution: class numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.probabilities import ByProbability
from ndgrad.distributions.utils import either

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.constraints import Constraint

__all__ = ["Categorical"]


class Categorical(ByProbability):
    """Categorical distribution: class numbers with given probabilities.

    Args:
        probs: weights of the classes along the last dimension, at least 0, which are normalised.
        logits: logarithms of such weights. Exactly one of `probs` and `logits` is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Categorical(ndgrad.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._given_name, given = either(probs, logits)
        if given.ndim < 1:
            raise ValueError(
                f"`{self._given_name}` parameter must be at least one-dimensional. Classes lie along the last of them. "
                "[nd-ndim]"
            )
        normal = given / given.sum(-1, keepdim=True) if logits is None else given - given.logsumexp(-1, keepdim=True)
        setattr(self, self._given_name, normal)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._expand_parameters(Categorical, batch_shape, _instance)
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes are not quantities."""
        return ndgrad.full(self._batch_shape, float("nan"), dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        count = ndgrad.Size(sample_shape).numel()
        with ndgrad.no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            if not count or not rows.shape[0]:
                return rows.new_zeros(self._extended_shape(sample_shape), dtype=ndgrad.int64)
            drawn = ndgrad.multinomial(rows, count, True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, log_probs = ndgrad.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_probs.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=ndgrad.finfo(self.logits.dtype).min)  # 0 log 0 = 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ndgrad.arange(self._num_events, dtype=ndgrad.int64, device=self._param.device)
        values = values.reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
