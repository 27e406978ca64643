"""Modified Bessel functions of the first kind, of orders 0 and 1, plain and scaled by exp(-|x|).

The constraint: the plain functions overflow at 714, the scaled ones never. So both are built from the form that suits
the region: the power series near zero and the scaled expansion beyond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndgrad._src.arrays.special.blocks import Block, Coefficients, apply_kernel, polynomial, split

# I0(x) and 2 I1(x)/x in x**2/4, |x| <= 8: close to the power series, whose terms are all positive. Fit errors 8.7e-19,
# 1.4e-19.
_I0: Coefficients = (
    1.0, 1.0, 0.2499999999999996, 0.027777777777778904, 0.0017361111111094283, 6.944444444591067e-05,
    1.9290123448664943e-06, 3.936759919419859e-08, 6.151186540075534e-10, 7.594073000025128e-12,
    7.593863873129908e-14, 6.277954362487722e-16, 4.3455415085554394e-18, 2.6399275136870494e-20,
    1.1268753635723126e-22, 9.201851800007718e-25,
)  # fmt: skip
_I1: Coefficients = (
    1.0, 0.5, 0.08333333333333329, 0.006944444444444561, 0.0003472222222220626, 1.1574074074203053e-05,
    2.7557319217291517e-07, 4.920949884992797e-09, 6.834652002692812e-11, 7.594068759043195e-13,
    6.903556760490758e-15, 5.2313025754640505e-17, 3.344391126086751e-19, 1.8800574568791715e-21,
    7.623963323872577e-24, 5.651883405432457e-26,
)  # fmt: skip
# exp(-x) sqrt(x) I(x) in 16/x - 1, x >= 8. Fit errors 2.5e-17, 2.7e-17.
_I0_FAR: Coefficients = (
    0.4021765094450081, 0.0033605519836677937, 0.00013621607438973706, 1.1143033797332976e-05,
    1.4838476720772609e-06, 2.973596813458432e-07, 8.87202078423279e-08, 3.932809899116633e-08,
    2.1567526180440596e-08, 7.538864153776416e-09, -6.8560814684611036e-09, -1.334141045016812e-08,
    -5.016334422510992e-09, 7.368476391959992e-09, 6.515681716209142e-09, -3.1780692921459393e-09,
    -4.517923271117737e-09, 1.1405586436533401e-09, 2.150937996123038e-09, -2.9654045304541874e-10,
    -6.427789425174567e-10, 3.945615356646087e-11, 8.970774945075586e-11,
)  # fmt: skip
_I1_FAR: Coefficients = (
    0.38939845902587233, -0.009749577193235675, -0.0002192357638316016, -1.5038547206184017e-05,
    -1.8349102432571357e-06, -3.48385420133335e-07, -1.0001081429219993e-07, -4.313116911408773e-08,
    -2.3393832853712616e-08, -8.413714294042561e-09, 6.847163285445445e-09, 1.3973997021539559e-08,
    5.570688136624114e-09, -7.477312871968924e-09, -6.9374966472591485e-09, 3.130918503264308e-09,
    4.750471256316413e-09, -1.0955168342026252e-09, -2.249012472006579e-09, 2.7989807148113277e-10,
    6.70225320188625e-10, -3.6879139605777256e-11, -9.339715691718666e-11,
)  # fmt: skip


def _i0_near(x: Block) -> Block:
    return polynomial(_I0, 0.25 * x * x)


def _i1_near(x: Block) -> Block:
    return 0.5 * x * polynomial(_I1, 0.25 * x * x)


def _bessel_far(coefficients: Coefficients, x: Block) -> Block:
    """Return exp(-x) I(x) for x >= 8."""
    return polynomial(coefficients, 16.0 / x - 1.0) / np.sqrt(x)


def _bessel_grown(coefficients: Coefficients, x: Block) -> Block:
    """Return I(x) for x >= 8. exp has two factors because exp(x) overflows before I(x) does; by 1000 both have
    overflowed.
    """
    x = np.minimum(x, 1000.0)
    half = np.exp(0.5 * x)
    return half * _bessel_far(coefficients, x) * half


def i0(x: ArrayLike) -> NDArray[Any]:
    """Return the modified Bessel function I0. Error at most 4.1 ulp on [-700, 700].

    >>> float(i0(1.0).round(12))
    1.266065877752
    """

    def kernel(x: Block) -> Block:
        size = np.abs(x)
        return split(size < 8.0, _i0_near, lambda size: _bessel_grown(_I0_FAR, size), size)

    return apply_kernel("i0", kernel, x)


def i0e(x: ArrayLike) -> NDArray[Any]:
    """Return exp(-|x|) I0(x). Error at most 4 ulp on [-1e300, 1e300].

    >>> float(i0e(1.0).round(12))
    0.465759607594
    """

    def near(size: Block) -> Block:
        return np.exp(-size) * _i0_near(size)

    def kernel(x: Block) -> Block:
        size = np.abs(x)
        return split(size < 8.0, near, lambda size: _bessel_far(_I0_FAR, size), size)

    return apply_kernel("i0e", kernel, x)


def i1(x: ArrayLike) -> NDArray[Any]:
    """Return the modified Bessel function I1. Error at most 4 ulp on [-700, 700].

    >>> float(i1(1.0).round(12))
    0.565159103992
    """

    def far(x: Block) -> Block:
        return np.copysign(_bessel_grown(_I1_FAR, np.abs(x)), x)

    return apply_kernel("i1", lambda x: split(np.abs(x) < 8.0, _i1_near, far, x), x)


def i1e(x: ArrayLike) -> NDArray[Any]:
    """Return exp(-|x|) I1(x). Error at most 3.5 ulp on [-1e300, 1e300].

    >>> float(i1e(1.0).round(12))
    0.20791041535
    """

    def near(x: Block) -> Block:
        return np.exp(-np.abs(x)) * _i1_near(x)

    def far(x: Block) -> Block:
        return np.copysign(_bessel_far(_I1_FAR, np.abs(x)), x)

    return apply_kernel("i1e", lambda x: split(np.abs(x) < 8.0, near, far, x), x)
