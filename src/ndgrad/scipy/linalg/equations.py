"""Matrix equations of control theory: Sylvester, Lyapunov, Riccati."""

from __future__ import annotations

from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.numpy.coercion import operands
from ndgrad.ops import matrix_equation
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.linalg.systems import adjoint, square

__all__ = [
    "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov", "solve_lyapunov",
    "solve_sylvester",
]  # fmt: skip


def _together(*matrices: Any) -> list[Any]:
    """Matrices of one dtype with the same leading dimensions."""
    found = operands(*(floating(m) for m in matrices))
    if any(m.ndim < 2 for m in found):
        raise ValueError(f"matrices were expected, and the shapes are {[m.shape for m in found]}.")
    lead = numpy.broadcast_shapes(*(m.shape[:-2] for m in found))
    return [np.broadcast_to(m, (*lead, *m.shape[-2:])) for m in found]


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The x with a @ x + x @ b = q."""
    x, y, right = _together(square("solve_sylvester", a), square("solve_sylvester", b), q)
    if right.shape[-2:] != (x.shape[-1], y.shape[-1]):
        raise ValueError(f"solve_sylvester: a {x.shape}, b {y.shape} and q {right.shape} do not fit.")
    return matrix_equation.sylvester(x, y, right)


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The x with a @ x + x @ a^H = q."""
    x, right = _together(square("solve_continuous_lyapunov", a), square("solve_continuous_lyapunov", q))
    if x.shape != right.shape:
        raise ValueError(f"Matrices a {x.shape} and q {right.shape} should have the same shape.")
    return matrix_equation.sylvester(x, adjoint(x), right)


solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """The x with a @ x @ a^H - x + q = 0."""
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    x, right = _together(square("solve_discrete_lyapunov", a), square("solve_discrete_lyapunov", q))
    return matrix_equation.stein(x, right)


def _general(a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> tuple[list[Any], Any]:
    """a, b, q and r of the equation without s and with e = 1 that the general one comes down to, and e.

    With y = e^H x e, e drops out when a and b are divided by it; s is removed by feeding it back: a - b r^-1 s^H, q - s r^-1 s^H.
    """
    given = [m for m in (e, s) if m is not None]
    a, b, q, r, *rest = _together(a, b, q, r, *given)
    e = rest.pop(0) if e is not None else None
    if e is not None:
        a, b = tensor_ops.solve(e, a), tensor_ops.solve(e, b)
    if s is not None:
        s = rest.pop(0)
        feedback = tensor_ops.solve(r, adjoint(s))
        a, q = a - b @ feedback, q - s @ feedback
        q = (q + adjoint(q)) / 2.0
    return [a, b, q, r], e


def _scaled_back(y: Any, e: Any) -> Any:
    if e is None:
        return y
    half = tensor_ops.solve(adjoint(e), y)
    return adjoint(tensor_ops.solve(adjoint(e), adjoint(half)))


def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """The stabilising solution of the continuous algebraic Riccati equation; q and r are symmetric (Hermitian)."""
    parts, scale = _general(a, b, q, r, e, s)
    return _scaled_back(matrix_equation.continuous_riccati(*parts), scale)


def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """The stabilising solution of the discrete algebraic Riccati equation; q and r are symmetric (Hermitian)."""
    parts, scale = _general(a, b, q, r, e, s)
    return _scaled_back(matrix_equation.discrete_riccati(*parts), scale)
