"""The logarithm of the beta function, and the regularised incomplete gamma functions P and Q.

The constraint: no cancellation. Large terms of Stirling's form are combined before they are evaluated. The smaller of P
and Q is computed, and the other is its complement.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndgrad._src.arrays.special.blocks import Block, Coefficients, apply_kernel, polynomial, split
from ndgrad._src.arrays.special.error_function import erfc_block
from ndgrad._src.arrays.special.gamma_function import HALF_LOG_TWO_PI, lgamma_block, lgamma_of_one_plus, stirling_rest


def _betaln_far(small: Block, large: Block) -> Block:
    """Return log|B| for large >= 3 and small + large >= 3, where the plain sum of lgammas would cancel.

    With Stirling's form of lgamma(b) and lgamma(a + b) the large terms combine:
    lgamma(b) - lgamma(a + b) = -(b - 1/2) log1p(a/b) - a log(a + b) + a + rest(b) - rest(a + b).
    """
    total = small + large
    drop = stirling_rest(large) - stirling_rest(total) - (large - 0.5) * np.log1p(small / large)

    def both(small: Block, large: Block, total: Block, drop: Block) -> Block:
        # lgamma(a) - a log(a + b) + a, again with Stirling's form, so that a log a and a log(a + b) combine.
        ratio = (small - 0.5) * np.log(small / total) - 0.5 * np.log(total)
        return HALF_LOG_TWO_PI + stirling_rest(small) + ratio + drop

    def one(small: Block, large: Block, total: Block, drop: Block) -> Block:
        return lgamma_block(small) + (drop - small * (np.log(total) - 1.0))

    return split(small >= 3.0, both, one, small, large, total, drop)


def _betaln(small: Block, large: Block) -> Block:
    def near(small: Block, large: Block) -> Block:
        return lgamma_block(small) + lgamma_block(large) - lgamma_block(small + large)

    value = split((large >= 3.0) & (small + large >= 3.0), _betaln_far, near, small, large)
    return np.where(np.isposinf(large), np.copysign(np.inf, -small), value)


def _betaln_pole(small: Block, large: Block) -> Block:
    """Return log|B| at small = 0, -1, ...: infinite, unless gamma(small + large) has a pole too.

    Then reflection of both gammas gives |B| = B(1 - small - large, large).
    """
    mirrored = 1.0 - small - large
    meets = (large > 0.0) & (large == np.rint(large)) & (mirrored > 0.0) & np.isfinite(mirrored)
    value = np.where(np.isnan(large), np.nan, np.inf)
    value[meets] = _betaln(np.minimum(mirrored, large)[meets], np.maximum(mirrored, large)[meets])
    return value


def betaln(a: ArrayLike, b: ArrayLike) -> NDArray[Any]:
    """Return log|B(a, b)|.

    Error at most 8e-16 times max(1, |value|) for a, b in [1e-3, 1e6].

    >>> float(betaln(2.0, 3.0).round(12))
    -2.484906649788
    """

    def kernel(a: Block, b: Block) -> Block:
        small, large = np.minimum(a, b), np.maximum(a, b)
        return split((small <= 0.0) & (small == np.rint(small)), _betaln_pole, _betaln, small, large)

    return apply_kernel("betaln", kernel, a, b)


# Temme's expansion is used from this order on, and within this relative distance of x = a.
_TEMME_ORDER, _TEMME_WIDTH = 200.0, 0.3
_TEMME_LENGTHS = (15, 12, 10, 7, 5, 1)


@lru_cache(maxsize=1)
def _temme_coefficients() -> tuple[Coefficients, ...]:
    """Return Taylor coefficients in eta of the functions c_k in Temme's expansion (DLMF 8.12.9 to 8.12.14).

    The recurrences lose digits, so they run in exact fractions. The lengths omit terms below 1e-16 at a = 200 and |x -
    a| = 0.3 a.
    """
    length = _TEMME_LENGTHS[0] + 2 * len(_TEMME_LENGTHS)
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, length + 2):
        inner = sum((j * alpha[j] * alpha[n - j + 1] for j in range(2, n)), Fraction(0))
        alpha.append((alpha[n - 1] - inner) / (n + 1))
    first = [Fraction(-1, 3)] + [(n + 2) * alpha[n + 2] for n in range(1, length)]
    rows = [first]
    # These are the coefficients of Stirling's series for gamma itself, after the first one, which is 1.
    stirling = "1/12 1/288 -139/51840 -571/2488320 163879/209018880".split()
    for k, ratio in enumerate(stirling, start=1):
        above = rows[-1]
        factor = (-1) ** k * Fraction(ratio)
        rows.append([factor * first[n] + (n + 2) * above[n + 2] for n in range(len(above) - 2)])
    return tuple(tuple(map(float, row[:length])) for row, length in zip(rows, _TEMME_LENGTHS, strict=True))


def _log1p_excess(mu: Block) -> Block:
    """Return mu - log1p(mu) without cancellation near 0.

    With r = mu/(2 + mu), log1p(mu) = 2 atanh(r) = 2r + 2 r**3 (1/3 + r**2/5 + ...), and mu - 2r = mu r.
    """

    def near(mu: Block) -> Block:
        r = mu / (2.0 + mu)
        square = r * r
        return mu * r - 2.0 * r * square * polynomial([1.0 / (2 * k + 3) for k in range(14)], square)

    return split(np.abs(mu) < 0.4, near, lambda mu: mu - np.log1p(mu), mu)


def _power_over_gamma(a: Block, x: Block) -> Block:
    """Return x**a exp(-x) / gamma(a + 1)."""

    def small(a: Block, x: Block) -> Block:
        x = np.minimum(x, 1000.0)  # exp(-x) has underflowed long before, and x**a has not overflowed yet
        return np.power(x, a) * np.exp(-x) * np.exp(-lgamma_of_one_plus(a))

    def large(a: Block, x: Block) -> Block:
        # In Stirling's form a**a exp(-a) combines with x**a exp(-x). With mu = x/a - 1, exp(-a (mu - log1p(mu)))
        # remains.
        excess = np.where(x < 0.5 * a, x / a - 1.0 - np.log(x / a), _log1p_excess((x - a) / a))
        return np.exp(-a * excess - stirling_rest(a)) / np.sqrt(2.0 * np.pi * a)

    return split(a < 3.0, small, large, a, x)


def _lower_series(a: Block, x: Block) -> Block:
    """Return P(a, x) by its power series, for x no larger than about a or 1."""
    term = np.ones_like(x)
    total = np.ones_like(x)
    denominator = a.copy()
    while np.any(term > 1e-17 * total):
        denominator += 1.0
        term *= x / denominator
        total += term
    return total * _power_over_gamma(a, x)


def _upper_series(a: Block, x: Block) -> Block:
    """Return Q(a, x) for small a and x < 1, where P is near 1.

    The first term of P's alternating series is x**a / gamma(a + 1), which expm1 subtracts from 1 exactly:
    Q = -expm1(a log x - lgamma(a + 1)) - x**a / gamma(a) * sum over n >= 1 of (-x)**n / ((a + n) n!).
    """
    exponent = a * np.log(x) - lgamma_of_one_plus(a)
    term = np.ones_like(x)
    total = np.zeros_like(x)
    for n in range(1, 20):
        term *= x / -n
        total += term / (a + n)
    return -np.expm1(exponent) - a * np.exp(exponent) * total


def _upper_fraction(a: Block, x: Block) -> Block:
    """Return Q(a, x) for x > a and x >= 1: Legendre's continued fraction (DLMF 8.9.2), forward by Lentz's method."""
    b = x + 1.0 - a
    d = 1.0 / b
    c = np.full_like(x, np.inf)
    value = d.copy()
    for n in range(1, 1000):
        numerator = n * (a - n)
        b += 2.0
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        change = c * d
        value *= change
        if not np.any(np.abs(change - 1.0) > 1e-15):
            break
    return value * a * _power_over_gamma(a, x)


def _temme(a: Block, x: Block, upper: bool) -> Block:
    """Return P or Q near x = a for large a: an error function plus a uniform expansion in 1/a."""
    mu = (x - a) / a
    excess = _log1p_excess(mu)
    eta = np.copysign(np.sqrt(2.0 * excess), mu)
    rest = np.zeros_like(a)
    for row in reversed(_temme_coefficients()):
        rest /= a
        rest += polynomial(row, eta) if len(row) > 1 else row[0]
    rest *= np.exp(-a * excess) / np.sqrt(2.0 * np.pi * a)
    sign = 1.0 if upper else -1.0
    z = sign * eta * np.sqrt(0.5 * a)
    return 0.5 * erfc_block(z) + sign * rest


def _incomplete_gamma(a: Block, x: Block, upper: bool) -> Block:
    def fraction(a: Block, x: Block) -> Block:
        value = _upper_fraction(a, x)
        return value if upper else 1.0 - value

    def lower(a: Block, x: Block) -> Block:
        value = _lower_series(a, x)
        return 1.0 - value if upper else value

    def small(a: Block, x: Block) -> Block:
        # Roughly P > 1/2: Q is then the smaller of the two and must not come from 1 - P.
        mostly_lower = upper & (x < 1.0) & (a < np.where(x < 0.5, -0.4 / np.log(x), 1.1 * x))
        return split(mostly_lower, _upper_series, lower, a, x)

    def moderate(a: Block, x: Block) -> Block:
        return split((x >= 1.0) & (x > a), fraction, small, a, x)

    def regular(a: Block, x: Block) -> Block:
        central = (a > _TEMME_ORDER) & (np.abs(x - a) < _TEMME_WIDTH * a)
        return split(central, lambda a, x: _temme(a, x, upper), moderate, a, x)

    def boundary(a: Block, x: Block) -> Block:
        # All the mass is above x = 0 and below infinity; a = 0 puts it at 0, and a = infinity at infinity.
        below = np.where((a == 0.0) | np.isinf(x), 1.0, 0.0)
        undefined = np.isnan(a) | np.isnan(x) | (a < 0.0) | (x < 0.0)
        undefined |= ((a == 0.0) & (x == 0.0)) | (np.isinf(a) & np.isinf(x))
        return np.where(undefined, np.nan, 1.0 - below if upper else below)

    inside = (a > 0.0) & (x > 0.0) & np.isfinite(a) & np.isfinite(x)
    return split(inside, regular, boundary, a, x)


def gammainc(a: ArrayLike, x: ArrayLike) -> NDArray[Any]:
    """Return the regularised lower incomplete gamma function P(a, x).

    Relative error at most 3e-13 for a in [1e-3, 1e5] and values above 1e-280. It is largest far out in a tail, where
    exp(-a (x/a - 1 - log(x/a))) carries the rounding of its exponent.

    >>> float(gammainc(2.0, 1.0).round(12))
    0.264241117657
    """
    return apply_kernel("gammainc", lambda a, x: _incomplete_gamma(a, x, False), a, x)


def gammaincc(a: ArrayLike, x: ArrayLike) -> NDArray[Any]:
    """Return the regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    Relative error at most 3e-13 over the same range as gammainc's.

    >>> float(gammaincc(2.0, 1.0).round(12))
    0.735758882343
    """
    return apply_kernel("gammaincc", lambda a, x: _incomplete_gamma(a, x, True), a, x)
