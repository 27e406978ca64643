"""Functions of the maths library against mpmath: within the units in the last place that they promise, for all kinds of numbers."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytest.importorskip("mpmath")

import mpmath
from tests.compiler.kernels.loops import TARGETS, library

from ndgrad._src.compiler.kernels import maths
from ndgrad._src.compiler.kernels.maths import FORMULAS
from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, POLYNOMIALS
from ndgrad._src.compiler.native.ir import Function, Vector, module
from ndgrad._src.compiler.native.target import assembly, processor
from ndgrad._src.ops import vocabulary
from ndgrad._src.ops.table import table

vocabulary.load_all()
mp: Any = mpmath.mp
DTYPES = ["float32", "float64"]
INF, NAN = math.inf, math.nan

# ----- points of the comparison ---------------------------------------------------------------------------------------------

Points = Callable[[np.random.Generator, int, str], Any]


def flat(low: float, high: float) -> Points:
    return lambda r, n, dtype: r.uniform(low, high, n)


def every_size(low: float = -1074, high: float = 1024, signs: bool = True) -> Points:
    """Powers of two with random exponents, times something random."""

    def points(r: np.random.Generator, n: int, dtype: str) -> Any:
        least, most = (e if abs(e) <= 120 or dtype == "float64" else e * 149 / 1074 if e < 0 else e / 8 for e in (low, high))
        return np.exp2(r.uniform(least, most, n)) * (r.choice([-1, 1], n) if signs else 1)

    return points


def approach(center: float, signs: bool = True) -> Points:
    """Numbers ever closer to one."""


    def points(r: np.random.Generator, n: int, dtype: str) -> Any:
        return center + np.exp2(r.uniform(-52 if dtype == "float64" else -23, -3, n)) * (r.choice([-1, 1], n) if signs else 1)

    return points


def below_one(r: np.random.Generator, n: int, dtype: str) -> Any:
    return 1 - np.exp2(r.uniform(-24 if dtype == "float32" else -53, -1, n))


def multiples(of: float, up_to: float) -> Points:
    """Return numbers next to the multiples of a number."""
    return lambda r, n, dtype: np.round(np.exp2(r.uniform(0, up_to, n))) * of


def positive(points: Points) -> Points:
    return lambda r, n, dtype: np.abs(points(r, n, dtype))


def wholes(low: int, high: int) -> Points:
    return lambda r, n, dtype: r.integers(low, high, n).astype(float)


def limits(x: Points) -> Points:
    """Exponents for which a power is neither infinite nor 0, up to the edges."""

    def points(r: np.random.Generator, n: int, dtype: str) -> Any:
        base = np.asarray(x(r, n, dtype), dtype).astype(float)
        most = 744.0 if dtype == "float64" else 103.0
        return base, r.uniform(-most, most, n) / np.log(base)

    return points


ANY, SMALL, LARGE = every_size(), every_size(-1074, -1000), every_size(900, 1022)
ANGLES = [flat(-1, 1), flat(-30, 30), flat(-1e6, 1e6), every_size(-60, 4), multiples(math.pi / 2, 20), multiples(math.pi / 2, 60), ANY]
UNIT = [flat(-1, 1), every_size(-1074, 0), approach(1, False), approach(-1, False)]

#: name -> mpmath's function, and points; a pair of points for two arguments.
CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "exp": (mp.exp, [flat(-105, 89.5), flat(-750, 711), flat(-1, 1), ANY]),
    "exp2": (lambda x: mp.power(2, x), [flat(-151, 129), flat(-1080, 1025), flat(-1, 1), ANY]),
    "expm1": (mp.expm1, [flat(-90, 89.5), flat(-40, 711), flat(-1, 1), every_size(-60, 3), ANY]),
    "log": (mp.log, [positive(ANY), flat(0, 3), approach(1)]),
    "log2": (lambda x: mp.log(x) / mp.log(2), [positive(ANY), flat(0, 3), approach(1), lambda r, n, d: np.exp2(r.integers(-149, 127, n))]),
    "log10": (mp.log10, [positive(ANY), flat(0, 3), approach(1)]),
    "log1p": (mp.log1p, [positive(ANY), flat(-1, 3), approach(-1, False), every_size(-1074, -1)]),
    "pow": (mp.power, [(positive(every_size(-5, 5)), every_size(-5, 5)), limits(positive(every_size(-30, 30))), limits(approach(1)),
                       limits(positive(SMALL)), (every_size(-4, 4), wholes(-20, 20))]),
    "sqrt": (mp.sqrt, [positive(ANY), flat(0, 3)]),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), [positive(ANY), flat(0, 3)]),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), [ANY, flat(-9, 9), SMALL]),
    "hypot": (mp.hypot, [(flat(-1, 1), flat(-1, 1)), (every_size(-3, 3), every_size(-3, 3)), (SMALL, SMALL), (LARGE, LARGE)]),
    "sin": (mp.sin, ANGLES), "cos": (mp.cos, ANGLES), "tan": (mp.tan, ANGLES),
    "asin": (mp.asin, UNIT), "acos": (mp.acos, UNIT),
    "atan": (mp.atan, [ANY, flat(-1, 1), flat(-5, 5)]),
    "atan2": (mp.atan2, [(flat(-1, 1), flat(-1, 1)), (ANY, ANY), (SMALL, SMALL), (every_size(-9, 9), every_size(-9, 9))]),
    "sinh": (mp.sinh, [flat(-2, 2), flat(-89.5, 89.5), flat(-711, 711), every_size(-60, 2)]),
    "cosh": (mp.cosh, [flat(-2, 2), flat(-89.5, 89.5), flat(-711, 711), every_size(-60, 2)]),
    "tanh": (mp.tanh, [flat(-1, 1), flat(-20, 20), every_size(-60, 3), ANY]),
    "asinh": (mp.asinh, [flat(-1, 1), flat(-20, 20), ANY]),
    "acosh": (mp.acosh, [flat(1, 3), approach(1, False), positive(every_size(0, 1024))]),
    "atanh": (mp.atanh, [flat(-1, 1), every_size(-1074, 0), below_one]),
    "sigmoid": (lambda x: mp.mpf(1) / (1 + mp.exp(-x)), [flat(-4, 4), flat(-104, 30), flat(-745, 40), every_size(-60, 3)]),
    "erf": (mp.erf, [flat(-1.2, 1.2), flat(-6, 6), every_size(-60, 2), SMALL]),
    "erfc": (mp.erfc, [flat(-1, 1), flat(-6, 10), flat(0, 27.3), every_size(-60, 2)]),
    "erfinv": (mp.erfinv, [flat(-1, 1), every_size(-1074, 0), below_one, approach(0.53)]),
    "lgamma": (mp.loggamma, [flat(0, 12), approach(1), approach(2), positive(ANY)]),
    "digamma": (mp.digamma, [flat(0, 12), approach(1.4616321449683623), positive(every_size(-1021, 1024))]),
}  # fmt: skip
SLOW = ("erf", "erfc", "erfinv", "lgamma", "digamma")  # in mpmath


def draw_arguments(name: str, dtype: str, count: int) -> list[Any]:
    """The arguments of a function, a few of each kind."""
    r = np.random.default_rng(1)
    parts = []
    for points in CASES[name][1]:
        values = tuple(p(r, count, dtype) for p in points) if isinstance(points, tuple) else points(r, count, dtype)
        parts.append(values if isinstance(values, tuple) else (values,))
    with np.errstate(over="ignore"):
        columns = [np.concatenate(column).astype(dtype) for column in zip(*parts)]
    finite = np.logical_and.reduce([np.isfinite(c) for c in columns])
    return [c[finite] for c in columns]


def errors(got: Any, exact: list[Any], dtype: str) -> list[float]:
    """Distances in units of the last place of what is exact: |got - exact| / 2^(e - p), the unit of subnormals being the least."""
    digits, least, largest = (53, -1074, 1024) if dtype == "float64" else (24, -149, 128)
    found = []
    for value, right in zip(got, exact):
        if not mp.isfinite(right):
            found.append(0.0 if math.isnan(value) or value == right else INF)
            continue
        exponent = int(mp.frexp(right)[1]) if right else least
        if math.isinf(value):  # right if the exact value rounds to it, or nearly
            rounds_up = abs(right) > mp.mpf(2) ** largest * (1 - mp.mpf(2) ** -digits * 2)
            found.append(0.0 if rounds_up and (right > 0) == (value > 0) else INF)
            continue
        unit = mp.mpf(2) ** max(exponent - digits, least)
        found.append(float(abs(mp.mpf(float(value)) - right) / unit))
    return found


def check(name: str, dtype: str, count: int) -> None:
    columns = draw_arguments(name, dtype, count)
    # enough for cos next to a multiple of pi/2 near 1e308, and for what cancels
    with mp.workprec(1300 if name in ("sin", "cos", "tan") else 250):
        exact = [CASES[name][0](*(mp.mpf(float(v)) for v in row)) for row in zip(*columns)]
        exact = [mp.mpf("nan") if isinstance(e, mp.mpc) else e for e in exact]
        for where in TARGETS:
            found = errors(library(dtype, where)(name, *columns), exact, dtype)
            worst = int(np.argmax(found))
            assert found[worst] <= FORMULAS[name].ulp, (where, found[worst], [c[worst] for c in columns])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_errors_stay_below_the_bound_stated(name: str, dtype: str) -> None:
    check(name, dtype, 24 if name not in SLOW else 12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_errors_stay_below_the_bound_on_many_points(name: str, dtype: str) -> None:
    check(name, dtype, 3000 if name not in SLOW else 800)


#: References for float32: float64 functions, which are as good as exact.
DOUBLES: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cbrt": np.cbrt, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("name", DOUBLES)
def test_single_precision_against_double_in_all_binades(name: str, where: str) -> None:
    step = 4099 if where == "plain" else 1021  # every so many of all floats
    x = np.arange(0, 2**32, step * 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        exact = DOUBLES[name](x.astype(np.float64))
        got = library("float32", where)(name, x)
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.where(np.isfinite(rounded), np.abs(rounded), np.float32(1)))
        wrong = np.isnan(got) != np.isnan(exact)
        finite = np.isfinite(rounded) & np.isfinite(got)
        wrong |= ~finite & ~np.isnan(got) & (got != rounded) & (np.abs(exact) < 3.40282e38)
        distance = np.where(finite, np.abs(got.astype(np.float64) - exact) / unit, 0.0)
    assert not wrong.any(), x[wrong][:5]
    assert distance.max() <= FORMULAS[name].ulp, (x[distance.argmax()], distance.max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_the_gamma_function_below_zero_is_right_beside_its_terms(name: str, dtype: str) -> None:
    """Between its poles it has zeros, where the terms of the reflection cancel."""
    x = -np.random.default_rng(4).uniform(0, 20, 60).astype(dtype)
    with mp.workprec(200):
        exact = np.array([float(mp.log(abs(mp.gamma(float(v))))) if name == "lgamma" else float(mp.digamma(float(v))) for v in x])
    for where in TARGETS:
        error = np.abs(library(dtype, where)(name, x).astype(np.float64) - exact)
        assert (error <= 4 * np.finfo(dtype).eps * np.maximum(1, np.abs(exact))).all()


# ----- special values -------------------------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 2.0, -2.0, 3.0, -3.0, 7.25, 1e30, -1e30, 1e-30, -1e-30, 2.0**60]
NUMPY: dict[str, Callable[..., Any]] = {
    **DOUBLES, "pow": np.power, "hypot": np.hypot, "atan2": np.arctan2,
    "sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-x))),
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
    **{name: lambda x, name=name: table[name].forward(np, x) for name in ("erfinv", "lgamma", "digamma")},
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "abs": np.abs, "copysign": np.copysign,
    "nextafter": np.nextafter, "fmod": np.fmod, "remainder": np.remainder, "floor_divide": np.floor_divide, "sign": np.sign,
    "minimum": np.minimum, "maximum": np.maximum, "fmin": np.fmin, "fmax": np.fmax,
}  # fmt: skip
#: Functions that may return a zero of either sign; SciPy's erfinv loses the sign.
NO_SIGN_OF_ZERO = {"minimum", "maximum", "fmin", "fmax", "erfinv"}


def compare(name: str, dtype: str, got: Any, columns: list[Any]) -> None:
    with np.errstate(all="ignore"):
        right = np.asarray(NUMPY[name](*columns)).astype(dtype)
    exact = FORMULAS[name].ulp == 0 or name == "remainder"
    few = 4 * float(np.finfo(dtype).eps)
    same = np.isclose(got, right, rtol=0 if exact else few, atol=few if name in ("lgamma", "digamma") else 0, equal_nan=True)
    if name not in NO_SIGN_OF_ZERO:
        same &= (np.signbit(got) == np.signbit(right)) | np.isnan(right)
    assert same.all(), [(tuple(c[i] for c in columns), got[i], right[i]) for i in np.flatnonzero(~same)[:5]]


def test_every_function_is_compared() -> None:
    assert set(NUMPY) == set(FORMULAS) == set(CASES) | {n for n, f in FORMULAS.items() if f.ulp == 0} | {"remainder"}


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMULAS)
def test_special_values_are_numpys(name: str, dtype: str, where: str) -> None:
    tiny = float(np.finfo(dtype).smallest_subnormal)
    edges = [*SPECIAL, tiny, -tiny, float(np.finfo(dtype).tiny), float(np.finfo(dtype).max), -float(np.finfo(dtype).max)]
    columns = [np.array(edges, dtype)] if FORMULAS[name].arity == 1 else [c.ravel().astype(dtype) for c in np.meshgrid(edges, edges)]
    compare(name, dtype, library(dtype, where)(name, *columns), columns)


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in FORMULAS if n not in CASES])
def test_exact_functions_equal_numpys_for_numbers_of_every_size(name: str, dtype: str, where: str) -> None:
    r = np.random.default_rng(2)
    kinds = [(ANY, ANY), (flat(-10, 10), flat(-3, 3)), (every_size(-2, 70), every_size(-3, 3)), (SMALL, SMALL), (LARGE, every_size(-9, 9))]
    with np.errstate(over="ignore"):
        columns = [np.concatenate([k[i](r, 500, dtype) for k in kinds]).astype(dtype) for i in range(FORMULAS[name].arity)]
    compare(name, dtype, library(dtype, where)(name, *columns), columns)


# ----- vectors of every length, other processors -----------------------------------------------------------------------------

SEVERAL = ("exp", "expm1", "log", "tanh", "sin", "pow", "erfc", "atan2", "fmod", "floor")


@pytest.mark.parametrize("lanes", [1, 2, 3, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_lanes_gives_the_same(dtype: str, lanes: int) -> None:
    r = np.random.default_rng(3)
    x, y = (np.concatenate([r.uniform(0.1, 3, 61), [1e30, 1e-30, INF]]).astype(dtype) for _ in range(2))
    for name in SEVERAL:
        arguments = [x, y][: FORMULAS[name].arity]
        expected = library(dtype, "host")(name, *arguments)
        np.testing.assert_array_equal(library(dtype, "host", lanes, SEVERAL)(name, *arguments), expected)


@pytest.mark.parametrize("name", ["skylake-avx512", "armv8", "x86-64"])
def test_compiles_for_other_processors_without_calls_of_the_c_library(name: str) -> None:
    target = processor(name)
    f = Function("all", "ptr %x")
    for element in ("float", "double"):
        type = Vector(element, target.lanes(element))
        value = f.load(type, "%x")
        for formula in ("exp", "log", "tanh", "cos", "erf", "floor", "fmod", "rint"):
            value = maths.emit(f, formula, type, *[value] * FORMULAS[formula].arity)
            f.store(type, value, "%x")
    f.returns()
    text = assembly(module([f, *maths.library(f.needed, target)]), target)
    called = {line.split()[-1].removesuffix("@PLT") for line in text.splitlines() if line.split()[:1] in (["callq"], ["call"], ["bl"])}
    assert called
    assert all(name.lstrip("_").startswith("maths.") for name in called), called


# ----- the polynomials --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exponential", "sine", pytest.param("", marks=pytest.mark.slow)])
def test_coefficients_are_what_the_script_computes(name: str) -> None:
    path = Path(__file__).parents[3] / "scripts" / "minimax.py"
    spec = importlib.util.spec_from_file_location("minimax", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    before = mp.prec
    try:
        spec.loader.exec_module(script)
        for fitted in [name] if name else script.FITS:
            for precision, kept in POLYNOMIALS[fitted].items():
                found, _ = script.coefficients(script.FITS[fitted], getattr(script.FITS[fitted], precision), precision == "float32")
                assert tuple(found) == kept
        assert script.constants() == CONSTANTS
    finally:
        mp.prec = before
