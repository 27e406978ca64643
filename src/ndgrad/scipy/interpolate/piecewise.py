"""Piecewise polynomials, and the cubic ones through points: splines, PCHIP, Akima.

Values decide the piece of a point. Everything else is arithmetic, so values and slopes are differentiable in the data,
in the breakpoints and in the points of evaluation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.banded import solve_banded
from ndgrad._src.tensor.storage import batch_dims, memory_of
from ndgrad.numpy.coercion import one_axis, operands, values_of
from ndgrad.scipy._without_rules import floating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator", "pchip_interpolate",
]  # fmt: skip


def columns(v: Array, like: Array) -> Array:
    """Return a vector along the first axis of `like`."""
    return v.reshape((v.shape[0], *(1,) * (like.ndim - 1)))


def places_of(breaks: Array, x: Array, pieces: int) -> Array:
    """Return the piece of each point; the first or last for points outside."""
    found = np.searchsorted(breaks.detach(), x.detach(), side="right") - 1
    return np.clip(found, 0, pieces - 1)


def increasing(x: ArrayLike, what: str) -> Array:
    """Return breakpoints, checked to be a vector of strictly increasing numbers."""
    t = floating(x)
    if t.ndim != 1:
        raise ValueError(f"{what}: x must be 1-dimensional, but has shape {t.shape}. [nd-ndim]")
    if not (numpy.diff(memory_of(t), axis=-1) > 0).all():
        raise ValueError(f"{what}: x must be strictly increasing sequence. [nd-values]")
    return t


class PPoly:
    """Polynomials between breakpoints: c[k, i] is the coefficient of (s - x[i])^(K - 1 - k) on the i-th piece.

    Args:
        c: coefficients, the highest power first, of shape (K, m, ...) for m pieces.
        x: breakpoints, of shape (m + 1,).
        extrapolate: True to extend the first and last polynomial, False for NaN outside, or `"periodic"`. None means
            True.
        axis: position of the axes K and m in `c`, and of the points in the result.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.PPoly([[2.0, 1.0], [0.0, 2.0]], [0.0, 1.0, 2.0])([0.5, 1.5])
    array([1. , 2.5])
    """

    def __init__(self, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0) -> None:
        self.c, self.x = floating(c), floating(x)
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis
        if self.x.shape[0] < 2:
            raise ValueError("at least 2 breakpoints are needed [nd-too-few]")
        if axis:  # coefficients come as (..., k, m, ...), with k and m in place of the axis
            self.c = np.moveaxis(self.c, (axis, axis + 1), (0, 1))

    @classmethod
    def construct_fast(cls, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0) -> Self:
        """Return the polynomials without checks. The axes K and m of `c` come first.

        Args:
            c: coefficients, of shape (K, m, ...).
            x: breakpoints, of shape (m + 1,).
            extrapolate: True to extend the first and last polynomial, False for NaN outside, or `"periodic"`. None
                means True.
            axis: position of the points in the result.
        """
        made = object.__new__(cls)
        made.c, made.x, made.axis = floating(c), floating(x), axis
        made.extrapolate = True if extrapolate is None else extrapolate
        return made

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: bool | str | None = None) -> Array:
        points = floating(x)
        beyond = self.extrapolate if extrapolate is None else extrapolate
        flat = points.reshape((-1,))
        low, high = self.x[0], self.x[-1]
        if beyond == "periodic":
            flat = low + np.mod(flat - low, high - low)
        c = self._differentiate(nu) if nu else self.c
        piece = places_of(self.x, flat, self.x.shape[0] - 1)
        offset = flat - self.x[piece]
        step = columns(offset, c[0])
        made = c[0][piece] + 0.0 * step
        for k in range(1, c.shape[0]):
            made = made * step + c[k][piece]
        if beyond is False or (isinstance(beyond, numpy.bool_) and not beyond):
            inside = (flat >= low) & (flat <= high)
            made = np.where(columns(inside, made), made, numpy.nan)
        made = made.reshape((*points.shape, *made.shape[1:]))
        return _move_to_axis(made, points.ndim, self.axis)

    def _differentiate(self, nu: int) -> Array:
        """Return coefficients of a derivative, or for negative nu of an antiderivative that is continuous and starts at
        0.
        """
        c = self.c
        for _ in range(max(nu, 0)):
            degree = c.shape[0] - 1
            if degree == 0:
                return c * 0.0
            factors = numpy.arange(degree, 0, -1.0).reshape((-1, *(1,) * (c.ndim - 1)))
            c = c[:-1] * factors
        for _ in range(max(-nu, 0)):
            count = c.shape[0]
            factors = numpy.arange(count, 0, -1.0).reshape((-1, *(1,) * (c.ndim - 1)))
            raised = c / factors
            width = columns(self.x[1:] - self.x[:-1], c[0])
            ends = raised[0]
            for k in range(1, count):
                ends = ends * width + raised[k]
            steps = np.cumsum(ends * width, axis=0)
            start = np.concatenate([np.zeros_like(steps[:1]), steps[:-1]], axis=0)
            c = np.concatenate([raised, start[None]], axis=0)
        return c

    def derivative(self, nu: int = 1) -> PPoly:
        """Return a derivative as piecewise polynomials.

        Args:
            nu: order of the derivative.
        """
        return PPoly.construct_fast(self._differentiate(nu), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return a continuous antiderivative, which is zero at the first breakpoint.

        Args:
            nu: number of integrations.
        """
        return PPoly.construct_fast(
            self._differentiate(-nu), self.x, self.extrapolate if self.extrapolate != "periodic" else False, self.axis
        )

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: bool | str | None = None) -> Array:
        """Return the integral from a to b, differentiable in both ends too.

        Args:
            a: lower limit.
            b: upper limit.
            extrapolate: `"periodic"` to repeat the polynomials. The default is the setting of the object.
        """
        whole = PPoly.construct_fast(self._differentiate(-1), self.x, True, self.axis)
        beyond = self.extrapolate if extrapolate is None else extrapolate
        if beyond == "periodic":
            low, period = self.x[0], self.x[-1] - self.x[0]
            total = whole(self.x[-1]) - whole(low)

            def integrate_to(s: ArrayLike) -> Array:
                turns = np.floor((floating(s) - low) / period).detach()
                return whole(floating(s) - turns * period) + turns * total

            return integrate_to(b) - integrate_to(a)
        return whole(b) - whole(a)

    def solve(self, *args: Any, **kwargs: Any) -> Array:
        """Raise NotImplementedError: roots of piecewise polynomials have no rule here.

        Args:
            args, kwargs: arguments of SciPy's method.
        """
        raise NotImplementedError(
            "solve() and roots() have no rule here. Use ndgrad.scipy.optimize.brentq on the polynomial. "
            "[nd-no-derivative]"
        )

    roots = solve


