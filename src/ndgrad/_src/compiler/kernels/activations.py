"""Formulas of elementwise ops that combine several functions, most of them for networks: the same as their forwards in
ops.

Values are `Real`. Each formula has the operations of the eager one in the same order. Results therefore differ only by
the errors of the called functions. Choices (`where`, `clip`) use the same conditions, also for NaN and infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ndgrad._src.compiler.kernels.maths.error_function import single_normal
from ndgrad._src.compiler.kernels.maths.functions import emit
from ndgrad._src.compiler.kernels.maths.rounding import maximum, minimum
from ndgrad._src.compiler.kernels.maths.values import Real, absolute, sqrt


def call(name: str, *arguments: Real) -> Real:
    """Call a function of the maths library."""
    w = arguments[0].w
    own = w.call(name, *arguments)
    return Real(w, emit(w.f, name, w.type, *map(str, arguments))) if own is None else own


def clipped(x: Real, low: float | Real, high: float | Real) -> Real:
    """Clip x; `high` if the bounds cross. A NaN stays."""
    return minimum(maximum(x, x.w.real(low)), x.w.real(high))


# ----- powers ---------------------------------------------------------------------------------------------------------


def pow(x: Real, exponent: Real | float) -> Real:
    """Return a power. Constant exponents use the shortcuts of the eager op, which are exact or a hundred times quicker.
    """
    if isinstance(exponent, Real):
        return call("pow", x, exponent)
    short = _SHORT_POWERS.get(exponent)
    return call("pow", x, x.w.real(exponent)) if short is None else short(x)


_SHORT_POWERS: dict[float, Callable[[Real], Real]] = {
    0: lambda x: x.w.real(1.0),
    0.5: sqrt,
    1: lambda x: x,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    4: lambda x: (x * x) * (x * x),
    -0.5: lambda x: 1.0 / sqrt(x),
    -1: lambda x: 1.0 / x,
    -2: lambda x: 1.0 / (x * x),
}


def scaled(x: Real, value: float) -> Real:
    return x if value == 1 else x * value


def lerp(x: Real, end: Real, weight: Real) -> Real:
    way = end - x
    return (absolute(weight) < 0.5).choose(x + way * weight, end - way * (1.0 - weight))


def rounded(x: Real, decimals: int = 0) -> Real:
    if decimals == 0:
        return call("rint", x)
    factor = 10.0 ** abs(decimals)
    return call("rint", x * factor) / factor if decimals > 0 else call("rint", x / factor) * factor


# ----- logarithms -----------------------------------------------------------------------------------------------------


def logaddexp(x: Real, y: Real) -> Real:
    """Return log(e^x + e^y). Equal numbers, including infinite ones, give x + log 2."""
    apart = call("log1p", call("exp", -absolute(x - y)))
    return x.equals(y).choose(x + math.log(2), maximum(x, y) + apart)


def logaddexp2(x: Real, y: Real) -> Real:
    apart = call("log1p", call("exp2", -absolute(x - y))) * (1 / math.log(2))
    return x.equals(y).choose(x + 1.0, maximum(x, y) + apart)


def times_log(name: str, one: float, x: Real, y: Real) -> Real:
    """Return x log(y), 0 where x is 0 and y a number."""
    safe = (x.equals(0.0) & y.equals(y)).choose(one, y)
    return x * call(name, safe)


def logit(x: Real, eps: float | None = None) -> Real:
    if eps is not None:
        x = clipped(x, eps, 1 - eps)
    return call("log", x / (1.0 - x))


def log_sigmoid(x: Real) -> Real:
    return minimum(x, x.w.real(0.0)) - call("log1p", call("exp", -absolute(x)))


def entr(x: Real) -> Real:
    inside = (x > 0.0).choose(-(x * call("log", x)), x.equals(0.0).choose(0.0, -math.inf))
    return x.is_nan().choose(x, inside)


# ----- piecewise linear -----------------------------------------------------------------------------------------------


def relu(x: Real) -> Real:
    return maximum(x, x.w.real(0.0))


def slopes(x: Real, low: float = 0.0) -> Real:
    return (x > 0.0).choose(1.0, x.w.real(low))


def leaky_relu(x: Real, negative_slope: float | Real = 0.01) -> Real:
    small = x * negative_slope
    if isinstance(negative_slope, Real) or not 0 <= negative_slope <= 1:
        return (x > 0.0).choose(x, small)
    return maximum(x, small)


def hardsigmoid(x: Real) -> Real:
    return clipped(x / 6.0 + 0.5, 0.0, 1.0)


def threshold(x: Real, threshold: float = 0.0, value: float = 0.0) -> Real:
    return (x <= threshold).choose(value, x)


def softshrink(x: Real, lambd: float = 0.5) -> Real:
    return x - clipped(x, -lambd, lambd)


def hardshrink(x: Real, lambd: float = 0.5) -> Real:
    return (absolute(x) <= lambd).choose(0.0, x)


# ----- smooth ---------------------------------------------------------------------------------------------------------


def softplus(x: Real, beta: float = 1.0, threshold: float = 20.0) -> Real:
    z = x if beta == 1 else x * beta
    soft = call("log1p", call("exp", minimum(z, x.w.real(threshold))))
    return (z > threshold).choose(x, soft if beta == 1 else soft / beta)


def softplus_slope(x: Real, beta: float = 1.0, threshold: float = 20.0) -> Real:
    z = x if beta == 1 else x * beta
    return (z > threshold).choose(1.0, call("sigmoid", z))


def elu(x: Real, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Real:
    below = minimum(x, x.w.real(0.0))
    below = call("expm1", below if input_scale == 1 else below * input_scale)
    above = maximum(x, x.w.real(0.0))
    return scaled(below, alpha * scale) + scaled(above, scale)


def silu(x: Real) -> Real:
    return x * call("sigmoid", x)


def silu_slope(x: Real) -> Real:
    s = call("sigmoid", x)
    return s + x * (s - s * s)


def mish(x: Real) -> Real:
    return x * _mish_gate(x)


def _mish_gate(x: Real) -> Real:
    e = call("exp", minimum(x, x.w.real(20.0)))
    e = e * (e + 2.0)
    return e / (e + 2.0)


def mish_slope(x: Real) -> Real:
    gate = _mish_gate(x)
    return gate + x * (1.0 - gate * gate) * call("sigmoid", x)


_C, _K = math.sqrt(2 / math.pi), 0.044715


def normal(x: Real) -> Real:
    """Return the normal distribution function."""
    if "normal" in x.w.own:
        return call("normal", x)
    if x.w.single:
        return single_normal(x)
    return call("erfc", x * -math.sqrt(0.5)) * 0.5


def _gate(x: Real) -> Real:
    """Return the normal distribution function for the gate of gelu: in single precision to 1e-7, as in the eager op, at
    a third of the cost.
    """
    return call("erf", x * math.sqrt(0.5)) * 0.5 + 0.5 if x.w.single else normal(x)


def gelu(x: Real, approximate: str = "none") -> Real:
    if approximate == "tanh":
        return (call("tanh", x * (x * x * (_C * _K) + _C)) + 1.0) * (x * 0.5)
    return x * _gate(x)


def gelu_slope(x: Real, approximate: str = "none") -> Real:
    squared = x * x
    if approximate == "tanh":
        gate = call("tanh", x * (squared * (_C * _K) + _C))
        return ((1.0 - gate * gate) * (x * (squared * (3 * _C * _K) + _C)) + gate + 1.0) * 0.5
    return _gate(x) + x * call("exp", squared * -0.5) * (1 / math.sqrt(2 * math.pi))


def sinc(x: Real, order: int = 0) -> Real:
    angle = x * math.pi
    zero = angle.equals(0.0)
    return zero.choose(1.0, call("sin", angle) / zero.choose(1.0, angle))


# ----- losses ---------------------------------------------------------------------------------------------------------


def binary_cross_entropy(x: Real, y: Real) -> Real:
    """Return the loss, with logarithms bounded below by -100."""
    least = x.w.real(-100.0)
    return (y - 1.0) * maximum(call("log1p", -x), least) - y * maximum(call("log", x), least)


def binary_cross_entropy_with_logits(x: Real, y: Real) -> Real:
    zero = x.w.real(0.0)
    return maximum(x, zero) * (1.0 - y) - minimum(x, zero) * y + call("log1p", call("exp", -absolute(x)))


def smooth_l1(x: Real, y: Real, beta: float = 1.0) -> Real:
    size = absolute(x - y)
    return (size < beta).choose(size * size * (0.5 / beta), size - 0.5 * beta)


# ----- repairs and tests ----------------------------------------------------------------------------------------------


def nan_to_num(x: Real, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Real:
    largest = 1.7976931348623157e308 if not x.w.single else 3.4028234663852886e38
    x = x.is_nan().choose(nan, x)
    x = x.equals(math.inf).choose(largest if posinf is None else posinf, x)
    return x.equals(-math.inf).choose(-largest if neginf is None else neginf, x)


def angle(x: Real) -> Real:
    return x.is_nan().choose(x, (x < 0.0).choose(x.w.real(math.pi), 0.0))
