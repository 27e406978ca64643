"""Orthogonal polynomials of integer degrees, with all their derivatives, by their recurrences.

Every family is p_0 = 1, p_1 = a1 x + b1 and p_(k+1) = (a x + b) p_k - c p_(k-1), with coefficients that depend on k.
Differentiated m times, this is again a recurrence,

    p_(k+1)^(m) = (a x + b) p_k^(m) + m a p_k^(m-1) - c p_(k-1)^(m),

so the number of derivatives is a setting, and the rule is the op with one more derivative. Polynomials of real degrees
are in `hypergeometric`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: The largest degree that is computed.
_HIGHEST = 10_000_000

_Coefficients = Callable[[int], tuple[float, float, float]]


def _chebyshev(k: int) -> tuple[float, float, float]:
    return 2.0, 0.0, 1.0


#: Maps each family to (a1, b1) and to the function of k that returns (a, b, c).
FAMILIES: dict[str, tuple[tuple[float, float], _Coefficients]] = {
    "chebyshev_t": ((1.0, 0.0), _chebyshev),
    "chebyshev_u": ((2.0, 0.0), _chebyshev),
    "chebyshev_v": ((2.0, -1.0), _chebyshev),
    "chebyshev_w": ((2.0, 1.0), _chebyshev),
    "hermite_h": ((2.0, 0.0), lambda k: (2.0, 0.0, 2.0 * k)),
    "hermite_he": ((1.0, 0.0), lambda k: (1.0, 0.0, float(k))),
    "laguerre_l": ((-1.0, 1.0), lambda k: (-1.0 / (k + 1), (2.0 * k + 1.0) / (k + 1), k / (k + 1))),
    "legendre_p": ((1.0, 0.0), lambda k: ((2.0 * k + 1.0) / (k + 1), 0.0, k / (k + 1))),
}


def _polynomial(np: Library, x: Payload, degree: Payload, *, family: str, derivatives: int) -> Payload:
    """Return the given derivative of the polynomials, with degrees truncated to integers.

    The result is 0 for negative degrees, and NaN beyond 2^53, above which floats no longer represent every integer.
    """
    x, degree = as_operands(np, x, degree)
    if not is_inexact(np.result_type(x, degree)):
        x = np.asarray(x, np.float64)
    endless = degree > 2.0**53
    x, n = np.broadcast_arrays(x, np.where((degree == degree) & ~endless, np.trunc(degree), -1))
    (a1, b1), coefficients = FAMILIES[family]
    one, zero = np.ones_like(x), np.zeros_like(x)
    before = [one, *(zero,) * derivatives]
    last = [a1 * x + b1, a1 * one, *(zero,) * derivatives][: derivatives + 1]
    out = np.where(n == 0, before[-1], np.where(n == 1, last[-1], zero))
    top = float(n.max()) if n.size else 0.0
    if top > _HIGHEST:
        raise ValueError(
            f"{family}: a polynomial of degree {top:g} was asked for, which takes as many steps. "
            f"Ask for degrees up to {_HIGHEST}. [nd-range]"
        )
    for k in range(1, int(top)):
        a, b, c = coefficients(k)
        factor = a * x + b
        last, before = (
            [
                factor * p - c * q + (m * a * last[m - 1] if m else 0.0)
                for m, (p, q) in enumerate(zip(last, before, strict=True))
            ],
            last,
        )
        out = np.where(n == k + 1, last[-1], out)
    return np.where(endless, np.full_like(out, math.nan), out)


def _slope(t: Payload, x: Payload, degree: Payload, family: str, derivatives: int, ops: Vocabulary) -> Any:
    return t * ops.orthogonal_polynomial(x, degree, family=family, derivatives=derivatives + 1)


# The degree is truncated to an integer, so the derivative in it is 0.
orthogonal_polynomial = elementwise(
    "orthogonal_polynomial", _polynomial, args="x degree",
    settings={"family": "chebyshev_t", "derivatives": 0},
    x=_slope,
    degree=lambda t, ops: ops.zeros_like(t),
    inplace=False, memory_order="C",
)  # fmt: skip
