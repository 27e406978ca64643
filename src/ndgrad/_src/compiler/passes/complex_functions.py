"""Formulas for complex functions in terms of parts: powers, exponentials, logarithms, roots, hyperbolic functions.

Not exact: results are within a few units in the last place *of the modulus* of NumPy's. The smaller part of a result
may have fewer correct digits, as after a product. On branch cuts and at infinities the signs of zeros decide, as in
C99. `tests/compiler/passes/test_complex_formulas.py` compares all of them.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.passes.complex_formulas import Reals, elementwise, reciprocal, times
from ndgrad._src.compiler.passes.complex_walk import Pair, Part
from ndgrad._src.compiler.passes.rewrite import Rules
from ndgrad._src.compiler.program.program import Value

functions = Rules()

# ----- powers ---------------------------------------------------------------------------------------------------------


@elementwise(functions, "pow")
def _pow(r: Reals, x: Pair, exponent: Pair) -> Pair | None:
    """Return a power with a constant exponent: integers as products in NumPy's order, and roots."""
    n, im = exponent
    if isinstance(n, Value) or im != 0:
        return None
    match n:
        case 0:
            return 1.0, 0.0
        case -1:
            return reciprocal(r, x)
        case 0.5:
            return _root(r, *x)
        case 2 | 3 | 4:
            square = r.product(x, x)
            return square if n == 2 else r.product(square, x if n == 3 else square)
    return _whole_power(r, x, int(n)) if n == int(n) and abs(n) < _MOST_FACTORS else None


#: Exponents from which on NumPy uses logarithms.
_MOST_FACTORS = 100


def _whole_power(r: Reals, x: Pair, n: int) -> Pair:
    """Return an integer power by squaring. 0 to a positive power is 0 without a sign, and to a negative one NaN."""
    found: Pair = x if n == 1 else (1.0, 0.0)
    power, left = x, 0 if n == 1 else abs(n)
    while left:
        if left % 2:
            found = r.product(found, power)
        left //= 2
        if left:
            power = r.product(power, power)
    if n < 0:
        found = r.quotient((1.0, 0.0), found)
    is_none = r.logical_and(r.eq(x[0], 0.0), r.eq(x[1], 0.0))
    of_none = 0.0 if n > 0 else math.nan
    return r.where(is_none, of_none, found[0]), r.where(is_none, of_none, found[1])


# ----- exponentials, logarithms and roots -----------------------------------------------------------------------------


@elementwise(functions, "exp")
def _exp(r: Reals, x: Pair) -> Pair:
    return _exponential(r, *x)


def _exponential(r: Reals, x: Part, y: Part) -> Pair:
    """Return e^x (cos y + i sin y), in two factors if e^x alone would overflow.

    e^inf has both parts infinite, with the signs of cos y and sin y, unless y is 0. If y is infinite or NaN, e^-inf is
    0 and the real part of e^inf is infinite.
    """
    limit = float(math.floor(math.log(float(r.limits.max)))) - 1.0
    is_large = r.gt(x, limit)
    size = r.exp(r.sub(x, r.where(is_large, limit, 0.0)))
    rest = r.where(is_large, math.exp(limit), 1.0)
    re, im = (r.mul(r.mul(size, getattr(r, p)(y)), rest) for p in ("cos", "sin"))
    im = r.where(r.eq(y, 0.0), y, im)
    nowhere = r.logical_not(r.isfinite(y))
    is_none, is_infinite = (r.logical_and(nowhere, r.eq(x, bound)) for bound in (-math.inf, math.inf))
    re = r.where(is_none, 0.0, r.where(is_infinite, math.inf, re))
    return re, r.where(is_none, r.copysign(0.0, y), im)


@elementwise(functions, "exp2")
def _exp2(r: Reals, x: Pair) -> Pair:
    return _exponential(r, *times(r, x, math.log(2)))


@elementwise(functions, "log")
def _log(r: Reals, x: Pair) -> Pair:
    return _logarithm(r, *x)


@elementwise(functions, "log2")
def _log2(r: Reals, x: Pair) -> Pair:
    re, im = _logarithm(r, *x)
    return r.mul(re, math.log2(math.e)), r.mul(im, math.log2(math.e))


@elementwise(functions, "log10")
def _log10(r: Reals, x: Pair) -> Pair:
    re, im = _logarithm(r, *x)
    return r.mul(re, math.log10(math.e)), r.mul(im, math.log10(math.e))


