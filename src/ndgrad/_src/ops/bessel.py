r"""Bessel functions of orders 0 and 1.

The constraint: derivatives must hold at 0 too, to any order. I1' = I0 - I1/x has a quotient there that no mask
makes right for the derivatives after it; but h_k(x) = I_k(x) / x^k is a power series in x^2, and h_k' = x h_(k+1).
So the quotients are an op, `bessel_ratio`, with the order as a setting. The functions of the second kind are
singular at 0, and need none of this.
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

# Functions of order 0 and 1, the sign of the recurrence and of the series, and whether exp(-|x|) is a factor.
_KINDS = {"i": ("i0", "i1", 1.0, False), "ie": ("i0e", "i1e", 1.0, True), "j": ("j0", "j1", -1.0, False)}


def _bessel_ratio(np: Library, x: Payload, *, kind: str, order: int) -> Payload:
    r"""h_k = I_k / x^k (kind "i"), exp(-|x|) I_k / x^k ("ie") or J_k / x^k ("j"), for k = `order` of 1 or more.

    With s = 1 for I and -1 for J, the recurrence over orders is h_(k+1) = s (h_(k-1) - 2k h_k) /
    x^2, which loses digits where
    |x| is small beside k; there the series  h_k = 2^-k sum_j (s x^2 / 4)^j / (j! (j + k)!)  takes over.
    """
    zeroth, first, sign, scaled = _KINDS[kind]
    if order == 1:
        # to working precision: of subnormal numbers the quotient would have no digits
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
    """h_k' = s x h_(k+1), and less sgn(x) h_k with the factor exp(-|x|)."""
    following = x * ops.bessel_ratio(x, kind=kind, order=order + 1)
    if kind == "ie":
        return t * (following - ops.sgn(x) * out)
    return t * (-following if kind == "j" else following)


bessel_ratio = elementwise("bessel_ratio", _bessel_ratio, settings={"kind": "i", "order": 1}, x=_bessel_ratio_x)

# ----- modified, first kind: plain, and times exp(-|x|), whose kink at 0 counts as level ------------------------------



def _gap(x: Payload, ops: Vocabulary) -> Payload:
    """exp(-|x|) (I0(x) - I1(|x|)): of large numbers by the expansion of the quotient I1 / I0, since the two
    agree in ever more digits."""
    size = ops.abs(x)
    large = size > 1000.0
    r = 1.0 / ops.where(large, size, 1000.0)
    # 1 - I1 / I0 = 1/(2x) + 1/(8x^2) + 1/(8x^3) + 25/(128x^4) + 13/(32x^5) + ...
    series = r * (0.5 + r * (0.125 + r * (0.125 + r * (0.1953125 + r * 0.40625))))
    return ops.where(large, ops.i0e(x) * series, ops.i0e(x) - ops.i1e(size))


def _i1_slope(x: Payload, ops: Vocabulary) -> Payload:
    """I0 - I1 / x, which is infinite where both are."""
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
    """exp(x) (K1(x) - K0(x)), as `_gap`: K1 / K0 - 1 = 1/(2x) - 1/(8x^2) + 1/(8x^3) - 25/(128x^4) + 13/(32x^5) - ..."""
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
    """exp(x) (K1 - K0 - K1 / x); near 0 the last term decides, and must not meet another infinity."""
    quotient = ops.scaled_modified_bessel_k1(x) / x
    return ops.where(quotient == math.inf, -math.inf, _scaled_gap(x, ops) - quotient)


scaled_modified_bessel_k1 = elementwise(
    "scaled_modified_bessel_k1", real_function("k1e", "scaled_modified_bessel_k1"),
    x=lambda t, x, ops: t * _scaled_k1_slope(x, ops),
)  # fmt: skip
