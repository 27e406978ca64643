"""Argument checks for functions of matrices, and constants that these functions need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import finfo, is_half, is_inexact
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops import comparison, reduce, shape
from ndgrad._src.tensor.functions.product import broadcast_shapes, conjugate

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Tensor


def require_matrices(name: str, A: Tensor, argument: str = "A") -> None:
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.{name}: The input tensor {argument} must have at least 2 dimensions, "
            f"but has shape {tuple(A.shape)}. Matrices stand in the last two. [nd-matrix]"
        )


def require_square(name: str, A: Tensor, argument: str = "A") -> None:
    require_matrices(name, A, argument)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: {argument} must be batches of square matrices, but they are {A.shape[-2]} by "
            f"{A.shape[-1]} matrices (shape {tuple(A.shape)}). Use pinv, lstsq or svd for others. [nd-matrix]"
        )


def require_precision(name: str, A: Tensor) -> None:
    if is_half(np_dtype(A)):
        raise RuntimeError(
            f"linalg.{name}: Low precision dtypes not supported. Got {np_dtype(A)}. Convert with .to(ndgrad.float32). "
            "[nd-dtype]"
        )


def payload(x: Tensor | Payload) -> Payload:
    """Return the array under all levels of a tensor; an array is returned unchanged."""
    while isinstance(x, Variable):
        x = x._array
    return x


def identity(like: Tensor, n: int, batch: tuple[int, ...] = ()) -> Tensor:
    """Return the identity in the dtype, array library and class of a tensor; a batch is expanded without copies."""
    array = payload(like)
    dtype = array.dtype if is_inexact(array.dtype) else np.dtype(np.float64)
    eye = wrap(like.tensor_type, library_of(array).eye(n, dtype=dtype))
    return shape.expand(eye, shape=(*batch, n, n)) if batch else eye


def transpose_matrices(x: Tensor) -> Tensor:
    n = x.ndim
    return shape.permute(x, dims=(*range(n - 2), n - 1, n - 2))


def adjoint(x: Tensor) -> Tensor:
    return conjugate(transpose_matrices(x))


def add_column(x: Tensor) -> Tensor:
    return shape.reshape(x, shape=(*x.shape, 1))


def drop_column(x: Tensor) -> Tensor:
    return shape.reshape(x, shape=x.shape[:-1])


def precision(dtype: np.dtype[Any]) -> float:
    return float(finfo(dtype if is_inexact(dtype) else np.float64).eps)


def is_vector(A: Tensor, B: Tensor) -> bool:
    """True if B is a vector or a batch of vectors, by torch's rule."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def require_system(name: str, A: Tensor, B: Tensor, left: bool) -> None:
    rows = B.shape[-2] if left else B.shape[-1]
    if A.shape[-1] != rows:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"linalg.{name}: Incompatible shapes of A and B for the equation {equation} ({A.shape[-2]}x{A.shape[-1]} "
            f"and {B.shape[-2]}x{B.shape[-1]}). Check which of them is to be transposed. [nd-shape]"
        )
    broadcast_shapes(f"linalg.{name}", tuple(A.shape[:-2]), tuple(B.shape[:-2]))


def tolerances(
    A: Tensor, atol: float | Tensor | None, rtol: float | Tensor | None
) -> tuple[float | Tensor, float | Tensor]:
    if rtol is None:
        rtol = (
            0.0
            if atol is not None and not isinstance(atol, Variable) and atol > 0
            else max(A.shape[-2:]) * precision(np_dtype(A))
        )
    return 0.0 if atol is None else _plain(atol), _plain(rtol)


def _plain(tolerance: float | Tensor) -> float | Tensor:
    return tolerance.detach() if isinstance(tolerance, Variable) else float(tolerance)


def count_above(values: Tensor, limit: float | Tensor) -> Tensor:
    """Count the values above a limit along the last dimension."""
    return reduce.sum(comparison.gt(values, limit), dim=(values.ndim - 1,), keepdim=False)
