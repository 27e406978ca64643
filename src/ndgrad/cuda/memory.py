"""GPU memory as counted by CuPy's pool; 0 without a GPU.

The pool keeps no peak. After `reset_peak_memory_stats` the peak is counted exactly, for allocations of the calling
thread. Before, it is the largest value seen by calls of these functions.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.gpus import cupy_with_devices, device_number, devices_or_none
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = [
    "caching_allocator_enable", "empty_cache", "host_memory_stats", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "reset_max_memory_cached", "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip

#: device -> largest known numbers of bytes in use, and held by the pool
_peaks: dict[int, list[int]] = {}
#: device -> bytes in use, if they are counted (see `_counter`)
_counted: dict[int, int] = {}


@functools.lru_cache(maxsize=1)
def _counter() -> Any:
    """Return an object that CuPy notifies of each allocation; None if the library has none."""
    cupy = devices_or_none()[0]
    hook: Any = getattr(cupy.cuda, "MemoryHook", None)
    if hook is None:
        return None

    class Counter(hook):  # type: ignore[misc]  # a class of CuPy's
        name = "ndgrad.cuda.memory"

        def malloc_postprocess(self, **told: Any) -> None:
            self._count_change(told["device_id"], told["mem_size"])

        def free_postprocess(self, **told: Any) -> None:
            self._count_change(told["device_id"], -told["mem_size"])

        def _count_change(self, device: int, size: int) -> None:
            if device in _counted:
                _counted[device] += size
                _peaks[device][0] = max(_peaks[device][0], _counted[device])

    return Counter()


class _Here(threading.local):
    is_counting = False


_here = _Here()


def _pool(device: Device) -> Any:
    cupy, count = devices_or_none()
    if not count:
        return None
    with cupy.cuda.Device(device_number("cuda.memory", device)):
        return cupy.get_default_memory_pool()


def _used_and_held(device: Device) -> tuple[int, int]:
    pool = _pool(device)
    if pool is None:
        return 0, 0
    now = [int(pool.used_bytes()), int(pool.total_bytes())]
    peaks = _peaks.setdefault(device_number("cuda.memory", device), [0, 0])
    peaks[:] = map(max, peaks, now)
    return now[0], now[1]


def _peak(device: Device, which: int) -> int:
    _used_and_held(device)
    return _peaks[device_number("cuda.memory", device)][which] if devices_or_none()[1] else 0


def memory_allocated(device: Device = None) -> int:
    """Return the bytes of GPU memory that arrays use.

    Args:
        device: number or name of a GPU. None means the current one.

    >>> import ndgrad
    >>> ndgrad.cuda.memory_allocated() >= 0
    True
    """
    return _used_and_held(device)[0]


def memory_reserved(device: Device = None) -> int:
    """Return the bytes of GPU memory that the pool holds, used or not.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    return _used_and_held(device)[1]


def max_memory_allocated(device: Device = None) -> int:
    """Return the largest `memory_allocated` since `reset_peak_memory_stats`; without that, the largest value seen by
    calls of these functions.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    return _peak(device, 0)


def max_memory_reserved(device: Device = None) -> int:
    """Return the largest `memory_reserved`; only `empty_cache` reduces it.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    return _peak(device, 1)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Reset the peaks to the present use, and count allocations of this thread from now on.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    if not devices_or_none()[1]:
        return
    number = device_number("cuda.memory", device)
    _peaks.pop(number, None)
    _counted[number] = _used_and_held(device)[0]
    counter = _counter()
    if counter is not None and not _here.is_counting:
        counter.__enter__()
        _here.is_counting = True


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def empty_cache() -> None:
    """Return unused GPU memory to the system.

    >>> import ndgrad
    >>> ndgrad.cuda.empty_cache()
    """
    pool = _pool(None)
    if pool is not None:
        _used_and_held(None)  # the peak of held memory
        pool.free_all_blocks()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Return the free and total bytes of a GPU; raise if there is none.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    what = "cuda.mem_get_info()"
    free, total = cupy_with_devices(what).cuda.Device(device_number(what, device)).mem_info
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limit this process to a fraction of a GPU's memory.

    Args:
        fraction: number from 0 to 1.
        device: number or name of a GPU. None means the current one.
    """
    what = "cuda.set_per_process_memory_fraction()"
    if not 0 <= fraction <= 1:
        raise ValueError(f"{what}: a fraction is a number from 0 to 1, but it is {fraction}. [nd-range]")
    with cupy_with_devices(what).cuda.Device(device_number(what, device)):
        _pool(device).set_limit(fraction=fraction)


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return statistics of GPU memory under torch's names: two numbers and their peaks; empty without a GPU.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    if not devices_or_none()[1]:
        return {}
    used, held = _used_and_held(device)
    return {
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": _peak(device, 0),
        "reserved_bytes.all.current": held,
        "reserved_bytes.all.peak": _peak(device, 1),
    }


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Return `memory_stats` as nested dictionaries.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Return statistics of GPU memory as a table.

    Args:
        device: number or name of a GPU. None means the current one.
        abbreviated: accepted as in torch; has no effect, because the table is short.

    >>> import ndgrad
    >>> isinstance(ndgrad.cuda.memory_summary(), str)
    True
    """
    if not devices_or_none()[1]:
        return "no GPU memory in use"
    number, told = device_number("cuda.memory_summary()", device), memory_stats(device)
    rows = [("", "now", "peak")]
    for title, name in (("in use", "allocated_bytes"), ("held by the pool", "reserved_bytes")):
        now, peak = (_readable(told[f"{name}.all.{when}"]) for when in ("current", "peak"))
        rows.append((f"{title} ({name})", now, peak))
    free, total = mem_get_info(device)
    rows.append(("free on the GPU, of all", _readable(free), _readable(total)))
    return f"GPU memory of cuda:{number}\n" + "\n".join(f"{a:36}{b:>14}{c:>14}" for a, b, c in rows)


def _readable(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def host_memory_stats() -> dict[str, Any]:
    """Return statistics of page-locked memory: there is none."""
    return {}


def caching_allocator_enable(value: bool = True) -> None:
    """Switch the pool on or off; no effect without a GPU.

    Args:
        value: whether the pool is on.
    """
    cupy, count = devices_or_none()
    if count:
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc if value else None)


_refuse_absent(__name__)
