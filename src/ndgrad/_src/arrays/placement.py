"""The device of an array, and moving arrays between devices.

A device is only a name until memory is requested on it, which happens in this file. No GPU library is imported before a
GPU is named, and the error for a missing library names the package to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import device_faults, graph_recording, library, meta
from ndgrad._src.arrays.gpus import cupy_with_devices, require_number
from ndgrad._src.arrays.library import announce_second_library
from ndgrad._src.arrays.pinned_memory import is_pinned, send
from ndgrad._src.foundations.devices import device

if TYPE_CHECKING:
    from ndgrad._typing import Payload

CPU = device("cpu")
META = device("meta")
#: Devices by the number of the GPU.
_GPUS: dict[int, device] = {}


def device_of(array: Payload) -> device:
    """Return the device that holds an array."""
    if isinstance(array, (numpy.ndarray, numpy.generic)):
        return CPU
    if library.is_on_device(array):
        number = array.data.device_id
        return _GPUS.get(number) or _GPUS.setdefault(number, device("cuda", number))
    if getattr(array, "is_meta", False):
        where: device = getattr(array, "stands_on", META)
        return where
    return device("cuda", array.device.id)


def library_for(where: device) -> Any:
    """Return the module that makes arrays on a device (for `meta`, a module whose arrays have no data)."""
    if where.type == "cpu":
        return numpy
    if where.type == "meta":
        return meta.library
    if where.type != "cuda":
        raise RuntimeError(
            f"a tensor was asked for on device {str(where)!r}, but there is no such device here. Use 'cpu', or "
            "'cuda' with CuPy. [nd-device]"
        )
    try:
        import cupy
    except ImportError as error:
        raise RuntimeError(
            f"a tensor was asked for on device {str(where)!r}, but CuPy, which holds ndgrad's GPU memory, "
            "could not be imported. Install it with `pip install cupy-cuda12x`, or use device='cpu'. [nd-install]"
        ) from error
    if library.device_library is None:  # checked once
        cupy_with_devices(f"a tensor on device {str(where)!r}")
    if where.index:
        require_number(where.index)
    announce_second_library()
    return cupy


def move_to(array: Payload, where: device, non_blocking: bool = False) -> Payload:
    """Return `array` on another device, or the array itself if it is already there.

    With `non_blocking` the host does not wait for a copy from page-locked memory to a GPU. Copies to the host always
    wait, so that their data can be read.
    """
    here = device_of(array)
    if here is where or (here.type == where.type and where.index in (None, here.index)):
        return array
    if here.type == where.type == "cpu":  # the memory of the host is one device, with any number
        return array
    if here.type == "meta":
        raise NotImplementedError(
            f"a tensor of shape {tuple(array.shape)} on the meta device was asked to move to {str(where)!r}, "
            "but has no data to move. Make a new one there with empty_like(t, device=...). [nd-meta]"
        )
    there = library_for(where)
    if where.type == "meta":
        return there.empty(array.shape, array.dtype)
    if where.type == "cpu":
        if device_faults.pending:
            device_faults.settle()
        return array.get()
    if here.type == "cpu":
        graph_recording.refuse(
            "a move of a tensor to the GPU", "move it before, and write new values into it by copy_()."
        )
    with there.cuda.Device(where.index):
        if here.type != "cpu" or not array.flags.c_contiguous or not is_pinned(array):
            return there.asarray(array)
        out = send(there, array)
        if not non_blocking:
            there.cuda.get_current_stream().synchronize()
        return out
