"""Placements of a tensor along one dimension of a mesh, and specs: a shape with its placements.

    Shard(d)        pieces along the tensor's dimension d, as `chunk` cuts them: the last ones may be shorter, or empty
    _StridedShard(d, split_factor=n)     a piece of each of n parts of that dimension
    Replicate()     all of it
    Partial(op)     terms, of which the tensor is the sum (or another reduction)

A spec is made once for each combination, so specs are compared by identity, and derived values are cached on them.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor.functions.data import tensor as make_tensor
from ndgrad._src.tensor.functions.join import cat
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.reductions import ReduceOp


class Placement:
    """Base class: the parts of a tensor held by the ranks along a dimension of a mesh."""

    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """True if it is `Shard`, of this dimension if one is given.

        Args:
            dim: dimension of the tensor. None means any.
        """
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """True if it is `Replicate`."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True if it is `Partial`, of this reduction if one is given.

        Args:
            reduce_op: name of the reduction. None means any.
        """
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


class Divided(Placement):
    """Placement in which each rank has some of the positions along a dimension of the tensor.

    Args:
        dim: dimension of the tensor.
    """

    __slots__ = ("dim",)

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def piece_sizes(self, length: int, count: int) -> tuple[int, ...]:
        """Return the number of positions of each rank.

        Args:
            length: length of the dimension.
            count: number of ranks.
        """
        return chunk_sizes(length, count)

    def order(self, length: int, count: int) -> tuple[int, ...] | None:
        """Return the positions of the first rank, then of the second, and so on. None if that is their natural order.

        Args:
            length: length of the dimension.
            count: number of ranks.
        """
        return None

    def replace_dim(self, dim: int) -> Divided:
        """Return the same division of another dimension.

        Args:
            dim: dimension of the tensor.
        """
        raise NotImplementedError


class Shard(Divided):
    """Placement in which each rank has a piece along a dimension of the tensor.

    Args:
        dim: dimension of the tensor.

    >>> from ndgrad.distributed.tensor import Shard
    >>> Shard(0), Shard(0) == Shard(0)
    (Shard(dim=0), True)
    """

    __slots__ = ()

    def replace_dim(self, dim: int) -> Shard:
        """Return `Shard` of another dimension.

        Args:
            dim: dimension of the tensor.
        """
        return Shard(dim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shard) and self.dim == other.dim

    def __hash__(self) -> int:
        return hash(("shard", self.dim))

    def __reduce__(self) -> Any:
        return Shard, (self.dim,)

    def _split_tensor(
        self, tensor: Any, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Any], list[int]]:
        """Return the pieces of a tensor, and the lengths by which they are padded to the longest.

        Args:
            tensor: tensor to divide.
            num_chunks: number of pieces.
            with_padding: whether zeros make all pieces equally long.
            contiguous: whether the pieces are contiguous.
        """
        return _cut_pieces(tensor, self.dim, chunk_sizes(tensor.shape[self.dim], num_chunks), with_padding, contiguous)

    def _select_split_tensor(
        self, tensor: Any, num_chunks: int, index: int, *, with_padding: bool = True, contiguous: bool = True,
        clone: bool = True,
    ) -> Any:  # fmt: skip
        """Return one of the pieces of a tensor.

        Args:
            tensor: tensor to divide.
            num_chunks: number of pieces.
            index: number of the piece.
            with_padding: whether zeros make the piece as long as the longest.
            contiguous: whether the piece is contiguous.
            clone: whether the piece has memory of its own.
        """
        return _select_piece(self, tensor, num_chunks, index, with_padding, contiguous, clone)

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the length of a rank's piece of a dimension, and its start.

        Args:
            curr_local_size: length of the dimension.
            num_chunks: number of pieces.
            rank: number of the piece.
        """
        sizes = chunk_sizes(curr_local_size, num_chunks)
        return sizes[rank], sum(sizes[:rank]) if sizes[rank] else curr_local_size

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"


