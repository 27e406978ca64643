"""Formulas of elementwise ops that combine several functions and have no body in their block (ndgrad._src.ops.composite).

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


# ----- steps and tails -------------------------------------------------------------------------------------------------


def slopes(x: Real, low: float = 0.0) -> Real:
    return (x > 0.0).choose(1.0, x.w.real(low))


def normal(x: Real) -> Real:
    """Return the normal distribution function."""
    if "normal" in x.w.own:
        return call("normal", x)
    if x.w.single:
        return single_normal(x)
    return call("erfc", x * -math.sqrt(0.5)) * 0.5


def sinc(x: Real, order: int = 0) -> Real:
    angle = x * math.pi
    zero = angle.equals(0.0)
    return zero.choose(1.0, call("sin", angle) / zero.choose(1.0, angle))


# ----- repairs and tests ----------------------------------------------------------------------------------------------


def nan_to_num(x: Real, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Real:
    largest = 1.7976931348623157e308 if not x.w.single else 3.4028234663852886e38
    x = x.is_nan().choose(nan, x)
    x = x.equals(math.inf).choose(largest if posinf is None else posinf, x)
    return x.equals(-math.inf).choose(-largest if neginf is None else neginf, x)


def angle(x: Real) -> Real:
    return x.is_nan().choose(x, (x < 0.0).choose(x.w.real(math.pi), 0.0))
