"""Minima, with bounds and constraints, differentiated through the conditions that hold at them.

Without constraints the gradient vanishes at a minimum, which is a root of a function whose Jacobian is the
Hessian. With them, the conditions of Karush, Kuhn and Tucker hold: the gradient is a combination of those of the
active constraints, and these hold as equations. Unknowns and multipliers together are then a root. The set of active
constraints does not change around a solution with nonzero multipliers, so the derivative depends only on the active
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import finfo
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.jacobian import hessian, hvp, jacfwd
from ndgrad._src.transforms.transforms import grad
from ndgrad.func import sparse_hessian
from ndgrad.implicit.constraints import Bounds, BoundsLike, Constraint, ConstraintLike, read_bounds, read_constraints
from ndgrad.implicit.convergence import SolverResult, check_on_failure, not_converged, scipy_module
from ndgrad.implicit.equations import Equations, Lent
from ndgrad.implicit.linear import DENSE_LIMIT
from ndgrad.implicit.packing import Layout, PyTree, tensors_of
from ndgrad.implicit.roots import RootRule
from ndgrad.implicit.rules import Tensors, attach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor

#: Derivatives that SciPy's methods use.
WITH_GRADIENT = frozenset(
    "bfgs cg l-bfgs-b newton-cg tnc slsqp trust-ncg trust-krylov trust-exact trust-constr dogleg".split()
)
WITH_PRODUCTS = frozenset(("newton-cg", "trust-ncg", "trust-krylov", "trust-constr"))
WITH_HESSIAN = frozenset(("dogleg", "trust-exact"))


def minimize(
    fun: Callable[..., Any],
    x0: PyTree,
    args: PyTree = (),
    *,
    method: str | Callable[..., Any] | None = None,
    bounds: BoundsLike = None,
    constraints: ConstraintLike | Sequence[ConstraintLike] = (),
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    linear: str | Callable[..., Any] | None = None,
    on_failure: str = "raise",
) -> PyTree:
    """Return an x, near x0, that minimises fun(x, *args), differentiable in `args` and in captured variables of the
    functions.

    SciPy's `minimize` does the work, with exact gradients and Hessian products, and a few Newton steps make the
    result exact. `bounds` and `constraints` are as in SciPy; their functions get `x` in the structure of `x0`.
    `linear` is the method of `linear_solve` for derivatives. `ndgrad.scipy.optimize.minimize` is the same with
    SciPy's signature and result.

    Args:
        fun: function `fun(x, *args)` with one number as result.
        x0: first guess: a tensor, or a structure of tensors.
        args: further arguments of `fun`.
        method: method of `scipy.optimize.minimize`, or a solver as that function takes it. None lets SciPy choose.
        bounds: bounds of the unknowns, as in SciPy.
        constraints: constraints as in SciPy, whose functions get `x` in the structure of `x0`.
        tol: tolerance of the solver. None means its default.
        options: further options of SciPy's solver.
        linear: method of `linear_solve` for derivatives.
        on_failure: `"raise"` for an error without convergence, `"warn"` for a warning.

    Returns:
        The minimum, with the structure of `x0`.

    Raises:
        ConvergenceError: if the solver does not converge.

    >>> import ndgrad
    >>> a = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> x = ndgrad.implicit.minimize(lambda x: ((x - a) ** 2 + x**4).sum(), ndgrad.zeros(2))
    >>> x.sum().backward()
    >>> a.grad
    tensor([0.3240, 0.1929])
    """
    return find_minimum(
        "implicit.minimize", fun, x0, args, method=method, bounds=bounds, constraints=constraints, tol=tol,
        options=options, linear=linear,
        on_failure=on_failure,
    )[0]  # fmt: skip


def find_minimum(
    name: str,
    fun: Callable[..., Any],
    x0: PyTree,
    args: PyTree,
    *,
    method: str | Callable[..., Any] | None,
    bounds: BoundsLike,
    constraints: ConstraintLike | Sequence[ConstraintLike],
    tol: float | None,
    options: dict[str, Any] | None,
    linear: str | Callable[..., Any] | None,
    on_failure: str,
    jac: str | bool | Callable[..., Any] | None = None,
    hess: object = None,
    hessp: Callable[..., Any] | None = None,
    callback: Callable[..., Any] | None = None,
) -> tuple[PyTree, Any, Any]:
    """Return the minimum as a differentiable structure, SciPy's result, and the layout between structures and
    vectors.
    """
    check_on_failure(name, on_failure)
    given = args if isinstance(args, tuple) else (args,)
    read = read_constraints(name, constraints)
    equations = Equations(name, x0, (given, tuple(c.args for c in read)))
    objective = Objective(name, fun, equations, read, read_bounds(name, bounds, equations.layout))

    def solver(start: NDArray[Any]) -> tuple[SolverResult, Conditions | None, NDArray[Any] | None]:
        objective.value(start)
        if equations.batch.levels:
            raise not_batched(name)
        result = objective.minimize(start, method, tol, options, jac, hess, hessp, callback)
        return objective.settle(result, linear, on_failure)

    result, conditions, z = equations.solve(solver)
    return equations.layout.unpack(_value(equations, result, conditions, z)), result, equations.layout


def _value(equations: Equations, result: SolverResult, conditions: Conditions | None, z: NDArray[Any] | None) -> Tensor:
    """Return the solution as a vector tensor."""
    if conditions is not None and z is not None:
        return conditions.attach(z)
    return wrap(equations.layout.tensor_type, np.asarray(result.x, equations.layout.dtype))


def not_batched(name: str) -> ValueError:
    return ValueError(
        f"{name}: a minimiser solves one problem at a time, and this call is inside vmap. "
        "Call it in a loop outside vmap, minimise the sum over the batch (its terms are independent), "
        "or give implicit.root the gradient, which is solved for all samples together. [nd-vmap-refused]"
    )


class Objective:
    """An objective function, its derivatives and its constraints, in the form that SciPy requires."""

    def __init__(
        self, name: str, fun: Callable[..., Any], equations: Equations, constraints: Sequence[Constraint],
        bounds: Bounds,
    ) -> None:  # fmt: skip
        self.name, self.fun, self.equations, self.constraints, self.bounds = name, fun, equations, constraints, bounds
        self.layout = equations.layout
        self.dense = self.layout.size <= DENSE_LIMIT
        #: Norm of the gradient at the start of the search, as a scale for small gradients.
        self.steepness = 0.0

    def scalar(self, vector: Tensor, given: tuple[PyTree, ...], _: tuple[PyTree, ...]) -> Tensor:
        """Return the objective of a vector, on tensors."""
        return scalar_result(self.name, self.fun(self.layout.unpack(vector), *given), self.layout)

    def _on_arrays(self, function: Callable[..., Any], x: NDArray[Any]) -> NDArray[Any]:
        return self.equations.numeric(lambda v: self.equations.run_flat(function, v))(x)

    def value(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._on_arrays(self.scalar, x)

    def gradient(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._on_arrays(grad(self.scalar), x)

    def hessian(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._on_arrays(hessian(self.scalar), x)

    def product(self, x: NDArray[Any], p: NDArray[Any]) -> NDArray[Any]:
        """Return a Hessian-vector product."""
        along = self.equations.batch.tensor(np.asarray(p, self.layout.dtype), self.layout.tensor_type)

        def multiply(v: Tensor) -> Tensor:
            return self.equations.run_flat(lambda v, *args: hvp(lambda u: self.scalar(u, *args), (v,), (along,)), v)

        return np.array(self.equations.numeric(multiply)(x), np.float64)

    def sparse_hessian(self, x: NDArray[Any]) -> Callable[[Any], Any]:
        """Return a function that computes SciPy's sparse Hessian, with the pattern prepared at x."""
        at = self.equations.batch.tensor(np.asarray(x, self.layout.dtype), self.layout.tensor_type)
        prepared = sparse_hessian(lambda v: self.equations.run_flat(self.scalar, v), at, format="csc")
        return lambda y: prepared(
            self.equations.batch.tensor(np.asarray(y, self.layout.dtype), self.layout.tensor_type)
        )

    def minimize(
        self,
        start: NDArray[Any],
        method: str | Callable[..., Any] | None,
        tol: float | None,
        options: dict[str, Any] | None,
        jac: str | bool | Callable[..., Any] | None,
        hess: object,
        hessp: Callable[..., Any] | None,
        callback: Callable[..., Any] | None,
    ) -> SolverResult:
        with ExitStack() as stack:
            return self._minimize(
                lambda f: stack.enter_context(Lent(f)), start, method, tol, options, jac, hess, hessp, callback
            )

    def _minimize(
        self,
        lent: Callable[..., Any],
        start: NDArray[Any],
        method: str | Callable[..., Any] | None,
        tol: float | None,
        options: dict[str, Any] | None,
        jac: str | bool | Callable[..., Any] | None,
        hess: object,
        hessp: Callable[..., Any] | None,
        callback: Callable[..., Any] | None,
    ) -> SolverResult:
        optimize = scipy_module("optimize", self.name)
        self.steepness = float(np.abs(self.gradient(start)).max(initial=0.0))
        settings: dict[str, Any] = {"method": method, "tol": tol, "options": options, "callback": callback}
        known = method.lower() if isinstance(method, str) else method
        settings["jac"] = jac
        if jac is None and (not isinstance(known, str) or known in WITH_GRADIENT):
            settings["jac"] = lent(self.gradient)
        if hess == "sparse":
            if known not in ("trust-constr", None):
                raise ValueError(
                    f"{self.name}: method {method!r} takes no sparse Hessian. Use 'trust-constr', the "
                    "default for one. [nd-option]"
                )
            settings["method"] = known = "trust-constr"
            settings["hess"] = lent(self.sparse_hessian(start))
        elif hess is not None:
            settings["hess"] = hess
        elif hessp is not None:
            settings["hessp"] = hessp
        elif known in WITH_PRODUCTS:
            settings["hessp"] = lent(self.product)
        elif known in WITH_HESSIAN:
            settings["hess"] = lent(self.hessian)
        if self.bounds.given:
            settings["bounds"] = self.bounds.for_scipy()
        if self.constraints:
            settings["constraints"] = [
                c.for_scipy(self.equations, i, known, lent) for i, c in enumerate(self.constraints)
            ]
        return optimize.minimize(lent(self.value), np.array(start, np.float64), **settings)

    def settle(
        self, result: SolverResult, linear: str | Callable[..., Any] | None, on_failure: str
    ) -> tuple[Any, Conditions | None, Any]:
        """Return the conditions that hold at SciPy's solution, and a more exact solution of them.

        With on_failure="return", SciPy's result is unchanged unless a derivative is needed. An interior method stops at
        some distance from the active constraints, so the tolerance of "at a limit" grows until the conditions hold.
        """
        x = np.array(result.x, np.float64)
        if on_failure == "return":
            if not self.equations.has_derivative():
                return result, None, None
            on_failure = "raise"
        polish = self.dense and bool(np.isfinite(x).all())
        limited = self.bounds.given or bool(self.constraints)
        scale = max(1.0, self.steepness, float(np.abs(self.gradient(x)).max(initial=0.0)) if limited else 0.0)
        exact = np.sqrt(finfo(self.layout.dtype).eps) * scale
        best: Any = None
        for touching in (1e-8, 1e-6, 1e-4, 1e-3) if limited else (0.0,):
            conditions = Conditions(self, x, linear, touching)
            z = conditions.polished() if polish else conditions.start
            self.equations.watch.looks_at_constants = True
            residual = float(np.abs(conditions.residual(z)).max(initial=0.0))
            if best is None or not best[0] <= residual:
                best = (residual, conditions, z)
            if residual <= exact:
                break
        residual, conditions, z = best
        if not residual <= exact and not (result.success and (not limited or residual <= 1e-3 * scale)):
            remedy = "Start nearer to the solution, choose another method, or raise its limits through options={...}."
            if limited:
                remedy += (
                    " With constraints: their gradients at the solution must be independent, "
                    "or the multipliers are not determined."
                )
            not_converged(self.name, str(result.message), residual, remedy, x, on_failure)
        return result, conditions, z


