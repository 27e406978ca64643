"""erf, erfc and erfinv.

    erf(x) = x + x E(x^2)                                             for |x| < 1,
    erfc(x) = exp(-x^2) (1.28125 + G(t)) / (1 + 2x),  t = (x - 2) / (x + 2),   for x > 1/2,

with polynomials E and G: erfc(x) exp(x^2) (1 + 2x) varies from 1 at 0 to 2/sqrt(pi) at infinity and is smooth in t. The
tail of erfc is accurate to its last place because x^2, the quotients and the product are pairs. erf = 1 - erfc does not
need that, since erfc is small where it is used. It is computed only if some lane needs it.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.exponential import excess, reduced, scaled
from ndgrad._src.compiler.kernels.maths.logarithm import log
from ndgrad._src.compiler.kernels.maths.pairs import quick_two_sum, two_product, two_sum
from ndgrad._src.compiler.kernels.maths.values import (
    Real,
    absolute,
    bounded,
    copysign,
    lesser,
    muladd,
    polynomial,
    sqrt,
)


def _near(a: Real) -> Real:
    """Return erf(a) / a - 1 for |a| <= 1."""
    return polynomial(a * a, POLYNOMIALS["error_function"][a.w.degrees])


def erf(x: Real) -> Real:
    w = x.w
    a = absolute(x)
    near = muladd(_near(a), a, a)

    def far() -> list[Real]:
        inside = lesser(a, 6.0 if not w.single else 4.0)  # it is 1 to the last place there
        t = (inside - 2.0) / (inside + 2.0)
        g = polynomial(t, POLYNOMIALS["scaled_erfc"][w.degrees]) + 1.28125
        parts = reduced(-(inside * inside))
        e = (excess(parts.r) + 1.0) * parts.shifted.scale()
        return [1.0 - e * (g / muladd(inside, 2.0, 1.0))]

    return copysign(w.rarely(a > 1.0, [near], far)[0], x)  # NaN counts as near


def erfc(x: Real) -> Real:
    w = x.w
    a = absolute(x)
    inside = lesser(a, 27.3 if not w.single else 10.1)  # beyond, it is 0 or 2
    tail = _tail(inside)
    near = 1.0 - muladd(_near(x), x, x)
    far = (x < 0.0).choose(2.0 - tail, tail)
    return (a > 0.5).choose(far, near)


def _tail(x: Real) -> Real:
    """Return erfc(x) for x between 1/2 and 27.3."""
    w = x.w
    bottom = two_sum(x, 2.0)
    top = two_sum(x, -2.0)
    inverse = 1.0 / bottom.hi
    first = top.hi * inverse
    taken = two_product(first, bottom.hi)
    t_low = (((top.hi - taken.hi) - taken.lo) + (top.lo - first * bottom.lo)) * inverse
    coefficients = POLYNOMIALS["scaled_erfc"][w.degrees]
    # G(t + low) = G(t) + low G'(t), and G' to first order is enough.
    slope = polynomial(first, [k * c for k, c in enumerate(coefficients[:9])][1:])
    g = quick_two_sum(w.real(1.28125), muladd(slope, t_low, polynomial(first, coefficients)))
    quotient = g / two_sum(x + x, 1.0)
    square = two_product(x, x)
    parts = reduced(-square.hi, -square.lo)
    e = quick_two_sum(w.real(1.0), excess(parts.r, parts.rest))
    product = quotient * e
    return scaled(product.value(), parts.shifted, x > (26.5 if not w.single else 9.1))


def single_normal(x: Real) -> Real:
    """Return the normal distribution function in single precision, P(x) = erfc(-x / sqrt 2) / 2, by a polynomial for
    all arguments.

    The exponent x^2 / 2 is a pair, since its rounding would multiply the error of the result. The argument of the
    slowly varying polynomial need not be exact. The error is below 7 units in the last place.
    """
    inside = lesser(absolute(x), 14.3)  # beyond, it is 0 or 1
    a = inside * math.sqrt(0.5)
    t = (a - 2.0) / (a + 2.0)
    g = polynomial(t, POLYNOMIALS["scaled_normal"]["float32"]) + 1.28125
    square = two_product(inside, inside * 0.5)
    parts = reduced(-square.hi)
    e = excess(parts.r, parts.rest - square.lo) + 1.0
    tail = scaled(e * (g * 0.5 / muladd(a, 2.0, 1.0)), parts.shifted, inside > 12.5)
    return x.is_nan().choose(x, (x < 0.0).choose(tail, 1.0 - tail))


# ----- the inverse ----------------------------------------------------------------------------------------------------


def erfinv(x: Real) -> Real:
    """Return x times a polynomial in w = -log(1 - x^2), or beyond w = 5 in its root.

    In double precision it is corrected by one step of Halley's method, t - d / (1 + t d) with d = (erf(t) - x) /
    erf'(t). Near 1, erfc(t) is compared with 1 - x.
    """
    if x.w.single:
        return erfinv(x.wide()).narrow()
    a = absolute(x)
    inside = lesser(a, 1.0 - 2.0**-53)
    w = -log((1.0 - inside) * (1.0 + inside))
    center = polynomial(lesser(w, 5.05), POLYNOMIALS["inverse_error_center"][x.w.degrees])
    tail = polynomial(bounded(sqrt(w), 2.2, 6.1), POLYNOMIALS["inverse_error_tail"][x.w.degrees])
    t = inside * (w > 5.0).choose(tail, center)
    if x.w.degrees != "wide":
        near = muladd(_near(t), t, t) - inside
        far = (1.0 - inside) - _tail(t)
        parts = reduced(t * t)
        growth = (excess(parts.r) + 1.0) * parts.shifted.scale()
        step = (inside > 0.53).choose(far, near) * growth * (math.sqrt(math.pi) / 2)
        t = t - step / muladd(t, step, 1.0)
    t = (a < 2.0**-30).choose(a * (math.sqrt(math.pi) / 2), t)
    return (a < 1.0).choose(copysign(t, x), a.equals(1.0).choose(copysign(math.inf, x), math.nan))
