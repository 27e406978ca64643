"""Numbers as unevaluated sums of two floats: about twice the digits.

`two_sum` and `two_product` give the rounded result and its exact error (Knuth; Dekker, or one fused multiply-add). A
`Pair` (hi, lo) keeps such a sum with |lo| at most half a unit in the last place of hi. Its operations lose a few units
of 2^-104 (float64), which is more accurate than any function here needs. Pairs carry arguments that must not be rounded
yet.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.maths.values import Real, muladd, sqrt


class Pair:
    """hi + lo."""

    __slots__ = ("hi", "lo")

    def __init__(self, hi: Real, lo: Real) -> None:
        self.hi = hi
        self.lo = lo

    def __add__(self, other: Pair | Real) -> Pair:
        if isinstance(other, Pair):
            total = two_sum(self.hi, other.hi)
            return quick_two_sum(total.hi, total.lo + (self.lo + other.lo))
        total = two_sum(self.hi, other)
        return quick_two_sum(total.hi, total.lo + self.lo)

    def __neg__(self) -> Pair:
        return Pair(-self.hi, -self.lo)

    def __sub__(self, other: Pair | Real) -> Pair:
        return self + (-other)

    def __mul__(self, other: Pair | Real) -> Pair:
        if isinstance(other, Pair):
            product = two_product(self.hi, other.hi)
            return quick_two_sum(product.hi, product.lo + muladd(self.hi, other.lo, self.lo * other.hi))
        product = two_product(self.hi, other)
        return quick_two_sum(product.hi, muladd(self.lo, other, product.lo))

    def __truediv__(self, other: Pair | Real) -> Pair:
        """Return the quotient of the high parts, corrected by the quotient of its remainder."""
        divisor = other if isinstance(other, Pair) else Pair(other, other.w.real(0.0))
        first = self.hi / divisor.hi
        left = left_over(self.hi, first, divisor.hi) + (self.lo - first * divisor.lo)
        return quick_two_sum(first, left / divisor.hi)

    def scaled(self, factor: Real | float) -> Pair:
        """Return the pair times a power of two."""
        return Pair(self.hi * factor, self.lo * factor)

    def value(self) -> Real:
        return self.hi + self.lo


def two_sum(a: Real, b: Real | float) -> Pair:
    """Return a + b exactly."""
    b = a.w.real(b)
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def quick_two_sum(a: Real, b: Real) -> Pair:
    """Return a + b exactly, if |a| >= |b|."""
    total = a + b
    return Pair(total, b - (total - a))


def two_product(a: Real, b: Real) -> Pair:
    """Return a b exactly, unless it nears the limits of the range (without fused multiply-add: unless a or b do, from
    2^996 on).
    """
    product = a * b
    if a.w.fma:
        return Pair(product, muladd(a, b, -product))
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return Pair(product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)


def left_over(a: Real, b: Real, c: Real) -> Real:
    """Return a - b c for a product near a: exact for the remainder of a quotient or of a square root."""
    if a.w.fma:
        return muladd(-b, c, a)
    product = two_product(b, c)
    return (a - product.hi) - product.lo


def _halves(a: Real) -> tuple[Real, Real]:
    """Return a as a sum of two floats with half the digits each, whose products are exact."""
    spread = a * (2.0 ** ((a.w.fraction + 2) // 2) + 1)
    high = spread - (spread - a)
    return high, a - high


def root(x: Pair) -> Pair:
    """Return the square root of a positive pair: that of hi, and one step of Newton's method for its remainder."""
    first = sqrt(x.hi)
    left = left_over(x.hi, first, first) + x.lo
    return quick_two_sum(first, left / (first + first))