def _logarithm(r: Reals, x: Part, y: Part) -> Pair:
    """Return log |z| + i angle(z).

    Near the unit circle rounding |z| loses the digits that determine its logarithm. There it is log1p(|z|^2 - 1) / 2,
    with |z|^2 - 1 = (m - 1)(m + 1) + n^2 for the larger part m and the smaller part n. If |z| would overflow or is
    subnormal, the parts are first multiplied by a power of two.
    """
    wide, close = r.abs(x), r.abs(y)
    large, small = r.maximum(wide, close), r.minimum(wide, close)
    bits = r.limits.nmant + 2
    is_much, is_little = r.gt(large, float(r.limits.max) / 4), r.lt(large, float(r.limits.tiny) * 4)
    factor = r.where(is_much, 0.25, r.where(is_little, 2.0**bits, 1.0))
    missing = r.where(is_much, 2 * math.log(2), r.where(is_little, -bits * math.log(2), 0.0))
    size = r.hypot(x, y)
    far = r.add(r.log(r.hypot(r.mul(x, factor), r.mul(y, factor))), missing)
    excess = r.add(r.mul(r.sub(large, 1.0), r.add(large, 1.0)), r.mul(small, small))
    near = r.mul(r.log1p(excess), 0.5)
    is_near = r.logical_and(r.gt(size, 0.5), r.lt(size, 2.0))
    return r.where(is_near, near, far), r.atan2(y, x)


@elementwise(functions, "sqrt")
def _sqrt(r: Reals, x: Pair) -> Pair:
    return _root(r, *x)


@elementwise(functions, "rsqrt")
def _rsqrt(r: Reals, x: Pair) -> Pair:
    return reciprocal(r, _root(r, *x))


