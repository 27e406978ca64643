"""The GPUs that CuPy finds, for what `ndgrad.cuda` asks of them. Nothing is imported before it is asked for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations import devices

if TYPE_CHECKING:
    from ndgrad._typing import Device


def devices_or_none() -> tuple[Any, int]:
    """CuPy, or None, and the number of GPUs. Asking makes nothing slower: the general lane is taken from the first GPU
    tensor on, not from here."""
    try:
        import cupy  # when a device is first asked for, and never before
    except ImportError:
        return None, 0
    try:
        return cupy, int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # CuPy's own class, for a driver that is missing or too old: no device, and no more to say
        return cupy, 0


def cupy_with_devices(what: str) -> Any:
    """CuPy, where it has a GPU."""
    cupy, count = devices_or_none()
    if cupy is None:
        raise RuntimeError(
            f"{what} needs a GPU, and CuPy, which holds ndgrad's GPU memory, could not be imported. "
            "Install it with `pip install ndgrad[cuda]`, or ask ndgrad.cuda.is_available() first. [nd-install]"
        )
    if not count:
        raise RuntimeError(
            f"{what} needs a GPU, and CuPy finds none (no device, or no driver). "
            "Ask ndgrad.cuda.is_available() first. [nd-gpu]"
        )
    return cupy


def current(what: str) -> int:
    """The number of the GPU in use."""
    return int(cupy_with_devices(what).cuda.runtime.getDevice())


@functools.lru_cache(maxsize=64)  # what is there stays
def require_number(number: int) -> None:
    """Refuse the number of a GPU that is not there, where there are others."""
    count = devices_or_none()[1]
    if count and number >= count:
        there = "one GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise RuntimeError(
            f"there is no device 'cuda:{number}': this process sees {there}. Use one of those, or ask "
            "ndgrad.cuda.device_count() first. [nd-gpu]"
        )


def device_number(what: str, device: Device) -> int:
    """The number of a GPU that was named in one of torch's ways; the one in use if none was."""
    if device is None:
        return current(what)
    named = devices.device(device)
    if named.type != "cuda":
        raise ValueError(
            f"{what}: expected a cuda device, but got {named}. Give 'cuda:0', its number, or nothing. [nd-device]"
        )
    if named.index is None:
        return current(what)
    require_number(named.index)
    return named.index
