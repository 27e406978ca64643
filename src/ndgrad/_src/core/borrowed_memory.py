"""Memory of the user's arrays that tensors share, and that NumPy may write without a new version.

Note [Lent memory]
Backward must not use values that the forward never saw. A write through ndgrad makes a new version. A write by NumPy
into an array that is an operand (`x * c`, `x[places]`, `np.maximum(x, c)`) or the source of a tensor (`from_numpy(c)`)
makes none. So a saved value in such memory is
  * a copy, if it is small and only NumPy writes to it. A later write is then as harmless as it is to NumPy's own
    results;
  * otherwise the memory itself with its bytes, if it is small, or a hash of a sample of its elements. Backward compares
    them when it reads the value. The sample has some hundred elements, spread over each dimension. A write over the
    whole array, the usual kind, is detected; a write to single elements of a large array may not be.
Both cost less than a microsecond, and only for saved memory of this kind. Guard mode compares every byte of everything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import wrap
from ndgrad._src.core.versions import Storage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.core.variable import T, Variable
    from ndgrad._typing import Payload

#: Maximum number of bytes to copy, or to compare as a whole.
SMALL = 4096
#: Approximate number of elements to compare in larger memory.
_SAMPLED = 128


class Lent(Storage):
    """Storage of memory that is shared with the user's own arrays."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        super().__init__()
        #: True if readers of the user's array find the single tensor over it; values with a derivative are then
        #: allowed.
        self.known = False


def wrap_lent(tensor_type: type[T], array: NDArray[Any]) -> T:
    """Return a constant of tensor class `tensor_type` over a user's array."""
    t = wrap(tensor_type, array)
    if array.__class__ is np.ndarray:
        t._storage = Lent()
    return t


def mark_known(t: Variable) -> Variable:
    """Mark a tensor over a user's array as the only one for that array, used at every read of it. Return the tensor."""
    if t._storage.__class__ is Lent:
        t._storage.known = True
    return t


def sample(array: NDArray[Any], saved: Payload = None) -> int | bytes:
    """Return the bytes of a small array, or a hash of a sample of a large one.

    They do not depend on the memory layout, now or when saved.
    """
    if array.nbytes > SMALL:
        corner = array[(-1,) * array.ndim]
        each = max(1, math.ceil((array.size / _SAMPLED) ** (1 / array.ndim)))
        return hash((array[(slice(None, None, each),) * array.ndim].tobytes(), corner.tobytes()))
    return array.tobytes()


def may_change(array: NDArray[Any]) -> bool:
    """True if NumPy may write to an array: not if it is empty, or read-only like all its bases."""
    if array.__class__ is not np.ndarray or not array.size:
        return False
    while not array.flags.writeable:
        base: Any = array.base
        if not isinstance(base, np.ndarray):
            return not (base is None or isinstance(base, bytes))
        array = base
    return True
