"""Bounds and constraints in SciPy's notations, parsed once for the solver and for the conditions at its solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.jacobian import hessian, jacrev
from ndgrad.implicit.equations import Equations, carries_derivative
from ndgrad.implicit.packing import Layout, PyTree, tensors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor


def constant(name: str, what: str, value: object) -> NDArray[Any]:
    """Return a setting that is a number for SciPy; raise if it carries a derivative, which would be lost."""
    if isinstance(value, Variable):
        if carries_derivative(value):
            raise ValueError(
                f"{name}: {what} is a tensor that requires grad or belongs to a transform, and settings are constants. "
                "Detach it, or write the limit into the function: a constraint function c(x, *args) "
                "= x - limit can depend on anything. [nd-drops-gradient]"
            )
        return np.asarray(value.detach()._array)
    return np.asarray(value, np.float64)


# ----- bounds --------------------------------------------------------------------------------------------------------


class Limits(Protocol):
    """SciPy's Bounds, LinearConstraint or NonlinearConstraint: limits of some numbers."""

    lb: Any
    ub: Any
    keep_feasible: Any


#: SciPy's Bounds, a pair for each unknown, or (lower, upper) with each a number or a structure like x0.
BoundsLike: TypeAlias = "Limits | Sequence[tuple[float | None, float | None]] | tuple[PyTree, PyTree] | None"
#: SciPy's LinearConstraint or NonlinearConstraint, or a dict.
ConstraintLike: TypeAlias = "Limits | dict[str, Any]"


class Bounds:
    """Lower and upper limits of every unknown."""

    def __init__(self, lower: NDArray[Any], upper: NDArray[Any], given: bool) -> None:
        self.lower, self.upper, self.given = lower, upper, given

    def for_scipy(self) -> Any:
        from scipy.optimize import Bounds as ScipyBounds

        return ScipyBounds(self.lower, self.upper)

    def active(self, x: NDArray[Any], gradient: NDArray[Any], constrained: bool, touching: float) -> tuple[Any, Any]:
        """Return a mask of unknowns at a bound (within `touching`, relative to its size) that limits the descent, and
        the bounds.

        With additional constraints the gradient alone cannot identify the limiting bound, so touching is enough.
        """
        tiny = 0.0 if constrained else 1e-9 * max(1.0, float(np.abs(gradient).max(initial=0.0)))
        low = _reached(x - self.lower, self.lower, touching)
        high = _reached(self.upper - x, self.upper, touching)
        if not constrained:
            low &= gradient > tiny
            high &= gradient < -tiny
        equal = self.lower == self.upper
        fixed = low | high | equal
        return fixed, np.where(fixed, np.where(low | equal, self.lower, self.upper), 0.0)


def _reached(distance: NDArray[Any], limit: NDArray[Any], touching: float) -> NDArray[Any]:
    finite = np.isfinite(limit)
    return finite & (distance <= touching * np.maximum(1.0, np.abs(np.where(finite, limit, 0.0))))


def read_bounds(name: str, bounds: BoundsLike, layout: Layout) -> Bounds:
    """Parse SciPy's Bounds, a pair per unknown, or (lower, upper) with each a number or a structure like x0."""
    n = layout.size
    if bounds is None:
        return Bounds(np.full(n, -np.inf), np.full(n, np.inf), False)
    if any(d.kind == "c" for d in layout.dtypes):
        raise ValueError(
            f"{name}: bounds order numbers, and an unknown is complex. Minimise over real and imaginary parts instead. "
            "[nd-complex]"
        )
    lower: PyTree
    upper: PyTree
    if not isinstance(bounds, Sequence) and hasattr(bounds, "lb"):
        lower, upper = bounds.lb, bounds.ub
    elif isinstance(bounds, tuple) and len(bounds) == 2 and not (n == 2 and _is_pair(bounds[0])):
        lower, upper = bounds
    else:
        pairs: list[Any] = list(bounds)  # type: ignore[arg-type]  # all but SciPy's Bounds are iterable
        if len(pairs) != n or not all(_is_pair(p) for p in pairs):
            raise ValueError(
                f"{name}: bounds must be a pair (low, high) for each of the {n} unknowns, "
                "SciPy's Bounds, or (lower, upper). [nd-problem]"
            )
        lower = [-np.inf if p[0] is None else p[0] for p in pairs]
        upper = [np.inf if p[1] is None else p[1] for p in pairs]
        return Bounds(_stacked(name, lower), _stacked(name, upper), True)
    return Bounds(_as_vector(name, lower, layout, -np.inf), _as_vector(name, upper, layout, np.inf), True)


