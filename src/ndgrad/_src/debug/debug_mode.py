"""Debug mode: ops store the user's line that called them, and values store their origin."""

from __future__ import annotations

from ndgrad._src.core.grad_mode import Mode, Switch
from ndgrad._src.core.modes import thread
from ndgrad._src.debug import provenance  # noqa: F401  # registers what the core calls while the mode is on
from ndgrad._src.debug.source_lines import switch
from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad.autograd")
class debug(Mode):
    """A context, or decorator, in which ops and writes store the user's line that called them.

    Errors of backward then name the line that saved a value, and the line that overwrote it. `explain` knows the point
    at which a value without a graph was cut off.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with ndgrad.autograd.debug():
    ...     y = (x * 2).exp()
    ...     z = y.sum()
    ...     y.add_(1)
    tensor([8.3891, 8.3891], grad_fn=<AddBackward0>)
    >>> z.backward()
    Traceback (most recent call last):
        ...
    RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: ...
    """

    _name = "debug"

    def __enter__(self) -> None:
        self._stack.append(switch(self._name, True))

    def __exit__(self, *exc: object) -> None:
        switch(self._name, self._stack.pop())


@set_module("ndgrad.autograd")
class set_debug(Switch):
    """Switch debug mode on or off, at once; as a context, until the block ends.

    Args:
        mode: whether debug mode is on.
    """

    _name = "debug"

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))

    def set_mode(self, value: bool) -> bool:
        """Set the mode, and return the one before.

        Args:
            value: whether debug mode is on.
        """
        return switch(self._name, value)


@set_module("ndgrad.autograd")
def is_debug_enabled() -> bool:
    """True if ops store the user's lines."""
    return thread.debug
