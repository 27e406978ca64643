"""Calls without a used result, made after the program of each call: `logger.info("loss %.4f", loss.item())` and
`print`.

A traced function that logs or prints numbers and texts does not depend on the result. The call is recorded and repeated
after each program, in the order of the function, with the numbers of that call. A log record has the source line of the
user. Guards compare the levels and handlers of loggers before each call. A call of a disabled logger does nothing.

Only the standard loggers and handlers are trusted not to read objects that the function has changed so far. Other
classes end the trace, and so do mutable objects as arguments.
"""

from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ndgrad._src.compiler.capture.captured_state import NUMBERS
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder
from ndgrad._src.compiler.capture.side_effects import is_guarded, register_replacement
from ndgrad._src.compiler.capture.slot_effects import Effect
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.pytree import TreeSpec, tree_unflatten

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.environment import Environment

_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR,
    "critical": logging.CRITICAL,
}  # fmt: skip
#: Methods that read the state of loggers, and methods that change it.
_ASKING = ("isEnabledFor", "getEffectiveLevel", "hasHandlers")
_CHANGING = (
    "setLevel", "addHandler", "removeHandler", "addFilter", "removeFilter", "exception", "handle", "_log", "callHandlers",
)  # fmt: skip
_ORIGINAL: dict[str, Callable[..., Any]] = {
    name: getattr(logging.Logger, name) for name in ("log", *_LEVELS, *_ASKING, *_CHANGING)
}
_print = builtins.print


class DeferredCall(Effect):
    """A call that is made after the program."""

    def __init__(self, function: Callable[..., None], spec: TreeSpec, leaves: int) -> None:
        super().__init__(None, -1, spec, leaves)
        self.function = function

    def apply(self, inputs: Sequence[Any], leaves: Sequence[Any], environment: Environment) -> None:
        self.function(*tree_unflatten(leaves, self.spec))


def _check(arguments: Sequence[Any], what: str) -> None:
    """Raise if an argument is an object that may change before the call is made."""
    for a in arguments:
        if type(a) is not NumberPlaceholder and type(a) not in NUMBERS:
            raise GraphBreak(f"the function {what} an object of class {type(a).__name__}")


def _tracer_of(logger: Any) -> Any:
    """Return the tracer of the function that uses a logger; None without a trace, and for ndgrad's own loggers, which
    report on tracing.
    """
    if logger.name.partition(".")[0] == "ndgrad":
        return None
    tracer = current_tracer.get()
    return None if tracer is not None and tracer.calls is not None and tracer.calls.is_importing else tracer


# ----- logging --------------------------------------------------------------------------------------------------------


def _is_pythons(logger: Any) -> bool:
    """True if a logger and the handlers of its records are of standard classes and without filters."""
    if type(logger) not in (logging.Logger, logging.RootLogger):
        return False
    while logger is not None:
        for handler in logger.handlers:
            formatter = handler.formatter
            if (
                type(handler).__module__ not in ("logging", "logging.handlers")
                or handler.filters
                or (formatter is not None and type(formatter) is not logging.Formatter)
            ):
                return False
        if logger.filters:
            return False
        logger = logger.parent if logger.propagate else None
    return logging.getLogRecordFactory() is logging.LogRecord


def _defer_record(logger: Any, level: int, message: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tracer = current_tracer.get()
    is_enabled = _ORIGINAL["isEnabledFor"]
    tracer.watch(
        f"the level of logger {logger.name}", lambda: (is_enabled(logger, level) and (True, _is_pythons(logger))) or None
    )
    if not is_enabled(logger, level):
        return
    if kwargs.keys() - {"stacklevel"} or type(level) is not int or type(message) is not str or not _is_pythons(logger):
        raise GraphBreak("the function writes a log")
    _check(args, "writes into a log")
    file, line, function, _ = logger.findCaller(False, kwargs.get("stacklevel", 1) + 2)

    def repeat(*numbers: Any) -> None:
        logger.handle(logger.makeRecord(logger.name, level, file, line, message, numbers, None, function, None, None))

    tracer.deferred.append((repeat, args))


def _at_level(name: str, level: int) -> Callable[..., None]:
    def method(self: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
        if _tracer_of(self) is None:
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # skips this frame
            _ORIGINAL[name](self, msg, *args, **kwargs)
        else:
            _defer_record(self, level, msg, args, kwargs)

    return method


def _log(self: Any, level: Any, msg: Any, *args: Any, **kwargs: Any) -> None:
    if _tracer_of(self) is None:
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        _ORIGINAL["log"](self, level, msg, *args, **kwargs)
    else:
        _defer_record(self, level, msg, args, kwargs)


def _asking(name: str) -> Callable[..., Any]:
    original = _ORIGINAL[name]

    def method(self: Any, *args: Any) -> Any:
        found = original(self, *args)
        tracer = _tracer_of(self)
        if tracer is not None:
            tracer.watch(f"the level of logger {self.name}", lambda: original(self, *args))
        return found

    return method


def _changing(name: str) -> Callable[..., Any]:
    original = _ORIGINAL[name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _tracer_of(self) is not None:
            raise GraphBreak(f"the function calls {name} of a logger")
        return original(self, *args, **kwargs)

    return method


_METHODS: dict[str, Callable[..., Any]] = {
    **{name: _at_level(name, level) for name, level in _LEVELS.items()},
    "log": _log,
    **{name: _asking(name) for name in _ASKING},
    **{name: _changing(name) for name in _CHANGING},
}


# ----- printing -------------------------------------------------------------------------------------------------------


def _deferred_print(*args: Any, **kwargs: Any) -> None:
    tracer = current_tracer.get()
    if tracer is None or kwargs.get("file") is not None or not is_guarded(sys.stdout):
        _print(*args, **kwargs)  # a stream may refuse
        return
    _check([*args, *kwargs.values()], "prints")
    if any(type(a) is NumberPlaceholder for a in kwargs.values()):
        raise GraphBreak("the function prints")
    tracer.deferred.append((lambda *numbers: _print(*numbers, **kwargs), args))


register_replacement(_deferred_print, _print)
_lock = make_lock()
_at_work = 0


@contextmanager
def deferring() -> Iterator[None]:
    """Context in which traced functions log and print later."""
    global _at_work
    with _lock:
        _at_work += 1
        if _at_work == 1:
            for name, method in _METHODS.items():
                setattr(logging.Logger, name, method)
            builtins.print = _deferred_print
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if _at_work == 0:
                for name, method in _ORIGINAL.items():
                    setattr(logging.Logger, name, method)
                if builtins.print is _deferred_print:
                    builtins.print = _print
