"""Construction and conversion of sparse tensors, under torch's names. Their parts are in sparse_parts.

Structures are checked at every construction (torch checks on demand), because a wrong index would give a wrong result
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.sparse import BLOCKED, NAMES, Compressed, Coo, Structure, compress
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_shape
from ndgrad._src.tensor.checks import set_requires_grad
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgrad._typing import Device, Dtype, Layout, Payload, Shape, TensorLike

__all__ = [
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
    "sparse_csr_tensor",
]  # fmt: skip
METHODS = (
    "sparse_mask", "to_dense", "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc",
    "to_sparse_csr",
)  # fmt: skip

_COMPRESSED = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _load_sparse() -> Any:
    """Return the module of sparse tensors, after loading the table of their public functions."""
    import ndgrad.sparse  # noqa: F401  # imports the public functions; fills the table
    from ndgrad.sparse import tensor  # the module itself

    return tensor


def _structure(t: Any) -> Structure:
    """Return the structure of a sparse tensor: the positions of its entries."""
    found: Structure = t.structure
    return found


def _layout(t: Tensor) -> str:
    return str(t.layout).rpartition(".")[2]


# ----- making ---------------------------------------------------------------------------------------------------------


def _indices_of(name: str, argument: str, value: object) -> Any:
    """Return indices as a NumPy array of int64; compressed layouts may have int32."""
    array = np.asarray(value.detach()._array if isinstance(value, Variable) else value)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and array.size and (array != np.floor(array)).any()):
        raise TypeError(
            f"{name}(): {argument} must be integers, but are {array.dtype}. Convert them with .long(). [nd-dtype]"
        )
    return array.astype(np.int32 if array.dtype == np.int32 and "coo" not in name else np.int64)  # a copy


def _values_from(values: Any, dtype: Dtype) -> Any:
    from ndgrad._src.tensor.functions.data import as_tensor, tensor  # imported on first use

    made: Any = as_tensor(values) if isinstance(values, Variable) else tensor(values)
    if _layout(made) != "strided":
        raise TypeError(
            f"the values of a sparse tensor must be dense, but have layout {_layout(made)}. Use to_dense(). [nd-sparse]"
        )
    return made if dtype is None else made.to(dtypes.as_dtype(dtypes.as_numpy_dtype(dtype)))


def _finish(made: Any, wanted: bool, device: Device) -> Any:
    if device is not None and devices.device(device).type != "cpu":
        raise NotImplementedError(
            f"a sparse tensor was requested on {device}, but sparse layouts are kept in the CPU's memory. "
            "Use device='cpu'. [nd-device]"
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
    """A tensor with `values[k]` at the position `indices[:, k]`, and zeros elsewhere; repeated positions add up.

    Values of higher rank make a hybrid tensor, whose entries are dense blocks. A size alone gives a tensor without
    entries.

    Args:
        indices: integers of shape (sparse dimensions, entries). Without `values` this argument is the size.
        values: entries of shape (entries, ...).
        size: shape of the result. The default is the smallest that fits.
        dtype: dtype of the entries. The default is that of `values`.
        device: None or the CPU.
        pin_memory: accepted as in torch; has no effect here.
        requires_grad: whether autograd records operations on the result.
        check_invariants: accepted as in torch; has no effect here, because indices are always checked.
        is_coalesced: whether positions are unique and in order. A wrong True raises.

    >>> import ndgrad
    >>> v = ndgrad.tensor([3.0, 4.0], requires_grad=True)
    >>> x = ndgrad.sparse_coo_tensor([[0, 1], [2, 0]], v, (2, 3))
    >>> (x @ ndgrad.tensor([1.0, 10.0, 100.0])).sum().backward()
    >>> v.grad
    tensor([100.,   1.])
    """
    sparse = _load_sparse()
    name = "sparse_coo_tensor"
    if values is None:
        shape = as_shape((size if indices is None else indices,))
        kind = dtypes.as_numpy_dtype(dtypes.get_default_dtype() if dtype is None else dtype)
        return _finish(sparse.zeros(shape, "sparse_coo", kind), requires_grad, device)
    places = _indices_of(name, "indices", indices)
    numbers = _values_from(values, dtype)
    if places.ndim == 1 and not places.size:
        places = places.reshape(1, 0)
    elif places.ndim == 1 and size is not None:
        places = places.reshape(-1, 1)
    if places.ndim != 2:
        raise RuntimeError(
            f"{name}(): indices must be sparse_dim x nnz, but have shape {places.shape}: one row per sparse dimension. "
            "[nd-sparse-parts]"
        )
    if numbers.ndim == 0:
        numbers = ops.expand(numbers, shape=(places.shape[1],)) if places.shape[1] == 1 else numbers
    if not numbers.ndim or numbers.shape[0] != places.shape[1]:
        raise RuntimeError(
            f"{name}(): indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, nnz from "
            f"values: {numbers.shape[0] if numbers.ndim else 1}. [nd-sparse-parts]"
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
            f"{name}(): is_coalesced=True, but the {places.shape[1]} indices are not in order, or a position is named "
            "twice. Leave it out, and call coalesce(). [nd-sparse-parts]"
        )
    return _finish(sparse.build(numbers, structure), requires_grad, device)


def make_zeros(shape: tuple[int, ...], layout: devices.layout, dtype: Dtype, device: Device, wanted: bool) -> Tensor:
    """Return a sparse tensor of zeros, for `zeros(..., layout=)`."""
    return _finish(_load_sparse().zeros(shape, str(layout).rpartition(".")[2], dtype), wanted, device)


def _check_coo(name: str, places: Any, inner: tuple[int, ...], shape: tuple[int, ...]) -> None:
    sparse_dim = places.shape[0]
    if len(shape) != sparse_dim + len(inner):
        raise RuntimeError(
            f"{name}(): 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {len(inner)}. [nd-sparse-parts]"
        )
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{name}(): a size is negative: {shape}. [nd-sparse-parts]")
    if shape[sparse_dim:] != inner:
        raise RuntimeError(
            f"{name}(): values has incorrect size, expected {[places.shape[1], *shape[sparse_dim:]]}, got "
            f"{[places.shape[1], *inner]}. [nd-sparse-parts]"
        )
    for d in range(sparse_dim):
        line = places[d]
        if line.size and line.min() < 0:
            raise RuntimeError(
                f"{name}(): found negative index {line.min()} for dim {d}. Indices count from 0. [nd-sparse-parts]"
            )
        if line.size and line.max() >= shape[d]:
            raise RuntimeError(
                f"{name}(): size is inconsistent with indices: for dim {d}, size is {shape[d]} but found index "
                f"{line.max()}. [nd-sparse-parts]"
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

    Args:
        compressed_indices: for each row (csr, bsr) or column (csc, bsc), the number of its first entry, and the number
            of entries at the end.
        plain_indices: column (csr, bsr) or row (csc, bsc) of each entry, increasing within a row or column.
        values: entries, or blocks of shape (height, width) for bsr and bsc.
        size: shape of the result. The default is the smallest that fits.
        dtype: dtype of the entries. The default is that of `values`.
        layout: `ndgrad.sparse_csr`, `ndgrad.sparse_csc`, `ndgrad.sparse_bsr` or `ndgrad.sparse_bsc`.
        device: None or the CPU.
        pin_memory: accepted as in torch; has no effect here.
        requires_grad: whether autograd records operations on the result.
        check_invariants: accepted as in torch; has no effect here, because indices are always checked.

    >>> import ndgrad
    >>> ndgrad.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=ndgrad.sparse_csr).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    kind = str(layout).rpartition(".")[2]
    if kind not in _COMPRESSED:
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout!r}. "
            f"Give one of {', '.join(_COMPRESSED)}. [nd-sparse-parts]"
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
            f"Give as many batch dimensions to each, and values{' in blocks of two dimensions' if block else ''}. "
            "[nd-sparse-parts]"
        )
    if tuple(numbers.shape[: batch + 1]) != inner.shape or starts.shape[:-1] != inner.shape[:-1]:
        raise RuntimeError(
            f"{name}(): {second} of shape {inner.shape} and values of shape {tuple(numbers.shape)} must agree in batch "
            f"and number of entries, and {first} of shape {starts.shape} in batch. [nd-sparse-parts]"
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
            f"{tuple(numbers.shape)}: batch, rows, columns, dense dimensions. [nd-sparse-parts]"
        )
    if shape[batch] % max(height, 1) or shape[batch + 1] % max(width, 1):
        raise RuntimeError(
            f"{name}(): the size {shape} is not divisible by the size of blocks, ({height}, {width}). [nd-divisible]"
        )
    down, across = shape[batch] // max(height, 1), shape[batch + 1] // max(width, 1)
    outers, inners = (down, across) if by_rows else (across, down)
    _check_compressed(name, layout, starts, inner, outers, inners)
    structure = Compressed(layout, starts, inner, shape, tuple(numbers.shape))
    return _finish(_load_sparse().build(numbers, structure), wanted, device)


def _check_compressed(name: str, layout: str, starts: Any, inner: Any, outers: int, inners: int) -> None:
    first, second, outer_name, inner_name = NAMES[layout]
    if starts.shape[-1] != outers + 1:
        raise RuntimeError(
            f"{name}(): `{first}.shape[-1] == {outer_name} + 1` is not satisfied: it is {starts.shape[-1]}, for "
            f"{outers} {outer_name[1:]}. [nd-sparse-parts]"
        )
    if (starts[..., 0] != 0).any():
        raise RuntimeError(f"{name}(): `{first}[..., 0] == 0` is not satisfied. [nd-sparse-parts]")
    if (starts[..., -1] != inner.shape[-1]).any():
        raise RuntimeError(
            f"{name}(): `{first}[..., -1] == nnz` is not satisfied: nnz is {inner.shape[-1]}. [nd-sparse-parts]"
        )
    if (np.diff(starts, axis=-1) < 0).any():
        raise RuntimeError(f"{name}(): `{first}` must not decrease along its last dimension. [nd-sparse-parts]")
    if inner.size and (inner.min() < 0 or inner.max() >= inners):
        raise RuntimeError(
            f"{name}(): `0 <= {second} < {inner_name}` is not satisfied: they run from {inner.min()} to {inner.max()}, "
            f"and {inner_name} is {inners}. [nd-sparse-parts]"
        )
    lead = starts.reshape(-1, starts.shape[-1])
    for pointers, line in zip(lead, inner.reshape(lead.shape[0], -1), strict=True):
        rising = np.diff(line) > 0
        rising[pointers[1:-1][(pointers[1:-1] > 0) & (pointers[1:-1] < line.size)] - 1] = True  # the start of a row
        if not rising.all():
            raise RuntimeError(
                f"{name}(): `{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {outer_name} are "
                "sorted and distinct along the last dimension values` is not satisfied. [nd-sparse-parts]"
            )


def sparse_csr_tensor(
    crow_indices: TensorLike | Sequence[Any], col_indices: TensorLike | Sequence[Any],
    values: TensorLike | Sequence[Any], size: Shape | None = None, *,
    dtype: Dtype = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix in rows: row i has the entries from `crow_indices[i]` up to `crow_indices[i + 1]`.

    Args:
        crow_indices: for each row, the number of its first entry, and the number of entries at the end.
        col_indices: column of each entry, increasing within a row.
        values: numbers of shape (entries,). Batch dimensions may come first and dense ones last.
        size: shape of the result. The default is the smallest that fits.
        dtype: dtype of the entries. The default is that of `values`.
        device: None or the CPU.
        pin_memory: accepted as in torch; has no effect here.
        requires_grad: whether autograd records operations on the result.
        check_invariants: accepted as in torch; has no effect here, because indices are always checked.

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
    """A matrix in columns.

    Args:
        ccol_indices: for each column, the number of its first entry, and the number of entries at the end.
        row_indices: row of each entry, increasing within a column.
        values: numbers of shape (entries,). Batch dimensions may come first and dense ones last.
        size: shape of the result. The default is the smallest that fits.
        dtype: dtype of the entries. The default is that of `values`.
        device: None or the CPU.
        pin_memory: accepted as in torch; has no effect here.
        requires_grad: whether autograd records operations on the result.
        check_invariants: accepted as in torch; has no effect here, because indices are always checked.

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
    """A matrix of blocks, ordered by rows of blocks.

    Args:
        crow_indices: for each row of blocks, the number of its first entry, and the number of entries at the end.
        col_indices: column of blocks of each entry, increasing within a row of blocks.
        values: blocks of shape (entries, height, width). Batch dimensions may come first and dense ones last.
        size: shape of the result. The default is the smallest that fits.
        dtype: dtype of the entries. The default is that of `values`.
        device: None or the CPU.
        pin_memory: accepted as in torch; has no effect here.
        requires_grad: whether autograd records operations on the result.
        check_invariants: accepted as in torch; has no effect here, because indices are always checked.

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
    """A matrix of blocks, ordered by columns of blocks.

    Args:
        ccol_indices: for each column of blocks, the number of its first entry, and the number of entries at the end.
        row_indices: row of blocks of each entry, increasing within a column of blocks.
        values: blocks of shape (entries, height, width). Batch dimensions may come first and dense ones last.
        size: shape of the result. The default is the smallest that fits.
        dtype: dtype of the entries. The default is that of `values`.
        device: None or the CPU.
        pin_memory: accepted as in torch; has no effect here.
        requires_grad: whether autograd records operations on the result.
        check_invariants: accepted as in torch; has no effect here, because indices are always checked.

    >>> import ndgrad
    >>> ndgrad.sparse_bsc_tensor([0, 1], [1], ndgrad.ones(1, 1, 2), (2, 2)).to_dense()
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _compressed_tensor("sparse_bsc", ccol_indices, row_indices, values, size, dtype, device, requires_grad)


