"""Making sparse tensors, converting them, and asking what they consist of, under torch's names.

Structures are checked whenever one is made (torch does so on demand): a wrong index would be a wrong result, later.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad import devices, dtypes
from ndgrad._tensor import Tensor
from ndgrad.api.arguments import as_shape
from ndgrad.api.product import mm
from ndgrad.api.tensor_checks import set_requires_grad
from ndgrad.arrays.sparse import BLOCKED, NAMES, Compressed, Coo, Structure, compress
from ndgrad.autograd.variable import Variable, requires_grad, wrap
from ndgrad.autograd.versions import storage_of
from ndgrad.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Layout, Number, Shape, TensorLike

__all__ = [
    "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "hspmm", "indices_copy", "resize_as_sparse_",
    "row_indices_copy", "smm", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor",
    "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor", "spmm", "sspaddmm", "values_copy",
]  # fmt: skip
METHODS = (
    "_coalesced_", "_indices", "_nnz", "_values", "ccol_indices", "coalesce", "col_indices", "crow_indices",
    "dense_dim", "indices", "is_coalesced", "resize_as_sparse_", "row_indices", "smm", "sparse_dim", "sparse_mask",
    "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm", "to_dense", "to_sparse", "to_sparse_bsc",
    "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "values",
)  # fmt: skip

ALIASES = {"dsmm": "spmm", "hsmm": "hspmm"}

_COMPRESSED = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _room() -> Any:
    """The class of sparse tensors with its functions, and the table of what public functions do with them."""
    import ndgrad.sparse  # noqa: F401  # which is made of the public functions, and fills the table
    from ndgrad.sparse import tensor  # the module itself

    return tensor


def _structure(t: Any) -> Structure:
    """Where the entries of a sparse tensor are."""
    found: Structure = t.structure
    return found


def _layout(t: Any) -> str:
    return str(t.layout).rpartition(".")[2]


# ----- making ---------------------------------------------------------------------------------------------------------


def _indices_of(name: str, argument: str, value: Any) -> Any:
    """Indices as a NumPy array of 64-bit integers; those of compressed layouts may have 32."""
    array = np.asarray(value.detach()._array if isinstance(value, Variable) else value)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and array.size and (array != np.floor(array)).any()):
        raise TypeError(f"{name}(): {argument} must be integers, and are {array.dtype}. Convert them with .long().")
    return array.astype(np.int32 if array.dtype == np.int32 and "coo" not in name else np.int64)  # a copy


def _values_from(values: Any, dtype: Dtype) -> Any:
    from ndgrad.api.data import as_tensor, tensor  # which importing this family does not need before

    made: Any = as_tensor(values) if isinstance(values, Variable) else tensor(values)
    if _layout(made) != "strided":
        raise TypeError(
            f"the values of a sparse tensor must be dense, and have layout {_layout(made)}. Use to_dense()."
        )
    return made if dtype is None else made.to(dtypes.as_dtype(dtypes.as_numpy_dtype(dtype)))


def _finished(made: Any, wanted: bool, device: Device) -> Any:
    if device is not None and devices.device(device).type != "cpu":
        raise NotImplementedError(
            f"a sparse tensor was asked for on {device}: sparse layouts are kept in the CPU's memory. Use device='cpu'."
        )
    if wanted and made._node is None:
        set_requires_grad(made, True)
    return made


def sparse_coo_tensor(
    indices: TensorLike | Sequence[Any] | None = None,
    values: TensorLike | Sequence[Any] | None = None,
    size: Shape | None = None,
    *,
    dtype: Dtype = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor with `values[k]` at the place `indices[:, k]`, and zeros elsewhere; what a place is given twice adds up.

    Values of more dimensions make a hybrid tensor: an entry is then a dense block. With a size alone, a tensor without
    entries.

    >>> import ndgrad
    >>> v = ndgrad.tensor([3.0, 4.0], requires_grad=True)
    >>> x = ndgrad.sparse_coo_tensor([[0, 1], [2, 0]], v, (2, 3))
    >>> (x @ ndgrad.tensor([1.0, 10.0, 100.0])).sum().backward()
    >>> v.grad
    tensor([100.,   1.])
    """
    room = _room()
    name = "sparse_coo_tensor"
    if values is None:
        shape = as_shape((size if indices is None else indices,))
        kind = dtypes.as_numpy_dtype(dtypes.get_default_dtype() if dtype is None else dtype)
        return _finished(room.zeros(shape, "sparse_coo", kind), requires_grad, device)
    places = _indices_of(name, "indices", indices)
    numbers = _values_from(values, dtype)
    if places.ndim == 1 and not places.size:
        places = places.reshape(1, 0)
    elif places.ndim == 1 and size is not None:
        places = places.reshape(-1, 1)
    if places.ndim != 2:
        raise RuntimeError(
            f"{name}(): indices must be sparse_dim x nnz, and have shape {places.shape}: one row per sparse dimension."
        )
    if numbers.ndim == 0:
        numbers = ops.expand(numbers, shape=(places.shape[1],)) if places.shape[1] == 1 else numbers
    if not numbers.ndim or numbers.shape[0] != places.shape[1]:
        raise RuntimeError(
            f"{name}(): indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, nnz from "
            f"values: {numbers.shape[0] if numbers.ndim else 1}."
        )
    inner = tuple(numbers.shape[1:])
    if size is None:
        lengths = places.max(axis=1) + 1 if places.size else np.zeros(places.shape[0], np.int64)
        shape = (*map(int, lengths), *inner)
    else:
        shape = as_shape((size,))
    _check_coo(name, places, inner, shape)
    structure = Coo(places, shape, bool(is_coalesced))
    if is_coalesced and places.shape[1] > 1 and not (np.diff(structure.keys) > 0).all():
        raise RuntimeError(
            f"{name}(): is_coalesced=True, and the {places.shape[1]} indices are not in order, or a place is named "
            "twice. Leave it out, and call coalesce()."
        )
    return _finished(room.build(numbers, structure), requires_grad, device)


