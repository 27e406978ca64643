"""`scipy.sparse.linalg` with derivatives: direct and iterative solves, exponentials times vectors, norms.

Direct solves are an op with SuperLU inside, whose factors the backward pass uses again. Iterative solves are
differentiated through their equation (ndgrad.implicit.linear_solve), not through their steps; the derivative is another
solve by the same method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import sparse as ops
from ndgrad._src.tensor.storage import batch_dims
from ndgrad.implicit.linear import linear_solve
from ndgrad.numpy.coercion import as_array, operands, values_of
from ndgrad.scipy._without_rules import floating, make_module_getattr, public_of
from ndgrad.scipy.sparse.arrays import SparseArray, as_sparse, is_scipys
from ndgrad.scipy.sparse.construction import eye_array

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike
    from ndgrad.scipy.sparse.arrays import SparseLike

__all__ = [
    "bicg", "bicgstab", "cg", "cgs", "expm_multiply", "factorized", "gmres", "inv", "lgmres", "lsmr", "lsqr", "minres",
    "norm", "splu", "spsolve", "spsolve_triangular",
]  # fmt: skip


def _square(name: str, A: SparseLike) -> SparseArray:
    a = as_sparse(A)
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"{name}: matrix must be square (has shape {a.shape}) [nd-matrix]")
    return a


def _solve(a: SparseArray, b: ArrayLike, adjoint: bool = False) -> Array:
    t = floating(b)
    data, t = operands(floating(a.data), t)
    vector = t.ndim == 1
    if t.shape[0 if vector else -2] != a.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({a.shape} - {tuple(t.shape)}) [nd-shape]")
    made = ops.sparse_solve(data, t[:, None] if vector else t, pattern=a.pattern, adjoint=adjoint)
    return made[:, 0] if vector else made


def spsolve(A: SparseLike, b: ArrayLike, permc_spec: str | None = None, use_umfpack: bool = True) -> Array:
    """Solve A x = b, differentiable in b and in the entries of A. The result is dense.

    Args:
        A: square sparse matrix.
        b: right side, of shape (n,) or (n, k). A sparse one is treated as columns.
        permc_spec: accepted as in SciPy; has no effect, because it only tunes the factorisation.
        use_umfpack: accepted as in SciPy; has no effect, because it only tunes the factorisation.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> linalg.spsolve(sparse.csc_array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 5.0]))
    array([1., 1.])
    """
    right = as_sparse(b).toarray() if isinstance(b, SparseArray) or is_scipys(b) else as_array(b)
    made = _solve(_square("spsolve", A), right)
    return made[:, 0] if made.ndim == 2 and made.shape[1] == 1 and right.ndim == 2 else made


def factorized(A: SparseLike) -> Callable[[ArrayLike], Array]:
    """Return a function that solves with A; the factors are computed once.

    Args:
        A: square sparse matrix.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> solve = linalg.factorized(sparse.csc_array([[2.0, 0.0], [1.0, 4.0]]))
    >>> solve(np.array([2.0, 5.0]))
    array([1., 1.])
    """
    a = _square("factorized", A)
    return lambda b: _solve(a, b)


class _Factored:
    """The result of `splu`: solves with a matrix, its transpose or its adjoint."""

    def __init__(self, a: SparseArray) -> None:
        self._a, self.shape, self.nnz = a, a.shape, a.nnz

    def solve(self, rhs: ArrayLike, trans: str = "N") -> Array:
        if trans == "N":
            return _solve(self._a, rhs)
        if trans == "H":
            return _solve(self._a, rhs, adjoint=True)
        if trans == "T":
            return _solve(self._a, floating(rhs).conj(), adjoint=True).conj()
        raise ValueError("trans must be N, T, or H [nd-option]")


def splu(
    A: SparseLike, permc_spec: str | None = None, diag_pivot_thresh: float | None = None, relax: int | None = None,
    panel_size: int | None = None, options: dict[str, Any] | None = None
) -> _Factored:
    """Return an object that solves with A, by factors that are computed once; the factors themselves have no
    derivative.

    Args:
        A: square sparse matrix.
        permc_spec: accepted as in SciPy; has no effect, because it only tunes the factorisation.
        diag_pivot_thresh: accepted as in SciPy; has no effect, because it only tunes the factorisation.
        relax: accepted as in SciPy; has no effect, because it only tunes the factorisation.
        panel_size: accepted as in SciPy; has no effect, because it only tunes the factorisation.
        options: accepted as in SciPy; has no effect, because it only tunes the factorisation.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> linalg.splu(sparse.csc_array([[2.0, 0.0], [1.0, 4.0]])).solve(np.array([2.0, 5.0]))
    array([1., 1.])
    """
    return _Factored(_square("splu", A))


def spsolve_triangular(
    A: SparseLike, b: ArrayLike, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Array:  # fmt: skip
    """Solve A x = b for a triangular A, whose other triangle must be empty.

    Args:
        A: triangular sparse matrix.
        b: right side, of shape (n,) or (n, k).
        lower: whether the matrix is lower triangular.
        overwrite_A: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        unit_diagonal: whether the diagonal counts as ones.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> linalg.spsolve_triangular(sparse.csr_array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 5.0]))
    array([1., 1.])
    """
    a = _square("spsolve_triangular", A)
    wrong = a.pattern.rows < a.pattern.columns if lower else a.pattern.rows > a.pattern.columns
    if wrong.any():
        raise ValueError(
            f"A is not triangular: it has entries {'above' if lower else 'below'} the diagonal. [nd-values]"
        )
    if unit_diagonal:
        keep = numpy.flatnonzero(a.pattern.rows != a.pattern.columns)

        strict = type(a)((a.data[keep], (a.pattern.rows[keep], a.pattern.columns[keep])), shape=a.shape)
        a = strict + eye_array(a.shape[0])
    return _solve(a, b)


def inv(A: SparseLike) -> Array:
    """The inverse, as a dense matrix, since the inverse of a sparse matrix is rarely sparse.

    Args:
        A: square sparse matrix.

    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> linalg.inv(sparse.csc_array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    a = _square("inv", A)
    return _solve(a, np.eye(a.shape[0]))


# ----- iterative ------------------------------------------------------------------------------------------------------


def _operator(A: Any) -> tuple[Callable[[Array], Array], tuple[int, ...]]:
    """Return A as a function of vectors: a sparse or dense matrix, a linear function, or one of SciPy's operators (a
    constant).
    """
    if isinstance(A, SparseArray) or is_scipys(A):
        a = as_sparse(A)
        return (lambda v: a @ v), a.shape
    if isinstance(A, (Variable, numpy.ndarray, list)):
        full = floating(A)
        return (lambda v: full @ v), tuple(full.shape)
    if hasattr(A, "matvec"):
        raise NotImplementedError(
            "a LinearOperator has no derivative: pass a matrix, or a function of an Array "
            "to ndgrad.implicit.linear_solve. [nd-no-derivative]"
        )
    raise TypeError(f"a matrix was expected, but got {type(A).__name__}. [nd-type]")


def _preconditioner(M: Any) -> Callable[[Any], Any] | None:
    if M is None:
        return None
    if hasattr(M, "matvec"):
        return M.matvec
    if isinstance(M, SparseArray):
        return M.to_scipy().__matmul__
    return (values_of(as_array(M).detach()) if not is_scipys(M) else M).__matmul__


class _Iterative(Protocol):
    def __call__(
        self, A: SparseLike, b: ArrayLike, x0: ArrayLike | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
        maxiter: int | None = None, M: SparseLike | None = None, callback: Callable[..., Any] | None = None,
        **options: Any,
    ) -> tuple[Array, int]: ...  # fmt: skip


#: Options of SciPy's iterative solvers that change their steps and not the equation.
_TUNING = frozenset(
    "atol btol calc_var callback_type check conlim inner_m iter_lim maxiter outer_k outer_v prepend_outer_v restart "
    "show store_outer_Av x0".split()
)


def _check_options(name: str, options: dict[str, Any]) -> None:
    unknown = sorted(options.keys() - _TUNING)
    if unknown:
        raise TypeError(
            f"{name}(): {', '.join(unknown)} is not supported. Leave it out; for minres, solve with A - shift I. "
            "[nd-unsupported]"
        )


def _iterative(name: str, method: str, what: str, symmetric: bool = False) -> _Iterative:
    def function(
        A: SparseLike, b: ArrayLike, x0: ArrayLike | None = None, *, rtol: float = 1e-5, atol: float = 0.0,
        maxiter: int | None = None, M: SparseLike | None = None, callback: Callable[..., Any] | None = None,
        **options: Any,
    ) -> tuple[Array, int]:  # fmt: skip
        _check_options(name, options)
        apply, shape = _operator(A)
        right = floating(b)
        flat = right.reshape((-1,)) if right.ndim > 1 else right
        if shape[0] != shape[1] or shape[0] != flat.shape[0]:
            raise ValueError(
                f"{name}: a matrix of shape {shape} and b of shape {tuple(right.shape)} do not fit. [nd-shape]"
            )
        if callback is not None:
            raise NotImplementedError(
                f"{name}: callbacks see steps that are no part of the derivative. Leave it out, or use scipy's {name}. "
                "[nd-unsupported]"
            )
        start = None if x0 is None else floating(x0).detach()
        # A looser solve would make a looser gradient: the equation is solved to the given tolerance, and at least to a
        # tight default.
        x = linear_solve(
            apply, flat, method=method, symmetric=symmetric, x0=start, rtol=min(rtol, 1e-10), atol=atol,
            maxiter=maxiter,
            preconditioner=_preconditioner(M), on_failure="return",
        )  # fmt: skip

        info = 0
        if not batch_dims(x):
            residual = float(numpy.linalg.norm(values_of((apply(x.detach()) - flat.detach()).detach())))
            allowed = max(rtol * float(numpy.linalg.norm(values_of(flat.detach()))), atol)
            info = 0 if residual <= allowed else (maxiter or 10 * shape[0])
        return x, info

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Solve A x = b by {what}; differentiable in b and in A's entries.

    Args:
        A: square matrix, sparse or dense, or a linear operator.
        b: right side, of shape (n,) or (n, 1).
        x0: start, without a derivative. The default is zero.
        rtol: tolerance of the residual, relative to the norm of b. The solver uses at most 1e-10, because the gradient
            is as exact as the solution.
        atol: absolute tolerance of the residual.
        maxiter: largest number of steps.
        M: approximate inverse of A, a preconditioner.
        callback: must be None, because steps are no part of the derivative.
        options: further options of SciPy that tune the steps. They have no effect.

    Returns:
        The solution, and 0 if the residual is within the tolerances.

    >>> from ndgrad.scipy.sparse import csr_array, linalg
    >>> x, info = linalg.{name}(csr_array([[4.0, 1.0], [1.0, 3.0]]), [6.0, 7.0])
    >>> x.round(6), info
    (array([1., 2.]), 0)
    """
    return function


cg = _iterative("cg", "cg", "conjugate gradients, for positive definite matrices", symmetric=True)
minres = _iterative("minres", "minres", "minimal residuals, for symmetric matrices", symmetric=True)
gmres = _iterative("gmres", "gmres", "generalised minimal residuals")
lgmres = _iterative("lgmres", "gmres", "generalised minimal residuals (here the same as gmres)")
bicgstab = _iterative("bicgstab", "bicgstab", "stabilised biconjugate gradients")
bicg = _iterative("bicg", "bicgstab", "biconjugate gradients (here the stabilised ones)")
cgs = _iterative("cgs", "bicgstab", "squared conjugate gradients (here the stabilised biconjugate ones)")


class _LeastSquares(Protocol):
    def __call__(
        self, A: SparseLike, b: ArrayLike, damp: ArrayLike = 0.0, *args: Any, **options: Any,
    ) -> tuple[Any, ...]: ...  # fmt: skip


def _least_squares(name: str, count: int) -> _LeastSquares:
    def function(A: SparseLike, b: ArrayLike, damp: ArrayLike = 0.0, *args: Any, **options: Any) -> tuple[Any, ...]:
        _check_options(name, options)
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
    function.__doc__ = f"""Return the x for which A x is nearest to b.

    Args:
        A: matrix, sparse or dense, or a linear operator, of shape (m, n).
        b: right side, of shape (m,).
        damp: weight of the norm of x. It may carry a derivative.
        args: further options of SciPy, by position. They have no effect.
        options: further options of SciPy that tune the steps. They have no effect.

    Returns:
        The solution, the reason to stop (1), iterations (0, because they are not counted) and the norm of the residual.
        SciPy's other numbers are NaN.

    >>> from ndgrad.scipy.sparse import csr_array, linalg
    >>> linalg.{name}(csr_array([[1.0], [1.0]]), [2.0, 4.0])[0].round(6)
    array([3.])
    """
    return function


lsqr = _least_squares("lsqr", 10)
lsmr = _least_squares("lsmr", 8)

# ----- functions of matrices ------------------------------------------------------------------------------------------


def expm_multiply(
    A: SparseLike, B: ArrayLike, start: ArrayLike | None = None, stop: ArrayLike | None = None,
    num: ArrayLike | None = None, endpoint: ArrayLike | None = None, traceA: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return exp(A) B without forming the exponential, by Taylor series in steps that depend on the norm of A.
    Differentiable in both.

    Args:
        A: square matrix, sparse or dense.
        B: vector or matrix, of shape (n,) or (n, k).
        start, stop, num, endpoint: must be None: multiply A by each time instead.
        traceA: accepted as in SciPy; has no effect.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> linalg.expm_multiply(sparse.csc_array([[0.0, 1.0], [0.0, 0.0]]), np.array([1.0, 2.0]))
    array([3., 2.])
    """
    if any(v is not None for v in (start, stop, num, endpoint)):
        raise NotImplementedError(
            "expm_multiply over several times has no rule here. Call it with t * A for each time. [nd-no-derivative]"
        )
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


def norm(x: SparseLike, ord: float | str | None = None, axis: int | None = None) -> Array:
    """Return a norm of a sparse matrix that follows from its entries.

    Args:
        x: sparse matrix.
        ord: `"fro"`, 1, -1, inf or -inf; along an axis 1 or 2. The default is Frobenius's, or the Euclidean one of
            vectors.
        axis: axis of vectors. None means the norm of the matrix.

    >>> from ndgrad.scipy import sparse
    >>> from ndgrad.scipy.sparse import linalg
    >>> linalg.norm(sparse.csr_array([[3.0, 0.0], [0.0, 4.0]]))
    array(5.)
    """
    a = as_sparse(x)
    if axis is not None:
        squares = a._like((a.data * a.data.conj()).real if np_dtype(a.data).kind == "c" else a.data * a.data)
        if ord in (None, 2):
            return np.sqrt(squares.sum(axis))
        if ord == 1:
            return abs(a).sum(axis)
        raise NotImplementedError(
            f"norm(ord={ord!r}, axis={axis!r}) of a sparse array has no rule here. Use toarray(). [nd-no-derivative]"
        )
    if ord in (None, "fro", "f"):
        return np.linalg.norm(_merge_duplicates(a).data)
    if ord in (1, -1, numpy.inf, -numpy.inf):
        sums = abs(_merge_duplicates(a)).sum(0 if abs(ord) == 1 else 1)
        return sums.max() if ord > 0 else sums.min()
    raise NotImplementedError(
        f"norm(ord={ord!r}) of a sparse array has no rule here. Use ndgrad.scipy.linalg.norm of toarray(). "
        "[nd-no-derivative]"
    )


def _merge_duplicates(a: SparseArray) -> SparseArray:
    """Add up entries at the same position."""
    return a._sum_entries(a.data, a.pattern.rows, a.pattern.columns, a.shape)


_DENSE = "ndgrad.scipy.linalg of a.toarray(): its function has a rule"

__getattr__ = make_module_getattr(
    "sparse.linalg",
    {
        **dict.fromkeys(
            ("eigs", "eigsh", "svds", "lobpcg", "expm", "matrix_power", "onenormest", "funm_multiply_krylov"), _DENSE
        ),
        **dict.fromkeys(("qmr", "tfqmr", "gcrotmk"), "gmres or bicgstab"),
        "spilu": "splu",
        **dict.fromkeys(
            ("LinearOperator", "aslinearoperator", "LaplacianNd"),
            "a function of an Array, with ndgrad.implicit.linear_solve",
        ),
    },
    decisions="is_sptriangular spbandwidth use_solver",
)
__dir__ = public_of(__name__)
