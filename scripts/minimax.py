"""Compute the polynomials of ndgrad._src.compiler.kernels.maths and write them to its file coefficients.py.

    python scripts/minimax.py            # all of them (minutes; needs mpmath)
    python scripts/minimax.py sine atan  # shows these, writes nothing

Least squares on Chebyshev points come within a bit of the smallest largest error, and need no exchange of points.
Rounding the coefficients afterwards would lose digits, so they are rounded one after the other, the lowest first, and
the rest is fitted again each time.
"""

from __future__ import annotations

import struct
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp

TARGET = (
    Path(__file__).resolve().parent.parent / "src" / "ndgrad" / "_src" / "compiler" / "kernels" / "maths" / "coefficients.py"
)
mp.mp.prec = 320


class Fit(NamedTuple):
    """An approximation problem: `function` on an interval, errors weighted by `weight`, and the degrees for each
    precision."""

    formula: str
    function: Callable[[Any], Any]
    interval: tuple[Any, Any]
    weight: Callable[[Any], Any]
    float64: int | None
    float32: int | None = None  # computed in float32
    wide: int | None = None  # for float32 results computed in float64


def _root(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: function(mp.sqrt(z))


_TINY = mp.mpf(10) ** -12
_QUARTER = (mp.pi / 4 * mp.mpf("1.002")) ** 2
_ERFCX = 2  # t = (x - 2) / (x + 2)


def _scaled_erfc(t: Any) -> Any:
    if t == 1:
        return 2 / mp.sqrt(mp.pi) - mp.mpf("1.28125")
    x = _ERFCX * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x) - mp.mpf("1.28125")


_DIGAMMA_ROOT = mp.findroot(mp.digamma, mp.mpf("1.4616321449683623"))


def _inverse_error(w: Any) -> Any:
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def _stirling(y: Any) -> Any:
    return (mp.loggamma(y) - (y - mp.mpf("0.5")) * mp.log(y) + y - mp.log(2 * mp.pi) / 2) * y


def _digamma_tail(y: Any) -> Any:
    return (mp.log(y) - 1 / (2 * y) - mp.digamma(y)) * y * y


