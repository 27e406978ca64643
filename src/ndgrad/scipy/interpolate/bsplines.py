"""B-splines: evaluation, derivatives and integrals, and the splines that interpolate or fit data.

De Boor's recurrence gives the basis functions at a point. Its knots, points and coefficients are ordinary operands: all
three may carry derivatives. Interpolation solves a banded system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.banded import solve_banded
from ndgrad._src.tensor.storage import batch_dims, memory_of
from ndgrad.numpy.coercion import one_axis, operands, values_of
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.interpolate.piecewise import _move_to_axis, columns, increasing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "BSpline", "InterpolatedUnivariateSpline", "make_interp_spline", "make_lsq_spline", "splantider", "splder", "splev",
    "splint", "splrep",
]  # fmt: skip


def basis(t: Array, x: Array, k: int, count: int) -> tuple[Any, list[Any]]:
    """Return the interval t[l] <= x < t[l+1] of each point, and the k + 1 basis functions that are not zero there."""
    plain = t.detach()
    place = np.clip(np.searchsorted(plain, x.detach(), side="right") - 1, k, count - 1)
    found = [np.ones_like(x)]
    for j in range(1, k + 1):
        carried: Any = 0.0
        for r in range(j):
            right, left = t[place + r + 1] - x, x - t[place + 1 - j + r]
            width = right + left
            empty = width == 0
            part = np.where(empty, 0.0, found[r] / np.where(empty, 1.0, width))
            found[r] = carried + right * part
            carried = left * part
        found.append(carried)
    return place, found


def differentiate(t: Array, c: Array, k: int, nu: int) -> tuple[Array, Array, int]:
    """Return knots, coefficients and degree of a derivative."""
    for _ in range(nu):
        if k == 0:
            return t, c * 0.0, 0
        n = c.shape[0]
        width = t[k + 1 : n + k] - t[1:n]
        empty = width == 0
        factor = np.where(empty, 0.0, k / np.where(empty, 1.0, width))
        c = (c[1:] - c[:-1]) * columns(factor, c)
        t, k = t[1:-1], k - 1
    return t, c, k


def integrate_spline(t: Array, c: Array, k: int) -> tuple[Array, Array, int]:
    """Return knots, coefficients and degree of the antiderivative that starts at 0."""
    n = c.shape[0]
    width = (t[k + 1 : n + k + 1] - t[:n]) / (k + 1.0)
    steps = np.cumsum(c * columns(width, c), axis=0)
    c = np.concatenate([np.zeros_like(steps[:1]), steps], axis=0)
    return np.concatenate([t[:1], t, t[-1:]]), c, k + 1


class BSpline:
    """Sum of B-splines with knots `t`, coefficients `c` and degree `k`.

    Args:
        t: knots in increasing order, at least 2k + 2.
        c: coefficients, of which the first len(t) - k - 1 along `axis` are read.
        k: degree of the polynomials.
        extrapolate: True to extend the first and last polynomial, False for NaN outside, or `"periodic"`.
        axis: axis of `c` that counts the coefficients.

    >>> from ndgrad.scipy import interpolate
    >>> spline = interpolate.BSpline([0, 0, 1, 2, 2], [0.0, 1.0, 4.0], 1)
    >>> spline(0.5), spline.derivative()(1.5)
    (array(0.5), array(3.))
    """

    def __init__(
        self, t: ArrayLike, c: ArrayLike, k: int, extrapolate: bool | str | None = True, axis: int = 0,
    ) -> None:  # fmt: skip
        self.t, self.k = floating(t), int(k)
        self.c = floating(c)
        self.extrapolate = extrapolate
        self.axis = one_axis(axis, self.c.ndim)
        if self.axis:
            self.c = np.moveaxis(self.c, self.axis, 0)
        if self.k < 0:
            raise ValueError("Spline order cannot be negative. [nd-range]")
        n = self.t.shape[0] - self.k - 1
        if self.t.ndim != 1:
            raise ValueError("Knot vector must be one-dimensional. [nd-ndim]")
        if n < self.k + 1:
            raise ValueError(f"Need at least {2 * self.k + 2} knots for degree {self.k} [nd-too-few]")
        if (numpy.diff(memory_of(self.t), axis=-1) < 0).any():
            raise ValueError("Knots must be in a non-decreasing order. [nd-values]")
        if self.c.shape[0] < n:
            raise ValueError("Knots, coefficients and degree are inconsistent. [nd-shape]")
        self.c = self.c[:n]

    @property
    def tck(self) -> tuple[Array, Array, int]:
        return self.t, self.c, self.k

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: bool | str | None = None) -> Array:
        points = floating(x)
        beyond = self.extrapolate if extrapolate is None else extrapolate
        flat = points.reshape((-1,))
        n, k = self.c.shape[0], self.k
        low, high = self.t[k], self.t[n]
        if beyond == "periodic":
            flat = low + np.mod(flat - low, high - low)
        t, c, k = differentiate(self.t, self.c, self.k, nu)
        place, found = basis(t, flat, k, c.shape[0])
        made: Any = 0.0
        for j, weight in enumerate(found):
            chosen = c[place - k + j]
            made = made + chosen * columns(weight, chosen)
        if beyond is False:
            inside = (flat >= low) & (flat <= high)
            made = np.where(columns(inside, made), made, numpy.nan)
        made = made.reshape((*points.shape, *made.shape[1:]))
        return _move_to_axis(made, points.ndim, self.axis)

    def _replace_parts(self, parts: tuple[Any, Any, int], extrapolate: bool | str | None) -> BSpline:
        made = object.__new__(BSpline)
        made.t, made.c, made.k = parts
        made.extrapolate, made.axis = extrapolate, self.axis
        return made

    def derivative(self, nu: int = 1) -> BSpline:
        """Return a derivative as a spline.

        Args:
            nu: order of the derivative.
        """
        return self._replace_parts(differentiate(self.t, self.c, self.k, nu), self.extrapolate)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return an antiderivative as a spline. It is zero at the first knot.

        Args:
            nu: number of integrations.
        """
        parts = self.tck
        for _ in range(nu):
            parts = integrate_spline(*parts)
        return self._replace_parts(parts, False if self.extrapolate == "periodic" else self.extrapolate)

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: bool | str | None = None) -> Array:
        """Return the integral from a to b, differentiable in both ends too.

        Args:
            a: lower limit.
            b: upper limit.
            extrapolate: whether the spline goes on outside its interval. It is zero there otherwise. The default is the
                setting of the spline.

        Raises:
            NotImplementedError: if the spline is periodic.
        """
        beyond = self.extrapolate if extrapolate is None else extrapolate
        if beyond == "periodic":
            raise NotImplementedError(
                "BSpline.integrate over several periods has no rule here. Add integrals over whole periods yourself. "
                "[nd-no-derivative]"
            )
        low, high = self.t[self.k], self.t[self.c.shape[0]]
        a, b = floating(a), floating(b)
        if not beyond:
            a, b = (np.minimum(np.maximum(v, low), high) for v in (a, b))
        whole = self._replace_parts(integrate_spline(*self.tck), True)
        return whole(b) - whole(a)

    @classmethod
    def basis_element(cls, t: ArrayLike, extrapolate: bool | str | None = True) -> BSpline:
        """Return one B-spline on the given knots.

        Args:
            t: knots of this B-spline. Its degree is their number less 2.
            extrapolate: True to extend the first and last polynomial, False for NaN outside, or `"periodic"`.
        """
        inner = floating(t)
        k = inner.shape[0] - 2
        knots = np.concatenate([_repeat(inner[0] - 1.0, k), inner, _repeat(inner[-1] + 1.0, k)])
        c = numpy.zeros(2 * k + 1)
        c[k] = 1.0
        return cls(knots, c, k, extrapolate)

    @classmethod
    def design_matrix(cls, x: ArrayLike, t: ArrayLike, k: int, extrapolate: bool = False) -> Array:
        """Return the values of all basis functions at points, as a dense matrix (SciPy's is sparse).

        Args:
            x: points, one per row of the result.
            t: knots.
            k: degree of the splines.
            extrapolate: whether points may lie outside the base interval. They raise ValueError otherwise.
        """
        points, knots = floating(x), floating(t)
        n = knots.shape[0] - k - 1
        if not extrapolate and not batch_dims(points) and not batch_dims(knots):
            outside = (points.detach() < knots.detach()[k]) | (points.detach() > knots.detach()[n])
            if bool(outside.any()):
                raise ValueError(
                    f"design_matrix(): a point lies outside of the base interval of {n} splines of degree {k}. "
                    "Pass extrapolate=True. [nd-range]"
                )
        place, found = basis(knots, points, k, n)
        made = np.zeros((points.shape[0], n), dtype=np_dtype(found[-1]))
        rows = numpy.arange(points.shape[0])
        for j, weight in enumerate(found):
            made[rows, place - k + j] = weight
        return made