class Conditions:
    """Conditions at a minimum: equations for the unknowns and the multipliers of active constraints."""

    def __init__(
        self, objective: Objective, x: NDArray[Any], linear: str | Callable[..., Any] | None, touching: float = 0.0
    ) -> None:
        self.objective, self.equations, self.layout = objective, objective.equations, objective.layout
        n = self.layout.size
        gradient = np.array(objective.gradient(x), np.float64)
        self.fixed, self.fixed_at = objective.bounds.active(x, gradient, bool(objective.constraints), touching)
        rows: list[tuple[int, Any, Any]] = []
        matrices = []
        for number, c in enumerate(objective.constraints):
            active, at, jacobian = c.active(self.equations, number, x, touching)
            rows.append((number, active, at))
            matrices.append(jacobian[active])
        self.rows = rows
        count = sum(len(active) for _, active, _ in rows)
        multipliers = np.zeros(0)
        if count:
            free = ~self.fixed
            matrix = np.concatenate(matrices)[:, free]
            multipliers, *_ = np.linalg.lstsq(matrix.T, gradient[free], rcond=None)
            # An inequality with a multiplier of the wrong sign is not active; it merely happens to hold as an equation.
            kept = objective_signs(objective.constraints, rows, multipliers, gradient)
            if not kept.all():
                multipliers = multipliers[kept]
                self.rows = _select(rows, kept)
                count = int(kept.sum())
        self.count, self.size = count, n
        self.start = np.concatenate([np.where(self.fixed, self.fixed_at, x), multipliers]).astype(self.layout.dtype)
        self.plain = not count and not self.fixed.any()
        self.linear = linear

    def vector(self, z: Tensor, given: tuple[PyTree, ...], constraint_args: tuple[tuple[PyTree, ...], ...]) -> Tensor:
        """Return the residual of the conditions, on tensors."""
        n, scalar = self.size, self.objective.scalar
        if self.plain:
            return grad(scalar)(z, given, constraint_args)
        x = tensor_ops.getitem(z, index=(slice(0, n),))
        multipliers = tensor_ops.getitem(z, index=(slice(n, n + self.count),))

        def equations_of(v: Tensor) -> Tensor:
            parts = []
            for number, active, at in self.rows:
                if len(active):
                    values = self.objective.constraints[number].values(self.layout, v, constraint_args[number])
                    parts.append(values[active] - _constant(at, self.layout))
            return tensor_ops.cat(*parts, dim=0)

        def lagrangian(v: Tensor) -> Tensor:
            value = scalar(v, given, constraint_args)
            return value - (multipliers * equations_of(v)).sum() if self.count else value

        gradient = grad(lagrangian)(x)
        if self.fixed.any():
            fixed = _constant(self.fixed.astype(self.layout.dtype), self.layout)
            gradient = gradient * (1.0 - fixed) + (x - _constant(self.fixed_at, self.layout)) * fixed
        return tensor_ops.cat(gradient, equations_of(x), dim=0) if self.count else gradient

    def residual(self, z: NDArray[Any]) -> NDArray[Any]:
        return self.equations.numeric(lambda v: self.equations.run_flat(self.vector, v))(z)

    def polished(self) -> NDArray[Any]:
        """Take Newton steps on the conditions while they help; away from a minimum there are none."""
        jacobian = self.equations.numeric(lambda v: self.equations.run_flat(jacfwd(self.vector), v))
        z, r = self.start, self.residual(self.start)
        for _ in range(3):
            try:
                moved = (z - np.linalg.solve(jacobian(z), r)).astype(z.dtype)
            except np.linalg.LinAlgError:
                break  # a derivative, if requested, will report it
            new = self.residual(moved)
            near = np.abs(moved - z).max(initial=0.0) <= 1e-2 * max(1.0, np.abs(z).max(initial=0.0))
            if not near or not np.abs(new).max(initial=0.0) < np.abs(r).max(initial=0.0):
                break
            z, r = moved, new
        return z

    def attach(self, z: NDArray[Any]) -> Tensor:
        """Return the solution as a differentiable vector."""

        def pure(v: Tensor, params: Tensors) -> Tensor:
            return self.equations.apply_flat(self.vector, (v,), params)

        params = self.equations.parameters()
        rule = RootRule(self.objective.name, pure, self.linear, symmetric=self.plain)
        out = attach(self.equations.batch.tensor(z, self.layout.tensor_type), params, rule)
        return out if self.plain else tensor_ops.getitem(out, index=(slice(0, self.size),))


