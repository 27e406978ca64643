"""Roots and fixed points, differentiated by the implicit function theorem.

At a root, f(x, p) = 0 holds for all p around, so J dx + (df/dp) dp = 0 with J = df/dx. Forward: dx = -J^-1
(df/dp) dp. Reverse: with J^T w = g, the cotangent of p is -(df/dp)^T w. The path to the root does not matter, so it is
not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ndgrad._src.arrays.precision import finfo
from ndgrad._src.foundations.pytree import tree_map
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.jacobian import jacfwd
from ndgrad._src.transforms.transforms import jvp, vjp
from ndgrad.implicit.convergence import SolverResult, check_on_failure, not_converged, scipy_module
from ndgrad.implicit.equations import Equations, Lent
from ndgrad.implicit.linear import DENSE_LIMIT, linear_solve, solve_dense
from ndgrad.implicit.packing import PyTree
from ndgrad.implicit.rules import Rule, Tensors, attach, replace_some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor

Solver = Callable[..., Any]

#: SciPy's methods that use a Jacobian.
WITH_JACOBIAN = frozenset(("hybr", "lm"))
METHODS = (
    "hybr", "lm", "broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden", "excitingmixing", "krylov",
    "df-sane",
)  # fmt: skip


# ----- the rule ------------------------------------------------------------------------------------------------------


class RootRule(Rule):
    """The derivative of a root of `residual(x, params)`.

    `linear` is the method for the linear systems (None: dense for few unknowns, Krylov for many); `symmetric` is True
    if the Jacobian is a Hessian.
    """

    def __init__(
        self,
        name: str,
        residual: Callable[[Any, Tensors], Any],
        linear: str | Solver | None = None,
        *,
        symmetric: bool = False,
    ) -> None:
        self.name, self.residual, self.linear, self.symmetric = name, residual, linear, symmetric

    def solve(self, x: Tensor, params: Tensors, b: Tensor, *, transposed: bool) -> Tensor:
        def f(v: Tensor) -> Tensor:
            return self.residual(v, params)

        if self.linear == "dense" or (self.linear is None and x.shape[0] <= DENSE_LIMIT):
            matrix = jacfwd(f)(x)
            if transposed and not self.symmetric:
                matrix = tensor_ops.permute(matrix, dims=(1, 0))
            return solve_dense(
                self.name, "the Hessian" if self.symmetric else "the Jacobian of the residual", matrix, b
            )
        if transposed and not self.symmetric:
            pull = vjp(f, x)[1]

            def apply(v: Tensor) -> Tensor:
                return pull(v)[0]

        else:

            def apply(v: Tensor) -> Tensor:
                return jvp(f, (x,), (v,))[1]

        return linear_solve(
            apply, b, method=self.linear or ("cg" if self.symmetric else "gmres"), symmetric=self.symmetric
        )

    def pull(self, out: Tensor, params: Tensors, g: Tensor, needs: Sequence[bool]) -> Tensors:
        w = self.solve(out, params, g, transposed=True)
        return pull_parameters(self.residual, out, params, needs, -w)

    def push(self, out: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
        return self.solve(out, params, -push_parameters(self.residual, out, params, tangents), transposed=False)


def pull_parameters(
    f: Callable[[Any, Tensors], Any], x: Tensor, params: Tensors, needs: Sequence[bool], w: Tensor,
) -> Tensors:  # fmt: skip
    """Return w^T df/dp for the needed parameters."""
    wanted = [i for i, need in enumerate(needs) if need]
    found = iter(vjp(lambda *given: f(x, replace_some(params, wanted, given)), *(params[i] for i in wanted))[1](w))
    return tuple(next(found) if need else None for need in needs)


def push_parameters(f: Callable[[Any, Tensors], Any], x: Tensor, params: Tensors, tangents: Tensors) -> Tensor:
    """Return (df/dp) dp."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    given, along = tuple(params[i] for i in moving), tuple(tangents[i] for i in moving)
    return jvp(lambda *values: f(x, replace_some(params, moving, values)), given, along)[1]


# ----- public functions ----------------------------------------------------------------------------------------------


