"""Rules of ops on truncated Taylor series, in terms of the coefficients of their arguments.

A series is a list [c_0, c_1, ..., c_K] of tensors, where None stands for zero; c_0 is the value, and x(s) = c_0 + c_1
s + ... + c_K s^K. Each coefficient of a result follows from those before it:

    product           (x y)_k = sum of x_j y_(k-j), and the same for every bilinear op
    y' = a(y) x'      k y_k = sum over j >= 1 of j x_j a_(k-j), where a is known up to k - 1 by then: exp, tanh, sin
                      with cos

This takes O(K^2) operations. ndgrad._src.transforms.taylor handles ops without a rule here by their jvp rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.ops.solve import solve, solve_triangular
from ndgrad._src.ops.table import RulesOfOps, parameter_names
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._typing import Payload

Series = list[Any]
#: Function of the arguments' series, the settings and the result's value; it returns the result's series.
Recurrence = Callable[[Sequence[Series], dict[str, Any], Any], Series | None]

recurrence: RulesOfOps[Recurrence] = RulesOfOps("Taylor series")


# ----- arithmetic with absent terms -----------------------------------------------------------------------------------


def add_terms(a: Payload, b: Payload) -> Payload:
    return b if a is None else a if b is None else a + b


def scale(a: Payload, factor: float) -> Payload:
    return None if a is None else a if factor == 1 else a * factor


def convolve(
    x: Series,
    y: Series,
    k: int,
    first: int = 0,
    last: int | None = None,
    multiply: Callable[[Any, Any], Any] | None = None,
) -> Payload:
    """Return the sum of x_j y_(k-j) for j from `first` to `last` (k by default)."""
    total = None
    for j in range(first, (k if last is None else last) + 1):
        if x[j] is not None and y[k - j] is not None:
            total = add_terms(total, x[j] * y[k - j] if multiply is None else multiply(x[j], y[k - j]))
    return total


def integrate_slope(x: Series, slope: Series, k: int) -> Payload:
    """Return y_k for y' = slope x': the sum of (j / k) x_j slope_(k-j)."""
    total = None
    for j in range(1, k + 1):
        if x[j] is not None and slope[k - j] is not None:
            total = add_terms(total, scale(x[j], j / k) * slope[k - j])
    return total


def _orders(series: Series) -> range:
    return range(1, len(series))


# ----- products and quotients -----------------------------------------------------------------------------------------


@recurrence("mul")
def _mul(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    x, y = args
    return [out, *(convolve(x, y, k) for k in _orders(x))]


@recurrence("square")
def _square(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _squared(args[0], out)


def _squared(x: Series, out: Payload) -> Series:
    made = [out]
    for k in _orders(x):
        # Each product of different coefficients occurs twice.
        total = scale(convolve(x, x, k, 0, (k - 1) // 2), 2.0)
        made.append(add_terms(total, x[k // 2] * x[k // 2]) if k % 2 == 0 and x[k // 2] is not None else total)
    return made


def _quotient(x: Series, y: Series, out: Payload) -> Series:
    made = [out]
    for k in _orders(x):
        rest = add_terms(x[k], scale(convolve(y, made, k, 1), -1.0))
        made.append(None if rest is None else rest / y[0])
    return made


@recurrence("div")
def _div(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    x, y = args
    return _quotient(x, y, out)


@recurrence("reciprocal")
def _reciprocal(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    (x,) = args
    return _quotient([out * 0.0 + 1.0, *(None for _ in _orders(x))], x, out)


@recurrence("pow")
def _pow(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series | None:
    """Use products for small integer exponents, which are right at zero too; None leaves others to the jvp rule."""
    x, exponent = args
    n = exponent[0]
    if not isinstance(n, (int, float)) or isinstance(n, bool) or n != int(n) or not 0 <= n <= 64:
        return None
    made: Series | None = None
    power, n = x, int(n)
    if n == 0:
        return [out, *(None for _ in _orders(x))]
    while True:
        if n & 1:
            made = power if made is None else [made[0] * power[0], *(convolve(made, power, k) for k in _orders(x))]
        n >>= 1
        if not n:
            break
        power = _squared(power, power[0] * power[0])
    assert made is not None
    return [out, *made[1:]]


def _power(x: Series, exponent: float, out: Payload) -> Series:
    """Solve x y' = exponent y x' for y = x^exponent: k x_0 y_k = sum of (exponent j - (k - j)) x_j y_(k-j)."""
    made = [out]
    for k in _orders(x):
        total = None
        for j in range(1, k + 1):
            if x[j] is not None and made[k - j] is not None:
                total = add_terms(total, scale(x[j], (exponent * j - (k - j)) / k) * made[k - j])
        made.append(None if total is None else total / x[0])
    return made


@recurrence("rsqrt")
def _rsqrt(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _power(args[0], -0.5, out)


@recurrence("cbrt")
def _cbrt(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _power(args[0], 1 / 3, out)


@recurrence("sqrt")
def _sqrt(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    (x,) = args
    made = [out]
    for k in _orders(x):
        rest = add_terms(x[k], scale(convolve(made, made, k, 1, k - 1), -1.0))
        made.append(None if rest is None else rest / (out + out))
    return made


# ----- exponentials and trigonometric functions -----------------------------------------------------------------------


def _exponential(rate: float, shift: float) -> Recurrence:
    def rule(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
        x = args[0]
        slope = [(out + shift if shift else out) * rate if rate != 1 else out + shift if shift else out]
        made = [out]
        for k in _orders(x):
            made.append(integrate_slope(x, slope, k))
            slope.append(scale(made[k], rate))
        return made

    return rule


recurrence("exp")(_exponential(1.0, 0.0))
recurrence("exp2")(_exponential(math.log(2), 0.0))
recurrence("expm1")(_exponential(1.0, 1.0))


def _pair(x: Series, first: Payload, second: Payload, sign: float) -> tuple[Series, Series]:
    """Return two series: the slope of the first is the second, and that of the second is `sign` times the first."""
    a, b = [first], [second]
    for k in _orders(x):
        a.append(integrate_slope(x, b, k))
        b.append(scale(integrate_slope(x, a, k), sign))
    return a, b


@recurrence("sin")
def _sin(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _pair(args[0], out, tensor_ops.cos(args[0][0]), -1.0)[0]


@recurrence("cos")
def _cos(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _pair(args[0], tensor_ops.sin(args[0][0]), out, -1.0)[1]


@recurrence("sinh")
def _sinh(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _pair(args[0], out, tensor_ops.cosh(args[0][0]), 1.0)[0]


@recurrence("cosh")
def _cosh(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    return _pair(args[0], tensor_ops.sinh(args[0][0]), out, 1.0)[1]


def _riccati(linear: float, quadratic: float, constant: float) -> Recurrence:
    """Return the rule of y' = (constant + linear y + quadratic y^2) x'."""

    def rule(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
        x = args[0]
        made, slope = [out], [out * out * quadratic + (out * linear if linear else 0.0) + constant]
        for k in _orders(x):
            made.append(integrate_slope(x, slope, k))
            slope.append(
                add_terms(scale(made[k], linear) if linear else None, scale(convolve(made, made, k), quadratic))
            )
        return made

    return rule


recurrence("tan")(_riccati(0.0, 1.0, 1.0))
recurrence("tanh")(_riccati(0.0, -1.0, 1.0))
recurrence("sigmoid")(_riccati(1.0, -1.0, 0.0))


# ----- bilinear ops with a third argument, recurrences in space, and linear systems -----------------------------------


@recurrence("linear", "convolution")
def _affine(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    """Apply an op that is bilinear in input and weight, plus a bias."""
    x, w, b = args
    op = tensor_ops.convolution if settings else tensor_ops.linear
    spatial = len(settings.get("stride", ()))
    made = [out]
    for k in _orders(x):
        total = convolve(x, w, k, multiply=lambda p, q: op(p, q, None, **settings))
        bias = None if b[k] is None else tensor_ops.reshape(b[k], shape=(*b[k].shape, *(1,) * spatial))
        made.append(add_terms(total, bias))
    return made


@recurrence("linear_recurrence")
def _linear_recurrence(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    """Solve h[n] = a[n] h[n-1] + b[n], order by order: the known part of a h[n-1] is added to b."""
    a, b = args
    made, before = [out], [tensor_ops.shift(out, **settings)]
    for k in _orders(a):
        source = add_terms(b[k], convolve(a, before, k, 1))
        made.append(None if source is None else tensor_ops.linear_recurrence(a[0], source, **settings))
        before.append(None if source is None else tensor_ops.shift(made[k], **settings))
    return made


@recurrence("inv")
def _inv(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    """Solve A Y = 1: A_0 Y_k = minus the sum of A_j Y_(k-j)."""
    (a,) = args
    made = [out]
    for k in _orders(a):
        known = convolve(a, made, k, 1, multiply=tensor_ops.matmul)
        made.append(None if known is None else -tensor_ops.matmul(out, known))
    return made


@recurrence("solve", "solve_triangular")
def _solve(args: Sequence[Series], settings: dict[str, Any], out: Payload) -> Series:
    """Solve A Y = B: A_0 Y_k = B_k minus the sum of A_j Y_(k-j). The op's rule for A gives the last term."""
    a, b = args
    op = solve_triangular if settings else solve
    assert isinstance(op.jvp, dict)
    moved = op.jvp["a"]
    names = parameter_names(moved)
    made = [out]
    for k in _orders(a):
        total = None if b[k] is None else op(a[0], b[k], **settings)
        for j in range(1, k + 1):
            if a[j] is not None and made[k - j] is not None:
                env = {**settings, "t": a[j], "a": a[0], "out": made[k - j], "ops": tensor_ops}
                total = add_terms(total, moved(*(env[n] for n in names)))
        made.append(total)
    return made
