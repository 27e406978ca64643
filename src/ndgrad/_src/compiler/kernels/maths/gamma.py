"""lgamma = log |gamma(x)|, and digamma, its derivative.

For y >= 8 Stirling's series, a polynomial S or D in 1/y^2 here, is exact to the last place:

    lgamma(y) = (y - 1/2) log(y) - y + log(2 pi)/2 + S(1/y^2) / y,     digamma(y) = log(y) - 1/(2y) - D(1/y^2) / y^2.

Smaller arguments are raised by 8 steps, x -> y = x + 8, with p = x (x + 1) ... (x + 7):

    lgamma(x) = lgamma(y) - log(p),                                    digamma(x) = digamma(y) - p' / p.

The subtraction may cancel all but a few digits, so everything is a pair, the logarithms as in `power`. That is enough
except near the zeros (x = 1 and 2; x = 1.4616...), where polynomials with the zero as a factor are used. Negative
arguments are reflected,

    lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a),                digamma(-a) = digamma(a) + 1/a + pi cot(pi a),

and at the integers, the poles, lgamma is infinite and digamma NaN. Between the poles both have zeros of their own, near
which only the absolute error is small: some 2^-52 of the terms. Single precision is computed in double throughout.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, POLYNOMIALS
from ndgrad._src.compiler.kernels.maths.logarithm import log
from ndgrad._src.compiler.kernels.maths.pairs import Pair, two_product, two_sum
from ndgrad._src.compiler.kernels.maths.power import log_pair
from ndgrad._src.compiler.kernels.maths.rounding import rint
from ndgrad._src.compiler.kernels.maths.trigonometric import cosine, sine
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, absolute, lesser, muladd, polynomial

_STEPS = 8


def _constant(x: Real, name: str) -> Pair:
    hi, lo, _ = CONSTANTS[f"{name}_float64"]
    return Pair(x.w.real(hi), x.w.real(lo))


class _Raised:
    """y = x or x + 8, at least 8. For x below 8, also the product of the steps and its derivative. For single
    precision, plain numbers.
    """

    def __init__(self, x: Real) -> None:
        self.small = x < float(_STEPS)
        self.low = self.small.choose(x, 1.0)
        raised = two_sum(self.low, float(_STEPS))
        self.y = Pair(self.small.choose(raised.hi, x), self.small.choose(raised.lo, 0.0))

    def product(self) -> tuple[Pair, Pair]:
        w = self.low.w
        product, change = Pair(self.low, w.real(0.0)), Pair(w.real(1.0), w.real(0.0))
        for k in range(1, _STEPS):
            step = two_sum(self.low, float(k))
            change = change * step + product  # LLVM removes it if unused
            product = product * step
        return product, change

    def plain_product(self) -> tuple[Real, Real]:
        product, change = self.low, self.low.w.real(1.0)
        for k in range(1, _STEPS):
            step = self.low + float(k)
            product, change = product * step, change * step + product
        return product, change


def _log(x: Pair) -> Pair:
    found = log_pair(x.hi)
    return Pair(found.hi, found.lo + x.lo / x.hi)


def lgamma(x: Real) -> Real:
    if x.w.single:
        return lgamma(x.wide()).narrow()
    a = absolute(x)
    result = _lgamma_of_positive(a)

    def mirrored() -> list[Real]:
        angle = _Turned(a)
        return [angle.at_pole.choose(math.inf, (math.log(math.pi) - log(a * angle.sine())) - result)]

    (found,) = x.w.rarely(x < 0.0, [result], mirrored)
    # Near 0 it is -log |x|, the common limit of both sides.
    (found,) = x.w.rarely(a < 2.0**-60, [found], lambda: [-log(a)])
    return a.equals(math.inf).choose(x, x.is_nan().choose(x, found))


def _lgamma_of_positive(x: Real) -> Real:
    w = x.w
    raised = _Raised(x)
    inverse = 1.0 / raised.y.hi
    tail = polynomial(inverse * inverse, POLYNOMIALS["stirling"][w.degrees]) * inverse
    if w.degrees == "wide":
        y = raised.y.hi
        plain = (y - 0.5) * log(y) - y + (tail + _constant(x, "half_log_two_pi").hi)
        (result,) = w.rarely(raised.small, [plain], lambda: [plain - log(raised.plain_product()[0])])
    else:
        logarithm = _log(raised.y)
        inside = Pair(lesser(raised.y.hi, 2.0**500), raised.y.lo)
        total = (inside + w.real(-0.5)) * logarithm - inside + _constant(x, "half_log_two_pi") + tail
        (result,) = w.rarely(raised.small, [total.value()], lambda: [(total - _log(raised.product()[0])).value()])
        result = (x > 2.0**500).choose(x * (logarithm.hi - 1.0), result)
    gamma = _constant(x, "euler_gamma")
    for name, center, slope in (
        ("lgamma_at_one", 1.0, -gamma),
        ("lgamma_at_two", 2.0, Pair(w.real(1.0), w.real(0.0)) - gamma),
    ):
        t = x - center

        def near(t: Real = t, name: str = name, slope: Pair = slope) -> list[Real]:
            return [t * (slope.hi + muladd(polynomial(t, POLYNOMIALS[name][w.degrees]), t, slope.lo)) + 0.0]

        (result,) = w.rarely(absolute(t) < 0.04, [result], near)
    return result


def digamma(x: Real) -> Real:
    if x.w.single:
        return digamma(x.wide()).narrow()
    a = absolute(x)
    result = _digamma_of_positive(a)

    def mirrored() -> list[Real]:
        angle = _Turned(a)
        return [angle.at_pole.choose(math.nan, result + (angle.cotangent() * math.pi + 1.0 / a))]

    (found,) = x.w.rarely(x < 0.0, [result], mirrored)
    found = (a < 2.0**-60).choose(-1.0 / x, found)
    return x.equals(math.inf).choose(math.inf, (x.is_nan() | x.equals(-math.inf)).choose(math.nan, found))


def _digamma_of_positive(x: Real) -> Real:
    w = x.w
    raised = _Raised(x)
    if w.degrees == "wide":
        (result,) = _plain_digamma(raised)
    else:
        inverse = Pair(w.real(1.0), w.real(0.0)) / Pair(lesser(raised.y.hi, 2.0**500), raised.y.lo)
        total = _log(raised.y) - inverse.scaled(0.5) - _digamma_tail(inverse.hi)

        def lowered() -> list[Real]:
            product, change = raised.product()
            return [(total - change / product).value()]

        (result,) = w.rarely(raised.small, [total.value()], lowered)
    root = CONSTANTS["digamma_root_float64"]
    t = (x - root[0]) - root[1]
    (result,) = w.rarely(
        absolute(t) < 0.04, [result], lambda: [polynomial(t, POLYNOMIALS["digamma_at_root"][w.degrees]) * t]
    )
    return result


def _digamma_tail(inverse: Real) -> Real:
    z = inverse * inverse
    return polynomial(z, POLYNOMIALS["digamma_tail"][z.w.degrees]) * z


def _plain_digamma(raised: _Raised) -> list[Real]:
    y = raised.y.hi
    inverse = 1.0 / y
    total = log(y) - (inverse * 0.5 + _digamma_tail(inverse))

    def lowered() -> list[Real]:
        product, change = raised.plain_product()
        return [total - change / product]

    return y.w.rarely(raised.small, [total], lowered)


class _Turned:
    """pi times the distance to the nearest integer, whose sines and cotangents are those of pi a up to a sign."""

    def __init__(self, a: Real) -> None:
        self.distance = a - rint(a)
        self.at_pole = self.distance.equals(0.0) & (a > 0.0)
        size = absolute(self.distance)
        self.far: Mask = size > 0.25
        # Beyond pi/4 the distance is measured from the other side, and sine and cosine are exchanged.
        self.r = two_product(self.far.choose(0.5 - size, size), a.w.real(math.pi))
        self.r = Pair(self.r.hi, muladd(self.far.choose(0.5 - size, size), CONSTANTS["pi_float64"][1], self.r.lo))
        z = self.r.hi * self.r.hi
        self._sine, self._cosine = sine(self.r, z).value(), cosine(self.r, z).value()

    def sine(self) -> Real:
        return self.far.choose(self._cosine, self._sine)

    def cotangent(self) -> Real:
        value = self.far.choose(self._sine / self._cosine, self._cosine / self._sine)
        return (self.distance < 0.0).choose(-value, value)