def root(
    f: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree = (),
    *,
    method: str | Solver | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    linear: str | Solver | None = None,
    on_failure: str = "raise",
) -> PyTree:
    """Return an x with f(x, *args) = 0, near x0, differentiable in `args` and in captured variables of `f`.

    `x0` and the result of `f` are structures of tensors with equally many numbers. `method` is one of
    `scipy.optimize.root`'s (which get exact Jacobians), "newton" (ours), or a function `solver(f, x0)` of flat NumPy
    arrays that returns the root or an object with `x`; it may use `f.jacobian`. By default it is SciPy's "hybr",
    for many unknowns "krylov", and inside `vmap` our Newton's method, which steps all samples together. `linear` is the
    method of `linear_solve` for derivatives. Newton steps refine the result if the Jacobian is dense.

    Args:
        f: function `f(x, *args)` whose zero is found.
        x0: first guess: a tensor, or a structure of tensors.
        args: further arguments of `f`.
        method: method of `scipy.optimize.root`, `"newton"`, or a solver. None chooses one.
        tol: tolerance of the solver. None means its default.
        options: further options of the solver.
        linear: method of `linear_solve` for derivatives.
        on_failure: `"raise"` for an error without convergence, `"warn"` for a warning.

    Returns:
        The root, with the structure of `x0`.

    Raises:
        ConvergenceError: if the solver does not converge.

    >>> import ndgrad
    >>> a = ndgrad.tensor(2.0, requires_grad=True)
    >>> x = ndgrad.implicit.root(lambda x: x * x - a, ndgrad.tensor(1.0))
    >>> x.backward()
    >>> a.grad
    tensor(0.3536)
    """
    return find_root("implicit.root", f, x0, args, method, tol, options or {}, linear, on_failure)[0]


def fixed_point(
    f: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree = (),
    *,
    method: str | Solver | None = None,
    tol: float | None = None,
    maxiter: int = 1000,
    options: dict[str, Any] | None = None,
    linear: str | Solver | None = None,
    on_failure: str = "raise",
) -> PyTree:
    """Return an x with f(x, *args) = x, near x0, differentiable like `root`.

    `method` is "iteration" (x = f(x) until it converges; the default, also inside vmap) or any method of `root`,
    which then solves f(x) - x = 0.

    Args:
        f: function `f(x, *args)` with a result of the structure of `x0`.
        x0: first guess: a tensor, or a structure of tensors.
        args: further arguments of `f`.
        method: `"iteration"` or a method of `root`. None means `"iteration"`.
        tol: tolerance of the solver. None means its default.
        maxiter: largest number of steps of `"iteration"`.
        options: further options of a method of `root`.
        linear: method of `linear_solve` for derivatives.
        on_failure: `"raise"` for an error without convergence, `"warn"` for a warning.

    Returns:
        The fixed point, with the structure of `x0`.

    Raises:
        ConvergenceError: if the solver does not converge.

    >>> import ndgrad
    >>> a = ndgrad.tensor(3.0, requires_grad=True)
    >>> x = ndgrad.implicit.fixed_point(lambda x: (x + a / x) / 2, ndgrad.tensor(1.0))
    >>> x.backward()
    >>> a.grad
    tensor(0.2887)
    """

    def residual(x: PyTree, *given: Any) -> PyTree:
        return tree_map(lambda new, old: new - old, f(x, *given), x)

    chosen: Any = method
    if method in (None, "iteration"):
        chosen = _Iteration(maxiter)
    return find_root("implicit.fixed_point", residual, x0, args, chosen, tol, options or {}, linear, on_failure)[0]


#: Methods of `find_root`: a name, a user's solver or the iteration of `fixed_point`; None chooses one.
Method: TypeAlias = "str | Solver | _Iteration | None"


class Found:
    """Status of a solve, for SciPy's result object."""

    def __init__(
        self,
        x: NDArray[Any],
        residual: NDArray[Any],
        success: bool,
        message: str,
        result: NDArray[Any] | SolverResult | None,
    ) -> None:
        self.x, self.residual, self.success, self.message = x, residual, success, message
        #: Result of the solver itself.
        self.result = result


