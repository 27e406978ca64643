"""The state of GPU streams, for nodes that record theirs (ndgrad._src.engine.streams)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class SideStream:
    """A stream other than the default one, as nodes record it. It lives as long as one of them does."""

    __slots__ = ("__weakref__", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream = stream


class Streams:
    """The streams of the process."""

    __slots__ = ("_default", "_sides", "current")

    def __init__(self) -> None:
        #: Returns the current stream; None until a stream other than the default one has been used.
        self.current: Callable[[], Any] | None = None
        self._default = 0
        self._sides: weakref.WeakValueDictionary[int, SideStream] = weakref.WeakValueDictionary()

    def begin(self, current: Callable[[], Any], default: int) -> None:
        """Start tracking streams. `default` is the address of the default stream."""
        self.current, self._default = current, default

    def side(self) -> SideStream | None:
        """Return the current stream, or None for the default one."""
        assert self.current is not None
        stream = self.current()
        if stream.ptr == self._default:
            return None
        found = self._sides.get(stream.ptr)
        if found is None:
            found = self._sides[stream.ptr] = SideStream(stream)
        return found

    def may_cross(self) -> bool:
        """True if a backward pass may involve several streams.

        This holds if the current stream is not the default one, or if nodes are alive that were made on another stream.
        """
        return self.current is not None and (bool(self._sides) or self.current().ptr != self._default)


streams = Streams()
