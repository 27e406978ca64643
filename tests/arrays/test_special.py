"""The NumPy special functions compared with 50-digit values, SciPy, and the identities that define them.

The tables were computed with mpmath at 60 to 200 digits and rounded to float64. SciPy is the oracle over whole ranges.
The tolerances also cover SciPy's own errors, which in the tails are larger than ndgrad's.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgrad._src.arrays import special
from ndgrad._src.arrays.special.blocks import BLOCK

UNARY = "erf erfc erfcx erfinv ndtr ndtri log_ndtr lgamma digamma trigamma i0 i0e i1 i1e".split()
BINARY = "zeta polygamma betaln gammainc gammaincc".split()

VALUES: dict[str, list[tuple[float, float]]] = {
    "erf": [
        (1e-20, 1.1283791670955125e-20),
        (0.3, 0.3286267594591274),
        (-0.9, -0.7969082124228322),
        (1.7, 0.9837904585907745),
        (-5.0, -0.9999999999984626),
    ],
    "erfc": [
        (-3.0, 1.9999779095030015),
        (0.3, 0.6713732405408726),
        (0.9, 0.20309178757716786),
        (5.0, 1.537459794428035e-12),
        (26.0, 5.663192408856143e-296),
    ],
    "erfcx": [
        (-20.0, 1.0442939379528289e174),
        (-0.3, 1.4537492328427655),
        (0.3, 0.7345993345676551),
        (4.0, 0.13699945762506138),
        (1e200, 5.641895835477563e-201),
    ],
    "erfinv": [
        (1e-30, 8.862269254527581e-31),
        (0.3, 0.2724627147267543),
        (-0.7, -0.7328690779592167),
        (0.9, 1.1630871536766743),
        (0.999999999, 4.320005388105362),
    ],
    "ndtr": [
        (-35.0, 1.1249107064724062e-268),
        (-5.0, 2.866515718791939e-07),
        (-0.5, 0.3085375387259869),
        (0.5, 0.6914624612740131),
        (3.0, 0.9986501019683699),
    ],
    "ndtri": [
        (1e-250, -33.79958617269484),
        (1e-10, -6.361340902404057),
        (0.2, -0.8416212335729142),
        (0.6, 0.2533471031357997),
        (0.99, 2.3263478740408408),
    ],
    "log_ndtr": [
        (-1e100, -5e199),
        (-30.0, -454.3212439563432),
        (-0.9, -1.6924928065613383),
        (0.4, -0.42247637022777607),
        (20.0, -2.7536241186062337e-89),
    ],
    "lgamma": [
        (1e-200, 460.51701859880916),
        (0.6, 0.39823385806923495),
        (1.0000000009313226, -5.375739784311044e-10),
        (1.9999999990686774, -3.9374859519130207e-10),
        (2.9, 0.6028696102493114),
        (30.5, 72.9534711841694),
        (1e200, 4.595170185988091e202),
        (-0.3, 1.4648400508576025),
        (-7.7, -8.6110964437789),
    ],
    "digamma": [
        (1e-200, -1e200),
        (0.6, -1.5406192138931905),
        (1.4616, -3.110625123034165e-05),
        (2.9, 0.8824999506377439),
        (30.5, 3.401243668961661),
        (1e200, 460.51701859880916),
        (-0.3, 2.113309779635399),
        (-7.3, 4.33730730551005),
    ],
    "trigamma": [
        (1e-100, 1e200),
        (0.6, 3.6362096709023577),
        (2.9, 0.41096374799332813),
        (30.5, 0.03333024811280161),
        (1e100, 1e-100),
        (-0.3, 13.945160267805722),
        (-7.7, 14.957612844863727),
    ],
    "i0": [
        (0.3, 1.022626879351597),
        (-7.9, 389.406283282158),
        (8.1, 469.5006067101215),
        (700.0, 1.5295933476718737e302),
    ],
    "i0e": [
        (0.3, 0.7575806251825479),
        (-7.9, 0.14436986414104191),
        (8.1, 0.14251180948829528),
        (1e200, 3.989422804014327e-101),
    ],
    "i1": [
        (1e-200, 5e-201),
        (0.3, 0.15169384000359276),
        (-7.9, -363.8539440845084),
        (8.1, 439.48430891035844),
        (700.0, 1.5285003902339006e302),
    ],
    "i1e": [
        (0.3, 0.1123775606398388),
        (-7.9, -0.13489649943989376),
        (8.1, 0.13340068832583662),
        (-1e200, -3.989422804014327e-101),
    ],
}
VALUES_OF_TWO: dict[str, list[tuple[float, float, float]]] = {
    "zeta": [
        (1.5, 0.3, 8.237761671459724),
        (2.0, 40.0, 0.02531510384129103),
        (20.0, 3.5, 1.3229189094143142e-11),
        (3.0, -2.3, -34.356896264635154),
    ],
    "polygamma": [
        (2, 0.3, -75.27253658872604),
        (3, 40.0, 3.24414001515635e-05),
        (5, -1.7, 165659.80077263742),
    ],
    "betaln": [
        (0.3, 0.7, 1.3566652413497422),
        (2.5, 1000000.0, -34.254095399436515),
        (40.0, 50.0, -62.455325742890714),
        (1e-05, 100000.0, 11.512804563691175),
        (-0.5, 1000000.0, 8.173267027466657),
    ],
    "gammainc": [
        (0.1, 1e-05, 0.3323984050405033),
        (2.5, 0.5, 0.03743422675270363),
        (3.0, 9.0, 0.9937678048936227),
        (50.0, 45.0, 0.24680203440017026),
        (1000.0, 950.0, 0.05505468623073803),
        (0.5, 30.0, 0.9999999999999906),
    ],
    "gammaincc": [
        (0.001, 1e-05, 0.01087695530421733),
        (0.1, 0.9, 0.02839309539902908),
        (2.5, 0.5, 0.9625657732472964),
        (3.0, 90.0, 3.3931406275944725e-36),
        (50.0, 45.0, 0.7531979655998298),
        (1000.0, 1150.0, 2.8737760603923574e-06),
    ],
}


def promised_ulp(name: str) -> float:
    """Return the error bound given in the docstring."""
    promise = re.search(r"at most ([\d.]+) ulp", getattr(special, name).__doc__)
    assert promise is not None
    return float(promise[1])


def scipy_function(name: str) -> Any:
    scipy_special = pytest.importorskip("scipy.special")
    if name == "trigamma":
        return lambda x: scipy_special.polygamma(1, x)
    return getattr(scipy_special, {"lgamma": "gammaln", "digamma": "psi"}.get(name, name))


# ----- values -----


@pytest.mark.parametrize("name", UNARY)
def test_agrees_with_high_precision_values(name: str) -> None:
    x, expected = np.array(VALUES[name]).T
    error = np.abs(getattr(special, name)(x) - expected) / np.spacing(np.abs(expected))
    assert error.max() <= promised_ulp(name)


@pytest.mark.parametrize("name", BINARY)
def test_agrees_with_high_precision_values_of_two_arguments(name: str) -> None:
    first, second, expected = np.array(VALUES_OF_TWO[name]).T
    np.testing.assert_allclose(getattr(special, name)(first, second), expected, rtol=1e-14)


RANGES = {
    "erf": (-7, 7, 2e-15),
    "erfc": (-7, 26, 2e-13),
    "erfcx": (-26, 60, 1e-13),
    "erfinv": (-1, 1, 1e-14),
    "ndtr": (-37, 9, 1e-12),
    "ndtri": (0, 1, 1e-12),
    "log_ndtr": (-60, 37, 1e-12),
    "lgamma": (0, 200, 1e-13),
    "digamma": (0, 200, 1e-13),
    "trigamma": (-20, 200, 1e-13),
    "i0": (-700, 700, 1e-12),
    "i0e": (-700, 700, 1e-13),
    "i1": (-700, 700, 1e-12),
    "i1e": (-700, 700, 1e-13),
}


@pytest.mark.parametrize("name", UNARY)
def test_agrees_with_scipy_over_its_range(name: str) -> None:
    low, high, rtol = RANGES[name]
    # 10,001 points, and as many again near zero, where most functions change their formula.
    x = np.concatenate([np.linspace(low, high, 10_001)[1:-1], np.linspace(max(low, -4), min(high, 4), 10_001)[1:-1]])
    x = x[x != np.rint(x)] if name == "trigamma" else x
    np.testing.assert_allclose(getattr(special, name)(x), scipy_function(name)(x), rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_reflection_agrees_with_scipy_between_the_poles(name: str) -> None:
    x = np.linspace(-20, 0, 5_003)
    x = x[np.abs(x - np.rint(x)) > 1e-3]
    np.testing.assert_allclose(getattr(special, name)(x), scipy_function(name)(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "atol"), [("betaln", 1e-12), ("gammainc", 1e-290), ("gammaincc", 1e-290)])
def test_of_two_arguments_agrees_with_scipy(name: str, atol: float) -> None:
    a, b = np.meshgrid(np.geomspace(1e-3, 500, 83), np.geomspace(1e-3, 600, 79))
    np.testing.assert_allclose(getattr(special, name)(a, b), scipy_function(name)(a, b), rtol=1e-11, atol=atol)


def test_incomplete_gamma_agrees_with_scipy_at_large_orders() -> None:
    a = np.geomspace(150, 1e5, 60)[:, None]
    x = a * np.linspace(0.6, 1.5, 61)
    for name in ("gammainc", "gammaincc"):
        ours, theirs = getattr(special, name)(a, x), scipy_function(name)(a, x)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-250)


def test_zeta_agrees_with_scipy() -> None:
    s, q = np.meshgrid(np.linspace(1.1, 40, 60), np.geomspace(1e-2, 1e3, 61))
    np.testing.assert_allclose(special.zeta(s, q), scipy_function("zeta")(s, q), rtol=1e-13)
    s, q = np.meshgrid(np.arange(2.0, 9.0), np.linspace(-9.9, -0.07, 50))
    np.testing.assert_allclose(special.zeta(s, q), scipy_function("zeta")(s, q), rtol=1e-12, atol=1e-11)


def test_polygamma_agrees_with_scipy() -> None:
    n, x = np.meshgrid(np.arange(9), np.concatenate([np.geomspace(1e-2, 1e3, 50), [-0.3, -1.6, -4.1]]))
    np.testing.assert_allclose(special.polygamma(n, x), scipy_function("polygamma")(n, x), rtol=1e-12)


# ----- laws -----

real = st.floats(-20, 20)
positive = st.floats(1e-3, 1e3)


@given(real)
def test_erfcx_is_erfc_scaled(x: float) -> None:
    assert special.erfc(x) == pytest.approx(special.erfcx(x) * math.exp(-x * x), rel=1e-13)


@given(st.floats(-5, 5))
def test_erfinv_inverts_erf(x: float) -> None:
    # The inverse magnifies one rounding of erf(x) by 1/erf'(x).
    rounding = 4e-16 * abs(math.erf(x)) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    assert special.erfinv(special.erf(x)) == pytest.approx(x, rel=1e-14, abs=rounding)


@given(st.floats(1e-300, 0.5))
def test_ndtri_inverts_ndtr(p: float) -> None:
    # ndtr magnifies a rounding of its argument x by about x**2.
    assert special.ndtr(special.ndtri(p)) == pytest.approx(p, rel=2e-15 * (1 - 2 * math.log(p)))


@given(positive)
def test_gamma_functions_obey_their_recurrences(x: float) -> None:
    assert special.lgamma(x + 1) == pytest.approx(special.lgamma(x) + math.log(x), rel=1e-13, abs=1e-14)
    assert special.digamma(x + 1) == pytest.approx(special.digamma(x) + 1 / x, rel=1e-12, abs=1e-14)
    assert special.trigamma(x + 1) == pytest.approx(special.trigamma(x) - 1 / x**2, rel=1e-9, abs=1e-15)


@given(positive, positive)
def test_incomplete_gammas_are_complements(a: float, x: float) -> None:
    assert special.gammainc(a, x) + special.gammaincc(a, x) == pytest.approx(1, rel=1e-14)


@given(st.floats(-300, 300))
def test_scaled_bessel_functions_are_scaled(x: float) -> None:
    assert special.i0(x) == pytest.approx(special.i0e(x) * math.exp(abs(x)), rel=1e-13)
    assert special.i1(x) == pytest.approx(special.i1e(x) * math.exp(abs(x)), rel=1e-13)


# ----- edges -----

INF, NAN = math.inf, math.nan
EDGES: dict[str, list[tuple[float, float]]] = {
    "erf": [(INF, 1), (-INF, -1), (0.0, 0.0), (-0.0, -0.0), (5e-324, 5e-324)],
    "erfc": [(INF, 0), (-INF, 2), (30, 0)],
    "erfcx": [(INF, 0), (-INF, INF), (-30, INF)],
    "erfinv": [(1, INF), (-1, -INF), (1.5, NAN), (-2, NAN), (INF, NAN), (-0.0, -0.0)],
    "ndtr": [(INF, 1), (-INF, 0), (0, 0.5)],
    "ndtri": [(0, -INF), (1, INF), (0.5, 0), (-0.1, NAN), (1.1, NAN)],
    "log_ndtr": [(INF, 0), (-INF, -INF)],
    "lgamma": [(INF, INF), (-INF, INF), (0.0, INF), (-0.0, INF), (-1, INF), (-1e20, INF), (1, 0), (2, 0)],
    "digamma": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, INF), (-1, NAN), (-1e20, NAN)],
    "trigamma": [(INF, 0), (0.0, INF), (-3, INF), (1e-200, INF)],
    "i0": [(INF, INF), (-INF, INF), (0, 1), (720, INF)],
    "i0e": [(INF, 0), (-INF, 0), (0, 1)],
    "i1": [(INF, INF), (-INF, -INF), (-0.0, -0.0), (-720, -INF)],
    "i1e": [(INF, 0), (-INF, 0), (0, 0)],
}
EDGES_OF_TWO: dict[str, list[tuple[float, float, float]]] = {
    "zeta": [(1, 2, INF), (0.5, 2, NAN), (2, 0, INF), (3, -4, INF), (2.5, -0.5, NAN), (2, INF, 0), (2, 1e300, 1e-300)],
    "polygamma": [(0, -1, NAN), (1, 0, INF), (2, INF, 0)],
    "betaln": [(0, 2, INF), (1, INF, -INF), (-1, 1, 0), (-2, 2.5, INF), (NAN, 0, NAN)],
    "gammainc": [(2, 0, 0), (2, INF, 1), (0, 3, 1), (0, 0, NAN), (-1, 2, NAN), (INF, 3, 0), (2, -1, NAN), (2, 1e300, 1)],
    "gammaincc": [(2, 0, 1), (2, INF, 0), (0, 3, 0), (0, 0, NAN), (INF, INF, NAN), (1e-300, 1e-5, 0)],
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.filterwarnings("error")
def test_limits_poles_and_nan(name: str) -> None:
    x, expected = np.array([*EDGES[name], (NAN, NAN)]).T
    result = getattr(special, name)(x)
    np.testing.assert_array_equal(result, expected)
    zero = result == 0
    np.testing.assert_array_equal(np.signbit(result)[zero & (x == 0)], np.signbit(expected)[zero & (x == 0)])


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.filterwarnings("error")
def test_limits_poles_and_nan_of_two_arguments(name: str) -> None:
    first, second, expected = np.array([*EDGES_OF_TWO[name], (2, NAN, NAN)]).T
    np.testing.assert_allclose(getattr(special, name)(first, second), expected, rtol=1e-14, atol=1e-295)


def test_bessel_functions_reach_the_largest_float_before_overflow() -> None:
    # exp(713) is infinite, I0(713) is not.
    assert special.i0(713.0) == pytest.approx(6.705128263670996e307, rel=1e-14)
    assert special.i1(-713.0) == pytest.approx(-6.700424559186402e307, rel=1e-14)


@pytest.mark.parametrize("order", [-1, 1.5, 171])
def test_polygamma_refuses_orders_that_are_not_small_whole_numbers(order: float) -> None:
    with pytest.raises(ValueError, match=r"polygamma.*whole numbers from 0 to 170"):
        special.polygamma(order, 1.0)


# ----- types and shapes -----


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_keeps_the_float_type_and_rounds_once(name: str, dtype: type[np.floating[Any]]) -> None:
    x = np.linspace(0.05, 0.95, 7).astype(dtype)
    result = getattr(special, name)(x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, getattr(special, name)(x.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64])
def test_integers_and_booleans_become_float64(name: str, dtype: type[np.generic]) -> None:
    result = getattr(special, name)(np.ones(3, dtype))
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, getattr(special, name)(np.ones(3)))


def test_bfloat16_is_kept() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([0.25, 0.5], ml_dtypes.bfloat16)
    assert special.erf(x).dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(special.erf(x), special.erf(np.array([0.25, 0.5])).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("dtype", [np.complex128, np.longdouble])
def test_refuses_what_float64_cannot_hold(dtype: type[np.generic]) -> None:
    if np.dtype(dtype) == np.float64:
        pytest.skip("long double is float64 here")
    with pytest.raises(TypeError, match=r"erf got .* input.*\.astype"):
        special.erf(np.ones(2, dtype))


def test_python_numbers_do_not_widen_arrays() -> None:
    x = np.ones(2, np.float32)
    assert special.betaln(x, 2.0).dtype == np.float32
    assert special.gammainc(2, x).dtype == np.float32
    assert special.polygamma(np.arange(2), x).dtype == np.float32
    assert special.betaln(x, np.ones(2)).dtype == np.float64


@pytest.mark.parametrize("name", UNARY)
def test_scalars_zero_dimensions_and_empty_arrays(name: str) -> None:
    function = getattr(special, name)
    for scalar in (0.5, np.float64(0.5), np.array(0.5)):
        assert isinstance(function(scalar), np.float64)
        assert function(scalar) == function(np.array([0.5]))[0]
    assert function(np.empty((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("name", BINARY)
def test_two_arguments_broadcast(name: str) -> None:
    function = getattr(special, name)
    first, second = np.array([[2.0], [3.0], [4.0]]), np.array([0.5, 1.5])
    result = function(first, second)
    assert result.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        assert result[i, j] == function(first[i, 0], second[j])


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed", "read-only"])
def test_any_memory_layout(layout: str) -> None:
    x = np.linspace(-3, 3, 24).reshape(4, 6)
    view = {"transposed": x.T, "strided": x[::2, 1::2], "reversed": x[::-1, ::-1], "read-only": x.view()}[layout]
    view.flags.writeable = False
    np.testing.assert_array_equal(special.erf(view), special.erf(np.ascontiguousarray(view)))
    assert x[0, 0] == -3


@pytest.mark.parametrize("name", UNARY)
def test_long_arrays_equal_their_parts(name: str) -> None:
    # More than two blocks, in an order that mixes the regions of every block.
    x = np.random.default_rng(0).permutation(np.linspace(-20, 20, 2 * BLOCK + 5))
    function = getattr(special, name)
    parts = [function(part) for part in np.array_split(x, 7)]
    np.testing.assert_array_equal(function(x), np.concatenate(parts))
