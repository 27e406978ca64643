"""exp, exp2, expm1.

    exp(x) = 2^n exp(r),   n = round(x / ln 2),   r = x - n ln 2,   |r| <= ln 2 / 2,
    exp(r) = 1 + t,        t = r + r^2 q(r),      q a polynomial.

ln 2 is the sum of a short constant, whose products with n are exact, and the rest. 2^n is applied by bits: n is added
to the exponent of exp(r). That exponent would be too small for a subnormal result. Then n is first increased by `_LIFT`
and the result is multiplied by 2^-_LIFT, which rounds once.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.pairs import two_sum
from ndgrad._src.compiler.kernels.maths.values import Bits, Mask, Real, absolute, greater, lesser, muladd, polynomial

#: exp(x) is infinite above and 0 below these, and subnormal below the third.
LIMITS = {
    "float64": (709.782712893384, -745.2, -708.3),
    "float32": (88.72283935546875, -103.98, -87.3),
}
_LIFT = 64


class Reduced:
    """x = n ln 2 + r + rest, with |rest| below the last place of r; `shifted` has the integer n in its low bits."""

    __slots__ = ("n", "r", "rest", "shifted")

    def __init__(self, shifted: Real, n: Real, r: Real, rest: Real) -> None:
        self.shifted = shifted.bits()
        self.n = n
        self.r = r
        self.rest = rest


def reduced(x: Real, more: Real | None = None) -> Reduced:
    """Reduce the argument x + more towards 0 by multiples of ln 2, for |x| below the limits."""
    w = x.w
    shifted = muladd(x, 1 / math.log(2), w.shifter)
    n = shifted - w.shifter
    high, low = CONSTANTS["ln2_short_" + w.precision]
    first = muladd(n, -high, x)
    r = muladd(n, -low, first)
    rest = muladd(n, -low, first - r)
    if more is None:
        return Reduced(shifted, n, r, rest)
    near = two_sum(r, rest + more)
    return Reduced(shifted, n, near.hi, near.lo)


def excess(r: Real, rest: Real | None = None) -> Real:
    """Return t = exp(r + rest) - 1, for r near 0 and a rest below its last place."""
    tail = polynomial(r, POLYNOMIALS["exponential"][r.w.degrees]) * (r * r)
    return r + (tail if rest is None else muladd(rest, r, rest) + tail)


def scaled(p: Real, shifted: Bits, subnormal: Mask) -> Real:
    """Return p 2^n for p near 1, an integer n in the low bits of `shifted`, and a mask of subnormal results."""
    w = p.w
    lifted = shifted + subnormal.choose(w.bits(_LIFT), 0)
    return (p.bits() + (lifted << w.fraction)).real() * subnormal.choose(2.0**-_LIFT, 1.0)


def exp(x: Real, more: Real | None = None) -> Real:
    """Return exp(x + more), with `more` negligible compared to x."""
    high, low, normal = LIMITS[x.w.precision]
    inside = greater(x, low)
    if more is None:
        parts = reduced(inside)
        p = excess(parts.r) + 1.0
    else:
        parts = reduced(inside, more)
        p = excess(parts.r, parts.rest) + 1.0
    return x.not_at_most(high).choose(x + math.inf, scaled(p, parts.shifted, x < normal))


def exp2(x: Real) -> Real:
    w = x.w
    high, low, normal = (1024.0, -1076.0, -1022.0) if not w.single else (128.0, -151.0, -126.0)
    inside = greater(x, low)
    shifted = inside + w.shifter
    r = (inside - (shifted - w.shifter)) * math.log(2)
    result = scaled(excess(r) + 1.0, shifted.bits(), x < normal)
    return x.not_at_most(high).choose(x + math.inf, (x >= high).choose(math.inf, result))


def expm1(x: Real) -> Real:
    """Return 2^n (t + (1 - 2^-n)): nothing is rounded before the sum, and for n = 0 it is t.

    Below -40 the result is -1 to the last place.
    """
    w = x.w
    parts = reduced(greater(x, -40.0))
    small = w.power_of_two(-lesser(parts.n, 64.0))  # negligible compared to 1 for greater n
    h = excess(parts.r, parts.rest) + (1.0 - small)
    # Scale by one power of two less than n, which may be too large for an exponent.
    result = h * (parts.shifted - 1).scale() * 2.0
    result = (absolute(x) < 2.0 ** -(w.fraction + 2)).choose(x, result)
    return x.not_at_most(LIMITS[w.precision][0]).choose(x + math.inf, result)