# ----- interpolation --------------------------------------------------------------------------------------------------


def _ends(bc: Array, y: Array, side: str) -> list[tuple[int, Any]]:
    """Return the conditions at one end: orders of derivatives and their values."""
    if bc is None:
        return []
    if isinstance(bc, str):
        known = {"clamped": [(1, 0.0)], "natural": [(2, 0.0)]}
        if bc not in known:
            raise ValueError(f"Unknown boundary condition : {bc} [nd-option]")
        bc = known[bc]
    return [(int(order), np.broadcast_to(floating(value), y.shape[1:])) for order, value in bc]


def _repeat(v: Array, count: int) -> Array:
    return np.broadcast_to(v, (count,))


def _knots(x: Array, k: int, ends: int) -> Array:
    """Return knots at the data (between them, for even degrees). The ends have as many fewer as conditions are
    missing.
    """
    if ends:
        return np.concatenate([_repeat(x[0], k), x, _repeat(x[-1], k)])
    inner = x if k % 2 else (x[1:] + x[:-1]) * 0.5
    cut = (k + 1) // 2 if k % 2 else k // 2
    inner = inner[cut : inner.shape[0] - cut]
    return np.concatenate([_repeat(x[0], k + 1), inner, _repeat(x[-1], k + 1)])


def make_interp_spline(
    x: ArrayLike, y: ArrayLike, k: int = 3, t: ArrayLike | None = None, bc_type: str | tuple[Any, Any] | None = None,
    axis: int = 0, check_finite: bool = True,
) -> BSpline:  # fmt: skip
    """Return the spline of degree k through points, differentiable in x, y, t and in boundary values.

    Args:
        x: increasing sites, of shape (n,).
        y: values at the sites.
        k: degree of the spline.
        t: knots. The default are the sites, or the midpoints between them for an even degree.
        bc_type: condition at both ends, or a pair of conditions: None or `"not-a-knot"`, `"clamped"`, `"natural"`, or a
            list of pairs (order, value) of derivatives.
        axis: axis of `y` that belongs to the points.
        check_finite: accepted as in SciPy; has no effect, because values are not checked.

    >>> from ndgrad.scipy.interpolate import make_interp_spline
    >>> make_interp_spline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0], k=2)(1.5).item()
    2.25
    """
    if isinstance(bc_type, str) and bc_type == "periodic":
        raise NotImplementedError(
            "make_interp_spline(bc_type='periodic') has no rule here. Use CubicSpline(..., bc_type='periodic'). "
            "[nd-no-derivative]"
        )
    sites, values = increasing(x, "make_interp_spline"), floating(y)
    d = one_axis(axis, values.ndim)
    values = np.moveaxis(values, d, 0)
    if values.shape[0] != sites.shape[0]:
        raise ValueError(f"Shapes of x {sites.shape} and y {values.shape} are incompatible [nd-shape]")
    bc = (
        (None, None)
        if bc_type is None or bc_type == "not-a-knot"
        else (bc_type, bc_type)
        if isinstance(bc_type, str)
        else tuple(bc_type)
    )
    left, right = _ends(bc[0], values, "left"), _ends(bc[1], values, "right")
    if k == 0:
        return _spline(np.concatenate([sites, sites[-1:]]), values, 0, d)
    if k == 1 and t is None:
        if left or right:
            raise ValueError("Too much info for k=1: bc_type can only be None. [nd-arguments]")
        return _spline(np.concatenate([sites[:1], sites, sites[-1:]]), values, 1, d)
    knots = _knots(sites, k, len(left) + len(right)) if t is None else floating(t)
    n = knots.shape[0] - k - 1
    if n - sites.shape[0] != len(left) + len(right):
        raise ValueError(
            f"The number of derivatives at boundaries does not match: expected {n - sites.shape[0]}, "
            f"got {len(left)}+{len(right)} [nd-shape]"
        )
    rows: list[tuple[Any, Any, Any]] = []  # row numbers, first column of each, weights
    first = len(left)
    place, found = basis(knots, sites, k, n)
    for j, weight in enumerate(found):
        rows.append((numpy.arange(first, first + sites.shape[0]), place - k + j, weight))
    for start, conditions, site in ((0, left, sites[:1]), (n - len(right), right, sites[-1:])):
        for i, (order, _) in enumerate(conditions):
            for column, weight in _derivative_row(knots, site, k, n, order):
                rows.append((numpy.array([start + i]), column, weight))
    bands = np.zeros((2 * k + 1, n), dtype=np_dtype(found[-1]))
    for row, column, weight in rows:
        bands[k + row - column, column] = weight
    parts = [np.stack([v for _, v in c]) if c else None for c in (left, right)]
    side = np.concatenate([p for p in (parts[0], values, parts[1]) if p is not None], axis=0)
    bands, flat = operands(bands, side.reshape((n, -1)))
    return _spline(knots, solve_banded(bands, flat, lower=k, upper=k).reshape(side.shape), k, d)


