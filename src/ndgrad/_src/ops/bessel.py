r"""Bessel functions of orders 0 and 1.

The constraint: derivatives of any order must hold at 0 too. I1' = I0 - I1/x has a quotient at 0 that no mask makes
right for higher derivatives. But h_k(x) = I_k(x) / x^k is a power series in x^2, and h_k' = x h_(k+1). So the quotients
are an op, `bessel_ratio`, with the order as a setting. The functions of the second kind are singular at 0 and need no
such op.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgrad._src.arrays.precision import finfo
from ndgrad._src.ops.error_function import _special
from ndgrad._src.ops.gamma import real_function
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- quotients by powers of x ---------------------------------------------------------------------------------------

# Functions of order 0 and 1, the sign of the recurrence and of the series, and True for a factor exp(-|x|).
_KINDS = {"i": ("i0", "i1", 1.0, False), "ie": ("i0e", "i1e", 1.0, True), "j": ("j0", "j1", -1.0, False)}


def _bessel_ratio(np: Library, x: Payload, *, kind: str, order: int) -> Payload:
    r"""Return h_k = I_k / x^k (kind "i"), exp(-|x|) I_k / x^k ("ie") or J_k / x^k ("j") for k = `order` >= 1.

    With s = 1 for I and -1 for J, the recurrence over orders is h_(k+1) = s (h_(k-1) - 2k h_k) / x^2. It loses digits
    if |x| is small compared with k. There the series  h_k = 2^-k sum_j (s x^2 / 4)^j / (j! (j + k)!)  is used.
    """
    zeroth, first, sign, scaled = _KINDS[kind]
    if order == 1:
        # Zero to working precision: for subnormal numbers the quotient would have no digits.
        zero = np.abs(x) < math.sqrt(finfo(x.dtype).tiny)
        away = np.where(zero, 1.0, x)
        return np.where(zero, 0.5, _special(np, first)(away) / away)
    reach = 4.0 + 2 * order
    near = np.abs(x) < reach
    far = np.where(near, reach, x)
    low, high = _special(np, zeroth)(far), _special(np, first)(far) / far
    for k in range(1, order):
        low, high = high, (low - 2 * k * high) * sign / (far * far)
    small = np.where(near, x, 0.0)
    step = small * small * (sign / 4)
    series = np.ones_like(step)
    for j in range(20 + 4 * order, 0, -1):
        series = series * step / (j * (j + order)) + 1.0
    series = series * (0.5**order / math.factorial(order))
    return np.where(near, series * np.exp(-np.abs(small)) if scaled else series, high)


def _bessel_ratio_x(t: Payload, x: Payload, out: Payload, kind: str, order: int, ops: Vocabulary) -> Payload:
    """Return s x h_(k+1), minus sgn(x) h_k if there is a factor exp(-|x|)."""
    following = x * ops.bessel_ratio(x, kind=kind, order=order + 1)
    if kind == "ie":
        return t * (following - ops.sgn(x) * out)
    return t * (-following if kind == "j" else following)


bessel_ratio = elementwise("bessel_ratio", _bessel_ratio, settings={"kind": "i", "order": 1}, x=_bessel_ratio_x)

# ----- modified, first kind: plain, and times exp(-|x|), with slope 0 at its kink -------------------------------------



def _gap(x: Payload, ops: Vocabulary) -> Payload:
    """Return exp(-|x|) (I0(x) - I1(|x|)).

    Large arguments use the expansion of the quotient I1 / I0, because the two functions agree in ever more digits.
    """
    size = ops.abs(x)
    large = size > 1000.0
    r = 1.0 / ops.where(large, size, 1000.0)
    # Expansion: 1 - I1 / I0 = 1/(2x) + 1/(8x^2) + 1/(8x^3) + 25/(128x^4) + 13/(32x^5) + ...
    series = r * (0.5 + r * (0.125 + r * (0.125 + r * (0.1953125 + r * 0.40625))))
    return ops.where(large, ops.i0e(x) * series, ops.i0e(x) - ops.i1e(size))


def _i1_slope(x: Payload, ops: Vocabulary) -> Payload:
    """Return I0 - I1 / x, and infinity if both terms are infinite."""
    zeroth = ops.i0(x)
    return ops.where(zeroth == math.inf, math.inf, zeroth - ops.bessel_ratio(x, kind="i", order=1))


i0 = elementwise("i0", real_function("i0"), x=lambda t, x, ops: t * ops.i1(x))

i0e = elementwise(
    "i0e", real_function("i0e"),
    x=lambda t, x, ops: t * (ops.sgn(x) * -_gap(x, ops)),
    backward_name="SpecialI0EBackward0",
)  # fmt: skip

i1 = elementwise(
    "i1", real_function("i1"),
    x=lambda t, x, ops: t * _i1_slope(x, ops),
    backward_name="SpecialI1Backward0",
)  # fmt: skip

i1e = elementwise(
    "i1e", real_function("i1e"),
    x=lambda t, x, ops: t * (_gap(x, ops) - ops.bessel_ratio(x, kind="ie", order=1)),
    backward_name="SpecialI1EBackward0",
)  # fmt: skip

# ----- first and second kind ------------------------------------------------------------------------------------------

bessel_j0 = elementwise(
    "bessel_j0", real_function("j0", "bessel_j0"),
    x=lambda t, x, ops: t * -ops.bessel_j1(x),
)  # fmt: skip

bessel_j1 = elementwise(
    "bessel_j1", real_function("j1", "bessel_j1"),
    x=lambda t, x, ops: t * (ops.bessel_j0(x) - ops.bessel_ratio(x, kind="j", order=1)),
)  # fmt: skip

bessel_y0 = elementwise(
    "bessel_y0", real_function("y0", "bessel_y0"),
    x=lambda t, x, ops: t * -ops.bessel_y1(x),
)  # fmt: skip

bessel_y1 = elementwise(
    "bessel_y1", real_function("y1", "bessel_y1"),
    x=lambda t, x, out, ops: t * (ops.bessel_y0(x) - out / x),
)  # fmt: skip

# ----- modified, second kind: plain, and times exp(x) -----------------------------------------------------------------

modified_bessel_k0 = elementwise(
    "modified_bessel_k0", real_function("k0", "modified_bessel_k0"),
    x=lambda t, x, ops: t * -ops.modified_bessel_k1(x),
)  # fmt: skip

modified_bessel_k1 = elementwise(
    "modified_bessel_k1", real_function("k1", "modified_bessel_k1"),
    x=lambda t, x, out, ops: t * -(ops.modified_bessel_k0(x) + out / x),
)  # fmt: skip


def _scaled_gap(x: Payload, ops: Vocabulary) -> Payload:
    """Return exp(x) (K1(x) - K0(x)), as `_gap`: K1 / K0 - 1 = 1/(2x) - 1/(8x^2) + 1/(8x^3) - 25/(128x^4) + 13/(32x^5) -
    ...
    """
    large = x > 1000.0
    r = 1.0 / ops.where(large, x, 1000.0)
    series = r * (0.5 - r * (0.125 - r * (0.125 - r * (0.1953125 - r * 0.40625))))
    zeroth = ops.scaled_modified_bessel_k0(x)
    return ops.where(large, zeroth * series, ops.scaled_modified_bessel_k1(x) - zeroth)


scaled_modified_bessel_k0 = elementwise(
    "scaled_modified_bessel_k0", real_function("k0e", "scaled_modified_bessel_k0"),
    x=lambda t, x, ops: t * -_scaled_gap(x, ops),
)  # fmt: skip


def _scaled_k1_slope(x: Payload, ops: Vocabulary) -> Payload:
    """Return exp(x) (K1 - K0 - K1 / x). Near 0 the last term dominates, and must not meet another infinity."""
    quotient = ops.scaled_modified_bessel_k1(x) / x
    return ops.where(quotient == math.inf, -math.inf, _scaled_gap(x, ops) - quotient)


scaled_modified_bessel_k1 = elementwise(
    "scaled_modified_bessel_k1", real_function("k1e", "scaled_modified_bessel_k1"),
    x=lambda t, x, ops: t * _scaled_k1_slope(x, ops),
)  # fmt: skip
