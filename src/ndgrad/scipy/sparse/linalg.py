"""`scipy.sparse.linalg` with derivatives: direct and iterative solves, exponentials times vectors, norms.

Direct solves are an op with SuperLU inside, whose factors the backward pass uses again. Iterative ones are differentiated through the
equation they solve (ndgrad.implicit.linear_solve), not through their steps; the derivative is another solve by the same method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.implicit.linear import linear_solve
from ndgrad.numpy.coercion import as_array, operands, values_of
from ndgrad.ops import sparse as ops
from ndgrad.scipy._without_rules import beyond, floating
from ndgrad.scipy.sparse.arrays import SparseArray, as_sparse, is_scipys
from ndgrad.scipy.sparse.construction import eye_array
from ndgrad.storage import batch_dims

__all__ = [
    "bicg", "bicgstab", "cg", "cgs", "expm_multiply", "factorized", "gmres", "inv", "lgmres", "lsmr", "lsqr", "minres", "norm", "splu",
    "spsolve", "spsolve_triangular",
]  # fmt: skip


def _square(name: str, A: Any) -> SparseArray:
    a = as_sparse(A)
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"{name}: matrix must be square (has shape {a.shape})")
    return a


def _solve(a: SparseArray, b: Any, adjoint: bool = False) -> Any:
    t = floating(b)
    data, t = operands(floating(a.data), t)
    vector = t.ndim == 1
    if t.shape[0 if vector else -2] != a.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({a.shape} - {tuple(t.shape)})")
    made = ops.sparse_solve(data, t[:, None] if vector else t, pattern=a.pattern, adjoint=adjoint)
    return made[:, 0] if vector else made


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """The x with A x = b, differentiable in b and in the entries of A; a sparse b is taken as columns, and the result is full."""
    right = as_sparse(b).toarray() if isinstance(b, SparseArray) or is_scipys(b) else as_array(b)
    made = _solve(_square("spsolve", A), right)
    return made[:, 0] if made.ndim == 2 and made.shape[1] == 1 and right.ndim == 2 else made


def factorized(A: Any) -> Callable[[Any], Any]:
    """A function that solves with A; the factors are found once."""
    a = _square("factorized", A)
    return lambda b: _solve(a, b)


class _Factored:
    """What `splu` gives: solves with a matrix, its transpose or its adjoint."""

    def __init__(self, a: SparseArray) -> None:
        self._a, self.shape, self.nnz = a, a.shape, a.nnz

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        if trans == "N":
            return _solve(self._a, rhs)
        if trans == "H":
            return _solve(self._a, rhs, adjoint=True)
        if trans == "T":
            return _solve(self._a, floating(rhs).conj(), adjoint=True).conj()
        raise ValueError("trans must be N, T, or H")


def splu(
    A: Any, permc_spec: Any = None, diag_pivot_thresh: Any = None, relax: Any = None, panel_size: Any = None, options: Any = None
) -> Any:
    """Solves with A, by factors that are found once; the factors themselves have no derivative."""
    return _Factored(_square("splu", A))


def spsolve_triangular(
    A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False, unit_diagonal: bool = False
) -> Any:
    """The x with A x = b for a triangular A, whose other triangle must be empty."""
    a = _square("spsolve_triangular", A)
    wrong = a.pattern.rows < a.pattern.columns if lower else a.pattern.rows > a.pattern.columns
    if wrong.any():
        raise ValueError(f"A is not triangular: it has entries {'above' if lower else 'below'} the diagonal.")
    if unit_diagonal:
        keep = numpy.flatnonzero(a.pattern.rows != a.pattern.columns)

        strict = type(a)((a.data[keep], (a.pattern.rows[keep], a.pattern.columns[keep])), shape=a.shape)
        a = strict + eye_array(a.shape[0])
    return _solve(a, b)


def inv(A: Any) -> Any:
    """The inverse, as a full matrix: that of a sparse one seldom is."""
    a = _square("inv", A)
    return _solve(a, np.eye(a.shape[0]))


# ----- iterative ------------------------------------------------------------------------------------------------------------------


def _operator(A: Any) -> tuple[Callable[[Any], Any], tuple[int, int]]:
    """A as a function of vectors: a sparse or full matrix, a linear function, or one of SciPy's operators (a constant)."""
    if isinstance(A, SparseArray) or is_scipys(A):
        a = as_sparse(A)
        return (lambda v: a @ v), a.shape
    if isinstance(A, (Variable, numpy.ndarray, list)):
        full = floating(A)
        return (lambda v: full @ v), tuple(full.shape)
    if hasattr(A, "matvec"):
        raise NotImplementedError(
            "a LinearOperator has no derivative: pass a matrix, or a function of an Array to ndgrad.implicit.linear_solve."
        )
    raise TypeError(f"a matrix was expected, and got {type(A).__name__}.")


def _preconditioner(M: Any) -> Any:
    if M is None:
        return None
    if hasattr(M, "matvec"):
        return M.matvec
    if isinstance(M, SparseArray):
        return M.to_scipy().__matmul__
    return (values_of(as_array(M).detach()) if not is_scipys(M) else M).__matmul__


