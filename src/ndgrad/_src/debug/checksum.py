"""Guard mode: a checksum of the values saved for backward, compared when they are used.

A tensor and a NumPy array may share memory, and a write through the array changes no version: backward would use values
that the forward never saw. Read-only flags do not help against views that existed before, nor against the array's
owner. So in guard mode every save computes a CRC-32 of the bytes, and every use compares it.

Writes through the library are not checked by this mode. They raise, or for an `Array` are undone; the restored value
must then have the old checksum too.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.placement import device_of, move_to
from ndgrad._src.core.modes import thread
from ndgrad._src.core.stored_tensors import Packed
from ndgrad._src.core.variable import Variable
from ndgrad._src.debug.debug_mode import debug, set_debug
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Payload


def checksum(array: Payload, saved: Any = None) -> int:
    """Return the CRC-32 of an array's elements. `saved` is the array from which this one was restored; it determines
    the order in which elements are read."""
    array = _bare(array)
    order = array if saved is None else _bare(saved)
    if isinstance(order, np.ndarray) and 0 in order.strides:
        once = tuple(slice(None) if s else slice(0, 1) for s in order.strides)  # repeated elements once
        array, order = array[once], order[once]
    flat = np.ascontiguousarray(array.T if order.flags.f_contiguous else array).reshape(-1)
    return zlib.crc32(flat.view(np.uint8).data)


def _bare(array: Payload) -> Any:
    while isinstance(array, Variable):
        array = array._array
    return array if isinstance(array, (np.ndarray, np.generic)) else move_to(array, devices.device("cpu"))


def guard_saved(node: Node, name: str) -> None:
    """Store the checksum of the value that a node has just saved as `name`."""
    value = getattr(node, name)
    setattr(node, name, tuple(guard_value(v) for v in value) if value.__class__ is tuple else guard_value(value))


def guard_value(value: Payload) -> Any:
    """Return a saved value with its checksum, unless it is read-only or went through a pack hook, which is then
    responsible for it."""
    array = value._array if isinstance(value, Variable) else value
    while isinstance(array, Variable):
        array = array._array
    if isinstance(array, (np.generic, Packed)) or not hasattr(array, "strides") or device_of(array).type == "meta":
        return value
    return Packed(value, None, checksum=checksum(array), measure=checksum)


@set_module("ndgrad.autograd")
class guard(debug):
    """A context, or decorator, in which backward detects writes that bypass the library.

    It costs a pass over all saved values, and another when they are used.

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


@set_module("ndgrad.autograd")
class set_guard(set_debug):
    """Switch guard mode on or off, at once; as a context, until the block ends."""

    _name = "guard"


@set_module("ndgrad.autograd")
def is_guard_enabled() -> bool:
    """True if saved values get a checksum."""
    return thread.guard


