"""torch's `accelerator` namespace: the GPU, if there is one, without a name for its kind."""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ndgrad import cuda
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

if TYPE_CHECKING:
    from ndgrad._src.foundations.devices import device
    from ndgrad._typing import Device


def is_available() -> bool:
    """True if there is an accelerator: a GPU that CuPy finds.

    >>> import ndgrad
    >>> ndgrad.accelerator.is_available() == ndgrad.cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """Return the number of accelerators."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """Return the kind of accelerator as a device, or None.

    Args:
        check_available: accepted as in torch; has no effect, because an accelerator that is not available is never
            returned.

    >>> import ndgrad
    >>> device = ndgrad.accelerator.current_accelerator() or ndgrad.device("cpu")
    """
    return as_device("cuda") if is_available() else None


def _require_accelerator() -> None:
    if not is_available():
        raise RuntimeError(
            "Cannot access accelerator device when none is available. Ask accelerator.is_available() first. [nd-gpu]"
        )


def current_device_index() -> int:
    """Return the number of the current accelerator; raise if there is none."""
    _require_accelerator()
    return cuda.current_device()


def set_device_index(device: Device, /) -> None:
    """Set the current accelerator; raise if there is none.

    Args:
        device: number or name of an accelerator.
    """
    _require_accelerator()
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device: Device = None, /) -> cuda.Stream:
    """Return the current stream; raise if there is no accelerator.

    Args:
        device: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return cuda.current_stream(device)


def set_stream(stream: cuda.Stream) -> None:
    """Set the current stream.

    Args:
        stream: stream of an accelerator.
    """
    _require_accelerator()
    cuda.set_stream(stream)


def synchronize(device: Device = None, /) -> None:
    """Wait until all work is done; raise if there is no accelerator.

    Args:
        device: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    cuda.synchronize(device)


def empty_cache() -> None:
    """Return unused memory to the system; raise if there is no accelerator."""
    _require_accelerator()
    cuda.empty_cache()


def memory_allocated(device_index: Device = None, /) -> int:
    """Return the bytes that arrays use; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return cuda.memory_allocated(device_index)


def memory_reserved(device_index: Device = None, /) -> int:
    """Return the bytes that the pool holds; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return cuda.memory_reserved(device_index)


def max_memory_allocated(device_index: Device = None, /) -> int:
    """Return the largest `memory_allocated`; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return cuda.max_memory_allocated(device_index)


def max_memory_reserved(device_index: Device = None, /) -> int:
    """Return the largest `memory_reserved`; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return cuda.max_memory_reserved(device_index)


def memory_stats(device_index: Device = None, /) -> OrderedDict[str, Any]:
    """Return statistics of the memory; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return OrderedDict(cuda.memory_stats(device_index))


def get_memory_info(device_index: Device = None, /) -> tuple[int, int]:
    """Return the free and total bytes; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    return cuda.mem_get_info(device_index)


def reset_peak_memory_stats(device_index: Device = None, /) -> None:
    """Reset the peaks to the present use; raise if there is no accelerator.

    Args:
        device_index: number or name of an accelerator. None means the current one.
    """
    _require_accelerator()
    cuda.reset_peak_memory_stats(device_index)


reset_accumulated_memory_stats = reset_peak_memory_stats


class device_index:
    """Block that uses an accelerator by its number.

    Args:
        device: number of the accelerator. None changes nothing.
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        self._block = None
        if self.idx is not None:
            _require_accelerator()
            self._block = cuda.device(self.idx)
            self._block.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._block is not None:
            self._block.__exit__(kind, error, traceback)


_refuse_absent(__name__)