def without_entries(shape: tuple[int, ...], layout: devices.layout, dtype: Any, device: Device, wanted: bool) -> Tensor:
    """A sparse tensor of zeros: what `zeros(..., layout=)` makes."""
    return _finished(_room().zeros(shape, str(layout).rpartition(".")[2], dtype), wanted, device)


def _check_coo(name: str, places: Any, inner: tuple[int, ...], shape: tuple[int, ...]) -> None:
    sparse_dim = places.shape[0]
    if len(shape) != sparse_dim + len(inner):
        raise RuntimeError(
            f"{name}(): 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {len(inner)}."
        )
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{name}(): a size is negative: {shape}.")
    if shape[sparse_dim:] != inner:
        raise RuntimeError(
            f"{name}(): values has incorrect size, expected {[places.shape[1], *shape[sparse_dim:]]}, got "
            f"{[places.shape[1], *inner]}."
        )
    for d in range(sparse_dim):
        line = places[d]
        if line.size and line.min() < 0:
            raise RuntimeError(f"{name}(): found negative index {line.min()} for dim {d}. Indices count from 0.")
        if line.size and line.max() >= shape[d]:
            raise RuntimeError(
                f"{name}(): size is inconsistent with indices: for dim {d}, size is {shape[d]} but found index "
                f"{line.max()}."
            )


def sparse_compressed_tensor(
    compressed_indices: TensorLike | Sequence[Any],
    plain_indices: TensorLike | Sequence[Any],
    values: TensorLike | Sequence[Any],
    size: Shape | None = None,
    *,
    dtype: Dtype = None,
    layout: Layout = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A tensor in the compressed layout `layout`: entries row by row (csr, bsr) or column by column (csc, bsc).

    >>> import ndgrad
    >>> ndgrad.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=ndgrad.sparse_csr).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    kind = str(layout).rpartition(".")[2]
    if kind not in _COMPRESSED:
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout!r}. "
            f"Give one of {', '.join(_COMPRESSED)}."
        )
    return _compressed_tensor(kind, compressed_indices, plain_indices, values, size, dtype, device, requires_grad)