def _move_to_axis(made: Array, dims: int, axis: int) -> Array:
    """Return results with the axes of the points in place of the interpolated axis."""
    if axis == 0:
        return made
    order = [*range(dims, dims + axis), *range(dims), *range(dims + axis, made.ndim)]
    return np.transpose(made, order)


class CubicHermiteSpline(PPoly):
    """Cubics with given values and slopes at breakpoints.

    Args:
        x: increasing sites, of shape (n,).
        y: values at the sites.
        dydx: slopes at the sites, of the shape of `y`.
        axis: axis of `y` that belongs to the sites.
        extrapolate: True to extend the first and last polynomial, False for NaN outside, or `"periodic"`. None means
            True.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.25)
    array(0.15625)
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, dydx: ArrayLike, axis: int = 0, extrapolate: bool | str | None = None,
    ) -> None:  # fmt: skip
        breaks = increasing(x, type(self).__name__)
        values, slopes = operands(floating(y), floating(dydx))
        d = one_axis(axis, values.ndim)
        if values.shape != slopes.shape:
            raise ValueError("The shapes of `y` and `dydx` must be identical. [nd-shape]")
        values, slopes = np.moveaxis(values, d, 0), np.moveaxis(slopes, d, 0)
        _check_length(breaks, values)
        self._take(breaks, values, slopes, d, extrapolate)

    def _take(self, x: Array, y: Array, s: Array, axis: int, extrapolate: bool | str | None) -> None:
        h = columns(x[1:] - x[:-1], y)
        slope = (y[1:] - y[:-1]) / h
        t = (s[:-1] + s[1:] - 2.0 * slope) / h
        self.c = np.stack([t / h, (slope - s[:-1]) / h - t, s[:-1], y[:-1]])
        self.x, self.axis = x, axis
        self.extrapolate = True if extrapolate is None else extrapolate


def _check_length(x: Array, y: Array) -> None:
    if x.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements. [nd-too-few]")
    if y.shape[0] != x.shape[0]:
        raise ValueError(
            f"The length of `y` along `axis`={y.shape[0]} doesn't match the length of `x`={x.shape[0]} [nd-shape]"
        )


def _prepare(name: str, x: ArrayLike, y: ArrayLike, axis: int) -> tuple[Array, Array, int]:
    breaks, values = increasing(x, name), floating(y)
    d = one_axis(axis, values.ndim)
    values = np.moveaxis(values, d, 0)
    _check_length(breaks, values)
    return breaks, values, d


# ----- PCHIP and Akima ------------------------------------------------------------------------------------------------


def pchip_slopes(x: Array, y: Array) -> Array:
    """Return Fritsch and Butland's slopes: a weighted harmonic mean of neighbouring differences, zero at sign
    changes.
    """
    h = columns(x[1:] - x[:-1], y)
    m = (y[1:] - y[:-1]) / h
    if y.shape[0] == 2:
        return np.concatenate([m, m], axis=0)
    before, after = m[:-1], m[1:]
    level = (np.sign(before) != np.sign(after)) | (before == 0) | (after == 0)
    w1, w2 = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    safe_before, safe_after = np.where(level, 1.0, before), np.where(level, 1.0, after)
    inner = np.where(level, 0.0, (w1 + w2) / (w1 / safe_before + w2 / safe_after))
    return np.concatenate(
        [_end_slope(h[0], h[1], m[0], m[1])[None], inner, _end_slope(h[-1], h[-2], m[-1], m[-2])[None]], axis=0
    )


def _end_slope(h0: Array, h1: Array, m0: Array, m1: Array) -> Array:
    """Return the slope of a parabola through three points, limited so that the end has no extremum of its own."""
    d = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    turned = np.sign(d) != np.sign(m0)
    steep = (np.sign(m0) != np.sign(m1)) & (abs(d) > 3.0 * abs(m0))
    return np.where(turned, 0.0, np.where(steep, 3.0 * m0, d))


class PchipInterpolator(CubicHermiteSpline):
    """Monotone cubics through points, without extrema beyond those of the data.

    Args:
        x: increasing sites, of shape (n,).
        y: values at the sites.
        axis: axis of `y` that belongs to the sites.
        extrapolate: True to extend the first and last polynomial, False for NaN outside, or `"periodic"`. None means
            True.

    >>> from ndgrad.scipy.interpolate import PchipInterpolator
    >>> PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])([0.5, 1.5])
    array([0.6875, 1.    ])
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: bool | str | None = None) -> None:
        breaks, values, d = _prepare("PchipInterpolator", x, y, axis)
        if np_dtype(values).kind == "c":
            raise ValueError(
                "`PchipInterpolator` only works with real values for `y`. Interpolate real and imaginary part. "
                "[nd-complex]"
            )
        self._take(breaks, values, pchip_slopes(breaks, values), d, extrapolate)