def _derivative_row(t: Array, x: Array, k: int, n: int, order: int) -> list[tuple[Any, Any]]:
    """Return columns and weights of a derivative at one point, from the basis of lower degree and differences of
    coefficients.
    """
    lower = k - order
    place, found = basis(t[order : t.shape[0] - order] if order else t, x, lower, n - order)
    # The rows of a (lower + 1) x (k + 1) matrix give the coefficients of the derivative from those of the spline.
    base = int(values_of(place.detach())[0]) - lower if not batch_dims(place) else None
    if base is None:
        raise NotImplementedError(
            "make_interp_spline with derivatives at the ends cannot choose its knots inside vmap. Call it outside. "
            "[nd-vmap-refused]"
        )
    combination = [[np.ones(1) if i == j else np.zeros(1) for j in range(k + 1)] for i in range(k + 1)]
    degree = k
    for step in range(order):
        made = []
        for i in range(len(combination) - 1):
            at = base + i + 1
            width = t[at + step + degree : at + step + degree + 1] - t[at + step : at + step + 1]
            made.append([(b - a) * (degree / width) for a, b in zip(combination[i], combination[i + 1], strict=True)])
        combination, degree = made, degree - 1
    weights = []
    for j in range(k + 1):
        total: Any = 0.0
        for i, value in enumerate(found):
            total = total + value * combination[i][j]
        weights.append((numpy.array([base + j]), total))
    return weights


