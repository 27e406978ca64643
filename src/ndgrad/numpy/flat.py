"""`Array.flat`: the elements in C order as one line, for any memory order; reads and writes are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad.numpy.coercion import flat, plain
from ndgrad.numpy.indexing import put_in_turn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Dtype, Index
    from ndgrad.numpy._array import Array


class FlatElements:
    """The value of `x.flat`: indexable, writable and iterable.

    >>> import ndgrad.numpy as np
    >>> x = np.zeros((2, 2))
    >>> x.flat[1:3] = 5.0
    >>> x
    array([[0., 5.],
           [5., 0.]])
    """

    __slots__ = ("_index", "base")

    def __init__(self, base: Array) -> None:
        self.base = base
        self._index = 0

    def __len__(self) -> int:
        return int(self.base.size)

    def __iter__(self) -> Iterator[Array]:
        return iter(flat(self.base))

    def __next__(self) -> Array:
        if self._index >= len(self):
            raise StopIteration
        self._index += 1
        return self[self._index - 1]

    def __getitem__(self, key: Index) -> Array:
        made = flat(self.base)[plain(key)]
        return made if isinstance(key, (int, np.integer)) else made.copy()

    def __setitem__(self, key: Index, value: ArrayLike) -> None:
        places = np.arange(len(self))[plain(key)]
        if np.size(places):
            put_in_turn(self.base, np.atleast_1d(places), value)

    def copy(self) -> Array:
        """Return the elements as one line.

        >>> import ndgrad.numpy as np
        >>> np.eye(2).flat.copy()
        array([1., 0., 0., 1.])
        """
        return self.base.flatten()

    def __array__(self, dtype: Dtype = None, copy: bool | None = None) -> NDArray[Any]:
        return flat(self.base).__array__(dtype, copy)
