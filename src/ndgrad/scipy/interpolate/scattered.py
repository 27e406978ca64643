"""Interpolation of scattered data: radial basis functions, triangulations, nearest neighbours; and
polynomials through points.

Values determine triangles and neighbours. The interpolation inside them is differentiable in data, sites and points.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.tensor.storage import memory_of
from ndgrad.numpy.coercion import one_axis, values_of
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.interpolate.grids import interp1d
from ndgrad.scipy.interpolate.piecewise import _move_to_axis, columns
from ndgrad.scipy.signal.response import _expand_roots

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, RandomState

__all__ = [
    "BarycentricInterpolator", "KroghInterpolator", "LinearNDInterpolator", "NearestNDInterpolator", "RBFInterpolator",
    "barycentric_interpolate", "griddata", "krogh_interpolate", "lagrange",
]  # fmt: skip

# ----- radial basis functions -----------------------------------------------------------------------------------------

# Functions of the squared distance q = r^2, so that nothing is singular at a site; odd powers of r have no second
# derivative there.
_Kernel = Callable[[Any], Any]


def _root(q: Array) -> Array:
    zero = q == 0
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, q)))


def _plate(q: Array) -> Array:
    """Return r^2 log r."""
    zero = q == 0
    return np.where(zero, 0.0, 0.5 * q * np.log(np.where(zero, 1.0, q)))


_KERNELS: dict[str, tuple[_Kernel, int]] = {
    "linear": (lambda q: -_root(q), 0),
    "thin_plate_spline": (_plate, 1),
    "cubic": (lambda q: q * _root(q), 1),
    "quintic": (lambda q: -q * q * _root(q), 2),
    "multiquadric": (lambda q: -np.sqrt(q + 1.0), 0),
    "inverse_multiquadric": (lambda q: 1.0 / np.sqrt(q + 1.0), -1),
    "inverse_quadratic": (lambda q: 1.0 / (q + 1.0), -1),
    "gaussian": (lambda q: np.exp(-q), -1),
}
_SCALE_FREE = ("linear", "thin_plate_spline", "cubic", "quintic")


class RBFInterpolator:
    """Sum of radial functions and a polynomial through (or, with smoothing, near) data at scattered sites.
    Differentiable in sites, data, points, smoothing and epsilon.

    Differentiable in sites, data, points, smoothing and epsilon.

    Args:
        y: sites, of shape (n, d).
        d: data at the sites, of shape (n, ...).
        neighbors: must be None: one system of all sites is solved.
        smoothing: amount of smoothing, a number or one per site. 0 interpolates.
        kernel: `"linear"`, `"thin_plate_spline"`, `"cubic"`, `"quintic"`, `"multiquadric"`, `"inverse_multiquadric"`,
            `"inverse_quadratic"` or `"gaussian"`.
        epsilon: factor of distances. Required for kernels that depend on a scale, the last four.
        degree: degree of the polynomial, -1 for none. The default depends on the kernel.

    >>> from ndgrad.scipy import interpolate
    >>> f = interpolate.RBFInterpolator([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0], kernel="linear")
    >>> f([[0.5]]).round(6)
    array([0.5])
    """

    def __init__(
        self, y: ArrayLike, d: ArrayLike, neighbors: int | None = None, smoothing: ArrayLike = 0.0,
        kernel: str = "thin_plate_spline", epsilon: ArrayLike | None = None, degree: int | None = None,
    ) -> None:  # fmt: skip
        if neighbors is not None:
            raise NotImplementedError(
                "RBFInterpolator(neighbors=...) has no rule here. Leave it out: one system of all sites is solved. "
                "[nd-no-derivative]"
            )
        if kernel not in _KERNELS:
            raise ValueError(f"`kernel` must be one of {sorted(_KERNELS)}. [nd-option]")
        sites, data = floating(y), floating(d)
        if sites.ndim != 2:
            raise ValueError("`y` must be a 2-dimensional array. [nd-ndim]")
        if data.shape[0] != sites.shape[0]:
            raise ValueError(f"Expected the first axis of `d` to have length {sites.shape[0]}. [nd-shape]")
        if epsilon is None and kernel not in _SCALE_FREE:
            raise ValueError(f"`epsilon` must be specified if `kernel` is not one of {set(_SCALE_FREE)}. [nd-option]")
        self.sites, self.shape = sites, data.shape[1:]
        self.epsilon = floating(1.0 if epsilon is None else epsilon)
        self._kernel, least = _KERNELS[kernel]
        most = max(least, 0) if degree is None else int(degree)
        n, dims = sites.shape
        self._powers = [c for k in range(most + 1) for c in combinations_with_replacement(range(dims), k)]
        # Shift and scale sites into [-1, 1] for the monomials: the result is the same, the system better conditioned.
        low, high = sites.detach().min(axis=0), sites.detach().max(axis=0)
        self._shift, scale = (high + low) / 2.0, (high - low) / 2.0
        self._scale = np.where(scale == 0, 1.0, scale)
        p = self._monomials(sites)
        m = p.shape[1]
        if m > n:
            raise ValueError(
                f"At least {m} data points are required when `degree` is {most} and the number of dimensions is "
                f"{dims}. [nd-too-few]"
            )
        inner = self._kernel(self._squares(sites, sites)) + np.broadcast_to(floating(smoothing), (n,))[
            :, None
        ] * np.eye(n)
        top = np.concatenate([inner, p], axis=1)
        bottom = np.concatenate([p.T, np.zeros((m, m))], axis=1)
        right = np.concatenate(
            [data.reshape((n, -1)), np.zeros((m, data.reshape((n, -1)).shape[1]), dtype=np_dtype(data))], axis=0
        )
        try:
            self._coefficients = np.linalg.solve(np.concatenate([top, bottom], axis=0).astype(np_dtype(right)), right)
        except numpy.linalg.LinAlgError:
            raise numpy.linalg.LinAlgError(
                "Singular matrix: sites repeat, or lie on a line or plane. Add smoothing, or a lower degree. "
                "[nd-singular]"
            ) from None

    def _squares(self, a: Array, b: Array) -> Array:
        rest = (a[:, None, :] - b[None]) * self.epsilon
        return (rest * rest).sum(axis=-1)

    def _monomials(self, x: Array) -> Array:
        z = (x - self._shift) / self._scale
        made = []
        for places in self._powers:
            term: Any = np.ones(z.shape[0])
            for d in places:
                term = term * z[:, d]
            made.append(term)
        return np.stack(made, axis=1) if made else np.zeros((z.shape[0], 0))

    def __call__(self, x: ArrayLike) -> Array:
        points = floating(x)
        if points.ndim != 2 or points.shape[1] != self.sites.shape[1]:
            raise ValueError(
                f"Expected the second axis of `x` to have length {self.sites.shape[1]}, "
                f"but its shape is {points.shape}. [nd-shape]"
            )
        parts = np.concatenate([self._kernel(self._squares(points, self.sites)), self._monomials(points)], axis=1)
        return (parts @ self._coefficients).reshape((points.shape[0], *self.shape))


# ----- triangulations and neighbours ----------------------------------------------------------------------------------


def _as_points(x: ArrayLike, *more: Any) -> Array:
    if more:
        x = (x, *more)
    if isinstance(x, tuple):
        return np.stack(np.broadcast_arrays(*(floating(v) for v in x)), axis=-1)
    return floating(x)


class LinearNDInterpolator:
    """Linear interpolation in each simplex of a triangulation of the sites.

    Args:
        points: sites, of shape (n, d).
        values: data at the sites, of shape (n, ...).
        fill_value: value outside of the convex hull.
        rescale: whether coordinates are scaled to a unit cube first.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.LinearNDInterpolator([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 2.0, 4.0])([[0.25, 0.25]])
    array([1.5])
    """

    def __init__(
        self, points: ArrayLike, values: ArrayLike, fill_value: ArrayLike = numpy.nan, rescale: bool = False,
    ) -> None:  # fmt: skip
        from scipy.spatial import Delaunay

        self.sites, self.values, self.fill_value = _as_points(points), floating(values), fill_value
        if self.values.shape[0] != self.sites.shape[0]:
            raise ValueError("different number of values and points [nd-shape]")
        plain = values_of(self.sites.detach())
        self._low, span = plain.min(axis=0), numpy.ptp(plain, axis=0)
        self._span = numpy.where(span > 0, span, 1.0) if rescale else numpy.ones_like(span)
        self._triangles = Delaunay((plain - self._low) / self._span)

    def __call__(self, *args: Any) -> Array:
        at = _as_points(*args)
        flat = at.reshape((-1, at.shape[-1]))
        found = self._triangles.find_simplex((values_of(flat.detach()) - self._low) / self._span)
        corners = self._triangles.simplices[numpy.where(found < 0, 0, found)]
        last = self.sites[corners[:, -1]]
        edges = np.stack([self.sites[corners[:, k]] - last for k in range(corners.shape[1] - 1)], axis=-1)
        shares = np.linalg.solve(edges, (flat - last)[..., None])[..., 0]
        weights = np.concatenate([shares, 1.0 - shares.sum(axis=-1, keepdims=True)], axis=-1)
        made: Any = 0.0
        for k in range(corners.shape[1]):
            value = self.values[corners[:, k]]
            made = made + value * columns(weights[:, k], value)
        made = np.where(columns(np.asarray(found >= 0), made), made, self.fill_value)
        return made.reshape((*at.shape[:-1], *self.values.shape[1:]))


class NearestNDInterpolator:
    """Value at the nearest site, differentiable only in the values.

    Args:
        x: sites, of shape (n, d).
        y: data at the sites, of shape (n, ...).
        rescale: whether coordinates are scaled to a unit cube first.
        tree_options: settings of `scipy.spatial.cKDTree`.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.NearestNDInterpolator([[0.0, 0.0], [1.0, 0.0]], [0.0, 2.0])([[0.75, 0.0]])
    array([2.])
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, rescale: bool = False, tree_options: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        from scipy.spatial import cKDTree

        sites = values_of(_as_points(x).detach())
        self.values = floating(y)
        span = numpy.ptp(sites, axis=0)
        self._low, self._span = (
            sites.min(axis=0),
            numpy.where(span > 0, span, 1.0) if rescale else numpy.ones_like(span),
        )
        self._tree = cKDTree((sites - self._low) / self._span, **(tree_options or {}))

    def __call__(self, *args: Any, **query_options: Any) -> Array:
        at = _as_points(*args)
        _, place = self._tree.query((values_of(at.detach()) - self._low) / self._span, **query_options)
        return self.values[place]


