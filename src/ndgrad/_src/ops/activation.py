"""Activation functions of neural networks.

The constraint: each op saves the same value as in torch (the output for sigmoid and relu, the input for the rest),
because a program that overwrites the other value must keep working. A slope of several steps is an op of its own and
runs in blocks like the function itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import float32_approximations, native_kernels
from ndgrad._src.arrays.blockwise import blockwise
from ndgrad._src.arrays.scalar_operands import Constants
from ndgrad._src.ops.error_function import _special
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- sigmoid and its inverse ----------------------------------------------------------------------------------------

# exp(x) overflows with a warning for x above these bounds, and the sigmoid is 1 there.
_SIGMOID = {"d": Constants(1.0, 709.0, -math.inf), "f": Constants(1.0, 88.0, -math.inf)}
_SMALL = {numpy.dtype(c): constants.typed[c] for c, constants in _SIGMOID.items()}


def _sigmoid(np: Library, x: Payload) -> Payload:
    """Return e / (1 + e) with e = exp(x): accurate for both signs, and free of overflow because x is bounded from
    above.
    """
    if x.__class__ is numpy.ndarray and x.ndim and x.size < native_kernels.SMALLEST:
        found = _SMALL.get(x.dtype)
        if found is not None:
            one, highest, _ = found
            e = numpy.minimum(x if x.flags.c_contiguous else x.copy(), highest)
            numpy.exp(e, e)
            return numpy.divide(e, e + one, e)
    return _large_sigmoid(np, x)


@blockwise("sigmoid")
def _large_sigmoid(np: Library, x: Payload) -> Payload:
    found = _SIGMOID.get(x.dtype.char)
    if found is None:  # integers, complex, ...
        with numpy.errstate(over="ignore", invalid="ignore"):
            return 1.0 / (1.0 + np.exp(-1.0 * x))
    one, highest, lowest = found(x)
    e = np.exp(x.clip(lowest, highest))
    return e / (e + one)


sigmoid = elementwise("sigmoid", _sigmoid, x=lambda t, out: t * (out - out * out), kind="saturating")


def _logit(np: Library, x: Payload, *, eps: float | None) -> Payload:
    refuse_complex("logit", x)
    if eps is not None:
        x = np.minimum(np.maximum(x, eps), 1 - eps)
    return np.log(x / (1.0 - x))


def _logit_x(t: Payload, x: Payload, eps: float | None, ops: Vocabulary) -> Payload:
    """Return 1 / (x (1 - x)): NaN outside [0, 1], and 0 for values that `eps` has clamped."""
    if eps is None:
        return ops.where((x < 0) | (x > 1), math.nan, t / (x - x * x))
    outside = (x < eps) | (x > 1 - eps)
    x = ops.where(outside, 0.5, x)  # the derivatives of the quotient must stay finite at masked positions too
    return ops.keep(t / (x - x * x), ~outside)


logit = elementwise("logit", _logit, settings={"eps": None}, x=_logit_x)


@blockwise("log_sigmoid")
def _log_sigmoid(np: Library, x: Payload) -> Payload:
    refuse_complex("log_sigmoid", x)
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


log_sigmoid = elementwise("log_sigmoid", _log_sigmoid, x=lambda t, x, ops: t * ops.sigmoid(-x), kind="saturating")


@blockwise("softplus")
def _softplus(np: Library, x: Payload, *, beta: float, threshold: float) -> Payload:
    z = x if beta == 1 else x * beta
    soft = np.log1p(np.exp(np.minimum(z, threshold)))
    return _override(np, soft if beta == 1 else soft / beta, z > threshold, x)


@blockwise("softplus_slope")
def _softplus_slope(np: Library, x: Payload, *, beta: float, threshold: float) -> Payload:
    z = x if beta == 1 else x * beta
    return _override(np, _sigmoid(np, z), z > threshold, 1.0)


def _override(np: Library, out: Payload, mask: Payload, value: Payload) -> Payload:
    """Set `out`, a fresh array, to `value` at the positions of the mask."""
    if out.__class__ is not numpy.ndarray:
        return np.where(mask, value, out)
    np.putmask(out, mask, value)
    return out


def _softplus_slope_x(t: Payload, x: Payload, beta: float, threshold: float, ops: Vocabulary) -> Payload:
    z = x * beta
    s = ops.sigmoid(z)
    return ops.keep(t * ((s - s * s) * beta), ~(z > threshold))


# log(1 + exp(beta x)) / beta, replaced by x itself when beta x exceeds the threshold.
softplus = elementwise(
    "softplus", _softplus, settings={"beta": 1.0, "threshold": 20.0},
    x=lambda t, x, beta, threshold, ops: t * ops.softplus_slope(x, beta=beta, threshold=threshold),
    kind="saturating",
)  # fmt: skip

softplus_slope = elementwise(
    "softplus_slope", _softplus_slope, settings={"beta": 1.0, "threshold": 20.0}, x=_softplus_slope_x, inplace=False
)

# ----- piecewise linear functions -------------------------------------------------------------------------------------


_FROM_ZERO = Constants(0.0, math.inf)


def _relu(np: Library, x: Payload) -> Payload:
    kind = x.dtype.kind
    if kind == "f":
        zero, infinity = _FROM_ZERO(x)
        # NumPy's maximum of an array and a number takes three times as long as clip.
        return np.maximum(x, zero) if x.size < 2048 else x.clip(zero, infinity)
    if kind == "b":
        raise RuntimeError(
            "relu(): Boolean inputs are not supported. Convert them to an integer or floating-point dtype first. "
            "[nd-dtype]"
        )
    refuse_complex("relu", x)
    return np.maximum(x, 0)


# The output of relu is positive, NaN or zero, so it determines the mask.
relu = elementwise(
    "relu", _relu,
    x=lambda t, out, ops: ops.keep(t, out),
    kind="rectifier", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip


def _slopes(np: Library, x: Payload, *, low: float) -> Payload:
    positive = x > 0
    if 0 <= low <= 1:
        return np.maximum(positive, low, dtype=x.dtype)
    return np.where(positive, np.asarray(1.0, x.dtype), low)


# 1 for x > 0, else `low`.
slopes = elementwise("slopes", _slopes, settings={"low": 0.0}, inplace=False)


def _leaky_relu(np: Library, x: Payload, *, negative_slope: float) -> Payload:
    small = x * negative_slope
    return np.maximum(x, small) if 0 <= negative_slope <= 1 else np.where(x > 0, x, small)


leaky_relu = elementwise(
    "leaky_relu", _leaky_relu, settings={"negative_slope": 0.01},
    x=lambda t, x, negative_slope, ops: t * ops.slopes(x, low=negative_slope),
    piecewise_linear=True,
)  # fmt: skip

hardtanh = elementwise(
    "hardtanh", lambda x, *, min_val, max_val: x.clip(min_val, max_val), settings={"min_val": -1.0, "max_val": 1.0},
    x=lambda t, x, min_val, max_val, ops: ops.keep(t, (x > min_val) & (x < max_val)),
    kind="clamp", piecewise_linear=True,
)  # fmt: skip

hardsigmoid = elementwise(
    "hardsigmoid", native_kernels.with_kernel("hardsigmoid")(lambda np, x: (x / 6.0 + 0.5).clip(0.0, 1.0)),
    x=lambda t, x, ops: ops.keep(t * (1 / 6), (x > -3.0) & (x < 3.0)),
    kind="clamp", piecewise_linear=True,
)  # fmt: skip

hardswish = elementwise(
    "hardswish", native_kernels.with_kernel("hardswish")(lambda np, x: x * (x / 6.0 + 0.5).clip(0.0, 1.0)),
    x=lambda t, x, ops: ops.where(x >= 3.0, t, ops.keep(t * (x / 3.0 + 0.5), ~(x <= -3.0))),
    kind="clamp",
)  # fmt: skip

threshold = elementwise(
    "threshold", lambda np, x, *, threshold, value: np.where(x <= threshold, value, x),
    settings={"threshold": 0.0, "value": 0.0},
    x=lambda t, x, threshold, ops: ops.keep(t, ~(x <= threshold)),
    kind="rectifier", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip


def _softshrink(x: Any, *, lambd: float) -> Any:
    refuse_complex("softshrink", x)
    return x - x.clip(-lambd, lambd)


softshrink = elementwise(
    "softshrink", _softshrink, settings={"lambd": 0.5},
    x=lambda t, x, lambd, ops: ops.keep(t, ops.abs(x) > lambd),
    kind="rectifier", piecewise_linear=True,
)  # fmt: skip

hardshrink = elementwise(
    "hardshrink", lambda np, x, *, lambd: np.where(np.abs(x) <= lambd, 0.0, x), settings={"lambd": 0.5},
    x=lambda t, x, lambd, ops: ops.keep(t, ops.abs(x) > lambd),
    kind="rectifier", piecewise_linear=True,
)  # fmt: skip

# ----- elu, selu, celu ------------------------------------------------------------------------------------------------


@blockwise("elu")
def _elu(np: Library, x: Payload, *, alpha: float, scale: float, input_scale: float) -> Payload:
    below = np.minimum(x, 0.0)
    below = np.expm1(below if input_scale == 1 else below * input_scale)
    above = np.maximum(x, 0.0)
    return (below if alpha * scale == 1 else below * (alpha * scale)) + (above if scale == 1 else above * scale)


def _elu_x(t: Payload, x: Payload, alpha: float, scale: float, input_scale: float, ops: Vocabulary) -> Payload:
    """Return `scale` above 0, and alpha scale input_scale exp(input_scale x) below it.

    The exponent is bounded by 0: an infinity in the unused branch would become NaN in the second derivative.
    """
    below = ops.clamp_max(x, 0.0)
    below = ops.exp(below if input_scale == 1 else below * input_scale)
    if alpha * input_scale == 1:  # the branches join smoothly
        return t * below if scale == 1 else t * (below * scale)
    return t * ops.where(x > 0, scale, below * (alpha * scale * input_scale))


# scale x above 0, scale alpha (exp(input_scale x) - 1) below. elu, selu and celu differ only in the constants.
elu = elementwise("elu", _elu, settings={"alpha": 1.0, "scale": 1.0, "input_scale": 1.0}, x=_elu_x)

# ----- gates: x times a smooth step -----------------------------------------------------------------------------------


@blockwise("silu")
def _silu(np: Library, x: Payload) -> Payload:
    return x * _sigmoid(np, x)


@blockwise("silu_slope")
def _silu_slope(np: Library, x: Payload) -> Payload:
    """Return s + x s (1 - s) with s = sigmoid(x)."""
    s = _sigmoid(np, x)
    return s + x * (s - s * s)


def _silu_slope_x(t: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return p (2 + x (1 - 2 s)) with p = s (1 - s): the slope is s + x p, and p' = p (1 - 2 s)."""
    s = ops.sigmoid(x)
    return t * ((s - s * s) * (x * (1.0 - (s + s)) + 2.0))


