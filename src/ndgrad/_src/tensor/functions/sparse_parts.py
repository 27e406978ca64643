"""Parts of a sparse tensor (indices, values, sizes), and sparse products with separate names, under torch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.sparse import Compressed, Coo
from ndgrad._src.core.variable import requires_grad, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations import devices
from ndgrad._src.tensor.arguments import as_shape
from ndgrad._src.tensor.functions.product import mm
from ndgrad._src.tensor.functions.sparse import (
    _COMPRESSED,
    _layout,
    _load_sparse,
    _structure,
    sparse_compressed_tensor,
    sparse_coo_tensor,
)
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._typing import Number, Shape

__all__ = [
    "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "hspmm", "indices_copy", "resize_as_sparse_",
    "row_indices_copy", "smm", "spmm", "sspaddmm", "values_copy",
]  # fmt: skip
METHODS = (
    "_coalesced_", "_indices", "_nnz", "_values", "ccol_indices", "coalesce", "col_indices", "crow_indices",
    "dense_dim", "indices", "is_coalesced", "resize_as_sparse_", "row_indices", "smm", "sparse_dim",
    "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm", "values",
)  # fmt: skip

ALIASES = {"dsmm": "spmm", "hsmm": "hspmm"}


# ----- parts of a sparse tensor ---------------------------------------------------------------------------------------


def _require_layout(self: Any, name: str, layouts: tuple[str, ...], what: str) -> Any:
    have = _layout(self)
    if have not in layouts:
        raise RuntimeError(
            f"{name} expected {what} but got {have} (shape {tuple(self.shape)}). Convert with to_{layouts[0]}() first. "
            "[nd-sparse]"
        )
    return self.structure


_COO = ("sparse_coo",)
_ROWS, _COLUMNS = ("sparse_csr", "sparse_bsr"), ("sparse_csc", "sparse_bsc")


def coalesce(self: Tensor) -> Tensor:
    """A coo tensor with unique, ordered positions; the tensor itself if it is coalesced already.

    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[1, 1]], [2.0, 3.0]).coalesce().values()
    tensor([5.])
    """
    _require_layout(self, "coalesce", _COO, "sparse coordinate tensor layout")
    return _load_sparse().coalesced(self)


def is_coalesced(self: Tensor) -> bool:
    """True if a coo tensor is known to have unique, ordered positions.

    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[1, 1]], [2.0, 3.0]).is_coalesced()
    False
    """
    return bool(_require_layout(self, "is_coalesced", _COO, "sparse coordinate tensor layout").coalesced)


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Mark a coo tensor as coalesced or not; the claim is checked."""
    structure = _require_layout(self, "_coalesced_", _COO, "sparse coordinate tensor layout")
    if coalesced and structure.count > 1 and not (np.diff(structure.keys) > 0).all():
        raise RuntimeError(
            "_coalesced_(True): a position is named twice, or the indices are not in order. Use coalesce(). "
            "[nd-sparse-parts]"
        )
    made = Coo(structure.coordinates, structure.shape, coalesced)
    self._array = type(self._array)(made, self._array.values)
    return self


def indices(self: Tensor) -> Tensor:
    """The positions of a coalesced coo tensor: a row per sparse dimension, a column per entry.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 5.0]).to_sparse().indices()
    tensor([[1]])
    """
    structure = _require_layout(self, "indices", _COO, "sparse coordinate tensor layout")
    if not structure.coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first "
            f"(shape {tuple(self.shape)}, {structure.count} entries). [nd-sparse-parts]"
        )
    return _read_only(structure.coordinates)


def values(self: Tensor) -> Tensor:
    """The values of a sparse tensor, over the same memory; a coo tensor must be coalesced.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 5.0]).to_sparse().values()
    tensor([5.])
    """
    structure = _require_layout(self, "values", ("sparse_coo", *_COMPRESSED), "sparse tensor layout")
    if not structure.coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first "
            f"(shape {tuple(self.shape)}, {structure.count} entries). [nd-sparse-parts]"
        )
    return _load_sparse().values_of(self)