def find_root(
    name: str,
    f: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree,
    method: Method,
    tol: float | None,
    options: dict[str, Any],
    linear: str | Solver | None,
    on_failure: str,
) -> tuple[PyTree, Found]:
    """Return the root as a differentiable structure, and the status of the solve."""
    check_on_failure(name, on_failure)
    if isinstance(method, str) and method not in (*METHODS, "newton"):
        raise ValueError(
            f"{name}: there is no method {method!r}. Choose one of {', '.join(METHODS)}, 'newton', or pass a solver. "
            "[nd-option]"
        )
    equations = Equations(name, x0, args)
    layout = equations.layout

    def residual(vector: Tensor) -> Tensor:
        return layout.pack_result(f"{name}: f", equations.run(f, vector))

    def solver(start: NDArray[Any]) -> Found:
        numbers = Numbers(name, equations, residual)
        numbers.residual(start)  # notes captured tensors before a method is chosen
        return _solve(name, numbers, start, method, tol, options, on_failure)

    found = equations.solve(solver)
    x = _differentiable(name, equations, f, found.x, linear)
    return layout.unpack(x), found


def _differentiable(
    name: str, equations: Equations, f: Callable[..., PyTree], solution: NDArray[Any], linear: str | Solver | None
) -> Tensor:
    def pure(x: Tensor, params: Tensors) -> Tensor:
        return equations.layout.pack_result(f"{name}: f", equations.apply(f, x, params))

    value = equations.batch.tensor(solution, equations.layout.tensor_type)
    return attach(value, equations.parameters(), RootRule(name, pure, linear))


# ----- numbers -------------------------------------------------------------------------------------------------------


class Numbers:
    """A residual and its Jacobian on arrays, with the batch in front."""

    def __init__(self, name: str, equations: Equations, residual: Callable[[Any], Any]) -> None:
        self.name, self.equations = name, equations
        self.residual = equations.numeric(residual)
        self.jacobian = equations.numeric(jacfwd(residual))
        self.size = equations.layout.size
        self.batched = bool(equations.batch.levels)
        #: Smallest expected residual relative to the scale of the numbers.
        self.epsilon = float(finfo(equations.layout.dtype).eps)

    def newton_step(self, x: NDArray[Any], r: NDArray[Any]) -> NDArray[Any]:
        """Return the step; if some Jacobian is singular, the shortest one that minimises the linearised residual."""
        jacobian = self.jacobian(x)
        try:
            return -np.linalg.solve(jacobian, r[..., None])[..., 0]
        except np.linalg.LinAlgError:
            return -(np.linalg.pinv(jacobian) @ r[..., None])[..., 0]


def _solve(
    name: str,
    numbers: Numbers,
    start: NDArray[Any],
    method: Method,
    tol: float | None,
    options: dict[str, Any],
    on_failure: str,
) -> Found:
    if numbers.batched:
        if method not in (None, "newton") and not isinstance(method, _Iteration):
            raise ValueError(
                f"{name}: method {method!r} solves one sample at a time, and this call is inside vmap. Leave method "
                "out: our Newton's method steps the whole batch together. Or call the solver in a loop outside vmap. "
                "[nd-vmap-refused]"
            )
    dense = numbers.size <= DENSE_LIMIT
    if method is None:
        method = "newton" if numbers.batched else "hybr" if dense else "krylov"
    if isinstance(method, _Iteration):
        x, message, success = method.run(numbers, start, tol)
        result: Any = None
    elif method == "newton":
        x, message, success = newton(numbers, start, tol, **options)
        result = None
    else:
        result = _run_outside_solver(name, numbers, start, method, tol, options)
        x = np.asarray(getattr(result, "x", result), numbers.equations.layout.dtype).reshape(start.shape)
        message = str(getattr(result, "message", "the given solver")).strip()
        success = bool(getattr(result, "success", True))
    if dense and np.isfinite(x).all():
        x = polished(numbers, x)
    numbers.equations.watch.looks_at_constants = True
    r = numbers.residual(x)
    success = success or _is_tiny(numbers, x, r)
    found = Found(x, r, success and bool(np.isfinite(r).all()), message, result)
    if on_failure == "return":
        on_failure = "raise" if numbers.equations.has_derivative() else on_failure
    if not found.success:
        remedy = "Start nearer to the solution, choose another method, or raise its limits through options={...}."
        not_converged(name, message, float(np.abs(r).max(initial=0.0)), remedy, x, on_failure)
    if callable(method) and not isinstance(method, _Iteration) and result is not None:
        _check_claim(name, numbers, start, found, on_failure)
    return found


