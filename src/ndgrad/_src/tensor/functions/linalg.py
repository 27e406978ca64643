"""Determinants, matrix functions, matrix properties, and products, as in torch.linalg."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import is_inexact, real_dtype
from ndgrad._src.core.saved import lift
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import (
    arithmetic,
    cast,
    comparison,
    decomposition,
    determinant,
    exponential,
    extremum,
    matrix_function,
    product,
    reduce,
    selection,
    shape,
)
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.norm import matrix_norm
from ndgrad._src.tensor.functions.product import broadcast_shapes, conjugate, cross_along, takes_out
from ndgrad._src.tensor.functions.solve import inv, inv_ex
from ndgrad._src.tensor.matrix_arguments import (
    add_column,
    count_above,
    identity,
    payload,
    require_matrices,
    require_precision,
    require_square,
    tolerances,
)
from ndgrad._src.tensor.storage import values_to_check

if TYPE_CHECKING:
    from ndgrad._typing import Tensor, Tensors

# ----- determinants ---------------------------------------------------------------------------------------------------


@takes_out
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the determinant. It has derivatives at singular matrices too.

    Args:
        A: square matrices of shape (..., n, n).
        out: tensor that receives the result.

    Returns:
        A tensor of shape (...).

    >>> import ndgrad
    >>> ndgrad.linalg.det(ndgrad.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    require_square("det", A)
    require_precision("det", A)
    return determinant.det(A)


@takes_out
def slogdet(A: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.linalg_slogdet:
    """Return the sign (a complex number of modulus one) of the determinant, and the logarithm of its modulus.

    Args:
        A: square matrices of shape (..., n, n).
        out: tuple of tensors that receive the results.

    Returns:
        The sign and the logarithm, each of shape (...). A singular matrix has sign 0 and logarithm -inf.

    >>> import ndgrad
    >>> sign, logabsdet = ndgrad.linalg.slogdet(ndgrad.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign, logabsdet
    (tensor(-1.), tensor(0.))
    """
    require_square("slogdet", A)
    require_precision("slogdet", A)
    return return_types.linalg_slogdet(*determinant.slogdet(A))


def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant; NaN if a real one is negative.

    Args:
        input: square matrices of shape (..., n, n).

    Returns:
        A tensor of shape (...).

    >>> import ndgrad
    >>> ndgrad.logdet(ndgrad.tensor([[2.0, 0.0], [0.0, 0.5]]))
    tensor(0.)
    """
    require_square("logdet", input)
    sign, size = determinant.slogdet(input)
    if np_dtype(sign).kind == "c":
        return arithmetic.add(exponential.log(sign), size)
    return selection.where(comparison.eq(sign, -1.0), math.nan, size)


# ----- functions of matrices ------------------------------------------------------------------------------------------


@takes_out
def matrix_exp(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix exponential: the sum over k of A^k / k!.

    Args:
        A: square matrices of shape (..., n, n).
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.linalg.matrix_exp(ndgrad.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    require_square("matrix_exp", A)
    return matrix_function.matrix_exp(A)


@takes_out
def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Return the n-th power of A; for negative n, a power of the inverse.

    Args:
        A: square matrices of shape (..., n, n).
        n: exponent. The result for 0 is the identity.
        out: tensor that receives the result.

    Raises:
        LinAlgError: if n is negative and a matrix is singular.

    >>> import ndgrad
    >>> ndgrad.linalg.matrix_power(ndgrad.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    require_square("matrix_power", A)
    try:
        power = operator.index(n)
    except TypeError:
        raise TypeError(
            f"linalg.matrix_power: argument 'n' must be int, not {type(n).__name__}. "
            "Other powers need the eigenvalues. [nd-type]"
        ) from None
    if power == 0:
        return cast.clone(identity(A, A.shape[-1], tuple(A.shape[:-2])))
    if power < 0:
        A, power = inv(A), -power
    result: Any = None
    while power:
        if power & 1:
            result = A if result is None else product.matmul(result, A)
        power >>= 1
        if power:
            A = product.matmul(A, A)
    return result


@takes_out
def multi_dot(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Return the product of two or more matrices, in the order that needs the fewest operations.

    The first and the last may be vectors.

    Args:
        tensors: matrices to multiply, from left to right.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.linalg.multi_dot([ndgrad.ones(2, 3), ndgrad.ones(3, 2), ndgrad.ones(2)])
    tensor([6., 6.])
    """
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(
            f"multi_dot(): expected at least 2 tensors but got {len(chain)}. Pass them in one list. [nd-too-few]"
        )
    for i, t in enumerate(chain):
        ends = i in (0, len(chain) - 1)
        if t.ndim != 2 and not (ends and t.ndim == 1):
            raise RuntimeError(
                f"multi_dot(): tensor {i} must be 2D{' or 1D' if ends else ''} but got {t.ndim}D "
                f"(shape {tuple(t.shape)}). [nd-ndim]"
            )
    first, last = chain[0].ndim == 1, chain[-1].ndim == 1
    if first:
        chain[0] = shape.reshape(chain[0], shape=(1, chain[0].shape[0]))
    if last:
        chain[-1] = add_column(chain[-1])
    for a, b in itertools.pairwise(chain):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors of shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied. "
                "Check their order. [nd-matmul]"
            )
    split = _best_splits([chain[0].shape[0], *(t.shape[1] for t in chain)])

    def multiply(i: int, j: int) -> Tensor:
        return chain[i] if i == j else product.matmul(multiply(i, split[i, j]), multiply(split[i, j] + 1, j))

    out = multiply(0, len(chain) - 1)
    keep = tuple(n for n, is_vector in zip(out.shape, (first, last), strict=True) if not is_vector)
    return shape.reshape(out, shape=keep) if first or last else out


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return the best split of each part of a chain of matrices with these sizes, by dynamic programming."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i, j], split[i, j] = min(options)
    return split


# ----- properties of a matrix -----------------------------------------------------------------------------------------


@takes_out
def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Count the singular values above max(atol, rtol * the largest); the tolerances are those of pinv.

    Args:
        A: matrices of shape (..., m, n).
        tol: old form of `atol`. It also sets `rtol` to 0.
        hermitian: whether the matrices are Hermitian. Their eigenvalues are computed then, which is faster.
        atol: absolute tolerance, a number or one for each matrix. The default is 0.
        rtol: tolerance relative to the largest singular value. The default is max(m, n) times the precision of the
            dtype, or 0 if `atol` is positive.
        out: tensor that receives the result.

    Returns:
        An integer tensor of shape (...).

    >>> import ndgrad
    >>> ndgrad.linalg.matrix_rank(ndgrad.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    require_matrices("matrix_rank", A)
    require_precision("matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = tolerances(A, atol, rtol)
    A = A.detach()
    if hermitian:
        values = complex_ops.abs(decomposition.eigvalsh(A, UPLO="L"))
    else:
        values = decomposition.svdvals(A)
    if values.shape[-1] == 0:
        return reduce.sum(cast.cast(values, dtype=np.dtype(np.int64)), dim=(values.ndim - 1,), keepdim=False)
    largest = extremum.amax(values, dim=(values.ndim - 1,), keepdim=True)
    atol, rtol = (add_column(c) if isinstance(c, Variable) else c for c in (atol, rtol))
    relative = arithmetic.mul(largest, rtol)
    return count_above(
        values, selection.maximum(relative, atol) if isinstance(atol, Variable) or atol > 0 else relative
    )


@takes_out
def cond(A: Tensor, p: str | float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the condition number: norm(A) norm(A^-1). With p None, 2 or -2, A need not be square.

    Args:
        A: matrices of shape (..., m, n).
        p: norm of the definition: None, 2, -2, `"fro"`, `"nuc"`, 1, -1, inf or -inf, as in `matrix_norm`. None means 2.
        out: tensor that receives the result.

    Returns:
        A tensor of shape (...).

    >>> import ndgrad
    >>> ndgrad.linalg.cond(ndgrad.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    require_matrices("cond", A)
    if p in (None, 2, -2):
        values = decomposition.svdvals(A)
        k = values.shape[-1]
        first = index_ops.getitem(values, index=(Ellipsis, 0))
        last = index_ops.getitem(values, index=(Ellipsis, k - 1))
        return arithmetic.div(last, first) if p == -2 else arithmetic.div(first, last)
    require_square("cond", A)

    inverse, info = inv_ex(A)
    out = arithmetic.mul(matrix_norm(A, p), matrix_norm(inverse, p))
    singular = values_to_check(info)
    if singular is None or not (singular != 0).any():
        return out
    return selection.where(comparison.eq(info, 0), out, math.inf)


# ----- products and parts ---------------------------------------------------------------------------------------------


@takes_out
@both_worlds
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The cross product of vectors of three entries along `dim`.

    Args:
        input: first vectors.
        other: second vectors, with as many dimensions as `input`. Sizes of one broadcast.
        dim: dimension of size 3 that holds the vectors.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.linalg.cross(ndgrad.tensor([1.0, 0.0, 0.0]), ndgrad.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return cross_along("linalg.cross", input, other, dim)


@takes_out
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product: `ndgrad.matmul`.

    Args:
        input: vector, matrix or batch of matrices.
        other: vector, matrix or batch of matrices.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.linalg.matmul(ndgrad.ones(2, 3), ndgrad.ones(3))
    tensor([3., 3.])
    """
    return product.matmul(input, other)


@takes_out
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Return the inner products of vectors along `dim`; the first one is conjugated.

    Args:
        x: first vectors, which are conjugated if complex.
        y: second vectors, which broadcast with `x`.
        dim: dimension of the vectors, which the result lacks.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.linalg.vecdot(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    common = broadcast_shapes("linalg.vecdot", tuple(x.shape), tuple(y.shape))
    d = as_dim(dim, len(common))
    x, y = (t if tuple(t.shape) == common else shape.expand(t, shape=common) for t in (x, y))
    names = "".join(chr(0xE000 + i) for i in range(len(common)))
    return product.contract(conjugate(x), y, subscripts=f"{names},{names}->{names[:d]}{names[d + 1 :]}")


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices.

    Args:
        A: matrices of shape (..., m, n).
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dim1: dimension of the rows.
        dim2: dimension of the columns.

    Returns:
        A view of shape (..., k), with the diagonal in the last dimension.

    >>> import ndgrad
    >>> ndgrad.linalg.diagonal(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return A.diagonal(offset, dim1, dim2)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Return the matrix of the powers 0, ..., N - 1 of each entry of a vector.

    Args:
        x: vectors of shape (..., n).
        N: number of powers. The default is n.

    Returns:
        A tensor of shape (..., n, N).

    >>> import ndgrad
    >>> ndgrad.linalg.vander(ndgrad.tensor([2.0, 3.0]), 3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    n = (x.shape[-1] if x.ndim else 1) if N is None else operator.index(N)
    if n <= 1:
        raise RuntimeError(
            f"linalg.vander: N must be greater than 1, but is {n}. Give the number of powers. [nd-range]"
        )
    return powers("linalg.vander", x if x.ndim else shape.reshape(x, shape=(1,)), n, increasing=True)


def powers(name: str, x: Tensor, N: int | None, *, increasing: bool) -> Tensor:
    if x.ndim == 0:
        raise RuntimeError(f"{name}: expected a vector, but got a number. Use reshape(1). [nd-ndim]")
    n = x.shape[-1] if N is None else operator.index(N)
    # Exponents have the real dtype of x: 64-bit integers would widen single precision.
    dtype = np_dtype(x)
    exponents = library_of(payload(x)).arange(n).astype(real_dtype(dtype) if is_inexact(dtype) else np.int64)
    exponents = lift(exponents if increasing else exponents[::-1])
    return arithmetic.pow(add_column(x), exponents)