def _indices(self: Tensor) -> Tensor:
    """The positions of the entries of a coo tensor, coalesced or not."""
    return _read_only(_require_layout(self, "_indices", _COO, "sparse coordinate tensor layout").coordinates)


def _values(self: Tensor) -> Tensor:
    """The values of the entries of a coo tensor, coalesced or not, outside of the graph."""
    _require_layout(self, "_values", _COO, "sparse coordinate tensor layout")
    if _load_sparse().carries(self):
        return _load_sparse().data_of(self).values.detach()
    made: Tensor = wrap(Tensor, _load_sparse().data_of(self).values)
    made._storage = storage_of(self)
    return made


def _nnz(self: Tensor) -> int:
    """The number of entries (of blocks for block layouts; per matrix for a batch)."""
    structure = _require_layout(self, "_nnz", ("sparse_coo", *_COMPRESSED), "sparse tensor layout")
    return int(structure.values_shape[len(getattr(structure, "batch", ()))])


def _read_only(places: Any) -> Tensor:
    """Return indices as a read-only tensor: a structure never changes."""
    view = places.view()
    view.flags.writeable = False
    made: Tensor = wrap(Tensor, view)
    return made


def crow_indices(self: Tensor) -> Tensor:
    """The first entry of each row of a csr or bsr tensor.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _read_only(_require_layout(self, "crow_indices", _ROWS, "sparse row compressed tensor layout").pointers)


def col_indices(self: Tensor) -> Tensor:
    """The columns of the entries of a csr or bsr tensor.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csr().col_indices()
    tensor([0, 1])
    """
    return _read_only(_require_layout(self, "col_indices", _ROWS, "sparse row compressed tensor layout").others)


def ccol_indices(self: Tensor) -> Tensor:
    """The first entry of each column of a csc or bsc tensor.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
    """
    return _read_only(
        _require_layout(self, "ccol_indices", _COLUMNS, "sparse column compressed tensor layout").pointers
    )


def row_indices(self: Tensor) -> Tensor:
    """The rows of the entries of a csc or bsc tensor.

    >>> import ndgrad
    >>> ndgrad.eye(2).to_sparse_csc().row_indices()
    tensor([0, 1])
    """
    return _read_only(_require_layout(self, "row_indices", _COLUMNS, "sparse column compressed tensor layout").others)


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
    """Return the parts that a file stores, as in torch's files: indices, values, size and, for a coo tensor, the
    coalesced flag."""
    structure, numbers = t.structure, wrap(Tensor, _load_sparse().data_of(t).values)
    if isinstance(structure, Compressed):
        return wrap(Tensor, structure.pointers), wrap(Tensor, structure.others), numbers, t.shape
    return wrap(Tensor, structure.coordinates), numbers, t.shape, structure.coalesced


def from_parts(layout: devices.layout, parts: tuple[Any, ...]) -> Tensor:
    """Rebuild a sparse tensor from the parts in a file, with the usual checks."""
    if layout is devices.sparse_coo:
        places, numbers, size, *known = parts
        return sparse_coo_tensor(places, numbers, tuple(size), is_coalesced=bool(known and known[0]))
    pointers, others, numbers, size = parts
    return sparse_compressed_tensor(pointers, others, numbers, tuple(size), layout=layout)


# ----- resizing -------------------------------------------------------------------------------------------------------


def _resize(self: Any, name: str, size: Shape, sparse_dim: int, dense_dim: int, clear: bool) -> Any:
    structure = _require_layout(self, name, _COO, "sparse coordinate tensor layout")
    shape = as_shape((size,))
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"{name}(): 'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}. [nd-sparse-parts]"
        )
    if requires_grad(self):
        raise RuntimeError(
            f"{name}(): a tensor that requires grad cannot change its size in place. detach() it first. "
            "[nd-shared-memory]"
        )
    sparse = _load_sparse()
    data = sparse.data_of(self)
    if clear or not structure.count:
        new = sparse.zeros(shape, "sparse_coo", data.dtype, sparse_dim)._array
    else:
        if (sparse_dim, dense_dim) != (structure.sparse_dim, structure.dense_dim):
            raise RuntimeError(
                f"{name}(): changing the number of sparse or dense dimensions (from {structure.sparse_dim} and "
                f"{structure.dense_dim} to {sparse_dim} and {dense_dim}) on a non-empty sparse tensor is not "
                "supported. [nd-sparse-parts]"
            )
        before = structure.shape
        if any(a < b for a, b in zip(shape[:sparse_dim], before[:sparse_dim], strict=True)):
            raise RuntimeError(
                f"{name}(): shrinking the size of sparse dimensions (from {list(before[:sparse_dim])} to "
                f"{list(shape[:sparse_dim])}) on a non-empty sparse tensor is not supported. [nd-sparse-parts]"
            )
        if any(a < b for a, b in zip(shape[sparse_dim:], before[sparse_dim:], strict=True)):
            raise RuntimeError(
                f"{name}(): shrinking the size of dense dimensions (from {list(before[sparse_dim:])} to "
                f"{list(shape[sparse_dim:])}) on a non-empty sparse tensor is not supported. [nd-sparse-parts]"
            )
        values = np.zeros((structure.count, *shape[sparse_dim:]), data.dtype)
        values[(slice(None), *(slice(n) for n in before[sparse_dim:]))] = data.values
        new = type(data)(Coo(structure.coordinates, shape, structure.coalesced), values)
    self._array, self._storage = new, None  # new memory
    return self


def sparse_resize_(self: Tensor, size: Shape, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size of a coo tensor in place; its entries stay.

    Args:
        self: tensor to change, in the layout coo.
        size: new shape.
        sparse_dim: new number of sparse dimensions.
        dense_dim: new number of dense dimensions.

    >>> import ndgrad
    >>> ndgrad.ones(2).to_sparse().sparse_resize_((3,), 1, 0).to_dense()
    tensor([1., 1., 0.])
    """
    return _resize(self, "sparse_resize_", size, sparse_dim, dense_dim, False)


