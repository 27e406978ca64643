"""floor, ceil, trunc, round to whole numbers, and the choices between two numbers: instructions, or a few.

Processors whose rounding is a call of the C library (those without fused multiply-add count as such here) add and subtract 2^fraction, which
rounds to the nearest whole number, halves to even, and correct that by one.
"""

from __future__ import annotations

from ndgrad.compiler.kernels.maths.values import Real, absolute, copysign


def rint(x: Real) -> Real:
    """The nearest whole number, of two the even one."""
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
