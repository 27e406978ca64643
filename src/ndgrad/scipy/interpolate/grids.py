"""Interpolation on lines and grids: interp1d, RegularGridInterpolator, interpn, RectBivariateSpline."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.storage import batch_dims, memory_of
from ndgrad.numpy.coercion import one_axis, operands
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.interpolate.bsplines import basis, differentiate, make_interp_spline
from ndgrad.scipy.interpolate.piecewise import _move_to_axis, columns, increasing, pchip_slopes, places_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Array, ArrayLike

__all__ = ["RectBivariateSpline", "RegularGridInterpolator", "interp1d", "interpn"]

_DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
_STEPS = ("nearest", "nearest-up", "previous", "next")


class interp1d:
    """Function through points: straight lines, steps or splines.

    Args:
        x: sites, of shape (n,).
        y: values at the sites.
        kind: `"linear"`, `"nearest"`, `"nearest-up"`, `"previous"`, `"next"`, `"zero"`, `"slinear"`, `"quadratic"`,
            `"cubic"`, or the degree of a spline, 0 to 3.
        axis: axis of `y` that belongs to the sites.
        copy: accepted as in SciPy; has no effect, because inputs are never changed.
        bounds_error: whether points outside raise ValueError. The default is True if `fill_value` is NaN.
        fill_value: value outside, a pair of values below and above, or `"extrapolate"`.
        assume_sorted: whether `x` is increasing. It is sorted otherwise.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.interp1d([0.0, 1.0, 2.0], [0.0, 2.0, 3.0])(0.5)
    array(1.)
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, kind: int | str = "linear", axis: int = -1, copy: bool = True,
        bounds_error: bool | None = None, fill_value: ArrayLike = numpy.nan, assume_sorted: bool = False,
    ) -> None:  # fmt: skip
        sites, values = floating(x), floating(y)
        if sites.ndim != 1:
            raise ValueError("the x array must have exactly one dimension. [nd-ndim]")
        self.axis = one_axis(axis, values.ndim)
        values = np.moveaxis(values, self.axis, 0)
        if values.shape[0] != sites.shape[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis. [nd-shape]")
        if not assume_sorted:
            order = np.argsort(sites.detach(), kind="stable")
            sites, values = sites[order], values[order]
        if isinstance(kind, int):
            kind = {1: "slinear", 2: "quadratic", 3: "cubic", 0: "zero"}.get(kind, str(kind))
        self.x, self.y, self.kind = sites, values, kind
        self._extrapolates = isinstance(fill_value, str)
        if self._extrapolates and fill_value != "extrapolate":
            raise ValueError(f"fill_value must be numbers or 'extrapolate', but is {fill_value!r}. [nd-option]")
        self._fill = fill_value
        unsaid = (
            not self._extrapolates
            and not isinstance(fill_value, (Variable, tuple))
            and bool(numpy.isnan(fill_value).all())
        )
        self.bounds_error = unsaid if bounds_error is None else bounds_error
        if kind in _DEGREES and kind not in ("zero",):
            self._spline = make_interp_spline(sites, values, _DEGREES[kind])
        elif kind not in ("linear", "zero", *_STEPS):
            raise NotImplementedError(f"{kind} is unsupported: Use fitpack routines for other types. [nd-option]")

    def __call__(self, x: ArrayLike) -> Array:
        points = floating(x)
        flat = points.reshape((-1,))
        low, high = self.x[0], self.x[-1]
        below, above = flat < low, flat > high
        if self.bounds_error and not batch_dims(flat + self.x[0]) and bool((below | above).any()):
            raise ValueError(
                "A value in x_new is outside of the interpolation range. "
                "Give fill_value='extrapolate', or bounds_error=False. [nd-range]"
            )
        made = self._inside(flat)
        if not self._extrapolates:
            pair = self._fill if isinstance(self._fill, tuple) else (self._fill, self._fill)
            for outside, fill in zip((below, above), pair, strict=True):
                made = np.where(columns(outside, made), fill, made)
        made = made.reshape((*points.shape, *made.shape[1:]))
        return _move_to_axis(made, points.ndim, self.axis)

    def _inside(self, flat: Array) -> Array:
        n = self.x.shape[0]
        if self.kind in ("linear", "slinear"):
            piece = places_of(self.x, flat, n - 1)
            left, right = self.x[piece], self.x[piece + 1]
            share = (flat - left) / (right - left)
            first = self.y[piece]
            return first + (self.y[piece + 1] - first) * columns(share, first)
        if self.kind in ("quadratic", "cubic"):
            return self._spline(flat)
        # The choice of the site is a decision: it does not depend smoothly on positions.
        sites, at = self.x.detach(), flat.detach()
        if self.kind in ("previous", "zero"):
            index = np.searchsorted(sites, at, side="right") - 1
        elif self.kind == "next":
            index = np.searchsorted(sites, at, side="left")
        else:
            middles = (sites[1:] + sites[:-1]) * 0.5
            index = np.searchsorted(middles, at, side="left" if self.kind == "nearest" else "right")
        made = self.y[np.clip(index, 0, n - 1)]
        missing = (index < 0) | (index >= n) if self.kind in ("previous", "next") else index != index
        return np.where(columns(missing, made), numpy.nan, made)


# ----- grids ----------------------------------------------------------------------------------------------------------

_SPLINES = {"slinear": 1, "cubic": 3, "quintic": 5}
_METHODS = ("linear", "nearest", "pchip", *_SPLINES)


class RegularGridInterpolator:
    """Function given on a regular grid, differentiable in its values, in the grid and in the points of evaluation.

    Args:
        points: coordinates of the grid along each axis, increasing or decreasing.
        values: values on the grid. Further axes hold several functions.
        method: `"linear"`, `"nearest"`, `"slinear"`, `"cubic"`, `"quintic"` or `"pchip"`.
        bounds_error: whether points outside raise ValueError.
        fill_value: value outside, or None to extrapolate.
        solver: accepted as in SciPy; has no effect, because splines are solved directly.
        solver_args: accepted as in SciPy; has no effect.

    >>> from ndgrad.scipy import interpolate
    >>> f = interpolate.RegularGridInterpolator(([0.0, 1.0], [0.0, 1.0]), [[0.0, 1.0], [2.0, 3.0]])
    >>> f([[0.5, 0.5]])
    array([1.5])
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: ArrayLike = numpy.nan,
        *,
        solver: ArrayLike | None = None,
        solver_args: ArrayLike | None = None,
    ) -> None:
        if method not in _METHODS:
            raise ValueError(f"Method '{method}' is not defined [nd-option]")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.values = floating(values)
        grid = [floating(p) for p in points]
        if len(grid) > self.values.ndim:
            raise ValueError(
                f"There are {len(grid)} point arrays, but values has {self.values.ndim} dimensions [nd-shape]"
            )
        for d, p in enumerate(grid):
            if p.ndim == 1 and p.shape[0] > 1 and (numpy.diff(memory_of(p), axis=-1) < 0).all():
                grid[d], self.values = p[::-1], np.flip(self.values, d)
            if grid[d].shape[0] != self.values.shape[d]:
                raise ValueError(
                    f"There are {grid[d].shape[0]} points and {self.values.shape[d]} values along dimension {d} "
                    "[nd-shape]"
                )
        self.grid = tuple(increasing(p, "RegularGridInterpolator") for p in grid)

    def __call__(self, xi: ArrayLike, method: str | None = None, *, nu: Sequence[int] | None = None) -> Array:
        method = self.method if method is None else method
        if method not in _METHODS:
            raise ValueError(f"Method '{method}' is not defined [nd-option]")
        if nu is not None and method not in _SPLINES:
            raise ValueError(f"Can only compute derivatives for methods {list(_SPLINES)}, got {method}. [nd-option]")
        n = len(self.grid)
        at = (
            np.stack(np.broadcast_arrays(*(floating(x) for x in xi)), axis=-1)
            if isinstance(xi, tuple)
            else floating(xi)
        )
        at = at[None] if at.ndim == 1 and n > 1 else at[..., None] if at.ndim == 1 else at
        if at.shape[-1] != n:
            raise ValueError(
                f"The requested sample points xi have dimension {at.shape[-1]} but this "
                f"RegularGridInterpolator has dimension {n} [nd-shape]"
            )
        flat = at.reshape((-1, n))
        places = [flat[:, d] for d in range(n)]
        outside: Any = False
        for p, g in zip(places, self.grid, strict=True):
            outside = outside | (p < g[0]) | (p > g[-1])
        if self.bounds_error:
            for d, (p, g) in enumerate(zip(places, self.grid, strict=True)):
                if not batch_dims(p) and bool(((p < g[0]) | (p > g[-1])).any()):
                    raise ValueError(f"One of the requested xi is out of bounds in dimension {d} [nd-range]")
        if method == "linear":
            made = self._linear(places)
        elif method == "nearest":
            made = self._nearest(places)
        elif method == "pchip":
            made = self._pchip(places)
        else:
            made = tensor_spline(
                self.grid, self.values, places, _SPLINES[method], (0,) * n if nu is None else tuple(nu)
            )
        if not self.bounds_error and self.fill_value is not None:
            made = np.where(columns(outside, made), self.fill_value, made)
        nans = np.isnan(flat).any(axis=-1)
        made = np.where(columns(nans, made), numpy.nan, made)
        return made.reshape((*at.shape[:-1], *self.values.shape[n:]))

    def _pieces(self, places: list[Any]) -> tuple[list[Any], list[Any]]:
        pieces = [places_of(g, p, g.shape[0] - 1) for g, p in zip(self.grid, places, strict=True)]
        shares = [(p - g[i]) / (g[i + 1] - g[i]) for g, p, i in zip(self.grid, places, pieces, strict=True)]
        return pieces, shares

    def _linear(self, places: list[Any]) -> Array:
        pieces, shares = self._pieces(places)
        made: Any = 0.0
        for corner in product((0, 1), repeat=len(places)):
            value = self.values[tuple(i + c for i, c in zip(pieces, corner, strict=True))]
            weight: Any = 1.0
            for share, c in zip(shares, corner, strict=True):
                weight = weight * (share if c else 1.0 - share)
            made = made + value * columns(weight, value)
        return made

    def _nearest(self, places: list[Any]) -> Array:
        pieces, shares = self._pieces(places)
        return self.values[tuple(np.where(s.detach() <= 0.5, i, i + 1) for i, s in zip(pieces, shares, strict=True))]

    def _pchip(self, places: list[Any]) -> Array:
        """Interpolate one axis after the other, the last first; the points come to the front with the first of
        these.
        """
        n = len(places)
        values = self.values
        rows: Any = None
        for d in range(n - 1, -1, -1):
            x, p = self.grid[d], places[d]
            piece = places_of(x, p, x.shape[0] - 1)
            # Move the axis of interpolation to the front. It is d before the points are inserted, and d + 1 afterwards.
            y = np.moveaxis(values, d if rows is None else d + 1, 0)
            s = pchip_slopes(x, y)
            h = x[piece + 1] - x[piece]
            u = (p - x[piece]) / h
            if rows is None:
                rows = numpy.arange(p.shape[0])
                (y0, y1), (s0, s1) = ((v[piece], v[piece + 1]) for v in (y, s))
            else:
                (y0, y1), (s0, s1) = ((v[piece, rows], v[piece + 1, rows]) for v in (y, s))
            u, h = columns(u, y0), columns(h, y0)
            values = (
                y0 * (1 + 2 * u) * (1 - u) ** 2
                + s0 * h * u * (1 - u) ** 2
                + y1 * u**2 * (3 - 2 * u)
                + s1 * h * u**2 * (u - 1)
            )
        return values


def tensor_spline(
    grid: Sequence[Array], values: Array, places: list[Array], k: int | Sequence[int], nu: tuple[int, ...]
) -> Array:
    """Evaluate the interpolating spline of several axes, a product of one-dimensional ones, at scattered points."""
    degrees = (k,) * len(grid) if isinstance(k, int) else tuple(k)
    coefficients = values
    knots = []
    for d, (x, degree) in enumerate(zip(grid, degrees, strict=True)):
        if x.shape[0] <= degree:
            raise ValueError(
                f"There are {x.shape[0]} points in dimension {d}, but a spline of degree {degree} requires at least "
                f"{degree + 1} points per dimension. [nd-too-few]"
            )
        made = make_interp_spline(x, np.moveaxis(coefficients, d, 0), degree)
        t, c, _ = differentiate(made.t, made.c, degree, nu[d])
        knots.append((t, max(degree - nu[d], 0)))
        coefficients = np.moveaxis(c, 0, d)
    found = [
        basis(t, p, degree, coefficients.shape[d]) for d, ((t, degree), p) in enumerate(zip(knots, places, strict=True))
    ]
    total: Any = 0.0
    for choice in product(*(range(degree + 1) for _, degree in knots)):
        value = coefficients[tuple(found[d][0] - knots[d][1] + j for d, j in enumerate(choice))]
        weight: Any = 1.0
        for d, j in enumerate(choice):
            weight = weight * found[d][1][j]
        total = total + value * columns(weight, value)
    return total


def interpn(
    points: Sequence[ArrayLike], values: ArrayLike, xi: ArrayLike, method: str = "linear", bounds_error: bool = True,
    fill_value: ArrayLike = numpy.nan,
) -> Array:  # fmt: skip
    """Return the values of a function on a regular grid at other points.

    Args:
        points: coordinates of the grid along each axis.
        values: values on the grid.
        xi: points of evaluation, with coordinates along the last axis.
        method: method of RegularGridInterpolator, or `"splinef2d"` for RectBivariateSpline.
        bounds_error: whether points outside raise ValueError.
        fill_value: value outside, or None to extrapolate.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import interpolate
    >>> interpolate.interpn(([0.0, 1.0], [0.0, 1.0]), np.array([[0.0, 1.0], [2.0, 3.0]]), [[0.5, 0.5]])
    array([1.5])
    """
    if method == "splinef2d":
        x, y = (floating(p) for p in points)
        at = floating(xi)
        inside = (at[..., 0] >= x[0]) & (at[..., 0] <= x[-1]) & (at[..., 1] >= y[0]) & (at[..., 1] <= y[-1])
        if bounds_error and not bool(inside.all()):
            raise ValueError("One of the requested xi is out of bounds [nd-range]")
        made = RectBivariateSpline(x, y, values).ev(at[..., 0], at[..., 1])
        return np.where(inside, made, fill_value)
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


class RectBivariateSpline:
    """Spline through values on a rectangular grid, with FITPACK's methods.

    Args:
        x: increasing coordinates of the rows, of shape (m,).
        y: increasing coordinates of the columns, of shape (n,).
        z: values, of shape (m, n).
        bbox: must hold only None: the box is that of the data.
        kx: degree along the rows.
        ky: degree along the columns.
        s: must be 0: a smoothing spline has no derivative.
        maxit: accepted as in SciPy; has no effect, because only smoothing iterates.

    >>> from ndgrad.scipy import interpolate
    >>> f = interpolate.RectBivariateSpline([0.0, 1.0], [0.0, 1.0], [[0.0, 1.0], [2.0, 3.0]], kx=1, ky=1)
    >>> f(0.5, 0.5)
    array([[1.5]])
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, z: ArrayLike, bbox: Sequence[float | None] = (None, None, None, None),
        kx: int = 3, ky: int = 3, s: ArrayLike = 0, maxit: int = 20,
    ) -> None:  # fmt: skip
        if s != 0 or any(b is not None for b in bbox):
            raise NotImplementedError(
                "RectBivariateSpline with smoothing or bbox has no rule here. Use s=0 and the box of the data. "
                "[nd-no-derivative]"
            )
        self.x, self.y = increasing(x, "RectBivariateSpline"), increasing(y, "RectBivariateSpline")
        self.z = floating(z)
        self.degrees = (kx, ky)
        if self.z.shape != (self.x.shape[0], self.y.shape[0]):
            raise ValueError(
                f"x and y of lengths {self.x.shape[0]} and {self.y.shape[0]} do not fit z of shape {self.z.shape} "
                "[nd-shape]"
            )

    def ev(self, xi: ArrayLike, yi: ArrayLike, dx: int = 0, dy: int = 0) -> Array:
        """Return the values at single points. Points outside move to the border.

        Args:
            xi: first coordinates of the points.
            yi: second coordinates of the points.
            dx: order of the derivative along the first coordinate.
            dy: order of the derivative along the second coordinate.
        """
        u, v = (np.asarray(t) for t in np.broadcast_arrays(*operands(floating(xi), floating(yi))))
        shape = u.shape
        inside = [np.minimum(np.maximum(p.reshape((-1,)), g[0]), g[-1]) for p, g in ((u, self.x), (v, self.y))]
        return tensor_spline((self.x, self.y), self.z, inside, self.degrees, (dx, dy)).reshape(shape)

    def __call__(self, x: ArrayLike, y: ArrayLike, dx: int = 0, dy: int = 0, grid: bool = True) -> Array:
        if not grid:
            return self.ev(x, y, dx, dy)
        u, v = np.atleast_1d(floating(x)), np.atleast_1d(floating(y))
        return self.ev(u[:, None], v, dx, dy)
