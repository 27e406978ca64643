"""The array library of an array.

A library is the module itself (numpy, cupy). It is found by the array's class. Only libraries that the user has already
imported are considered.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

_known: dict[type[Any], Any] = {numpy.ndarray: numpy}

#: Called once, for the first array of a library other than NumPy. Until then the generated fast paths assume NumPy.
on_second_library: list[Any] = []
#: The library of arrays on a device, once there are any.
device_library: Any = None
#: The function of ndgrad._src.arrays.device_kernels that casts arrays on a device, once that module is loaded.
device_cast: Any = None


def library_of(array: Payload) -> Library:
    """Return the module whose functions work on `array`."""
    cls = array.__class__
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = _find(cls)
    return found


def _find(cls: type[Any]) -> Library:
    if issubclass(cls, (numpy.ndarray, numpy.generic)):
        return numpy
    if cls.__module__.split(".")[0] == "cupy":
        announce_second_library()
        return sys.modules["cupy"]
    if issubclass(cls, (bool, int, float, complex)):
        return numpy
    if hasattr(cls, "refusal"):
        raise TypeError(cls.refusal)
    raise TypeError(
        f"an array of type {cls.__module__}.{cls.__qualname__} belongs to no array library that ndgrad knows. "
        "Convert it to a NumPy or CuPy array first. [nd-foreign-array]"
    )


def announce_second_library() -> None:
    """Notify the listeners that arrays of a library other than NumPy exist from now on."""
    global device_library
    device_library = sys.modules["cupy"]
    while on_second_library:
        on_second_library.pop()()


def is_on_device(array: Any) -> bool:
    """True if an array is on a device."""
    return device_library is not None and array.__class__ is device_library.ndarray


def is_raw_array(value: Any) -> bool:
    """True if `value` is an array (or NumPy scalar) of a known library."""
    cls = value.__class__
    return cls in _known or issubclass(cls, (numpy.ndarray, numpy.generic)) or cls.__module__.split(".")[0] == "cupy"
