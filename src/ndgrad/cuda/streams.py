"""Streams and events of a GPU: CuPy's, under torch's names. They raise if there is no GPU."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ndgrad._src.arrays.device_faults import settle
from ndgrad._src.arrays.gpus import cupy_with_devices, device_number
from ndgrad._src.arrays.streams import streams as process_streams
from ndgrad._src.foundations.devices import device as as_device

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream",
    "synchronize",
]  # fmt: skip


class Stream:
    """Queue of work that runs in order, concurrently with other streams.

    `with ndgrad.cuda.stream(s):` runs the ops of a block in it. A priority below 0 goes before others.

    Args:
        device: number or name of a GPU. None means the current one.
        priority: order of streams. Lower numbers go first.
    """

    def __init__(self, device: Device = None, priority: int = 0, *, _made: Any = None) -> None:
        cupy = cupy_with_devices("cuda.Stream()")
        number = device_number("cuda.Stream()", device)
        self.device = as_device("cuda", number)
        if _made is None:
            with cupy.cuda.Device(number):
                _made = cupy.cuda.Stream(non_blocking=True, priority=priority)
        self.stream = _made
        self.priority = priority
        #: Contexts of its GPU, one for each open block.
        self._entered: list[Any] = []

    @property
    def cuda_stream(self) -> int:
        """The address of the stream, for other libraries."""
        return int(self.stream.ptr)

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self.stream.synchronize()
        settle()

    def query(self) -> bool:
        """True if all its work is done."""
        return bool(self.stream.done)

    def wait_event(self, event: Event) -> None:
        """Let later work in this stream wait for an event.

        Args:
            event: event of any stream.
        """
        self.stream.wait_event(event.event)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work in this stream wait for the present work of another stream.

        Args:
            stream: other stream.
        """
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Mark the present end of the stream.

        Args:
            event: event to record. The default is a new one.
        """
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Self:
        _is_used(self.stream)
        self._entered.append(cupy_with_devices("cuda.Stream()").cuda.Device(self.device.index))
        self._entered[-1].__enter__()
        self.stream.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stream.__exit__(kind, error, traceback)
        self._entered.pop().__exit__(kind, error, traceback)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<ndgrad.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def _is_used(stream: Any) -> None:
    """Make nodes record their streams from now on, if this is not the default stream."""
    cuda = cupy_with_devices("cuda.stream()").cuda
    if process_streams.current is None and stream.ptr != cuda.Stream.null.ptr:
        process_streams.begin(cuda.get_current_stream, cuda.Stream.null.ptr)


class ExternalStream(Stream):
    """Stream created by another library.

    Args:
        stream_ptr: address of the stream.
        device: number or name of a GPU. None means the current one.
    """

    def __init__(self, stream_ptr: int, device: Device = None) -> None:
        made = cupy_with_devices("cuda.ExternalStream()").cuda.ExternalStream(stream_ptr)
        super().__init__(device, _made=made)


class Event:
    """Point in a stream, to wait for or to measure time: `start.elapsed_time(end)` is in milliseconds.

    Args:
        enable_timing: whether the event measures time.
        blocking: whether `synchronize` lets the CPU sleep.
        interprocess: must be False.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError(
                "cuda.Event(interprocess=True): events are not shared between processes here. [nd-unsupported]"
            )
        event = cupy_with_devices("cuda.Event()").cuda.Event
        self.event = event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the present end of a stream, by default the current one.

        Args:
            stream: stream of a GPU. The default is the current one.
        """
        self.event.record(None if stream is None else stream.stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for this event.

        Args:
            stream: stream of a GPU. The default is the current one.
        """
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """True if the event has happened."""
        return bool(self.event.done)

    def synchronize(self) -> None:
        """Wait for the event."""
        self.event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to a later one.

        Args:
            end_event: later event.
        """
        get_elapsed_time = cupy_with_devices("cuda.Event.elapsed_time()").cuda.get_elapsed_time
        return float(get_elapsed_time(self.event, end_event.event))


class StreamContext:
    """Block whose ops go into a stream.

    Args:
        stream: stream of a GPU. None changes nothing.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, traceback)


def stream(stream: Stream | None) -> StreamContext:
    """Return a context whose ops go into a stream; None changes nothing.

    Args:
        stream: stream of a GPU. None changes nothing.

    >>> import ndgrad
    >>> with ndgrad.cuda.stream(None):
    ...     y = ndgrad.ones(2)
    """
    return StreamContext(stream)


def current_stream(device: Device = None) -> Stream:
    """Return the current stream; raise if there is no GPU.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    cupy = cupy_with_devices("cuda.current_stream()")
    with cupy.cuda.Device(device_number("cuda.current_stream()", device)):
        return Stream(device, _made=cupy.cuda.get_current_stream())


def default_stream(device: Device = None) -> Stream:
    """Return the default stream; raise if there is no GPU.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    return Stream(device, _made=cupy_with_devices("cuda.default_stream()").cuda.Stream.null)


def set_stream(stream: Stream | None) -> None:
    """Set the current stream; None changes nothing.

    Args:
        stream: stream of a GPU. None changes nothing.
    """
    if stream is not None:
        _is_used(stream.stream)
        stream.stream.use()


def synchronize(device: Device = None) -> None:
    """Wait until a GPU has done all its work; raise if there is none.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    cupy_with_devices("cuda.synchronize()").cuda.Device(device_number("cuda.synchronize()", device)).synchronize()
    settle()
