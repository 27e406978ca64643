"""`ndgrad.scipy.integrate` beside `scipy.integrate`."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.numpy as nnp
from ndgrad import func

scipys = pytest.importorskip("scipy.integrate")
from ndgrad.implicit import ConvergenceError  # noqa: E402
from ndgrad.scipy import integrate  # noqa: E402

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(3, 8))
X = np.sort(RNG.uniform(size=8))
OF_SAMPLES = ["trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"]


def close(have, want, tolerance=1e-10):
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_integrals_of_samples_equal_scipys(name):
    mine, theirs = getattr(integrate, name), getattr(scipys, name)
    for n in (8, 7, 4, 3, 2):
        y = Y[:, :n]
        for options in ({}, {"x": X[:n]}, {"dx": 0.3}):
            close(mine(nnp.array(y), **options), theirs(y, **options))
            close(mine(nnp.array(y.T), axis=0, **options), theirs(y.T, axis=0, **options))
    if name.startswith("cumulative"):
        close(mine(Y, initial=0), theirs(Y, initial=0))
    with pytest.raises(ValueError, match="elements"):
        mine(Y, x=X[:5])


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_integrals_of_samples_have_derivatives_in_samples_and_places(name):
    f = lambda y, x: (getattr(integrate, name)(y, x=x) * 1.0).sum()
    by_y, by_x = func.grad(f, (0, 1))(nnp.array(Y[0]), nnp.array(X))
    theirs = lambda y, x: np.sum(getattr(scipys, name)(y, x=x))
    h = 1e-6
    close(by_y, [(theirs(Y[0] + h * e, X) - theirs(Y[0] - h * e, X)) / (2 * h) for e in np.eye(8)], 1e-6)
    close(by_x, [(theirs(Y[0], X + h * e) - theirs(Y[0], X - h * e)) / (2 * h) for e in np.eye(8)], 1e-5)


def test_quad_of_a_function_written_for_numpy():
    k = nnp.array(2.0).requires_grad_()
    value, error = integrate.quad(lambda x, k: np.exp(-k * x), 0, np.inf, args=(k,))
    close(value, 0.5, 1e-8)
    assert error < 1e-6
    value.backward()
    close(k.grad, -0.25, 1e-8)


def test_solve_ivp_of_a_function_written_for_numpy():
    def field(t, y, k):
        u, v = y
        return np.array([v, -k * u]) if not isinstance(u, nnp.Array) else np.stack([v, -k * u])

    k = nnp.array(4.0).requires_grad_()
    sol = integrate.solve_ivp(field, (0, 1), [1.0, 0.0], method="DOP853", t_eval=[0.5, 1.0], args=(k,), rtol=1e-9, atol=1e-11)
    theirs = scipys.solve_ivp(field, (0, 1), [1.0, 0.0], method="DOP853", t_eval=[0.5, 1.0], args=(4.0,), rtol=1e-9, atol=1e-11)
    close(sol.y, theirs.y, 1e-9)
    sol.y[0, -1].backward()
    close(k.grad, -np.sin(2.0) / 4, 1e-7)


def test_odeint_equals_scipys():
    t = np.linspace(0.0, 1.0, 4)
    k = nnp.array(0.5).requires_grad_()
    mine = integrate.odeint(lambda y, t, k: -k * y, [1.0, 2.0], t, args=(k,))
    close(mine, scipys.odeint(lambda y, t: -0.5 * y, [1.0, 2.0], t), 1e-6)
    mine[-1].sum().backward()
    close(k.grad, -3 * np.exp(-0.5), 1e-6)
    first = integrate.odeint(lambda t, y: -0.5 * y, [1.0], t, tfirst=True)
    close(first[:, 0], np.exp(-0.5 * t), 1e-6)


@pytest.mark.parametrize("backward", [False, True])
def test_a_solution_that_blows_up_is_an_error_and_ends(backward):
    """LSODA would take steps of no length for ever."""
    times = [0.0, -2.0] if backward else [0.0, 2.0]
    with pytest.raises(ConvergenceError, match="have not moved on|not finite|failed"):
        integrate.odeint(lambda y, t: (-1.0 if backward else 1.0) * y * y, [1.0], times)
