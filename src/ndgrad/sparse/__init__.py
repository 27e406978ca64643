"""`torch.sparse`: functions of tensors in sparse layouts.

Layouts: `sparse_coo` (entries at coordinates), `sparse_csr`, `sparse_csc`, `sparse_bsr` and `sparse_bsc` (by rows or
columns, of single entries or of blocks). `ndgrad.sparse_coo_tensor`, similar functions and `to_sparse()` create sparse
tensors; `docs/sparse.md` describes everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import ndgrad
from ndgrad._src.arrays.sparse import Coo
from ndgrad._src.foundations.missing_names import find_alias as _find_alias
from ndgrad._src.ops.vocabulary import tensor_ops as _ops
from ndgrad._src.tensor.functions import sparse as _constructors
from ndgrad._src.tensor.functions import sparse_parts as _parts
from ndgrad._src.tensor.functions.sparse import check_sparse_tensor_invariants
from ndgrad._src.tensor.public import publish_namespace
from ndgrad._src.tensor.structured import constant
from ndgrad._src.tensor.typed_classes import CLASSES as _CLASSES
from ndgrad.sparse import functions, parts, products, text  # noqa: F401  # they fill the table of handlers
from ndgrad.sparse.gradient_checks import as_sparse_gradcheck
from ndgrad.sparse.tensor import HANDLERS, build, is_sparse
from ndgrad.sparse.tensor import SparseTensor as SparseTensor

if TYPE_CHECKING:
    from ndgrad._typing import Dims, Dtype, Layout, Number, Tensor

__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "spsolve", "sum",
]  # fmt: skip


class _TypedSparse(type):
    """Class of torch's typed classes of sparse tensors: calling one makes a tensor in coordinate layout."""

    dtype: Any

    def __instancecheck__(cls, value: object) -> bool:
        return is_sparse(value) and value.dtype is cls.dtype and value.layout is ndgrad.sparse_coo

    def __call__(cls, indices: Tensor, values: Tensor, size: Any = None) -> Tensor:
        made = values.to(cls.dtype)
        sizes = () if size is None else (size,)
        return ndgrad.sparse_coo_tensor(indices, made, *sizes)


