"""Functions that are much cheaper if only single precision is needed.

NumPy's tanh and exp of float32 are vectorised and about forty times faster than SciPy's erf, so erf is built from tanh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ndgrad._typing import Payload

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


def erf(x: Payload) -> Payload:
    """Return the error function of a float32 array, to 3.1 ulp (largest seen on 450,000 points of -6 to 6 and near
    0).

    Minima are rarely needed, and finding the largest element first is six times faster than taking them.
    """
    s = x * x
    if s.size and s.max() > _LIMIT:
        np.minimum(s, _LIMIT, out=s)
    p = s * _P[0]
    for c in _P[1:-1]:
        p += c
        p *= s
    p += _P[-1]
    p *= x
    return np.tanh(p, out=p)
