"""Matrix equations: Sylvester's, Stein's (the discrete Lyapunov equation) and Riccati's.

The derivative of a linear matrix equation is the same equation with another right side. That of a Riccati equation is a
linear equation along its closed loop. So all rules here, to any order, consist of the two linear equations. The public
functions give all arguments the same leading dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import matrix_equations
from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.ops.matrix import adjoint, call_linalg
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_SHARED = "Shift or perturb one of the matrices."


# ----- a x + x b = q --------------------------------------------------------------------------------------------------

# With w the solution for a^H, b^H and g, which is the gradient of q: <g, dx> = <w, dq - da x - x db>.


def _sylvester(np: Library, a: Payload, b: Payload, q: Payload) -> Payload:
    problem = "sylvester: a and -b have an eigenvalue in common, so there is no unique solution"
    return call_linalg(lambda *given: matrix_equations.sylvester(np, *given), problem, _SHARED, a, b, q)


def _sylvester_vjp(
    g: Payload, a: Payload, b: Payload, out: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    w = ops.sylvester(adjoint(a, ops), adjoint(b, ops), g)
    outh = adjoint(out, ops)
    return -ops.matmul(w, outh) if needs[0] else None, -ops.matmul(outh, w) if needs[1] else None, w


sylvester = op(
    "sylvester", "a b q",
    _sylvester,
    vjp=_sylvester_vjp,
    jvp={
        "a": lambda t, a, b, out, ops: -ops.sylvester(a, b, ops.matmul(t, out)),
        "b": lambda t, a, b, out, ops: -ops.sylvester(a, b, ops.matmul(out, t)),
        "q": lambda t, a, b, ops: ops.sylvester(a, b, t),
    },
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip


# ----- x - a x a^H = q ------------------------------------------------------------------------------------------------

# dx - a dx a^H = dq + da x a^H + a x da^H. Transposed, w - a^H w a = g, and <w, da x a^H + a x
# da^H> gives both terms of a.


def _stein(np: Library, a: Payload, q: Payload) -> Payload:
    problem = "stein: two eigenvalues of a have the product 1, so there is no unique solution"
    return call_linalg(lambda *given: matrix_equations.stein(np, *given), problem, _SHARED, a, q)


def _stein_vjp(g: Payload, a: Payload, out: Payload, needs: tuple[bool, ...], ops: Vocabulary) -> tuple[Any, ...]:
    w = ops.stein(adjoint(a, ops), g)
    if not needs[0]:
        return None, w
    moved = ops.matmul(a, out)
    along = ops.matmul(w, ops.matmul(a, adjoint(out, ops)))
    return along + ops.matmul(adjoint(w, ops), moved), w


def _stein_push(t: Payload, a: Payload, out: Payload, ops: Vocabulary) -> Payload:
    right = ops.matmul(ops.matmul(t, out), adjoint(a, ops)) + ops.matmul(ops.matmul(a, out), adjoint(t, ops))
    return ops.stein(a, right)


stein = op(
    "stein", "a q",
    _stein,
    vjp=_stein_vjp,
    jvp={"a": _stein_push, "q": lambda t, a, ops: ops.stein(a, t)},
    batch="leading", core_dims=[2],
)  # fmt: skip


# ----- Riccati --------------------------------------------------------------------------------------------------------

# Note [Riccati equations]
# Continuous: a^H x + x a - x b r^-1 b^H x + q = 0. With k = r^-1 b^H x and the closed loop c = a - b k,
#     c^H dx + dx c = -(x da + da^H x + dq - x db k - k^H db^H x + k^H dr k).
# Discrete: x = a^H x a - a^H x b k + q with k = (r + b^H x b)^-1 b^H x a and c = a - b k,
#     dx - c^H dx c = c^H x (da - db k) + (da - db k)^H x c + k^H dr k + dq.
# q and r (here `cost`) are Hermitian, and so is x: derivatives are those along Hermitian changes.


def _gain_continuous(b: Payload, r: Payload, x: Payload, ops: Vocabulary) -> Payload:
    return ops.solve(r, ops.matmul(adjoint(b, ops), x))


def _gain_discrete(a: Payload, b: Payload, r: Payload, x: Payload, ops: Vocabulary) -> Payload:
    bx = ops.matmul(adjoint(b, ops), x)
    return ops.solve(r + ops.matmul(bx, b), ops.matmul(bx, a))


def _pull(w: Payload, left: Payload, k: Any, ops: Vocabulary) -> tuple[Any, ...]:
    """Return the gradients of a, b, q and r from <w, left^H (da - db k) + its adjoint + k^H dr k + dq>."""
    ga = ops.matmul(left, w + adjoint(w, ops))
    kh = adjoint(k, ops)
    return ga, -ops.matmul(ga, kh), w, ops.matmul(ops.matmul(k, w), kh)


def _push(left: Payload, k: Any, tangents: tuple[Any, ...], ops: Vocabulary) -> Payload:
    """Return left^H (da - db k) + its adjoint + k^H dr k + dq."""
    ta, tb, tq, tr = tangents
    total: Any = None if tq is None else tq
    drift = None if ta is None else ta
    if tb is not None:
        drift = -ops.matmul(tb, k) if drift is None else drift - ops.matmul(tb, k)
    terms = []
    if drift is not None:
        half = ops.matmul(adjoint(left, ops), drift)
        terms.append(half + adjoint(half, ops))
    if tr is not None:
        terms.append(ops.matmul(adjoint(k, ops), ops.matmul(tr, k)))
    for term in terms:
        total = term if total is None else total + term
    return total


def _care_vjp(g: Payload, a: Payload, b: Payload, cost: Any, out: Payload, ops: Vocabulary) -> tuple[Any, ...]:
    k = _gain_continuous(b, cost, out, ops)
    c = a - ops.matmul(b, k)
    return _pull(-ops.sylvester(c, adjoint(c, ops), g), out, k, ops)


def _care_jvp(
    a: Payload,
    b: Payload,
    cost: Any,
    out: Payload,
    a_t: Payload,
    b_t: Payload,
    q_t: Payload,
    cost_t: Any,
    ops: Vocabulary,
) -> Payload:
    k = _gain_continuous(b, cost, out, ops)
    c = a - ops.matmul(b, k)
    return -ops.sylvester(adjoint(c, ops), c, _push(out, k, (a_t, b_t, q_t, cost_t), ops))


continuous_riccati = op(
    "continuous_riccati", "a b q cost",
    lambda np, a, b, q, cost: wrap_for_host(np, matrix_equations.continuous_riccati, "solve_continuous_are")(
        a, b, q, cost
    ),
    vjp=_care_vjp,
    jvp=_care_jvp,
    batch="leading",
    may_raise=True, core_dims=[2], memory_order="contiguous",
)  # fmt: skip


def _dare_vjp(g: Payload, a: Payload, b: Payload, cost: Any, out: Payload, ops: Vocabulary) -> tuple[Any, ...]:
    k = _gain_discrete(a, b, cost, out, ops)
    c = a - ops.matmul(b, k)
    return _pull(ops.stein(c, g), ops.matmul(out, c), k, ops)


def _dare_jvp(
    a: Payload,
    b: Payload,
    cost: Any,
    out: Payload,
    a_t: Payload,
    b_t: Payload,
    q_t: Payload,
    cost_t: Any,
    ops: Vocabulary,
) -> Payload:
    k = _gain_discrete(a, b, cost, out, ops)
    c = a - ops.matmul(b, k)
    return ops.stein(adjoint(c, ops), _push(ops.matmul(out, c), k, (a_t, b_t, q_t, cost_t), ops))


discrete_riccati = op(
    "discrete_riccati", "a b q cost",
    lambda np, a, b, q, cost: wrap_for_host(np, matrix_equations.discrete_riccati, "solve_discrete_are")(
        a, b, q, cost
    ),
    vjp=_dare_vjp,
    jvp=_dare_jvp,
    batch="leading",
    may_raise=True, core_dims=[2], memory_order="contiguous",
)  # fmt: skip
