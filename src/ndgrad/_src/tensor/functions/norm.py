"""Norms of vectors and matrices under torch's names.

In `norm` (torch.norm), a number as order always means a vector norm. In `linalg_norm` (torch.linalg.norm), it means a
matrix norm over two dimensions. `LINALG` lists the functions of the linalg namespace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype, as_numpy_dtype
from ndgrad._src.arrays.precision import is_inexact, result_dtype
from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import cast, decomposition, extremum, shape
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import norm as ops
from ndgrad._src.ops import reduce as reductions
from ndgrad._src.ops.shape import inverse_permutation
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.reduce import deliver, dims_of, ndim_of

if TYPE_CHECKING:
    from ndgrad._typing import Dims, Dtype, Tensor

__all__ = ["norm", "dist", "frobenius_norm", "norm_except_dim", "nuclear_norm", "renorm"]
METHODS = ("norm", "dist", "renorm", "renorm_")
#: ndgrad.linalg's name -> the function here.
LINALG = {"norm": "linalg_norm", "vector_norm": "vector_norm", "matrix_norm": "matrix_norm"}


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _prepare(name: str, input: Tensor, dtype: Dtype) -> Tensor:
    """Return the input in the dtype of the computation."""
    have = np_dtype(input)
    if not is_inexact(have):
        raise RuntimeError(
            f"linalg.{name}: Expected a floating point or complex tensor as input. Got {as_dtype(have)!r}. "
            "Convert it first: A.to(ndgrad.float64). [nd-dtype]"
        )
    if dtype is None:
        return input
    want = as_numpy_dtype(dtype)
    if not is_inexact(want) or (want.kind == "c") != (have.kind == "c") or result_dtype(have, want) != want:
        raise RuntimeError(
            f"linalg.{name}: the dtype of the input ({as_dtype(have)!r}) should be convertible without narrowing "
            f"to the specified dtype ({as_dtype(want)!r}). Convert the result instead. [nd-cast]"
        )
    return input if want == have else cast.cast(input, dtype=want)


# ----- vectors --------------------------------------------------------------------------------------------------------


@both_worlds
def vector_norm(
    input: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Dtype = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of order `ord` (any number, including inf and -inf) of the elements over `dim`, all by default.

    Args:
        input: floating or complex tensor.
        ord: order p of the norm, `sum(abs(x) ** p) ** (1 / p)`. 0 counts elements that are not zero, inf and -inf give
            the largest and smallest absolute value.
        dim: dimension or dimensions to reduce. The default is all of them, as one vector.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the computation and of the result. It must not be narrower than that of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([3.0, -4.0])
    >>> ndgrad.linalg.vector_norm(x), ndgrad.linalg.vector_norm(x, 1), ndgrad.linalg.vector_norm(x, float("inf"))
    (tensor(5.), tensor(7.), tensor(4.))
    """
    dims = dims_of(dim, ndim_of(input, "vector_norm"))
    if isinstance(ord, (str, bytes)) or not isinstance(ord, (int, float)):
        raise TypeError(
            f"linalg.vector_norm(): argument 'ord' (position 2) must be a number, not {ord!r}. "
            "Matrix norms have named orders. [nd-type]"
        )
    x = _prepare("vector_norm", input, dtype)
    if (ord < 0 or ord == math.inf) and reductions.count(tuple(x.shape), dims) == 0:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor (shape {tuple(x.shape)}, "
            f"dims {dims}): it has no value there. Look at numel() first. [nd-too-few]"
        )
    if ord == 0:
        counts = reductions.count_nonzero(x, dim=dims, keepdim=keepdim)
        return deliver("vector_norm", cast.cast(counts, dtype=_real(np_dtype(x))), out, input)
    return deliver("vector_norm", ops.vector_norm.eager(x, ord=float(ord), dim=dims, keepdim=keepdim), out, input)


# ----- matrices -------------------------------------------------------------------------------------------------------

_MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@both_worlds
def matrix_norm(
    input: Tensor,
    ord: str | float = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Dtype = None,
    out: Tensor | None = None,
) -> Tensor:
    """A norm of matrices, whose rows and columns are the dims `dim`.

    'fro': Frobenius norm; 'nuc': sum of the singular values; 2 and -2: largest and smallest singular value; 1 and -1:
    largest and smallest column sum of absolute values; inf and -inf: the same for row sums.

    Args:
        input: floating or complex tensor of at least two dimensions.
        ord: order of the norm, one of the above.
        dim: dimensions of the rows and of the columns.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the computation and of the result. It must not be narrower than that of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> a = ndgrad.tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> ndgrad.linalg.matrix_norm(a, 1), ndgrad.linalg.matrix_norm(a, float("inf"))
    (tensor(6.), tensor(7.))
    """
    ndim = ndim_of(input, "matrix_norm")
    if ndim < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions, "
            f"but has {ndim}. Use vector_norm(). [nd-ndim]"
        )
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(
            f"linalg.matrix_norm: dim must be a 2-tuple, the dims of rows and columns. Got {dim!r}. [nd-dim]"
        )
    rows, columns = as_dim(dim[0], ndim), as_dim(dim[1], ndim)
    if rows == columns:
        raise RuntimeError(
            f"linalg.matrix_norm: dims must be different. Got {tuple(dim)} of a tensor with {ndim} dimensions. [nd-dim]"
        )
    if isinstance(ord, bool) or ord not in _MATRIX_ORDERS:
        raise RuntimeError(
            f"linalg.matrix_norm: Order {ord} not supported. It is one of: {', '.join(map(str, _MATRIX_ORDERS))}. "
            "[nd-option]"
        )
    x = _prepare("matrix_norm", input, dtype)
    if ord == "fro":
        result = ops.vector_norm(x, ord=2.0, dim=(rows, columns), keepdim=keepdim)
    elif ord in ("nuc", 2, -2):
        result = _spectral_norm(x, ord, rows, columns, keepdim)
    else:
        result = _line_sum_norm(x, float(ord), rows, columns, keepdim)
    return deliver("matrix_norm", result, out, input)


def _spectral_norm(x: Tensor, ord: str | float, rows: int, columns: int, keepdim: bool) -> Tensor:
    """Compute norms from singular values."""
    ndim = len(x.shape)
    order = (*(i for i in range(ndim) if i not in (rows, columns)), rows, columns)
    values = decomposition.svdvals(shape.permute(x, dims=order))
    last = (ndim - 2,)
    if ord == "nuc" or values.shape[-1] == 0:
        result = reductions.sum(values, dim=last)
    else:
        result = (extremum.amax if ord == 2 else extremum.amin)(values, dim=last)
    if not keepdim:
        return result
    result = shape.reshape(result, shape=(*tuple(result.shape), 1, 1))
    return shape.permute(result, dims=inverse_permutation(order))


def _line_sum_norm(x: Tensor, ord: float, rows: int, columns: int, keepdim: bool) -> Tensor:
    """Return the extreme column sum (orders 1 and -1) or row sum (inf and -inf) of absolute values."""
    summed, compared = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reductions.sum(complex_ops.abs(x), dim=(summed,), keepdim=True)
    if sums.shape[compared] == 0:
        result = reductions.sum(sums, dim=(compared,), keepdim=True)
    else:
        result = (extremum.amax if ord > 0 else extremum.amin)(sums, dim=(compared,), keepdim=True)
    if keepdim:
        return result
    return shape.reshape(result, shape=tuple(n for i, n in enumerate(x.shape) if i not in (rows, columns)))


# ----- vector or matrix norm ------------------------------------------------------------------------------------------


def _as_tuple(dim: Dims) -> tuple[int, ...] | None:
    return None if dim is None else tuple(dim) if isinstance(dim, Sequence) else (dim,)


@both_worlds
def linalg_norm(
    input: Tensor,
    ord: str | float | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Dtype = None,
    out: Tensor | None = None,
) -> Tensor:
    """A matrix norm over two dims or of a named order, else a vector norm; without `ord`, the 2-norm of all elements.

    Args:
        input: floating or complex tensor.
        ord: order of the norm, as in `vector_norm` or `matrix_norm`. A given order needs `dim` if `input` has not one
            or two dimensions.
        dim: one dimension for a vector norm, or two for a matrix norm. The default is all dimensions.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the computation and of the result. It must not be narrower than that of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> a = ndgrad.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> ndgrad.linalg.norm(a), ndgrad.linalg.norm(a, 2), ndgrad.linalg.norm(a, dim=1)
    (tensor(5.), tensor(4.), tensor([3., 4.]))
    """
    ndim = ndim_of(input, "norm")
    if ord is not None and dim is None and ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {ndim}D. Give dim=. "
            "[nd-dim]"
        )
    dims = _as_tuple(dim)
    if ord is not None and (
        isinstance(ord, str) or (dims is None and ndim == 2) or (dims is not None and len(dims) == 2)
    ):
        return matrix_norm(input, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype, out=out)
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


