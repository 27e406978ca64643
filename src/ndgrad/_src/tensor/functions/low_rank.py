"""A few singular values or eigenvalues of large matrices, under torch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import index, product
from ndgrad._src.ops import solve as solve_ops
from ndgrad._src.tensor.functions import decomposition, random
from ndgrad._src.tensor.functions.reduce import mean
from ndgrad._src.tensor.matrix_arguments import adjoint, require_matrices, require_square

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


# ----- by random projections ------------------------------------------------------------------------------------------


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return approximations of U, S and V for the q largest singular values of A (of A - M). A is first projected on a
    random subspace. `niter` iterations turn it towards the singular vectors (Halko, Martinsson and Tropp, 2009). Exact
    if the rank of A is at most q.

    Args:
        A: matrices of shape (..., m, n).
        q: number of singular values, reduced to min(m, n) if larger. None means 6.
        niter: number of iterations, each of two products with A. None means 2.
        M: matrices to subtract, which broadcast with A.

    Returns:
        U of shape (..., m, q), S of shape (..., q) and V of shape (..., n, q).

    >>> import ndgrad
    >>> U, S, V = ndgrad.svd_lowrank(ndgrad.tensor([[3.0, 0.0], [4.0, 0.0]]), q=1)
    >>> S
    tensor([5.])
    """
    require_matrices("svd_lowrank", A)
    steps = 2 if niter is None else niter
    x = A if M is None else A - M
    m, n = x.shape[-2:]
    count = 6 if q is None else q
    _check_counts("svd_lowrank", count, steps, None)
    count = min(count, m, n)
    wide = m < n
    tall = adjoint(x) if wide else x
    draw = random.randn(*tuple(x.shape[:-2]), tall.shape[-1], count, dtype=as_dtype(np_dtype(x)), device=x.device)
    basis = decomposition.qr(product.matmul(tall, draw)).Q
    for _ in range(steps):
        basis = decomposition.qr(product.matmul(adjoint(tall), basis)).Q
        basis = decomposition.qr(product.matmul(tall, basis)).Q
    U, S, Vh = decomposition.svd(product.matmul(adjoint(basis), tall), full_matrices=False)
    left, right = product.matmul(basis, U), adjoint(Vh)
    return (right, S, left) if wide else (left, S, right)


def _check_counts(name: str, q: int, niter: int, most: int | None) -> None:
    if q < 0 or (most is not None and q > most):
        raise ValueError(
            f"{name}: q(={q}) must be non-negative integer"
            + ("" if most is None else f" and not greater than min(m, n)={most}.")
            + " [nd-range]"
        )
    if niter < 0:
        raise ValueError(f"{name}: niter(={niter}) must be non-negative integer. [nd-range]")


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return the q principal components of observations (rows): `svd_lowrank` of A minus the means of its columns.

    Args:
        A: observations in the rows of matrices of shape (..., m, n).
        q: number of components. The default is min(6, m, n).
        center: whether the means of the columns are subtracted.
        niter: number of iterations, as in `svd_lowrank`.

    Returns:
        U of shape (..., m, q), S of shape (..., q), and the principal directions V of shape (..., n, q).

    >>> import ndgrad
    >>> U, S, V = ndgrad.pca_lowrank(ndgrad.tensor([[1.0, 5.0], [-1.0, 5.0]]), q=1)
    >>> V.abs()
    tensor([[1.],
            [0.]])
    """
    require_matrices("pca_lowrank", A)
    least = min(A.shape[-2:])
    count = min(6, least) if q is None else q
    _check_counts("pca_lowrank", count, niter, least)
    return svd_lowrank(A - mean(A, -2, True) if center else A, count, niter)


# ----- eigenvalues ----------------------------------------------------------------------------------------------------


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest (or smallest) eigenvalues and eigenvectors of a symmetric matrix: A X = X diag(E), or
    A X = B X diag(E).

    Dense matrices are decomposed directly, to rounding. Arguments of an iteration (X, iK, niter, tol, method) are
    checked and not needed.

    Args:
        A: symmetric matrices of shape (..., m, m).
        k: number of eigenvalues. The default is the number of columns of X, or 1.
        B: symmetric positive definite matrices of shape (..., m, m) of the generalized problem. The default is the
            identity.
        X: first approximation of shape (..., m, n). Only its shape matters.
        n: number of vectors of the iteration, at most a third of m. It is only checked.
        iK, niter, tol, ortho_iparams, ortho_fparams, ortho_bparams: settings of the iteration, accepted as in torch.
            They have no effect, because the decomposition is direct.
        largest: whether the largest eigenvalues are returned, in descending order, instead of the smallest. None means
            True.
        method: None, `"basic"` or `"ortho"`. The choice has no effect.
        tracker: must be None, because there are no iterations to follow.

    Returns:
        The eigenvalues E of shape (..., k) and the eigenvectors X of shape (..., m, k).

    >>> import ndgrad
    >>> E, X = ndgrad.lobpcg(ndgrad.diag(ndgrad.tensor([1.0, 2.0, 3.0])), k=1)
    >>> E, X.abs()
    (tensor([3.]), tensor([[0.],
            [0.],
            [1.]]))
    """
    require_square("lobpcg", A)
    rows = A.shape[-1]
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', but is {method!r}. [nd-option]")
    if tracker is not None:
        raise NotImplementedError(
            "lobpcg: there is no iteration for a tracker to follow: dense matrices are decomposed outright. Leave it "
            "out. [nd-arguments]"
        )
    if X is not None and X.shape[-2] != rows:
        raise RuntimeError(f"lobpcg: X must have the {rows} rows of A, but has shape {tuple(X.shape)}. [nd-shape]")
    count = k if k is not None else 1 if X is None else X.shape[-1]
    if X is not None and n is None:
        n = X.shape[-1]
    if rows < 3 * (count if n is None else n):
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the number of "
            "requested eigenpairs "
            f"(={count if n is None else n}). Use linalg.eigh(). [nd-range]"
        )
    if B is None:
        values, vectors = decomposition.eigh(A)
    else:
        # With B = L L^H, the eigenvectors of L^-1 A L^-H are L^H X.
        require_square("lobpcg", B, "B")
        lower = decomposition.cholesky(B)
        half = solve_ops.solve_triangular(lower, A, upper=False, unitriangular=False)
        reduced = solve_ops.solve_triangular(lower, adjoint(half), upper=False, unitriangular=False)
        values, vectors = decomposition.eigh(reduced)
        vectors = solve_ops.solve_triangular(adjoint(lower), vectors, upper=True, unitriangular=False)
    chosen = slice(None, -count - 1, -1) if largest is None or largest else slice(0, count)
    return index.getitem(values, index=(Ellipsis, chosen)), index.getitem(
        vectors, index=(Ellipsis, slice(None), chosen)
    )
