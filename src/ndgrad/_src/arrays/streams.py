"""Whether streams of a GPU are in use, for nodes that remember theirs (ndgrad._src.engine.streams)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class SideStream:
    """A stream other than the default one, as nodes remember it: it lives as long as one of them does."""

    __slots__ = ("__weakref__", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream = stream


class Streams:
    """Those of the process."""

    __slots__ = ("_default", "_sides", "current")

    def __init__(self) -> None:
        #: gives the stream in use; None till another one than the default stream has been
        self.current: Callable[[], Any] | None = None
        self._default = 0
        self._sides: weakref.WeakValueDictionary[int, SideStream] = weakref.WeakValueDictionary()

    def begin(self, current: Callable[[], Any], default: int) -> None:
        """From now on, streams are in use. `default` is the address of the default stream."""
        self.current, self._default = current, default

    def side(self) -> SideStream | None:
        """The stream in use, None for the default one."""
        assert self.current is not None
        stream = self.current()
        if stream.ptr == self._default:
            return None
        found = self._sides.get(stream.ptr)
        if found is None:
            found = self._sides[stream.ptr] = SideStream(stream)
        return found

    def may_cross(self) -> bool:
        """Whether a backward pass may have to do with several streams: one is in use other than the default stream, or
        nodes are alive that were made on one."""
        return self.current is not None and (bool(self._sides) or self.current().ptr != self._default)


streams = Streams()