def _is_pair(p: object) -> bool:
    return isinstance(p, (tuple, list)) and len(p) == 2 and all(v is None or np.ndim(v) == 0 for v in p)


def _stacked(name: str, values: Sequence[Any]) -> NDArray[Any]:
    return np.array([float(constant(name, "a bound", v)) for v in values])


def _as_vector(name: str, limit: PyTree, layout: Layout, absent: float) -> NDArray[Any]:
    """Return one limit for all unknowns, or a structure of limits, as a vector."""
    leaves, spec = tree_flatten(limit)
    if len(leaves) == 1 and not (spec == layout.spec and len(layout.shapes) == 1):
        whole = constant(name, "a bound", absent if leaves[0] is None else leaves[0])
        return np.array(
            np.broadcast_to(whole.reshape(-1) if whole.size == layout.size else whole, (layout.size,)), np.float64
        )
    if spec != layout.spec:
        if len(leaves) == layout.size:
            return _stacked(name, [absent if v is None else v for v in leaves])
        raise ValueError(
            f"{name}: bounds of structure {spec} for unknowns of structure {layout.spec}. "
            "Give numbers or structures like x0. [nd-tree]"
        )
    parts = [
        np.broadcast_to(constant(name, "a bound", absent if v is None else v), shape).reshape(-1)
        for v, shape in zip(leaves, layout.shapes, strict=True)
    ]
    return np.concatenate(parts).astype(np.float64)


# ----- constraints ---------------------------------------------------------------------------------------------------


