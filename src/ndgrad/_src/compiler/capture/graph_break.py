"""Graph breaks: actions that a program cannot contain. The reason is reported, and the function runs eagerly."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ndgrad._src.foundations.public_path import set_module

#: The tracer of this context. It records every break, because the traced function may catch it.
current_tracer: ContextVar[Any] = ContextVar("ndgrad_tracer", default=None)


@set_module("ndgrad.errors")
class GraphBreak(RuntimeError):
    """Raised during a trace by an action that a program cannot contain.

    Args:
        reason: the action, as the beginning of a sentence.
        where: file and line of the user. The default is the line that is being traced.
    """

    #: True if other values might avoid the break.
    depends_on_values = False
    #: True if the next call may avoid the break, whatever its arguments.
    is_passing = False
    #: True if another trace can use the new knowledge to avoid the break.
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
        #: Source line of the user, if known.
        self.where = where
        if tracer is not None and tracer.broken is None:
            tracer.broken = self

    def bare(self) -> GraphBreak:
        """Return this break without its traceback, which would keep local variables of the function alive."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def again(self) -> GraphBreak:
        """Return a new break with the same reason, to be raised under `fullgraph`."""
        broken = GraphBreak(self.reason, self.where)
        where = f" ({self.where})" if self.where else ""
        broken.args = (
            f"compile: {self.reason}{where}. Without fullgraph=True, the function runs eagerly. [nd-graph-break]",
        )
        return broken


class Unreached(GraphBreak):
    """The function uses an object that the environment has not reached. The next environment starts with more roots,
    names of attributes and names of imported modules.
    """

    def __init__(
        self,
        reason: str,
        roots: list[tuple[str, Any]],
        names: frozenset[str] = frozenset(),
        modules: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(reason)
        self.roots = roots
        self.names = names
        self.modules = modules