def pchip_interpolate(xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int | Sequence[int] = 0, axis: int = 0) -> Any:
    """Return the values (or derivatives) at `x` of the monotone cubics through points.

    Args:
        xi: increasing sites.
        yi: values at the sites.
        x: points of evaluation.
        der: order of the derivative, or a list of orders for a list of results.
        axis: axis of `yi` that belongs to the sites.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.pchip_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [0.5])
    array([0.6875])
    """
    made = PchipInterpolator(xi, yi, axis=axis)
    return made(x, nu=der) if isinstance(der, int) else [made(x, nu=k) for k in der]


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima's cubics, whose slopes weigh neighbouring differences by the variation on the other side.

    Args:
        x: increasing sites, of shape (n,).
        y: values at the sites.
        axis: axis of `y` that belongs to the sites.
        method: `"akima"`, or `"makima"` for the variant without overshoot on flat pieces.
        extrapolate: True to extend the first and last cubic, False or None for NaN outside, or `"periodic"`.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.Akima1DInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 1.0, 0.0])(0.5).round(6)
    array(0.625)
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, axis: int = 0, *, method: str = "akima",
        extrapolate: bool | str | None = None,
    ) -> None:  # fmt: skip
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported. [nd-option]")
        breaks, values, d = _prepare("Akima1DInterpolator", x, y, axis)
        m = (values[1:] - values[:-1]) / columns(breaks[1:] - breaks[:-1], values)
        if values.shape[0] == 2:
            slopes = np.concatenate([m, m], axis=0)
        else:
            first, last = 2.0 * m[:1] - m[1:2], 2.0 * m[-1:] - m[-2:-1]
            m = np.concatenate([2.0 * first - m[:1], first, m, last, 2.0 * last - m[-1:]], axis=0)
            change = abs(m[1:] - m[:-1])
            right, left = change[2:], change[:-2]
            if method == "makima":
                size = abs(m[1:] + m[:-1]) * 0.5
                right, left = right + size[2:], left + size[:-2]
            total = right + left
            known = total > 1e-9 * np.max(total).detach()
            share = left / np.where(known, total, 1.0)
            slopes = np.where(known, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))
        self._take(breaks, values, slopes, d, False if extrapolate is None else extrapolate)


