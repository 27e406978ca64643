"""Activation functions of neural networks.

The constraint: each op saves the same value as in torch (the output for sigmoid and relu, the input for the rest),
because a program that overwrites the other value must keep working. A slope of several steps is an op of its own and
runs in blocks like the function itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.blockwise import blockwise
from ndgrad._src.arrays.scalar_operands import Constants
from ndgrad._src.ops.composite import composite, composite_elementwise, fused_rule
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.table import elementwise
from ndgrad._src.ops.vocabulary import raw_ops

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


sigmoid = elementwise("sigmoid", _sigmoid, x=lambda t, out: t * (out - out * out), kind="saturating", memory_order="C")


def _logit(x: Payload, eps: float | None, ops: Vocabulary) -> Payload:
    if eps is not None:
        x = ops.minimum(ops.maximum(x, eps), 1 - eps)
    return ops.log(x / (1.0 - x))


def _logit_x(t: Payload, x: Payload, eps: float | None, ops: Vocabulary) -> Payload:
    """Return 1 / (x (1 - x)): NaN outside [0, 1], and 0 for values that `eps` has clamped."""
    if eps is None:
        return ops.where((x < 0) | (x > 1), math.nan, t / (x - x * x))
    outside = (x < eps) | (x > 1 - eps)
    x = ops.where(outside, 0.5, x)  # the derivatives of the quotient must stay finite at masked positions too
    return ops.keep(t / (x - x * x), ~outside)


logit = composite_elementwise("logit", _logit, settings={"eps": None}, x=_logit_x, refuses_complex=True)


log_sigmoid = composite_elementwise(
    "log_sigmoid",
    lambda x, ops: ops.minimum(x, 0.0) - ops.log1p(ops.exp(-ops.abs(x))),
    x=lambda t, x, ops: t * ops.sigmoid(-x),
    kind="saturating",
    refuses_complex=True,
)


def _softplus(x: Payload, beta: float, threshold: float, ops: Vocabulary) -> Payload:
    z = x if beta == 1 else x * beta
    soft = ops.log1p(ops.exp(ops.minimum(z, threshold)))
    return ops.where(z > threshold, x, soft if beta == 1 else soft / beta)


def _softplus_slope(x: Payload, beta: float, threshold: float, ops: Vocabulary) -> Payload:
    z = x if beta == 1 else x * beta
    return ops.where(z > threshold, 1.0, ops.sigmoid(z))


def _softplus_slope_x(t: Payload, x: Payload, beta: float, threshold: float, ops: Vocabulary) -> Payload:
    z = x * beta
    s = ops.sigmoid(z)
    return ops.keep(t * ((s - s * s) * beta), ~(z > threshold))


# log(1 + exp(beta x)) / beta, replaced by x itself when beta x exceeds the threshold.
softplus = composite_elementwise(
    "softplus", _softplus, settings={"beta": 1.0, "threshold": 20.0},
    x=lambda t, x, beta, threshold, ops: t * ops.softplus_slope(x, beta=beta, threshold=threshold),
    kind="saturating",
)  # fmt: skip

softplus_slope = composite_elementwise(
    "softplus_slope",
    _softplus_slope,
    settings={"beta": 1.0, "threshold": 20.0},
    x=_softplus_slope_x,
    inplace=False,
    memory_order="C",
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
    moves_values=True, cost=1, rises_in="x",
)  # fmt: skip


def _slopes(np: Library, x: Payload, *, low: float) -> Payload:
    positive = x > 0
    if 0 <= low <= 1:
        return np.maximum(positive, low, dtype=x.dtype)
    return np.where(positive, np.asarray(1.0, x.dtype), low)


# 1 for x > 0, else `low`.
slopes = elementwise("slopes", _slopes, settings={"low": 0.0}, inplace=False)


def _leaky_relu(np: Library, x: Payload, *, negative_slope: float) -> Payload:
    """Compute the body for small arrays with one comparison less, for the usual slopes."""
    if 0 <= negative_slope <= 1 and x.size < native_kernels.SMALLEST:
        return np.maximum(x, x * negative_slope)
    return _large_leaky_relu(np, x, negative_slope=negative_slope)


@blockwise("leaky_relu")
def _large_leaky_relu(np: Library, x: Payload, *, negative_slope: float) -> Payload:
    small = x * negative_slope
    return np.maximum(x, small) if 0 <= negative_slope <= 1 else np.where(x > 0, x, small)


leaky_relu = composite_elementwise(
    "leaky_relu",
    lambda x, negative_slope, ops: ops.where(x > 0, x, x * negative_slope),
    settings={"negative_slope": 0.01},
    kernel=_leaky_relu,
    x=lambda t, x, negative_slope, ops: t * ops.slopes(x, low=negative_slope),
    piecewise_linear=True,
)


@fused_rule("t x weight")
def _prelu_x(t: Payload, x: Payload, weight: Payload, ops: Vocabulary) -> Payload:
    return ops.where(x > 0, t, t * weight)


# leaky_relu with slopes that are parameters. Its pieces are products of both arguments, so they are not linear.
prelu = composite_elementwise(
    "prelu",
    lambda x, weight, ops: ops.where(x > 0, x, x * weight),
    args="x weight",
    refuses_complex=True,
    x=_prelu_x,
    weight=lambda t, x, ops: ops.keep(t * x, ~(x > 0)),
    inplace=False,
    backward_name="PreluKernelBackward0",
)

hardtanh = elementwise(
    "hardtanh", lambda x, *, min_val, max_val: x.clip(min_val, max_val), settings={"min_val": -1.0, "max_val": 1.0},
    x=lambda t, x, min_val, max_val, ops: ops.keep(t, (x > min_val) & (x < max_val)),
    kind="clamp", piecewise_linear=True,
)  # fmt: skip

hardsigmoid = composite_elementwise(
    "hardsigmoid",
    lambda x, ops: ops.minimum(ops.maximum(x / 6.0 + 0.5, 0.0), 1.0),
    x=lambda t, x, ops: ops.keep(t * (1 / 6), (x > -3.0) & (x < 3.0)),
    kind="clamp", piecewise_linear=True,
)  # fmt: skip

hardswish = composite_elementwise(
    "hardswish",
    lambda x, ops: x * ops.hardsigmoid(x),
    x=lambda t, x, ops: ops.where(x >= 3.0, t, ops.keep(t * (x / 3.0 + 0.5), ~(x <= -3.0))),
    kind="clamp",
)  # fmt: skip

threshold = composite_elementwise(
    "threshold", lambda x, threshold, value, ops: ops.where(x <= threshold, value, x),
    settings={"threshold": 0.0, "value": 0.0},
    x=lambda t, x, threshold, ops: ops.keep(t, ~(x <= threshold)),
    kind="rectifier", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip


softshrink = composite_elementwise(
    "softshrink",
    lambda x, lambd, ops: x - ops.minimum(ops.maximum(x, -lambd), lambd),
    settings={"lambd": 0.5},
    x=lambda t, x, lambd, ops: ops.keep(t, ops.abs(x) > lambd),
    kind="rectifier", piecewise_linear=True,
    refuses_complex=True,
)  # fmt: skip

hardshrink = composite_elementwise(
    "hardshrink",
    lambda x, lambd, ops: ops.where(ops.abs(x) <= lambd, 0.0, x),
    settings={"lambd": 0.5},
    x=lambda t, x, lambd, ops: ops.keep(t, ops.abs(x) > lambd),
    kind="rectifier", piecewise_linear=True,
)  # fmt: skip

# ----- elu, selu, celu ------------------------------------------------------------------------------------------------


def _elu(x: Payload, alpha: float, scale: float, input_scale: float, ops: Vocabulary) -> Payload:
    below = ops.minimum(x, 0.0)
    below = ops.expm1(below if input_scale == 1 else below * input_scale)
    above = ops.maximum(x, 0.0)
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
elu = composite_elementwise("elu", _elu, settings={"alpha": 1.0, "scale": 1.0, "input_scale": 1.0}, x=_elu_x)

# ----- gates: x times a smooth step -----------------------------------------------------------------------------------


def _silu_slope(x: Payload, ops: Vocabulary) -> Payload:
    """Return s + x s (1 - s) with s = sigmoid(x)."""
    s = ops.sigmoid(x)
    return s + x * (s - s * s)


def _silu_slope_x(t: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return p (2 + x (1 - 2 s)) with p = s (1 - s): the slope is s + x p, and p' = p (1 - 2 s)."""
    s = ops.sigmoid(x)
    return t * ((s - s * s) * (x * (1.0 - (s + s)) + 2.0))


