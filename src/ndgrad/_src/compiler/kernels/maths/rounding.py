"""floor, ceil, trunc, round to integers, and the choices between two numbers: one or a few instructions.

Some processors round by a call of the C library (here, all without fused multiply-add). They add and subtract
2^fraction, which rounds to the nearest integer, halves to even, and correct the result by one.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.maths.values import Real, absolute, copysign


def rint(x: Real) -> Real:
    """Return the nearest integer, halves to even."""
    if x.w.fma:
        return x.w.intrinsic("rint", x)
    limit = 2.0**x.w.fraction
    a = absolute(x)
    return (a < limit).choose(copysign((a + limit) - limit, x), x)


def floor(x: Real) -> Real:
    if x.w.fma:
        return x.w.intrinsic("floor", x)
    near = rint(x)
    return copysign(near - (near > x).choose(x.w.real(1.0), 0.0), x)


def ceil(x: Real) -> Real:
    if x.w.fma:
        return x.w.intrinsic("ceil", x)
    near = rint(x)
    return copysign(near + (near < x).choose(x.w.real(1.0), 0.0), x)


def trunc(x: Real) -> Real:
    if x.w.fma:
        return x.w.intrinsic("trunc", x)
    return copysign(floor(absolute(x)), x)


def nextafter(x: Real, y: Real) -> Real:
    """Return the float next to x in the direction of y: its bits, plus or minus one."""
    w = x.w
    bits = x.bits()
    away = (x < y) ^ (x < 0.0)
    moved = away.choose(bits + 1, bits - 1).real()
    moved = x.equals(0.0).choose(copysign(w.bits(1).real(), y), moved)
    return (x.is_nan() | y.is_nan()).choose(x + y, x.equals(y).choose(y, moved))


# ----- choices --------------------------------------------------------------------------------------------------------


def sign(x: Real) -> Real:
    return (x > 0.0).choose(1.0, (x < 0.0).choose(-1.0, x.equals(0.0).choose(0.0, x)))


def minimum(x: Real, y: Real) -> Real:
    """Return the lesser, or a NaN if there is one."""
    return x.is_nan().choose(x, (x < y).choose(x, y))


def maximum(x: Real, y: Real) -> Real:
    return x.is_nan().choose(x, (x > y).choose(x, y))


def fmin(x: Real, y: Real) -> Real:
    """Return the lesser, ignoring a NaN."""
    return x.is_nan().choose(y, x.not_at_least(y).choose(x, y))


def fmax(x: Real, y: Real) -> Real:
    return x.is_nan().choose(y, x.not_at_most(y).choose(x, y))
