"""Products with sparse matrices, and solves.

The product of a sparse matrix and dense columns is the op `sparse_product` on values and a constant pattern, which
ndgrad.scipy.sparse uses too: SciPy's kernels if it is installed, else gathers and sums. Two sparse matrices are
multiplied entry by entry: every pair of an entry (i, k) and an entry (k, j) gives a term of the entry (i, j).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import ndgrad
from ndgrad._src.arrays.integers import as_places
from ndgrad._src.arrays.sparse import Compressed, Coo, expand
from ndgrad._src.arrays.sparse_pattern import Pattern
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.sparse import sparse_product, sparse_sample, sparse_solve
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.structured import constant
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.sparse.functions import mul
from ndgrad.sparse.parts import permuted
from ndgrad.sparse.tensor import (
    build,
    coalesced,
    compressed,
    coo,
    dense,
    entries,
    handles,
    handles_op,
    is_sparse,
    layout_of,
    refuse,
    values_of,
)

if TYPE_CHECKING:
    from ndgrad._typing import Dtype, Number
    from ndgrad.sparse.tensor import SparseTensor


def _check(name: str, a: Tensor, b: Tensor, ranks: tuple[int, int]) -> None:
    """Check that two factors have these ranks and compatible sizes and dtypes."""
    x: Any
    for label, x, rank in (("first", a, ranks[0]), ("second", b, ranks[1])):
        if not isinstance(x, Variable):
            raise TypeError(
                f"{name}(): the {label} factor is {type(x).__name__}. Wrap it with ndgrad.as_tensor(...). [nd-type]"
            )
        if x.ndim != rank:
            raise RuntimeError(
                f"{name}(): the {label} factor must have {rank} dimensions, but has shape {tuple(x.shape)}. [nd-ndim]"
            )
        if is_sparse(x) and x.structure.dense_dim:
            raise RuntimeError(
                f"{name}(): the {label} factor, {layout_of(x)} of shape {tuple(x.shape)}, has {x.structure.dense_dim} "
                "dense dimensions. Convert it with to_sparse() of all dimensions first. [nd-sparse]"
            )
    inner, outer = a.shape[-1], b.shape[-2 if ranks[1] > 1 else 0]
    if inner != outer:
        raise RuntimeError(
            f"{name}(): the shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and "
            f"{'x'.join(map(str, b.shape))}): {inner} columns meet {outer} rows. [nd-matmul]"
        )
    if np_dtype(a) != np_dtype(b):
        raise RuntimeError(
            f"{name}(): expected both factors to have the same dtype, but they are {a.dtype} and {b.dtype}. "
            "Convert one with .to(). [nd-dtype-mismatch]"
        )


def product(name: str, a: Tensor, b: Tensor) -> Tensor:
    """Multiply two matrices of which at least one is sparse."""
    _check(name, a, b, (2, 2))
    if is_sparse(a) and is_sparse(b):
        return _both_sparse(a, b)
    if is_sparse(a):
        return _times_columns(a, b)
    if not is_sparse(b):
        refuse(name, (a, b), {})
    flipped = _times_columns(permuted(b, (1, 0)), ops.permute(a, dims=(1, 0)))
    return ops.permute(flipped, dims=(1, 0))


def _times_columns(a: SparseTensor, columns: Tensor) -> Tensor:
    structure, values = entries(a)
    return sparse_product(values, columns, pattern=structure.pattern)


def multiply_reduced(a: Tensor, columns: Tensor, reduce: str) -> Tensor:
    """Multiply a csr matrix with columns, with the mean or an extreme of the terms instead of their sum; zeros for rows
    without entries.
    """
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"sparse.mm(): reduce is {reduce!r}. Give 'sum', 'mean', 'amax' or 'amin'. [nd-option]")
    _check("sparse.mm", a, columns, (2, 2))
    if not is_sparse(a) or layout_of(a) != "sparse_csr" or is_sparse(columns):
        raise RuntimeError(
            f"sparse.mm(): reduce={reduce!r} is for a sparse_csr matrix and a dense one, and the layouts are "
            f"{layout_of(a)} and {layout_of(columns)}. Convert them first. [nd-sparse]"
        )
    rows, inner = a.structure.coordinates
    terms = ops.unsqueeze(values_of(a), dim=1) * ops.index_select(columns, constant(inner), dim=0)
    start = wrap(Tensor, np.zeros((a.shape[0], columns.shape[1]), np_dtype(terms)))
    index = ops.expand(constant(rows[:, None]), shape=tuple(terms.shape))
    return ndgrad.scatter_reduce(start, 0, index, terms, reduce, include_self=False)


def _both_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    kind = a.structure
    a, b = coalesced(coo(a)), coalesced(coo(b))
    (rows, inner), (outer, columns) = a.structure.coordinates, b.structure.coordinates
    starts = np.searchsorted(outer, np.arange(b.shape[0] + 1))  # b is sorted by rows
    lengths = (starts[1:] - starts[:-1])[inner]
    lengths = as_places(lengths)
    left = np.repeat(np.arange(rows.size, dtype=np.int64), lengths)
    right = np.arange(left.size) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(starts[inner], lengths)
    places = Coo(np.stack([rows[left], columns[right]]), (a.shape[0], b.shape[1]))
    structure, entry = places.coalescing
    terms = ops.index_select(values_of(a), constant(left), dim=0) * ops.index_select(
        values_of(b), constant(right), dim=0
    )
    start = wrap(Tensor, np.zeros(structure.count, np_dtype(terms)))
    out = build(ops.index_add(start, constant(entry), terms, dim=0), structure)
    return compressed(out, kind.layout, (1, 1), 0) if isinstance(kind, Compressed) and kind.block == (1, 1) else out


@handles("mm")
def mm(input: SparseTensor, mat2: Tensor, *, out: None = None) -> Tensor:
    return product("mm", input, mat2)


@handles("mv")
def mv(input: Tensor, vec: Tensor, *, out: None = None) -> Tensor:
    _check("mv", input, vec, (2, 1))
    if not is_sparse(input) or is_sparse(vec):
        refuse("mv", (input, vec), {})
    return ops.reshape(_times_columns(input, ops.unsqueeze(vec, dim=1)), shape=(input.shape[0],))


@handles("matmul", "__matmul__")
def matmul(input: Tensor, other: Tensor, *, out: None = None) -> Tensor:
    if not (isinstance(input, Variable) and isinstance(other, Variable)):
        raise TypeError("matmul(): both factors must be tensors. Wrap arrays with ndgrad.as_tensor(...). [nd-type]")
    ranks = (input.ndim, other.ndim)
    if ranks == (2, 2):
        return product("matmul", input, other)
    if ranks == (2, 1) and is_sparse(input) and not is_sparse(other):
        return mv(input, other)
    if ranks == (1, 2) and is_sparse(other) and not is_sparse(input):
        return mv(permuted(other, (1, 0)), input)
    if ranks == (3, 3):
        return bmm(input, other)
    refuse("matmul", (input, other), {})


@handles("__rmatmul__")
def rmatmul(self: Tensor, other: Tensor) -> Tensor:
    return matmul(other, self)


@handles_op("matmul", "mm")
def _matmul_op(x: Tensor, y: Tensor) -> Tensor:
    return matmul(x, y)


@handles("bmm")
def bmm(input: Tensor, mat2: Tensor, *, out: None = None) -> Tensor:
    """Multiply sparse matrices with dense ones: one product with the block diagonal matrix."""
    _check("bmm", input, mat2, (3, 3))
    if not is_sparse(input) or is_sparse(mat2) or input.shape[0] != mat2.shape[0]:
        refuse("bmm", (input, mat2), {})
    structure, values = entries(coo(input))
    if structure.sparse_dim != 3:
        refuse("bmm", (input, mat2), {})
    batch, rows, columns = structure.coordinates
    count, height, width = structure.shape
    pattern = Pattern(batch * height + rows, batch * width + columns, (count * height, count * width))
    flat = sparse_product(values, ops.reshape(mat2, shape=(count * width, mat2.shape[2])), pattern=pattern)
    return ops.reshape(flat, shape=(count, height, mat2.shape[2]))


@handles("addmm")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: None = None
) -> Tensor:
    made = product("addmm", mat1, mat2)
    if alpha != 1:
        made = made * alpha
    if is_sparse(made) != is_sparse(input):
        if not is_sparse(made):
            refuse("addmm", (input, mat1, mat2), {})
        made = dense(made)
    return made + (input if beta == 1 else input * beta)


@handles("smm")
def smm(input: Tensor, mat: Tensor) -> SparseTensor:
    """Return the product of a sparse matrix and a dense one, as a sparse tensor of all its elements."""
    return sparse_of(product("smm", input, mat))


def sparse_of(full: Tensor) -> SparseTensor:
    places = np.indices(tuple(full.shape)).reshape(full.ndim, -1)
    return build(full, Coo(places, tuple(full.shape), True))


@handles("sspaddmm")
def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: None = None
) -> Tensor:
    made = smm(mat1, mat2)
    return (input if beta == 1 else mul(input, beta)) + (made if alpha == 1 else mul(made, alpha))


@handles("hspmm")
def hspmm(mat1: Tensor, mat2: Tensor, *, out: None = None) -> SparseTensor:
    """Return the product as a hybrid tensor: an entry (a row) for each nonempty row of the sparse matrix."""
    _check("hspmm", mat1, mat2, (2, 2))
    if not is_sparse(mat1) or layout_of(mat1) != "sparse_coo":
        refuse("hspmm", (mat1, mat2), {})
    used = np.unique(mat1.structure.coordinates[0])
    rows = ops.index_select(product("hspmm", mat1, mat2), constant(used), dim=0)
    return build(rows, Coo(used[None], (mat1.shape[0], mat2.shape[1]), True))


def sampled(name: str, input: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> SparseTensor:
    """Return alpha (mat1 @ mat2) at the entries of the input, plus beta times the input."""
    if not is_sparse(input) or layout_of(input) != "sparse_csr":
        raise RuntimeError(
            f"{name}(): expected the input to have layout sparse_csr, and it has {layout_of(input)}. "
            "Convert it with to_sparse_csr(). [nd-sparse]"
        )
    for x in (mat1, mat2):
        if is_sparse(x):
            raise RuntimeError(
                f"{name}(): expected dense factors, and one has layout {layout_of(x)}. Use to_dense(). [nd-sparse]"
            )
    if mat1.ndim == mat2.ndim == 2:
        _check(name, mat1, mat2, (2, 2))
    structure: Any = input.structure
    if tuple(input.shape) != (*mat1.shape[:-1], mat2.shape[-1]) or structure.batch:
        raise RuntimeError(
            f"{name}(): the input has shape {tuple(input.shape)}, and the factors {tuple(mat1.shape)} and "
            f"{tuple(mat2.shape)}. It must have the shape of their product, of two dimensions. [nd-shape]"
        )
    terms = sparse_sample(mat1, ops.permute(mat2, dims=(1, 0)), pattern=structure.pattern)
    values = (terms if alpha == 1 else terms * alpha) + values_of(input) * beta
    return build(values, structure)


def solve(a: Tensor, b: Tensor, left: bool) -> Tensor:
    """Return the x with a x = b, or x a = b."""
    if not is_sparse(a) or a.ndim != 2 or a.shape[0] != a.shape[1] or a.structure.dense_dim:
        raise RuntimeError(
            f"spsolve(): expected a square sparse matrix, but got {layout_of(a)} of shape {tuple(a.shape)}. "
            "Use ndgrad.linalg.solve() for dense ones. [nd-matrix]"
        )
    if is_sparse(b) or b.ndim not in (1, 2) or b.shape[0 if left else -1] != a.shape[0]:
        raise RuntimeError(
            f"spsolve(): a right-hand side of shape {tuple(b.shape)} ({layout_of(b)}) does not fit a matrix of shape "
            f"{tuple(a.shape)}. It must be dense, with {a.shape[0]} {'rows' if left else 'columns'}. [nd-shape]"
        )
    if np_dtype(a) != np_dtype(b):
        raise RuntimeError(
            f"spsolve(): the matrix is {a.dtype} and the right-hand side {b.dtype}. Convert one with .to(). "
            "[nd-dtype-mismatch]"
        )
    structure, values = entries(a if left else permuted(a, (1, 0)))
    columns = ops.unsqueeze(b, dim=1) if b.ndim == 1 else b if left else ops.permute(b, dims=(1, 0))
    out = sparse_solve(values, columns, pattern=structure.pattern, adjoint=False)
    if b.ndim == 1:
        return ops.reshape(out, shape=tuple(b.shape))
    return out if left else ops.permute(out, dims=(1, 0))


# ----- softmax --------------------------------------------------------------------------------------------------------


def softmax(name: str, x: Tensor, dim: int, dtype: Dtype, log: bool) -> SparseTensor:
    """Compute softmax over the existing entries: missing ones count as -inf."""
    from ndgrad._src.tensor.arguments import as_dim  # only needed here

    if not is_sparse(x) or layout_of(x) != "sparse_coo":
        raise NotImplementedError(
            f"{name}() is there for layout sparse_coo, and the input has {layout_of(x)}. Use to_sparse(), or "
            f"ndgrad.{name.rpartition('.')[2]}() for dense tensors. [nd-sparse]"
        )
    dim = as_dim(dim, x.ndim)
    x = coalesced(x if dtype is None else cast("SparseTensor", x.to(dtype)))
    structure, values = x.structure, values_of(x)
    if dim >= structure.sparse_dim:
        function = ndgrad.log_softmax if log else ndgrad.softmax
        return build(function(values, dim - structure.sparse_dim + 1), structure)
    rest = np.delete(structure.coordinates, dim, axis=0)
    sizes = tuple(n for d, n in enumerate(structure.place_shape) if d != dim)
    keys = (
        np.ravel_multi_index(tuple(rest), sizes)
        if sizes and math.prod(sizes) != 0
        else np.zeros(structure.count, np.int64)
    )
    groups, group = np.unique(keys, return_inverse=True)
    group = group.reshape(-1)
    start = wrap(Tensor, np.zeros((groups.size, *structure.dense_shape), np_dtype(x)))
    index = ops.expand(constant(expand(group, values)), shape=tuple(values.shape))
    highest = ndgrad.scatter_reduce(start, 0, index, values.detach(), "amax", include_self=False)
    shifted = values - ops.index_select(highest, constant(group), dim=0)
    powers = ndgrad.exp(shifted)
    totals = ops.index_select(ops.index_add(start, constant(group), powers, dim=0), constant(group), dim=0)
    return build(shifted - ndgrad.log(totals) if log else powers / totals, structure)