def _compressed_tensor(
    layout: str, pointers: Any, others: Any, values: Any, size: Any, dtype: Dtype, device: Device, wanted: bool
) -> Any:
    name = f"{layout}_tensor"
    first, second = NAMES[layout][:2]
    starts, inner = _indices_of(name, first, pointers), _indices_of(name, second, others)
    numbers = _values_from(values, dtype)
    batch = starts.ndim - 1
    block = 2 if layout in BLOCKED else 0
    if starts.ndim < 1 or inner.ndim != starts.ndim or numbers.ndim < inner.ndim + block:
        raise RuntimeError(
            f"{name}(): the dimensions do not fit: {first} has {starts.ndim}, {second} {inner.ndim}, values "
            f"{numbers.ndim}. "
            f"Give as many batch dimensions to each, and values{' in blocks of two dimensions' if block else ''}."
        )
    if tuple(numbers.shape[: batch + 1]) != inner.shape or starts.shape[:-1] != inner.shape[:-1]:
        raise RuntimeError(
            f"{name}(): {second} of shape {inner.shape} and values of shape {tuple(numbers.shape)} must agree in batch "
            f"and number of entries, and {first} of shape {starts.shape} in batch."
        )
    height, width = (int(n) for n in numbers.shape[batch + 1 : batch + 3]) if block else (1, 1)
    dense = tuple(numbers.shape[batch + 1 + block :])
    by_rows = layout in ("sparse_csr", "sparse_bsr")
    if size is None:
        most = int(inner.max()) + 1 if inner.size else 0
        rows, columns = (starts.shape[-1] - 1, most) if by_rows else (most, starts.shape[-1] - 1)
        shape = (*starts.shape[:-1], rows * height, columns * width, *dense)
    else:
        shape = tuple(int(n) for n in size)
    if len(shape) != batch + 2 + len(dense) or shape[:batch] != starts.shape[:-1] or shape[batch + 2 :] != dense:
        raise RuntimeError(
            f"{name}(): the size {shape} does not fit {first} of shape {starts.shape} and values of shape "
            f"{tuple(numbers.shape)}: batch, rows, columns, dense dimensions."
        )
    if shape[batch] % max(height, 1) or shape[batch + 1] % max(width, 1):
        raise RuntimeError(f"{name}(): the size {shape} is not divisible by the size of blocks, ({height}, {width}).")
    down, across = shape[batch] // max(height, 1), shape[batch + 1] // max(width, 1)
    outers, inners = (down, across) if by_rows else (across, down)
    _check_compressed(name, layout, starts, inner, outers, inners)
    structure = Compressed(layout, starts, inner, shape, tuple(numbers.shape))
    return _finished(_room().build(numbers, structure), wanted, device)


def _check_compressed(name: str, layout: str, starts: Any, inner: Any, outers: int, inners: int) -> None:
    first, second, outer_name, inner_name = NAMES[layout]
    if starts.shape[-1] != outers + 1:
        raise RuntimeError(
            f"{name}(): `{first}.shape[-1] == {outer_name} + 1` is not satisfied: it is {starts.shape[-1]}, for "
            f"{outers} {outer_name[1:]}."
        )
    if (starts[..., 0] != 0).any():
        raise RuntimeError(f"{name}(): `{first}[..., 0] == 0` is not satisfied.")
    if (starts[..., -1] != inner.shape[-1]).any():
        raise RuntimeError(f"{name}(): `{first}[..., -1] == nnz` is not satisfied: nnz is {inner.shape[-1]}.")
    if (np.diff(starts, axis=-1) < 0).any():
        raise RuntimeError(f"{name}(): `{first}` must not decrease along its last dimension.")
    if inner.size and (inner.min() < 0 or inner.max() >= inners):
        raise RuntimeError(
            f"{name}(): `0 <= {second} < {inner_name}` is not satisfied: they run from {inner.min()} to {inner.max()}, "
            f"and {inner_name} is {inners}."
        )
    lead = starts.reshape(-1, starts.shape[-1])
    for pointers, line in zip(lead, inner.reshape(lead.shape[0], -1), strict=True):
        rising = np.diff(line) > 0
        rising[pointers[1:-1][(pointers[1:-1] > 0) & (pointers[1:-1] < line.size)] - 1] = True  # where a row begins
        if not rising.all():
            raise RuntimeError(
                f"{name}(): `{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {outer_name} are "
                "sorted and distinct along the last dimension values` is not satisfied."
            )