silu = composite_elementwise(
    "silu", lambda x, ops: x * ops.sigmoid(x), x=lambda t, x, ops: t * ops.silu_slope(x), memory_order="C"
)

silu_slope = composite_elementwise("silu_slope", _silu_slope, x=_silu_slope_x, inplace=False, memory_order="C")


def _mish_gate(x: Payload, ops: Vocabulary) -> Payload:
    """Return tanh(softplus(x)) = (u^2 - 1) / (u^2 + 1) with u = 1 + exp(x).

    The formula avoids the cancellation in u^2 - 1. It also avoids overflow, since the value is 1 within rounding from x
    = 20 on.
    """
    e = ops.exp(ops.minimum(x, 20.0))
    e = e * (e + 2.0)
    return e / (e + 2.0)


def _mish_slope(x: Payload, ops: Vocabulary) -> Payload:
    """Return w + x w' with w = tanh(softplus(x)) and w' = (1 - w^2) sigmoid(x)."""
    w = _mish_gate(x, ops)
    return w + x * (1.0 - w * w) * ops.sigmoid(x)


def _mish_slope_x(t: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return 2 w' + x w'' with w'' = (1 - w^2) s (1 - s - 2 w s)."""
    w, s = ops.tanh(ops.softplus(x, beta=1.0, threshold=20.0)), ops.sigmoid(x)
    return t * ((1.0 - w * w) * s * (x * (1.0 - s - w * s * 2.0) + 2.0))


mish = composite_elementwise("mish", lambda x, ops: x * _mish_gate(x, ops), x=lambda t, x, ops: t * ops.mish_slope(x))

mish_slope = composite_elementwise("mish_slope", _mish_slope, x=_mish_slope_x, inplace=False, memory_order="C")


# ----- one half of the elements times the sigmoid of the other --------------------------------------------------------


def _halve(x: Payload, ops: Vocabulary) -> tuple[Payload, Payload]:
    """Return both halves along the last dimension."""
    last, half = len(x.shape) - 1, x.shape[-1] // 2
    return tuple([ops.slice(x, dim=last, start=k * half, stop=(k + 1) * half, step=1) for k in range(2)])


def _as_rows(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Reshape to rows whose halves are the halves along `dim`."""
    shape = tuple(x.shape)
    return ops.reshape(x, shape=(math.prod(shape[:dim]), math.prod(shape[dim:])))


def _glu_rows(x: Payload, ops: Vocabulary) -> Payload:
    first, second = _halve(x, ops)
    return first * ops.sigmoid(second)


@fused_rule("x g", small=True)
def _glu_slopes(g: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return g s and g x s (1 - s) side by side, with the sigmoid s."""
    first, second = _halve(x, ops)
    s = ops.sigmoid(second)
    return ops.cat(g * s, g * first * (s - s * s), dim=len(x.shape) - 1)


def _glu_body(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    shape = tuple(x.shape)
    out = _glu_rows(_as_rows(x, dim, ops), ops)
    return ops.reshape(out, shape=(*shape[:dim], shape[dim] // 2, *shape[dim + 1 :]))


def _glu(np: Library, x: Payload, *, dim: int) -> Payload:
    ops = raw_ops(np)
    if not x.size:
        return _glu_body(x, dim, ops)
    rows = native_kernels.dense(_as_rows(x, dim, ops))
    out = native_kernels.run_fused(_run_glu_rows, [rows], {}, small=True)
    out = _glu_rows(rows, ops) if out is None else out
    return out.reshape((*x.shape[:dim], x.shape[dim] // 2, *x.shape[dim + 1 :]))


def _run_glu_rows(ops: Vocabulary, arrays: Any, settings: Any) -> Payload:
    return _glu_rows(arrays[0], ops)


def _glu_x(g: Payload, x: Payload, dim: int, ops: Vocabulary) -> Payload:
    slopes = _glu_slopes(_as_rows(ops.conj(g), dim, ops), _as_rows(x, dim, ops), ops)
    return ops.conj(ops.reshape(slopes, shape=tuple(x.shape)))


def _glu_t(t: Payload, x: Payload, dim: int, ops: Vocabulary) -> Payload:
    shape = tuple(x.shape)
    (first, second), (first_t, second_t) = (_halve(_as_rows(a, dim, ops), ops) for a in (x, t))
    s = ops.sigmoid(second)
    out = first_t * s + first * (s - s * s) * second_t
    return ops.reshape(out, shape=(*shape[:dim], shape[dim] // 2, *shape[dim + 1 :]))


glu = composite(
    "glu", "x",
    _glu_body,
    kernel=_glu,
    settings={"dim": 0},
    vjp={"x": _glu_x},
    jvp={"x": _glu_t},
    batch="dims",
)  # fmt: skip


# ----- the normal distribution function as a gate ---------------------------------------------------------------------

# gelu(x) = x P(x) with the normal distribution function P. The variant "tanh" approximates P by (1 + tanh u) / 2 with u
# = c (x + k x^3).
_C, _K, _DENSITY = math.sqrt(2 / math.pi), 0.044715, 1 / math.sqrt(2 * math.pi)


def _gelu(x: Payload, approximate: str, ops: Vocabulary) -> Payload:
    if approximate == "tanh":
        return (ops.tanh(x * (x * x * (_C * _K) + _C)) + 1.0) * (x * 0.5)
    return x * ops.ndtr(x)


def _gelu_slope(x: Payload, approximate: str, ops: Vocabulary) -> Payload:
    """Return P + x p with p = P': the normal density, or (1 - tanh^2 u) u' / 2."""
    squared = x * x
    if approximate == "tanh":
        w = ops.tanh(x * (squared * (_C * _K) + _C))
        return ((1.0 - w * w) * (x * (squared * (3 * _C * _K) + _C)) + w + 1.0) * 0.5
    return ops.ndtr(x) + x * ops.exp(squared * -0.5) * _DENSITY


def _gelu_slope_x(t: Payload, x: Payload, approximate: str, ops: Vocabulary) -> Payload:
    """Return 2 p + x p'. For the normal density p' = -x p; for the approximation p' / p = u'' / u' - 2 u' tanh u."""
    squared = x * x
    if approximate != "tanh":
        return t * ((2.0 - squared) * ops.exp(squared * -0.5) * _DENSITY)
    w = ops.tanh(x * (squared * (_C * _K) + _C))
    du = squared * (3 * _C * _K) + _C
    return t * ((1.0 - w * w) * (du + x * (x * (3 * _C * _K) - du * du * w)))


gelu = composite_elementwise(
    "gelu", _gelu, settings={"approximate": "none"},
    x=lambda t, x, approximate, ops: t * ops.gelu_slope(x, approximate=approximate),
)  # fmt: skip

gelu_slope = composite_elementwise(
    "gelu_slope", _gelu_slope, settings={"approximate": "none"}, x=_gelu_slope_x, inplace=False
)

# ----- smooth signs ---------------------------------------------------------------------------------------------------


softsign = composite_elementwise(
    "softsign",
    lambda x, ops: x / (ops.abs(x) + 1.0),
    x=lambda t, x, ops: t / ops.square(ops.abs(x) + 1.0),
    refuses_complex=True,
)

tanhshrink = composite_elementwise(
    "tanhshrink", lambda x, ops: x - ops.tanh(x),
    kernel=lambda np, x: x - np.tanh(x),  # one tanh for arrays of all sizes, since its error is all that is left of x
    x=lambda t, x, ops: t * ops.square(ops.tanh(x)),
)  # fmt: skip
