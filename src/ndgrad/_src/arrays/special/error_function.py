"""The error function, its complement and inverse, and the normal distribution function based on them.

The constraint: few branches. One polynomial covers the scaled complementary error function on the whole half line.
Everything except a neighbourhood of zero is that polynomial times an exponential.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndgrad._src.arrays.special.blocks import Block, Coefficients, apply_kernel, polynomial, quotient, split

_SQRT_HALF = math.sqrt(0.5)
_SQRT_TWO = math.sqrt(2.0)

# erf(x)/x - 1 in x**2, |x| <= 1. Fit error 1.3e-19.
_ERF: Coefficients = (
    0.1283791670955126, -0.3761263890318375, 0.1128379167095486, -0.026866170645073226, 0.005223977624784283,
    -0.0008548326978947756, 0.0001205533104465586, -1.4925593698029102e-05, 1.6460975940481027e-06,
    -1.6350058779977262e-07, 1.4658107641239357e-08, -1.136655168754888e-09, 5.946764833724306e-11,
)  # fmt: skip
# (1 + 2x) erfcx(x) in t = (x - 3.5)/(x + 3.5), 0.49 <= x <= infinity. The map and the factor, after Shepherd and
# Laframboise (Math. Comp. 36, 1981), leave a function between 1.1 and 1.3 with small derivatives. So one polynomial
# suffices, and rounding in t hardly matters. Fit error 8e-18.
_ERFCX: Coefficients = (
    1.2423492448711544, -0.14000918013761915, -0.010555596332219551, 0.09751909515322472, -0.1150895981601103,
    0.08798315382608457, -0.04882332583005411, 0.01909933092229839, -0.00421501987779822,
    -0.00030226769496016054, 0.0005643841692404341, -0.00012151341886843474, -4.2780933328138354e-05,
    2.426436335976246e-05, 2.3239244624674393e-06, -3.821873835791195e-06, -3.468585639034925e-08,
    6.102334108528756e-07, -2.0866050541091756e-08, -1.0064548456554612e-07, 1.0464616618617538e-08,
    1.2883355943634765e-08, -3.2595102102405904e-09,
)  # fmt: skip


def _exp_square(x: Block, scale: float) -> Block:
    """Return exp(scale x**2) for |scale| <= 1, with a correction for the rounding error of x**2.

    x**2 near 700 is rounded by up to 6e-14, which exp turns into hundreds of ulp. Dekker's product gives that error
    exactly, and to first order it multiplies the result by 1 + scale * error. Beyond |x| = 40 every use has overflowed
    or underflowed, and stopping there keeps the product exact.
    """
    x = np.minimum(np.abs(x), 40.0)
    square = x * x
    high = x * 134217729.0  # 2**27 + 1: Veltkamp's split into halves of 26 bits
    high -= high - x
    low = x - high
    error = ((high * high - square) + 2.0 * high * low) + low * low
    error *= scale
    error += 1.0
    square *= scale
    return np.exp(square, out=square) * error


def _erfcx_far(x: Block) -> Block:
    """Return erfcx(x) for x >= 0.49."""
    t = 1.0 - 7.0 / (x + 3.5)  # (x - 3.5)/(x + 3.5), written so that infinity maps to 1
    return polynomial(_ERFCX, t) * 0.5 / (x + 0.5)


def _erf_near_zero(x: Block) -> Block:
    return x + x * polynomial(_ERF, x * x)


def _erfc_far(x: Block) -> Block:
    return _exp_square(x, -1.0) * _erfcx_far(x)


def _erf(x: Block) -> Block:
    def far(x: Block) -> Block:
        return np.copysign(1.0 - _erfc_far(np.abs(x)), x)

    return split(np.abs(x) < 1.0, _erf_near_zero, far, x)


def erf(x: ArrayLike) -> NDArray[Any]:
    """Return the error function. Error at most 1.2 ulp on [-6, 6].

    >>> float(erf(0.5).round(12))
    0.520499877813
    """
    return apply_kernel("erf", _erf, x)


def erfc_block(x: Block) -> Block:
    return split(x < 0.5, lambda x: 1.0 - _erf(x), _erfc_far, x)


def erfc(x: ArrayLike) -> NDArray[Any]:
    """Return 1 - erf(x), accurate for small results too. Error at most 4 ulp on [-6, 26.5].

    >>> f"{erfc(10.0):.12e}"
    '2.088487583763e-45'
    """
    return apply_kernel("erfc", erfc_block, x)


def erfcx(x: ArrayLike) -> NDArray[Any]:
    """Return exp(x**2) erfc(x). Error at most 2.6 ulp on [-26, 1e300].

    >>> float(erfcx(1e10).round(20))
    5.641895835e-11
    """

    def near(x: Block) -> Block:
        return _exp_square(x, 1.0) * (1.0 - _erf(x))

    return apply_kernel("erfcx", lambda x: split(x < 0.5, near, _erfcx_far, x), x)


def _ndtr_tail(x: Block) -> Block:
    """Return ndtr(-x) for x >= 0.7. x enters the exponential unscaled, because x/sqrt(2) would be rounded."""
    return 0.5 * _exp_square(x, -0.5) * _erfcx_far(x * _SQRT_HALF)


def _ndtr(x: Block) -> Block:
    def far(x: Block) -> Block:
        tail = _ndtr_tail(np.abs(x))
        return np.where(x > 0.0, 1.0 - tail, tail)

    return split(np.abs(x) < 0.7, lambda x: 0.5 + 0.5 * _erf_near_zero(x * _SQRT_HALF), far, x)


def ndtr(x: ArrayLike) -> NDArray[Any]:
    """Return the standard normal distribution function. Error at most 4.6 ulp on [-37, 10].

    >>> float(ndtr(0.0))
    0.5
    """
    return apply_kernel("ndtr", _ndtr, x)


def _log_ndtr_left(x: Block) -> Block:
    return np.log(0.5 * _erfcx_far(x * -_SQRT_HALF)) - 0.5 * x * x


def log_ndtr(x: ArrayLike) -> NDArray[Any]:
    """Return log(ndtr(x)) without underflow on the left or cancellation on the right.

    Error at most 5.2 ulp on [-1e150, 37].

    >>> float(log_ndtr(-1e4).round(6))
    -50000010.129279
    """

    def middle(x: Block) -> Block:
        return split(x < 0.0, lambda x: np.log(_ndtr(x)), lambda x: np.log1p(-_ndtr(-x)), x)

    return apply_kernel("log_ndtr", lambda x: split(x < -1.0, _log_ndtr_left, middle, x), x)


# erfinv(x)/x in 9/16 - x**2, |x| <= 3/4: from the right end all coefficients are positive. Fit error 1.1e-19.
_ERFINV: Coefficients = (
    1.0845597967968248, 7.256386619087259, 18.57033995129475, 22.793258684904167, 13.772303830085322,
    3.760611720546479, 0.3618734895165246, 0.005492813545459773,
)  # fmt: skip
_ERFINV_BELOW: Coefficients = (
    1.0, 7.209376514906623, 20.242957230708416, 27.98911373842194, 19.851258669411024, 6.8321807789996045,
    0.9613784980286751, 0.03511885691336211,
)  # fmt: skip
# s - erfcinv(y) for y <= 1/4, with s = sqrt(-log y), the variable of Giles (GPU Computing Gems 2, 2012): in
# s - 9/8 up to s = 5, then in s - 5 up to s = 27.3, which passes the smallest float64. Fit errors 7.2e-17 and
# 1.4e-15, of differences at most 0.45 and 0.05 of the result.
_ERFCINV_NEAR: Coefficients = (
    0.36436761303253107, 1.0614290028386164, 1.2740825733472712, 0.8032195611475667, 0.27450069225914137,
    0.04753282195273641, 0.003465697817839947, 7.280208167802015e-05, 7.547536168849552e-08,
)  # fmt: skip
_ERFCINV_NEAR_BELOW: Coefficients = (
    1.0, 2.921550471950051, 3.7483838406789878, 2.670193986954279, 1.116263054898542, 0.2669465531355164,
    0.03311905248642196, 0.0017432294654791153, 2.5354239929677124e-05,
)  # fmt: skip
_ERFCINV_FAR: Coefficients = (
    0.2206151413666643, 0.12967157222752695, 0.028708013023437902, 0.002991899370972843,
    0.00015088586064819308, 3.4275721351067196e-06, 2.8913195909093107e-08, 5.490969694780674e-11,
)  # fmt: skip
_ERFCINV_FAR_BELOW: Coefficients = (
    1.0, 0.6993729347781075, 0.19450696628453398, 0.027313166222747567, 0.0020394039272859615,
    7.860212685874626e-05, 1.4093249668933967e-06, 9.384489709119068e-09, 1.3088773170331899e-11,
)  # fmt: skip


def _erfinv_middle(x: Block) -> Block:
    return x * quotient(_ERFINV, _ERFINV_BELOW, 0.5625 - x * x)


def _erfcinv_small(y: Block) -> Block:
    """Return erfcinv(y) for 0 <= y <= 1/4; NaN for negative y."""
    s = np.sqrt(-np.log(y))
    value = s - split(
        s < 5.0,
        lambda s: quotient(_ERFCINV_NEAR, _ERFCINV_NEAR_BELOW, s - 1.125),
        lambda s: quotient(_ERFCINV_FAR, _ERFCINV_FAR_BELOW, s - 5.0),
        s,
    )
    return np.where(y == 0.0, np.inf, value)


def erfinv(x: ArrayLike) -> NDArray[Any]:
    """Return the inverse of erf on [-1, 1], infinite at the ends and NaN outside. Error at most 3.5 ulp.

    >>> float(erfinv(0.5).round(12))
    0.476936276204
    """

    def far(x: Block) -> Block:
        return np.copysign(_erfcinv_small(1.0 - np.abs(x)), x)

    return apply_kernel("erfinv", lambda x: split(np.abs(x) <= 0.75, _erfinv_middle, far, x), x)


def ndtri(p: ArrayLike) -> NDArray[Any]:
    """Return the inverse of ndtr on [0, 1], infinite at the ends and NaN outside.

    Error at most 4.7 ulp on [1e-300, 1].

    >>> float(ndtri(0.975).round(12))
    1.95996398454
    """

    def kernel(p: Block) -> Block:
        centred = p - 0.5

        def far(p: Block, centred: Block) -> Block:
            return np.copysign(_erfcinv_small(2.0 * np.minimum(p, 1.0 - p)), centred)

        def middle(p: Block, centred: Block) -> Block:
            return _erfinv_middle(2.0 * centred)

        return _SQRT_TWO * split(np.abs(centred) <= 0.375, middle, far, p, centred)

    return apply_kernel("ndtri", kernel, p)