def sparse_csr_tensor(
    crow_indices: TensorLike | Sequence[Any], col_indices: TensorLike | Sequence[Any],
    values: TensorLike | Sequence[Any], size: Shape | None = None, *,
    dtype: Dtype = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix row by row: row i has the entries from `crow_indices[i]` up to `crow_indices[i + 1]`.

    >>> import ndgrad
    >>> ndgrad.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    return _compressed_tensor("sparse_csr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_csc_tensor(
    ccol_indices: TensorLike | Sequence[Any], row_indices: TensorLike | Sequence[Any],
    values: TensorLike | Sequence[Any], size: Shape | None = None, *,
    dtype: Dtype = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix column by column.

    >>> import ndgrad
    >>> ndgrad.sparse_csc_tensor([0, 1, 2], [1, 0], [3.0, 4.0]).to_dense()
    tensor([[0., 4.],
            [3., 0.]])
    """
    return _compressed_tensor("sparse_csc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


def sparse_bsr_tensor(
    crow_indices: TensorLike | Sequence[Any], col_indices: TensorLike | Sequence[Any],
    values: TensorLike | Sequence[Any], size: Shape | None = None, *,
    dtype: Dtype = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix of blocks, row of blocks by row of blocks.

    >>> import ndgrad
    >>> ndgrad.sparse_bsr_tensor([0, 1], [1], ndgrad.ones(1, 1, 2), (1, 4)).to_dense()
    tensor([[0., 0., 1., 1.]])
    """
    return _compressed_tensor("sparse_bsr", crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_bsc_tensor(
    ccol_indices: TensorLike | Sequence[Any], row_indices: TensorLike | Sequence[Any],
    values: TensorLike | Sequence[Any], size: Shape | None = None, *,
    dtype: Dtype = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix of blocks, column of blocks by column of blocks.

    >>> import ndgrad
    >>> ndgrad.sparse_bsc_tensor([0, 1], [1], ndgrad.ones(1, 1, 2), (2, 2)).to_dense()
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _compressed_tensor("sparse_bsc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


class check_sparse_tensor_invariants:
    """torch's switch for checks of structures, as a block, a decorator or `enable()`. Here they are always made, so
    that it only remembers what it was told.

    >>> import ndgrad
    >>> with ndgrad.sparse.check_sparse_tensor_invariants():
    ...     ndgrad.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    _told = False

    def __init__(self, enable: bool = True) -> None:
        self.wanted, self.before = enable, False

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants._told

    @staticmethod
    def enable() -> None:
        check_sparse_tensor_invariants._told = True

    @staticmethod
    def disable() -> None:
        check_sparse_tensor_invariants._told = False

    def __enter__(self) -> None:
        self.before = self.is_enabled()
        check_sparse_tensor_invariants._told = self.wanted

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        check_sparse_tensor_invariants._told = self.before

    def __call__(self, function: Any) -> Any:
        import functools  # a decorator's own need

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.wanted):
                return function(*args, **kwargs)

        return checked


# ----- converting -----------------------------------------------------------------------------------------------------


def _from_dense(x: Any, layout: str, sparse_dim: int | None, block: Any, dense_dim: int | None) -> Any:
    """The elements of a dense tensor that are not zero, with the values' history."""
    room = _room()
    full = np.asarray(_plain_values(x))
    if layout == "sparse_coo":
        count = x.ndim if sparse_dim is None else sparse_dim
        if not 0 <= count <= x.ndim or (count == 0 and x.ndim):
            raise RuntimeError(
                f"to_sparse(): sparse_dim argument must be in [{min(x.ndim, 1)},{x.ndim}] range, but {count} is given."
            )
        inner = tuple(range(count, x.ndim))
        places = (
            np.stack(np.nonzero((full != 0).any(axis=inner) if inner else full != 0)) if count else np.zeros((0, 1))
        )
        structure: Structure = Coo(places.astype(np.int64), tuple(x.shape), True)
        return room.build(room.at(x, structure), structure)
    inner_count = dense_dim or 0
    batch = x.ndim - 2 - inner_count
    if batch < 0:
        raise RuntimeError(
            f"to_{layout}(): a tensor of shape {tuple(x.shape)} has too few dimensions for {inner_count} dense ones "
            "beside rows and columns."
        )
    height, width = (1, 1) if block is None else _block(layout, block, x, batch)
    inner = tuple(range(batch + 2, x.ndim))
    mask = (full != 0).any(axis=inner) if inner else full != 0
    if (height, width) != (1, 1):
        rows, columns = mask.shape[-2:]
        cut = mask.reshape(*mask.shape[:-2], rows // height, height, columns // width, width)
        mask = np.broadcast_to(cut.any(axis=(-3, -1), keepdims=True), cut.shape).reshape(mask.shape)
    if batch:  # every matrix of a batch has the same number of entries: places that any of them has
        same = mask.reshape(-1, *mask.shape[batch:]).sum(axis=(1, 2))
        if (same != same[0]).any():
            mask = np.broadcast_to(mask.any(axis=tuple(range(batch)), keepdims=True), mask.shape)
    kept = Coo(np.stack(np.nonzero(mask)).astype(np.int64), tuple(x.shape), True)
    structure, source = compress(kept, layout, (height, width), batch)
    flat = room.at(x, kept)
    return room.build(room.picked(flat, np.maximum(source, 0), source >= 0), structure)


def _plain_values(x: Any) -> Any:
    from ndgrad.storage import batch_dims, memory_of  # beside their only use

    if batch_dims(x):
        raise RuntimeError(
            "vmap: to_sparse() of a batched tensor: which elements are zero differs from one sample to the next. "
            "Convert outside of vmap, or use sparse_mask()."
        )
    return memory_of(x)


def _block(layout: str, block: Any, x: Any, batch: int) -> tuple[int, int]:
    height, width = int(block[0]), int(block[1])
    rows, columns = x.shape[batch], x.shape[batch + 1]
    if height < 1 or width < 1 or rows % height or columns % width:
        raise RuntimeError(
            f"to_{layout}(): tensor sparse size ({rows},{columns}) must be divisible by given blocksize "
            f"({height},{width})."
        )
    return height, width


def _converted(
    self: Any, layout: str, sparse_dim: int | None = None, block: Any = None, dense_dim: int | None = None
) -> Any:
    room = _room()
    if layout in BLOCKED and block is None and _layout(self) != layout:
        raise RuntimeError(f"to_{layout}(): blocksize is needed, the rows and columns of a block: blocksize=(2, 2).")
    if not room.is_sparse(self):
        return _from_dense(self, layout, sparse_dim, block, dense_dim)
    structure = self.structure
    if layout == "sparse_coo":
        made = room.coo(self)
        if sparse_dim is not None and sparse_dim != made.structure.sparse_dim:
            if not 0 < sparse_dim <= self.ndim:
                raise RuntimeError(
                    f"to_sparse(): sparse_dim argument must be in [1,{self.ndim}] range, but {sparse_dim} is given."
                )
            made = room.with_sparse_dim(room.coalesced(made), sparse_dim)
        return made
    batch = len(structure.place_shape) - 2
    if batch < 0:
        raise RuntimeError(
            f"to_{layout}(): a {structure.layout} tensor of shape {tuple(self.shape)} with {structure.sparse_dim} "
            "sparse dimensions has no rows and columns. Only matrices can be compressed."
        )
    size = (1, 1) if block is None else _block(layout, block, self, batch)
    if structure.layout == layout and (block is None or tuple(structure.block) == size):
        return self
    return room.compressed(self, layout, size, batch)


def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Layout = None, blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The elements that are not zero, as a sparse tensor: coo, or `layout`. Later dimensions than `sparse_dim` stay
    dense.

    >>> import ndgrad
    >>> ndgrad.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=ndgrad.sparse_coo)
    """
    kind = "sparse_coo" if layout is None else str(layout).rpartition(".")[2]
    if kind == "strided":
        raise RuntimeError("to_sparse(): the layout strided is dense. Use to_dense().")
    return _converted(self, kind, sparse_dim, blocksize, dense_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor by coordinates.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().to_sparse_coo().indices()
    tensor([[0, 1],
            [0, 1]])
    """
    return _converted(self, "sparse_coo")


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor, of rows and columns, in the layout csr.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _converted(self, "sparse_csr", None, None, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor, of rows and columns, in the layout csc.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
    """
    return _converted(self, "sparse_csc", None, None, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The tensor in blocks, row of blocks by row of blocks.

    >>> import ndgrad
    >>> ndgrad.eye(4).to_sparse_bsr((2, 2)).values().shape
    ndgrad.Size([2, 2, 2])
    """
    return _converted(self, "sparse_bsr", None, blocksize, dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The tensor in blocks, column of blocks by column of blocks.

    >>> import ndgrad
    >>> ndgrad.eye(4).to_sparse_bsc((2, 2)).row_indices()
    tensor([0, 1])
    """
    return _converted(self, "sparse_bsc", None, blocksize, dense_dim)


def to_dense(self: Tensor, dtype: Dtype = None, *, masked_grad: bool | None = None) -> Tensor:
    """The full tensor. With `masked_grad=False`, its gradient goes to all places of the sparse one, not to those of its
    entries alone.

    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)).to_dense()
    tensor([3., 0.])
    """
    room = _room()
    if not room.is_sparse(self):
        return self if dtype is None else self.to(dtype)
    made: Any
    if masked_grad is False and not room.carries(self):  # inside transforms values carry their derivatives themselves
        made = room.applied(room.ToDenseUnmasked, self)
    else:
        made = room.dense(self)
    return made if dtype is None else made.to(dtype)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places of a sparse tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(ndgrad.eye(2).to_sparse()).values()
    tensor([1., 4.])
    """
    room = _room()
    if not room.is_sparse(mask):
        raise NotImplementedError(
            f"sparse_mask(): the mask must be sparse, and has layout {_layout(mask)}. Use to_sparse()."
        )
    if tuple(mask.shape) != tuple(self.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}."
        )
    structure = _structure(mask)
    return room.build(room.at(self, structure), structure)


# ----- what a sparse tensor consists of -------------------------------------------------------------------------------


def _need(self: Any, name: str, layouts: tuple[str, ...], what: str) -> Any:
    have = _layout(self)
    if have not in layouts:
        raise RuntimeError(
            f"{name} expected {what} but got {have} (shape {tuple(self.shape)}). Convert with to_{layouts[0]}() first."
        )
    return self.structure


_COO = ("sparse_coo",)
_ROWS, _COLUMNS = ("sparse_csr", "sparse_bsr"), ("sparse_csc", "sparse_bsc")


def coalesce(self: Tensor) -> Tensor:
    """A coo tensor with each place named once, in order; the tensor itself if it is so already.

    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[1, 1]], [2.0, 3.0]).coalesce().values()
    tensor([5.])
    """
    _need(self, "coalesce", _COO, "sparse coordinate tensor layout")
    return _room().coalesced(self)


def is_coalesced(self: Tensor) -> bool:
    """Whether a coo tensor is known to name each place once, in order.

    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[1, 1]], [2.0, 3.0]).is_coalesced()
    False
    """
    return bool(_need(self, "is_coalesced", _COO, "sparse coordinate tensor layout").coalesced)


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Let a coo tensor be taken for coalesced, or not; whether it is one is checked."""
    structure = _need(self, "_coalesced_", _COO, "sparse coordinate tensor layout")
    if coalesced and structure.count > 1 and not (np.diff(structure.keys) > 0).all():
        raise RuntimeError(
            "_coalesced_(True): a place is named twice, or the indices are not in order. Use coalesce()."
        )
    made = Coo(structure.coordinates, structure.shape, coalesced)
    self._array = type(self._array)(made, self._array.values)
    return self


def indices(self: Tensor) -> Tensor:
    """The places of a coalesced coo tensor: a row per sparse dimension, a column per entry.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 5.0]).to_sparse().indices()
    tensor([[1]])
    """
    structure = _need(self, "indices", _COO, "sparse coordinate tensor layout")
    if not structure.coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first "
            f"(shape {tuple(self.shape)}, {structure.count} entries)."
        )
    return _fixed(structure.coordinates)


def values(self: Tensor) -> Tensor:
    """The values of a sparse tensor, over the same memory; a coo tensor must be coalesced.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 5.0]).to_sparse().values()
    tensor([5.])
    """
    structure = _need(self, "values", ("sparse_coo", *_COMPRESSED), "sparse tensor layout")
    if not structure.coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first "
            f"(shape {tuple(self.shape)}, {structure.count} entries)."
        )
    return _room().values_of(self)


def _indices(self: Tensor) -> Tensor:
    """The places of the entries of a coo tensor, coalesced or not."""
    return _fixed(_need(self, "_indices", _COO, "sparse coordinate tensor layout").coordinates)


def _values(self: Tensor) -> Tensor:
    """The values of the entries of a coo tensor, coalesced or not, outside of the graph."""
    _need(self, "_values", _COO, "sparse coordinate tensor layout")
    if _room().carries(self):
        return _room().data_of(self).values.detach()
    made: Tensor = wrap(Tensor, _room().data_of(self).values)
    made._storage = storage_of(self)
    return made


def _nnz(self: Tensor) -> int:
    """The number of entries (of blocks; of a batch, per matrix)."""
    structure = _need(self, "_nnz", ("sparse_coo", *_COMPRESSED), "sparse tensor layout")
    return int(structure.values_shape[len(getattr(structure, "batch", ()))])


def _fixed(places: Any) -> Tensor:
    """Indices as a tensor that cannot be written: a structure never changes."""
    view = places.view()
    view.flags.writeable = False
    made: Tensor = wrap(Tensor, view)
    return made


def crow_indices(self: Tensor) -> Tensor:
    """Where the rows of a csr or bsr tensor begin.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _fixed(_need(self, "crow_indices", _ROWS, "sparse row compressed tensor layout").pointers)