def objective_signs(
    constraints: Sequence[Constraint],
    rows: list[tuple[int, NDArray[Any], NDArray[Any]]],
    multipliers: NDArray[Any],
    gradient: NDArray[Any],
) -> NDArray[Any]:
    """Return the active rows whose multiplier has the required sign."""
    tiny = 1e-6 * max(1.0, float(np.abs(gradient).max(initial=0.0)))
    signs = [constraints[number].signs(active, at) for number, active, at in rows]
    flat = np.concatenate(signs) if signs else np.zeros(0)
    return (flat == 0) | (flat * multipliers > tiny)


def _select(rows: list[tuple[int, NDArray[Any], NDArray[Any]]], kept: NDArray[Any]) -> list[tuple[int, Any, Any]]:
    out, start = [], 0
    for number, active, at in rows:
        keep = kept[start : start + len(active)]
        start += len(active)
        out.append((number, active[keep], at[keep]))
    return out


def _constant(array: NDArray[Any], layout: Layout) -> Tensor:
    return wrap(layout.tensor_type, np.asarray(array, layout.dtype))


def scalar_result(name: str, result: PyTree, layout: Layout) -> Tensor:
    """Check the result of an objective: one real number."""
    (value, *more) = tensors_of(f"{name}: fun", result, layout.tensor_type)
    if more or int(np.prod(value.shape)) != 1:
        raise ValueError(
            f"{name}: fun returned {1 + len(more)} tensor(s), the first of shape {tuple(value.shape)}. "
            "A function to be minimised returns one number: reduce it, e.g. with .sum(). [nd-not-scalar]"
        )
    return tensor_ops.reshape(value, shape=()) if value.shape else value


