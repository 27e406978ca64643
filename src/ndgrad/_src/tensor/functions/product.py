"""Products of vectors and matrices, and distances, under torch's names."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, cast, distance, norm, reduce, shape
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import matrix as matrix_ops
from ndgrad._src.ops import product as ops
from ndgrad._src.tensor.arguments import as_dim, both_worlds, warn_user
from ndgrad._src.tensor.functions.reduce import deliver

if TYPE_CHECKING:
    from ndgrad._typing import Number, Tensor, TensorLike

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "cdist", "chain_matmul", "cross", "dot", "inner", "kron",
    "matmul", "mm", "mv", "outer", "pdist", "trace", "vdot",
]  # fmt: skip
METHODS = (
    "addbmm", "addbmm_", "addmm", "addmm_", "addmv", "addmv_", "addr", "addr_", "baddbmm", "baddbmm_", "bmm", "cross",
    "dot", "inner", "kron", "matmul", "mm", "mv", "outer", "trace", "vdot",
)  # fmt: skip
ALIASES = {"ger": "outer"}


# ----- arguments ------------------------------------------------------------------------------------------------------


def _require_arrays(name: str, input: TensorLike, other: TensorLike) -> None:
    for position, (argument, t) in enumerate((("input", input), ("other", other)), start=1):
        if not hasattr(t, "shape"):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be a Tensor, not {type(t).__name__}. "
                "Wrap it with ndgrad.as_tensor(...); to scale by a number, use *. [nd-type]"
            )


def takes_out(function: F) -> F:
    """Wrap a function that declares `out`, so that its result is written there if it is given."""

    @functools.wraps(function)
    def call_with_out(*args: Any, out: Any = None, **settings: Any) -> Any:
        result = function(*args, **settings)
        return result if out is None else deliver(function.__name__, result, out, *args)

    return call_with_out  # type: ignore[return-value]  # the same signature


def _require_dims(name: str, **tensors: tuple[Tensor, int]) -> None:
    for argument, (t, ndim) in tensors.items():
        if t.ndim != ndim:
            kind = {1: "a vector (1-D)", 2: "a matrix (2-D)", 3: "a batch of matrices (3-D)"}[ndim]
            raise RuntimeError(
                f"{name}: {argument} must be {kind}, but has shape {tuple(t.shape)}. Use matmul for other ranks. "
                "[nd-ndim]"
            )


# ----- products -------------------------------------------------------------------------------------------------------


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product over the last two dimensions; a vector is a row on the left and a column on the right.

    Args:
        input: vector, matrix or batch of matrices.
        other: vector, matrix or batch of matrices. Batch dimensions broadcast.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.matmul(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    try:
        result = ops.matmul.strict(input, other)
    except AttributeError:  # Arguments are checked only after a failure, because this is a hot path.
        _require_arrays("matmul", input, other)
        raise
    return result if out is None else deliver("matmul", result, out, input, other)


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices.

    Args:
        input: matrix of shape (n, m).
        mat2: matrix of shape (m, p).
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.mm(ndgrad.tensor([[1.0, 2.0]]), ndgrad.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    _require_dims("mm", input=(input, 2), mat2=(mat2, 2))
    return deliver("mm", ops.matmul.strict(input, mat2), out, input, mat2)


def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two batches of matrices.

    Args:
        input: matrices of shape (b, n, m).
        mat2: matrices of shape (b, m, p).
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bmm(ndgrad.ones(5, 2, 3), ndgrad.ones(5, 3, 4)).shape
    ndgrad.Size([5, 2, 4])
    """
    _require_dims("bmm", input=(input, 3), mat2=(mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm: Expected size for first two dimensions of batch2 tensor to be [{input.shape[0]}, "
            f"{input.shape[2]}] but got {list(mat2.shape[:2])}. Use matmul to broadcast a batch of one. [nd-matmul]"
        )
    return deliver("bmm", ops.matmul.strict(input, mat2), out, input, mat2)


def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector.

    Args:
        input: matrix of shape (n, m).
        vec: vector of m entries.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.mv(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    _require_dims("mv", input=(input, 2), vec=(vec, 1))
    return deliver("mv", ops.matmul.strict(input, vec), out, input, vec)


def _require_vectors(name: str, a: Tensor, b: Tensor) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(
            f"{name}: 1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors. Use matmul, inner or tensordot. "
            "[nd-ndim]"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: both vectors must have the same number of elements, but got {a.shape[0]} and {b.shape[0]} "
            "elements. Narrow or pad one of them. [nd-matmul]"
        )


def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of products of two vectors, without conjugation.

    Args:
        input: vector.
        tensor: vector of as many entries.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.dot(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0]))
    tensor(11.)
    """
    _require_vectors("dot", input, tensor)
    return deliver("dot", ops.matmul.strict(input, tensor), out, input, tensor)


def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors: the first one is conjugated.

    Args:
        input: vector, which is conjugated.
        other: vector of as many entries.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.vdot(ndgrad.tensor([1j]), ndgrad.tensor([1j]))
    tensor(1.+0.j)
    """
    _require_vectors("vdot", input, other)
    return deliver("vdot", ops.matmul.strict(conjugate(input), other), out, input, other)


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate of a tensor that stays internal to the caller; for a real tensor, the tensor itself."""
    return complex_ops.conj(x) if np_dtype(x).kind == "c" else x


def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of products over the last dimensions; with a 0-d tensor, the product.

    Args:
        input: tensor of shape (..., n).
        other: tensor of shape (..., n).
        out: tensor that receives the result.

    Returns:
        A tensor of the shape `input.shape[:-1] + other.shape[:-1]`.

    >>> import ndgrad
    >>> ndgrad.inner(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    tensor([[1., 2., 3.],
            [3., 4., 7.]])
    """
    if input.ndim == 0 or other.ndim == 0:
        return deliver("inner", arithmetic.mul(input, other), out, input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}. Use tensordot to contract other dimensions. [nd-matmul]"
        )
    from ndgrad._src.tensor.functions.einsum import tensordot  # imports this module

    result = ops.matmul.strict(input, other) if other.ndim == 1 else tensordot(input, other, dims=([-1], [-1]))
    return deliver("inner", result, out, input, other)


