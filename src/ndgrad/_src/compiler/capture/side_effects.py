"""Side effects that end a trace, and lookups by computed names, which a trace must record.

While any thread traces, a few functions are replaced. The replacements check whether the caller is traced, and pass
other calls through. They are: the streams (a traced function must not print), the methods that read and set the states
of ndgrad's generators (a state that a function has read may be set again, see
ndgrad._src.compiler.capture.random_draws), NumPy's source of seeds, and the builtins that look up names (getattr and
others, import), because the environment captures only known names.
"""

from __future__ import annotations

import builtins
import random
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import randbits
from typing import Any

import numpy as np
from numpy.random import bit_generator

from ndgrad._src.arrays.generator import Generator, default_generator
from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.foundations.locks import make_lock


class _GuardedStream:
    """A stream that refuses writes of traced functions."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> Any:
        if current_tracer.get() is not None:
            raise GraphBreak("the function prints")
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def is_guarded(stream: Any) -> bool:
    """True for a stream that traced functions cannot write to."""
    return isinstance(stream, _GuardedStream)


def _get_state(self: Generator) -> Any:
    tracer = current_tracer.get()
    return _GENERATOR["get_state"](self) if tracer is None else tracer.draws.state(tracer, self)


def _set_state(self: Generator, new_state: Any) -> Generator:
    tracer = current_tracer.get()
    if tracer is None:
        return _GENERATOR["set_state"](self, new_state)
    tracer.draws.go_on_from(self, new_state)
    return self


def _manual_seed(self: Generator, seed: int) -> Generator:
    if current_tracer.get() is not None:
        raise GraphBreak("the function seeds a generator of random numbers")
    return _GENERATOR["manual_seed"](self, seed)


_WATCHED = {"get_state": _get_state, "set_state": _set_state, "manual_seed": _manual_seed}
_GENERATOR: dict[str, Any] = {name: Generator.__dict__[name] for name in _WATCHED}

def _randbits(count: int) -> int:
    """Return random bits. NumPy's generators without a seed call this."""
    if current_tracer.get() is not None:
        raise GraphBreak("the function makes a generator of random numbers without a seed")
    return randbits(count)



def _find_watch() -> Any:
    """Return the watch of the trace that the calling code belongs to; None if it is ndgrad's or not traced."""
    tracer = current_tracer.get()
    if tracer is None or tracer.calls is None:
        return None
    module = sys._getframe(2).f_globals.get("__name__")
    is_own = isinstance(module, str) and module.partition(".")[0] == "ndgrad"
    return None if is_own or is_foreign(module) else tracer.calls


def _getattr(*args: Any) -> Any:
    watch = _find_watch()
    if watch is not None and len(args) > 1:
        watch.note_name(*args[:2])
    return _BUILTINS["getattr"](*args)


def _hasattr(*args: Any) -> Any:
    watch = _find_watch()
    if watch is not None and len(args) > 1:
        watch.note_name(*args[:2])
    return _BUILTINS["hasattr"](*args)


def _setattr(*args: Any) -> Any:
    watch = _find_watch()
    if watch is not None and len(args) > 1:
        watch.note_write(*args[:2])
    return _BUILTINS["setattr"](*args)


def _delattr(*args: Any) -> Any:
    watch = _find_watch()
    if watch is not None and len(args) > 1:
        watch.note_write(*args[:2])
    return _BUILTINS["delattr"](*args)


def _vars(*args: Any) -> Any:
    if not args:
        return sys._getframe(1).f_locals
    watch = _find_watch()
    if watch is not None and isinstance(args[0], (type, types.ModuleType)):
        raise GraphBreak("the function looks at all attributes of a class or module")
    return _BUILTINS["vars"](*args)


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    watch = _find_watch()
    if watch is None or watch.is_importing:
        return _BUILTINS["__import__"](name, globals, locals, fromlist, level)
    return watch.note_import(name, globals, locals, fromlist, level, _BUILTINS["__import__"])


_LOOKUPS = {
    "getattr": _getattr, "hasattr": _hasattr, "setattr": _setattr, "delattr": _delattr, "vars": _vars, "__import__": _import,
}  # fmt: skip
_BUILTINS: dict[str, Any] = {name: vars(builtins)[name] for name in _LOOKUPS}


#: Originals of the replaced functions, by the identity of the replacement, which stays alive.
_originals: dict[int, Any] = {id(made): _BUILTINS[name] for name, made in _LOOKUPS.items()}


def register_replacement(function: Any, original: Any) -> None:
    """Register a function as the replacement of another one during traces."""
    _originals[id(function)] = original


def original_function(value: Any) -> Any:
    """Return the function that a value replaces during traces; the value itself if it replaces none."""
    return _originals.get(id(value), value)


_lock = make_lock()
_at_work = 0
_streams: dict[str, _GuardedStream] = {}


def _enter() -> None:
    global _at_work
    with _lock:
        _at_work += 1
        if _at_work == 1:
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is not None:
                    _streams[name] = watched = _GuardedStream(stream)
                    setattr(sys, name, watched)
            for name, function in _WATCHED.items():
                setattr(Generator, name, function)
            bit_generator.randbits = _randbits  # type: ignore[attr-defined]  # a global of the module
            vars(builtins).update(_LOOKUPS)


def _leave() -> None:
    global _at_work
    with _lock:
        _at_work -= 1
        if _at_work == 0:
            for name, watched in _streams.items():
                if getattr(sys, name) is watched:
                    setattr(sys, name, watched._stream)
            _streams.clear()
            for name, function in _GENERATOR.items():
                setattr(Generator, name, function)
            bit_generator.randbits = randbits  # type: ignore[attr-defined]
            for name, function in _BUILTINS.items():
                if vars(builtins)[name] is _LOOKUPS[name]:
                    setattr(builtins, name, function)


def _refuse_float_error(kind: str, flag: int) -> None:
    raise GraphBreak(f"NumPy reports an error while the function computes with numbers or arrays: {kind}")


def refuse_float_errors() -> Any:
    """Return a context in which floating-point errors of NumPy's own computations end the trace. Their results are
    constants of a trace, but each eager call reports the error, as `np.errstate` and the warning filters of the call
    say. The function's own `np.errstate` blocks stay in force, so an error that they ignore is no error.
    """
    return np.errstate(divide="call", over="call", invalid="call", call=_refuse_float_error)


@contextmanager
def forbid_side_effects() -> Iterator[None]:
    """Context in which nothing may be printed, and no global generator of random numbers may be drawn from."""
    python = random.getstate()
    own = default_generator._packed_state()
    legacy = getattr(sys.modules.get("numpy.random"), "mtrand", None)
    numpy = None if legacy is None else legacy._rand.get_state(legacy=False)
    _enter()
    try:
        yield
    finally:
        _leave()
        if random.getstate() != python:
            random.setstate(python)
            _refuse_draw("Python's random")
        if numpy is not None and legacy is not None:
            now = legacy._rand.get_state(legacy=False)
            if (
                now["gauss"] != numpy["gauss"]
                or now["state"]["pos"] != numpy["state"]["pos"]
                or (now["state"]["key"] != numpy["state"]["key"]).any()
            ):
                legacy._rand.set_state(numpy)
                _refuse_draw("numpy.random")
        if default_generator._packed_state() != own:
            default_generator._resume_from(own)
            _refuse_draw("ndgrad's default generator")


def _refuse_draw(what: str) -> None:
    raise GraphBreak(f"the function draws random numbers from {what}")