@both_worlds
def norm(
    input: Tensor,
    p: str | float | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: Dtype = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of order `p` over `dim`, all by default: 'fro', 'nuc' (over two dims), or a number for a vector norm.

    Args:
        input: floating or complex tensor.
        p: order of the norm. `"fro"` and None mean the 2-norm of all elements.
        dim: dimension or dimensions to reduce. The default is all of them, and the last two for `"nuc"`.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the computation and of the result. It must not be narrower than that of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    if p is None or p == "fro":
        return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
    if isinstance(p, str):
        return matrix_norm(input, p, _as_tuple(dim) or (-2, -1), keepdim, dtype=dtype, out=out)
    return vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)


def frobenius_norm(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of squares over one or two dimensions: an older name of `linalg.vector_norm`.

    Args:
        input: floating or complex tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.frobenius_norm(ndgrad.tensor([[3.0, 4.0]]), dim=1)
    tensor([5.])
    """
    return deliver("frobenius_norm", vector_norm(input, 2, None if dim == () else dim, keepdim), out, input)


def nuclear_norm(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of singular values: an older name of `linalg.matrix_norm(input, "nuc")`.

    Args:
        input: floating or complex tensor of at least two dimensions.
        dim: dimensions of the rows and of the columns. The default is the last two.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nuclear_norm(ndgrad.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    dims: Any = (-2, -1) if dim is None else dim
    return deliver("nuclear_norm", matrix_norm(input, "nuc", dims, keepdim), out, input)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which keeps its position; over all of them if dim is -1.

    Args:
        v: floating or complex tensor.
        pow: order of the norm.
        dim: dimension that is kept.

    >>> import ndgrad
    >>> ndgrad.norm_except_dim(ndgrad.tensor([[3.0, 4.0], [0.0, 1.0]]), 2, 0)
    tensor([[5.],
            [1.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    kept = as_dim(dim, v.ndim)
    return vector_norm(v, pow, tuple(d for d in range(v.ndim) if d != kept), True)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the p-norm of `input - other`, a number.

    Args:
        input: floating or complex tensor.
        other: tensor that broadcasts with `input`.
        p: order of the norm, as in `linalg.vector_norm`.

    >>> import ndgrad
    >>> ndgrad.dist(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p)


# ----- renorm ---------------------------------------------------------------------------------------------------------


def _renorm_settings(input: Tensor, p: float, dim: int, maxnorm: float) -> dict[str, Any]:
    ndim = ndim_of(input, "renorm")
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, but p is {p}. Give p > 0. [nd-range]")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}. [nd-range]")
    if ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {ndim} dimensions. Reshape it. [nd-ndim]")
    return {
        "p": float(as_number("renorm", "p", p)),
        "dim": as_dim(dim, ndim),
        "maxnorm": float(as_number("renorm", "maxnorm", maxnorm)),
    }


@both_worlds
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Scale down each slice along `dim` whose p-norm exceeds `maxnorm` to that norm.

    Args:
        input: tensor of at least two dimensions.
        p: positive order of the norm.
        dim: dimension along which the slices are taken.
        maxnorm: largest norm of a slice.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.renorm(ndgrad.tensor([[1.0, 0.0], [6.0, 8.0]]), p=2, dim=0, maxnorm=5.0)
    tensor([[1., 0.],
            [3., 4.]])
    """
    return deliver("renorm", ops.renorm(input, **_renorm_settings(input, p, dim, maxnorm)), out, input)


@both_worlds
def renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """In-place version of `renorm`.

    Args:
        self: tensor to change, of at least two dimensions.
        p: positive order of the norm.
        dim: dimension along which the slices are taken.
        maxnorm: largest norm of a slice.

    >>> import ndgrad
    >>> ndgrad.tensor([[0.0, 8.0]]).renorm_(p=1, dim=0, maxnorm=4.0).round(decimals=3)
    tensor([[0., 4.]])
    """
    return write(ops.renorm, self, (), _renorm_settings(self, p, dim, maxnorm))