def _iterative(name: str, method: str, symmetric: bool = False) -> Callable[..., Any]:
    def function(
        A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None,
        callback: Any = None, **options: Any,
    ) -> tuple[Any, int]:  # fmt: skip
        apply, shape = _operator(A)
        right = floating(b)
        flat = right.reshape((-1,)) if right.ndim > 1 else right
        if shape[0] != shape[1] or shape[0] != flat.shape[0]:
            raise ValueError(f"{name}: a matrix of shape {shape} and b of shape {tuple(right.shape)} do not fit.")
        if callback is not None:
            raise NotImplementedError(
                f"{name}: callbacks see steps that are no part of the derivative. Leave it out, or use scipy's {name}."
            )
        start = None if x0 is None else floating(x0).detach()
        # a looser solve would make a looser gradient: the equation is solved to the tolerance asked for, and at least well
        x = linear_solve(
            apply, flat, method=method, symmetric=symmetric, x0=start, rtol=min(rtol, 1e-10), atol=atol, maxiter=maxiter,
            preconditioner=_preconditioner(M), on_failure="return",
        )  # fmt: skip

        info = 0
        if not batch_dims(x):
            residual = float(numpy.linalg.norm(values_of((apply(x.detach()) - flat.detach()).detach())))
            allowed = max(rtol * float(numpy.linalg.norm(values_of(flat.detach()))), atol)
            info = 0 if residual <= allowed else (maxiter or 10 * shape[0])
        return x, info

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.sparse.linalg.{name}`: the solution and whether it was found (0), differentiable in b and in A's entries."
    return function


cg = _iterative("cg", "cg", symmetric=True)
minres = _iterative("minres", "minres", symmetric=True)
gmres = _iterative("gmres", "gmres")
lgmres = _iterative("lgmres", "gmres")
bicgstab = _iterative("bicgstab", "bicgstab")
bicg = _iterative("bicg", "bicgstab")
cgs = _iterative("cgs", "bicgstab")


def _least_squares(name: str, count: int) -> Callable[..., Any]:
    def function(A: Any, b: Any, damp: Any = 0.0, *args: Any, **options: Any) -> tuple[Any, ...]:
        apply, shape = _operator(A)
        right = floating(b)
        if not isinstance(damp, (int, float)) or damp != 0:
            weight = floating(damp)
            plain = apply
            apply = lambda v: np.concatenate([plain(v), weight * v])
            right = np.concatenate([right, np.zeros(shape[1])])
        x = linear_solve(apply, right, method="lsmr", x0=np.zeros(shape[1]), rtol=1e-12, on_failure="return")
        rest = np.linalg.norm(apply(x) - right)
        return (x, 1, 0, rest, *(numpy.nan,) * (count - 4))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"`scipy.sparse.linalg.{name}`: x, the reason (1), iterations (not counted) and the norm of the rest; other numbers are NaN."
    )
    return function


lsqr = _least_squares("lsqr", 10)
lsmr = _least_squares("lsmr", 8)

# ----- functions of matrices ----------------------------------------------------------------------------------------------------------


def expm_multiply(A: Any, B: Any, start: Any = None, stop: Any = None, num: Any = None, endpoint: Any = None, traceA: Any = None) -> Any:
    """exp(A) B without the exponential: by Taylor's series in steps that the norm of A decides. Differentiable in both."""
    if start is not None or stop is not None:
        raise NotImplementedError("expm_multiply over several times has no rule here. Call it with t * A for each time.")
    apply, shape = _operator(A)
    made = floating(B)
    if isinstance(A, SparseArray) or is_scipys(A):
        a = as_sparse(A)
        sums = numpy.zeros(shape[1])
        numpy.add.at(sums, a.pattern.columns, numpy.abs(values_of(a.data.detach())))
        size = float(sums.max(initial=0.0))
    else:
        size = float(numpy.abs(values_of(floating(A).detach())).sum(axis=0).max(initial=0.0))
    steps = max(1, int(numpy.ceil(size / 2.0)))
    for _ in range(steps):
        term = made
        for k in range(1, 29):  # 2^28 / 28! is below 1e-21
            term = apply(term) / float(k * steps)
            made = made + term
    return made


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """Norms of a sparse matrix that its entries give: Frobenius, 1, infinity, and their minima."""
    a = as_sparse(x)
    if axis is not None:
        squares = a._like((a.data * a.data.conj()).real if np_dtype(a.data).kind == "c" else a.data * a.data)
        if ord in (None, 2):
            return np.sqrt(squares.sum(axis))
        if ord == 1:
            return abs(a).sum(axis)
        raise NotImplementedError(f"norm(ord={ord!r}, axis={axis!r}) of a sparse array has no rule here. Use toarray().")
    if ord in (None, "fro", "f"):
        return np.linalg.norm(_merged(a).data)
    if ord in (1, -1, numpy.inf, -numpy.inf):
        sums = abs(_merged(a)).sum(0 if abs(ord) == 1 else 1)
        return sums.max() if ord > 0 else sums.min()
    raise NotImplementedError(f"norm(ord={ord!r}) of a sparse array has no rule here. Use ndgrad.scipy.linalg.norm of toarray().")


def _merged(a: SparseArray) -> SparseArray:
    """Entries at one place added up."""
    return a._summed(a.data, a.pattern.rows, a.pattern.columns, a.shape)


_DENSE = "ndgrad.scipy.linalg of a.toarray(): its function has a rule"

__getattr__ = beyond(
    "sparse.linalg",
    {
        **dict.fromkeys(("eigs", "eigsh", "svds", "lobpcg", "expm", "matrix_power", "onenormest", "funm_multiply_krylov"), _DENSE),
        **dict.fromkeys(("qmr", "tfqmr", "gcrotmk"), "gmres or bicgstab"),
        "spilu": "splu",
        **dict.fromkeys(("LinearOperator", "aslinearoperator", "LaplacianNd"), "a function of an Array, with ndgrad.implicit.linear_solve"),
    },
    decisions="is_sptriangular spbandwidth use_solver",
)