@set_module("ndgrad.sparse")
class check_sparse_tensor_invariants:
    """torch's switch for checks of structures, as a context manager, a decorator or `enable()`. ndgrad always checks,
    so it only stores its setting.

    Args:
        enable: setting within the block or the function.

    >>> import ndgrad
    >>> with ndgrad.sparse.check_sparse_tensor_invariants():
    ...     ndgrad.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.wanted, self.before = enable, False

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self.before = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self.wanted

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        check_sparse_tensor_invariants._enabled = self.before

    def __call__(self, function: Callable[..., Any]) -> Any:
        import functools  # only decorators need it

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.wanted):
                return function(*args, **kwargs)

        return call


# ----- converting -----------------------------------------------------------------------------------------------------


def _from_dense(x: Payload, layout: str, sparse_dim: int | None, block: Any, dense_dim: int | None) -> Any:
    """Return the nonzero elements of a dense tensor, with the values' history."""
    sparse = _load_sparse()
    full = np.asarray(_values_outside_vmap(x))
    if layout == "sparse_coo":
        count = x.ndim if sparse_dim is None else sparse_dim
        if not 0 <= count <= x.ndim or (count == 0 and x.ndim):
            raise RuntimeError(
                f"to_sparse(): sparse_dim argument must be in [{min(x.ndim, 1)},{x.ndim}] range, but {count} is given. "
                "[nd-sparse-parts]"
            )
        inner = tuple(range(count, x.ndim))
        places = (
            np.stack(np.nonzero((full != 0).any(axis=inner) if inner else full != 0)) if count else np.zeros((0, 1))
        )
        structure: Structure = Coo(places.astype(np.int64), tuple(x.shape), True)
        return sparse.build(sparse.sample_at(x, structure), structure)
    inner_count = dense_dim or 0
    batch = x.ndim - 2 - inner_count
    if batch < 0:
        raise RuntimeError(
            f"to_{layout}(): a tensor of shape {tuple(x.shape)} has too few dimensions for {inner_count} dense ones "
            "in addition to rows and columns. [nd-sparse-parts]"
        )
    height, width = (1, 1) if block is None else _block_size(layout, block, x, batch)
    inner = tuple(range(batch + 2, x.ndim))
    mask = (full != 0).any(axis=inner) if inner else full != 0
    if (height, width) != (1, 1):
        rows, columns = mask.shape[-2:]
        cut = mask.reshape(*mask.shape[:-2], rows // height, height, columns // width, width)
        mask = np.broadcast_to(cut.any(axis=(-3, -1), keepdims=True), cut.shape).reshape(mask.shape)
    if batch:  # All matrices of a batch need the same number of entries, so positions are those of any of them.
        same = mask.reshape(-1, *mask.shape[batch:]).sum(axis=(1, 2))
        if (same != same[0]).any():
            mask = np.broadcast_to(mask.any(axis=tuple(range(batch)), keepdims=True), mask.shape)
    kept = Coo(np.stack(np.nonzero(mask)).astype(np.int64), tuple(x.shape), True)
    structure, source = compress(kept, layout, (height, width), batch)
    flat = sparse.sample_at(x, kept)
    return sparse.build(sparse.picked(flat, np.maximum(source, 0), source >= 0), structure)


def _values_outside_vmap(x: Payload) -> Any:
    from ndgrad._src.tensor.storage import batch_dims, memory_of  # used only here

    if batch_dims(x):
        raise RuntimeError(
            "vmap: to_sparse() of a batched tensor: the zero elements differ from one sample to the next. "
            "Convert outside of vmap, or use sparse_mask(). [nd-vmap-value]"
        )
    return memory_of(x)


def _block_size(layout: str, block: Any, x: Payload, batch: int) -> tuple[int, int]:
    height, width = (int(block[0]), int(block[1])) if isinstance(block, (tuple, list)) else (int(block),) * 2
    rows, columns = x.shape[batch], x.shape[batch + 1]
    if height < 1 or width < 1 or rows % height or columns % width:
        raise RuntimeError(
            f"to_{layout}(): tensor sparse size ({rows},{columns}) must be divisible by given blocksize "
            f"({height},{width}). [nd-divisible]"
        )
    return height, width


def _convert(
    self: Any, layout: str, sparse_dim: int | None = None, block: Any = None, dense_dim: int | None = None
) -> Any:
    sparse = _load_sparse()
    if layout in BLOCKED and block is None and _layout(self) != layout:
        raise RuntimeError(
            f"to_{layout}(): blocksize is needed, the rows and columns of a block: blocksize=(2, 2). [nd-arguments]"
        )
    if not sparse.is_sparse(self):
        return _from_dense(self, layout, sparse_dim, block, dense_dim)
    structure = self.structure
    if layout == "sparse_coo":
        made = sparse.coo(self)
        if sparse_dim is not None and sparse_dim != made.structure.sparse_dim:
            if not 0 < sparse_dim <= self.ndim:
                raise RuntimeError(
                    f"to_sparse(): sparse_dim argument must be in [1,{self.ndim}] range, but {sparse_dim} is given. "
                    "[nd-sparse-parts]"
                )
            made = sparse.with_sparse_dim(sparse.coalesced(made), sparse_dim)
        return made
    batch = len(structure.place_shape) - 2
    if batch < 0:
        raise RuntimeError(
            f"to_{layout}(): a {structure.layout} tensor of shape {tuple(self.shape)} with {structure.sparse_dim} "
            "sparse dimensions has no rows and columns. Only matrices can be compressed. [nd-sparse-parts]"
        )
    size = (1, 1) if block is None else _block_size(layout, block, self, batch)
    if structure.layout == layout and (block is None or tuple(structure.block) == size):
        return self
    return sparse.compressed(self, layout, size, batch)


def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Layout = None, blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the nonzero elements as a sparse tensor.

    Args:
        self: dense or sparse tensor.
        sparse_dim: number of leading dimensions that are sparse, for the layout coo. The others stay dense. The default
            is all.
        layout: layout of the result. The default is `ndgrad.sparse_coo`.
        blocksize: height and width of a block, for bsr and bsc.
        dense_dim: number of last dimensions that stay dense, for compressed layouts. The default is 0.

    >>> import ndgrad
    >>> ndgrad.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=ndgrad.sparse_coo)
    """
    kind = "sparse_coo" if layout is None else str(layout).rpartition(".")[2]
    if kind == "strided":
        raise RuntimeError("to_sparse(): the layout strided is dense. Use to_dense(). [nd-sparse]")
    return _convert(self, kind, sparse_dim, blocksize, dense_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in the layout coo.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().to_sparse_coo().indices()
    tensor([[0, 1],
            [0, 1]])
    """
    return _convert(self, "sparse_coo")


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor, with rows and columns, in the layout csr.

    Args:
        self: dense or sparse tensor of at least two dimensions.
        dense_dim: number of last dimensions that stay dense. The default is 0.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _convert(self, "sparse_csr", None, None, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The tensor, with rows and columns, in the layout csc.

    Args:
        self: dense or sparse tensor of at least two dimensions.
        dense_dim: number of last dimensions that stay dense. The default is 0.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
    """
    return _convert(self, "sparse_csc", None, None, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The tensor in blocks, ordered by rows of blocks.

    Args:
        self: dense or sparse tensor of at least two dimensions.
        blocksize: height and width of a block, which divide the sizes of the matrix.
        dense_dim: number of last dimensions that stay dense. The default is 0.

    >>> import ndgrad
    >>> ndgrad.eye(4).to_sparse_bsr((2, 2)).values().shape
    ndgrad.Size([2, 2, 2])
    """
    return _convert(self, "sparse_bsr", None, blocksize, dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The tensor in blocks, ordered by columns of blocks.

    Args:
        self: dense or sparse tensor of at least two dimensions.
        blocksize: height and width of a block, which divide the sizes of the matrix.
        dense_dim: number of last dimensions that stay dense. The default is 0.

    >>> import ndgrad
    >>> ndgrad.eye(4).to_sparse_bsc((2, 2)).row_indices()
    tensor([0, 1])
    """
    return _convert(self, "sparse_bsc", None, blocksize, dense_dim)


def to_dense(self: Tensor, dtype: Dtype = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the full tensor.

    Args:
        self: sparse tensor. A dense one is returned unchanged, or converted to `dtype`.
        dtype: dtype of the result. The default is that of this tensor.
        masked_grad: whether the gradient goes only to the entries of the sparse tensor. False sends it to all
            positions. None means True.

    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)).to_dense()
    tensor([3., 0.])
    """
    sparse = _load_sparse()
    if not sparse.is_sparse(self):
        return self if dtype is None else self.to(dtype)
    made: Any
    if masked_grad is False and not sparse.carries(
        self
    ):  # Inside transforms values carry their derivatives themselves.
        made = sparse.run_conversion(sparse.ToDenseUnmasked, self)
    else:
        made = sparse.dense(self)
    return made if dtype is None else made.to(dtype)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the positions of a sparse tensor.

    Args:
        self: tensor of any layout.
        mask: sparse tensor of the same shape. Only its positions matter.

    >>> import ndgrad
    >>> ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(ndgrad.eye(2).to_sparse()).values()
    tensor([1., 4.])
    """
    sparse = _load_sparse()
    if not sparse.is_sparse(mask):
        raise NotImplementedError(
            f"sparse_mask(): the mask must be sparse, but has layout {_layout(mask)}. Use to_sparse(). [nd-sparse]"
        )
    if tuple(mask.shape) != tuple(self.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}. [nd-shape]"
        )
    structure = _structure(mask)
    return sparse.build(sparse.sample_at(self, structure), structure)