# ----- cubic splines --------------------------------------------------------------------------------------------------


class CubicSpline(CubicHermiteSpline):
    """Cubics with continuous second derivatives.

    Args:
        x: increasing sites, of shape (n,).
        y: values at the sites.
        axis: axis of `y` that belongs to the sites.
        bc_type: condition at both ends, or a pair of conditions: `"not-a-knot"`, `"clamped"`, `"natural"` or (order,
            value) with order 1 or 2; or `"periodic"`. Values may carry derivatives.
        extrapolate: True to extend the first and last cubic, False for NaN outside, or `"periodic"`. The default is
            True, and `"periodic"` for periodic conditions.

    >>> from ndgrad.scipy.interpolate import CubicSpline
    >>> CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(1.5).round(6).item()
    3.375
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, axis: int = 0, bc_type: str | tuple[Any, Any] = "not-a-knot",
        extrapolate: bool | str | None = None,
    ) -> None:  # fmt: skip
        breaks, values, d = _prepare("CubicSpline", x, y, axis)
        conditions = _conditions(bc_type, values)
        if extrapolate is None:
            extrapolate = "periodic" if conditions[0] == "periodic" else True
        slopes = _spline_slopes(breaks, values, conditions)
        self._take(breaks, values, slopes, d, extrapolate)


def _conditions(bc_type: str | tuple[Any, Any], y: Array) -> list[str | tuple[int, Array]]:
    """Return one condition per end: "not-a-knot", "periodic", or the order and value of a derivative."""
    if isinstance(bc_type, str) and bc_type == "periodic":
        if not batch_dims(y) and not numpy.allclose(
            values_of(y.detach())[0], values_of(y.detach())[-1], rtol=1e-15, atol=1e-15
        ):
            raise ValueError(
                "The first and last `y` point along axis 0 must be identical (within machine precision) "
                "when bc_type='periodic'. [nd-values]"
            )
        return ["periodic", "periodic"]
    both = [bc_type, bc_type] if isinstance(bc_type, str) else list(bc_type)
    if len(both) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions. [nd-shape]")
    found = []
    for one in both:
        if isinstance(one, str):
            if one not in ("not-a-knot", "clamped", "natural"):
                raise ValueError(f"bc_type={one!r} is not allowed. [nd-option]")
            found.append(one if one == "not-a-knot" else (1 if one == "clamped" else 2, np.zeros(y.shape[1:])))
        else:
            order, value = one
            if order not in (1, 2):
                raise ValueError("The specified derivative order must be 1 or 2. [nd-option]")
            found.append((order, np.broadcast_to(floating(value), y.shape[1:])))
    return found


def _spline_slopes(x: Array, y: Array, conditions: list[Any]) -> Array:
    n = x.shape[0]
    dx = x[1:] - x[:-1]
    h = columns(dx, y)
    slope = (y[1:] - y[:-1]) / h
    if n == 2:
        conditions = [(1, slope[0]) if isinstance(c, str) else c for c in conditions]
    if n == 3 and conditions[0] == conditions[1] == "not-a-knot":
        # One parabola: its slope at the middle is the weighted slope of the chords, and it changes linearly.
        middle = (h[0] * slope[1] + h[1] * slope[0]) / (h[0] + h[1])
        return np.stack([2.0 * slope[0] - middle, middle, 2.0 * slope[1] - middle])
    if conditions[0] == "periodic":
        return _periodic_slopes(dx, h, slope, y)
    # Inside, h[i] s[i-1] + 2 (h[i-1] + h[i]) s[i] + h[i-1] s[i+1] = 3 (h[i] slope[i-1] + h[i-1] slope[i]).
    inner = 3.0 * (h[1:] * slope[:-1] + h[:-1] * slope[1:])
    first = _end_row(conditions[0], dx, h, slope, 1.0)
    last = _end_row(conditions[1], dx[::-1], h[::-1], slope[::-1], -1.0)
    zero = np.zeros(1)
    main = np.concatenate([first[0][None], 2.0 * (dx[:-1] + dx[1:]), last[0][None]])
    upper = np.concatenate([zero, first[1][None], dx[:-1]])
    lower = np.concatenate([dx[1:], last[1][None], zero])
    right = np.concatenate([first[2][None], inner, last[2][None]], axis=0)
    bands, flat = operands(np.stack([upper, main, lower]), right.reshape((n, -1)))
    return solve_banded(bands, flat, lower=1, upper=1).reshape(right.shape)


def _end_row(condition: Array, dx: Array, h: Array, slope: Array, side: float) -> tuple[Array, Array, Array]:
    """Return the diagonal entry, its neighbour and the right side of an end's equation, seen from that end inwards."""
    if condition == "not-a-knot":
        d, e = h[0] + h[1], dx[0] + dx[1]
        return dx[1], e, ((h[0] + 2.0 * d) * h[1] * slope[0] + h[0] ** 2 * slope[1]) / d
    order, value = condition
    one = np.ones_like(dx[0])
    if order == 1:
        return one, 0.0 * one, value
    return 2.0 * dx[0], dx[0], -0.5 * side * value * h[0] ** 2 + 3.0 * h[0] * slope[0]


def _periodic_slopes(dx: Array, h: Array, slope: Array, y: Array) -> Array:
    """Solve the same equations for periodic data, as a dense system."""
    n = y.shape[0]
    if n == 2:
        return np.concatenate([slope, slope], axis=0)
    if n == 3:
        mean = (slope / h).sum(axis=0) / (1.0 / h).sum(axis=0)
        return np.broadcast_to(mean, y.shape)
    size = n - 1
    before = np.roll(dx, 1)
    i = numpy.arange(size)
    matrix = np.zeros((size, size), dtype=np_dtype(dx))
    matrix[i, i] = 2.0 * (before + dx)
    matrix[i, (i - 1) % size] += dx
    matrix[i, (i + 1) % size] += before
    right = 3.0 * (h * np.roll(slope, 1, axis=0) + np.roll(h, 1, axis=0) * slope)
    a, b = operands(matrix, right.reshape((size, -1)))
    s = np.linalg.solve(a, b).reshape(right.shape)
    return np.concatenate([s, s[:1]], axis=0)