def _spline(t: Array, c: Array, k: int, axis: int) -> BSpline:
    made = object.__new__(BSpline)
    made.t, made.c, made.k, made.extrapolate, made.axis = t, c, k, True, axis
    return made


def make_lsq_spline(
    x: ArrayLike, y: ArrayLike, t: ArrayLike, k: int = 3, w: ArrayLike | None = None, axis: int = 0,
    check_finite: bool = True, *, method: str = "qr",
) -> BSpline:  # fmt: skip
    """Return the spline on given knots with the smallest (weighted) sum of squared distances to points.

    Args:
        x: sites, of shape (n,).
        y: values at the sites.
        t: knots, with k + 1 equal ones at each end.
        k: degree of the spline.
        w: weights of the distances.
        axis: axis of `y` that belongs to the points.
        check_finite: accepted as in SciPy; has no effect, because values are not checked.
        method: accepted as in SciPy; has no effect, because a QR factorisation solves every problem.

    >>> from ndgrad.scipy import interpolate
    >>> spline = interpolate.make_lsq_spline([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], [0.0, 0.0, 2.0, 2.0], k=1)
    >>> spline(1.5).round(6)
    array(4.)
    """
    sites, values, knots = floating(x), floating(y), floating(t)
    d = one_axis(axis, values.ndim)
    values = np.moveaxis(values, d, 0)
    design = BSpline.design_matrix(sites, knots, k, extrapolate=True)
    flat = values.reshape((values.shape[0], -1))
    if w is not None:
        weights = floating(w)[:, None]
        design, flat = design * weights, flat * weights
    q, r = np.linalg.qr(design)
    c = np.linalg.solve(r, q.T @ flat)
    return _spline(knots, c.reshape((c.shape[0], *values.shape[1:])), k, d)