def griddata(
    points: ArrayLike, values: ArrayLike, xi: ArrayLike, method: str = "linear", fill_value: ArrayLike = numpy.nan,
    rescale: bool = False,
) -> Array:  # fmt: skip
    """Interpolate scattered data at other points, by triangles or nearest neighbours.

    Args:
        points: sites, of shape (n, d).
        values: data at the sites, of shape (n, ...).
        xi: points of evaluation, with coordinates along the last axis.
        method: `"linear"` or `"nearest"`, and in one dimension `"cubic"`.
        fill_value: value outside of the convex hull. Has no effect for `"nearest"`.
        rescale: whether coordinates are scaled to a unit cube first.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.griddata([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 2.0, 4.0], [[0.25, 0.25]])
    array([1.5])
    """
    sites = _as_points(points)
    if sites.ndim < 2:
        sites = sites[:, None]
    if sites.shape[-1] == 1 and method in ("nearest", "linear", "cubic"):
        at = _as_points(xi)
        at = at[..., 0] if at.ndim and at.shape[-1] == 1 else at
        fill = "extrapolate" if method == "nearest" else fill_value
        return interp1d(sites[:, 0], values, kind=method, axis=0, bounds_error=False, fill_value=fill)(at)
    if method == "nearest":
        return NearestNDInterpolator(sites, values, rescale)(xi)
    if method == "linear":
        return LinearNDInterpolator(sites, values, fill_value, rescale)(xi)
    raise NotImplementedError(
        f"griddata(method={method!r}) has no rule here for several dimensions. Use 'linear', or RBFInterpolator. "
        "[nd-no-derivative]"
    )