# ----- least squares -------------------------------------------------------------------------------------------------


def least_squares(
    fun: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree = (),
    *,
    bounds: BoundsLike = None,
    method: str = "trf",
    loss: str = "linear",
    f_scale: float = 1.0,
    options: dict[str, Any] | None = None,
    linear: str | Callable[..., Any] | None = None,
    on_failure: str = "raise",
) -> PyTree:
    """Return the x, near x0, that minimises the sum of squares of fun(x, *args), differentiable like `minimize`.

    SciPy's `least_squares` does the work, with exact Jacobians. `bounds` is (lower, upper), each a number or a
    structure like `x0`; `loss` and `f_scale` are SciPy's. The derivative is exact: it uses the whole Hessian, not the
    Gauss-Newton approximation.

    Args:
        fun: function `fun(x, *args)` whose result, a tensor or a structure of tensors, holds the residuals.
        x0: first guess: a tensor, or a structure of tensors.
        args: further arguments of `fun`.
        bounds: pair (lower, upper), each a number or a structure like `x0`. None means no bounds.
        method: SciPy's method: `"trf"`, `"dogbox"` or `"lm"`.
        loss: function of the squares: `"linear"`, `"soft_l1"`, `"huber"`, `"cauchy"` or `"arctan"`.
        f_scale: size of a residual at which `loss` starts to reduce its weight.
        options: further options of SciPy's solver.
        linear: method of `linear_solve` for derivatives.
        on_failure: `"raise"` for an error without convergence, `"warn"` for a warning.

    Returns:
        The minimum, with the structure of `x0`.

    Raises:
        ConvergenceError: if the solver does not converge.

    >>> import ndgrad
    >>> y = ndgrad.tensor([1.0, 3.0, 5.0], requires_grad=True)
    >>> t = ndgrad.tensor([0.0, 1.0, 2.0])
    >>> line = ndgrad.implicit.least_squares(lambda p: p[0] + p[1] * t - y, ndgrad.zeros(2))
    >>> line[0].backward()
    >>> y.grad
    tensor([ 0.8333,  0.3333, -0.1667])
    """
    return find_least_squares(
        "implicit.least_squares", fun, x0, args, bounds=bounds, method=method, loss=loss, f_scale=f_scale,
        options=options, linear=linear,
        on_failure=on_failure,
    )[0]  # fmt: skip


