"""Guard mode: a checksum of what is saved for backward, compared when it is used.

A tensor and a NumPy array may share memory, and a write through the array changes no version: backward would use values
that the forward never saw. Marking memory read-only protects neither from views that existed before nor from the
array's owner. So in guard mode every save takes a CRC-32 of the bytes, and every use compares.

Writes that go through the library are not this mode's business: they raise, or on NumPy's face are undone, and then
what was rebuilt must have the old checksum too.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ndgrad._src.arrays.placement import device_of, move_to
from ndgrad._src.core.modes import thread
from ndgrad._src.core.stored_tensors import Packed
from ndgrad._src.core.variable import Variable
from ndgrad._src.debug.debug_mode import debug, set_debug
from ndgrad._src.foundations import devices


def checksum(array: Any, saved: Any = None) -> int:
    """The CRC-32 of an array's elements; `saved` is what the array was rebuilt from, and says in which
    order they were read then."""
    array = _bare(array)
    order = array if saved is None else _bare(saved)
    if isinstance(order, np.ndarray) and 0 in order.strides:
        once = tuple(slice(None) if s else slice(0, 1) for s in order.strides)  # repeated elements once
        array, order = array[once], order[once]
    flat = np.ascontiguousarray(array.T if order.flags.f_contiguous else array).reshape(-1)
    return zlib.crc32(flat.view(np.uint8).data)


def _bare(array: Any) -> Any:
    while isinstance(array, Variable):
        array = array._array
    return array if isinstance(array, (np.ndarray, np.generic)) else move_to(array, devices.device("cpu"))


def guard_saved(node: Any, name: str) -> None:
    """Take the checksum of what a node has just saved as `name`."""
    value = getattr(node, name)
    setattr(node, name, tuple(guarded(v) for v in value) if value.__class__ is tuple else guarded(value))


def guarded(value: Any) -> Any:
    """A saved value with its checksum, unless it cannot be written, or went through a pack hook and
    is the hook's business."""
    array = value._array if isinstance(value, Variable) else value
    while isinstance(array, Variable):
        array = array._array
    if isinstance(array, (np.generic, Packed)) or not hasattr(array, "strides") or device_of(array).type == "meta":
        return value
    return Packed(value, None, checksum=checksum(array), measure=checksum)


class guard(debug):
    """A context, or decorator, in which backward notices writes made behind the library's back.

    It costs a pass over everything that is saved, and another when it is used.

    >>> import numpy as np, ndgrad
    >>> data = np.ones(3)
    >>> x = ndgrad.from_numpy(data)
    >>> w = ndgrad.ones(3, requires_grad=True)
    >>> with ndgrad.autograd.guard():
    ...     y = (w * x).sum()
    >>> data[0] = 100.0
    >>> y.backward()
    Traceback (most recent call last):
        ...
    RuntimeError: a value saved for backward was changed behind the library's back: the memory of...
    """

    _name = "guard"


class set_guard(set_debug):
    """Switch guard mode on or off, at once; as a context, until the block ends."""

    _name = "guard"


def is_guard_enabled() -> bool:
    """Whether saved values get a checksum."""
    return thread.guard