# ----- polynomials through points -------------------------------------------------------------------------------------


class BarycentricInterpolator:
    """Polynomial through points, in the barycentric form; differentiable in sites, values and points.

    Args:
        xi: distinct sites.
        yi: values at the sites. They are required.
        axis: axis of `yi` that belongs to the sites.
        wi: barycentric weights. The default computes them from the sites.
        rng: accepted as in SciPy; has no effect, because sites are not reordered.
        random_state: accepted as in SciPy; has no effect, because sites are not reordered.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.BarycentricInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(1.5)
    array(2.25)
    """

    def __init__(
        self, xi: ArrayLike, yi: ArrayLike | None = None, axis: int = 0, *, wi: ArrayLike | None = None,
        rng: RandomState = None, random_state: RandomState = None,
    ) -> None:  # fmt: skip
        if yi is None:
            raise NotImplementedError(
                "BarycentricInterpolator without values has no rule here. Make it when the values are known. "
                "[nd-no-derivative]"
            )
        self.xi, values = floating(xi), floating(yi)
        self.axis = one_axis(axis, values.ndim)
        self.yi = np.moveaxis(values, self.axis, 0)
        if self.yi.shape[0] != self.xi.shape[0]:
            raise ValueError(
                f"x and y arrays of lengths {self.xi.shape[0]} and {self.yi.shape[0]} must be equal "
                "in length along the axis. [nd-shape]"
            )
        n = self.xi.shape[0]
        gaps = self.xi[:, None] - self.xi + np.eye(n)
        # Scale by the capacity of the interval, so that products neither overflow nor underflow.
        span = (self.xi.detach().max() - self.xi.detach().min()) / 4.0
        self.wi = (
            1.0 / (np.where(numpy.eye(n, dtype=bool), 1.0, gaps / span)).prod(axis=1) if wi is None else floating(wi)
        )

    def __call__(self, x: ArrayLike) -> Array:
        points = floating(x)
        flat = points.reshape((-1,))
        rest = flat[:, None] - self.xi
        # Products of all differences but one: unlike the quotient of the usual form, they are not singular at a site.
        n = self.xi.shape[0]
        span = (self.xi.detach().max() - self.xi.detach().min()) / 4.0
        scaled = rest / span
        ones = np.ones_like(scaled[:, :1])
        before = np.concatenate([ones, np.cumprod(scaled[:, :-1], axis=1)], axis=1)
        after = np.concatenate([np.cumprod(scaled[:, :0:-1], axis=1)[:, ::-1], ones], axis=1)
        weights = before * after * self.wi
        made = (weights @ self.yi.reshape((n, -1))).reshape((flat.shape[0], *self.yi.shape[1:]))
        made = made.reshape((*points.shape, *made.shape[1:]))
        return _move_to_axis(made, points.ndim, self.axis)