def _root(r: Reals, x: Part, y: Part) -> Pair:
    """Return the root with a positive real part.

    t = sqrt((|z| + |x|) / 2) is the larger of both parts, |y| / 2t the smaller. The imaginary part has the sign of y,
    also if y is a zero.
    """
    wide, close = r.abs(x), r.abs(y)
    large = r.maximum(wide, close)
    exponent = r.limits.nmant // 2 * 2 + 2
    is_much, is_little = r.gt(large, float(r.limits.max) / 16), r.lt(large, float(r.limits.tiny) * 2.0**exponent)
    factor = r.where(is_much, 2.0**-4, r.where(is_little, 2.0**exponent, 1.0))
    back = r.where(is_much, 4.0, r.where(is_little, 2.0 ** (-exponent // 2), 1.0))
    a, b = r.mul(wide, factor), r.mul(close, factor)
    more = r.sqrt(r.mul(r.add(r.hypot(a, b), a), 0.5))
    less = r.where(r.eq(close, 0.0), r.mul(a, 0.0), r.div(b, r.mul(more, 2.0)))  # NaN for NaN
    more, less = r.mul(more, back), r.mul(less, back)
    left = r.lt(x, 0.0)
    re, im = r.where(left, less, more), r.where(left, more, less)
    # An infinite imaginary part makes both parts infinite. An infinite real part alone makes the other part 0.
    endless = r.eq(close, math.inf)
    only = r.logical_and(r.eq(wide, math.inf), r.isfinite(close))
    re = r.where(endless, math.inf, r.where(only, r.where(left, 0.0, math.inf), re))
    im = r.where(endless, math.inf, r.where(only, r.where(left, math.inf, 0.0), im))
    is_lost = r.logical_and(r.eq(wide, math.inf), r.isnan(close))
    re = r.where(is_lost, r.where(left, math.nan, math.inf), re)
    im = r.where(is_lost, r.where(left, math.inf, math.nan), im)
    return re, r.copysign(im, y)


@elementwise(functions, "sigmoid")
def _sigmoid(r: Reals, x: Pair) -> Pair:
    re, im = _exponential(r, *r.product((-1.0, 0.0), x))
    return r.quotient((1.0, 0.0), (r.add(re, 1.0), r.add(im, 0.0)))


# ----- hyperbolic and trigonometric functions -------------------------------------------------------------------------


@elementwise(functions, "sinh")
def _sinh(r: Reals, x: Pair) -> Pair:
    return _hyperbolic_sine(r, *x, math.inf)


@elementwise(functions, "cosh")
def _cosh(r: Reals, x: Pair) -> Pair:
    return _hyperbolic_cosine(r, *x)


@elementwise(functions, "tanh")
def _tanh(r: Reals, x: Pair) -> Pair:
    return _hyperbolic_tangent(r, *x)


@elementwise(functions, "sin")
def _sin(r: Reals, x: Pair) -> Pair:
    """Return sin z as -i sinh(i z)."""
    re, im = _hyperbolic_sine(r, r.neg(x[1]), x[0], -math.inf)
    return im, r.neg(re)


@elementwise(functions, "cos")
def _cos(r: Reals, x: Pair) -> Pair:
    """Return cos z as cosh(i z)."""
    return _hyperbolic_cosine(r, r.neg(x[1]), x[0])


@elementwise(functions, "tan")
def _tan(r: Reals, x: Pair) -> Pair:
    """Return tan z as -i tanh(i z)."""
    re, im = _hyperbolic_tangent(r, r.neg(x[1]), x[0])
    return im, r.neg(re)


def _half_exponentials(r: Reals, x: Part) -> tuple[Part, Part, Part]:
    """Return sinh x, cosh x, and a common factor, which differs from 1 where they alone would overflow."""
    limit = float(math.floor(math.log(float(r.limits.max)))) - 1.0
    size = r.abs(x)
    is_large = r.gt(size, limit)
    much = r.exp(r.where(is_large, r.sub(size, limit), 0.0))
    sine = r.where(is_large, r.copysign(much, x), r.sinh(x))
    return sine, r.where(is_large, much, r.cosh(x)), r.where(is_large, math.exp(limit) / 2, 1.0)


def _hyperbolic_sine(r: Reals, x: Part, y: Part, lost: float) -> Pair:
    """Return sinh x cos y + i cosh x sin y.

    If y is infinite or NaN, 0 stays 0, and the real part for an infinite x is `lost`.
    """
    sine, cosine, rest = _half_exponentials(r, x)
    re = r.mul(r.mul(sine, r.cos(y)), rest)
    im = r.mul(r.mul(cosine, r.sin(y)), rest)
    nowhere = r.logical_not(r.isfinite(y))
    re = r.where(r.logical_and(nowhere, r.isinf(x)), lost, re)
    return r.where(r.logical_and(nowhere, r.eq(x, 0.0)), x, re), r.where(r.eq(y, 0.0), y, im)


def _hyperbolic_cosine(r: Reals, x: Part, y: Part) -> Pair:
    """Return cosh x cos y + i sinh x sin y."""
    sine, cosine, rest = _half_exponentials(r, x)
    re = r.mul(r.mul(cosine, r.cos(y)), rest)
    im = r.mul(r.mul(sine, r.sin(y)), rest)
    nowhere = r.logical_not(r.isfinite(y))
    im = r.where(r.eq(y, 0.0), r.mul(r.copysign(1.0, x), y), im)
    im = r.where(r.logical_and(nowhere, r.eq(x, 0.0)), 0.0, im)
    re = r.where(r.logical_and(nowhere, r.isinf(x)), math.inf, re)
    return re, im


def _hyperbolic_tangent(r: Reals, x: Part, y: Part) -> Pair:
    """Return (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), and its limit form for large x."""
    limit = (r.limits.maxexp - 1) * math.log(2) / 2
    size = r.abs(x)
    is_large = r.gt(size, limit)
    inside = r.where(is_large, 0.0, x)
    sine, cosine = r.sinh(inside), r.cosh(inside)
    s, c = r.sin(y), r.cos(y)
    below = r.add(r.mul(sine, sine), r.mul(c, c))
    turned = r.mul(s, c)
    re = r.where(is_large, r.copysign(1.0, x), r.div(r.mul(sine, cosine), below))
    far = r.mul(r.mul(turned, 4.0), r.exp(r.mul(size, -2.0)))
    im = r.where(is_large, far, r.div(turned, below))
    # For an infinite x the result is 1 with a zero imaginary part. Its sign is that of sin 2y, or of y if that is
    # unknown.
    side = r.where(r.logical_and(r.isfinite(y), r.gt(r.abs(y), 1.0)), turned, y)
    im = r.where(r.isinf(x), r.copysign(0.0, side), im)
    im = r.where(r.eq(y, 0.0), y, im)
    lost = r.logical_and(r.logical_not(r.isfinite(y)), r.logical_not(r.isinf(x)))
    return r.where(lost, r.where(r.eq(x, 0.0), x, math.nan), re), im
