"""Functions that are much cheaper if only single precision is needed.

NumPy's tanh and exp of float32 are vectorised and about forty times faster than SciPy's erf, so erf is built from tanh.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# erf(x) = tanh(x P(x^2)): atanh(erf(x)) / x is smooth and even, and tanh damps errors of P where it is flat. The
# coefficients are a weighted minimax fit over 0 < x < 4; beyond, erf is 1 to single precision.
_P = tuple(
    np.float32(c)
    for c in (
        5.42691522353526e-09, 2.743623895953342e-08, -4.793233890732068e-06, 8.459024977196972e-05,
        -0.0006148238611868189, -0.00019530340672573423, 0.1027698705288119, 1.1283792464995308,
    )
)  # fmt: skip
_LIMIT = np.float32(16)

# The same fit for the normal distribution function, (1 + erf(x / sqrt 2)) / 2, with the scale in the coefficients.
_NORMAL = tuple(np.float32(float(c) / 2 ** (len(_P) - 1 - i) / 2**0.5) for i, c in enumerate(_P))
_NORMAL_LIMIT = np.float32(32)
_HALF = np.float32(0.5)


def _tanh_of_odd(x: Any, coefficients: tuple[Any, ...], limit: Any) -> Any:
    """Return tanh(x P(min(x^2, limit))).

    Minima are rarely needed, and finding the largest element first is six times faster than taking them.
    """
    s = x * x
    if s.size and s.max() > limit:
        np.minimum(s, limit, out=s)
    p = s * coefficients[0]
    for c in coefficients[1:-1]:
        p += c
        p *= s
    p += coefficients[-1]
    p *= x
    return np.tanh(p, out=p)


def erf(x: Any) -> Any:
    """Return the error function of a float32 array, to 3.1 ulp (largest seen on 450,000 points of -6 to 6 and near
    0).
    """
    return _tanh_of_odd(x, _P, _LIMIT)


def normal_distribution(x: Any) -> Any:
    """Return the normal distribution function of a float32 array, to 2e-7."""
    out = _tanh_of_odd(x, _NORMAL, _NORMAL_LIMIT)
    out *= _HALF
    out += _HALF
    return out
