"""`Size`, the shape of a tensor: a tuple that stays a `Size` under slicing and concatenation.

The constraint that shaped this file: code written for NumPy uses a shape as a tuple, and code written for torch calls
`numel()` and prints it. So `Size` behaves as a tuple in every respect and only adds methods.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any, Self, SupportsIndex, overload

from ndgrad._src.foundations import package_name

__all__ = ["Size", "size_of_shape"]


class Size(tuple[int, ...]):
    """The lengths of a tensor's dimensions.

    >>> Size([2, 3])[1:] + (4,), Size([2, 3]).numel()
    (ndgrad.Size([3, 4]), 6)
    >>> Size([2, 3]) == (2, 3)
    True
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = ()

    def __new__(cls, lengths: Iterable[SupportsIndex] = ()) -> Self:
        lengths = tuple(lengths)
        checked = []
        for position, length in enumerate(lengths):
            try:
                checked.append(operator.index(length))  # an exact int, even for a bool
            except TypeError:
                if getattr(length, "is_ragged", False):  # the symbolic size of a nested tensor's ragged dimension
                    checked.append(length)  # type: ignore[arg-type]  # used in place of an int
                    continue
                raise TypeError(
                    f"Size() got {type(length).__name__} {length!r} as item {position} of {lengths!r}. "
                    "Lengths are integers: convert it with int() if it is a whole number. [nd-type]"
                ) from None
        return tuple.__new__(cls, checked)

    def numel(self) -> int:
        """Return the number of elements of a tensor with this shape; 1 if it has no dimensions.

        >>> import ndgrad
        >>> ndgrad.Size([2, 3]).numel()
        6
        """
        return math.prod(self)

    @overload
    def __getitem__(self, item: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Size: ...
    def __getitem__(self, item: SupportsIndex | slice) -> int | Size:
        if isinstance(item, slice):
            return size_of_shape(tuple.__getitem__(self, item))
        return tuple.__getitem__(self, item)

    def __add__(self, other: tuple[Any, ...]) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[Any, ...]) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return size_of_shape(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{package_name.package}.Size({list(self)})"


size_of_shape = functools.partial(tuple.__new__, Size)
"""`Size` of a tuple already known to hold plain ints, such as an array's shape: it checks nothing."""