silu = elementwise("silu", _silu, x=lambda t, x, ops: t * ops.silu_slope(x))

silu_slope = elementwise("silu_slope", _silu_slope, x=_silu_slope_x, inplace=False)


@blockwise("mish")
def _mish(np: Library, x: Payload) -> Payload:
    return x * _mish_gate(np, x)


def _mish_gate(np: Library, x: Payload) -> Payload:
    """Return tanh(softplus(x)) = (u^2 - 1) / (u^2 + 1) with u = 1 + exp(x).

    The formula avoids the cancellation in u^2 - 1. It also avoids overflow, since the value is 1 within rounding from x
    = 20 on.
    """
    two, most = _MISH(x)
    e = np.exp(np.minimum(x, most))
    e = e * (e + two)
    return e / (e + two)


_MISH = Constants(2.0, 20.0)


@blockwise("mish_slope")
def _mish_slope(np: Library, x: Payload) -> Payload:
    """Return w + x w' with w = tanh(softplus(x)) and w' = (1 - w^2) sigmoid(x)."""
    w = _mish_gate(np, x)
    return w + x * (1.0 - w * w) * _sigmoid(np, x)


def _mish_slope_x(t: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return 2 w' + x w'' with w'' = (1 - w^2) s (1 - s - 2 w s)."""
    w, s = ops.tanh(ops.softplus(x, beta=1.0, threshold=20.0)), ops.sigmoid(x)
    return t * ((1.0 - w * w) * s * (x * (1.0 - s - w * s * 2.0) + 2.0))


mish = elementwise("mish", _mish, x=lambda t, x, ops: t * ops.mish_slope(x))

mish_slope = elementwise("mish_slope", _mish_slope, x=_mish_slope_x, inplace=False)

# gelu(x) = x P(x) with the normal distribution function P. The variant "tanh" approximates P by (1 + tanh u) / 2 with u
# = c (x + k x^3).
_C, _K, _DENSITY = math.sqrt(2 / math.pi), 0.044715, 1 / math.sqrt(2 * math.pi)
_GELU = Constants(1.0, 0.5, _C, _C * _K, 3 * _C * _K)
_NORMAL = Constants(0.5, -math.sqrt(0.5), -0.5, _DENSITY)


def _normal(np: Library, x: Payload) -> Payload:
    """Return P(x). Large single-precision arrays use a vectorised erf, which is much faster than SciPy's."""
    if x.dtype.char == "f" and x.size >= 256 and x.__class__ is numpy.ndarray:
        return float32_approximations.normal_distribution(x)
    half, root, _, _ = _NORMAL(x)
    return _special(np, "erfc")(x * root) * half


@blockwise("gelu")
def _gelu(np: Library, x: Payload, *, approximate: str) -> Payload:
    if approximate == "tanh":
        one, half, c, ck, _ = _GELU(x)
        return (np.tanh(x * (x * x * ck + c)) + one) * (x * half)
    return x * _normal(np, x)


@blockwise("gelu_slope")
def _gelu_slope(np: Library, x: Payload, *, approximate: str) -> Payload:
    """Return P + x p with p = P': the normal density, or (1 - tanh^2 u) u' / 2."""
    squared = x * x
    if approximate == "tanh":
        one, half, c, ck, ck3 = _GELU(x)
        w = np.tanh(x * (squared * ck + c))
        return ((one - w * w) * (x * (squared * ck3 + c)) + w + one) * half
    _, _, minus_half, density = _NORMAL(x)
    return _normal(np, x) + x * np.exp(squared * minus_half) * density


def _gelu_slope_x(t: Payload, x: Payload, approximate: str, ops: Vocabulary) -> Payload:
    """Return 2 p + x p'. For the normal density p' = -x p; for the approximation p' / p = u'' / u' - 2 u' tanh u."""
    squared = x * x
    if approximate != "tanh":
        return t * ((2.0 - squared) * ops.exp(squared * -0.5) * _DENSITY)
    w = ops.tanh(x * (squared * (_C * _K) + _C))
    du = squared * (3 * _C * _K) + _C
    return t * ((1.0 - w * w) * (du + x * (x * (3 * _C * _K) - du * du * w)))


gelu = elementwise(
    "gelu", _gelu, settings={"approximate": "none"},
    x=lambda t, x, approximate, ops: t * ops.gelu_slope(x, approximate=approximate),
)  # fmt: skip

gelu_slope = elementwise("gelu_slope", _gelu_slope, settings={"approximate": "none"}, x=_gelu_slope_x, inplace=False)

# ----- smooth signs ---------------------------------------------------------------------------------------------------


def _softsign(np: Library, x: Payload) -> Payload:
    refuse_complex("softsign", x)
    return x / (np.abs(x) + 1.0)


softsign = elementwise(
    "softsign", _softsign,
    x=lambda t, x, ops: t / ops.square(ops.abs(x) + 1.0),
)  # fmt: skip

tanhshrink = elementwise(
    "tanhshrink", lambda np, x: x - np.tanh(x),
    x=lambda t, x, ops: t * ops.square(ops.tanh(x)),
)  # fmt: skip
