"""`scipy.integrate` with derivatives: initial value problems, integrals of functions, integrals of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.autograd.variable import Variable
from ndgrad.implicit.odes import OdeResult
from ndgrad.implicit.odes import solve_ivp as _solve_ivp
from ndgrad.implicit.packing import PyTree
from ndgrad.implicit.quadrature import quad as _quad
from ndgrad.numpy._array import Array
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy._arrays import as_array, as_arrays


def solve_ivp(
    fun: Callable[..., PyTree], t_span: Any, y0: PyTree, method: str = "RK45", t_eval: Any = None, dense_output: bool = False,
    events: Any = None, vectorized: bool = False, args: Any = None, **options: Any,
) -> OdeResult:  # fmt: skip
    """`scipy.integrate.solve_ivp`, differentiable in y0, args, times and closures; `fun` gets Arrays (see ndgrad.implicit.solve_ivp)."""
    return _solve_ivp(fun, t_span, as_arrays(y0), method, t_eval, dense_output, events, vectorized, args, **options)


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: Any = (), *, tfirst: bool = False, rtol: float = 1.49012e-8, atol: float = 1.49012e-8,
    hmax: float = 0.0, h0: float = 0.0, method: str = "LSODA",
) -> Any:  # fmt: skip
    """`scipy.integrate.odeint`: states at the times `t` (the first is that of y0), one per row, differentiable in y0, t and args.

    `func(y, t, *args)` gives dy/dt, or `func(t, y, *args)` with `tfirst`.
    """
    times = as_array(t)
    field = func if tfirst else lambda t, y, *more: func(y, t, *more)
    given = args if isinstance(args, tuple) else (args,)
    ends = (times[0], times[-1])
    sol = _solve_ivp(
        field, ends, as_arrays(y0), method, times, args=given, rtol=rtol, atol=atol, max_step=hmax or np.inf, first_step=h0 or None
    )
    return sol.y.T if isinstance(sol.y, Variable) else sol.y


def quad(
    func: Callable[..., Any], a: Any, b: Any, args: Any = (), *, epsabs: float = 1.49e-8, epsrel: float = 1.49e-8, limit: int = 200,
    points: Any = None,
) -> tuple[Any, float]:  # fmt: skip
    """`scipy.integrate.quad`: the integral of func(x, *args) from a to b and an estimate of the error; `func` gets an Array."""
    lower = a if isinstance(a, Variable) else as_array(float(a))
    return _quad(func, lower, b, args, epsabs=epsabs, epsrel=epsrel, limit=limit, points=points)


# ----- samples -------------------------------------------------------------------------------------------------------


def _samples(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any, int]:
    """Samples with the axis last, and the spacings between them: a number or an Array."""
    y = as_array(y)
    axis = axis % y.ndim
    y = y.swapaxes(axis, y.ndim - 1)
    if x is None:
        return y, dx if isinstance(dx, Variable) else float(dx), axis
    x = as_array(x)
    if x.ndim == 1:
        if x.shape[0] != y.shape[-1]:
            raise ValueError(f"x has {x.shape[0]} elements for {y.shape[-1]} samples along axis {axis}. There must be one for each.")
    else:
        x = x.swapaxes(axis, x.ndim - 1)
    return y, x[..., 1:] - x[..., :-1], axis


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.trapezoid`."""
    y, d, _ = _samples(y, x, dx, axis)
    return (d * (y[..., 1:] + y[..., :-1]) * 0.5).sum(-1)


def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None) -> Any:
    """`scipy.integrate.cumulative_trapezoid`."""
    if initial not in (None, 0):
        raise ValueError("`initial` must be `None` or `0`.")
    y, d, axis = _samples(y, x, dx, axis)
    out = (d * (y[..., 1:] + y[..., :-1]) * 0.5).cumsum(-1)
    return _with_initial(out, initial).swapaxes(axis, out.ndim - 1)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.simpson`: parabolas through each three samples; with an even number of samples, the last interval gets the
    parabola through the last three."""
    y, d, axis = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        return (d * (y[..., 1:] + y[..., :-1]) * 0.5).sum(-1)
    steps = _spread(d, n)
    odd = n if n % 2 else n - 1
    h0, h1 = steps[..., 0 : odd - 1 : 2], steps[..., 1 : odd - 1 : 2]
    y0, y1, y2 = y[..., 0 : odd - 2 : 2], y[..., 1 : odd - 1 : 2], y[..., 2:odd:2]
    total = ((h0 + h1) / 6.0 * (y0 * (2.0 - h1 / h0) + y1 * (h0 + h1) ** 2 / (h0 * h1) + y2 * (2.0 - h0 / h1))).sum(-1)
    if n % 2:
        return total
    return total + _last_interval(y[..., -3], y[..., -2], y[..., -1], steps[..., -2], steps[..., -1])


def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """`scipy.integrate.cumulative_simpson`: every interval by the parabola through its ends and the next sample (the last by the one
    before)."""
    y, d, axis = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        out = (d * (y[..., 1:] + y[..., :-1]) * 0.5).cumsum(-1)
        return _with_initial(out, initial).swapaxes(axis, out.ndim - 1)
    steps = _spread(d, n)
    h0, h1 = steps[..., :-1], steps[..., 1:]
    y0, y1, y2 = y[..., :-2], y[..., 1:-1], y[..., 2:]
    # the integral over the first of two intervals is that over the last of the same three samples mirrored
    first = _last_interval(y2, y1, y0, h1, h0)
    second = _last_interval(y0, y1, y2, h0, h1)
    count = n - 1
    every = [first[..., i : i + 1] if i % 2 == 0 and i < n - 2 else second[..., i - 1 : i] for i in range(count)]
    out = tensor_ops.cat(*every, dim=len(y.shape) - 1).cumsum(-1)
    return _with_initial(out, initial).swapaxes(axis, out.ndim - 1)


def _last_interval(y0: Any, y1: Any, y2: Any, h0: Any, h1: Any) -> Any:
    """The integral of the parabola through three samples over the second interval."""
    a = (2.0 * h1**2 + 3.0 * h0 * h1) / (6.0 * (h0 + h1))
    b = (h1**2 + 3.0 * h0 * h1) / (6.0 * h0)
    c = h1**3 / (6.0 * h0 * (h0 + h1))
    return a * y2 + b * y1 - c * y0


def _spread(d: Any, n: int) -> Any:
    """Spacings as an Array with one for each interval."""
    if isinstance(d, Variable) and d.ndim:
        return d
    one = as_array(np.ones(n - 1))
    return one * d


def _with_initial(out: Any, initial: Any) -> Any:
    if initial is None:
        return out
    zero = out[..., :1] * 0.0 + initial
    shifted = out if isinstance(initial, (int, float)) and initial == 0 else out + initial
    return tensor_ops.cat(zero, shifted, dim=len(out.shape) - 1)


__all__ = [
    "Array", "OdeResult", "cumulative_simpson", "cumulative_trapezoid", "odeint", "quad", "simpson", "solve_ivp", "trapezoid",
]  # fmt: skip
