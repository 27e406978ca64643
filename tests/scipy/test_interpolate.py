"""`ndgrad.scipy.interpolate` beside `scipy.interpolate`: values, and derivatives in data, sites, knots and points."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.numpy as dnp

scipys = pytest.importorskip("scipy.interpolate")
from tests.scipy.checking import check, plain  # noqa: E402

from ndgrad.scipy import interpolate  # noqa: E402

R = np.random.default_rng(6)
X = np.array([0.0, 0.7, 1.5, 2.6, 3.1, 4.4, 5.0])
Y = R.standard_normal(7)
YY = R.standard_normal((7, 2))
AT = np.array([-0.31, 0.22, 1.13, 1.77, 2.93, 4.01, 4.87, 5.4])
INSIDE = AT[1:-1]


def both(make):
    return tuple(lambda *a, s=s: make(s)(*a) for s in (interpolate, scipys))


# ----- piecewise cubics ------------------------------------------------------------------------------------------------------------

CONDITIONS = ["not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.4)), ("natural", "not-a-knot"), ((2, 0.5), "clamped")]


@pytest.mark.parametrize("bc", CONDITIONS)
def test_cubic_spline_in_data_sites_and_points(bc):
    check(*both(lambda s: lambda x, y, at: s.CubicSpline(x, y, bc_type=bc)(at)), X, Y, AT)
    wide = bc if isinstance(bc, str) else tuple(b if isinstance(b, str) else (b[0], np.array([b[1], 1.0])) for b in bc)
    check(*both(lambda s: lambda x, y: s.CubicSpline(x, y, bc_type=wide)(AT, 1)), X, YY, second=False)
    check(*both(lambda s: lambda y: s.CubicSpline(X, y, axis=1, bc_type=wide)(AT[:4].reshape(2, 2))), YY.T.copy(), second=False)
    for n in (2, 3, 4):
        check(*both(lambda s, n=n: lambda x, y: s.CubicSpline(x, y, bc_type=bc)(AT)), X[:n], Y[:n], second=False, vmap=False)


def test_periodic_splines_and_boundary_values():
    ring = lambda y: np.concatenate([y, y[:1]])
    for n in (3, 4, 6):
        run = lambda s, n=n: lambda y, x: s.CubicSpline(x, ring(y), bc_type="periodic")(AT)
        check(*both(run), Y[:n], X[: n + 1], second=False, vmap=False)
    run = lambda s: (
        lambda a, b: s.CubicSpline(X, Y, bc_type=((1, a if s is interpolate else float(a)), (2, b if s is interpolate else float(b))))(AT)
    )
    check(*both(run), np.array(0.3), np.array(-0.8))


@pytest.mark.parametrize("name", ["PchipInterpolator", "Akima1DInterpolator"])
def test_monotone_and_akima_cubics(name):
    check(*both(lambda s: lambda x, y, at: getattr(s, name)(x, y)(at)), X, Y, INSIDE, step=1e-4, tolerance=1e-5)
    check(*both(lambda s: lambda y: getattr(s, name)(X, y, axis=1)(INSIDE)), YY.T.copy(), second=False, step=1e-4)
    check(*both(lambda s: lambda y: getattr(s, name)(X, y)(INSIDE, 2)), Y, second=False, step=1e-4, tolerance=1e-5)
    np.testing.assert_array_equal(np.isnan(plain(getattr(interpolate, name)(X, Y)(AT))), np.isnan(getattr(scipys, name)(X, Y)(AT)))
    for n in (2, 3):
        check(
            *both(lambda s, n=n: lambda x, y: getattr(s, name)(x, y)(np.array([0.3, 0.5]))),
            X[:n],
            Y[:n],
            second=False,
            step=1e-4,
            vmap=False,
        )


def test_other_akima_and_hermite():
    check(*both(lambda s: lambda x, y: s.Akima1DInterpolator(x, y, method="makima", extrapolate=True)(AT)), X, Y, second=False, step=1e-4)
    check(*both(lambda s: lambda x, y, d, at: s.CubicHermiteSpline(x, y, d)(at)), X, Y, YY[:, 0], AT)
    check(*both(lambda s: lambda y: s.pchip_interpolate(X, y, INSIDE)), Y, second=False, step=1e-4)
    flat = interpolate.PchipInterpolator(X, dnp.array(np.zeros(7)).requires_grad_())(AT)
    flat.sum().backward()


def test_piecewise_polynomials_derivatives_and_integrals():
    c = R.standard_normal((3, 6))
    check(*both(lambda s: lambda c, x, at: s.PPoly(c, x)(at)), c, X, AT)
    for nu in (1, 2, 3):
        check(*both(lambda s, nu=nu: lambda c, x: s.PPoly(c, x).derivative(nu)(AT)), c, X, second=False)
        check(*both(lambda s, nu=nu: lambda c, x: s.PPoly(c, x).antiderivative(nu)(AT)), c, X, second=False)
    check(
        *both(
            lambda s: lambda c, x, a, b: s.PPoly(c, x).integrate(a, b) if s is interpolate else s.PPoly(c, x).integrate(float(a), float(b))
        ),
        c,
        X,
        np.array(0.4),
        np.array(4.1),
    )
    check(*both(lambda s: lambda y: s.CubicSpline(X, y).integrate(0.3, 3.7)), Y, second=False)
    check(*both(lambda s: lambda c: s.PPoly(c, X, extrapolate="periodic")(AT * 3)), c, second=False)
    check(*both(lambda s: lambda c: s.PPoly(c, X, extrapolate="periodic").integrate(0.3, 13.7)), c, second=False)


# ----- B-splines --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5])
def test_splines_and_their_evaluation(k):
    t = np.r_[[0.0] * (k + 1), 1.1, 2.3, 3.9, [5.0] * (k + 1)]
    c = R.standard_normal((len(t) - k - 1, 2))
    check(*both(lambda s: lambda c, at: s.BSpline(t, c, k)(at)), c, AT, second=k > 1)
    check(
        *both(lambda s: lambda c, t: s.BSpline(t, c, k)(INSIDE)), c, np.linspace(-1, 6, len(t)) + R.uniform(-0.1, 0.1, len(t)), second=False
    )
    for nu in range(min(k, 2) + 1):
        check(*both(lambda s, nu=nu: lambda c: s.BSpline(t, c, k)(INSIDE, nu)), c, second=False, vmap=False)
        check(*both(lambda s, nu=nu: lambda c: s.BSpline(t, c, k).derivative(nu)(INSIDE)), c, second=False, vmap=False)
    check(*both(lambda s: lambda c: s.BSpline(t, c, k).antiderivative()(INSIDE)), c, second=False)
    check(*both(lambda s: lambda c: s.BSpline(t, c, k).integrate(0.4, 4.2)), c, second=False)
    check(*both(lambda s: lambda x, y, at: s.make_interp_spline(x, y, k)(at)), X, YY, INSIDE, second=False, tolerance=1e-5)


@pytest.mark.parametrize("bc", ["natural", "clamped", ([(1, 0.3)], [(2, -0.4)]), ([(2, 0.5), (1, 0.2)], None)])
def test_interpolating_splines_with_conditions(bc):
    vector = lambda one: one if one is None or isinstance(one, str) else [(o, np.full(2, v)) for o, v in one]
    pair = bc if isinstance(bc, str) else tuple(map(vector, bc))
    check(*both(lambda s: lambda x, y: s.make_interp_spline(x, y, bc_type=pair)(INSIDE)), X, YY, second=False, vmap=False)
    check(*both(lambda s: lambda y: s.make_interp_spline(X, y, bc_type=bc)(INSIDE)), Y, second=False)


def test_least_squares_splines_and_fitpack_names():
    x = np.linspace(0, 5, 20)
    y, w = R.standard_normal(20), R.uniform(0.5, 1, 20)
    t = np.r_[[0.0] * 4, 1.3, 2.9, [5.0] * 4]
    check(*both(lambda s: lambda y: s.make_lsq_spline(x, y, t)(INSIDE)), y, second=False)
    check(*both(lambda s: lambda y, w: s.make_lsq_spline(x, y, t, w=w)(INSIDE)), y, w, second=False)
    check(*both(lambda s: lambda y, at: s.splev(at, s.splrep(X, y))), Y, AT, second=False)
    for ext in (1, 3):
        check(*both(lambda s, ext=ext: lambda y: s.splev(AT, s.splrep(X, y), der=1, ext=ext)), Y, second=False)
    check(*both(lambda s: lambda y: s.splint(0.3, 3.9, s.splrep(X, y))), Y, second=False)
    check(*both(lambda s: lambda y: s.splev(INSIDE, s.splder(s.splrep(X, y)))), Y, second=False)
    check(*both(lambda s: lambda y: s.splev(INSIDE, s.splantider(s.splrep(X, y)))), Y, second=False)
    for k in (1, 2, 3):
        check(*both(lambda s, k=k: lambda x, y: s.InterpolatedUnivariateSpline(x, y, k=k)(AT)), X, Y, second=False)
    check(*both(lambda s: lambda y: s.InterpolatedUnivariateSpline(X, y).derivative()(INSIDE)), Y, second=False)
    check(*both(lambda s: lambda y: s.InterpolatedUnivariateSpline(X, y).integral(0.2, 4.0)), Y, second=False)


# ----- lines and grids ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "slinear", "quadratic", "cubic", "nearest", "nearest-up", "zero", "previous", "next"])
def test_interp1d(kind):
    smooth = kind in ("linear", "slinear", "quadratic", "cubic")
    given = (X, Y, INSIDE) if smooth else (Y,)
    run = lambda s: (lambda x, y, at: s.interp1d(x, y, kind)(at)) if smooth else (lambda y: s.interp1d(X, y, kind)(INSIDE))
    check(*both(run), *given, second=False, step=1e-4)
    at = INSIDE if kind in ("previous", "next") else AT
    check(*both(lambda s: lambda y: s.interp1d(X, y, kind, axis=0, fill_value="extrapolate")(at)), YY, second=False)
    mine, theirs = (s.interp1d(X, Y, kind, fill_value="extrapolate")(AT) for s in (interpolate, scipys))
    np.testing.assert_array_equal(np.isnan(plain(mine)), np.isnan(theirs))
    check(*both(lambda s: lambda y: s.interp1d(X[::-1], y, kind, bounds_error=False, fill_value=(-1.0, 2.0))(AT)), Y, second=False)
    for s in (interpolate, scipys):
        with pytest.raises(ValueError, match=r"interpolation range|below|above"):
            s.interp1d(X, Y, kind)(AT)


GRID = (np.array([0.0, 1.0, 2.5, 3.0, 4.2, 5.0]), np.array([-1.0, 0.2, 0.9, 2.0, 2.6, 3.3]))
VALUES = R.standard_normal((6, 6))
POINTS = np.stack([R.uniform(0.1, 4.9, 7), R.uniform(-0.9, 3.2, 7)], axis=-1)


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic", "pchip"])
def test_grids(method):
    tolerance = {"tolerance": 1e-5, "step": 1e-4}
    if method in ("cubic", "quintic"):
        # SciPy solves for these coefficients iteratively, to five digits or so: values are compared loosely, derivatives with our own
        # values
        np.testing.assert_allclose(
            plain(interpolate.interpn(GRID, VALUES, POINTS, method)), scipys.interpn(GRID, VALUES, POINTS, method), rtol=1e-4, atol=1e-4
        )
        numbers = lambda f: lambda *a: plain(f(*a))
        ours = lambda v, at: interpolate.RegularGridInterpolator(GRID, v, method)(at)
        check(ours, numbers(ours), VALUES, POINTS, second=False, **tolerance)
        ours = lambda a, b: interpolate.RegularGridInterpolator((a, b), VALUES, method)(POINTS)
        check(ours, numbers(ours), *GRID, second=False, vmap=False, tolerance=1e-4, step=1e-4)
        return
    run = lambda s: lambda v, at: s.RegularGridInterpolator(GRID, v, method)(at)
    if method == "nearest":
        check(*both(lambda s: lambda v: s.RegularGridInterpolator(GRID, v, method)(POINTS)), VALUES, second=False)
    else:
        check(*both(run), VALUES, POINTS, second=False, **tolerance)
        check(
            *both(lambda s: lambda a, b: s.RegularGridInterpolator((a, b), VALUES, method)(POINTS)),
            *GRID,
            second=False,
            vmap=False,
            **tolerance,
        )
    more = R.standard_normal((6, 6, 2))
    far = np.array([[9.0, 0.0], [1.3, 0.4]])
    run = lambda s: lambda v: s.interpn(GRID, v, far, method, bounds_error=False, fill_value=0.5)
    check(*both(run), more, second=False, vmap=False, **tolerance)
    for s in (interpolate, scipys):
        with pytest.raises(ValueError, match="out of bounds"):
            s.RegularGridInterpolator(GRID, VALUES, method)(far)


def test_grids_of_three_axes_and_descending_ones():
    grid = (GRID[0], GRID[1][:4], np.array([0.0, 1.0, 3.0, 4.0]))
    values = R.standard_normal((6, 4, 4))
    at = np.stack([R.uniform(0, 5, 5), R.uniform(-1, 1.9, 5), R.uniform(0, 4, 5)], axis=-1)
    for method in ("linear", "pchip"):
        check(
            *both(lambda s, m=method: lambda v, at: s.RegularGridInterpolator(grid, v, m)(at)),
            values,
            at,
            second=False,
            step=1e-4,
            tolerance=1e-5,
        )
    check(*both(lambda s: lambda v: s.RegularGridInterpolator((grid[0][::-1], *grid[1:]), v)(at)), values, second=False)


def test_rectangular_splines():
    check(*both(lambda s: lambda z: s.RectBivariateSpline(*GRID, z)(np.sort(POINTS[:, 0]), np.sort(POINTS[:, 1]))), VALUES, second=False)
    for kx, ky in ((3, 3), (2, 3), (1, 1), (5, 2)):
        run = lambda s, kx=kx, ky=ky: lambda z, x, y: s.RectBivariateSpline(*GRID, z, kx=kx, ky=ky).ev(x, y)
        check(*both(run), VALUES, POINTS[:, 0].copy(), POINTS[:, 1].copy(), second=False, step=1e-4)
    check(*both(lambda s: lambda z: s.RectBivariateSpline(*GRID, z).ev(POINTS[:, 0], POINTS[:, 1], dx=1, dy=1)), VALUES, second=False)


# ----- scattered data and polynomials ---------------------------------------------------------------------------------

SITES = np.concatenate([R.uniform(0, 1, (8, 2)), [[0, 0], [0, 1], [1, 0], [1, 1.0]]])
DATA = R.standard_normal(12)
QUERY = R.uniform(0.3, 0.7, (5, 2))


@pytest.mark.parametrize(
    "kernel", ["linear", "thin_plate_spline", "cubic", "quintic", "multiquadric", "inverse_multiquadric", "inverse_quadratic", "gaussian"]
)
def test_radial_basis_functions(kernel):
    run = lambda s: lambda y, d, at: s.RBFInterpolator(y, d, kernel=kernel, epsilon=3.0)(at)
    check(*both(run), SITES, DATA, QUERY, second=False, value=1e-7, tolerance=1e-5, step=1e-4)
    check(
        *both(lambda s: lambda d: s.RBFInterpolator(SITES, d, kernel=kernel, epsilon=3.0, smoothing=0.1, degree=2)(QUERY)),
        R.standard_normal((12, 2)),
        second=False,
        value=1e-7,
    )


def test_triangles_and_neighbours():
    check(*both(lambda s: lambda v, at: s.LinearNDInterpolator(SITES, v)(at)), DATA, QUERY, second=False, vmap=False, step=1e-6)
    check(*both(lambda s: lambda v: s.NearestNDInterpolator(SITES, v)(QUERY)), DATA, second=False)
    for method in ("linear", "nearest"):
        check(*both(lambda s, m=method: lambda v: s.griddata(SITES, v, QUERY, m)), DATA, second=False)
        check(*both(lambda s, m=method: lambda v: s.griddata(X, v, INSIDE, m)), Y, second=False)


def test_polynomials_through_points():
    for name in ("BarycentricInterpolator", "KroghInterpolator"):
        check(*both(lambda s, name=name: lambda x, y, at: getattr(s, name)(x, y)(at)), X, Y, AT, value=1e-8, tolerance=1e-5)
        check(*both(lambda s, name=name: lambda y: getattr(s, name)(X, y)(X)), YY, value=1e-8, second=False)
    check(
        *both(lambda s: lambda x, w: s.lagrange(x, w).c if s is interpolate else s.lagrange(x, w).coeffs),
        X[:5],
        Y[:5],
        value=1e-8,
        tolerance=1e-5,
    )
    np.testing.assert_allclose(plain(interpolate.lagrange(X[:4], Y[:4])(X[:4])), Y[:4])


def test_what_has_no_rule_is_refused_by_name():
    y = dnp.array(Y).requires_grad_()
    with pytest.raises(NotImplementedError, match="make_lsq_spline"):
        interpolate.UnivariateSpline(X, y)
    with pytest.raises(NotImplementedError, match="CubicSpline"):
        interpolate.make_interp_spline(X, y, bc_type="periodic")
    with pytest.raises(ValueError, match="strictly increasing"):
        interpolate.CubicSpline(X[::-1], Y)
    np.testing.assert_allclose(interpolate.UnivariateSpline(X, Y)(1.0), scipys.UnivariateSpline(X, Y)(1.0))
    for name in scipys.__all__:
        assert getattr(interpolate, name) is not None