def find_least_squares(
    name: str,
    fun: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree,
    *,
    bounds: BoundsLike,
    method: str,
    loss: str | Callable[..., Any],
    f_scale: float,
    options: dict[str, Any] | None,
    linear: str | Callable[..., Any] | None,
    on_failure: str,
    jac: object = None,
) -> tuple[PyTree, Any, Any]:

    check_on_failure(name, on_failure)
    if loss not in LOSSES:
        raise ValueError(f"{name}: loss is {loss!r}. Choose one of {', '.join(LOSSES)}. [nd-option]")
    optimize = scipy_module("optimize", name)
    equations = Equations(name, x0, (args if isinstance(args, tuple) else (args,), ()))
    layout = equations.layout
    limits = read_bounds(name, bounds, layout)

    def residuals(vector: Tensor, given: tuple[PyTree, ...], _: tuple[PyTree, ...]) -> Tensor:
        return flat_residuals(name, fun, layout.unpack(vector), given, layout)

    def cost(x: PyTree, *given: Any) -> Tensor:
        return cost_of(flat_residuals(name, fun, x, given, layout), loss, f_scale)

    def solver(start: NDArray[Any]) -> tuple[SolverResult, Conditions | None, NDArray[Any] | None]:
        run = equations.run_flat
        value = equations.numeric(lambda v: run(residuals, v))
        jacobian = equations.numeric(lambda v: run(jacfwd(residuals), v))
        value(start)
        if equations.batch.levels:
            raise not_batched(name)
        settings = dict(options or {})
        if limits.given:
            settings["bounds"] = (limits.lower, limits.upper)
        result = optimize.least_squares(
            lambda x: np.array(value(x), np.float64), np.array(start, np.float64),
            jac=jac if jac is not None else lambda x: np.array(jacobian(x), np.float64),
            method=method, loss=loss, f_scale=f_scale, **settings,
        )  # fmt: skip
        objective = Objective(name, cost, equations, (), limits)
        objective.steepness = float(np.abs(objective.gradient(start)).max(initial=0.0))
        return objective.settle(result, linear, on_failure)

    result, conditions, z = equations.solve(solver)
    return layout.unpack(_value(equations, result, conditions, z)), result, layout


