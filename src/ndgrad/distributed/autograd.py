"""torch's `distributed.autograd`: backward through graphs that span ranks, made by calls of `distributed.rpc`."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.groups import is_available
from ndgrad.distributed.remote import contexts as _contexts
from ndgrad.distributed.remote.agent import current_agent as _current_agent
from ndgrad.distributed.remote.backward import backward, get_gradients

__all__ = ["backward", "context", "get_gradients", "is_available"]


class context:
    """A block in which calls to other ranks are recorded. Its id is the argument of `backward` and `get_gradients`, and
    can be sent to other ranks. At the end of the block all ranks forget the context.

    >>> import ndgrad
    >>> from ndgrad.distributed import autograd, rpc
    >>> rpc.init_rpc("worker")
    >>> with autograd.context() as context_id:
    ...     autograd.get_gradients(context_id)
    {}
    >>> rpc.shutdown()
    """

    def __init__(self) -> None:
        self._token: Any = None
        self._number = 0

    def __enter__(self) -> int:
        if _contexts.current.get():
            raise RuntimeError(
                f"Already have an autograd context id for this thread: {_contexts.current.get()}. Contexts are not "
                "nested: leave that one first, or open the other in a thread of its own. [nd-call-order]"
            )
        self._number = _contexts.open_context(_current_agent().rank).number
        self._token = _contexts.current.set(self._number)
        return self._number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _contexts.current.reset(self._token)
        agent = _current_agent()
        agent.end_context(agent.rank, self._number)


_refuse_absent(__name__)