class StridedShard(Divided):
    """Placement in which each rank has several pieces along a dimension: the dimension is cut into `split_factor`
    parts, and each rank has its piece of each part.

    It describes pieces that later dimensions of the mesh have cut before earlier ones, and the pieces of a dimension
    that a reshape has joined with dimensions before it.

    Args:
        dim: dimension of the tensor.
        split_factor: number of parts.

    >>> from ndgrad.distributed.tensor.placement_types import _StridedShard
    >>> _StridedShard(0, split_factor=2)
    _StridedShard(dim=0, sf=2)
    """

    __slots__ = ("split_factor",)

    def __init__(self, dim: int, *, split_factor: int = 1) -> None:
        super().__init__(dim)
        if split_factor < 1:
            raise ValueError(
                f"_StridedShard(split_factor={split_factor}): the number of parts is positive. [nd-option]"
            )
        self.split_factor = split_factor

    def piece_sizes(self, length: int, count: int) -> tuple[int, ...]:
        parts = [chunk_sizes(n, count) for n in chunk_sizes(length, self.split_factor)]
        return tuple(map(sum, zip(*parts, strict=True)))

    def order(self, length: int, count: int) -> tuple[int, ...] | None:
        found: list[list[int]] = [[] for _ in range(count)]
        start = 0
        for n in chunk_sizes(length, self.split_factor):
            for piece, size in zip(found, chunk_sizes(n, count), strict=True):
                piece.extend(range(start, start + size))
                start += size
        order = tuple(i for piece in found for i in piece)
        return None if order == tuple(range(length)) else order

    def replace_dim(self, dim: int) -> StridedShard:
        return StridedShard(dim, split_factor=self.split_factor)

    def _split_tensor(
        self, tensor: Any, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Any], list[int]]:
        """Return the pieces of a tensor, and the lengths by which they are padded to the longest.

        Args:
            tensor: tensor to divide.
            num_chunks: number of pieces.
            with_padding: whether zeros make all pieces equally long.
            contiguous: whether the pieces are contiguous.
        """
        length = tensor.shape[self.dim]
        order = self.order(length, num_chunks)
        sorted_by_rank = tensor if order is None else tensor.index_select(self.dim, make_tensor(order))
        return _cut_pieces(sorted_by_rank, self.dim, self.piece_sizes(length, num_chunks), with_padding, contiguous)

    def _select_split_tensor(
        self, tensor: Any, num_chunks: int, index: int, *, with_padding: bool = True, contiguous: bool = True,
        clone: bool = True,
    ) -> Any:  # fmt: skip
        """Return one of the pieces of a tensor.

        Args:
            tensor: tensor to divide.
            num_chunks: number of pieces.
            index: number of the piece.
            with_padding: whether zeros make the piece as long as the longest.
            contiguous: whether the piece is contiguous.
            clone: whether the piece has memory of its own.
        """
        return _select_piece(self, tensor, num_chunks, index, with_padding, contiguous, clone)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StridedShard):
            return False
        return self.dim == other.dim and self.split_factor == other.split_factor

    def __hash__(self) -> int:
        return hash(("strided", self.dim, self.split_factor))

    def __reduce__(self) -> Any:
        return _restore_strided, (self.dim, self.split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"


def _restore_strided(dim: int, split_factor: int) -> StridedShard:
    """Return the placement of a pickle."""
    return StridedShard(dim, split_factor=split_factor)


def _cut_pieces(
    tensor: Any, dim: int, sizes: tuple[int, ...], with_padding: bool, contiguous: bool
) -> tuple[list[Any], list[int]]:
    """Return the pieces of a tensor of these lengths, and the lengths by which they are padded to the longest."""
    missing = [max(sizes) - n for n in sizes]
    found = []
    for start, n, short in zip(np.cumsum((0, *sizes)).tolist(), sizes, missing, strict=False):
        piece = tensor.narrow(dim, min(start, tensor.shape[dim]), n)
        if with_padding and short:
            rest = piece.new_zeros((*piece.shape[:dim], short, *piece.shape[dim:][1:]))
            piece = cat([piece, rest], dim)
        found.append(piece.contiguous() if contiguous else piece)
    return found, missing if with_padding else []


def _select_piece(
    placement: Any, tensor: Any, count: int, index: int, with_padding: bool, contiguous: bool, clone: bool
) -> Any:
    piece = placement._split_tensor(tensor, count, with_padding=with_padding, contiguous=contiguous)[0][index]
    return piece.clone() if clone else piece


class Replicate(Placement):
    """Each rank has the whole tensor.

    >>> from ndgrad.distributed.tensor import Replicate
    >>> Replicate()
    Replicate()
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replicate)

    def __hash__(self) -> int:
        return hash("replicate")

    def __reduce__(self) -> Any:
        return Replicate, ()

    def __repr__(self) -> str:
        return "Replicate()"


_REDUCTIONS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "max": ReduceOp.MAX, "min": ReduceOp.MIN,
}  # fmt: skip


class Partial(Placement):
    """Placement in which each rank has a term of the tensor, which is the sum (or average, product, maximum, minimum)
    of the terms.

    Args:
        reduce_op: `"sum"`, `"avg"`, `"product"`, `"max"` or `"min"`.

    >>> from ndgrad.distributed.tensor import Partial
    >>> Partial(), Partial("max")
    (Partial(sum), Partial(max))
    """

    __slots__ = ("reduce_op",)

    #: Names of the reductions.
    ALL_REDUCE_OPS = ("sum", "avg", "product", "max", "min")
    #: Names of the reductions that are linear in the terms.
    LINEAR_REDUCE_OPS = ("sum", "avg")

    def __init__(self, reduce_op: str = "sum") -> None:
        if reduce_op not in _REDUCTIONS:
            raise ValueError(
                f"Partial({reduce_op!r}): a tensor can be the {', '.join(_REDUCTIONS)} of terms. [nd-option]"
            )
        self.reduce_op = reduce_op

    @property
    def reduction(self) -> ReduceOp:
        return _REDUCTIONS[self.reduce_op]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partial) and self.reduce_op == other.reduce_op

    def __hash__(self) -> int:
        return hash(("partial", self.reduce_op))

    def __reduce__(self) -> Any:
        return Partial, (self.reduce_op,)

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"


REPLICATE = Replicate()
PARTIAL = Partial()
AVERAGE = Partial("avg")
LARGEST = Partial("max")
SMALLEST = Partial("min")


def chunk_sizes(length: int, count: int) -> tuple[int, ...]:
    """Return the length of the pieces of a dimension on each of `count` ranks."""
    each = -(-length // count) if length else 0
    return tuple(max(0, min(each, length - i * each)) for i in range(count))


class Spread:
    """Stand-in for the array of a spread tensor: a shape and a dtype. The values are in the local tensors of the
    ranks.
    """

    __slots__ = ("dtype", "shape")

    base = None
    #: Error for uses as an array.
    refusal = (
        "this function reads the values of a tensor, and those of a DTensor are spread over ranks. Call it on "
        "x.full_tensor(), which gathers them, or on x.to_local(), which is this rank's part. [nd-dtensor]"
    )
    #: Never written, with the memory layout of a new array.
    flags = SimpleNamespace(writeable=False, c_contiguous=True, f_contiguous=False, carray=False)

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        step, out = self.itemsize, []
        for n in reversed(self.shape):
            out.append(step)
            step *= max(n, 1)
        return tuple(reversed(out))

    def element_strides(self) -> tuple[int, ...]:
        return tuple(s // self.itemsize for s in self.strides)


@set_module("ndgrad.distributed.tensor._dtensor_spec")
class TensorMeta(NamedTuple):
    """Shape, strides and dtype of a whole tensor.

    Args:
        shape: shape.
        stride: strides, in elements.
        dtype: dtype.
    """

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


class Spec:
    """A mesh, a placement for each of its dimensions, a shape and a dtype. Created by `spec_of`."""

    __slots__ = ("dtype", "mesh", "payload", "placements", "shape")

    def __init__(
        self, mesh: DeviceMesh, placements: tuple[Placement, ...], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.mesh, self.placements, self.shape, self.dtype = mesh, placements, shape, dtype
        self.payload = Spread(shape, dtype)

    def sizes(self, mesh_dim: int) -> tuple[int, ...]:
        """Return the piece lengths of the ranks on this line, for a mesh dimension that shards the tensor. They add up
        to the length that earlier mesh dimensions have left to this line.
        """
        placement = self.placements[mesh_dim]
        assert isinstance(placement, Divided)
        return placement.piece_sizes(self.length_before(mesh_dim), self.mesh.size(mesh_dim))

    def length_before(self, mesh_dim: int) -> int:
        """Return the length that earlier mesh dimensions have left of the dimension that a mesh dimension divides."""
        placement = self.placements[mesh_dim]
        assert isinstance(placement, Divided)
        coordinate = self.mesh.get_coordinate() or [0] * self.mesh.ndim
        length = self.shape[placement.dim]
        for i, p in enumerate(self.placements[:mesh_dim]):
            if isinstance(p, Divided) and p.dim == placement.dim:
                length = p.piece_sizes(length, self.mesh.size(i))[coordinate[i]]
        return length

    def order(self, mesh_dim: int) -> tuple[int, ...] | None:
        """Return the order of positions of the ranks on this line (see `Divided.order`)."""
        placement = self.placements[mesh_dim]
        assert isinstance(placement, Divided)
        return placement.order(self.length_before(mesh_dim), self.mesh.size(mesh_dim))

    def local_shape(self, coordinate: list[int] | None = None) -> tuple[int, ...]:
        """Return the local shape at a position of the mesh, by default this rank's. A rank that is not in the mesh has
        no elements.
        """
        at = coordinate if coordinate is not None else self.mesh.get_coordinate()
        if at is None:
            return (0,)
        shape = list(self.shape)
        for i, placement in enumerate(self.placements):
            if isinstance(placement, Divided):
                shape[placement.dim] = placement.piece_sizes(shape[placement.dim], self.mesh.size(i))[at[i]]
        return tuple(shape)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.shape)

    @property
    def tensor_meta(self) -> TensorMeta:
        """Shape, strides and dtype of the whole."""
        return TensorMeta(Size(self.shape), self.payload.element_strides(), as_dtype(self.dtype))

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides of the whole, in elements."""
        return self.payload.element_strides()

    @property
    def num_shards(self) -> int:
        """The number of parts that differ: the ranks of the dimensions of the mesh that divide the tensor."""
        return math.prod(self.mesh.size(i) for i, p in enumerate(self.placements) if isinstance(p, Divided))

    @property
    def num_shards_map(self) -> list[int]:
        """For each dimension of the tensor, the number of parts into which the mesh divides it."""
        found = [1] * len(self.shape)
        for i, p in enumerate(self.placements):
            if isinstance(p, Divided):
                found[p.dim] *= self.mesh.size(i)
        return found

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor, the last dimension of the mesh that divides it, or -1."""
        found = [-1] * len(self.shape)
        for i, p in enumerate(self.placements):
            if isinstance(p, Divided):
                found[p.dim] = i
        return found

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh whose ranks have terms of the tensor."""
        return [i for i, p in enumerate(self.placements) if p.is_partial()]

    def is_replicated(self) -> bool:
        """True if every rank has the whole tensor."""
        return all(p.is_replicate() for p in self.placements)

    def is_sharded(self) -> bool:
        """True if any dimension of the mesh divides the tensor."""
        return any(isinstance(p, Divided) for p in self.placements)

    def with_placements(self, placements: tuple[Placement, ...]) -> Spec:
        return spec_of(self.mesh, placements, self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)} on {self.mesh!r} as {list(self.placements)}"


