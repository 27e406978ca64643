"""What a traced function may do to the world beside computing: print, and draw random numbers. Either ends the trace.

The streams are replaced for as long as some thread traces, by ones that let other threads through.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad._locks import make_lock
from ndgrad.compiler.graph_break import GraphBreak, current_tracer
from ndgrad.generator import default_generator


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


def _leave() -> None:
    global _at_work
    with _lock:
        _at_work -= 1
        if _at_work == 0:
            for name, watched in _streams.items():
                if getattr(sys, name) is watched:
                    setattr(sys, name, watched._stream)
            _streams.clear()


@contextmanager
def unchanged_world() -> Iterator[None]:
    """A block in which nothing may be printed, and no global generator of random numbers may be drawn from."""
    python = random.getstate()
    own = default_generator.get_state()
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
        if default_generator.get_state()._array.tobytes() != own._array.tobytes():
            default_generator.set_state(own)
            _drawn("ndgrad's default generator")


def _drawn(what: str) -> None:
    raise GraphBreak(f"the function draws random numbers from {what}")