def flat_residuals(name: str, fun: Callable[..., PyTree], x: PyTree, given: tuple[Any, ...], layout: Layout) -> Tensor:
    """Return the result of a least-squares function as one vector."""
    leaves = tensors_of(f"{name}: fun", fun(x, *given), layout.tensor_type)
    return Layout(f"{name}: fun", leaves, layout.tensor_type).pack(leaves)


def cost_of(r: Tensor, loss: str, f_scale: float) -> Tensor:
    """Return half the sum of squares of residuals, or of a loss function of the squares."""
    return LOSSES[loss]((r / f_scale) ** 2).sum() * (0.5 * f_scale**2)


#: SciPy's loss functions of z, the square of a scaled residual.
LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2.0 * (tensor_ops.sqrt(1.0 + z) - 1.0),
    "huber": lambda z: tensor_ops.where(
        z <= 1.0, z, 2.0 * tensor_ops.sqrt(tensor_ops.where(z <= 1.0, z * 0.0 + 1.0, z)) - 1.0
    ),
    "cauchy": lambda z: tensor_ops.log1p(z),
    "arctan": lambda z: tensor_ops.atan(z),
}


__all__ = [
    "Objective", "cost_of", "find_least_squares", "find_minimum", "flat_residuals", "least_squares", "minimize",
    "scalar_result",
]  # fmt: skip
