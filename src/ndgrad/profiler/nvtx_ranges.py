"""Calls as ranges for NVIDIA's profilers: `emit_nvtx`, under torch's name."""

from __future__ import annotations

from typing import Any, Self

from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.core.call_watchers import add_watcher, remove_watcher
from ndgrad.profiler.timing import event_name

__all__ = ["emit_nvtx"]


class _Ranges:
    """A watcher that opens a range for each call and closes it."""

    def __init__(self, library: Any, shapes: bool) -> None:
        self._library, self._shapes = library, shapes

    def begin(self, kind: str, name: str, subject: Any, args: tuple[Any, ...]) -> Any:
        told = event_name(kind, name)
        if self._shapes:
            told += f", sizes = {[list(a.shape) for a in args if hasattr(a, 'shape')]}"
        self._library.RangePush(told)
        return told

    def end(self, span: Any, results: Any) -> None:
        self._library.RangePop()


class emit_nvtx:
    """A block in which every call, forward and backward, is a range in the timelines of NVIDIA's profilers; no effect
    without a GPU.

    Args:
        enabled: whether ranges are marked.
        record_shapes: whether names of ranges contain the shapes of the inputs.

    >>> import ndgrad
    >>> with ndgrad.autograd.profiler.emit_nvtx():
    ...     y = ndgrad.ones(2) * 2
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self._watcher: Any = None

    def __enter__(self) -> Self:
        if self._watcher is not None:
            raise RuntimeError("emit_nvtx is not reentrant. Make another one. [nd-call-order]")
        cupy, count = devices_or_none()
        library = getattr(cupy.cuda, "nvtx", None) if count else None
        if self.enabled and library is not None:
            self._watcher = _Ranges(library, self.record_shapes)
            add_watcher(self._watcher)
        return self

    def __exit__(self, *exc: object) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            remove_watcher(watcher)
