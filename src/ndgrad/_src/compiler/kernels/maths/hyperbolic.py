"""tanh, sigmoid, sinh, cosh, and their inverses asinh, acosh, atanh.

tanh(x) is 1 - 2 / (exp(2x) + 1), and near 0, where that would cancel, a polynomial. With a = |x|, sigmoid divides
numbers between 0 and 2: with e = exp(-a) it is 1 / (1 + e) on the right and e / (1 + e) on the left. sinh and cosh are
halves of exp(a) +- exp(-a), where 0.5 exp(a) is computed as one number, since exp(a) may overflow first; near 0, sinh
is a polynomial. The formulas far from 0 are computed only if some lane needs them. The inverses are logarithms of 1 +
(a pair):

    asinh(a) = log(1 + a + a^2 / (1 + sqrt(1 + a^2))),
    acosh(x) = log(1 + t + sqrt(t (t + 2))),  t = x - 1,
    atanh(a) = log(1 + 2a / (1 - a)) / 2.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.exponential import LIMITS, excess, reduced, scaled
from ndgrad._src.compiler.kernels.maths.logarithm import log_of_one_plus
from ndgrad._src.compiler.kernels.maths.pairs import Pair, quick_two_sum, root, two_product, two_sum
from ndgrad._src.compiler.kernels.maths.values import (
    Mask,
    Real,
    absolute,
    copysign,
    greater,
    lesser,
    muladd,
    polynomial,
    sqrt,
)


def tanh(x: Real) -> Real:
    w = x.w
    a = absolute(x)
    z = x * x
    near = muladd(polynomial(z, POLYNOMIALS["hyperbolic_tangent"][w.degrees]) * z, a, a)

    def far() -> list[Real]:
        inside = lesser(a, 20.0)  # it is 1 to the last place there, and no NaN
        parts = reduced(inside + inside)
        e = (excess(parts.r, parts.rest) + 1.0) * parts.shifted.scale()
        return [1.0 - 2.0 / (e + 1.0)]

    return copysign(w.rarely(a > 0.65, [near], far)[0], x)  # NaN counts as near


def sigmoid(x: Real) -> Real:
    down = -absolute(x)
    _, low, normal = LIMITS[x.w.precision]
    parts = reduced(greater(down, low))
    e = scaled(excess(parts.r, parts.rest) + 1.0, parts.shifted, down < normal)
    total = e + 1.0
    lost = e - (total - 1.0)
    y = (x < 0.0).choose(e, 1.0) / total
    return x.is_nan().choose(x, y - y * lost)


# ----- sinh and cosh --------------------------------------------------------------------------------------------------


def _half_exp(a: Real) -> Real:
    """Return 0.5 exp(a) for a >= 0; infinite if it overflows."""
    limit = 710.4758600739439 if not a.w.single else 89.415985107421875
    inside = lesser(a, limit)
    parts = reduced(inside)
    p = excess(parts.r, parts.rest) + 1.0
    result = p * (parts.shifted - 2).scale() * 2.0
    return a.not_at_most(limit).choose(a + math.inf, result)


def cosh(x: Real) -> Real:
    half = _half_exp(absolute(x))
    return half + 0.25 / half


def sinh(x: Real) -> Real:
    a = absolute(x)
    z = x * x
    near = muladd(polynomial(z, POLYNOMIALS["hyperbolic_sine"][x.w.degrees]) * z, x, x)

    def far() -> list[Real]:
        half = _half_exp(a)
        return [copysign(half - 0.25 / half, x)]

    return x.w.rarely(a >= 1.0, [near], far)[0]  # NaN counts as near


# ----- inverses -------------------------------------------------------------------------------------------------------


def asinh(x: Real) -> Real:
    """Return asinh(x). Beyond 2^(fraction / 2 + 3) a square would be negligible, or overflow: log(2a) is enough there.

    In 1 + y with y = a + q, only the sum is a pair. The error of two units in the last place of q is at most a third of
    that in y. It is at most two thirds of that in log(1 + y), where q is largest relative to a, and less elsewhere.
    """
    w = x.w
    a = absolute(x)
    far = a > 2.0 ** (w.fraction // 2 + 3)
    near = far.choose(1.0, a)
    square = near * near
    y = quick_two_sum(near, square / (sqrt(square + 1.0) + 1.0))
    result = _log_far(far, a, y)
    result = (a < 2.0 ** -(w.fraction // 2 + 2)).choose(a, result)
    return x.is_nan().choose(x, copysign(result, x))


def acosh(x: Real) -> Real:
    w = x.w
    far = x > 2.0 ** (w.fraction // 2 + 3)
    t = far.choose(2.0, x) - 1.0
    y = root(two_product(t, t) + (t + t)) + t
    result = t.equals(0.0).choose(0.0, _log_far(far, x, y))
    return (x >= 1.0).choose(result, math.nan)


def _log_far(far: Mask, a: Real, y: Pair) -> Real:
    """Return log(1 + y), or log(2a) where a is far."""
    chosen = Pair(far.choose(a - 1.0, y.hi), far.choose(0.0, y.lo))
    return log_of_one_plus(chosen, doublings=far.choose(a.w.real(1.0), 0.0))


def atanh(x: Real) -> Real:
    a = absolute(x)
    inside = lesser(a, 1.0)
    down = two_sum(inside.w.real(1.0), -inside)
    y = Pair(inside + inside, inside.w.real(0.0)) / down
    result = log_of_one_plus(y) * 0.5
    result = a.equals(1.0).choose(math.inf, (a < 2.0 ** -(x.w.fraction // 2 + 2)).choose(a, result))
    return (a <= 1.0).choose(copysign(result, x), math.nan)
