"""The logarithm of the gamma function, its derivatives, and the Hurwitz zeta function for the higher ones.

The constraint: one scheme for lgamma, digamma and trigamma. It has a quotient on [1, 3), Stirling's form beyond, a step
down to (0, 1) and a reflection to the negative axis, so that a block is split at most three times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndgrad._src.arrays.special.blocks import Block, Coefficients, Kernel, apply_kernel, polynomial, quotient, split

# ----- lgamma, digamma, trigamma -----
#
# On the middle interval 0 <= y <= 2 the functions of 1 + y are smooth quotients times the factors that vanish at their
# zeros. From 3 on they are Stirling's series in 1/x**2, with fitted coefficients, because the series itself would not
# reach full precision before x = 10. The variable is y because 1 + y would be rounded. For the same reason the
# reflection formulas below are written for gamma(1 - x).

# lgamma(1 + y) / (y (y - 1)). Fit error 1.1e-17.
_LGAMMA: Coefficients = (
    0.5772156649015329, 1.5926041264754551, 1.6586556457969308, 0.812746417212274, 0.19028888941188116,
    0.019135314125258145, 0.0006050096337205995, 1.3221411095499221e-06,
)  # fmt: skip
_LGAMMA_BELOW: Coefficients = (
    1.0, 3.1840014170640227, 3.957103425520478, 2.431456997506142, 0.7725454332949282, 0.12118038745889419,
    0.008088200549989853, 0.00015615637365345487,
)  # fmt: skip
# digamma(1 + y) / (1 + y - root). The root minus 1 is stored in two parts so that the subtraction is exact. Fit error
# 1.6e-20.
_DIGAMMA_ROOT, _DIGAMMA_ROOT_REST = 0.46163214496836236, -1.5522348162858677e-17
_DIGAMMA: Coefficients = (
    1.2503801375034054, 2.014681517702323, 1.183930888454759, 0.3214125833259578, 0.041534228866515685,
    0.002324486215602402, 4.144842948264724e-05, 4.464641784118833e-08,
)  # fmt: skip
_DIGAMMA_BELOW: Coefficients = (
    1.0, 2.2948020303915744, 1.913669774228607, 0.7556009553221438, 0.1509393215103283, 0.014824820637884971,
    0.0006265595440836027, 7.848626777625537e-06,
)  # fmt: skip
# trigamma(1 + y). Fit error 4.9e-19.
_TRIGAMMA: Coefficients = (
    1.6449340668482264, 4.567205337567678, 5.395613152985236, 3.4501301168215375, 1.2585487840691982,
    0.24891120266071737, 0.020948990064819435,
)  # fmt: skip
_TRIGAMMA_BELOW: Coefficients = (
    1.0, 4.238053843242637, 7.500244208544233, 7.215152028483386, 4.099274950628023, 1.384750054203361,
    0.25938570378414705, 0.0209489898317902,
)  # fmt: skip
# Remainders after Stirling's leading terms, for x >= 3 in 1/x**2: of lgamma times x, of digamma times -x**2, of
# trigamma times x**3. Fit errors 2.4e-16, 4.1e-15, 6e-15, of terms at most a twenty-fifth of the result.
_LGAMMA_REST: Coefficients = (
    0.08333333333333331, -0.0027777777777296822, 0.0007936507753351723, -0.000595235346159105,
    0.0008415359265574732, -0.001907484311782804, 0.0061057465266347475, -0.023192494313247058,
    0.08262226526374808, -0.21255522752749562, 0.27162668705158455,
)  # fmt: skip
_DIGAMMA_REST: Coefficients = (
    0.08333333333333297, -0.008333333332509187, 0.003968253653244581, -0.0041666191638798965,
    0.007572021267548007, -0.020916741526503548, 0.07792968710108089, -0.32827998468117076,
    1.2445008016738122, -3.317794560809559, 4.329681412476507,
)  # fmt: skip
_TRIGAMMA_REST: Coefficients = (
    0.1666666666666656, -0.03333333333043507, 0.02380952248397106, -0.03333309330141981, 0.07573476588604772,
    -0.25180364549594164, 1.1171270494219705, -5.778281928162341, 29.027436792923623, -117.20761388699061,
    312.46290669298935, -395.8182606972028,
)  # fmt: skip
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def stirling_rest(x: Block) -> Block:
    """Return lgamma(x) - ((x - 1/2) log x - x + log(2 pi)/2) for x >= 3."""
    inverse = 1.0 / x
    return inverse * polynomial(_LGAMMA_REST, inverse * inverse)


def _lgamma_far(x: Block) -> Block:
    return (x - 0.5) * (np.log(x) - 1.0) + ((HALF_LOG_TWO_PI - 0.5) + stirling_rest(x))


def _lgamma_middle(y: Block) -> Block:
    return y * (y - 1.0) * quotient(_LGAMMA, _LGAMMA_BELOW, y)


def _digamma_far(x: Block) -> Block:
    inverse = 1.0 / x
    square = inverse * inverse
    return np.log(x) - (0.5 * inverse + square * polynomial(_DIGAMMA_REST, square))


def _digamma_middle(y: Block) -> Block:
    return ((y - _DIGAMMA_ROOT) - _DIGAMMA_ROOT_REST) * quotient(_DIGAMMA, _DIGAMMA_BELOW, y)


def _trigamma_far(x: Block) -> Block:
    inverse = 1.0 / x
    square = inverse * inverse
    return inverse + square * (0.5 + inverse * polynomial(_TRIGAMMA_REST, square))


def _trigamma_middle(y: Block) -> Block:
    return quotient(_TRIGAMMA, _TRIGAMMA_BELOW, y)


def _evaluate_one_plus(y: Block, middle: Kernel, far: Kernel) -> Block:
    """Return the function of 1 + y for y >= 0."""
    return split(y < 2.0, middle, lambda y: far(1.0 + y), y)


def _gamma_layout(x: Block, middle: Kernel, far: Kernel, step: Kernel, reflect: Kernel) -> Block:
    """Return f(x): middle and far give f on [1, 3) and beyond, step(x) is f(x) - f(1 + x), reflect is for x <= 0."""

    def near(x: Block) -> Block:
        low = x < 1.0
        value = middle(np.where(low, x, x - 1.0))
        if low.any():
            value += np.where(low, step(x), 0.0)
        return value

    def positive(x: Block) -> Block:
        return split(x < 3.0, near, far, x)

    return split(x > 0.0, positive, reflect, x)


def _from_nearest_integer(x: Block) -> Block:
    """Return the signed distance to the nearest integer; zero for infinities and all other large floats."""
    return np.where(np.isinf(x), 0.0, x - np.rint(x))


def lgamma_of_one_plus(y: Block) -> Block:
    return _evaluate_one_plus(y, _lgamma_middle, _lgamma_far)


def _lgamma_reflect(x: Block) -> Block:
    # gamma(x) gamma(1 - x) = pi / sin(pi x). The quotient by pi keeps the smallest x from overflowing.
    sine = np.sin(np.pi * _from_nearest_integer(x))
    value = -np.log(np.abs(sine) / np.pi) - lgamma_of_one_plus(-x)
    return np.where(sine == 0.0, np.inf, value)


def lgamma_block(x: Block) -> Block:
    value = _gamma_layout(x, _lgamma_middle, _lgamma_far, lambda x: -np.log(x), _lgamma_reflect)
    return value + 0.0  # avoids negative zeros at 1 and 2


def lgamma(x: ArrayLike) -> NDArray[Any]:
    """Return log|gamma(x)|, infinite at the poles 0, -1, -2, ...

    Error at most 5 ulp on (0, 1e300], also near the zeros at 1 and 2. On [-50, 0) it is at most 1.7e-15 times max(1,
    the value), absolutely: near each of the zeros there, terms of about log|x| cancel.

    >>> float(lgamma(0.5).round(12))
    0.572364942925
    """
    return apply_kernel("lgamma", lgamma_block, x)


def _digamma_reflect(x: Block) -> Block:
    # digamma(1 - x) - digamma(x) = pi cot(pi x). Poles have no sign, except at 0, where the sign of zero determines it.
    offset = _from_nearest_integer(x)
    value = _evaluate_one_plus(-x, _digamma_middle, _digamma_far) - np.pi / np.tan(np.pi * offset)
    return np.where(offset == 0.0, np.where(x == 0.0, -1.0 / x, np.nan), value)


def _digamma(x: Block) -> Block:
    return _gamma_layout(x, _digamma_middle, _digamma_far, lambda x: -1.0 / x, _digamma_reflect)


def digamma(x: ArrayLike) -> NDArray[Any]:
    """Return the derivative of lgamma: infinite at 0, NaN at the poles -1, -2, ...

    Error at most 4 ulp on (0, 1e300], also near the root at 1.46. On [-50, 0) it is at most 1.4e-15 times max(1,
    |value|), absolutely: there is a root between any two poles, and around it terms of about log|x| cancel.

    >>> float(digamma(1.0).round(12))
    -0.577215664902
    """
    return apply_kernel("digamma", _digamma, x)


def _trigamma_reflect(x: Block) -> Block:
    # The derivative of digamma's reflection: trigamma(1 - x) + trigamma(x) = (pi / sin(pi x))**2.
    sine = np.sin(np.pi * _from_nearest_integer(x)) / np.pi
    return 1.0 / (sine * sine) - _evaluate_one_plus(-x, _trigamma_middle, _trigamma_far)


def _trigamma(x: Block) -> Block:
    return _gamma_layout(x, _trigamma_middle, _trigamma_far, lambda x: 1.0 / (x * x), _trigamma_reflect)


def trigamma(x: ArrayLike) -> NDArray[Any]:
    """Return the derivative of digamma, infinite at the poles. Error at most 5 ulp on [-50, 1e150].

    >>> float(trigamma(1.0).round(12))
    1.644934066848
    """
    return apply_kernel("trigamma", _trigamma, x)


# ----- the Hurwitz zeta function and polygamma -----

# B(2k)/(2k)! with Bernoulli's numbers B: the Euler-Maclaurin formula.
_BERNOULLI_OVER_FACTORIAL: Coefficients = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000, -236364091 / 1693824136731743669452800000,
)  # fmt: skip
_DIRECT_TERMS = 9


def _zeta_positive(s: Block, q: Block) -> Block:
    """Return the sum of (q + k)**-s over k >= 0 for s > 1, q > 0: nine terms directly, the rest by Euler-Maclaurin.

    With w = q + 9 the correction terms fall like ((s + 2k) / (2 pi w))**2k. They grow only if s > 2 pi w. Then the
    first term exceeds w**-s by a factor of at least exp(2 pi 9), which hides them.
    """
    total = np.power(q, -s)
    for k in range(1, _DIRECT_TERMS):
        total += np.power(q + k, -s)
    w = q + _DIRECT_TERMS
    integral = np.power(w, 1.0 - s)
    power = integral / w
    # The bound prevents 0 * infinity if power has underflowed.
    rising = np.minimum(s, 1e100)
    term = power * rising / w
    tail = 0.5 * power
    for k, coefficient in enumerate(_BERNOULLI_OVER_FACTORIAL):
        tail += coefficient * term
        term *= (rising + (2 * k + 1)) / w
        term *= (rising + (2 * k + 2)) / w
    tail += integral / (s - 1.0)
    return np.asarray(total + tail)


def _zeta_negative(s: Block, q: Block) -> Block:
    """Return the same sum for q <= 0 and integer s: the sum over all integers, of period 1 in q, minus the part k < 0.

    With r the offset of q from the nearest integer, the sum over all integers is r**-s + zeta(s, 1 + r) + (-1)**s
    zeta(s, 1 - r), and the part to subtract is (-1)**s zeta(s, 1 - q).
    """
    r = _from_nearest_integer(q)
    sign = 1.0 - 2.0 * np.mod(s, 2.0)
    around = np.power(r, -s) + _zeta_positive(s, 1.0 + r)
    value = around + sign * (_zeta_positive(s, 1.0 - r) - _zeta_positive(s, 1.0 - q))
    value[s != np.rint(s)] = np.nan
    value[r == 0.0] = np.inf
    return value


def _zeta(s: Block, q: Block) -> Block:
    value = split(q > 0.0, _zeta_positive, _zeta_negative, s, q)
    value[s <= 1.0] = np.nan
    value[s == 1.0] = np.inf
    return value


def zeta(s: ArrayLike, q: ArrayLike) -> NDArray[Any]:
    """Return the Hurwitz zeta function, the sum of (q + k)**-s over k = 0, 1, ...; for s > 1, and NaN for s < 1.

    At q <= 0 it is infinite for integer q, and otherwise defined only for integer s. Error at most 31 ulp for s in
    [1.01, 60] and q in [1e-3, 1e3]; it grows with s, because the power multiplies the rounding error of q + k.

    >>> float(zeta(2.0, 1.0).round(12))
    1.644934066848
    """
    return apply_kernel("zeta", _zeta, s, q)


_FACTORIALS = np.array([float(math.factorial(n)) for n in range(171)])


def polygamma(n: ArrayLike, x: ArrayLike) -> NDArray[Any]:
    """Return the n-th derivative of digamma, as (-1)**(n + 1) n! zeta(n + 1, x).

    Error at most 17 ulp for 2 <= n <= 20 and x in [1e-3, 1e3].

    >>> float(polygamma(2, 1.0).round(12))
    -2.404113806319
    """
    order = np.asarray(n)
    if np.any((order < 0) | (order > 170) | (order != np.rint(order))):
        raise ValueError(
            f"polygamma got the order n = {n!r}; n counts derivatives of digamma, and the factorial of more "
            f"than 170 exceeds float64. Pass whole numbers from 0 to 170. [nd-range]"
        )

    def higher(n: Block, x: Block) -> Block:
        sign = 2.0 * np.mod(n, 2.0) - 1.0
        return np.asarray(sign * _FACTORIALS[n.astype(np.intp)] * _zeta(n + 1.0, x))

    def first(n: Block, x: Block) -> Block:
        return split(n == 0.0, lambda n, x: _digamma(x), lambda n, x: _trigamma(x), n, x)

    # The order is a count and does not affect the dtype of the result.
    values = np.asarray(x)
    order = order.astype(np.float64 if values.dtype.kind in "biu" else values.dtype)
    return apply_kernel("polygamma", lambda n, x: split(n < 2.0, first, higher, n, x), order, x)
