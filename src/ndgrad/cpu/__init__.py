"""torch's `cpu` namespace: the CPU with the interface of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.backends.cpu import instruction_sets
from ndgrad.cpu import amp

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "get_capabilities",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Return True.

    >>> import ndgrad
    >>> ndgrad.cpu.is_available(), ndgrad.cpu.device_count()
    (True, 1)
    """
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1: the CPU is one device."""
    return 1


def current_device() -> str:
    """Return 'cpu'."""
    return "cpu"


def set_device(device: Device) -> None:
    """Do nothing: there is only one.

    Args:
        device: accepted as in torch; has no effect, because there is one CPU.
    """


def synchronize(device: Device = None) -> None:
    """Do nothing: a call has done its work when it returns.

    Args:
        device: accepted as in torch; has no effect, because there is one CPU.
    """


def get_capabilities() -> Mapping[str, bool]:
    """Return the instruction sets by name, and whether the processor has them, as found by NumPy."""
    return MappingProxyType({name.lower(): has for name, has in instruction_sets().items()})


class Stream:
    """Stream of the CPU, which is always empty.

    Args:
        priority: accepted as in torch; has no effect.
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing: a stream of the CPU is always empty.

        Args:
            stream: accepted as in torch; has no effect, because a stream of the CPU is always empty.
        """

    def record_event(self) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        """Do nothing: a stream of the CPU is always empty.

        Args:
            event: accepted as in torch; has no effect.
        """


class Event:
    """An event of the CPU, which has always happened."""

    def query(self) -> bool:
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Do nothing: a stream of the CPU is always empty.

        Args:
            stream: accepted as in torch; has no effect, because a stream of the CPU is always empty.
        """

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: a stream of the CPU is always empty.

        Args:
            stream: accepted as in torch; has no effect, because a stream of the CPU is always empty.
        """


_current = Stream()


class StreamContext:
    """Block whose work goes into a stream of the CPU, without effect.

    Args:
        stream: stream of the CPU.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self._before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        global _current
        _current = self._before


def stream(stream: Stream) -> StreamContext:
    """Return a context whose work goes into a stream of the CPU.

    Args:
        stream: stream of the CPU.
    """
    return StreamContext(stream)


def current_stream(device: Device = None) -> Stream:
    """Return the current stream of the CPU.

    Args:
        device: accepted as in torch; has no effect, because there is one CPU.
    """
    return _current


_refuse_absent(__name__)
