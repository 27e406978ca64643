"""Where new arrays go: the device that a call names, else the default device, or the device of the array they are made like."""

from __future__ import annotations

from typing import Any

from ndgrad import devices
from ndgrad.arrays.placement import CPU


def placed(made: Any, device: Any) -> Any:
    """A new array on the device asked for; None asks for the default device."""
    where = devices.get_default_device() if device is None else devices.device(device)
    return made if where is CPU else made.to(where)


def placed_like(made: Any, device: Any) -> Any:
    """An array that stays where it is unless a device is named."""
    return made if device is None else made.to(devices.device(device))