def sparse_resize_and_clear_(self: Tensor, size: Shape, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size of a coo tensor in place and drop its entries.

    Args:
        self: tensor to change, in the layout coo.
        size: new shape.
        sparse_dim: new number of sparse dimensions.
        dense_dim: new number of dense dimensions.

    >>> import ndgrad
    >>> ndgrad.ones(2).to_sparse().sparse_resize_and_clear_((3,), 1, 0)._nnz()
    0
    """
    return _resize(self, "sparse_resize_and_clear_", size, sparse_dim, dense_dim, True)


def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """Change the size of a coo tensor in place to that of another.

    Args:
        self: tensor to change, in the layout coo.
        the_template: sparse tensor whose shape and numbers of dimensions are taken.

    >>> import ndgrad
    >>> ndgrad.ones(2).to_sparse().resize_as_sparse_(ndgrad.ones(3).to_sparse()).shape
    ndgrad.Size([3])
    """
    if _layout(self) != _layout(the_template):
        raise RuntimeError(
            f"resize_as_sparse_(): the layouts differ: {_layout(self)} and {_layout(the_template)}. Convert one of "
            "them. [nd-sparse]"
        )
    if _layout(self) != "sparse_coo" and tuple(self.shape) == tuple(the_template.shape):
        return self
    return _resize(
        self, "resize_as_sparse_", tuple(the_template.shape), sparse_dim(the_template), dense_dim(the_template), False
    )


# ----- products with separate names in torch --------------------------------------------------------------------------


def smm(self: Tensor, mat: Tensor) -> Tensor:
    """A sparse matrix times a dense one, as a sparse tensor.

    Args:
        self: sparse matrix of shape (n, m).
        mat: dense matrix of shape (m, p).

    >>> import ndgrad
    >>> ndgrad.smm(ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    return _load_sparse().HANDLERS["smm"](self, mat)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """torch's older name of `mm`, for a sparse matrix and a dense one.

    Args:
        input: sparse matrix of shape (n, m).
        mat2: dense matrix of shape (m, p).

    >>> import ndgrad
    >>> ndgrad.spmm(ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return mm(input, mat2)


def hspmm(mat1: Tensor, mat2: Tensor, *, out: None = None) -> Tensor:
    """A sparse matrix times a dense one, as a hybrid tensor with one row per non-empty row.

    Args:
        mat1: sparse matrix of shape (n, m).
        mat2: dense matrix of shape (m, p).
        out: must be None.

    >>> import ndgrad
    >>> ndgrad.hspmm(ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 1)).values()
    tensor([[1.],
            [1.]])
    """
    return _load_sparse().HANDLERS["hspmm"](mat1, mat2)


def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: None = None
) -> Tensor:
    """Add a product to a sparse matrix: beta * input + alpha * (mat1 @ mat2), sparse like the input.

    Args:
        input: sparse matrix of shape (n, p).
        mat1: sparse matrix of shape (n, m).
        mat2: dense matrix of shape (m, p).
        beta: factor of `input`.
        alpha: factor of the product.
        out: must be None.

    >>> import ndgrad
    >>> eye = ndgrad.eye(2).to_sparse()
    >>> ndgrad.sspaddmm(eye, eye, ndgrad.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return _load_sparse().HANDLERS["sspaddmm"](input, mat1, mat2, beta=beta, alpha=alpha)


# ----- copies of parts ------------------------------------------------------------------------------------------------


def indices_copy(input: Tensor) -> Tensor:
    """A copy of `indices()`.

    Args:
        input: sparse tensor in the layout coo.

    >>> import ndgrad
    >>> ndgrad.indices_copy(ndgrad.eye(2).to_sparse())
    tensor([[0, 1],
            [0, 1]])
    """
    return indices(input).clone()


def values_copy(input: Tensor) -> Tensor:
    """A copy of `values()`, in the graph.

    Args:
        input: sparse tensor.

    >>> import ndgrad
    >>> ndgrad.values_copy(ndgrad.eye(2).to_sparse())
    tensor([1., 1.])
    """
    return values(input).clone()


def crow_indices_copy(input: Tensor) -> Tensor:
    """A copy of `crow_indices()`.

    Args:
        input: sparse tensor in the layout csr or bsr.

    >>> import ndgrad
    >>> ndgrad.crow_indices_copy(ndgrad.eye(2).to_sparse_csr())
    tensor([0, 1, 2])
    """
    return crow_indices(input).clone()


def col_indices_copy(input: Tensor) -> Tensor:
    """A copy of `col_indices()`.

    Args:
        input: sparse tensor in the layout csr or bsr.

    >>> import ndgrad
    >>> ndgrad.col_indices_copy(ndgrad.eye(2).to_sparse_csr())
    tensor([0, 1])
    """
    return col_indices(input).clone()


def ccol_indices_copy(input: Tensor) -> Tensor:
    """A copy of `ccol_indices()`.

    Args:
        input: sparse tensor in the layout csc or bsc.

    >>> import ndgrad
    >>> ndgrad.ccol_indices_copy(ndgrad.eye(2).to_sparse_csc())
    tensor([0, 1, 2])
    """
    return ccol_indices(input).clone()


def row_indices_copy(input: Tensor) -> Tensor:
    """A copy of `row_indices()`.

    Args:
        input: sparse tensor in the layout csc or bsc.

    >>> import ndgrad
    >>> ndgrad.row_indices_copy(ndgrad.eye(2).to_sparse_csc())
    tensor([0, 1])
    """
    return row_indices(input).clone()
