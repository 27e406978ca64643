"""Linear systems A x = b, where A is a matrix or a function, solved directly or by Krylov methods.

With w = A^-T g, the cotangent of b is w and that of A is -w x^T: the derivative of a solve is another solve, with A or
with its transpose. Reverse mode gives the transpose of any linear function. A Krylov solution enters the graph through
the op `implicit`, whose rule calls the same function again. So every order exists, and the iteration keeps no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad import linalg
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.foundations.pytree import tree_flatten, tree_map
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.transforms import vjp, vmap
from ndgrad.implicit.convergence import check_on_failure, not_converged, scipy_module, singular
from ndgrad.implicit.equations import Equations
from ndgrad.implicit.packing import Layout, PyTree, as_tensor, tensor_type_of_tree
from ndgrad.implicit.rules import Rule, Tensors, attach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Library, Tensor, TensorLike

#: Number of unknowns above which the default method is a Krylov method: the dense matrix would cost n calls of the
#: function.
DENSE_LIMIT = 500
SYMMETRIC_METHODS = frozenset(("cg", "minres"))
METHODS = ("dense", "gmres", "bicgstab", "cg", "minres", "lsmr")


def linear_solve(
    A: TensorLike | Callable[..., PyTree],
    b: PyTree,
    args: PyTree = (),
    *,
    method: str | Callable[..., Any] | None = None,
    symmetric: bool = False,
    x0: PyTree = None,
    rtol: float = 1e-10,
    atol: float = 0.0,
    maxiter: int | None = None,
    preconditioner: Callable[[Any], Any] | None = None,
    on_failure: str = "raise",
) -> PyTree:
    """Return x with A x = b, differentiable in b and in the inputs of A.

    Least squares (`"lsmr"`) allow an A whose result has another shape than x. The solution then has the shape of `x0`.

    Args:
        A: matrix, or a linear function `A(x, *args)` of structures like `b`. Variables that the function captures are
            differentiated, too.
        b: right-hand side: a tensor, or a structure of tensors for a function `A`.
        args: further arguments of a function `A`.
        method: `"dense"`, `"gmres"`, `"bicgstab"`, `"cg"` and `"minres"` (for symmetric A), `"lsmr"` (least squares),
            or a solver `solver(matvec, b)` of flat NumPy arrays. None means a dense solution for up to 500 unknowns
            without `x0`, else `"cg"` if `symmetric`, else `"gmres"`.
        symmetric: whether A is symmetric, so that derivatives need no transpose.
        x0: first guess of an iteration, with the structure of the solution. None means zeros.
        rtol: tolerance of an iteration, relative to the norm of `b`.
        atol: absolute tolerance of an iteration. `"minres"` and `"lsmr"` do not use it.
        maxiter: largest number of iterations. None means the default of SciPy's solver.
        preconditioner: function of flat arrays that approximates the inverse of A.
        on_failure: `"raise"` for an error without convergence, `"warn"` for a warning.

    Returns:
        The solution, with the structure of `b`, or of `x0` for `"lsmr"`.

    Raises:
        ConvergenceError: if an iteration does not converge.
        SingularError: if a dense matrix is singular.

    >>> import ndgrad
    >>> d = ndgrad.tensor([2.0, 4.0], requires_grad=True)
    >>> x = ndgrad.implicit.linear_solve(lambda v: d * v, ndgrad.tensor([2.0, 2.0]), method="cg")
    >>> x.sum().backward()
    >>> d.grad
    tensor([-0.5000, -0.1250])
    """
    name = "implicit.linear_solve"
    check_on_failure(name, on_failure)
    if isinstance(method, str) and method not in METHODS:
        raise ValueError(
            f"{name}: there is no method {method!r}. Choose one of {', '.join(METHODS)}, or pass a solver. [nd-option]"
        )
    if isinstance(A, (Variable, np.ndarray)):
        return _solve_matrix(name, A, b, args, method, symmetric, x0, rtol, atol, maxiter, preconditioner, on_failure)
    if not callable(A):
        raise TypeError(f"{name}: A is {type(A).__name__}. Pass a matrix or a function of x. [nd-problem]")
    tensor_type = tensor_type_of_tree(b, args)
    b = tree_map(lambda leaf: as_tensor(f"{name}: b", leaf, tensor_type), b)
    right = Layout(f"{name}: b", b, tensor_type)
    given = args if isinstance(args, tuple) else (args,)
    if method is None:
        method = "dense" if right.size <= DENSE_LIMIT and x0 is None else "cg" if symmetric else "gmres"
    if method == "dense":
        return _solve_dense(name, A, b, given, right)
    options = _Options(
        method, symmetric or method in SYMMETRIC_METHODS, rtol, atol, maxiter, preconditioner, on_failure
    )
    return _solve_krylov(name, A, b, given, x0, right, options)


def _solve_matrix(
    name: str,
    A: TensorLike,
    b: PyTree,
    args: PyTree,
    method: str | Callable[..., Any] | None,
    symmetric: bool,
    *rest: Any,
) -> PyTree:
    tensor_type = tensor_type_of_tree(A, b)
    matrix = as_tensor(f"{name}: A", A, tensor_type)
    b = as_tensor(f"{name}: b", b, tensor_type)
    if args:
        raise TypeError(
            f"{name}: args= are the arguments of a function A, and A is a matrix. Leave them out. [nd-problem]"
        )
    if len(matrix.shape) != 2 or matrix.shape[-1] != b.shape[0]:
        if method != "lsmr":
            raise ValueError(
                f"{name}: a matrix of shape {tuple(matrix.shape)} and a right side of shape "
                f"{tuple(b.shape)} do not fit. [nd-shape]"
            )
    if method in (None, "dense"):
        try:
            return linalg.solve(matrix, b)
        except np.linalg.LinAlgError:
            raise singular(name, "the matrix", tuple(matrix.shape)) from None
    x0, rtol, atol, maxiter, preconditioner, on_failure = rest
    if method == "lsmr" and x0 is None:
        x0 = np.zeros((matrix.shape[1], *b.shape[1:]))
    return linear_solve(
        tensor_ops_matmul, b, (matrix,), method=method, symmetric=symmetric, x0=x0, rtol=rtol, atol=atol,
        maxiter=maxiter,
        preconditioner=preconditioner, on_failure=on_failure,
    )  # fmt: skip


def tensor_ops_matmul(x: Tensor, matrix: Tensor) -> Tensor:
    return matrix @ x


# ----- dense ---------------------------------------------------------------------------------------------------------


def _solve_dense(name: str, A: Callable[..., Any], b: PyTree, args: tuple[Any, ...], right: Layout) -> PyTree:
    """Build the matrix, all columns at once, and solve directly. These are ordinary ops, so no rule is needed."""
    vector = right.pack(tree_flatten(b)[0])
    matrix = matrix_of(lambda x: right.pack_result(name + ": A", A(right.unpack(x), *args)), vector)
    return right.unpack(solve_dense(name, "A", matrix, vector))


def matrix_of(linear: Callable[[Any], Any], like: Tensor) -> Tensor:
    """Return the matrix of a linear function of vectors like `like`."""
    return tensor_ops.permute(vmap(linear)(unit_vectors(like)), dims=(1, 0))


def unit_vectors(like: Tensor) -> Tensor:
    """Return all unit vectors of the space of a vector, one per row."""
    return wrap(like.tensor_type, np.eye(int(like.shape[0]), dtype=np_dtype(like)))


def solve_dense(name: str, what: str, matrix: Tensor, b: Tensor) -> Tensor:
    """Return matrix^-1 b, for a vector b."""
    try:
        x = tensor_ops.solve(matrix, tensor_ops.reshape(b, shape=(b.shape[0], 1)))
    except np.linalg.LinAlgError:
        raise singular(name, what, tuple(matrix.shape)) from None
    return tensor_ops.reshape(x, shape=(x.shape[0],))


# ----- Krylov --------------------------------------------------------------------------------------------------------


class _Options:
    """Settings for solving a linear system."""

    def __init__(
        self,
        method: Callable[..., Any] | str,
        symmetric: bool,
        rtol: float,
        atol: float,
        maxiter: int | None,
        preconditioner: Callable[..., Any] | None,
        on_failure: str,
    ) -> None:
        self.method, self.symmetric, self.preconditioner = method, symmetric, preconditioner
        self.rtol, self.atol, self.maxiter, self.on_failure = rtol, atol, maxiter, on_failure


def _solve_krylov(
    name: str, A: Callable[..., Any], b: PyTree, args: tuple[Any, ...], x0: PyTree, right: Layout, options: _Options
) -> PyTree:
    least_squares = options.method == "lsmr"
    guess = tree_map(tensor_ops.zeros_like, b) if x0 is None else x0
    # b comes first among the arguments, so that it is a parameter like any other.
    equations = Equations(name, guess, (b, *args), right.tensor_type)
    layout = equations.layout
    if not least_squares and layout.size != right.size:
        raise ValueError(
            f"{name}: {layout.size} unknowns (x0) for {right.size} equations (b). "
            "Only method='lsmr' solves systems that are not square. [nd-problem]"
        )

    def image(vector: Tensor) -> Tensor:
        return right.pack_result(f"{name}: A", equations.run(lambda x, b, *rest: A(x, *rest), vector))

    def solver(start: NDArray[Any]) -> NDArray[Any]:
        rhs = np.array(equations.batch.full(right.pack([equations.batch.plain(t) for t in tree_flatten(b)[0]])))
        return _iterate(name, equations, image, start, rhs, options)

    solution = equations.solve(solver)

    def linear(x: Tensor, params: Tensors) -> Tensor:
        return right.pack_result(f"{name}: A", equations.apply(lambda x, b, *rest: A(x, *rest), x, params))

    def right_side(params: Tensors) -> Tensor:
        return right.pack(list(params[: len(right.shapes)]))

    rule = _LinearRule(name, linear, right_side, options)
    x = attach(equations.batch.tensor(solution, layout.tensor_type), equations.parameters(), rule)
    return layout.unpack(x)


def _iterate(
    name: str,
    equations: Equations,
    image: Callable[[Any], Any],
    start: NDArray[Any],
    b: NDArray[Any],
    options: _Options,
) -> NDArray[Any]:
    """Solve on arrays. Inside vmap the samples form one block-diagonal system, so they are solved together."""
    sparse = scipy_module("sparse.linalg", name)
    shape_x, shape_b = start.shape, b.shape
    call = equations.numeric(image)
    dtype = np.float64

    def matvec(v: NDArray[Any]) -> NDArray[Any]:
        return np.array(call(np.asarray(v).reshape(shape_x)), dtype).reshape(-1)

    flat_b, flat_x = np.asarray(b, dtype).reshape(-1), np.asarray(start, dtype).reshape(-1)
    if not np.isfinite(flat_b).all():
        raise ValueError(f"{name}: the right side holds NaN or infinity. [nd-values]")
    method = options.method
    if callable(method):
        found = np.asarray(method(matvec, flat_b), dtype)
        reason = "the given solver"
    else:
        if method == "lsmr":
            found, reason = _lsmr(equations, sparse, image, matvec, flat_x, flat_b, shape_b, options)
        else:
            operator = sparse.LinearOperator((flat_b.size, flat_x.size), matvec=matvec, dtype=dtype)
            m = options.preconditioner
            m = None if m is None else sparse.LinearOperator(operator.shape, matvec=m, dtype=dtype)
            settings: dict[str, Any] = {"x0": flat_x, "rtol": options.rtol, "maxiter": options.maxiter, "M": m}
            if method != "minres":
                settings["atol"] = options.atol
            if method == "gmres":
                settings["restart"] = min(flat_x.size, 50)
            found, code = getattr(sparse, method)(operator, flat_b, **settings)
            reason = f"{method} returned {code}"
    if method != "lsmr":
        residual = flat_b - matvec(found)
        allowed = 100 * max(max(options.rtol, 1e-15) * float(np.linalg.norm(flat_b)), options.atol)
        if not np.linalg.norm(residual) <= allowed:
            remedy = (
                "Give a preconditioner, a larger maxiter or rtol, or method='dense'; is A symmetric, "
                "if the method asks for that?"
            )
            not_converged(name, reason, float(np.abs(residual).max(initial=0.0)), remedy, found, options.on_failure)
    return np.asarray(found, equations.layout.dtype).reshape(shape_x)


def _lsmr(
    equations: Equations,
    sparse: Library,
    image: Callable[[Any], Any],
    matvec: Callable[[Any], Any],
    x: NDArray[Any],
    b: NDArray[Any],
    shape_b: tuple[int, ...],
    options: _Options,
) -> tuple[Any, str]:

    tensor_type = equations.layout.tensor_type
    at = equations.batch.tensor(
        np.zeros((*equations.batch.sizes, equations.layout.size), equations.layout.dtype), tensor_type
    )

    def rmatvec(u: NDArray[Any]) -> NDArray[Any]:
        pulled = vjp(image, at)[1](
            equations.batch.tensor(np.asarray(u, equations.layout.dtype).reshape(shape_b), tensor_type)
        )[0]
        return np.array(equations.batch.full(pulled), np.float64).reshape(-1)

    operator = sparse.LinearOperator((b.size, x.size), matvec=matvec, rmatvec=rmatvec, dtype=np.float64)
    tolerance = max(options.rtol, 1e-15)
    out = sparse.lsmr(
        operator, b, atol=tolerance, btol=tolerance, maxiter=options.maxiter or 10 * max(x.size, b.size), conlim=0, x0=x
    )
    if out[1] in (3, 6, 7):
        remedy = "Raise maxiter or rtol, or scale the columns of A."
        not_converged(
            equations.name, f"lsmr stopped with code {out[1]}", float(out[4]), remedy, out[0], options.on_failure
        )
    return out[0], "lsmr"


class _LinearRule(Rule):
    """Rule for A x = b, or A^T A x = A^T b for least squares."""

    def __init__(
        self, name: str, linear: Callable[[Any, Tensors], Any], right_side: Callable[[Tensors], Any], options: _Options,
    ) -> None:  # fmt: skip
        self.name, self.linear, self.right_side, self.options = name, linear, right_side, options

    def residual(self, x: Tensor, params: Tensors) -> Tensor:
        r = self.linear(x, params) - self.right_side(params)
        return self.transpose(x, params, r) if self.options.method == "lsmr" else r

    def transpose(self, x: Tensor, params: Tensors, u: Tensor) -> Tensor:
        return vjp(lambda v: self.linear(v, params), tensor_ops.zeros_like(x))[1](u)[0]

    def solve(self, x: Tensor, params: Tensors, b: Tensor, *, transposed: bool) -> Tensor:
        """Solve another system with the same matrix."""
        o = self.options
        method = o.method
        if method == "lsmr":
            method = "cg"

            def apply(v: Tensor) -> Tensor:
                return self.transpose(x, params, self.linear(v, params))

        elif transposed and not o.symmetric:

            def apply(v: Tensor) -> Tensor:
                return self.transpose(x, params, v)

        else:

            def apply(v: Tensor) -> Tensor:
                return self.linear(v, params)

        return linear_solve(
            apply, b, method=method, symmetric=o.symmetric or method == "cg", rtol=o.rtol, atol=0.0, maxiter=o.maxiter,
            preconditioner=o.preconditioner if o.symmetric or not transposed else None, on_failure=o.on_failure,
        )  # fmt: skip

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        from ndgrad.implicit.roots import pull_parameters  # avoids an import cycle

        w = self.solve(out, params, g, transposed=True)
        return pull_parameters(self.residual, out, params, needs, -w)

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        from ndgrad.implicit.roots import push_parameters  # avoids an import cycle

        return self.solve(out, params, -push_parameters(self.residual, out, params, tangents), transposed=False)


__all__ = ["linear_solve", "matrix_of", "solve_dense", "unit_vectors"]
