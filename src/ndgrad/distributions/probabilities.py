"""Distributions given by probabilities or by logits; each follows from the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import lazy_property, logits_to_probs, probs_to_logits

if TYPE_CHECKING:
    from ndgrad._src.foundations.sizes import Size
    from ndgrad._typing import Tensor

__all__: list[str] = []


class ByProbability(Distribution):
    """A distribution with the parameters `probs` and `logits`."""

    #: "probs" or "logits"
    _given_name: str
    #: Logits are log odds if True; else logarithms of probabilities, which add up to 1 along the last dimension.
    _is_binary: ClassVar[bool] = True

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds, or the logarithms of probabilities."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        kept: dict[str, Any] = vars(self)
        found: Tensor = kept["probs"] if self._given_name == "probs" else kept["logits"]
        return found

    def _expand_parameters(self, cls: type, batch_shape: Sequence[int], _instance: Any) -> Self:
        new = super()._expand_parameters(cls, batch_shape, _instance)
        new._given_name = self._given_name
        return new

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)
