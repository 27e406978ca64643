"""The GPUs that CuPy finds, for `ndgrad.cuda`. CuPy is imported on first use only."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations import devices

if TYPE_CHECKING:
    from ndgrad._typing import Device


def devices_or_none() -> tuple[Any, int]:
    """Return CuPy, or None, and the number of GPUs.

    Calling this slows nothing down: the general path is used from the first GPU tensor on, not from here.
    """
    try:
        import cupy  # imported when a device is first requested
    except ImportError:
        return None, 0
    try:
        return cupy, int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # CuPy's own exception for a missing or old driver: no device
        return cupy, 0


def cupy_with_devices(what: str) -> Any:
    """Return CuPy if it has a GPU, else raise."""
    cupy, count = devices_or_none()
    if cupy is None:
        raise RuntimeError(
            f"{what} needs a GPU, but CuPy, which holds ndgrad's GPU memory, could not be imported. "
            "Install it with `pip install cupy-cuda12x`, or ask ndgrad.cuda.is_available() first. [nd-install]"
        )
    if not count:
        raise RuntimeError(
            f"{what} needs a GPU, but CuPy finds none (no device, or no driver). "
            "Ask ndgrad.cuda.is_available() first. [nd-gpu]"
        )
    return cupy


def current(what: str) -> int:
    """Return the number of the current GPU."""
    return int(cupy_with_devices(what).cuda.runtime.getDevice())


@functools.lru_cache(maxsize=64)  # the number of GPUs does not change
def require_number(number: int) -> None:
    """Raise for the number of a GPU that does not exist, if there are other GPUs."""
    count = devices_or_none()[1]
    if count and number >= count:
        there = "one GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise RuntimeError(
            f"there is no device 'cuda:{number}': this process sees {there}. Use one of those, or ask "
            "ndgrad.cuda.device_count() first. [nd-gpu]"
        )


def device_number(what: str, device: Device) -> int:
    """Return the number of a GPU given in any of torch's forms; the current one by default."""
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