FITS = {
    "exponential": Fit("(exp(r) - 1 - r) / r^2", lambda r: (mp.exp(r) - 1 - r) / r**2, (-0.3475, 0.3475),
        lambda r: abs(r), 10, 5, 6),
    "logarithm": Fit("(log((1 + s) / (1 - s)) - 2 s) / s^3, z = s^2",
        _root(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3), (_TINY, 0.02945), lambda z: z, 6, 2, 3),
    "logarithm_tail": Fit("(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5, z = s^2",
        _root(lambda s: (2 * mp.atanh(s) - 2 * s - s**3 * 2 / 3) / s**5), (_TINY, 0.02945), lambda z: z * z, 6),
    "sine": Fit("(sin(r) - r) / r^3, z = r^2", _root(lambda r: (mp.sin(r) - r) / r**3), (_TINY, _QUARTER), lambda z: z,
        5, 2, 3),
    "cosine": Fit("(cos(r) - 1 + z / 2) / z^2, z = r^2",
        _root(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4), (_TINY, _QUARTER), lambda z: z * z, 5, 2, 2),
    "arctangent": Fit("(atan(t) - t) / t^3, z = t^2", _root(lambda t: (mp.atan(t) - t) / t**3), (_TINY, 0.17158),
        lambda z: z, 10, None, 5),
    "arcsine": Fit("(asin(x) - x) / x^3, z = x^2", _root(lambda x: (mp.asin(x) - x) / x**3), (_TINY, 0.2501),
        lambda z: z, 12, None, 6),
    "hyperbolic_sine": Fit("(sinh(x) - x) / x^3, z = x^2",
        _root(lambda x: (mp.sinh(x) - x) / x**3), (_TINY, 1.0), lambda z: z, 6, 3),
    "hyperbolic_tangent": Fit("(tanh(x) - x) / x^3, z = x^2",
        _root(lambda x: (mp.tanh(x) - x) / x**3), (_TINY, 0.4226), lambda z: z, 11, 5),
    "error_function": Fit("erf(x) / x - 1, z = x^2", _root(lambda x: mp.erf(x) / x - 1), (_TINY, 1.0), lambda z: 1, 12,
        6, 7),
    "scaled_erfc": Fit("erfc(x) exp(x^2) (1 + 2 x) - 1.28125, t = (x - 2) / (x + 2)",
        _scaled_erfc, (-0.61, 0.873), lambda t: 1, 24, 11),
    "scaled_normal": Fit("erfc(x) exp(x^2) (1 + 2 x) - 1.28125, t = (x - 2) / (x + 2)",
        _scaled_erfc, (-1, 0.675), lambda t: 1, None, 12),
    "inverse_error_center": Fit("erfinv(x) / x, w = -log(1 - x^2)", _inverse_error, (_TINY, 5.05), lambda w: 1, 9, None,
        12),
    "inverse_error_tail": Fit("erfinv(x) / x, s = sqrt(-log(1 - x^2))",
        lambda s: _inverse_error(s * s), (2.2, 6.1), lambda s: 1, 13, None, 16),
    "stirling": Fit("(lgamma(y) - (y - 1/2) log(y) + y - log(2 pi) / 2) y, z = 1 / y^2",
        lambda z: _stirling(1 / mp.sqrt(z)), (_TINY, 1 / mp.mpf(63)), lambda z: mp.mpf("0.02"), 7, None, 4),
    "digamma_tail": Fit("(log(y) - 1 / (2 y) - digamma(y)) / z, z = 1 / y^2",
        lambda z: _digamma_tail(1 / mp.sqrt(z)), (_TINY, 1 / mp.mpf(63)), lambda z: z, 7, None, 4),
    "lgamma_at_one": Fit("(lgamma(1 + t) + gamma t) / t^2",
        lambda t: (mp.loggamma(1 + t) + mp.euler * t) / t**2, (-0.04, 0.04), lambda t: abs(t), 9, None, 5),
    "lgamma_at_two": Fit("(lgamma(2 + t) - (1 - gamma) t) / t^2",
        lambda t: (mp.loggamma(2 + t) - (1 - mp.euler) * t) / t**2, (-0.04, 0.04), lambda t: abs(t), 8, None, 4),
    "digamma_at_root": Fit("digamma(x0 + t) / t, digamma(x0) = 0",
        lambda t: mp.digamma(_DIGAMMA_ROOT + t) / t, (-0.04, 0.04), lambda t: 1, 10, None, 6),
    "cube_root": Fit("cbrt(m)", mp.cbrt, (0.353, 2.83), lambda m: 1 / mp.cbrt(m), 4, None, 4),
}  # fmt: skip

# ----- fitting --------------------------------------------------------------------------------------------------------


def _fit(points: list[Any], values: list[Any], weights: list[Any], size: int) -> list[Any]:
    """The `size` coefficients with the least weighted squares."""
    rows = [[w * x**k for k in range(size)] for x, w in zip(points, weights)]
    right = [v * w for v, w in zip(values, weights)]
    columns = list(zip(*rows))
    normal = mp.matrix([[mp.fdot(a, b) for b in columns] for a in columns])
    solved = mp.cholesky_solve(normal, mp.matrix([mp.fdot(a, right) for a in columns]))
    return [solved[i] for i in range(size)]


def _rounded(value: Any, single: bool) -> float:
    if not single:
        return float(value)
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def coefficients(fit: Fit, degree: int, single: bool) -> tuple[list[float], float]:
    """The polynomial, lowest coefficient first, in its precision; log2 of its largest weighted error."""
    low, high = map(mp.mpf, fit.interval)
    count = 6 * (degree + 2) + 1  # odd: never the middle, where a weight may vanish
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / count) for i in range(count + 1)]
    values, weights = [fit.function(x) for x in points], [mp.mpf(fit.weight(x)) for x in points]
    found: list[float] = []
    for k in range(degree + 1):
        found.append(_rounded(_fit(points, values, weights, degree + 1 - k)[0], single))
        # what is left is x times the rest of the polynomial
        values = [(v - found[-1]) / x for v, x in zip(values, points)]
        weights = [w * abs(x) for w, x in zip(weights, points)]
    polynomial = [mp.mpf(c) for c in reversed(found)]
    places = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mp.mpf("0.3")) / 300) for i in range(300)]
    return found, float(
        mp.log(max(abs((fit.function(x) - mp.polyval(polynomial, x)) * fit.weight(x)) for x in places), 2)
    )


