"""A GPU whose memory is used up: the error that says what asked for it, and what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.arrays import library


class OutOfMemoryError(RuntimeError, MemoryError):
    """A GPU's memory is used up. Nothing was changed: free some, and go on."""


def is_of_device(error: BaseException) -> bool:
    """Whether an error says that a device, and not the host, has no memory left."""
    return isinstance(error, MemoryError) and error.__class__.__module__.partition(".")[0] == "cupy"


def out_of_memory(what: str, arrays: Sequence[Any], error: BaseException) -> OutOfMemoryError:
    """The error to raise for an op (or a node) `what`, which was given these arrays."""
    told = ", ".join(f"{tuple(a.shape)} {a.dtype}" for a in arrays if hasattr(a, "shape")) or "no arrays"
    return OutOfMemoryError(
        f"{what}: the GPU is out of memory, given {told}. {str(error).rstrip('.')}; {_state()}. Delete tensors that "
        "are not needed, take smaller batches, use ndgrad.no_grad() or utils.checkpoint, or call cuda.empty_cache() if "
        "another process needs what the pool holds. [nd-gpu]"
    )


def _state() -> str:
    """What is in use, as far as it can be said."""
    found = library.device_library
    try:
        pool, (free, total) = found.get_default_memory_pool(), found.cuda.Device().mem_info
        used, held = pool.used_bytes(), pool.total_bytes()
        return f"{used:,} bytes are in use, the pool holds {held:,}, and {free:,} of {total:,} are free"
    except Exception:  # the error in hand is the one to tell
        return "how much is in use cannot be said"
