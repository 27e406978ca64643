"""What a traced function may do to the world beside computing: print, seed generators, draw from those of Python and
NumPy. Each ends the trace.

The streams are replaced for as long as some thread traces, by ones that let other threads through, and so are the
functions that read and set the states of ndgrad's generators: states that a function has read may be set again (see
ndgrad.compiler.draws), others may not.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import randbits
from typing import Any

from numpy.random import bit_generator

from ndgrad._locks import make_lock
from ndgrad.compiler.graph_break import GraphBreak, current_tracer
from ndgrad.generator import Generator, default_generator


class _Watched:
    """A stream that lets nobody write who is traced."""

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


def is_watched(stream: Any) -> bool:
    """True for a stream that traced functions cannot write to."""
    return isinstance(stream, _Watched)


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
    """Where NumPy's generators without a seed get theirs from."""
    if current_tracer.get() is not None:
        raise GraphBreak("the function makes a generator of random numbers without a seed")
    return randbits(count)


_lock = make_lock()
_at_work = 0
_streams: dict[str, _Watched] = {}


def _enter() -> None:
    global _at_work
    with _lock:
        _at_work += 1
        if _at_work == 1:
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream is not None:
                    _streams[name] = watched = _Watched(stream)
                    setattr(sys, name, watched)
            for name, function in _WATCHED.items():
                setattr(Generator, name, function)
            bit_generator.randbits = _randbits  # type: ignore[attr-defined]  # a global of it


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


@contextmanager
def unchanged_world() -> Iterator[None]:
    """A block in which nothing may be printed, and no global generator of random numbers may be drawn from."""
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
            _drawn("Python's random")
        if numpy is not None and legacy is not None:
            now = legacy._rand.get_state(legacy=False)
            if (
                now["gauss"] != numpy["gauss"]
                or now["state"]["pos"] != numpy["state"]["pos"]
                or (now["state"]["key"] != numpy["state"]["key"]).any()
            ):
                legacy._rand.set_state(numpy)
                _drawn("numpy.random")
        if default_generator._packed_state() != own:
            default_generator._go_on_from(own)
            _drawn("ndgrad's default generator")


def _drawn(what: str) -> None:
    raise GraphBreak(f"the function draws random numbers from {what}")
