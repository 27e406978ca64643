"""Placement of new arrays: the given device, else the default device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.foundations import devices

if TYPE_CHECKING:
    from ndgrad._typing import Array, Device


def place_on_device(made: Array, device: Device) -> Array:
    """Return a new array on a device; None means the default one."""
    where = devices.get_default_device() if device is None else devices.device(device)
    return made if where is CPU else made.to(where)