class Constraint:
    """lower <= function(x, *args) <= upper, componentwise; equal limits make an equation."""

    def __init__(
        self,
        name: str,
        function: Callable[..., PyTree],
        args: tuple[Any, ...],
        lower: NDArray[Any] | float,
        upper: NDArray[Any] | float,
        linear: NDArray[Any] | None = None,
        *,
        given: ConstraintLike,
    ) -> None:
        self.name, self.function, self.args = name, function, args
        self.lower, self.upper = lower, upper
        self.linear, self.given = linear, given

    def values(self, layout: Layout, vector: Tensor, args: tuple[PyTree, ...]) -> Tensor:
        """Return the function's values as one vector."""
        if self.linear is not None:
            return _matrix(self.linear, layout) @ vector
        leaves = tensors_of(
            f"{self.name}: a constraint", self.function(layout.unpack(vector), *args), layout.tensor_type
        )
        parts = [tensor_ops.reshape(t, shape=(int(np.prod(t.shape)),)) for t in leaves]
        return parts[0] if len(parts) == 1 else tensor_ops.cat(*parts, dim=0)

    def numeric(
        self, equations: Equations, number: int,
    ) -> tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, Any], Any]]:  # fmt: skip
        """Return values, Jacobian and the Hessian of a weighted sum, as functions of arrays."""
        layout = equations.layout

        def values(v: Tensor, _: tuple[PyTree, ...], args: tuple[tuple[PyTree, ...], ...]) -> Tensor:
            return self.values(layout, v, args[number])

        def weighted(x: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
            w = equations.batch.tensor(np.asarray(weights, layout.dtype), layout.tensor_type)
            f = hessian(lambda v, *a: (values(v, *a) * w).sum())
            return np.array(equations.numeric(lambda v: equations.run_flat(f, v))(x), np.float64)

        def on_arrays(f: Callable[..., Any]) -> Callable[[Any], Any]:
            call = equations.numeric(lambda v: equations.run_flat(f, v))
            return lambda x: np.array(call(x), np.float64)

        return on_arrays(values), on_arrays(jacrev(values)), weighted

    def for_scipy(
        self, equations: Equations, number: int, method: str | Callable[..., Any] | None, lent: Callable[..., Any]
    ) -> ConstraintLike:
        from scipy import optimize

        if self.linear is not None:
            return self.given
        values, jacobian, weighted = map(lent, self.numeric(equations, number))
        if isinstance(self.given, dict):
            return {"type": self.given["type"], "fun": values, "jac": jacobian}
        more = {"hess": weighted, "keep_feasible": self.given.keep_feasible} if method == "trust-constr" else {}
        return optimize.NonlinearConstraint(values, self.given.lb, self.given.ub, jac=jacobian, **more)

    def limits(self, count: int) -> tuple[Any, Any]:
        return np.broadcast_to(self.lower, (count,)), np.broadcast_to(self.upper, (count,))

    def active(self, equations: Equations, number: int, x: NDArray[Any], touching: float) -> tuple[Any, Any, Any]:
        """Return the components that hold as equations at x, the limits that they reach, and the Jacobian of all."""
        values, jacobian, _ = self.numeric(equations, number)
        c = np.atleast_1d(values(x))
        lower, upper = self.limits(len(c))
        low = _reached(np.abs(c - lower), lower, touching)
        high = _reached(np.abs(c - upper), upper, touching)
        active = np.flatnonzero(low | high | (lower == upper))
        at = np.where(low, lower, upper)[active]
        return active, at, jacobian(x).reshape(len(c), len(x))

    def signs(self, active: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
        """Return the required sign of each active component's multiplier, 0 for an equation."""
        lower, upper = self.limits(int(active.max(initial=-1)) + 1 if np.ndim(self.lower) == 0 else np.size(self.lower))
        low, up = lower[active], upper[active]
        return np.where(low == up, 0.0, np.where(at == low, 1.0, -1.0))


def _matrix(matrix: NDArray[Any], layout: Layout) -> Tensor:
    return wrap(layout.tensor_type, np.asarray(matrix, layout.dtype))


def read_constraints(name: str, constraints: ConstraintLike | Sequence[ConstraintLike]) -> list[Constraint]:
    """Parse SciPy's dicts, LinearConstraint and NonlinearConstraint, alone or in a sequence."""
    given: Any = constraints
    found = [given] if isinstance(given, dict) or hasattr(given, "lb") else list(given or ())
    return [_parse_constraint(name, c) for c in found]


def _parse_constraint(name: str, c: ConstraintLike) -> Constraint:
    if isinstance(c, dict):
        kind = str(c.get("type", "")).lower()
        if kind not in ("eq", "ineq") or not callable(c.get("fun")):
            raise ValueError(
                f"{name}: a constraint dict needs 'fun' and 'type', 'eq' or 'ineq'; "
                f"this one has {sorted(c)}, type {kind!r}. [nd-problem]"
            )
        args = c.get("args", ())
        return Constraint(name, c["fun"], tuple(args), 0.0, 0.0 if kind == "eq" else np.inf, given={"type": kind})
    if hasattr(c, "A"):
        matrix = c.A.toarray() if hasattr(c.A, "toarray") else np.atleast_2d(c.A)
        lower, upper = np.asarray(c.lb, np.float64), np.asarray(c.ub, np.float64)
        return Constraint(name, lambda x: x, (), lower, upper, np.asarray(matrix, np.float64), given=c)
    if hasattr(c, "fun"):
        return Constraint(name, c.fun, (), np.asarray(c.lb, np.float64), np.asarray(c.ub, np.float64), given=c)
    raise TypeError(
        f"{name}: a constraint is {type(c).__name__}. Give a dict, a LinearConstraint or a NonlinearConstraint. "
        "[nd-problem]"
    )


__all__ = [
    "Bounds", "BoundsLike", "Constraint", "ConstraintLike", "constant", "read_bounds", "read_constraints",
]  # fmt: skip
