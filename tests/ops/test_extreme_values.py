"""Every function at the limits of the narrow types, compared with double precision on the same numbers.

Values and gradients must agree up to rounding. Results in double precision are compared with torch and mpmath in
tests/torch_parity/test_extreme_values.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays.precision import finfo
from tests.extreme_programs import BINARY, REDUCTIONS, UNARY, extremes, function, pairs, run, vectors

pytest.importorskip("ml_dtypes")

SHORT = ("float32", "float16", "bfloat16")
#: Functions whose error, or whose gradient's error, is that of numbers around 1 in the formula: a rounded result near
#: its limit (from which the gradient is computed), the rounding of pi x, a difference.
ABSOLUTE = {"sigmoid", "tanh", "expm1", "sinc", "nn.functional.tanhshrink"}
#: Units in the last place for formulas that lose some: differences of Bessel functions, powers of a rounded result,
#: tails.
UNITS = {"special.i0e": 512, "special.i1e": 512, "special.scaled_modified_bessel_k0": 512, "special.scaled_modified_bessel_k1": 512,
         "erfinv": 64, "special.ndtri": 128, "special.log_ndtr": 64, "nn.functional.gelu": 64}  # fmt: skip
#: Functions with a result that depends on the digits of the argument. They see a rounding of the argument that double
#: precision does not have.
PERIODIC = "sin cos tan sinc special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1".split()


def assert_rounded(got: Any, want: Any, dtype: str, what: str, units: float = 8.0, atol: float = 0.0) -> None:
    """Check that `got` is `want` rounded to `dtype`, to a few units in the last place.

    Beyond the range of `dtype` it is infinite or the largest number.
    """
    limits = finfo(getattr(ndgrad, dtype).numpy)
    largest, tiny, eps = float(limits.max), float(limits.tiny), float(limits.eps)
    got, want = np.atleast_1d(got), np.atleast_1d(want)
    with np.errstate(all="ignore"):
        close = np.abs(got - want) <= units * eps * np.abs(want) + tiny + atol
        over = (np.abs(want) > largest * (1 - units * eps)) & (np.sign(got) == np.sign(want)) & (np.abs(got) > largest * (1 - units * eps))
    right = close | over | (got == want) | (np.isnan(got) & np.isnan(want))
    bad = np.flatnonzero(~right)
    assert not bad.size, f"{what}: {[(int(i), float(got.flat[i]), float(want.flat[i])) for i in bad[:8]]}"


def in_both(program: Any, dtype: str, *columns: list[float]) -> tuple[Any, Any]:
    """Run a program in the narrow type, and in double precision on the same rounded numbers."""
    kind = getattr(ndgrad, dtype).numpy
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = tuple(np.array(c).astype(kind).astype(np.float64).tolist() for c in columns)
        return run(ndgrad, program, dtype, *columns), run(ndgrad, program, "float64", *columns)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("path", UNARY)
def test_function_of_one_number(path, dtype):
    kind = getattr(ndgrad, dtype).numpy
    x = [v for v in extremes(kind) if path not in PERIODIC or not abs(v) > 100]
    (value, (grad,)), (wide_value, (wide_grad,)) = in_both(lambda lib, t: function(lib, path)(t), dtype, x)
    atol, units = 4 * float(finfo(kind).eps) if path in ABSOLUTE else 0.0, UNITS.get(path, 8)
    if path != "nan_to_num":  # its result is the largest number of the type
        assert_rounded(value, wide_value, dtype, f"{path} of {dtype}", units, atol)
    assert_rounded(grad, wide_grad, dtype, f"gradient of {path} of {dtype}", units, atol)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("path", BINARY)
def test_function_of_two_numbers(path, dtype):
    x, y = pairs()
    (value, grads), (wide_value, wide_grads) = in_both(lambda lib, a, b: function(lib, path)(a, b), dtype, x, y)
    assert_rounded(value, wide_value, dtype, f"{path} of {dtype}")
    for g, w in zip(grads, wide_grads, strict=True):
        w = np.where(np.isnan(wide_value), g, w)  # NaN powers may have a slope after the exponent was rounded
        assert_rounded(g, w, dtype, f"gradient of {path} of {dtype}")


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_function_of_a_vector(name, dtype):
    found = getattr(ndgrad, dtype).numpy
    for kind, x in vectors(found).items():
        (value, (grad,)), (wide_value, (wide_grad,)) = in_both(REDUCTIONS[name], dtype, x)
        if name == "cosine_similarity" and kind in ("subnormal", "zeros", "zeros of both signs"):
            continue  # its epsilon of 1e-8 is 0 in float16, in torch too
        if kind != "subnormal" or not name.startswith("norm"):
            assert_rounded(value, wide_value, dtype, f"{name} of {kind} in {dtype}", units=16)
        if kind != "subnormal":  # norms and spreads of subnormal numbers have only a bit or two, and so do their gradients
            assert_rounded(grad, wide_grad, dtype, f"gradient of {name} of {kind} in {dtype}", units=16, atol=8 * float(finfo(found).eps))