def _check_claim(name: str, numbers: Numbers, start: NDArray[Any], found: Found, on_failure: str) -> None:
    """Check the residual of a user's solver, which does not report success."""
    r = np.abs(found.residual).max(initial=0.0)
    scale = max(1.0, float(np.abs(numbers.residual(start)).max(initial=0.0)))
    if r > 1e-3 * scale:
        remedy = "The given solver must return the root, or an object with it as x."
        not_converged(name, "the given solver's result is no root", float(r), remedy, found.x, on_failure)


def _run_outside_solver(
    name: str, numbers: Numbers, start: NDArray[Any], method: str | Solver, tol: float | None, options: dict[str, Any]
) -> NDArray[Any] | SolverResult:
    """Run a solver of SciPy's or of the user's."""
    first = np.array(start, np.float64)
    with Lent(numbers.jacobian) as jac, Lent(numbers.residual, jac) as fun:
        if callable(method):
            return method(fun, first, **options)
        exact = method in WITH_JACOBIAN and numbers.size <= DENSE_LIMIT
        root = scipy_module("optimize", name).root
        return root(fun, first, method=method, jac=jac if exact else None, tol=tol, options=options or None)


def _is_tiny(numbers: Numbers, x: NDArray[Any], r: NDArray[Any]) -> bool:
    return bool(
        (np.abs(r) <= 100 * numbers.epsilon * np.maximum(1.0, np.abs(x).max(axis=-1, keepdims=True, initial=0.0))).all()
    )


def polished(numbers: Numbers, x: NDArray[Any], steps: int = 2) -> NDArray[Any]:
    """Take a few Newton steps, each kept for the samples whose residual it reduces."""
    r = numbers.residual(x)
    for _ in range(steps):
        size = np.abs(r).max(axis=-1, initial=0.0)
        if not size.any():
            break
        moved = x + numbers.newton_step(x, r).astype(x.dtype)
        new = numbers.residual(moved)
        better = np.abs(new).max(axis=-1, initial=0.0) < size
        if not better.any():
            break
        x, r = np.where(better[..., None], moved, x), np.where(better[..., None], new, r)
    return x


def newton(
    numbers: Numbers, start: NDArray[Any], tol: float | None = None, maxiter: int = 100
) -> tuple[Any, str, bool]:
    """Run Newton's method with step halving, on all samples of a batch together; converged samples stop."""
    x = start
    r = numbers.residual(x)
    goal = max(tol or 0.0, 10 * numbers.epsilon)
    for count in range(maxiter):
        size = np.linalg.norm(r, axis=-1)
        scale = np.maximum(1.0, np.abs(x).max(axis=-1, initial=0.0))
        active = size > goal * scale
        if not active.any():
            return x, f"converged in {count} steps", True
        step = numbers.newton_step(x, np.where(active[..., None], r, 0.0))
        fraction = np.ones_like(size)
        moved, new = x, r
        for _ in range(40):
            trial = (x + fraction[..., None] * step).astype(x.dtype)
            value = numbers.residual(trial)
            with np.errstate(invalid="ignore"):
                good = np.linalg.norm(value, axis=-1) <= (1 - 1e-4 * fraction) * size
            moved, new = trial, value
            if (good | ~active).all():
                break
            fraction = np.where(good | ~active, fraction, fraction / 2)
        else:
            tiny = np.linalg.norm(new, axis=-1) <= np.sqrt(numbers.epsilon) * 1e-3 * scale
            return moved, "the residual cannot be made smaller", bool((tiny | ~active).all())
        x, r = moved, new
    return x, f"{maxiter} steps were not enough", False


class _Iteration:
    """Iterate x = f(x), the whole batch together, until it converges."""

    def __init__(self, maxiter: int) -> None:
        self.maxiter = maxiter

    def run(self, numbers: Numbers, start: NDArray[Any], tol: float | None) -> tuple[Any, str, bool]:
        x = start
        goal = max(tol or 0.0, np.sqrt(numbers.epsilon) * 1e-2)
        for count in range(self.maxiter):
            with np.errstate(over="ignore", invalid="ignore"):
                r = numbers.residual(x)
                x = x + r
            if not np.isfinite(x).all():
                return x, f"the iteration diverged after {count} steps", False
            if (np.abs(r) <= goal * np.maximum(1.0, np.abs(x))).all():
                return x, f"converged in {count} steps", True
        return x, f"{self.maxiter} steps were not enough", False


__all__ = ["RootRule", "find_root", "fixed_point", "pull_parameters", "push_parameters", "root"]
