"""Whether streams of a GPU are in use, for nodes that remember theirs (ndgrad.autograd.streams)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Streams:
    """Those of the process."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        #: gives the stream in use; None till another one than the default stream has been
        self.current: Callable[[], Any] | None = None


streams = Streams()
