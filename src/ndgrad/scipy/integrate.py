"""`scipy.integrate` with derivatives: initial value problems, integrals of functions, integrals of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.implicit.odes import OdeResult
from ndgrad.implicit.odes import solve_ivp as _solve_ivp
from ndgrad.implicit.packing import PyTree
from ndgrad.implicit.quadrature import quad as _quad
from ndgrad.numpy._array import Array
from ndgrad.scipy._arrays import as_array, as_arrays
from ndgrad.scipy._without_rules import public_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import ArrayLike, TensorLike
    from ndgrad.implicit.odes import Events, Times


def solve_ivp(
    fun: Callable[..., PyTree], t_span: Sequence[TensorLike], y0: PyTree, method: str = "RK45", t_eval: Times = None,
    dense_output: bool = False, events: Events = None, vectorized: bool = False, args: Any = None,
    **options: Any,
) -> OdeResult:  # fmt: skip
    """Solve an initial value problem dy/dt = fun(t, y, *args), differentiably in `y0`, `args`, times and captured
    variables.

    Args:
        fun: right side `fun(t, y, *args)`. It gets Arrays.
        t_span: first and last time.
        y0: state at the first time: an array or a nested structure of arrays.
        method: `"RK45"`, `"RK23"`, `"DOP853"`, `"Radau"`, `"BDF"` or `"LSODA"`.
        t_eval: times of the result, inside `t_span`. The default is the steps of the solver.
        dense_output: must be False: SciPy's interpolants have no derivatives.
        events: function or functions `event(t, y, *args)` whose roots are located, with SciPy's attributes `terminal`
            and `direction`.
        vectorized: must be False: it serves finite differences, which are not used here.
        args: further arguments of the function. A single value stands for a tuple of one.
        options: further settings of `ndgrad.implicit.solve_ivp`: `rtol`, `atol`, `max_step`, `first_step`,
            `checkpoints` and `adjoint_options`.

    Returns:
        SciPy's result, with Arrays in `t` and `y`.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import integrate
    >>> rate = np.array(0.5).requires_grad_()
    >>> sol = integrate.solve_ivp(lambda t, y, k: -k * y, (0.0, 2.0), [1.0], args=(rate,), rtol=1e-8)
    >>> sol.y[0, -1].backward()
    >>> round(rate.grad.item(), 4)
    -0.7358
    """
    return _solve_ivp(fun, t_span, as_arrays(y0), method, t_eval, dense_output, events, vectorized, args, **options)


def odeint(
    func: Callable[..., Any], y0: ArrayLike, t: ArrayLike, args: Any = (), *, tfirst: bool = False,
    rtol: float = 1.49012e-8, atol: float = 1.49012e-8, hmax: float = 0.0, h0: float = 0.0, method: str = "LSODA",
) -> Array:  # fmt: skip
    """Return the states of an ordinary differential equation at given times, one per row.

    Args:
        func: right side `func(y, t, *args)`, or `func(t, y, *args)` with `tfirst`.
        y0: state at the first time.
        t: times of the rows of the result. The first is the time of `y0`.
        args: further arguments of the function. A single value stands for a tuple of one.
        tfirst: whether `func` takes the time before the state.
        rtol: relative tolerance of the local error.
        atol: absolute tolerance of the local error.
        hmax: largest step. 0 means no limit.
        h0: first step. 0 leaves the choice to the solver.
        method: method of `solve_ivp`.

    Returns:
        An array of shape (len(t), len(y0)), differentiable in `y0`, `t` and `args`.

    >>> from ndgrad.scipy import integrate
    >>> integrate.odeint(lambda y, t: -y, [1.0], [0.0, 1.0]).round(5)
    array([[1.     ],
           [0.36788]])
    """
    times = as_array(t)
    field = func if tfirst else lambda t, y, *more: func(y, t, *more)
    given = args if isinstance(args, tuple) else (args,)
    ends = (times[0], times[-1])
    sol = _solve_ivp(
        field,
        ends,
        as_arrays(y0),
        method,
        times,
        args=given,
        rtol=rtol,
        atol=atol,
        max_step=hmax or np.inf,
        first_step=h0 or None,
    )
    states: Any = sol.y
    return states.T if hasattr(states, "T") else states


def quad(
    func: Callable[..., Any], a: ArrayLike, b: TensorLike, args: Any = (), *, epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8, limit: int = 200, points: Sequence[float] | None = None,
) -> tuple[Any, float]:  # fmt: skip
    """Return the integral of func(x, *args) from a to b and an estimate of its error.

    Args:
        func: integrand. It gets an Array, and may return a structure of arrays.
        a: lower limit. May be infinite, then without a derivative.
        b: upper limit. May be infinite, then without a derivative.
        args: further arguments of the function. A single value stands for a tuple of one.
        epsabs: absolute tolerance.
        epsrel: relative tolerance.
        limit: largest number of subintervals.
        points: points that split the interval, for example at kinks.

    Returns:
        The integral, differentiable in `a`, `b`, `args` and captured variables of `func`, and the estimated error.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import integrate
    >>> upper = np.array(3.0).requires_grad_()
    >>> area, error = integrate.quad(lambda x: x**2, 0.0, upper)
    >>> area.backward()
    >>> area.detach().round(6), upper.grad.round(6)
    (array(9.), array(9.))
    """
    lower = a if isinstance(a, Variable) else as_array(a)
    return _quad(func, lower, b, args, epsabs=epsabs, epsrel=epsrel, limit=limit, points=points)


# ----- samples -------------------------------------------------------------------------------------------------------


def _samples(y: ArrayLike, x: ArrayLike | None, dx: ArrayLike, axis: int) -> tuple[Array, Any, int]:
    """Return samples with the axis last, and the spacings between them: a number or an Array."""
    y = as_array(y)
    axis = axis % y.ndim
    y = y.swapaxes(axis, y.ndim - 1)
    if x is None:
        return y, dx if isinstance(dx, Variable) else float(dx), axis  # type: ignore[arg-type]  # a number
    x = as_array(x)
    if x.ndim == 1:
        if x.shape[0] != y.shape[-1]:
            raise ValueError(
                f"x has {x.shape[0]} elements for {y.shape[-1]} samples along axis {axis}. There must be one for each. "
                "[nd-shape]"
            )
    else:
        x = x.swapaxes(axis, x.ndim - 1)
    return y, x[..., 1:] - x[..., :-1], axis


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Return the integral of samples by straight lines between them.

    Args:
        y: samples of the integrand.
        x: sample points, one per sample along `axis` or of the shape of `y`. The default is a spacing of `dx`.
        dx: distance between samples. Has no effect if `x` is given.
        axis: axis along which samples are integrated.

    >>> from ndgrad.scipy import integrate
    >>> integrate.trapezoid([1.0, 3.0, 5.0])
    array(6.)
    """
    y, d, _ = _samples(y, x, dx, axis)
    return (d * (y[..., 1:] + y[..., :-1]) * 0.5).sum(-1)