_specs: dict[Any, Spec] = {}


def spec_of(mesh: DeviceMesh, placements: tuple[Placement, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Spec:
    """Return the unique spec of a combination."""
    key = (id(mesh), placements, shape, dtype)
    found = _specs.get(key)
    if found is None:
        found = _specs[key] = Spec(mesh, placements, shape, dtype)  # holds the mesh, so its id stays unique
    return found


def normalize_placements(placements: Any, mesh: DeviceMesh, ndim: int, name: str) -> tuple[Placement, ...]:
    """Normalise given placements: one for each dimension of the mesh, tensor dimensions counted from the front."""
    given = [REPLICATE] * mesh.ndim if placements is None else list(placements)
    if len(given) != mesh.ndim:
        raise ValueError(
            f"{name}: `placements` must have the same length as `device_mesh.ndim`: there are {len(given)} for "
            f"{mesh!r}. Give one "
            "placement for each dimension of the mesh. [nd-dtensor]"
        )
    out: list[Placement] = []
    for p in given:
        if not isinstance(p, Placement):
            raise RuntimeError(
                f"{name}: {p!r} is no placement. Give Shard(dim), Replicate() or Partial(). [nd-dtensor]"
            )
        if isinstance(p, Divided):
            if not -ndim <= p.dim < ndim:
                raise RuntimeError(f"{name}: {p!r}, and the tensor has {ndim} dimensions. [nd-dtensor]")
            p = p if p.dim >= 0 else p.replace_dim(p.dim % ndim)
        out.append(p)
    return tuple(out)