def __getattr__(name: str) -> Any:
    if name.endswith("Tensor") and name in _CLASSES:
        made = _TypedSparse(name, (), {"dtype": _CLASSES[name].dtype, "__doc__": "Sparse tensors of one dtype."})
        globals()[name] = made
        return made
    return _find_alias(__name__, name)


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """Multiply two matrices of which the first, or both, are sparse. Sparse times sparse is sparse.

    With `reduce`, the terms of a csr matrix times a dense one are not added: "mean", "amax", "amin".

    Args:
        mat1: matrix of shape (n, k), sparse or dense.
        mat2: matrix of shape (k, m), sparse or dense.
        reduce: combination of the terms: `"sum"`, or for a csr matrix times a dense one `"mean"`, `"amax"` or `"amin"`.

    >>> import ndgrad
    >>> a = ndgrad.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().requires_grad_()
    >>> ndgrad.sparse.mm(a, ndgrad.ones(2, 1)).sum().backward()
    >>> a.grad.to_dense()
    tensor([[0., 1.],
            [1., 0.]])
    """
    if not (is_sparse(mat1) or is_sparse(mat2)):
        return ndgrad.mm(mat1, mat2)
    if reduce == "sum":
        return products.product("sparse.mm", mat1, mat2)
    return products.multiply_reduced(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1.0, alpha: Number = 1.0) -> Tensor:
    """Return beta * mat + alpha * (mat1 @ mat2), for a sparse `mat1`.

    Args:
        mat: matrix of shape (n, m) to add.
        mat1: sparse matrix of shape (n, k).
        mat2: matrix of shape (k, m).
        beta: factor of `mat`.
        alpha: factor of the product.

    >>> import ndgrad
    >>> ndgrad.sparse.addmm(ndgrad.ones(2, 2), ndgrad.eye(2).to_sparse(), ndgrad.ones(2, 2), alpha=2)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if not (is_sparse(mat1) or is_sparse(mat2)):
        return ndgrad.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)
    return products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1.0, alpha: Number = 1.0, out: None = None
) -> Tensor:
    """Return alpha * (mat1 @ mat2) at the entries of a csr tensor, plus beta times that tensor.

    Args:
        input: csr tensor of shape (..., n, m), whose entries select those of the result.
        mat1: dense matrix of shape (..., n, k).
        mat2: dense matrix of shape (..., k, m).
        beta: factor of `input`.
        alpha: factor of the product.
        out: accepted only as None.

    >>> import ndgrad
    >>> ndgrad.sparse.sampled_addmm(ndgrad.eye(2).to_sparse_csr(), ndgrad.ones(2, 3), ndgrad.ones(3, 2)).values()
    tensor([4., 4.])
    """
    return products.sampled("sparse.sampled_addmm", input, mat1, mat2, beta, alpha)


def sum(input: Tensor, dim: Dims = None, dtype: Dtype = None) -> Tensor:
    """Return the sum of the entries of a coo tensor, or over some dimensions: sparse as long as a sparse dimension is
    left.

    Args:
        input: coo tensor, or a dense one.
        dim: dimension or dimensions to sum over. None means all.
        dtype: dtype of the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse()
    >>> ndgrad.sparse.sum(x), ndgrad.sparse.sum(x, dim=0).to_dense()
    (tensor(9.), tensor([3., 6.]))
    """
    if not is_sparse(input):
        return ndgrad.sum(input, dtype=dtype) if dim is None else ndgrad.sum(input, dim, dtype=dtype)
    return parts.sum(input, dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: Dtype = None) -> Tensor:
    """Compute softmax over the entries of a coo tensor: missing entries count as minus infinity.

    Args:
        input: coo tensor.
        dim: dimension along which the entries sum to 1.
        dtype: dtype of the result.

    >>> import ndgrad
    >>> ndgrad.sparse.softmax(ndgrad.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse(), 1).to_dense()
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    return products.softmax("sparse.softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: Dtype = None) -> Tensor:
    """Return the logarithm of `softmax`, at the entries.

    Args:
        input: coo tensor.
        dim: dimension along which the entries are normalised.
        dtype: dtype of the result.

    >>> import ndgrad
    >>> ndgrad.sparse.log_softmax(ndgrad.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse(), 1).values()
    tensor([ 0.0000, -0.6931, -0.6931])
    """
    return products.softmax("sparse.log_softmax", input, dim, dtype, True)


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Return the solution x of input @ x = other (with `left=False`, x @ input = other), by SciPy's SuperLU.

    Args:
        input: square csr matrix.
        other: dense right-hand side, a vector or a matrix.
        left: whether the unknown stands on the right of the matrix.

    >>> import ndgrad
    >>> ndgrad.sparse.spsolve(ndgrad.tensor([[2.0, 0.0], [1.0, 4.0]]).to_sparse_csr(), ndgrad.tensor([2.0, 9.0]))
    tensor([1., 2.])
    """
    return products.solve(input, other, left)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Layout = None) -> Tensor:
    """Return a sparse matrix with these diagonals: row i of `diagonals`, by columns, is at the offset i.

    Args:
        diagonals: line, or matrix with a diagonal in each row.
        offsets: number of each diagonal: 0 for the main one, positive above it, negative below it.
        shape: shape of the result.
        layout: layout of the result: coo, csr or csc. None means coo.

    >>> import ndgrad
    >>> ndgrad.sparse.spdiags(ndgrad.ones(2, 3), ndgrad.tensor([0, 1]), (3, 3)).to_dense()
    tensor([[1., 1., 0.],
            [0., 1., 1.],
            [0., 0., 1.]])
    """
    lines = diagonals if diagonals.ndim > 1 else _ops.unsqueeze(diagonals, dim=0)
    steps = np.atleast_1d(np.asarray(offsets.detach()._array))
    if lines.ndim != 2 or steps.ndim != 1:
        raise RuntimeError(
            f"spdiags(): Diagonals must be vector or matrix, and offsets scalar or vector; they have shapes "
            f"{tuple(diagonals.shape)} and {tuple(offsets.shape)}. [nd-ndim]"
        )
    if len(shape) != 2:
        raise RuntimeError(f"spdiags(): Output shape must be 2d, but is {tuple(shape)}. [nd-ndim]")
    if lines.shape[0] != steps.size:
        raise RuntimeError(
            f"spdiags(): Number of diagonals ({lines.shape[0]}) does not match the number of offsets ({steps.size}). "
            "[nd-shape]"
        )
    if np.unique(steps).size != steps.size:
        raise RuntimeError(f"spdiags(): Offset tensor contains duplicate values: {steps.tolist()}. [nd-values]")
    if layout not in (None, ndgrad.sparse_coo, ndgrad.sparse_csr, ndgrad.sparse_csc):
        raise RuntimeError(f"spdiags(): Only output layouts (coo, csc, csr) are supported, got {layout!r}. [nd-option]")
    height, width = int(shape[0]), int(shape[1])
    which, columns = np.divmod(np.arange(steps.size * lines.shape[1], dtype=np.int64), max(lines.shape[1], 1))
    rows = columns - steps[which]
    inside = (rows >= 0) & (rows < height) & (columns < width)
    indices = np.stack([rows[inside], columns[inside]]).astype(np.int64)
    values = _ops.index(lines, constant(which[inside]), constant(columns[inside]))
    made: Any = build(values, Coo(indices, (height, width)))
    return made if layout in (None, ndgrad.sparse_coo) else made.to_sparse(layout=layout)


# These functions handle sparse tensors themselves: their wrappers need no override checks.
_own = {name: getattr(of, name) for of in (_constructors, _parts) for name in (*of.__all__, *of.METHODS)}
_own |= {f"sparse_{name}": globals()[name] for name in __all__ if not isinstance(globals()[name], type)}
for _name, _function in _own.items():
    HANDLERS.setdefault(_name, _function)
publish_namespace(globals())
