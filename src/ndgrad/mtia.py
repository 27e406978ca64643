"""torch's `mtia` namespace: Meta's accelerators, which are not used here. Its functions are those of `ndgrad.xpu`."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.xpu import (
    current_device,
    device_count,
    empty_cache,
    is_available,
    is_bf16_supported,
    is_initialized,
    manual_seed,
    manual_seed_all,
    max_memory_allocated,
    memory_allocated,
    seed,
    seed_all,
    set_device,
    synchronize,
)

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "seed",
    "seed_all",
    "set_device",
    "synchronize",
]

_refuse_absent(__name__)
