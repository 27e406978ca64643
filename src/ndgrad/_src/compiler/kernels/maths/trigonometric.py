"""sin, cos, tan of angles reduced to x = n pi/2 + r, with r = r.hi + r.lo between -pi/4 and pi/4 (`angles`).

    sin(r) = r + r^3 S(r^2),      cos(r) = 1 - r^2/2 + r^4 C(r^2),

both to the last place of a pair's high part, with r.lo as a correction of first order. n mod 4 selects one of them, and
its sign. tan is their quotient, separately for odd and even n, corrected by the remainder of the quotient of the high
parts.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.maths.angles import reduced
from ndgrad._src.compiler.kernels.maths.coefficients import POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.pairs import Pair, quick_two_sum, two_product
from ndgrad._src.compiler.kernels.maths.values import Bits, Mask, Real, absolute, muladd, polynomial, with_sign


def sine(r: Pair, z: Real) -> Pair:
    """Return sin(r) as a sum of two, for r between -pi/4 and pi/4; z is r.hi squared."""
    tail = muladd(polynomial(z, POLYNOMIALS["sine"][z.w.degrees]) * z, r.hi, muladd(z * r.lo, -0.5, r.lo))
    return Pair(r.hi, tail)


def cosine(r: Pair, z: Real) -> Pair:
    """Return cos(r) likewise."""
    half = z * 0.5
    first = quick_two_sum(z.w.real(1.0), -half)
    tail = muladd(polynomial(z, POLYNOMIALS["cosine"][z.w.degrees]), z * z, first.lo - r.hi * r.lo)
    return Pair(first.hi, tail)


def _odd(quadrant: Bits) -> Mask:
    return ~(quadrant & 1).equals(0)


def _sign(quadrant: Bits) -> Bits:
    """Return the sign bit where the quadrant is 2 or 3."""
    w = quadrant.w
    return (quadrant & 2) << (w.fraction + (7 if w.single else 10))


def _of_quadrant(x: Real, ahead: int) -> Real:
    """Return sin(x + ahead pi/2)."""
    n, r = reduced(x)
    z = r.hi * r.hi
    quadrant = x.w.shifted(n) + ahead if ahead else x.w.shifted(n)
    value = _odd(quadrant).choose(cosine(r, z).value(), sine(r, z).value())
    return with_sign(value, _sign(quadrant))


def sin(x: Real) -> Real:
    if x.w.single and not x.w.fma:
        return sin(x.wide()).narrow()
    return (absolute(x) < 2.0**-13 if x.w.single else absolute(x) < 2.0**-27).choose(x, _of_quadrant(x, 0))


def cos(x: Real) -> Real:
    if x.w.single and not x.w.fma:
        return cos(x.wide()).narrow()
    return _of_quadrant(x, 1)


def tan(x: Real) -> Real:
    if x.w.single and not x.w.fma:
        return tan(x.wide()).narrow()
    n, r = reduced(x)
    z = r.hi * r.hi
    s, c = sine(r, z), cosine(r, z)
    s, c = quick_two_sum(s.hi, s.lo), quick_two_sum(c.hi, c.lo)
    quadrant = x.w.shifted(n)
    odd = _odd(quadrant)
    top = Pair(odd.choose(c.hi, s.hi), odd.choose(c.lo, s.lo))
    bottom = Pair(odd.choose(s.hi, c.hi), odd.choose(s.lo, c.lo))
    inverse = 1.0 / bottom.hi
    first = top.hi * inverse
    taken = two_product(first, bottom.hi)
    left = ((top.hi - taken.hi) - taken.lo) + (top.lo - first * bottom.lo)
    value = with_sign(muladd(left, inverse, first), (quadrant & 1) << (x.w.fraction + (8 if x.w.single else 11)))
    return (absolute(x) < (2.0**-13 if x.w.single else 2.0**-27)).choose(x, value)
