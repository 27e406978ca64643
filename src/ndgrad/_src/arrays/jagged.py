"""The data of a nested tensor: the values of all components in one array, and an immutable layout of the components.

A nested tensor of shape (B, *, j, *) has B components, which differ only in one size, the ragged one. Its values are an
array without the dimension B, in which the components follow each other along the ragged dimension:

    components (2, 4) and (3, 4)     shape (2, j1, 4)     values (5, 4)     offsets [0, 2, 5]

Note [Ragged sizes]
The ragged size is a symbol, `RaggedSize`, which stands for the lengths of all components. Two of them are equal if the
lengths are equal; this decides which tensors combine. It is no number, and using it as one raises an error. A layout
may have holes: rows of the values that belong to no component (`narrow` makes them). They do not change the size, and
computations pack the values first.
"""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.arrays.integers import as_places
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from ndgrad._typing import Payload

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[bytes, RaggedSize] = weakref.WeakValueDictionary()


class RaggedSize:
    """The size of a ragged dimension: the length of each component, under a name (j1, j2, ...). See Note [Ragged
    sizes].
    """

    __slots__ = ("__dict__", "__weakref__", "factor", "key", "lengths", "number")

    is_ragged = True

    def __init__(self, lengths: Payload, factor: int = 1, number: int | None = None) -> None:
        self.lengths, self.factor = lengths, factor
        self.key = lengths.tobytes()
        self.number = next(_numbers) if number is None else number

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedSize):
            return False
        return self is other or (self.factor == other.factor and self.key == other.key)

    def __hash__(self) -> int:
        return hash((self.key, self.factor))

    def __bool__(self) -> bool:
        return True

    def __mul__(self, times: object) -> RaggedSize:
        if type(times) is not int:
            return NotImplemented
        return self if times == 1 else RaggedSize(self.lengths, self.factor * times, self.number)

    __rmul__ = __mul__

    # As in torch, a ragged size counts as at least 2 for special cases in code. Other comparisons raise.

    def __ge__(self, other: object) -> bool:
        return self == other or self._is_at_least(other, ">=")

    def __gt__(self, other: object) -> bool:
        return self != other and self._is_at_least(other + 1 if type(other) is int else other, ">")

    def __lt__(self, other: object) -> bool:
        return self != other and not self._is_at_least(other, "<")

    def __le__(self, other: object) -> bool:
        return self == other or not self._is_at_least(other + 1 if type(other) is int else other, "<=")

    def _is_at_least(self, other: object, sign: str) -> bool:
        if type(other) is int and other <= 2:
            return True
        raise ValueError(
            f"{self!r} {sign} {other!r}: relation is indeterminate, since the components have different sizes "
            f"{self.describe()}. Compare the lengths: offsets().diff(). [nd-nested]"
        )

    def describe(self) -> str:
        """Return a short text with the lengths."""
        some = ", ".join(str(n) for n in self.lengths[:8])
        return f"({some}{', ...' if self.lengths.size > 8 else ''})"

    def __reduce__(self) -> Payload:
        return (ragged_size, (self.lengths,)) if self.factor == 1 else (RaggedSize, (self.lengths, self.factor))

    @functools.cached_property
    def offsets(self) -> Payload:
        """Return the start of each component in packed values, and the end."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @functools.cached_property
    def components(self) -> Payload:
        """Return the component of each row of packed values."""
        return np.repeat(np.arange(self.lengths.size), as_places(self.lengths))

    @functools.cached_property
    def positions(self) -> Payload:
        """Return the position of each row of packed values inside its component."""
        return np.arange(int(self.offsets[-1])) - np.repeat(self.offsets[:-1], as_places(self.lengths))

    @functools.cached_property
    def groups(self) -> list[tuple[int, Any, Any]]:
        """Return the components grouped by length: (length, components, their rows in packed values)."""
        found = []
        for n in np.unique(self.lengths):
            which = np.flatnonzero(self.lengths == n)
            found.append((int(n), which, (self.offsets[which][:, None] + np.arange(int(n))).reshape(-1)))
        return found

    @property
    def total(self) -> int:
        return int(self.offsets[-1])

    @property
    def longest(self) -> int:
        return int(self.lengths.max()) if self.lengths.size else 0


def ragged_size(lengths: Payload) -> RaggedSize:
    """Return the size with these lengths; equal lengths give the same object."""
    lengths = np.ascontiguousarray(lengths, np.int64)
    found = _known.get(lengths.tobytes())
    if found is None:
        lengths = lengths.copy()
        lengths.flags.writeable = False
        found = RaggedSize(lengths)
        found = _known.setdefault(found.key, found)
    return found


class Layout:
    """The positions of a nested tensor's components in its values.

    A layout has the ragged size, its dimension and, if it is not packed, the start of each component.
    """

    __slots__ = ("dim", "given_lengths", "offsets", "packed", "size")

    def __init__(
        self, size: RaggedSize, dim: int = 1, offsets: Payload = None, packed: bool = True, given_lengths: bool = False
    ) -> None:
        self.size, self.dim, self.packed, self.given_lengths = size, dim, packed, given_lengths
        self.offsets = size.offsets if offsets is None else offsets

    @property
    def batch(self) -> int:
        return int(self.size.lengths.size)

    def with_dim(self, dim: int) -> Layout:
        """Return the layout with the ragged size in another dimension."""
        if dim == self.dim:
            return self
        return Layout(self.size, dim, self.offsets, self.packed, self.given_lengths)

    @property
    def rows(self) -> Payload:
        """Return the rows of the values that belong to components, in order."""
        starts = self.offsets[:-1].astype(np.int64)
        return np.repeat(starts, as_places(self.size.lengths)) + self.size.positions

    def same_rows(self, other: Layout) -> bool:
        return self is other or (
            self.size == other.size and ((self.packed and other.packed) or np.array_equal(self.offsets, other.offsets))
        )


class JaggedData:
    """The payload of a nested tensor. Only the nested tensor class computes with it."""

    __slots__ = ("__weakref__", "layout", "values")

    is_structured = True
    is_jagged = True
    is_meta = False
    base = None
    __array_priority__ = 100.0
    __array_ufunc__ = None
    #: Flags expected by code that reads the memory order.
    flags = SimpleNamespace(c_contiguous=True, f_contiguous=True, writeable=True)

    def __init__(self, layout: Layout, values: Payload) -> None:
        self.layout, self.values = layout, values

    @property
    def shape(self) -> tuple[Any, ...]:
        layout, inner = self.layout, tuple(self.values.shape)
        at = layout.dim - 1
        return (layout.batch, *inner[:at], layout.size, *inner[at + 1 :])

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = self.values.dtype
        return getattr(dtype, "numpy", dtype)  # the values may be a tensor inside transforms, with torch's dtype

    @property
    def ndim(self) -> int:
        return len(self.values.shape) + 1

    @property
    def size(self) -> int:
        inner = tuple(self.values.shape)
        at = self.layout.dim - 1
        return self.layout.size.total * math.prod((*inner[:at], *inner[at + 1 :]))

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def tensor_class(self) -> type[Any]:
        """Return the tensor class for this payload."""
        return registry.nested.NestedTensor

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def copy(self, order: str = "C") -> JaggedData:
        return JaggedData(self.layout, self.values.copy())

    def astype(self, dtype: Any) -> JaggedData:
        return JaggedData(self.layout, self.values.astype(dtype))

    def __add__(self, other: Any) -> Payload:
        """Add two gradients."""
        if not isinstance(other, JaggedData) or not self.layout.same_rows(other.layout):
            return NotImplemented
        return JaggedData(self.layout, self.values + other.values)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"a nested tensor of shape {self.shape} came to code that has no rule for it (it asked for {name!r}). "
            "Compute on values(), on the components (unbind()), or on to_padded_tensor(0.0). [nd-nested]"
        )

    def __repr__(self) -> str:
        return f"JaggedData(shape={self.shape}, dtype={self.dtype})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Payload:
        raise TypeError(
            f"can't convert a nested tensor of shape {self.shape} to a NumPy array. Use to_padded_tensor(0.0), or "
            "unbind(), first. [nd-nested]"
        )
