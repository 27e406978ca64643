"""Special functions: singular points, tails, precision, life without SciPy, against closed forms and SciPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import special_source
from ndgrad._src.ops import error_function
from ndgrad._src.transforms.transforms import grad, vmap

INF, NAN = math.inf, math.nan
special = ndgrad.special


def tensor(a, requires_grad=True):
    return ndgrad.tensor(np.asarray(a), requires_grad=requires_grad)


def derivative(f, x, order=1):
    """The derivative of a function of one number at each of several points."""
    for _ in range(order):
        f = grad(f)
    with np.errstate(all="ignore"):
        return vmap(f)(tensor(np.asarray(x, float), False)).numpy()


# ----- singular points -------------------------------------------------------------------------------------------------


def test_derivatives_of_bessel_functions_at_0_hold_to_every_order():
    """Taylor series: I0 = 1 + x^2/4 + x^4/64 + ..., I1 = x/2 + x^3/16 + x^5/384 + ...; J the same with alternating signs."""
    pytest.importorskip("scipy")
    zeroth, first = [1, 0, 1 / 2, 0, 3 / 8, 0], [0, 1 / 2, 0, 3 / 8, 0, 5 / 16]
    signs = {"i": (1, 1, 1), "j": (1, -1, 1)}
    for kind, names in {"i": ("i0", "i1"), "j": ("bessel_j0", "bessel_j1")}.items():
        for order in range(1, 6):
            sign = signs[kind][order // 2]
            assert derivative(getattr(special, names[0]), [0.0], order) == pytest.approx([sign * zeroth[order]])
            assert derivative(getattr(special, names[1]), [0.0], order) == pytest.approx([sign * first[order]])


def test_scaled_bessel_functions_have_slope_0_in_their_kink():
    assert derivative(special.i0e, [0.0]).tolist() == [0.0]
    assert derivative(special.i1e, [0.0]).tolist() == [0.5]


def test_incomplete_gamma_at_the_ends_of_its_range():
    shape = tensor([1.0, 2.0, 0.5, 1.0, 2.0], False)
    x = tensor([0.0, 0.0, 0.0, INF, INF])
    special.gammainc(shape, x).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, INF, 0.0, 0.0]


def test_entropy_at_and_below_0():
    x = tensor([0.0, -1.0, 1.0])
    y = special.entr(x)
    assert y.tolist() == [0.0, -INF, 0.0]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [INF, NAN, -1.0])


def test_log_gamma_at_its_poles():
    x = tensor([0.0, -0.0, -2.0])
    y = special.gammaln(x)
    assert y.tolist() == [INF, INF, INF]
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [-INF, INF, NAN])


# ----- tails -----------------------------------------------------------------------------------------------------------


def test_derivatives_of_erfcx_far_out():
    """erfcx(x) is 1 / (x sqrt(pi)) (1 - 1/(2 x^2) + ...), of which the plain formula 2x erfcx - 2/sqrt(pi) keeps no digit."""
    x = np.array([1e4, 1e8, 1e100])
    np.testing.assert_allclose(derivative(special.erfcx, x), -1 / (math.sqrt(math.pi) * x**2), rtol=2e-8)
    np.testing.assert_allclose(derivative(special.erfcx, x, 2), 2 / (math.sqrt(math.pi) * x**3), rtol=1e-7)


def test_derivative_of_log_ndtr_far_in_both_tails():
    """On the left it tends to -x; on the right it is the density."""
    np.testing.assert_allclose(derivative(special.log_ndtr, [-1e3, -1e8]), [1e3 + 1e-3, 1e8], rtol=1e-8)
    right = [5.0, 20.0, 40.0]
    np.testing.assert_allclose(
        derivative(special.log_ndtr, right), [math.exp(-v * v / 2) / math.sqrt(2 * math.pi) for v in right], rtol=1e-6
    )


def test_ndtri_inverts_ndtr_and_so_do_their_slopes():
    x = np.linspace(-6, 2, 9)  # further right, rounding of p moves the point
    p = special.ndtr(tensor(x, False)).numpy()
    np.testing.assert_allclose(derivative(special.ndtri, p) * derivative(special.ndtr, x), 1.0, rtol=1e-9)


def test_large_orders_of_polygamma():
    """psi^(n)(1) = (-1)^(n+1) n! zeta(n + 1), and zeta is 1 by then."""
    got = special.polygamma(60, tensor([1.0], False)).numpy()
    np.testing.assert_allclose(got, [-float(math.factorial(60))], rtol=1e-12)
    single = special.polygamma(34, tensor(np.float32([20.0]), False)).numpy()
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, special.polygamma(34, tensor([20.0], False)).numpy(), rtol=1e-6)


# ----- identities ------------------------------------------------------------------------------------------------------


def test_recurrence_of_the_gamma_function_and_of_its_derivatives():
    x = np.array([0.2, 1.7, 5.5, -0.4, -2.3])
    f = special.gammaln
    for order in range(4):
        shifted = derivative(lambda v: f(v + 1.0), x, order) if order else f(tensor(x + 1, False)).numpy()
        here = derivative(f, x, order) if order else f(tensor(x, False)).numpy()
        want = np.log(np.abs(x)) if order == 0 else (-1) ** (order - 1) * math.factorial(order - 1) / x**order
        np.testing.assert_allclose(shifted - here, want, atol=1e-9)


def test_multigammaln_is_a_sum_of_log_gammas():
    x = np.array([2.5, 4.0])
    want = [1.5 * math.log(math.pi) + sum(math.lgamma(v - j / 2) for j in range(3)) for v in x]
    np.testing.assert_allclose(special.multigammaln(tensor(x, False), 3).numpy(), want, rtol=1e-13)


def test_betaln_takes_gradients_in_both_arguments_and_numbers():
    a, b = tensor([2.0, 0.5]), tensor([[3.0], [1.5]])
    y = special.betaln(a, b)
    np.testing.assert_allclose(y.detach().numpy()[0, 0], -math.log(12), rtol=1e-13)
    y[0, 0].backward()
    # B(2, b) = 1 / (b (b + 1)), and B(a, 3) = 2 / (a (a + 1) (a + 2))
    np.testing.assert_allclose(b.grad.numpy(), [[-1 / 3 - 1 / 4], [0]], rtol=1e-13)
    np.testing.assert_allclose(a.grad.numpy(), [-1 / 2 - 1 / 3 - 1 / 4, 0], rtol=1e-13)
    np.testing.assert_allclose(special.betaln(2.0, tensor([3.0], False)).numpy(), [-math.log(12)], rtol=1e-13)


def test_the_two_incomplete_gamma_functions_add_to_1():
    a, x = tensor([0.3, 4.0, 50.0], False), tensor([1.0, 2.0, 60.0])
    total = special.gammainc(a, x) + special.gammaincc(a, x)
    np.testing.assert_allclose(total.detach().numpy(), 1.0, rtol=1e-13)
    total.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 0.0, atol=1e-15)


def test_spherical_bessel_function_is_smooth_at_0():
    assert derivative(special.spherical_bessel_j0, [0.0], 2) == pytest.approx([-1 / 3])
    np.testing.assert_allclose(special.spherical_bessel_j0(tensor([2.0], False)).numpy(), [math.sin(2) / 2], rtol=1e-14)


# ----- dtypes and forms ------------------------------------------------------------------------------------------------

UNARY = "gammaln digamma erfcx ndtr ndtri log_ndtr entr i0 i0e i1 i1e".split()
SCIPY_ONLY = "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 scaled_modified_bessel_k1".split()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", [*UNARY, *SCIPY_ONLY])
def test_narrow_types_stay_narrow(name, dtype):
    if name in SCIPY_ONLY:
        pytest.importorskip("scipy")
    x = tensor(np.array([0.25, 0.5], dtype))
    y = getattr(special, name)(x)
    (first,) = ndgrad.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = ndgrad.autograd.grad(first.sum(), x)
    assert {y.detach().numpy().dtype, first.detach().numpy().dtype, second.numpy().dtype} == {np.dtype(dtype)}
    wide = getattr(special, name)(tensor([0.25, 0.5], False)).numpy()
    np.testing.assert_allclose(y.detach().numpy(), wide, rtol=1e-6 if dtype is np.float32 else 2e-3)


@pytest.mark.parametrize("name", UNARY)
def test_integers_become_float64(name):
    assert getattr(special, name)(tensor([1], False)).numpy().dtype == np.float64


@pytest.mark.parametrize(
    ("in_place", "out_of_place"),
    [
        (lambda t: t.lgamma_(), special.gammaln),
        (lambda t: t.digamma_(), special.psi),
        (lambda t: t.polygamma_(1), lambda t: special.polygamma(1, t)),
        (lambda t: t.mvlgamma_(2), lambda t: special.multigammaln(t, 2)),
        (lambda t: ndgrad.i0_(t), special.i0),
    ],
)
def test_in_place_forms_record_the_graph(in_place, out_of_place):
    x, z = tensor([1.5, 2.5]), tensor([1.5, 2.5])
    y = x * 1.0
    assert in_place(y) is y
    y.sum().backward()
    out_of_place(z).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-13)


def test_keyword_names_are_torchs():
    a, x = tensor([2.0], False), tensor([1.0], False)
    assert ndgrad.igamma(input=a, other=x).tolist() == special.gammainc(input=a, other=x).tolist()
    assert ndgrad.polygamma(n=1, input=a).tolist() == special.polygamma(1, a).tolist()
    assert ndgrad.mvlgamma(input=a, p=2).tolist() == a.mvlgamma(p=2).tolist()


def test_a_new_shape_under_vmap_takes_one_call():
    shapes, points = tensor([[1.0, 2.0]], False), tensor([0.5, 1.0, 2.0], False)
    got = vmap(special.gammainc, in_dims=(None, 0))(shapes, points).numpy()
    want = [[1 - math.exp(-v), 1 - math.exp(-v) * (1 + v)] for v in (0.5, 1.0, 2.0)]
    np.testing.assert_allclose(got[:, 0], want, rtol=1e-12)


def test_shapes_on_the_meta_device():
    pytest.importorskip("scipy")
    x = ndgrad.empty(2, 3, device="meta")
    for f in (special.gammaln, special.erfcx, special.i0, lambda v: special.polygamma(2, v), special.entr):
        assert tuple(f(x).shape) == (2, 3)


# ----- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        (lambda x: special.gammaln(x * 1j), NotImplementedError, ["lgamma", "complex128", r"\.real"]),
        (lambda x: special.polygamma(-1, x), RuntimeError, ["polygamma", "-1", "0 or more"]),
        (lambda x: special.polygamma(1.5, x), TypeError, ["polygamma", "float", "whole number"]),
        (lambda x: special.multigammaln(x, 0), RuntimeError, ["mvlgamma", "0", "dimension"]),
        (lambda x: special.zeta(x, 2.0).sum().backward(), NotImplementedError, ["zeta", "input", "[Dd]etach"]),
        (lambda x: special.erfcx([1.0]), TypeError, ["erfcx", "list", "as_tensor"]),
    ],
)
def test_errors_say_what_where_and_what_to_do(call, error, parts):
    for part in parts:
        with pytest.raises(error, match=part):
            call(tensor([1.0, 2.0]))


def test_a_derivative_that_is_missing_is_missed_in_forward_mode_too():
    with pytest.raises(NotImplementedError, match="zeta"):
        ndgrad.func.jvp(lambda s: special.zeta(s, 2.0), (tensor([2.0], False),), (tensor([1.0], False),))


# ----- without SciPy ---------------------------------------------------------------------------------------------------


@pytest.fixture
def without_scipy(monkeypatch):
    hidden = ImportError("No module named 'scipy'")
    monkeypatch.setattr(error_function, "special", lambda name: special_source._find_without_scipy(name, hidden))


FUNCTIONS = {
    **{name: getattr(special, name) for name in UNARY},
    "trigamma": lambda x: special.polygamma(1, x),
    "tetragamma": lambda x: special.polygamma(2, x),
    "multigammaln": lambda x: special.multigammaln(x + 2.0, 3),
    "zeta": lambda x: special.zeta(3.0, x),
    "betaln": lambda x: special.betaln(x, x * 2.0),
    "gammainc": lambda x: special.gammainc(x, x * x),
    "gammaincc": lambda x: special.gammaincc(x, x * x),
}
POINTS = [0.13, 0.5, 0.9]


def value_and_derivatives(f):
    x = tensor(POINTS)
    y = f(x)
    (first,) = ndgrad.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = ndgrad.autograd.grad(first.sum(), x)
    return y.detach().numpy(), first.detach().numpy(), second.numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_two_derivatives_are_the_same_without_scipy(name, request):
    pytest.importorskip("scipy")
    with_scipy = value_and_derivatives(FUNCTIONS[name])
    request.getfixturevalue("without_scipy")
    for got, want in zip(value_and_derivatives(FUNCTIONS[name]), with_scipy, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.usefixtures("without_scipy")
def test_what_needs_scipy_says_so():
    for name, part in itertools.product(SCIPY_ONLY, ("SciPy", "pip install")):
        with pytest.raises(ImportError, match=part):
            getattr(special, name)(tensor([1.0], False))
