"""L D L^T factors of symmetric (Hermitian) indefinite matrices, and the solution of linear systems with them, as in
torch.linalg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.ops import ldl as ops
from ndgrad._src.ops import shape
from ndgrad._src.ops.matrix import LinAlgError, adjoint, transpose
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.functions.product import broadcast_shapes, takes_out
from ndgrad._src.tensor.matrix_arguments import payload, require_matrices, require_precision, require_square

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


@takes_out
def ldl_factor_ex(
    A: Tensor,
    *,
    hermitian: bool = False,
    check_errors: bool = False,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> return_types.linalg_ldl_factor_ex:
    """Return the factors of A = L D L^T (L D L^H with `hermitian`), packed as in LAPACK; row exchanges, counted from 1
    and negative in blocks of two; and the index of the first zero pivot, or 0. Only the lower triangle of A is read.

    Args:
        A: symmetric or Hermitian matrices of shape (..., n, n).
        hermitian: whether complex matrices are Hermitian instead of symmetric.
        check_errors: whether a zero pivot raises LinAlgError.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.linalg.ldl_factor_ex(ndgrad.tensor([[0.0, 1.0], [1.0, 0.0]])).pivots
    tensor([-2, -2], dtype=ndgrad.int32)
    """
    require_square("ldl_factor_ex", A)
    require_precision("ldl_factor_ex", A)
    made = return_types.linalg_ldl_factor_ex(*ops.ldl_factor(A, hermitian=hermitian))
    if check_errors:
        _require_pivots("ldl_factor_ex", A, made.info)
    return made


def _require_pivots(name: str, A: Tensor, info: Tensor) -> None:
    failed = payload(info)
    if not getattr(failed, "is_meta", False) and failed.any():
        raise LinAlgError(
            f"linalg.{name}: D has a zero pivot, the {int(failed.max())}-th, so the matrix (shape "
            f"{tuple(A.shape)}) is singular. "
            "Use ldl_factor_ex(), which reports it in info. [nd-singular]"
        )


@takes_out
def ldl_factor(
    A: Tensor, *, hermitian: bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.linalg_ldl_factor:
    """Return the packed factors of A = L D L^T (L D L^H with `hermitian`), and row exchanges, for `ldl_solve`.

    Args:
        A: symmetric or Hermitian matrices of shape (..., n, n).
        hermitian: whether complex matrices are Hermitian instead of symmetric.
        out: tuple of tensors that receive the results.

    Raises:
        LinAlgError: if a pivot is zero.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[4.0, 2.0], [2.0, -3.0]])
    >>> ndgrad.linalg.ldl_factor(A).LD
    tensor([[ 4.0000,  0.0000],
            [ 0.5000, -4.0000]])
    """
    require_square("ldl_factor", A)
    require_precision("ldl_factor", A)
    packed, pivots, info = ops.ldl_factor(A, hermitian=hermitian)
    _require_pivots("ldl_factor", A, info)
    return return_types.linalg_ldl_factor(packed, pivots)


@takes_out
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """Solve A X = B, given the factors of A.

    Args:
        LD: packed factors of shape (..., n, n), as `ldl_factor` returns them.
        pivots: row exchanges of shape (..., n), as `ldl_factor` returns them.
        B: right-hand sides of shape (..., n, k).
        hermitian: the same choice as in `ldl_factor`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[4.0, 2.0], [2.0, -3.0]])
    >>> ndgrad.linalg.ldl_solve(*ndgrad.linalg.ldl_factor(A), ndgrad.tensor([[6.0], [-1.0]]))
    tensor([[1.],
            [1.]])
    """
    require_square("ldl_solve", LD, "LD")
    require_matrices("ldl_solve", B, "B")
    if LD.shape[-1] != B.shape[-2] or tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            f"linalg.ldl_solve: Incompatible shapes: LD {tuple(LD.shape)}, pivots {tuple(pivots.shape)} and B "
            f"{tuple(B.shape)}. A has "
            "as many rows as B, and there is one pivot for each. [nd-shape]"
        )
    batch = broadcast_shapes("ldl_solve", tuple(LD.shape[:-2]), tuple(B.shape[:-2]))
    n = LD.shape[-1]
    LD, pivots = shape.expand(LD, shape=(*batch, n, n)), shape.expand(pivots, shape=(*batch, n))
    x = ops.exchange_rows(shape.expand(B, shape=(*batch, *tuple(B.shape[-2:]))), pivots, False, tensor_ops)
    lower, middle = ops.unpack(LD, pivots, hermitian, tensor_ops)
    above = adjoint(lower, tensor_ops) if hermitian else transpose(lower, tensor_ops)
    x = tensor_ops.solve_triangular(lower, x, upper=False, unitriangular=True)
    x = tensor_ops.solve(middle, x)
    x = tensor_ops.solve_triangular(above, x, upper=True, unitriangular=True)
    return ops.exchange_rows(x, pivots, True, tensor_ops)
