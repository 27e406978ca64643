"""Samplers that take a varying number of uniform numbers for each sample: Poisson, binomial and gamma numbers.

They make torch's choices in torch's order, sample by sample, so a seed gives torch's numbers. Each takes a function
that returns the next uniform number on [0, 1), in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Uniform = Callable[[], float]

# ----- Poisson --------------------------------------------------------------------------------------------------------


def poisson(rate: float, uniform: Uniform) -> float:
    """Return a Poisson number: by transformed rejection (Hoermann, 1993) for large rates, else as the number of
    arrivals before time one.
    """
    if rate >= 10:
        return _transformed_poisson(rate, uniform)
    if rate == 0:
        return 0
    end, count, product = math.exp(-rate), 0, uniform()
    while product > end:
        count += 1
        product *= uniform()
    return count


def _transformed_poisson(rate: float, uniform: Uniform) -> float:
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    log_inverse = math.log(1.1239 + 1.1328 / (b - 3.4))
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        if us == 0:  # torch's quotient by it is infinite, and the sample is rejected
            continue
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        if _log(v) + log_inverse - math.log(a / (us * us) + b) <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


# ----- binomial -------------------------------------------------------------------------------------------------------


def binomial(count: float, probability: float, uniform: Uniform, single: bool) -> float:
    """Return the number of successes: by transformed rejection if many are expected, else by the waiting times between
    them. `single` if the arguments are numbers of single precision, which round some products.
    """
    if math.isnan(count) or math.isnan(probability):
        return math.nan
    if count <= 0 or probability <= 0:
        return 0
    if probability >= 1:
        return count
    if probability > 0.5:
        other = float(np.float32(1) - np.float32(probability)) if single else 1 - probability
        return count - binomial(count, other, uniform, single)
    expected = _round_if(count * probability, single)
    if expected >= 10:
        return _transformed_binomial(count, probability, expected, uniform, single)
    total, successes, log_failure = 0.0, 0, math.log1p(-probability)
    while True:
        total += math.ceil(waiting) if (waiting := _log(uniform()) / log_failure) < math.inf else waiting
        if total > count:
            return successes
        successes += 1


def _round_if(x: float, single: bool) -> float:
    return float(np.float32(x)) if single else x


def _transformed_binomial(n: float, p: float, expected: float, uniform: Uniform, single: bool) -> float:
    """BTRS of Hoermann, "The generation of binomial random variates", 1993."""
    spread = math.sqrt(_round_if(expected * _round_if(1 - p, single), single))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = expected + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * spread
    m = math.floor((n + 1) * p)
    while True:
        u, v = uniform() - 0.5, uniform()
        us = 0.5 - abs(u)
        if us == 0:
            continue
        k = math.floor((2 * a / us + b) * u + centre)
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or k > n:
            continue
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * math.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _stirling_error(m)
            + _stirling_error(n - m)
            - _stirling_error(k)
            - _stirling_error(n - k)
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


_STIRLING_ERRORS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_error(k: float) -> float:
    """Return log k! minus Stirling's approximation at k + 1."""
    if k <= 9:
        return _STIRLING_ERRORS[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


# ----- gamma ----------------------------------------------------------------------------------------------------------

# torch's constants are numbers of single precision.
_THIRD, _SQUEEZE = float(np.float32(1) / np.float32(3)), float(np.float32(0.0331))


def gamma(shape: float, uniform: Uniform, normal: Callable[[], float], single: bool) -> float:
    """Return a gamma number of scale one (Marsaglia and Tsang, 2000). `single` if the shape has single precision."""
    scale = 1.0
    if not 1 <= shape < math.inf:  # a sample of shape + 1, times u^(1/shape)
        if not 0 < shape < 1:
            return shape if shape >= 0 else math.nan
        scale = (1 - uniform()) ** _round_if(1 / shape, single)
        shape = _round_if(shape + 1, single)
    d = _round_if(shape - _THIRD, single)
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = normal()
            y = 1 + c * x
        v, u, square = y * y * y, 1 - uniform(), x * x
        if u < 1 - _SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v
