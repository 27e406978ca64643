"""The data of a sparse tensor: its immutable structure (the positions of the entries), and their values.

Every layout is a list of entries at coordinates. Layouts differ in the storage of the coordinates and in the shape of
the array of values. `coordinates` and `flat_shape` present both uniformly, so computations on entries are independent
of the layout. A structure with dense dimensions (hybrid) has a block of values per entry.

    coo                  values (n, *dense)                  coordinates (sparse_dim, n), repeated ones add up
    csr, csc             values (*batch, n, *dense)          rows or columns by pointers
    bsr, bsc             values (*batch, n, *block, *dense)  blocks of rows and columns by pointers
"""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ndgrad._src.arrays import library as libraries
from ndgrad._src.arrays.integers import as_places
from ndgrad._src.arrays.sparse_pattern import Pattern
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: For each compressed layout, the names of its pointers and of the other indices, and of the sizes that they count.
NAMES = {
    "sparse_csr": ("crow_indices", "col_indices", "nrows", "ncols"),
    "sparse_csc": ("ccol_indices", "row_indices", "ncols", "nrows"),
    "sparse_bsr": ("crow_indices", "col_indices", "nrows", "ncols"),
    "sparse_bsc": ("ccol_indices", "row_indices", "ncols", "nrows"),
}
BY_ROWS = ("sparse_csr", "sparse_bsr")
BLOCKED = ("sparse_bsr", "sparse_bsc")
TRANSPOSED = {
    "sparse_coo": "sparse_coo", "sparse_csr": "sparse_csc", "sparse_csc": "sparse_csr", "sparse_bsr": "sparse_bsc",
    "sparse_bsc": "sparse_bsr",
}  # fmt: skip


class Structure:
    """The positions of a sparse tensor's entries."""

    layout: str
    shape: tuple[int, ...]
    sparse_dim: int
    dense_dim: int
    #: True if no position occurs twice and the entries are in order.
    coalesced: bool
    values_shape: tuple[int, ...]
    #: Coordinates of shape (ndim - dense_dim, entries).
    coordinates: Any

    @property
    def dense_shape(self) -> tuple[int, ...]:
        return self.shape[len(self.shape) - self.dense_dim :]

    @property
    def place_shape(self) -> tuple[int, ...]:
        """The sizes that the coordinates count."""
        return self.shape[: len(self.shape) - self.dense_dim]

    @property
    def count(self) -> int:
        return int(self.coordinates.shape[1])

    @property
    def flat_shape(self) -> tuple[int, ...]:
        """The shape of the values with one entry after another."""
        return (self.count, *self.dense_shape)

    @functools.cached_property
    def keys(self) -> Payload:
        """The position of each entry as one number."""
        if not self.place_shape:
            return np.zeros(self.count, np.int64)
        if math.prod(self.place_shape) == 0:
            return np.zeros(self.count, np.int64)  # no positions, so no entries
        return np.ravel_multi_index(tuple(self.coordinates), self.place_shape)

    @functools.cached_property
    def in_order(self) -> tuple[Any, Any]:
        """The keys in ascending order, and the entries in that order."""
        order = np.argsort(self.keys, kind="stable")
        return self.keys[order], order

    @functools.cached_property
    def pattern(self) -> Pattern:
        """The positions of a matrix, for products and solves."""
        return Pattern(self.coordinates[0], self.coordinates[1], (self.shape[0], self.shape[1]))

    def same_places(self, other: Structure) -> bool:
        return self is other or (
            self.layout == other.layout
            and self.shape == other.shape
            and self.values_shape == other.values_shape
            and np.array_equal(self.coordinates, other.coordinates)
        )

    def positions_of(self, keys: Payload) -> tuple[Any, Any]:
        """Return, for a coalesced structure, the entry with each of these keys, and a mask of the keys that exist."""
        known, order = self.in_order
        if not known.size:
            return np.zeros(keys.shape, np.intp), np.zeros(keys.shape, bool)
        at = np.minimum(np.searchsorted(known, keys), known.size - 1)
        return order[at], known[at] == keys

    def to_full(self, values: Payload) -> Payload:
        """Return the full array."""
        flat = values.reshape(self.flat_shape)
        out = np.zeros((math.prod(self.place_shape), *self.dense_shape), values.dtype)
        if values.dtype.kind == "b":
            np.logical_or.at(out, self.keys, flat)
        else:
            np.add.at(out, self.keys, flat)
        return out.reshape(self.shape)


