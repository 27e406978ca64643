"""pow, cbrt, hypot, rsqrt.

    x^y = exp(y log x).

The logarithm times y is up to 745 and its error becomes the relative error of the result, so log x is a pair with some
65 correct bits: as in `logarithm`, with s a pair and the first two terms of 2 atanh(s) = 2s + 2/3 s^3 + s^5 T(s^2) in
pairs. For single precision, double is enough.

cbrt(2^(3k + j) m) = 2^k cbrt(2^j m): a polynomial gives nine bits, and each of two steps of Halley's method, t (t^3 +
2w) / (2 t^3 + w), triples them, the last with t^3 as a pair. hypot scales its arguments by powers of two and takes the
root of a pair.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.exponential import exp
from ndgrad._src.compiler.kernels.maths.logarithm import Near, Split
from ndgrad._src.compiler.kernels.maths.pairs import Pair, left_over, quick_two_sum, root, two_product
from ndgrad._src.compiler.kernels.maths.rounding import trunc
from ndgrad._src.compiler.kernels.maths.values import (
    Real,
    absolute,
    bounded,
    copysign,
    greater,
    muladd,
    polynomial,
    sqrt,
)


def pow(x: Real, y: Real) -> Real:
    """Return x^y as defined by IEEE: 1 where y is 0 or x is 1, for any other argument. A negative x has only integer
    powers.
    """
    w = x.w
    power = _power(absolute(x), y) if not w.single else _power(absolute(x).wide(), y.wide()).narrow()
    whole = trunc(y).equals(y)
    half = y * 0.5
    odd = whole & trunc(half).differs(half)
    power = (odd & x.negative()).choose(-power, power)
    power = ((x < 0.0) & (x > -math.inf) & ~whole).choose(math.nan, power)
    power = (x.is_nan() | y.is_nan()).choose(x + y, power)
    return (y.equals(0.0) | x.equals(1.0)).choose(1.0, power)


def _power(a: Real, y: Real) -> Real:
    """Return a^y for a >= 0 (NaN where the product of y and log a is)."""
    w = a.w
    # Beyond these bounds, any a other than 1 overflows or underflows.
    y = bounded(y, -(2.0**70), 2.0**70)
    logarithm = log_pair(a) if w.degrees != "wide" else _short_log(a)
    top = a.equals(0.0).choose(w.real(-math.inf), a.equals(math.inf).choose(math.inf, logarithm.hi))
    product = top * y
    if w.degrees == "wide":
        return exp(product)
    exact = two_product(logarithm.hi, y)
    inside = absolute(product) < 1000.0
    return exp(product, inside.choose(muladd(logarithm.lo, y, exact.lo), 0.0))


def _short_log(a: Real) -> Pair:
    parts = Split(a, subnormals=False)
    near = Near(parts.m - 1.0)
    return Pair(muladd(parts.e, math.log(2), near.f - (near.half - near.rest)), a)


def log_pair(a: Real) -> Pair:
    """Return log(a) of a positive and finite a, with some 65 correct bits."""
    w = a.w
    parts = Split(a)
    # m is in the binade of 1 or below it: the first summand never has the lesser exponent, also in all sums below.
    f, bottom = parts.m - 1.0, quick_two_sum(w.real(1.0), parts.m)
    inverse = 1.0 / bottom.hi
    first = f * inverse
    s = quick_two_sum(first, (left_over(f, first, bottom.hi) - first * bottom.lo) * inverse)
    square = two_product(s.hi, s.hi)
    z = Pair(square.hi, muladd(s.hi + s.hi, s.lo, square.lo))
    # 2/3 = 6004799503160661 / 2^53 + 1 / (3 2^53)
    inner = quick_two_sum(w.real(2 / 3), polynomial(z.hi, POLYNOMIALS["logarithm_tail"][w.degrees]) * z.hi)
    cubic = s * (z * Pair(inner.hi, inner.lo + 1.0 / 27021597764222976))
    near = quick_two_sum(s.hi + s.hi, cubic.hi)
    high, low = CONSTANTS["ln2_short_" + w.precision]
    total = quick_two_sum(parts.e * high, near.hi)
    rest = muladd(parts.e, low, (s.lo + s.lo) + cubic.lo)
    return quick_two_sum(total.hi, total.lo + (near.lo + rest))


def rsqrt(x: Real) -> Real:
    return 1.0 / sqrt(x)


def cbrt(x: Real) -> Real:
    if x.w.single:
        return cbrt(x.wide()).narrow()
    w = x.w
    a = absolute(x)
    parts = Split(a, subnormals=w.degrees != "wide")
    thirds = muladd(parts.e, 1 / 3, w.shifter) - w.shifter
    m = parts.m * w.power_of_two(parts.e - thirds * 3.0)
    t = polynomial(m, POLYNOMIALS["cube_root"][w.degrees])
    cube = t * t * t
    t = t * ((cube + (m + m)) / ((cube + cube) + m))
    square = two_product(t, t)
    cubed = square * t if w.degrees != "wide" else Pair(t * t * t, w.real(0.0))
    left = (m - cubed.hi) - cubed.lo
    t = t + t * (left / ((cubed.hi + cubed.hi) + m))
    result = copysign(t * w.power_of_two(thirds), x)
    return ((a > 0.0) & (a < math.inf)).choose(result, x)


def hypot(x: Real, y: Real) -> Real:
    if x.w.single:
        wide, other = x.wide(), y.wide()
        result = sqrt(wide * wide + other * other).narrow()
        a, b = absolute(x), absolute(y)
    else:
        a, b = absolute(x), absolute(y)
        longer = greater(a, b)
        large, small = longer > 2.0**500, longer < 2.0**-500
        factor = large.choose(x.w.real(2.0**-600), small.choose(x.w.real(2.0**600), 1.0))
        back = large.choose(x.w.real(2.0**600), small.choose(x.w.real(2.0**-600), 1.0))
        p, q = a * factor, b * factor
        squares = two_product(p, p) + two_product(q, q)
        result = (squares.hi > 0.0).choose(root(squares).value(), squares.hi) * back
    return (a.equals(math.inf) | b.equals(math.inf)).choose(math.inf, result)
