"""Minima with and without constraints, least squares: values against closed forms and SciPy, derivatives against closed forms and
finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import func, implicit
from ndgrad._src.core.modes import process, thread

optimize = pytest.importorskip("scipy.optimize")


def tensor(values, **options):
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def close(have, want, tolerance=1e-7):
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=tolerance, atol=tolerance)


def differences(f, a, h=1e-6):
    a = np.asarray(a, float)
    return np.stack([(f(tensor(a + h * e)).numpy() - f(tensor(a - h * e)).numpy()) / (2 * h) for e in np.eye(len(a))], axis=-1)


def quartic(x, a):
    """Its minimum solves 2 (x - a) + 4 x^3 = 0."""
    return ((x - a) ** 2 + x**4).sum()


#: SciPy takes a second to find a point that the others find at once; derivatives there are not its business.
TRUST_CONSTR = pytest.param("trust-constr", marks=pytest.mark.slow)
METHODS = [
    "BFGS",
    "CG",
    "L-BFGS-B",
    "Newton-CG",
    "TNC",
    "SLSQP",
    "trust-ncg",
    "trust-krylov",
    "trust-exact",
    "trust-constr",
    "Powell",
    None,
]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_exact_minimum_and_derivative(method):
    a = tensor([1.0, 3.0])

    def solve(a):
        return implicit.minimize(quartic, tensor([0.5, 0.5]), (a,), method=method)

    x = solve(a)
    close(2 * (x - a) + 4 * x**3, [0.0, 0.0], 1e-12)
    want = np.diag(2 / (2 + 12 * x.numpy() ** 2))
    close(func.jacrev(solve)(a), want, 1e-10)


def test_derivatives_in_every_combination():
    def solve(a):
        return implicit.minimize(lambda x: quartic(x, a), tensor([0.5])).sum()

    a = tensor(1.0)
    x = implicit.minimize(lambda x: quartic(x, a), tensor([0.5])).item()
    first = 2 / (2 + 12 * x * x)
    second = -2 * 24 * x * first / (2 + 12 * x * x) ** 2
    close(func.grad(solve)(a), first)
    close(func.jvp(solve, (a,), (tensor(2.0),))[1], 2 * first)
    for transform in (func.grad(func.grad(solve)), func.jacfwd(func.grad(solve)), func.grad(func.jacfwd(solve))):
        close(transform(a), second)


def test_structures_with_a_coupled_objective():
    def objective(x, p):
        return ((x["w"] - p["target"]) ** 2).sum() + p["k"] * (x["b"][0] * x["w"].sum() - 1.0) ** 2 + x["b"][0] ** 2

    def solve(v):
        p = {"target": v[:2], "k": v[2]}
        x = implicit.minimize(objective, {"w": tensor([0.1, 0.2]), "b": [tensor(0.3)]}, (p,))
        return ndgrad.cat([x["w"], x["b"][0].reshape(1)])

    v = [1.0, -0.5, 2.0]
    want = differences(solve, v)
    close(func.jacrev(solve)(tensor(v)), want, 1e-6)
    close(func.jacfwd(solve)(tensor(v)), want, 1e-6)


def test_matrix_free_derivative_equals_the_dense_one():
    a = tensor([1.0, 3.0, 2.0])
    for linear in ("cg", "minres", "gmres"):
        have = func.jacrev(lambda a, linear=linear: implicit.minimize(quartic, a * 0.0 + 0.5, (a,), linear=linear))(a)
        close(have, func.jacrev(lambda a: implicit.minimize(quartic, a * 0.0 + 0.5, (a,)))(a).numpy(), 1e-8)


def test_many_unknowns_without_a_dense_hessian():
    n = 1500
    a = ndgrad.tensor(2.0, dtype=ndgrad.float64, requires_grad=True)
    t = tensor(np.linspace(0, 1, n))
    x = implicit.minimize(lambda x: ((x - a * t) ** 2).sum(), tensor(np.zeros(n)), method="L-BFGS-B")
    x.sum().backward()
    close(a.grad, np.linspace(0, 1, n).sum(), 1e-8)


# ----- bounds and constraints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["L-BFGS-B", "TNC", "SLSQP", TRUST_CONSTR, None])
def test_unknowns_at_a_bound_do_not_move(method):
    def solve(a):
        return implicit.minimize(
            lambda x: ((x - a) ** 2).sum() + x[0] * x[1], tensor([0.1, 0.1]), bounds=[(0, 0.5), (None, None)], method=method
        )

    a = tensor([2.0, 1.0])  # x0 = 0.5, x1 = a1 - x0 / 2
    close(solve(a), [0.5, 0.75])
    close(func.jacrev(solve)(a), [[0.0, 0.0], [0.0, 1.0]])
    inside = tensor([0.4, 0.1])
    close(func.jacrev(solve)(inside), np.linalg.inv([[2.0, 1.0], [1.0, 2.0]]) * 2)


def test_notations_of_bounds():
    a = tensor([2.0, -2.0])
    for bounds in (optimize.Bounds(-1, 1), [(-1, 1), (-1, 1)], (-1.0, 1.0), (np.array([-1.0, -1.0]), np.array([1.0, 1.0]))):
        close(implicit.minimize(lambda x: ((x - a) ** 2).sum(), tensor([0.0, 0.0]), bounds=bounds), [1.0, -1.0])
    tree = implicit.minimize(
        lambda x: (x["u"] - 3.0) ** 2 + ((x["v"] - a) ** 2).sum(), {"u": 0.0, "v": tensor([0.0, 0.0])}, bounds=({"u": 0.0, "v": -0.5}, 1.0)
    )
    close(tree["u"], 1.0)
    close(tree["v"], [1.0, -0.5])


METHODS_WITH_CONSTRAINTS = pytest.mark.parametrize("method", ["SLSQP", TRUST_CONSTR])


@METHODS_WITH_CONSTRAINTS
def test_an_equation_as_constraint_projects_the_derivative(method):
    def solve(a, total):
        equal = {"type": "eq", "fun": lambda x, s: x.sum() - s, "args": (total,)}
        return implicit.minimize(lambda x: ((x - a) ** 2).sum(), tensor([0.0, 0.0, 0.0]), constraints=equal, method=method)

    a, total = tensor([2.0, 1.0, 0.0]), tensor(1.0)
    close(solve(a, total), [4 / 3, 1 / 3, -2 / 3], 1e-6)
    by_a, by_total = func.jacrev(solve, (0, 1))(a, total)
    close(by_a, np.eye(3) - 1 / 3)
    close(by_total, np.full(3, 1 / 3))
    close(func.jacfwd(solve)(a, total), np.eye(3) - 1 / 3)


@METHODS_WITH_CONSTRAINTS
def test_a_nonlinear_inequality_whether_active_or_not(method):
    def solve(a):
        disc = optimize.NonlinearConstraint(lambda x: (x**2).sum(), -np.inf, 1.0)
        box = optimize.LinearConstraint(np.eye(2), -5, 5)
        return implicit.minimize(lambda x: ((x - a) ** 2).sum(), tensor([0.1, 0.2]), constraints=[disc, box], method=method)

    outside = np.array([2.0, 1.0])
    close(solve(tensor(outside)), outside / np.sqrt(5))
    size = np.sqrt(5)
    want = np.eye(2) / size - np.outer(outside, outside) / size**3
    close(func.jacrev(solve)(tensor(outside)), want)
    close(func.jacrev(solve)(tensor([0.3, 0.2])), np.eye(2), 1e-5)
    if method == "SLSQP":  # the rule does not know which method has found the minimum
        h = func.jacfwd(func.jacrev(solve))(tensor(outside))
        again = differences(lambda a: func.jacrev(solve)(a), outside, 1e-5)
        close(h, again, 1e-5)


def test_a_bound_and_a_constraint_together():
    def solve(a):
        return implicit.minimize(
            lambda x: ((x - a) ** 2).sum(), tensor([0.2, 0.3, 0.5]), bounds=[(0, None)] * 3,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1}, method="SLSQP",
        )  # fmt: skip

    a = [0.9, 0.6, -2.0]  # the projection on the simplex: the last unknown stays at zero
    close(solve(tensor(a)), [0.65, 0.35, 0.0])
    close(func.jacrev(solve)(tensor(a)), [[0.5, -0.5, 0.0], [-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])


# ----- least squares -----------------------------------------------------------------------------------------------------

T = np.linspace(0.0, 1.0, 4)
Y = 2.0 * np.exp(-1.3 * T) + 0.3 * np.sin(9 * T)


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_least_squares_uses_the_whole_hessian(loss):
    def solve(y):
        return implicit.least_squares(lambda p: p[0] * ndgrad.exp(-p[1] * tensor(T)) - y, tensor([1.0, 1.0]), loss=loss, f_scale=0.2)

    scipys = optimize.least_squares(
        lambda p: p[0] * np.exp(-p[1] * T) - Y, [1.0, 1.0], loss=loss, f_scale=0.2, xtol=1e-12, gtol=1e-12, ftol=1e-12
    )
    close(solve(tensor(Y)), scipys.x, 1e-5)
    want = differences(solve, Y)
    close(func.jacrev(solve)(tensor(Y)), want, 1e-5)
    close(func.jacfwd(solve)(tensor(Y)), want, 1e-5)


def test_least_squares_of_a_structure_within_bounds():
    y = tensor([1.0, 3.0, 5.0], requires_grad=True)
    t = tensor([0.0, 1.0, 2.0])
    fit = implicit.least_squares(lambda p: [p["a"] + p["b"] * t - y], {"a": 0.0, "b": 0.0}, bounds=(-10.0, {"a": 10.0, "b": 1.0}))
    close(fit["b"], 1.0)
    close(fit["a"], 2.0)
    fit["a"].backward()
    close(y.grad, np.full(3, 1 / 3))


# ----- failures ------------------------------------------------------------------------------------------------------------


def test_errors_say_what_is_wrong_and_leave_nothing_behind():
    before = len(process.busy)
    a = tensor(1.0, requires_grad=True)
    zeros = tensor([0.0, 0.0])
    with pytest.raises(ValueError, match="returns one number"):
        implicit.minimize(lambda x: x * a, zeros)
    with pytest.raises(implicit.ConvergenceError, match="did not converge"):
        implicit.minimize(lambda x: (x * a).sum(), zeros, options={"maxiter": 3})
    with pytest.raises(implicit.SingularError, match="the Hessian"):
        implicit.minimize(lambda x: (x.sum() - a) ** 2, zeros).sum().backward()
    with pytest.raises(ValueError, match="inside vmap"):
        func.vmap(lambda a: implicit.minimize(lambda x: quartic(x, a), zeros))(tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="constants"):
        implicit.minimize(lambda x: quartic(x, a), zeros, bounds=(a, 2.0))
    with pytest.raises(ValueError, match="pair"):
        implicit.minimize(lambda x: quartic(x, a), zeros, bounds=[(0, 1)])
    with pytest.raises(ValueError, match="'fun' and 'type'"):
        implicit.minimize(lambda x: quartic(x, a), zeros, constraints={"type": "less", "fun": lambda x: x})
    with pytest.raises(ValueError, match="loss"):
        implicit.least_squares(lambda x: x, zeros, loss="cubic")
    assert len(process.busy) == before
    assert thread.captures is None
    assert thread.levels == ()
    quartic(implicit.minimize(quartic, zeros, (a,)), a).backward()
    assert a.grad is not None
