"""What a program cannot hold: the reason is told, and the function runs eagerly."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

#: The tracer of this context: it is told of every break, though the function that is traced may catch it.
current_tracer: ContextVar[Any] = ContextVar("ndgrad_tracer", default=None)


class GraphBreak(RuntimeError):
    """Raised while a function is traced, at the place where it needs what a trace does not have."""

    #: whether it might not have come to this with other values
    depends_on_values = False
    #: whether the next call may not come to this, whatever it is given
    is_passing = False
    #: whether what it has found out keeps another trace from it
    is_cured = False

    def __init__(self, reason: str, where: str | None = None) -> None:
        tracer = current_tracer.get()
        if where is None and tracer is not None:
            where = tracer.line()
        super().__init__(
            f"compile: {reason}{f' ({where})' if where else ''}. The function runs eagerly instead; "
            "ndgrad.compile(..., fullgraph=True) makes this an error. [nd-graph-break]"
        )
        self.reason = reason
        #: the line of the user's, where it is known
        self.where = where
        if tracer is not None and tracer.broken is None:
            tracer.broken = self

    def bare(self) -> GraphBreak:
        """This break without its traceback, which would keep alive what the function had in hand."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def again(self) -> GraphBreak:
        """Another one to be raised."""
        return GraphBreak(self.reason, self.where)