# ----- constants with more digits than a float has --------------------------------------------------------------------


def _parts(value: Any, widths: tuple[int, ...], single: bool = False) -> tuple[float, ...]:
    """A number as a sum of floats, each rounded to so many bits: products of short ones with
    whole numbers are exact."""
    parts = []
    for width in widths:
        exponent = int(mp.floor(mp.log(abs(value), 2))) + 1
        parts.append(float(mp.nint(mp.ldexp(value, width - exponent))) * 2.0 ** (exponent - width))
        value -= parts[-1]
    assert not single or all(_rounded(p, True) == p for p in parts)
    return tuple(parts)


def constants() -> dict[str, tuple[float, ...]]:
    numbers = {
        "ln2": mp.log(2),
        "inverse_ln2": 1 / mp.log(2),
        "log10_2": mp.log10(2),
        "inverse_ln10": 1 / mp.log(10),
        "half_pi": mp.pi / 2,
        "three_quarters_pi": mp.pi * 3 / 4,
        "pi": mp.pi,
        "log_pi": mp.log(mp.pi),
        "half_log_two_pi": mp.log(2 * mp.pi) / 2,
        "euler_gamma": +mp.euler,
        "digamma_root": _DIGAMMA_ROOT,
    }
    found = {}
    for name, value in numbers.items():
        found[f"{name}_float64"] = _parts(value, (53, 53, 53))
        found[f"{name}_float32"] = _parts(value, (24, 24, 24), True)
    for name in ("ln2", "log10_2"):  # times an exponent
        found[f"{name}_short_float64"] = _parts(numbers[name], (40, 53))
        found[f"{name}_short_float32"] = _parts(numbers[name], (15, 24), True)
    found["half_pi_short_float64"] = _parts(mp.pi / 2, (33, 33, 33, 53))  # times whole numbers below 2^20
    return found


def two_over_pi(words: int) -> list[int]:
    """The bits of 2/pi after two words of zeros."""
    bits = int(mp.floor(mp.ldexp(2 / mp.pi, 64 * (words - 2))))
    return [0, 0, *(bits >> (64 * (words - 3 - i)) & (2**64 - 1) for i in range(words - 2))]


# ----- the file -------------------------------------------------------------------------------------------------------

_HEAD = '''"""Minimax polynomials, lowest coefficient first: written by scripts/minimax.py, which says of what; do not edit.

`float64` and `float32` are for arithmetic in that type, `wide` for float32 results computed in float64. Beside each stands the binary
logarithm of its largest error, counted as the formula that uses it feels it.
"""

from __future__ import annotations

'''


def _lines(items: list[str], indent: int) -> list[str]:
    """Items with commas, as many to a line as fit."""
    margin = " " * indent
    return textwrap.wrap(", ".join(items) + ",", 120, initial_indent=margin, subsequent_indent=margin)


def main(wanted: list[str]) -> None:
    text = [_HEAD + "POLYNOMIALS: dict[str, dict[str, tuple[float, ...]]] = {"]
    for name, fit in FITS.items():
        if wanted and name not in wanted:
            continue
        text.append(f"    # {fit.formula} on [{float(fit.interval[0]):.4g}, {float(fit.interval[1]):.4g}]")
        text.append(f'    "{name}": {{')
        for precision in ("float64", "float32", "wide"):
            degree = getattr(fit, precision)
            if degree is None:
                continue
            found, error = coefficients(fit, degree, precision == "float32")
            print(name, precision, f"2^{error:.1f}", flush=True)
            text.append(f'        "{precision}": (  # 2^{error:.1f}')
            text += _lines([repr(c) for c in found], 12)
            text.append("        ),")
        text.append("    },")
    text += [
        "}",
        "",
        "#: Numbers as sums of floats; those of short ones can be multiplied by whole numbers exactly.",
        "CONSTANTS = {",
    ]
    for name, parts in constants().items():
        text.append(f'    "{name}": ({", ".join(map(repr, parts))}),')
    text += ["}", "", "#: The bits of 2/pi after two words of zeros.", "TWO_OVER_PI = ("]
    with mp.workprec(2000):
        text += _lines([f"0x{word:016X}" for word in two_over_pi(23)], 4)
    text.append(")")
    if not wanted:
        TARGET.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