def cumulative_trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1, initial: float | None = None,
) -> Array:  # fmt: skip
    """Return the integrals of samples up to each of them, by straight lines between them.

    Args:
        y: samples of the integrand.
        x: sample points, one per sample along `axis` or of the shape of `y`. The default is a spacing of `dx`.
        dx: distance between samples. Has no effect if `x` is given.
        axis: axis along which samples are integrated.
        initial: None, or 0 to put a zero before the first integral.

    Returns:
        An array that is one shorter than `y` along `axis`, or as long with `initial=0`.

    >>> from ndgrad.scipy import integrate
    >>> integrate.cumulative_trapezoid([1.0, 3.0, 5.0], initial=0)
    array([0., 2., 6.])
    """
    if initial not in (None, 0):
        raise ValueError("`initial` must be `None` or `0`. [nd-option]")
    y, d, axis = _samples(y, x, dx, axis)
    out = (d * (y[..., 1:] + y[..., :-1]) * 0.5).cumsum(-1)
    return _with_initial(out, initial).swapaxes(axis, out.ndim - 1)


def simpson(y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Return the integral of samples by a parabola through each three of them. For an even number, the last interval
    uses the parabola through the last three.

    Args:
        y: samples of the integrand.
        x: sample points, one per sample along `axis` or of the shape of `y`. The default is a spacing of `dx`.
        dx: distance between samples. Has no effect if `x` is given.
        axis: axis along which samples are integrated.

    >>> from ndgrad.scipy import integrate
    >>> integrate.simpson([0.0, 1.0, 4.0])
    array(2.66666667)
    """
    y, d, axis = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        return (d * (y[..., 1:] + y[..., :-1]) * 0.5).sum(-1)
    steps = _expand_spacings(d, n)
    odd = n if n % 2 else n - 1
    h0, h1 = steps[..., 0 : odd - 1 : 2], steps[..., 1 : odd - 1 : 2]
    y0, y1, y2 = y[..., 0 : odd - 2 : 2], y[..., 1 : odd - 1 : 2], y[..., 2:odd:2]
    total = ((h0 + h1) / 6.0 * (y0 * (2.0 - h1 / h0) + y1 * (h0 + h1) ** 2 / (h0 * h1) + y2 * (2.0 - h0 / h1))).sum(-1)
    if n % 2:
        return total
    return total + _last_interval(y[..., -3], y[..., -2], y[..., -1], steps[..., -2], steps[..., -1])


def cumulative_simpson(
    y: ArrayLike, *, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1, initial: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the integrals of samples up to each of them, by Simpson's rule.

    Args:
        y: samples of the integrand.
        x: sample points, one per sample along `axis` or of the shape of `y`. The default is a spacing of `dx`.
        dx: distance between samples. Has no effect if `x` is given.
        axis: axis along which samples are integrated.
        initial: first value, which is added to all others too. The default leaves it out.

    Returns:
        An array that is one shorter than `y` along `axis`, or as long with `initial`.

    >>> from ndgrad.scipy import integrate
    >>> integrate.cumulative_simpson([0.0, 1.0, 4.0]).round(6)
    array([0.333333, 2.666667])
    """
    y, d, axis = _samples(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        out = (d * (y[..., 1:] + y[..., :-1]) * 0.5).cumsum(-1)
        return _with_initial(out, initial).swapaxes(axis, out.ndim - 1)
    steps = _expand_spacings(d, n)
    h0, h1 = steps[..., :-1], steps[..., 1:]
    y0, y1, y2 = y[..., :-2], y[..., 1:-1], y[..., 2:]
    # The integral over the first of two intervals is that over the last of the mirrored samples.
    first = _last_interval(y2, y1, y0, h1, h0)
    second = _last_interval(y0, y1, y2, h0, h1)
    count = n - 1
    every = [first[..., i : i + 1] if i % 2 == 0 and i < n - 2 else second[..., i - 1 : i] for i in range(count)]
    out = tensor_ops.cat(*every, dim=len(y.shape) - 1).cumsum(-1)
    return _with_initial(out, initial).swapaxes(axis, out.ndim - 1)


def _last_interval(y0: Array, y1: Array, y2: Array, h0: Array, h1: Array) -> Array:
    """Return the integral of the parabola through three samples over the second interval."""
    a = (2.0 * h1**2 + 3.0 * h0 * h1) / (6.0 * (h0 + h1))
    b = (h1**2 + 3.0 * h0 * h1) / (6.0 * h0)
    c = h1**3 / (6.0 * h0 * (h0 + h1))
    return a * y2 + b * y1 - c * y0


def _expand_spacings(d: Array | float, n: int) -> Array:
    """Return spacings as an Array with one entry for each interval."""
    if isinstance(d, Variable) and d.ndim:
        return d
    one = as_array(np.ones(n - 1))
    return one * d


def _with_initial(out: Array, initial: ArrayLike | None) -> Array:
    if initial is None:
        return out
    zero = out[..., :1] * 0.0 + initial
    shifted = out if isinstance(initial, (int, float)) and initial == 0 else out + initial
    return tensor_ops.cat(zero, shifted, dim=len(out.shape) - 1)


__dir__ = public_of(__name__)
__all__ = [
    "Array", "OdeResult", "cumulative_simpson", "cumulative_trapezoid", "odeint", "quad", "simpson", "solve_ivp",
    "trapezoid",
]  # fmt: skip