def barycentric_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, axis: int = 0, *, der: ArrayLike = 0, rng: RandomState = None,
) -> Array:  # fmt: skip
    """Return the values at `x` of the polynomial through points.

    Args:
        xi: distinct sites.
        yi: values at the sites.
        x: points of evaluation.
        axis: axis of `yi` that belongs to the sites.
        der: must be 0. Differentiate by `ndgrad.func.grad` instead.
        rng: accepted as in SciPy; has no effect, because sites are not reordered.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.barycentric_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], 1.5)
    array(2.25)
    """
    if der != 0:
        raise NotImplementedError(
            "barycentric_interpolate(der=...) has no rule here: differentiate it with ndgrad.func.grad. "
            "[nd-no-derivative]"
        )
    return BarycentricInterpolator(xi, yi, axis)(x)


class KroghInterpolator(BarycentricInterpolator):
    """Polynomial through points. Repeated sites, which mean derivatives in SciPy, have no rule here.

    Args:
        xi: distinct sites.
        yi: values at the sites.
        axis: axis of `yi` that belongs to the sites.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.KroghInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(1.5)
    array(2.25)
    """

    def __init__(self, xi: ArrayLike, yi: ArrayLike, axis: int = 0) -> None:
        plain = memory_of(floating(xi))
        if (numpy.diff(numpy.sort(plain, axis=-1), axis=-1) == 0).any():
            raise NotImplementedError(
                "KroghInterpolator with repeated sites has no rule here. Use CubicHermiteSpline for values and slopes. "
                "[nd-no-derivative]"
            )
        super().__init__(xi, yi, axis)


def krogh_interpolate(xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: ArrayLike = 0, axis: int = 0) -> Array:
    """Return the values at `x` of the polynomial through points.

    Args:
        xi: distinct sites.
        yi: values at the sites.
        x: points of evaluation.
        der: must be 0. Differentiate by `ndgrad.func.grad` instead.
        axis: axis of `yi` that belongs to the sites.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.krogh_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], 1.5)
    array(2.25)
    """
    if der != 0:
        raise NotImplementedError(
            "krogh_interpolate(der=...) has no rule here: differentiate it with ndgrad.func.grad. [nd-no-derivative]"
        )
    return KroghInterpolator(xi, yi, axis)(x)


class _Polynomial:
    """A polynomial with its coefficients, the highest first: a poly1d of Arrays."""

    def __init__(self, coefficients: Array) -> None:
        self.c = self.coef = self.coefficients = coefficients

    @property
    def order(self) -> int:
        return int(self.c.shape[0]) - 1

    def __call__(self, x: Array) -> Array:
        return np.polyval(self.c, floating(x))


def lagrange(x: ArrayLike, w: ArrayLike) -> _Polynomial:
    """Return the polynomial through points (x, w), with its coefficients `.c`.

    Args:
        x: distinct sites. For more than about 20 the result is unstable.
        w: values at the sites.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.lagrange([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(3.0)
    array(9.)
    """
    sites, values = floating(x), floating(w)
    n = sites.shape[0]
    total: Any = 0.0
    for j in range(n):
        others = sites[numpy.array([k for k in range(n) if k != j], int)]
        total = total + _expand_roots(others) * (values[j] / (sites[j] - others).prod())
    return _Polynomial(total)
