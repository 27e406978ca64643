"""Matrix equations of control theory: Sylvester, Lyapunov, Riccati."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.ops import matrix_equation
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.numpy.coercion import operands
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.linalg.systems import adjoint, square

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov",
    "solve_lyapunov", "solve_sylvester",
]  # fmt: skip


def _together(*matrices: Any) -> list[Array]:
    """Return matrices of one dtype with the same leading dimensions."""
    found = operands(*(floating(m) for m in matrices))
    if any(m.ndim < 2 for m in found):
        raise ValueError(f"matrices were expected, and the shapes are {[m.shape for m in found]}. [nd-matrix]")
    lead = numpy.broadcast_shapes(*(m.shape[:-2] for m in found))
    return [np.broadcast_to(m, (*lead, *m.shape[-2:])) for m in found]


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Return the solution x of Sylvester's equation a @ x + x @ b = q.

    Args:
        a: square matrix, of shape (..., n, n).
        b: square matrix, of shape (..., m, m).
        q: right side, of shape (..., n, m).

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_sylvester([[2.0]], [[1.0]], [[6.0]])
    array([[2.]])
    """
    x, y, right = _together(square("solve_sylvester", a), square("solve_sylvester", b), q)
    if right.shape[-2:] != (x.shape[-1], y.shape[-1]):
        raise ValueError(f"solve_sylvester: a {x.shape}, b {y.shape} and q {right.shape} do not fit. [nd-shape]")
    return matrix_equation.sylvester(x, y, right)


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Array:
    """Return the solution x of the continuous Lyapunov equation a @ x + x @ a^H = q.

    Args:
        a: square matrix, of shape (..., n, n).
        q: right side, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_continuous_lyapunov([[-1.0, 0.0], [0.0, -2.0]], [[2.0, 0.0], [0.0, 4.0]])
    array([[-1.,  0.],
           [ 0., -1.]])
    """
    x, right = _together(square("solve_continuous_lyapunov", a), square("solve_continuous_lyapunov", q))
    if x.shape != right.shape:
        raise ValueError(f"Matrices a {x.shape} and q {right.shape} should have the same shape. [nd-shape]")
    return matrix_equation.sylvester(x, adjoint(x), right)


solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> Array:
    """Return the solution x of the discrete Lyapunov equation a @ x @ a^H - x + q = 0.

    Args:
        a: square matrix, of shape (..., n, n).
        q: constant term, of shape (..., n, n).
        method: `"direct"` or `"bilinear"`, as in SciPy; has no effect, because one method serves all sizes.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_discrete_lyapunov([[0.5]], [[3.0]])
    array([[4.]])
    """
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"Unknown solver {method} [nd-option]")
    x, right = _together(square("solve_discrete_lyapunov", a), square("solve_discrete_lyapunov", q))
    return matrix_equation.stein(x, right)


def _general(
    a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike, e: ArrayLike | None, s: ArrayLike | None
) -> tuple[list[Array], Array | None]:
    """Reduce the general equation to one without s and with e = 1; return its a, b, q and r, and e.

    With y = e^H x e, dividing a and b by e removes it. Feedback removes s: a - b r^-1 s^H, q - s r^-1 s^H.
    """
    given = [m for m in (e, s) if m is not None]
    state, control, cost, price, *rest = _together(a, b, q, r, *given)
    scale = rest.pop(0) if e is not None else None
    if scale is not None:
        state, control = tensor_ops.solve(scale, state), tensor_ops.solve(scale, control)
    if rest:
        (cross,) = rest
        feedback = tensor_ops.solve(price, adjoint(cross))
        state, cost = state - control @ feedback, cost - cross @ feedback
        cost = (cost + adjoint(cost)) / 2.0
    return [state, control, cost, price], scale


def _scale_back(y: Array, e: Array | None) -> Array:
    if e is None:
        return y
    half = tensor_ops.solve(adjoint(e), y)
    return adjoint(tensor_ops.solve(adjoint(e), adjoint(half)))


def solve_continuous_are(
    a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike, e: ArrayLike | None = None, s: ArrayLike | None = None,
    balanced: bool = True,
) -> Array:  # fmt: skip
    """Return the stabilising solution x of the continuous Riccati equation a^H x e + e^H x a - (e^H x b + s) r^-1 (b^H
    x e + s^H) + q = 0.

    Args:
        a: square matrix, of shape (..., n, n).
        b: input matrix, of shape (..., n, m).
        q: Hermitian cost of states, of shape (..., n, n).
        r: Hermitian, invertible cost of inputs, of shape (..., m, m).
        e: invertible matrix, of shape (..., n, n). The default is the identity.
        s: cross term, of shape (..., n, m). The default is zero.
        balanced: accepted as in SciPy; has no effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_continuous_are([[0.0]], [[1.0]], [[4.0]], [[1.0]])
    array([[2.]])
    """
    parts, scale = _general(a, b, q, r, e, s)
    return _scale_back(matrix_equation.continuous_riccati(*parts), scale)


def solve_discrete_are(
    a: ArrayLike, b: ArrayLike, q: ArrayLike, r: ArrayLike, e: ArrayLike | None = None, s: ArrayLike | None = None,
    balanced: bool = True,
) -> Array:  # fmt: skip
    """Return the stabilising solution x of the discrete Riccati equation a^H x a - e^H x e - (a^H x b + s) (r + b^H x
    b)^-1 (b^H x a + s^H) + q = 0.

    Args:
        a: square matrix, of shape (..., n, n).
        b: input matrix, of shape (..., n, m).
        q: Hermitian cost of states, of shape (..., n, n).
        r: Hermitian, invertible cost of inputs, of shape (..., m, m).
        e: invertible matrix, of shape (..., n, n). The default is the identity.
        s: cross term, of shape (..., n, m). The default is zero.
        balanced: accepted as in SciPy; has no effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_discrete_are([[0.0]], [[1.0]], [[4.0]], [[1.0]])
    array([[4.]])
    """
    parts, scale = _general(a, b, q, r, e, s)
    return _scale_back(matrix_equation.discrete_riccati(*parts), scale)