class Coo(Structure):
    """Entries at coordinates, in any order."""

    layout = "sparse_coo"

    def __init__(self, indices: Payload, shape: tuple[int, ...], coalesced: bool = False) -> None:
        self.coordinates = indices
        self.shape = shape
        self.sparse_dim = indices.shape[0]
        self.dense_dim = len(shape) - self.sparse_dim
        self.coalesced = coalesced
        self.values_shape = self.flat_shape

    @functools.cached_property
    def coalescing(self) -> tuple[Coo, Any]:
        """Return the coalesced structure, and the position in it of each entry."""
        keys, entries = np.unique(self.keys, return_inverse=True)
        if self.place_shape:
            indices = np.stack(np.unravel_index(keys, self.place_shape)).astype(np.int64)
        else:
            indices = np.zeros((0, keys.size), np.int64)
        return Coo(indices, self.shape, True), entries.reshape(-1)


class Compressed(Structure):
    """Entries by rows or by columns, found through pointers; also batches of such matrices, and blocks."""

    coalesced = True

    def __init__(
        self, layout: str, pointers: Payload, others: Payload, shape: tuple[int, ...], values_shape: tuple[int, ...]
    ) -> None:
        self.layout, self.pointers, self.others = layout, pointers, others
        self.shape, self.values_shape = shape, values_shape
        self.sparse_dim = 2
        self.batch = tuple(pointers.shape[:-1])
        self.dense_dim = len(shape) - len(self.batch) - 2
        at = len(self.batch) + 1
        self.block = (values_shape[at], values_shape[at + 1]) if layout in BLOCKED else (1, 1)

    @functools.cached_property
    def coordinates(self) -> Payload:
        lead, n = math.prod(self.batch), self.others.shape[-1]
        pointers = self.pointers.reshape(lead, -1)
        lengths = np.diff(pointers, axis=1)
        outer = np.repeat(np.tile(np.arange(lengths.shape[1], dtype=np.int64), lead), as_places(lengths.reshape(-1)))
        inner = self.others.reshape(-1).astype(np.int64)
        rows, columns = (outer, inner) if self.layout in BY_ROWS else (inner, outer)
        batch = np.repeat(np.arange(lead, dtype=np.int64), n)
        height, width = self.block
        if self.layout in BLOCKED:
            down, across = np.divmod(np.arange(height * width, dtype=np.int64), max(width, 1))
            rows = (rows[:, None] * height + down).reshape(-1)
            columns = (columns[:, None] * width + across).reshape(-1)
            batch = np.repeat(batch, height * width)
        lines = (*np.unravel_index(batch, self.batch), rows, columns) if self.batch else (rows, columns)
        return np.stack(lines).astype(np.int64)


