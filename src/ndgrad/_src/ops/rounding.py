"""Functions that are constant between jumps, or have slope one there: rounding, signs, steps.

Their derivative is 0 or 1 wherever it exists, and has the same value at the jumps. They stay differentiable ops, as in
torch: the gradient is an array of zeros, not a missing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.arrays.precision import FLOATING, INEXACT, finfo, is_half, round_to, widen
from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.ops.composite import composite_elementwise
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- rounding to integers -------------------------------------------------------------------------------------------


def _round_decimals(np: Library, x: Payload, *, decimals: int) -> Payload:
    if decimals == 0 and x.dtype.kind in FLOATING:
        return np.rint(x)
    # An output array keeps the memory order; NumPy's own result is in C order.
    return np.round(x, decimals, np.empty_like(x) if x.dtype.kind in INEXACT and x.ndim > 1 else None)


round = elementwise("round", _round_decimals, settings={"decimals": 0}, x=lambda t, ops: ops.zeros_like(t),
    kind="step", piecewise_linear=True, moves_values=True)

# Integers stay as they are, which NumPy 2.0 does not support yet.
floor = elementwise(
    "floor",
    lambda np, x: np.array(x) if x.dtype.kind in "iub" else np.floor(x),
    x=lambda t, ops: ops.zeros_like(t),
    kind="step",
    piecewise_linear=True,
    moves_values=True,
)

ceil = elementwise(
    "ceil",
    lambda np, x: np.array(x) if x.dtype.kind in "iub" else np.ceil(x),
    x=lambda t, ops: ops.zeros_like(t),
    kind="step",
    piecewise_linear=True,
    moves_values=True,
)

trunc = elementwise(
    "trunc",
    lambda np, x: np.array(x) if x.dtype.kind in "iub" else np.trunc(x),
    x=lambda t, ops: ops.zeros_like(t),
    kind="step",
    piecewise_linear=True,
    moves_values=True,
)

frac = composite_elementwise("frac", lambda x, ops: x - ops.trunc(x), x=lambda t: t, piecewise_linear=True)

# ----- signs and steps ------------------------------------------------------------------------------------------------

sign = elementwise(
    "sign", "sign", x=lambda t, ops: ops.zeros_like(t), kind="step", piecewise_linear=True, moves_values=True
)

# The slope is the product of the two signs, and 0 at x = 0, where the function jumps or has a kink.
copysign = elementwise(
    "copysign", "copysign", args="x y",
    x=lambda t, x, out, ops: t * (ops.sgn(x) * ops.sgn(out)),
    y=lambda t, ops: ops.zeros_like(t),
    piecewise_linear=True,
    moves_values=True,
)  # fmt: skip


def _heaviside(np: Library, x: Payload, values: Payload) -> Payload:
    x, values = as_operands(np, x, values)
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


heaviside = elementwise(
    "heaviside", _heaviside, args="x values",
    x=lambda t, ops: ops.zeros_like(t),
    values=lambda t, x, ops: ops.keep(t, x == 0),
    kind="step", piecewise_linear=True, moves_values=True,
)  # fmt: skip

# ----- numbers of few bits --------------------------------------------------------------------------------------------


def _level(x: Payload, inverse: Payload, zero_point: Payload, adds: str, ops: Vocabulary) -> Payload:
    """Return the integer that represents x. A zero point that need not be an integer is added before rounding."""
    if adds == "before rounding":
        return ops.round(x * inverse + zero_point, decimals=0)
    return ops.round(x * inverse, decimals=0) + zero_point


def _fake_quantize(
    x: Payload, scale: Payload, inverse: Payload, zero_point: Payload, quant_min: int, quant_max: int, adds: str,
    ops: Vocabulary,
) -> Payload:  # fmt: skip
    level = _level(x, inverse, zero_point, adds, ops)
    # The comparison is false for NaN, which becomes the lowest number, as in torch.
    return (ops.where(level > quant_min, ops.minimum(level, quant_max), quant_min) - zero_point) * scale


def _fake_quantize_x(
    t: Payload, x: Payload, inverse: Payload, zero_point: Payload, quant_min: int, quant_max: int, adds: str,
    ops: Vocabulary,
) -> Payload:  # fmt: skip
    """Pass the gradient on as if nothing were rounded, if x lies inside the range."""
    level = _level(x, inverse, zero_point, adds, ops)
    return ops.keep(t, (level >= quant_min) & (level <= quant_max))


# x after a round trip through integers: clamp(round(x / scale) + zero_point) without the offset, times scale. `inverse`
# is 1 / scale. The numbers are settings for a whole tensor, and arguments, which broadcast, for channels.
_LEVELS = {"quant_min": 0, "quant_max": 255, "adds": "after rounding"}
fake_quantize_per_tensor_affine = composite_elementwise(
    "fake_quantize_per_tensor_affine", _fake_quantize,
    settings={"scale": 1.0, "inverse": 1.0, "zero_point": 0, **_LEVELS},
    x=_fake_quantize_x,
    backward_name="FakeQuantizePerTensorAffineCachemaskBackward0",
    kind="step",
    inplace=False,
    refuses_complex=True,
)  # fmt: skip
fake_quantize_per_channel_affine = composite_elementwise(
    "fake_quantize_per_channel_affine", _fake_quantize, args="x scale inverse zero_point",
    settings=_LEVELS,
    x=_fake_quantize_x,
    backward_name="FakeQuantizePerChannelAffineCachemaskBackward0",
    kind="step",
    inplace=False,
    refuses_complex=True,
)  # fmt: skip

# ----- neighbours and repairs -----------------------------------------------------------------------------------------

nextafter = elementwise(
    "nextafter", "nextafter", args="x y",
    x=lambda t, x, y, ops: ops.keep(t, x != y),
    y=lambda t, ops: ops.zeros_like(t),
    piecewise_linear=True,
)  # fmt: skip


def _nan_to_num(np: Library, x: Payload, *, nan: float, posinf: float | None, neginf: float | None) -> Payload:
    if is_half(x.dtype):  # the limits of half precision, not of the wider dtype used for computing
        largest = float(finfo(x.dtype).max)
        posinf, neginf = largest if posinf is None else posinf, -largest if neginf is None else neginf
        return round_to(np.nan_to_num(widen(x), nan=nan, posinf=posinf, neginf=neginf), x.dtype)
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


# Replaced values no longer depend on x.
nan_to_num = elementwise(
    "nan_to_num", _nan_to_num, settings={"nan": 0.0, "posinf": None, "neginf": None},
    x=lambda t, x, ops: ops.keep(t, ops.isfinite(x)),
    halves=True,
    piecewise_linear=True,
)  # fmt: skip

# ----- exponents ------------------------------------------------------------------------------------------------------

# The exponent e for which x / 2^e is at least a half and less than one in size; 0 for numbers without one.
binary_exponent = elementwise("binary_exponent", lambda np, x: np.frexp(x)[1], inplace=False)