def col_indices(self: Tensor) -> Tensor:
    """The columns of the entries of a csr or bsr tensor.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().col_indices()
    tensor([0, 1])
    """
    return _fixed(_need(self, "col_indices", _ROWS, "sparse row compressed tensor layout").others)


def ccol_indices(self: Tensor) -> Tensor:
    """Where the columns of a csc or bsc tensor begin.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
    """
    return _fixed(_need(self, "ccol_indices", _COLUMNS, "sparse column compressed tensor layout").pointers)


def row_indices(self: Tensor) -> Tensor:
    """The rows of the entries of a csc or bsc tensor.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csc().row_indices()
    tensor([0, 1])
    """
    return _fixed(_need(self, "row_indices", _COLUMNS, "sparse column compressed tensor layout").others)


def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).to_sparse(1).sparse_dim(), ndgrad.ones(2, 3).sparse_dim()
    (1, 0)
    """
    return 0 if _layout(self) == "strided" else int(_structure(self).sparse_dim)


def dense_dim(self: Tensor) -> int:
    """The number of dense dimensions.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).to_sparse(1).dense_dim(), ndgrad.ones(2, 3).dense_dim()
    (1, 2)
    """
    return self.ndim if _layout(self) == "strided" else int(_structure(self).dense_dim)


def parts_of(t: Any) -> tuple[Any, ...]:
    """What a file keeps of a sparse tensor: as in torch's files, indices, values, size, and of a coo tensor whether it
    is coalesced."""
    structure, numbers = t.structure, wrap(Tensor, _room().data_of(t).values)
    if isinstance(structure, Compressed):
        return wrap(Tensor, structure.pointers), wrap(Tensor, structure.others), numbers, t.shape
    return wrap(Tensor, structure.coordinates), numbers, t.shape, structure.coalesced


def from_parts(layout: devices.layout, parts: tuple[Any, ...]) -> Tensor:
    """The sparse tensor that a file has in parts, checked like any other."""
    if layout is devices.sparse_coo:
        places, numbers, size, *known = parts
        return sparse_coo_tensor(places, numbers, tuple(size), is_coalesced=bool(known and known[0]))
    pointers, others, numbers, size = parts
    return sparse_compressed_tensor(pointers, others, numbers, tuple(size), layout=layout)


# ----- other sizes ----------------------------------------------------------------------------------------------------


def _resized(self: Any, name: str, size: Shape, sparse_dim: int, dense_dim: int, clear: bool) -> Any:
    structure = _need(self, name, _COO, "sparse coordinate tensor layout")
    shape = as_shape((size,))
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"{name}(): 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}."
        )
    if requires_grad(self):
        raise RuntimeError(f"{name}(): a tensor that requires grad cannot change its size in place. detach() it first.")
    room = _room()
    data = room.data_of(self)
    if clear or not structure.count:
        new = room.zeros(shape, "sparse_coo", data.dtype, sparse_dim)._array
    else:
        if (sparse_dim, dense_dim) != (structure.sparse_dim, structure.dense_dim):
            raise RuntimeError(
                f"{name}(): changing the number of sparse or dense dimensions (from {structure.sparse_dim} and "
                f"{structure.dense_dim} to {sparse_dim} and {dense_dim}) on a non-empty sparse tensor is not supported."
            )
        before = structure.shape
        if any(a < b for a, b in zip(shape[:sparse_dim], before[:sparse_dim], strict=True)):
            raise RuntimeError(
                f"{name}(): shrinking the size of sparse dimensions (from {list(before[:sparse_dim])} to "
                f"{list(shape[:sparse_dim])}) on a non-empty sparse tensor is not supported."
            )
        if any(a < b for a, b in zip(shape[sparse_dim:], before[sparse_dim:], strict=True)):
            raise RuntimeError(
                f"{name}(): shrinking the size of dense dimensions (from {list(before[sparse_dim:])} to "
                f"{list(shape[sparse_dim:])}) on a non-empty sparse tensor is not supported."
            )
        values = np.zeros((structure.count, *shape[sparse_dim:]), data.dtype)
        values[(slice(None), *(slice(n) for n in before[sparse_dim:]))] = data.values
        new = type(data)(Coo(structure.coordinates, shape, structure.coalesced), values)
    self._array, self._storage = new, None  # other memory
    return self


def sparse_resize_(self: Tensor, size: Shape, sparse_dim: int, dense_dim: int) -> Tensor:
    """Give a coo tensor another size, in place; its entries stay.

    >>> import ndgrad
    >>> ndgrad.ones(2).to_sparse().sparse_resize_((3,), 1, 0).to_dense()
    tensor([1., 1., 0.])
    """
    return _resized(self, "sparse_resize_", size, sparse_dim, dense_dim, False)


def sparse_resize_and_clear_(self: Tensor, size: Shape, sparse_dim: int, dense_dim: int) -> Tensor:
    """Give a coo tensor another size and no entries, in place.

    >>> import ndgrad
    >>> ndgrad.ones(2).to_sparse().sparse_resize_and_clear_((3,), 1, 0)._nnz()
    0
    """
    return _resized(self, "sparse_resize_and_clear_", size, sparse_dim, dense_dim, True)


def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """Give a coo tensor the size of another, in place.

    >>> import ndgrad
    >>> ndgrad.ones(2).to_sparse().resize_as_sparse_(ndgrad.ones(3).to_sparse()).shape
    ndgrad.Size([3])
    """
    if _layout(self) != _layout(the_template):
        raise RuntimeError(
            f"resize_as_sparse_(): the layouts differ: {_layout(self)} and {_layout(the_template)}. Convert one of "
            "them."
        )
    if _layout(self) != "sparse_coo" and tuple(self.shape) == tuple(the_template.shape):
        return self
    return _resized(
        self, "resize_as_sparse_", tuple(the_template.shape), sparse_dim(the_template), dense_dim(the_template), False
    )


# ----- products that torch names apart --------------------------------------------------------------------------------


def smm(self: Tensor, mat: Tensor) -> Tensor:
    """A sparse matrix times a dense one, as a sparse tensor.

    >>> import ndgrad
    >>> ndgrad.smm(ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    return _room().HANDLERS["smm"](self, mat)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """torch's older name of `mm`, for a sparse matrix and a dense one.

    >>> import ndgrad
    >>> ndgrad.spmm(ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return mm(input, mat2)


def hspmm(mat1: Tensor, mat2: Tensor, *, out: None = None) -> Tensor:
    """A sparse matrix times a dense one, as a hybrid tensor: a row for each row that has entries.

    >>> import ndgrad
    >>> ndgrad.hspmm(ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 1)).values()
    tensor([[1.],
            [1.]])
    """
    return _room().HANDLERS["hspmm"](mat1, mat2)


def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: None = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), sparse like the input.

    >>> import ndgrad
    >>> eye = ndgrad.eye(2).to_sparse()
    >>> ndgrad.sspaddmm(eye, eye, ndgrad.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return _room().HANDLERS["sspaddmm"](input, mat1, mat2, beta=beta, alpha=alpha)


# ----- copies of what they consist of ---------------------------------------------------------------------------------


def indices_copy(input: Tensor) -> Tensor:
    """A copy of `indices()`.

    >>> import ndgrad
    >>> ndgrad.indices_copy(ndgrad.eye(2).to_sparse())
    tensor([[0, 1],
            [0, 1]])
    """
    return indices(input).clone()


def values_copy(input: Tensor) -> Tensor:
    """A copy of `values()`, in the graph.

    >>> import ndgrad
    >>> ndgrad.values_copy(ndgrad.eye(2).to_sparse())
    tensor([1., 1.])
    """
    return values(input).clone()


def crow_indices_copy(input: Tensor) -> Tensor:
    """A copy of `crow_indices()`.

    >>> import ndgrad
    >>> ndgrad.crow_indices_copy(ndgrad.eye(2).to_sparse_csr())
    tensor([0, 1, 2])
    """
    return crow_indices(input).clone()


def col_indices_copy(input: Tensor) -> Tensor:
    """A copy of `col_indices()`.

    >>> import ndgrad
    >>> ndgrad.col_indices_copy(ndgrad.eye(2).to_sparse_csr())
    tensor([0, 1])
    """
    return col_indices(input).clone()


def ccol_indices_copy(input: Tensor) -> Tensor:
    """A copy of `ccol_indices()`.

    >>> import ndgrad
    >>> ndgrad.ccol_indices_copy(ndgrad.eye(2).to_sparse_csc())
    tensor([0, 1, 2])
    """
    return ccol_indices(input).clone()


def row_indices_copy(input: Tensor) -> Tensor:
    """A copy of `row_indices()`.

    >>> import ndgrad
    >>> ndgrad.row_indices_copy(ndgrad.eye(2).to_sparse_csc())
    tensor([0, 1])
    """
    return row_indices(input).clone()