class SparseData(NDArrayOperatorsMixin):
    """The payload of a sparse tensor. NumPy's functions refuse it; as a gradient it can be added and multiplied."""

    __slots__ = ("__weakref__", "structure", "values")

    is_structured = True
    is_sparse = True
    is_meta = False
    base = None
    __array_priority__ = 100.0
    #: Flags expected by code that reads the memory order.
    flags = SimpleNamespace(c_contiguous=True, f_contiguous=True, writeable=True)

    def __init__(self, structure: Structure, values: Payload) -> None:
        self.structure, self.values = structure, values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.structure.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = self.values.dtype
        return getattr(dtype, "numpy", dtype)  # the values may be a tensor inside transforms, with torch's dtype

    @property
    def ndim(self) -> int:
        return len(self.structure.shape)

    @property
    def size(self) -> int:
        return math.prod(self.structure.shape)

    @property
    def itemsize(self) -> int:
        return int(self.values.itemsize)

    @property
    def tensor_class(self) -> type[Any]:
        """Return the tensor class for this payload."""
        return registry.sparse.SparseTensor

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"a {self.structure.layout} gradient of shape {self.shape} came to an op that has no rule for sparse "
            f"gradients (it asked for {name!r}). Return a dense one there: to_dense(). [nd-sparse-grad]"
        )

    def __repr__(self) -> str:
        return f"SparseData({self.structure.layout}, shape={self.shape}, dtype={self.dtype})"

    def copy(self, order: str = "C") -> SparseData:
        return SparseData(self.structure, self.values.copy())

    def astype(self, dtype: Any) -> SparseData:
        return SparseData(self.structure, self.values.astype(dtype))

    def coalesce(self) -> SparseData:
        if self.structure.coalesced:
            return self
        assert isinstance(self.structure, Coo)
        structure, entries = self.structure.coalescing
        out = np.zeros(structure.flat_shape, self.values.dtype)
        (np.logical_or if out.dtype.kind == "b" else np.add).at(out, entries, self.values)
        return SparseData(structure, out)

    def to_full(self) -> Payload:
        return self.structure.to_full(self.values)

    # ----- sums of gradients -----

    def __add__(self, other: Any) -> Payload:
        if isinstance(other, SparseData):
            return add_entries(self, other, merged=False)
        if isinstance(other, np.ndarray):
            out = other.astype(np.result_type(other.dtype, self.dtype))
            return self.add_to(out)
        return NotImplemented

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Payload:
        """Add in place. Other holders of this sum of gradients see the change."""
        total = self + other
        if isinstance(total, SparseData):
            self.structure, self.values = total.structure, total.values
            return self
        return total

    def add_to(self, out: Payload) -> Payload:
        """Add the entries to a full array in place, and return it."""
        flat = self.values.reshape(self.structure.flat_shape)
        np.add.at(out, tuple(self.structure.coordinates), flat)
        return out

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Payload:
        """Handle the operations that rules of ordinary ops apply to a gradient that a user's function made sparse."""
        out = options.pop("out", None)
        if method != "__call__" or options or (out is not None and (ufunc is not np.add or out[0] is self)):
            self.refuse(ufunc.__name__)
        if ufunc is np.add:
            full = next(i for i in inputs if not isinstance(i, SparseData))
            return self + np.asarray(full) if out is None else self.add_to(out[0])
        return registry.sparse.sparse_ufunc(self, ufunc, inputs)

    def refuse(self, name: str) -> NoReturn:
        raise TypeError(
            f"NumPy's {name} was called on a {self.structure.layout} tensor of shape {self.shape}, "
            "whose entries are not an array. Use ndgrad's functions, or to_dense() first. [nd-sparse]"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Payload:
        raise TypeError(
            f"can't convert a {self.structure.layout} tensor of shape {self.shape} to a NumPy array. "
            "Use Tensor.to_dense() first. [nd-sparse]"
        )


def add_entries(x: SparseData, y: SparseData, merged: bool) -> SparseData:
    """Return the sum of two sparse payloads.

    Coo tensors keep the entries of both, one after another; repeated positions add up when coalesced. Other results
    have the layout of x. With `merged`, entries at the same positions in the same order are added at once. Coalesced
    entries always are.
    """
    if (merged or x.structure.coalesced) and x.structure.same_places(y.structure):
        return SparseData(x.structure, x.values + y.values)
    a, b = as_coo(x), as_coo(y)
    if isinstance(x.structure, Compressed):
        b = finer(b, a.structure.sparse_dim)
    few = min(a.structure.sparse_dim, b.structure.sparse_dim)
    a, b = coarser(a, few), coarser(b, few)  # needed if only one of them is hybrid
    indices = np.concatenate([a.structure.coordinates, b.structure.coordinates], axis=1)
    both = SparseData(Coo(indices, x.shape), np.concatenate([a.values, b.values]))
    return both if x.structure.layout == "sparse_coo" else to_compressed(both, x.structure)


def as_coo(x: SparseData) -> SparseData:
    """Return the same entries as coordinates, in their current order."""
    structure = x.structure
    if isinstance(structure, Coo):
        return x
    return SparseData(Coo(structure.coordinates, structure.shape), x.values.reshape(structure.flat_shape))


def coarser(x: SparseData, sparse_dim: int) -> SparseData:
    """Return a coo tensor with fewer sparse and more dense dimensions."""
    structure = x.structure
    if structure.sparse_dim == sparse_dim:
        return x
    keep, rest = structure.coordinates[:sparse_dim], structure.coordinates[sparse_dim:]
    made = Coo(keep, structure.shape)
    values = np.zeros(made.values_shape, x.values.dtype)
    values[(np.arange(structure.count), *rest)] = x.values
    return SparseData(made, values)


def finer(x: SparseData, sparse_dim: int) -> SparseData:
    """Return a coo tensor with more sparse dimensions: each entry is split."""
    structure = x.structure
    if structure.sparse_dim >= sparse_dim:
        return x
    made = finer_structure(structure, sparse_dim)
    return SparseData(made, x.values.reshape(made.values_shape))


def finer_structure(structure: Structure, sparse_dim: int) -> Coo:
    """Return the structure of a coo tensor with more sparse dimensions: an entry for each element of an entry."""
    split = structure.shape[structure.sparse_dim : sparse_dim]
    inner = np.indices(split).reshape(len(split), -1)
    outer = np.repeat(structure.coordinates, inner.shape[1], axis=1)
    return Coo(np.concatenate([outer, np.tile(inner, structure.count)]), structure.shape, structure.coalesced)


def to_compressed(x: SparseData, like: Structure) -> SparseData:
    """Return a coo tensor in the compressed layout of another tensor of its shape."""
    assert isinstance(like, Compressed)
    structure, order = compress(x.coalesce().structure, like.layout, like.block, len(like.batch))
    flat = x.coalesce().values
    return SparseData(structure, np.where(expand(order < 0, flat), 0, flat[order]).reshape(structure.values_shape))


def expand(mask: Payload, flat: Payload) -> Payload:
    """Reshape a mask of entries to broadcast against their values."""
    return mask.reshape(mask.shape + (1,) * (flat.ndim - 1))


def compress(structure: Structure, layout: str, block: tuple[int, int], batch: int = 0) -> tuple[Compressed, Any]:
    """Convert a coalesced structure to a compressed one with `batch` leading dimensions.

    Also return, for each of its flat values, the entry at that position (-1 for a zero in a block).
    """
    shape, coordinates = structure.shape, structure.coordinates
    lead_shape, (height, width) = shape[:batch], block
    rows, columns = coordinates[batch], coordinates[batch + 1]
    lead = np.ravel_multi_index(tuple(coordinates[:batch]), lead_shape) if batch else np.zeros_like(rows)
    by_rows = layout in BY_ROWS
    down, across = shape[batch] // max(height, 1), shape[batch + 1] // max(width, 1)
    outer, inner = (rows // height, columns // width) if by_rows else (columns // width, rows // height)
    outers, inners = (down, across) if by_rows else (across, down)
    keys = (lead * outers + outer) * inners + inner
    unique, which = np.unique(keys, return_inverse=True)
    which = which.reshape(-1)
    total = math.prod(lead_shape)
    owner, other = np.divmod(unique, max(inners, 1))
    lengths = np.bincount(as_places(owner), minlength=total * outers).reshape(total, outers)
    per_batch = lengths.sum(axis=1)
    if batch and per_batch.size and (per_batch != per_batch[0]).any():
        raise RuntimeError(
            f"to {layout}: Expect the same number of specified elements per batch, but there are {per_batch.tolist()} "
            f"in a tensor of shape {shape}. Use sparse_coo, or convert the matrices one by one. [nd-sparse]"
        )
    n = int(per_batch[0]) if per_batch.size else 0
    pointers = np.zeros((*lead_shape, outers + 1), np.int64)
    np.cumsum(lengths.reshape(*lead_shape, outers), axis=-1, out=pointers[..., 1:])
    others = other.reshape(*lead_shape, n).astype(np.int64)
    size = (height, width) if layout in BLOCKED else ()
    made = Compressed(layout, pointers, others, shape, (*lead_shape, n, *size, *structure.dense_shape))
    source = np.full(unique.size * height * width, -1, np.intp)
    source[(which * height + rows % height) * width + columns % width] = np.arange(structure.count)
    return made, source


# Ops never compute with it, but library_of() must know the class.
libraries._known[SparseData] = np