# ----- FITPACK's names ------------------------------------------------------------------------------------------------


def splrep(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, xb: ArrayLike | None = None, xe: ArrayLike | None = None,
    k: int = 3, task: int = 0, s: ArrayLike | None = None, t: ArrayLike | None = None, full_output: int = 0,
    per: int = 0, quiet: int = 1,
) -> tuple[Array, Array, int]:  # fmt: skip
    """Return the interpolating spline as (t, c, k).

    Args:
        x: increasing sites.
        y: values at the sites.
        w: weights, for a fit on the knots `t` with `s=0`.
        xb: must be None: the interval is that of the data.
        xe: must be None: the interval is that of the data.
        k: degree of the spline.
        task: must be 0.
        s: must be None or 0: a smoothing spline chooses its knots by values, and has no derivative.
        t: inner knots of a least squares fit. The default interpolates.
        full_output: must be 0: FITPACK's report is not available.
        per: must be 0: periodic splines are not available.
        quiet: accepted as in SciPy; has no effect, because no messages are printed.

    Returns:
        Knots, coefficients (followed by k + 1 zeros) and degree.

    Raises:
        NotImplementedError: for smoothing, periods, tasks and intervals, which have no derivative.

    >>> from ndgrad.scipy import interpolate
    >>> t, c, k = interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1)
    >>> interpolate.splev(0.5, (t, c, k))
    array(1.)
    """
    _refuse_full_output("splrep", full_output)
    if (s is not None and s != 0) or (s is None and w is not None) or per or task or xb is not None or xe is not None:
        raise NotImplementedError(
            "splrep with smoothing, weights, periods or tasks has no rule here. "
            "Use make_lsq_spline with knots of your own. [nd-no-derivative]"
        )
    made = (
        make_interp_spline(x, y, k)
        if t is None
        else make_lsq_spline(
            x,
            y,
            np.concatenate([_repeat(floating(x)[0], k + 1), floating(t), _repeat(floating(x)[-1], k + 1)]),
            k,
            w,
        )
    )
    padded = np.concatenate([made.c, np.zeros((k + 1, *made.c.shape[1:]))], axis=0)
    return made.t, padded, k


def _refuse_full_output(name: str, full_output: int) -> None:
    if full_output:
        raise NotImplementedError(
            f"{name}(): full_output returns numbers without a derivative. Leave it out. [nd-no-derivative]"
        )


def _as_spline(tck: BSpline | tuple[Any, Any, int]) -> BSpline:
    return tck if isinstance(tck, BSpline) else BSpline(*tck)


def splev(x: ArrayLike, tck: BSpline | tuple[Any, Any, int], der: int = 0, ext: int = 0) -> Array:
    """Return the values of a spline, or of a derivative of it.

    Args:
        x: points of evaluation.
        tck: knots, coefficients and degree of the spline, or a BSpline.
        der: order of the derivative.
        ext: treatment of points outside: 0 extrapolates, 1 returns 0, 2 raises ValueError, 3 returns the value at the
            end.

    >>> from ndgrad.scipy import interpolate
    >>> tck = interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1)
    >>> interpolate.splev([0.5, 1.5], tck)
    array([1. , 2.5])
    """
    spline = _as_spline(tck)
    points = floating(x)
    if ext == 0 or (ext == 3 and der):  # FITPACK's derivatives have no ext=3, and extrapolate
        return spline(points, der, True)
    low, high = spline.t[spline.k], spline.t[spline.c.shape[0]]
    outside = (points < low) | (points > high)
    if ext == 2:
        if bool(outside.any()):
            raise ValueError("splev: a point lies outside of the spline's interval, and ext=2. [nd-range]")
        return spline(points, der, True)
    inside = np.minimum(np.maximum(points, low), high)
    made = spline(inside, der, True)
    return np.where(outside, 0.0, made) if ext == 1 else made


def splint(a: ArrayLike, b: ArrayLike, tck: BSpline | tuple[Any, Any, int], full_output: int = 0) -> Array:
    """Return the integral of a spline from a to b. The spline is zero outside its interval.

    Args:
        a: lower limit.
        b: upper limit.
        tck: knots, coefficients and degree of the spline, or a BSpline.
        full_output: must be 0: FITPACK's report is not available.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.splint(0.0, 2.0, interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1))
    array(3.5)
    """
    _refuse_full_output("splint", full_output)
    return _as_spline(tck).integrate(a, b, False)


