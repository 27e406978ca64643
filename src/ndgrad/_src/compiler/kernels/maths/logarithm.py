"""log, log2, log10, log1p.

    log(x) = e ln 2 + log(1 + f),   x = 2^e (1 + f),   sqrt(1/2) <= 1 + f < sqrt(2),
    log(1 + f) = 2 atanh(s),        s = f / (2 + f),
               = f - (f^2/2 - s (f^2/2 + R(s^2))),   R(z) = z (2/3 + 2/5 z + ...) a polynomial.

The last form uses f, which is exact, last. The subtracted term is small, and so are its errors. The exponent and 1 + f
are taken from the bits of x; subnormal numbers are multiplied by a power of two first.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.pairs import Pair, quick_two_sum, two_sum
from ndgrad._src.compiler.kernels.maths.values import Real, absolute, lesser, muladd, polynomial


class Split:
    """x = 2^e m with m near 1, for positive x."""

    __slots__ = ("e", "m")

    def __init__(self, x: Real, subnormals: bool = True) -> None:
        w = x.w
        if subnormals:
            lift = w.fraction + 2
            small = x < 2.0 ** (1 - w.bias)
            x = small.choose(x * 2.0**lift, x)
        root = w.bits_of(math.sqrt(0.5))
        moved = x.bits() + (w.bits_of(1.0) - root)
        whole = 2.0**w.fraction
        # Convert an integer below 2^fraction to a float by putting it into the fraction of 2^fraction.
        exponent = ((moved >> w.fraction) | w.bits_of(whole)).real()
        self.e = exponent - (
            small.choose(whole + w.bias + lift, whole + w.bias) if subnormals else w.real(whole + w.bias)
        )
        self.m = ((moved & ((1 << w.fraction) - 1)) + root).real()


class Near:
    """log(1 + f) = f - (half - s (half + R)), half = f^2/2, in these parts."""

    __slots__ = ("f", "half", "rest")

    def __init__(self, f: Real) -> None:
        s = f / (f + 2.0)
        z = s * s
        self.f = f
        self.half = f * f * 0.5
        self.rest = s * muladd(polynomial(z, POLYNOMIALS["logarithm"][f.w.degrees]), z, self.half)

    def pair(self) -> Pair:
        first = quick_two_sum(self.f, -self.half)
        return quick_two_sum(first.hi, first.lo + self.rest)


def log(x: Real) -> Real:
    parts = Split(x)
    near = Near(parts.m - 1.0)
    return _at_the_ends(x, _with_exponent(parts.e, near))


def _with_exponent(e: Real, near: Near, more: Real | None = None) -> Real:
    """Return e ln 2 + log(1 + f) + more."""
    high, low = CONSTANTS["ln2_short_" + e.w.precision]
    rest = muladd(e, low, near.rest)
    if more is not None:
        rest = rest + more
    return muladd(e, high, near.f - (near.half - rest))


def _at_the_ends(x: Real, result: Real) -> Real:
    """Return -inf at 0, NaN below, inf at inf, NaN at NaN."""
    result = (x < math.inf).choose(result, x)
    return (x > 0.0).choose(result, x.equals(0.0).choose(-math.inf, math.nan))


def log2(x: Real) -> Real:
    parts = Split(x)
    near = Near(parts.m - 1.0).pair()
    scaled = near * _constant(x, "inverse_ln2")
    return _at_the_ends(x, (Pair(parts.e, x.w.real(0.0)) + scaled).value())


def log10(x: Real) -> Real:
    parts = Split(x)
    scaled = Near(parts.m - 1.0).pair() * _constant(x, "inverse_ln10")
    high, low = CONSTANTS["log10_2_short_" + x.w.precision]
    total = two_sum(parts.e * high, scaled.hi)
    return _at_the_ends(x, total.hi + (total.lo + muladd(parts.e, low, scaled.lo)))


def _constant(x: Real, name: str) -> Pair:
    hi, lo, _ = CONSTANTS[f"{name}_{x.w.precision}"]
    return Pair(x.w.real(hi), x.w.real(lo))


def log1p(x: Real) -> Real:
    return log_of_one_plus(Pair(x, x.w.real(0.0)), plain=True)


def log_of_one_plus(x: Pair, plain: bool = False, doublings: Real | None = None) -> Real:
    """Return log(2^doublings (1 + x)). 1 + hi is a pair exactly; its high part is split, its low part goes into f.

    `plain` means that x.lo is 0.
    """
    w = x.hi.w
    one_more = two_sum(w.real(1.0), x.hi)
    parts = Split(one_more.hi, subnormals=False)
    down = w.power_of_two(-lesser(parts.e, w.bias - 1.0))
    low = one_more.lo if plain else one_more.lo + x.lo
    f = two_sum(parts.m - 1.0, low * down)
    near = Near(f.hi)
    e = parts.e if doublings is None else parts.e + doublings
    result = _with_exponent(e, near, f.lo - f.lo * f.hi)
    result = (absolute(x.hi) < 2.0 ** -(w.fraction + 2)).choose(x.hi, result)
    result = (x.hi < math.inf).choose(result, x.hi)
    return (x.hi > -1.0).choose(result, x.hi.equals(-1.0).choose(-math.inf, math.nan))
