"""Memory that the user lends: what a NumPy array shares with tensors, and NumPy may write without our knowing.

Note [Lent memory]
Backward must not use values that the forward never saw. A write through ndgrad makes a new version; a write by NumPy
into an array that stands in an expression (`x * c`, `x[places]`, `np.maximum(x, c)`) or that a tensor was made of
(`from_numpy(c)`) makes none. So what is saved of such memory is
  * a copy, where it is small and nobody writes it but NumPy: a later write is then as harmless as it
    is to NumPy's own results;
  * else itself with a sample of its elements, all of a small array and some hundred of a large one, spread over each
    dimension, which is compared when backward reads it: a write over the whole, the usual kind, does not pass, and
    one to single elements may.
Both cost less than a microsecond, and only where such memory is saved. Guard mode compares every byte of everything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndgrad._src.core.variable import wrap
from ndgrad._src.core.versions import Storage

#: Up to how many bytes memory is copied, or compared as a whole.
SMALL = 4096
#: About how many elements of larger memory are compared.
_SAMPLED = 128


class Lent(Storage):
    """The storage of memory that the user's own arrays share."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        super().__init__()
        #: Whether who reads the user's array finds the one tensor over it: then that may hold what has a derivative.
        self.known = False


def over(face: type[Any], array: Any) -> Any:
    """A constant of class `face` over an array of the user's."""
    t = wrap(face, array)
    if array.__class__ is np.ndarray:
        t._storage = Lent()
    return t


def know(t: Any) -> Any:
    """A tensor over an array of the user's, which stands for that array wherever it is read."""
    if t._storage.__class__ is Lent:
        t._storage.known = True
    return t


def sample(array: Any, saved: Any = None) -> int:
    """A hash of the elements of a small array, of a sample of a large one, however they lie in
    memory, now or when saved."""
    if array.nbytes > SMALL:
        corner = array[(-1,) * array.ndim]
        each = max(1, math.ceil((array.size / _SAMPLED) ** (1 / array.ndim)))
        return hash((array[(slice(None, None, each),) * array.ndim].tobytes(), corner.tobytes()))
    return hash(array.tobytes())


def may_change(array: Any) -> bool:
    """Whether NumPy may write an array: not if it is read-only from the array that owns its memory
    on, or no memory at all."""
    if array.__class__ is not np.ndarray or not array.size:
        return False
    while not array.flags.writeable:
        base: Any = array.base
        if not isinstance(base, np.ndarray):
            return not (base is None or isinstance(base, bytes))
        array = base
    return True