def _as_tck(made: BSpline, k: int) -> tuple[Array, Array, int]:
    return made.t, np.concatenate([made.c, np.zeros((made.t.shape[0] - made.c.shape[0], *made.c.shape[1:]))], axis=0), k


def splder(tck: BSpline | tuple[Any, Any, int], n: int = 1) -> BSpline | tuple[Array, Array, int]:
    """Return the derivative of a spline, in the form of `tck`.

    Args:
        tck: knots, coefficients and degree of the spline, or a BSpline.
        n: order of the derivative.

    >>> from ndgrad.scipy import interpolate
    >>> tck = interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1)
    >>> interpolate.splev(0.5, interpolate.splder(tck))
    array(2.)
    """
    made = _as_spline(tck).derivative(n)
    return made if isinstance(tck, BSpline) else _as_tck(made, made.k)


def splantider(tck: BSpline | tuple[Any, Any, int], n: int = 1) -> BSpline | tuple[Array, Array, int]:
    """Return the antiderivative of a spline that starts at 0, in the form of `tck`.

    Args:
        tck: knots, coefficients and degree of the spline, or a BSpline.
        n: number of integrations.

    >>> from ndgrad.scipy import interpolate
    >>> tck = interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1)
    >>> interpolate.splev(2.0, interpolate.splantider(tck))
    array(3.5)
    """
    made = _as_spline(tck).antiderivative(n)
    return made if isinstance(tck, BSpline) else _as_tck(made, made.k)


#: FITPACK's extrapolation modes, by name and by number.
_BEYOND: dict[int | str, Any] = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


class InterpolatedUnivariateSpline:
    """Spline through all points, with FITPACK's methods.

    Args:
        x: increasing sites.
        y: values at the sites.
        w: must be None: weights have no meaning for interpolation.
        bbox: must be (None, None): the interval is that of the data.
        k: degree of the spline.
        ext: treatment of points outside: 0 or `"extrapolate"`, 1 or `"zeros"`, 2 or `"raise"`, 3 or `"const"`.
        check_finite: accepted as in SciPy; has no effect, because values are not checked.

    >>> from ndgrad.scipy import interpolate
    >>> interpolate.InterpolatedUnivariateSpline([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1)(0.5)
    array(1.)
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, bbox: Sequence[float | None] = (None, None),
        k: int = 3, ext: int | str = 0, check_finite: bool = False,
    ) -> None:  # fmt: skip
        if w is not None or tuple(bbox) != (None, None):
            raise NotImplementedError(
                "InterpolatedUnivariateSpline with w or bbox has no rule here. "
                "Use make_interp_spline or make_lsq_spline. [nd-no-derivative]"
            )
        self._spline = make_interp_spline(x, y, k)
        self._ext = _BEYOND.get(ext, ext)

    def __call__(self, x: ArrayLike, nu: int = 0, ext: int | str | None = None) -> Array:
        return splev(
            x, self._spline, nu, self._ext if ext is None else _BEYOND.get(ext, ext)
        )

    def get_coeffs(self) -> Array:
        return self._spline.c

    def integral(self, a: ArrayLike, b: ArrayLike) -> Array:
        """Return the integral from a to b.

        Args:
            a: lower limit.
            b: upper limit.
        """
        return self._spline.integrate(a, b, False)

    def _wrap_spline(self, spline: BSpline) -> InterpolatedUnivariateSpline:
        made = object.__new__(InterpolatedUnivariateSpline)
        made._spline, made._ext = spline, self._ext
        return made

    def derivative(self, n: int = 1) -> InterpolatedUnivariateSpline:
        """Return a derivative as a spline.

        Args:
            n: order of the derivative.
        """
        return self._wrap_spline(self._spline.derivative(n))

    def antiderivative(self, n: int = 1) -> InterpolatedUnivariateSpline:
        """Return an antiderivative as a spline. It is zero at the first knot.

        Args:
            n: number of integrations.
        """
        return self._wrap_spline(self._spline.antiderivative(n))
