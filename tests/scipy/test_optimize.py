"""`ndgrad.scipy.optimize` beside `scipy.optimize`: the same answers, derivatives supplied and derivatives of solutions."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as nnp
from ndgrad import func
from ndgrad._src.core.modes import process, thread

scipys = pytest.importorskip("scipy.optimize")
from ndgrad.scipy import integrate, optimize  # noqa: E402


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def close(have, want, tolerance=1e-7):
    np.testing.assert_allclose(have.detach().numpy() if isinstance(have, ndgrad.Tensor) else have, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("method", ["BFGS", "CG", "L-BFGS-B", "SLSQP", "Nelder-Mead", None])
def test_minimize_without_derivatives_wanted_is_scipys_own(method):
    """Given the exact gradient, SciPy walks the same way."""
    mine = optimize.minimize(rosenbrock, [0.5, 0.5, 0.5], method=method)
    gradient = {} if method == "Nelder-Mead" else {"jac": scipys.rosen_der}
    theirs = scipys.minimize(scipys.rosen, [0.5, 0.5, 0.5], method=method, **gradient)
    assert isinstance(mine.x, nnp.Array)
    assert isinstance(mine, scipys.OptimizeResult)
    close(mine.x, theirs.x, 1e-6)
    assert abs(mine.nfev - theirs.nfev) <= 2
    assert mine.success


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr", "trust-exact"])
def test_methods_of_second_order_get_exact_hessians(method):
    result = optimize.minimize(rosenbrock, np.full(5, 0.8), method=method)
    close(result.x, np.ones(5), 1e-3)
    assert result.nit < 60


def test_sparse_hessian_of_a_large_problem():
    result = optimize.minimize(rosenbrock, np.full(1000, 0.8), hess="sparse", options={"maxiter": 200})
    assert result.success
    close(result.x, np.ones(1000), 1e-6)
    with pytest.raises(ValueError, match="no sparse Hessian"):
        optimize.minimize(rosenbrock, np.full(4, 0.8), method="BFGS", hess="sparse")


def test_structures_go_in_and_come_out():
    result = optimize.minimize(lambda p: (p["a"] - 3.0) ** 2 + ((p["b"] - p["a"]) ** 2).sum(), {"a": 0.0, "b": [1.0, 2.0]})
    close(result.x["a"], 3.0, 1e-5)
    close(result.x["b"], [3.0, 3.0], 1e-5)
    assert result.jac["b"].shape == (2,)
    assert isinstance(result.fun, float)


def test_functions_written_for_numpy():
    def negative_log_likelihood(p, data):
        mu, log_sigma = p
        return np.sum(0.5 * ((data - mu) / np.exp(log_sigma)) ** 2 + log_sigma)

    data = np.array([1.0, 2.0, 4.0, 5.0])
    result = optimize.minimize(negative_log_likelihood, [0.0, 0.0], args=(data,))
    close(result.x, [data.mean(), np.log(data.std())], 1e-5)
    root = optimize.root(lambda x: np.cos(x) - x, [1.0])
    close(np.cos(root.x.numpy()), root.x.numpy(), 1e-10)


def test_minimum_is_differentiable_in_arguments_and_closures():
    a, b = nnp.array(2.0).requires_grad_(), nnp.array([1.0, 3.0]).requires_grad_()
    result = optimize.minimize(lambda x, a: ((x - a * b) ** 2).sum() + (x**2).sum(), np.zeros(2), args=(a,))
    close(result.x, [1.0, 3.0])  # a b / 2
    result.x.sum().backward(retain_graph=True)
    close(a.grad, 2.0)
    close(b.grad, [1.0, 1.0])
    a.grad = None
    result.fun.backward()  # the envelope: (a b)^2 / 2 summed
    close(a.grad, 2.0 * 10.0)


def test_own_gradients_and_callbacks_are_used():
    calls = {"jac": 0, "callback": 0}

    def gradient(x):
        calls["jac"] += 1
        return scipys.rosen_der(np.asarray(x))

    def callback(x):
        assert x.shape == (3,)
        calls["callback"] += 1

    result = optimize.minimize(rosenbrock, [0.5, 0.5, 0.5], jac=gradient, callback=callback)
    assert result.success
    assert calls["jac"] > 5
    assert calls["callback"] == result.nit
    both = optimize.minimize(lambda x: (rosenbrock(x), None), [0.5, 0.5, 0.5], jac=True)
    close(both.x, np.ones(3), 1e-5)


def test_bounds_and_constraints_get_exact_jacobians():
    result = optimize.minimize(
        lambda x: ((x - 2.0) ** 2).sum(), [0.0, 0.0], bounds=[(0, 1.2), (None, None)],
        constraints=[{"type": "ineq", "fun": lambda x: 2.0 - x.sum()}, optimize.LinearConstraint([[1.0, -1.0]], -0.5, np.inf)],
    )  # fmt: skip
    close(result.x, [1.0, 1.0], 1e-6)


# ----- least squares -----------------------------------------------------------------------------------------------------

XS = np.linspace(0.0, 1.0, 12)
YS = 2.0 * np.exp(-1.3 * XS) + 0.05 * np.sin(20 * XS)


def test_least_squares_equals_scipys():
    mine = optimize.least_squares(lambda p: p["a"] * np.exp(-p["k"] * XS) - YS, {"a": 1.0, "k": 1.0})
    theirs = scipys.least_squares(lambda p: p[0] * np.exp(-p[1] * XS) - YS, [1.0, 1.0])
    close(mine.x["a"], theirs.x[0], 1e-5)
    close(mine.x["k"], theirs.x[1], 1e-5)
    close(mine.cost, theirs.cost, 1e-8)
    assert mine.success


@pytest.mark.parametrize("sigma", [None, 0.1 + 0.05 * XS, np.diag((0.1 + 0.05 * XS) ** 2) + 0.001])
@pytest.mark.parametrize("absolute", [False, True])
def test_curve_fit_equals_scipys_with_its_covariance(sigma, absolute):
    model = lambda x, a, k: a * np.exp(-k * x)
    mine, cov = optimize.curve_fit(model, XS, YS, sigma=sigma, absolute_sigma=absolute)
    theirs, their_cov = scipys.curve_fit(model, XS, YS, sigma=sigma, absolute_sigma=absolute)
    close(mine, theirs, 1e-5)
    close(cov, their_cov, 1e-5)


def test_curve_fit_is_differentiable_in_the_data():
    model = lambda x, a, k: a * np.exp(-k * x)

    def fit(y):
        return optimize.curve_fit(model, XS, y)[0]

    y = nnp.array(YS)
    h = 1e-5
    for place in (0, 5):
        e = h * np.eye(12)[place]
        # two fits with a graph asked for, since those are polished
        up, down = (fit(nnp.array(YS + s * e).requires_grad_()).detach().numpy() for s in (1, -1))
        close(func.jacrev(fit)(y)[:, place], (up - down) / (2 * h), 1e-5)


# ----- roots ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["brentq", "brenth", "ridder", "bisect"])
def test_bracketing_searches(name):
    a = nnp.array(2.0).requires_grad_()
    x = getattr(optimize, name)(lambda x, a: x**3 - a, 0.0, 3.0, args=(a,))
    close(x, 2 ** (1 / 3), 1e-10)
    x.backward()
    close(a.grad, 2 ** (-2 / 3) / 3)
    x, report = getattr(optimize, name)(lambda x: x**3 - 2.0, 0.0, 3.0, full_output=True)
    assert report.converged
    with pytest.raises(ValueError, match="sign"):
        getattr(optimize, name)(lambda x: x**2 + 1.0, 0.0, 1.0)


def test_newton_for_one_number_and_for_many():
    a = nnp.array(2.0).requires_grad_()
    x = optimize.newton(lambda x: x**3 - a, 1.0)
    x.backward()
    close(a.grad, 2 ** (-2 / 3) / 3)
    many = nnp.array([2.0, 3.0]).requires_grad_()
    roots = optimize.newton(lambda x, a: x**3 - a, [1.0, 1.0], args=(many,))
    close(roots, np.cbrt([2.0, 3.0]))
    roots.sum().backward()
    close(many.grad, np.array([2.0, 3.0]) ** (-2 / 3) / 3)


def test_root_scalar_fixed_point_and_minimize_scalar():
    a = nnp.array(2.0).requires_grad_()
    for options in ({"bracket": [0.0, 2.0]}, {"x0": 1.0}, {"x0": 1.0, "method": "newton"}, {"x0": 1.0, "x1": 1.2, "method": "secant"}):
        found = optimize.root_scalar(lambda x: x * x - a, **options)
        assert found.converged
        found.root.backward()
        close(a.grad, 0.5 / np.sqrt(2))
        a.grad = None
    close(func.grad(lambda a: optimize.newton(lambda x: x * x - a, 1.0))(nnp.array(2.0)), 0.5 / np.sqrt(2))
    close(func.jacfwd(lambda a: optimize.brentq(lambda x: x * x - a, 0.0, 2.0))(nnp.array(2.0)), 0.5 / np.sqrt(2))
    optimize.fixed_point(lambda x: (x + a / x) / 2, 1.0).backward()
    close(a.grad, 0.5 / np.sqrt(2))
    a.grad = None
    result = optimize.minimize_scalar(lambda x: (x - a) ** 2 + x**2)
    close(result.x, 1.0)
    result.x.backward()
    close(a.grad, 0.5)
    bounded = optimize.minimize_scalar(lambda x: (x - a) ** 2, bounds=(0.0, 1.0), method="bounded")
    close(bounded.x, 1.0, 1e-5)


def test_root_results_and_failures():
    good = optimize.root(lambda x: x * x - nnp.array([4.0, 9.0]), [1.0, 1.0])
    close(good.x, [2.0, 3.0])
    close(good.fun, [0.0, 0.0])
    assert good.success
    bad = optimize.root(lambda x: x * x + 1.0, [1.0])
    assert not bad.success
    a = nnp.array(1.0).requires_grad_()
    before = len(process.busy)
    with pytest.raises(optimize.ConvergenceError, match="residual"):
        optimize.root(lambda x: x * x + a, [1.0])
    with pytest.raises(optimize.ConvergenceError):
        optimize.minimize(lambda x: (x * a).sum(), [1.0], options={"maxiter": 2})
    assert not optimize.minimize(lambda x: x.sum(), [1.0], options={"maxiter": 2}).success
    assert len(process.busy) == before
    assert thread.captures is None
    assert optimize.Bounds is scipys.Bounds
    with pytest.raises(AttributeError, match="no attribute"):
        optimize.linprog


def test_the_package_finds_its_submodules_and_names_them():
    assert "optimize" in dir(ndgrad.scipy)
    assert ndgrad.scipy.optimize is optimize
    with pytest.raises(AttributeError, match="optimize"):
        ndgrad.scipy.nonsense


# ----- fields of results -------------------------------------------------------------------------------------------------------


EXACT = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)


def fields_of_least_squares(p):
    t = nnp.array([0.0, 1.0, 2.0, 3.0])
    data = p * nnp.array([1.0, 0.7, 0.2, 0.3]) + p**2 * t / 9.0
    return optimize.least_squares(lambda x: x[0] * nnp.exp(-x[1] * t) - data, [1.0, 0.5], **EXACT)


@pytest.mark.parametrize("field", ["x", "cost", "fun", "grad", "jac"])
def test_fields_of_least_squares_carry_derivatives_in_both_modes(field):
    value = lambda p: getattr(fields_of_least_squares(p), field).sum()
    step = lambda h: float(np.sum(np.asarray(getattr(fields_of_least_squares(nnp.array(1.3 + h)), field))))
    want = (45 * (step(1e-3) - step(-1e-3)) - 9 * (step(2e-3) - step(-2e-3)) + step(3e-3) - step(-3e-3)) / 0.06
    tolerance = 1e-4 if field == "grad" else 1e-6  # SciPy stops where it is small
    p = nnp.array(1.3).requires_grad_()
    value(p).backward()
    np.testing.assert_allclose(p.grad.item(), want, rtol=1e-5, atol=tolerance)
    np.testing.assert_allclose(func.jvp(value, (nnp.array(1.3),), (nnp.array(1.0),))[1].item(), want, rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("bounds", [None, [(None, 1.0), (None, None)]])
def test_value_and_gradient_of_a_minimum_carry_derivatives_in_both_modes(bounds):
    def solved(p):
        objective = lambda x: ((x - p * nnp.array([1.0, 2.0])) ** 2).sum() + p**3
        return optimize.minimize(objective, [0.3, 0.1], bounds=bounds, method="L-BFGS-B")

    # at the bound x[0] = 1 the value is (1 - p)^2 + p^3 and the gradient 2 (1 - p)
    p = 1.5
    want = {"fun": 3 * p**2 + (0.0 if bounds is None else 2 * (p - 1)), "jac": 0.0 if bounds is None else -2.0}
    for field, slope in want.items():
        value = lambda v, field=field: getattr(solved(v), field).sum()
        np.testing.assert_allclose(func.jvp(value, (nnp.array(p),), (nnp.array(1.0),))[1].item(), slope, atol=1e-6)
        np.testing.assert_allclose(func.grad(value)(nnp.array(p)).item(), slope, atol=1e-6)


def test_numbers_of_the_search_are_withheld_where_a_derivative_is_at_stake():
    p = nnp.array(1.5).requires_grad_()
    result = optimize.minimize(lambda x: ((x - p) ** 2).sum(), [0.3, 0.1], method="BFGS")
    with pytest.raises(NotImplementedError, match="'hess_inv'.*Instead"):
        result.hess_inv
    assert result.success
    assert "hess_inv" in repr(result)
    plain = optimize.minimize(lambda x: ((x - 1.5) ** 2).sum(), [0.3, 0.1], method="BFGS")
    assert plain.hess_inv.shape == (2, 2)
    with pytest.raises(NotImplementedError, match="'fjac'"):
        optimize.root(lambda x: x**2 - p, [1.0]).fjac


def test_a_list_of_numbers_and_tensors_is_one_vector():
    p = nnp.array(2.0).requires_grad_()
    result = optimize.minimize(lambda x: ((x - p) ** 2).sum(), [1.0, p])
    assert type(result.x) is type(p)
    assert result.x.shape == (2,)
    assert optimize.root(lambda x: x**2 - p, [p, 1.0]).x.shape == (2,)
    assert optimize.least_squares(lambda x: x - p, (p, 1.0)).x.shape == (2,)
    sol = integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0, p], rtol=1e-8, atol=1e-10)
    sol.y[:, -1].sum().backward()
    np.testing.assert_allclose(p.grad.item(), np.exp(-1.0), rtol=1e-6)


def test_bounds_of_a_scalar_minimum_that_carry_a_derivative_are_refused():
    p = nnp.array(2.0).requires_grad_()
    with pytest.raises(ValueError, match="a bound is a tensor"):
        optimize.minimize_scalar(lambda x: -x, bounds=(0.0, p), method="bounded")


def test_fsolve_is_differentiable_and_gives_scipys_root():
    a = nnp.array(2.0).requires_grad_()
    x = optimize.fsolve(lambda z, a: z**2 - a, 1.0, args=(a,))
    assert x.shape == (1,)
    x[0].backward()
    assert float(a.grad) == pytest.approx(0.5 / 2**0.5)
    system = lambda v: [v[0] * v[1] - 2.0, v[0] - v[1] - 1.0]
    found, info, flag, _ = optimize.fsolve(lambda v: nnp.stack(system(v)), [1.0, 1.0], full_output=True)
    np.testing.assert_allclose(np.asarray(found), scipys.fsolve(system, [1.0, 1.0]), rtol=1e-8)
    assert (flag, set(info) >= {"fvec", "nfev"}) == (1, True)
    with pytest.warns(RuntimeWarning):
        optimize.fsolve(lambda z: z**2 + 1.0, 1.0)
