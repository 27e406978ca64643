"""The error for exhausted GPU memory, with the op that requested it and the memory in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.arrays import library
from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad")
class OutOfMemoryError(RuntimeError, MemoryError):
    """The GPU has no memory left. Nothing was changed: free some memory and continue."""


def is_of_device(error: BaseException) -> bool:
    """True if an error means that a device, not the host, has no memory left."""
    return isinstance(error, MemoryError) and error.__class__.__module__.partition(".")[0] == "cupy"


def out_of_memory(what: str, arrays: Sequence[Any], error: BaseException) -> OutOfMemoryError:
    """Return the error to raise for an op (or a node) `what` with these arrays."""
    shapes = ", ".join(f"{tuple(a.shape)} {a.dtype}" for a in arrays if hasattr(a, "shape")) or "no arrays"
    return OutOfMemoryError(
        f"{what}: the GPU is out of memory, given {shapes}. {str(error).rstrip('.')}; {_state()}. Delete tensors that "
        "are not needed, take smaller batches, use ndgrad.no_grad() or utils.checkpoint, or call cuda.empty_cache() if "
        "another process needs the memory of the pool. [nd-gpu]"
    )


def _state() -> str:
    """Return the memory in use, as far as it is known."""
    found = library.device_library
    try:
        pool, (free, total) = found.get_default_memory_pool(), found.cuda.Device().mem_info
        used, held = pool.used_bytes(), pool.total_bytes()
        return f"{used:,} bytes are in use, the pool holds {held:,}, and {free:,} of {total:,} are free"
    except Exception:  # the memory error matters more
        return "how much is in use cannot be said"
