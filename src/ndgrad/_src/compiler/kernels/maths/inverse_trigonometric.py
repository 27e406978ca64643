"""atan, atan2, asin, acos.

An angle in the first quadrant is read off its triangle: with a / b its tangent,

    a > (1 + sqrt 2) b:   pi/2 + atan(-b / a),
    a > (sqrt 2 - 1) b:   pi/4 + atan((a - b) / (a + b)),
    else                         atan(a / b),

and atan(t) = t + t^3 P(t^2) for the remaining |t| <= sqrt 2 - 1. The quotient is a pair, so that its rounding does not
matter next to pi/4. asin is x + x^3 Q(x^2) up to 1/2, and pi/2 - 2 asin(sqrt((1 - x) / 2)) beyond, with the root as a
pair. Single precision is computed in double.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.pairs import Pair, two_product, two_sum
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, absolute, copysign, greater, muladd, polynomial, sqrt

_HALF_PI, _HALF_PI_LOW, _ = CONSTANTS["half_pi_float64"]
_THREE_QUARTERS, _THREE_QUARTERS_LOW, _ = CONSTANTS["three_quarters_pi_float64"]


class _Angle:
    """base + (t + tail): the angle of a triangle with sides a (opposite) and b, both at least 0."""

    def __init__(self, a: Real, b: Real | float) -> None:
        w = a.w
        exact = w.degrees != "wide"
        b = w.real(b)
        self.middle, self.upper = a > b * (math.sqrt(2) - 1), a > b * (math.sqrt(2) + 1)
        difference, total = (two_sum(a, -b), two_sum(a, b)) if exact else (Pair(a - b, b), Pair(a + b, b))
        top = self.upper.choose(-b, self.middle.choose(difference.hi, a))
        bottom = self.upper.choose(a, self.middle.choose(total.hi, b))
        bottom = bottom.equals(0.0).choose(1.0, bottom)  # for a = b = 0 the quotient must be 0
        if exact:
            between = self.middle & ~self.upper
            inverse = 1.0 / bottom
            self.t = top * inverse
            taken = two_product(self.t, bottom)
            left = (top - taken.hi) - taken.lo
            left = left + between.choose(difference.lo - self.t * total.lo, 0.0)
            z = self.t * self.t
            self.tail = muladd(polynomial(z, POLYNOMIALS["arctangent"][w.degrees]) * z, self.t, left * inverse)
        else:
            self.t = top / bottom
            z = self.t * self.t
            self.tail = polynomial(z, POLYNOMIALS["arctangent"][w.degrees]) * z * self.t

    def value(self, turned: Mask | None = None) -> Real:
        """Return the angle, or pi minus it where `turned`."""
        high = self.upper.choose(self.t.w.real(_HALF_PI), self.middle.choose(_HALF_PI / 2, 0.0))
        low = self.upper.choose(self.t.w.real(_HALF_PI_LOW), self.middle.choose(_HALF_PI_LOW / 2, 0.0))
        if turned is None:
            return high + (self.t + (self.tail + low))
        w = self.t.w
        other_high = self.upper.choose(w.real(_HALF_PI), self.middle.choose(_THREE_QUARTERS, _HALF_PI * 2))
        other_low = self.upper.choose(w.real(_HALF_PI_LOW), self.middle.choose(_THREE_QUARTERS_LOW, _HALF_PI_LOW * 2))
        right = high + (self.t + (self.tail + low))
        left = other_high - (self.t + (self.tail - other_low))
        return turned.choose(left, right)


def atan(x: Real) -> Real:
    if x.w.single:
        return atan(x.wide()).narrow()
    a = absolute(x)
    a = (a > 2.0**60).choose(2.0**60, a)  # it is pi/2 there
    return copysign(_Angle(a, 1.0).value(), x)


def atan2(y: Real, x: Real) -> Real:
    """Return the angle of (x, y). The sides are multiplied by a power of two, so that no part of a product underflows.
    Infinite ones become 1, and finite ones 0.
    """
    if x.w.single:
        return atan2(y.wide(), x.wide()).narrow()
    a, b = absolute(y), absolute(x)
    longer = greater(a, b)
    endless = longer.equals(math.inf)
    factor = (longer > 2.0**500).choose(x.w.real(2.0**-200), 2.0**400) if x.w.degrees != "wide" else x.w.real(1.0)
    sides = [endless.choose(side.equals(math.inf).choose(x.w.real(1.0), 0.0), side * factor) for side in (a, b)]
    result = copysign(_Angle(*sides).value(x.negative()), y)
    return (x.is_nan() | y.is_nan()).choose(x + y, result)


# ----- asin and acos --------------------------------------------------------------------------------------------------


class _Arc:
    """asin(a) = s + rest for a <= 1/2; beyond (`far`), it is pi/2 - 2 (s + rest)."""

    def __init__(self, a: Real) -> None:
        self.far = a > 0.5
        z = self.far.choose((1.0 - a) * 0.5, a * a)
        self.s = self.far.choose(sqrt(z), a)
        self.rest = polynomial(z, POLYNOMIALS["arcsine"][a.w.degrees]) * z * self.s
        if a.w.degrees != "wide":
            square = two_product(self.s, self.s)
            left = ((z - square.hi) - square.lo) / (self.s + self.s)
            self.rest = self.rest + (self.far & self.s.differs(0.0)).choose(left, 0.0)


def asin(x: Real) -> Real:
    if x.w.single:
        return asin(x.wide()).narrow()
    arc = _Arc(absolute(x))
    first = two_sum(x.w.real(_HALF_PI), arc.s * -2.0)
    far = first.hi + (first.lo + (arc.rest * -2.0 + _HALF_PI_LOW))
    return copysign(arc.far.choose(far, arc.s + arc.rest), x)


def acos(x: Real) -> Real:
    if x.w.single:
        return acos(x.wide()).narrow()
    w = x.w
    arc = _Arc(absolute(x))
    twice, rest = arc.s + arc.s, arc.rest + arc.rest
    s, near_rest = copysign(arc.s, x), copysign(1.0, x) * arc.rest
    near = two_sum(w.real(_HALF_PI), -s)
    near_value = near.hi + (near.lo + (_HALF_PI_LOW - near_rest))
    left = two_sum(w.real(2 * _HALF_PI), -twice)
    left_value = left.hi + (left.lo + (2 * _HALF_PI_LOW - rest))
    return arc.far.choose((x < 0.0).choose(left_value, twice + rest), near_value)
