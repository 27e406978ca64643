"""torch's `distributed.checkpoint.stateful`: the protocol of objects that a checkpoint saves by their own functions."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Object that saves and loads itself by `state_dict` and `load_state_dict`.

    >>> from ndgrad.distributed.checkpoint.stateful import Stateful
    >>> isinstance(ndgrad.nn.Linear(1, 1), Stateful), isinstance(3, Stateful)
    (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the state to be saved."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved state.

        Args:
            state_dict: result of `state_dict`, with the saved values.
        """
        ...


#: Type variable of a stateful object.
StatefulT = TypeVar("StatefulT", bound=Stateful)

_refuse_absent(__name__)