def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix of all products of the entries of two vectors.

    Args:
        input: vector of n entries.
        vec2: vector of m entries.
        out: tensor that receives the result.

    Returns:
        A matrix of shape (n, m).

    >>> import ndgrad
    >>> ndgrad.outer(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    _require_dims("outer", input=(input, 1), vec2=(vec2, 1))
    return deliver("outer", arithmetic.mul(shape.reshape(input, shape=(input.shape[0], 1)), vec2), out, input, vec2)


def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: blocks of each entry of `input` times `other`.

    Args:
        input: tensor whose entries scale the blocks.
        other: tensor that is repeated. Missing dimensions are added in front.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.kron(ndgrad.tensor([1, 10]), ndgrad.tensor([1, 2, 3]))
    tensor([ 1,  2,  3, 10, 20, 30])
    """
    _require_arrays("kron", input, other)
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.shape)
    b = (1,) * (n - other.ndim) + tuple(other.shape)
    names = [chr(0xE000 + i) for i in range(2 * n)]
    subscripts = f"{''.join(names[0::2])},{''.join(names[1::2])}->{''.join(names)}"
    whole = ops.contract.strict(shape.reshape(input, shape=a), shape.reshape(other, shape=b), subscripts=subscripts)
    result = shape.reshape(whole, shape=tuple(p * q for p, q in zip(a, b, strict=True)))
    return deliver("kron", result, out, input, other)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the order that needs the fewest operations. Prefer `linalg.multi_dot`.

    Args:
        *matrices: matrices to multiply, from left to right.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.chain_matmul(ndgrad.ones(2, 3), ndgrad.ones(3, 4), ndgrad.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    from ndgrad._src.tensor.functions.linalg import multi_dot  # imports this module

    product = matrices[0] if len(matrices) == 1 else multi_dot(matrices)
    return deliver("chain_matmul", product, out, *matrices)


# ----- products added to a tensor -------------------------------------------------------------------------------------


def _check_addition(
    name: str, input: Tensor, product: tuple[int, ...], beta: Number, alpha: Number, **factors: tuple[Tensor, int]
) -> None:
    _require_dims(name, **factors)
    if np_dtype(input).kind in "biu" and not input.is_numpy_type:
        for scale, value in (("beta", beta), ("alpha", alpha)):
            if isinstance(value, (float, complex)):
                raise RuntimeError(
                    f"{name}: For integral input tensors, argument {scale} must not be a floating point number, but it "
                    f"is {value}. "
                    "Convert the tensors, or give a whole number. [nd-dtype]"
                )
    if len(input.shape) > len(product) or any(
        s not in (1, n) for s, n in zip(input.shape[::-1], product[::-1], strict=False)
    ):
        raise RuntimeError(
            f"{name}: input of shape {tuple(input.shape)} does not broadcast to the product's shape {product}. "
            "Its sizes must be those of the product, or one. [nd-broadcast]"
        )


def _size(t: Tensor, dim: int = 0) -> int:
    """Return a size, or 0 if the dimension is missing (the check of ranks reports that)."""
    return t.shape[dim] if -t.ndim <= dim < t.ndim else 0


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add a matrix product to a matrix: `beta * input + alpha * (mat1 @ mat2)`.

    Args:
        input: tensor that broadcasts to (n, p).
        mat1: matrix of shape (n, m).
        mat2: matrix of shape (m, p).
        beta: factor of `input`. If it is 0, the values of `input` are ignored, including NaN.
        alpha: factor of the product.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.addmm(ndgrad.ones(1, 1), ndgrad.tensor([[1.0, 2.0]]), ndgrad.tensor([[3.0], [4.0]]), alpha=10)
    tensor([[111.]])
    """
    _check_addition("addmm", input, (_size(mat1), _size(mat2, 1)), beta, alpha, mat1=(mat1, 2), mat2=(mat2, 2))
    return deliver("addmm", ops.addmm.strict(input, mat1, mat2, beta=beta, alpha=alpha), out, input, mat1, mat2)


def addmm_(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In-place version of `addmm`.

    Args:
        self: tensor to change, of shape (n, p).
        mat1: matrix of shape (n, m).
        mat2: matrix of shape (m, p).
        beta: factor of `self`.
        alpha: factor of the product.

    >>> import ndgrad
    >>> ndgrad.ones(1, 1).addmm_(ndgrad.tensor([[1.0, 2.0]]), ndgrad.tensor([[3.0], [4.0]]))
    tensor([[12.]])
    """
    _check_addition("addmm_", self, (_size(mat1), _size(mat2, 1)), beta, alpha, mat1=(mat1, 2), mat2=(mat2, 2))
    return write(ops.addmm, self, (mat1, mat2), {"beta": beta, "alpha": alpha})


def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add a product of a matrix and a vector to a vector: `beta * input + alpha * (mat @ vec)`.

    Args:
        input: tensor that broadcasts to (n,).
        mat: matrix of shape (n, m).
        vec: vector of m entries.
        beta: factor of `input`. If it is 0, the values of `input` are ignored, including NaN.
        alpha: factor of the product.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.addmv(ndgrad.ones(2), ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.ones(2))
    tensor([4., 8.])
    """
    _check_addition("addmv", input, (_size(mat),), beta, alpha, mat=(mat, 2), vec=(vec, 1))
    return deliver("addmv", ops.addmv.strict(input, mat, vec, beta=beta, alpha=alpha), out, input, mat, vec)


def addmv_(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In-place version of `addmv`.

    Args:
        self: vector to change, of n entries.
        mat: matrix of shape (n, m).
        vec: vector of m entries.
        beta: factor of `self`.
        alpha: factor of the product.

    >>> import ndgrad
    >>> ndgrad.ones(2).addmv_(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.ones(2))
    tensor([4., 8.])
    """
    _check_addition("addmv_", self, (_size(mat),), beta, alpha, mat=(mat, 2), vec=(vec, 1))
    return write(ops.addmv, self, (mat, vec), {"beta": beta, "alpha": alpha})


def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add an outer product to a matrix: `beta * input + alpha * outer(vec1, vec2)`.

    Args:
        input: tensor that broadcasts to (n, m).
        vec1: vector of n entries.
        vec2: vector of m entries.
        beta: factor of `input`. If it is 0, the values of `input` are ignored, including NaN.
        alpha: factor of the product.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.addr(ndgrad.ones(2, 2), ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0]))
    tensor([[4., 5.],
            [7., 9.]])
    """
    _check_addition("addr", input, (_size(vec1), _size(vec2)), beta, alpha, vec1=(vec1, 1), vec2=(vec2, 1))
    result = ops.addr(input, vec1, vec2, beta=beta, alpha=alpha)
    if all(np_dtype(t).kind == "b" for t in (input, vec1, vec2)):
        result = cast.cast(result, dtype=np.dtype(bool))
    return deliver("addr", result, out, input, vec1, vec2)


def addr_(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In-place version of `addr`.

    Args:
        self: matrix to change, of shape (n, m).
        vec1: vector of n entries.
        vec2: vector of m entries.
        beta: factor of `self`.
        alpha: factor of the product.

    >>> import ndgrad
    >>> ndgrad.zeros(1, 2).addr_(ndgrad.tensor([2.0]), ndgrad.tensor([3.0, 4.0]))
    tensor([[6., 8.]])
    """
    _check_addition("addr_", self, (_size(vec1), _size(vec2)), beta, alpha, vec1=(vec1, 1), vec2=(vec2, 1))
    return write(ops.addr, self, (vec1, vec2), {"beta": beta, "alpha": alpha})


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add products of matrices to a batch: `beta * input + alpha * (batch1 @ batch2)`.

    Args:
        input: tensor that broadcasts to (b, n, p).
        batch1: matrices of shape (b, n, m).
        batch2: matrices of shape (b, m, p).
        beta: factor of `input`. If it is 0, the values of `input` are ignored, including NaN.
        alpha: factor of the products.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.baddbmm(ndgrad.zeros(1, 1), ndgrad.ones(5, 2, 3), ndgrad.ones(5, 3, 4)).shape
    ndgrad.Size([5, 2, 4])
    """
    _check_addition(
        "baddbmm", input, (_size(batch1), _size(batch1, 1), _size(batch2, 2)), beta, alpha,
        batch1=(batch1, 3), batch2=(batch2, 3),
    )
    return deliver(
        "baddbmm", ops.baddbmm.strict(input, batch1, batch2, beta=beta, alpha=alpha), out, input, batch1, batch2
    )


def baddbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In-place version of `baddbmm`.

    Args:
        self: tensor to change, of shape (b, n, p).
        batch1: matrices of shape (b, n, m).
        batch2: matrices of shape (b, m, p).
        beta: factor of `self`.
        alpha: factor of the products.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 1, 1).baddbmm_(ndgrad.ones(2, 1, 3), ndgrad.ones(2, 3, 1)).flatten()
    tensor([3., 3.])
    """
    _check_addition(
        "baddbmm_", self, (_size(batch1), _size(batch1, 1), _size(batch2, 2)), beta, alpha,
        batch1=(batch1, 3), batch2=(batch2, 3),
    )
    return write(ops.baddbmm, self, (batch1, batch2), {"beta": beta, "alpha": alpha})


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add a sum of matrix products to a matrix: `beta * input + alpha * (batch1 @ batch2).sum(0)`.

    Args:
        input: tensor that broadcasts to (n, p).
        batch1: matrices of shape (b, n, m).
        batch2: matrices of shape (b, m, p).
        beta: factor of `input`. If it is 0, the values of `input` are ignored, including NaN.
        alpha: factor of the sum.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.addbmm(ndgrad.zeros(1, 1), ndgrad.ones(5, 1, 3), ndgrad.ones(5, 3, 1))
    tensor([[15.]])
    """
    product = (_size(batch1, 1), _size(batch2, 2))
    _check_addition("addbmm", input, product, beta, alpha, batch1=(batch1, 3), batch2=(batch2, 3))
    return deliver(
        "addbmm", ops.addbmm.strict(input, batch1, batch2, beta=beta, alpha=alpha), out, input, batch1, batch2
    )


def addbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In-place version of `addbmm`.

    Args:
        self: tensor to change, of shape (n, p).
        batch1: matrices of shape (b, n, m).
        batch2: matrices of shape (b, m, p).
        beta: factor of `self`.
        alpha: factor of the sum.

    >>> import ndgrad
    >>> ndgrad.ones(1, 1).addbmm_(ndgrad.ones(5, 1, 3), ndgrad.ones(5, 3, 1))
    tensor([[16.]])
    """
    product = (_size(batch1, 1), _size(batch2, 2))
    _check_addition("addbmm_", self, product, beta, alpha, batch1=(batch1, 3), batch2=(batch2, 3))
    return write(ops.addbmm, self, (batch1, batch2), {"beta": beta, "alpha": alpha})


# ----- cross, trace ---------------------------------------------------------------------------------------------------


def cross_along(name: str, input: Tensor, other: Tensor, dim: int) -> Tensor:
    """The cross product along `dim`, with the error messages of the function `name`."""
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"{name}: inputs must have the same number of dimensions, but have shapes {tuple(input.shape)} and "
            f"{tuple(other.shape)}. Add the missing ones with unsqueeze. [nd-ndim]"
        )
    d = as_dim(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"{name}: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}. Name the "
            "dimension of the vectors in dim. [nd-shape]"
        )
    common = broadcast_shapes(name, tuple(input.shape), tuple(other.shape))
    return ops.cross(_expand(input, common), _expand(other, common), dim=d)


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common broadcast shape; the error names the function."""
    out: list[int] = []
    for sizes in zip(*((1,) * (max(map(len, shapes)) - len(s)) + s for s in shapes), strict=True):
        larger = {n for n in sizes if n != 1}
        if len(larger) > 1:
            raise RuntimeError(
                f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast. Sizes must be equal, or one. "
                "[nd-broadcast]"
            )
        out.append(larger.pop() if larger else 1)
    return tuple(out)


def _expand(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return x if tuple(x.shape) == sizes else shape.expand(x, shape=sizes)


@both_worlds
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product of vectors of three entries along `dim`.

    Args:
        input: first vectors.
        other: second vectors, with as many dimensions as `input`. Sizes of one broadcast.
        dim: dimension of size 3 that holds the vectors. The default is the first one of that size, with a warning.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cross(ndgrad.tensor([1.0, 0.0, 0.0]), ndgrad.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        found = [i for i, n in enumerate(input.shape) if n == 3]
        if not found:
            raise RuntimeError(
                f"cross: no dimension of size 3 in input of shape {tuple(input.shape)}. "
                "The vectors must have three entries. [nd-shape]"
            )
        warn_user(
            "cross() without dim takes the first dimension of size 3. "
            "Name it: linalg.cross takes the last one by default."
        )
        dim = found[0]
    return deliver("cross", cross_along("cross", input, other, dim), out, input, other)


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Args:
        input: matrix.

    >>> import ndgrad
    >>> ndgrad.trace(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(
            f"trace: expected a matrix, but got tensor with dim {input.ndim} (shape {tuple(input.shape)}). "
            "For a batch, sum linalg.diagonal(input) over its last dimension. [nd-matrix]"
        )
    return matrix_ops.trace(input)


# ----- distances ------------------------------------------------------------------------------------------------------


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The p-norm distance between each row of x1 and each row of x2.

    Euclidean distances are equally exact for close and distant points, for any `compute_mode`. If a distance is zero,
    so is its gradient.

    Args:
        x1: points in the rows, of shape (..., n, d).
        x2: points in the rows, of shape (..., m, d).
        p: order of the norm, at least 0.
        compute_mode: one of torch's names, which has no effect on the result.

    Returns:
        A tensor of shape (..., n, m).

    >>> import ndgrad
    >>> ndgrad.cdist(ndgrad.tensor([[0.0, 0.0]]), ndgrad.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2:
        raise RuntimeError(
            f"cdist only supports at least 2D tensors, but got shapes {tuple(x1.shape)} and {tuple(x2.shape)}. Add "
            "dimensions with unsqueeze. [nd-ndim]"
        )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]} (shapes "
            f"{tuple(x1.shape)} and {tuple(x2.shape)}). [nd-shape]"
        )
    if compute_mode not in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        raise ValueError(
            f"{compute_mode} is not a valid value for compute_mode. Leave it out: all give the same result here. "
            "[nd-option]"
        )
    p = as_number("cdist", "p", p)
    _require_order("cdist", p)
    broadcast_shapes("cdist", tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
    if p == 2:
        return distance.cdist(x1, x2)
    if not x1.shape[-1]:
        p = 1.0  # Without coordinates every distance is 0, and a maximum of none does not exist.
    elif p in (1, math.inf):
        return distance.cdist_ord(x1, x2, ord=float(p))
    left = shape.reshape(x1, shape=(*x1.shape[:-1], 1, x1.shape[-1]))
    right = shape.reshape(x2, shape=(*x2.shape[:-2], 1, *x2.shape[-2:]))
    return _norm_of_rows(arithmetic.sub(left, right), p)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances between all pairs of different rows: row 0 with 1, 2, ..., then row 1 with 2, ...

    Args:
        input: points in the rows, of shape (n, d).
        p: order of the norm, at least 0.

    Returns:
        A vector of n (n - 1) / 2 distances.

    >>> import ndgrad
    >>> ndgrad.pdist(ndgrad.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(
            f"pdist only supports 2D tensors, got: {input.ndim}D (shape {tuple(input.shape)}). Use cdist for batches. "
            "[nd-ndim]"
        )
    _require_order("pdist", p)
    return distance.pairs(cdist(input, input, p))


def _require_order(name: str, p: float) -> None:
    if not p >= 0:
        raise RuntimeError(f"{name} only supports non-negative p values, but p is {p}. [nd-range]")


def _norm_of_rows(x: Tensor, p: float) -> Tensor:
    """Return the p-norm along the last dimension; the gradient of a zero norm is 0."""
    last = (x.ndim - 1,)
    if p != 0:
        return norm.vector_norm(x, ord=float(p), dim=last, keepdim=False)
    # The number of differences has the gradient 0 everywhere.
    count = cast.cast(reduce.count_nonzero(x, dim=last), dtype=np_dtype(x))
    return arithmetic.add(count, reduce.sum(arithmetic.mul(x, 0.0), dim=last, keepdim=False))
