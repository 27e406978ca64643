"""Images at positions between pixels: splines of order 0 to 5, and transformations based on them.

A spline's coefficients are a linear function of the pixels: along an axis, a constant matrix (SciPy's filter of the
unit vectors). Its value at a position is a sum over neighbouring coefficients, with weights that are polynomials in the
position. So everything is differentiable in the image and in the positions, and transformations in their parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import Variable
from ndgrad.numpy.coercion import one_axis, values_of
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.ndimage.borders import sequence, total, wrap_image_function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike
    from ndgrad.scipy.ndimage.borders import Output

__all__ = [
    "affine_transform", "geometric_transform", "map_coordinates", "rotate", "shift", "spline_filter", "spline_filter1d",
    "zoom",
]  # fmt: skip

_MODES = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap")
#: Number of pixels by which SciPy extends an image before it computes a spline with level or zero ends.
_MARGIN = 12


def _check(order: int, mode: str) -> int:
    if not 0 <= int(order) <= 5:
        raise RuntimeError("spline order not supported [nd-option]")
    if mode not in _MODES:
        raise RuntimeError(f"boundary mode not supported: {mode!r} [nd-option]")
    return int(order)


# ----- coefficients ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _filter_matrix(n: int, order: int, mode: str) -> NDArray[Any]:
    import scipy.ndimage

    return scipy.ndimage.spline_filter1d(numpy.eye(n), order, axis=0, output=numpy.float64, mode=mode)


def _filter_axis(t: Array, order: int, axis: int, mode: str) -> Array:
    if order < 2 or t.shape[axis] < 2:
        return t
    moved = np.moveaxis(t, axis, -1)
    return np.moveaxis(moved @ _filter_matrix(t.shape[axis], order, mode).T, -1, axis)


@wrap_image_function
def spline_filter1d(input: Array, order: int = 3, axis: int = -1, output: Output = None, mode: str = "mirror") -> Array:
    """Coefficients of the spline through the pixels along an axis.

    Args:
        input: image of any number of axes.
        order: order of the spline, 0 to 5.
        axis: axis of the filter.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.spline_filter1d([0.0, 6.0, 0.0], order=2)
    array([-3.,  9., -3.])
    """
    return _filter_axis(input, _check(order, mode), one_axis(axis, input.ndim), mode)


@wrap_image_function
def spline_filter(input: Array, order: int = 3, output: Output = None, mode: str = "mirror") -> Array:
    """Coefficients of the spline through the pixels, along all axes.

    Args:
        input: image of any number of axes.
        order: order of the spline, 0 to 5.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.spline_filter([0.0, 6.0, 0.0], order=2)
    array([-3.,  9., -3.])
    """
    if order < 2:
        raise RuntimeError("spline order not supported [nd-option]")
    made = input
    for d in range(input.ndim):
        made = _filter_axis(made, _check(order, mode), d, mode)
    return made


# ----- places ---------------------------------------------------------------------------------------------------------


def _inside(c: Array, n: int, mode: str) -> Array:
    """Map positions into the image, according to the mode."""
    if mode == "constant":
        return c
    # Each neighbour is mapped inside separately; beyond a few pixels all are at the border.
    if mode in ("nearest", "grid-constant"):
        return np.clip(c, -8.0, n + 7.0)
    if n == 1:
        return c * 0.0
    outside = (c < 0) | (c > n - 1)
    if mode == "mirror":
        turn = np.mod(c, 2.0 * n - 2.0)
        return np.where(outside, np.where(turn > n - 1, 2.0 * n - 2.0 - turn, turn), c)
    if mode == "wrap":
        turn = np.mod(c, n - 1.0)
        # In SciPy, whole periods below 0 end at the last pixel.
        turn = np.where((c < 0) & (turn == 0), turn + (n - 1.0), turn)
        return np.where(outside, turn, c)
    if mode == "grid-wrap":
        return np.mod(c, float(n))
    turn = np.mod(c + 0.5, 2.0 * n)
    return np.where(outside, np.where(turn > n, 2.0 * n - turn, turn) - 0.5, c)


def _coefficient_places(i: Array, n: int, mode: str) -> Array:
    """Map neighbours outside the image inside, according to the filter's extension of the coefficients."""
    if n == 1:
        return i * 0
    if mode == "grid-wrap":
        return np.mod(i, n)
    if mode in ("reflect", "grid-mirror"):
        turn = np.mod(i, 2 * n)
        return np.where(turn >= n, 2 * n - 1 - turn, turn)
    if mode in ("grid-constant", "nearest"):
        return np.clip(i, 0, n - 1)
    turn = np.mod(i, 2 * n - 2)
    return np.where(turn >= n, 2 * n - 2 - turn, turn)


def _weights(t: Array, order: int) -> list[Array]:
    """Return the B-splines that are not zero between two knots, at the fraction t of the interval."""
    found = [np.ones_like(t)]
    for j in range(1, order + 1):
        carried: Any = 0.0
        for r in range(j):
            part = found[r] * (1.0 / j)
            found[r] = (r + 1 - t) * part + carried
            carried = (t + (j - 1 - r)) * part
        found.append(carried)
    return found


def _sample(image: Array, places: list[Array], order: int, mode: str, cval: ArrayLike, prefilter: bool) -> Array:
    """Return the image at positions, given as one Array per axis, all of one shape."""
    shape = image.shape
    coefficients, margin = image, 0
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            margin = _MARGIN
            edge = {"mode": "edge"} if mode == "nearest" else {"mode": "constant", "constant_values": cval}
            coefficients = np.pad(coefficients, margin, **edge)
        for d in range(image.ndim):
            coefficients = _filter_axis(coefficients, order, d, mode)
    outside: Any = False
    indices, weights, strange = [], [], []
    for d, c in enumerate(places):
        n = shape[d]
        if mode == "constant":
            away = (c < 0) | (c > n - 1)
            outside = outside | away
            c = np.where(away, 0.0, c)
        at = _inside(c + float(margin) if margin else c, n + 2 * margin, mode)
        base = np.floor(at if order % 2 else at + 0.5)
        part = at - base if order % 2 else at + 0.5 - base
        first = base.astype(numpy.int64) - order // 2
        whole = n + 2 * margin
        indices.append([_coefficient_places(first + k, whole, mode) for k in range(order + 1)])
        strange.append([(first + k < 0) | (first + k >= whole) for k in range(order + 1)])
        weights.append(_weights(part, order) if order else [])
    made: Any = 0.0
    for choice in product(range(order + 1), repeat=len(places)):
        value = coefficients[tuple(indices[d][k] for d, k in enumerate(choice))]
        if mode == "grid-constant":
            for d, k in enumerate(choice):
                value = np.where(strange[d][k], cval, value)
        for d, k in enumerate(choice):
            if order:
                value = value * weights[d][k]
        made = made + value
    return np.where(outside, cval, made) if mode == "constant" else made


@wrap_image_function
def map_coordinates(
    input: Array, coordinates: ArrayLike, output: Output = None, order: int = 3, mode: str = "constant",
    cval: ArrayLike = 0.0, prefilter: bool = True,
) -> Array:  # fmt: skip
    """The image at positions (one row of coordinates per axis), differentiable in the image and in the positions.

    Args:
        input: image of any number of axes.
        coordinates: positions, of shape (input.ndim, ...).
        output: array that receives the result, or the dtype of the result.
        order: order of the spline, 0 to 5.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.
        cval: value beyond the borders in the modes `"constant"` and `"grid-constant"`.
        prefilter: whether coefficients of the spline are computed from the image. False means that `input` holds
            coefficients.

    Returns:
        An array of the shape `coordinates.shape[1:]`.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.map_coordinates([[0.0, 1.0], [2.0, 3.0]], [[0.5], [0.25]], order=1)
    array([1.25])
    """
    order = _check(order, mode)
    places = floating(coordinates)
    if places.ndim < 1 or places.shape[0] != input.ndim:
        raise RuntimeError(
            f"invalid shape for coordinate array: {places.shape} for an image of {input.ndim} axes [nd-shape]"
        )
    return _sample(input, [places[d] for d in range(input.ndim)], order, mode, cval, prefilter)


# ----- transformations ------------------------------------------------------------------------------------------------


def _grid(shape: tuple[int, ...]) -> list[NDArray[Any]]:
    return [numpy.broadcast_to(g.astype(float), shape) for g in numpy.ogrid[tuple(slice(0, n) for n in shape)]]


def _affine(
    t: Array, matrix: ArrayLike, offset: ArrayLike, shape: tuple[int, ...], order: int, mode: str, cval: ArrayLike,
    prefilter: bool,
) -> Array:  # fmt: skip
    m = floating(matrix)
    n = t.ndim
    if m.ndim == 2 and m.shape in ((n + 1, n + 1), (n, n + 1)):
        offset, m = m[:n, n], m[:n, :n]
    moves = sequence(offset, n)
    grid = _grid(shape)
    if m.ndim == 1:
        places = [m[d] * grid[d] + moves[d] for d in range(n)]
    else:
        if m.shape != (n, len(shape)):
            raise RuntimeError("affine matrix has wrong number of rows [nd-shape]")
        places = [total([m[d, e] * grid[e] for e in range(len(shape))]) + moves[d] for d in range(n)]
    return _sample(t, places, order, mode, cval, prefilter)


@wrap_image_function
def affine_transform(
    input: Array, matrix: ArrayLike, offset: ArrayLike = 0.0, output_shape: Sequence[int] | None = None,
    output: Output = None, order: int = 3, mode: str = "constant", cval: ArrayLike = 0.0, prefilter: bool = True,
) -> Array:  # fmt: skip
    """The image at matrix @ position + offset, differentiable in all three.

    Args:
        input: image of any number of axes.
        matrix: matrix of shape (n, n), or (n + 1, n + 1) or (n, n + 1) with the offset, or its diagonal of shape (n,).
        offset: offset, a number or one per axis.
        output_shape: shape of the result. The default is that of `input`.
        output: array that receives the result, or the dtype of the result.
        order: order of the spline, 0 to 5.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.
        cval: value beyond the borders in the modes `"constant"` and `"grid-constant"`.
        prefilter: whether coefficients of the spline are computed from the image. False means that `input` holds
            coefficients.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.affine_transform([0.0, 1.0, 2.0, 3.0], [0.5], offset=1.0, order=1)
    array([1. , 1.5, 2. , 2.5])
    """
    order = _check(order, mode)
    shape = input.shape if output_shape is None else tuple(int(n) for n in output_shape)
    return _affine(input, matrix, offset, shape, order, mode, cval, prefilter)


@wrap_image_function
def shift(
    input: Array, shift: ArrayLike, output: Output = None, order: int = 3, mode: str = "constant",
    cval: ArrayLike = 0.0, prefilter: bool = True,
) -> Array:  # fmt: skip
    """The image moved by a number of pixels along each axis, which may carry a derivative.

    Args:
        input: image of any number of axes.
        shift: distance in pixels; several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        order: order of the spline, 0 to 5.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.
        cval: value beyond the borders in the modes `"constant"` and `"grid-constant"`.
        prefilter: whether coefficients of the spline are computed from the image. False means that `input` holds
            coefficients.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.shift([0.0, 1.0, 2.0, 3.0], 0.5, order=1)
    array([0. , 0.5, 1.5, 2.5])
    """
    order = _check(order, mode)
    places = [g - s for g, s in zip(_grid(input.shape), sequence(shift, input.ndim), strict=True)]
    return _sample(input, [floating(p) for p in places], order, mode, cval, prefilter)


@wrap_image_function
def zoom(
    input: Array, zoom: ArrayLike, output: Output = None, order: int = 3, mode: str = "constant", cval: ArrayLike = 0.0,
    prefilter: bool = True, *, grid_mode: bool = False,
) -> Array:  # fmt: skip
    """The image with more or fewer pixels; the number of pixels is whole, so there is no derivative in the factor.

    Args:
        input: image of any number of axes.
        zoom: factor; several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        order: order of the spline, 0 to 5.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.
        cval: value beyond the borders in the modes `"constant"` and `"grid-constant"`.
        prefilter: whether coefficients of the spline are computed from the image. False means that `input` holds
            coefficients.
        grid_mode: whether the ends of the image are the outer sides of its pixels, instead of their centres.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.zoom([0.0, 2.0, 4.0], 5 / 3, order=1)
    array([0., 1., 2., 3., 4.])
    """
    order = _check(order, mode)
    factors = [float(values_of(z.detach()) if isinstance(z, Variable) else z) for z in sequence(zoom, input.ndim)]
    shape = tuple(round(n * z) for n, z in zip(input.shape, factors, strict=True))
    places = []
    for g, n, m in zip(_grid(shape), input.shape, shape, strict=True):
        if grid_mode:
            places.append(floating((g + 0.5) * (n / m) - 0.5))
        else:  # the last position must not leave the image by rounding
            places.append(floating(numpy.minimum(g * ((n - 1) / (m - 1)), n - 1) if m > 1 else g * 0.0))
    return _sample(input, places, order, mode, cval, prefilter)


@wrap_image_function
def rotate(
    input: Array, angle: ArrayLike, axes: Sequence[int] = (1, 0), reshape: bool = True, output: Output = None,
    order: int = 3, mode: str = "constant", cval: ArrayLike = 0.0, prefilter: bool = True,
) -> Array:  # fmt: skip
    """The image turned in the plane of two axes by an angle in degrees, which may carry a derivative.

    Args:
        input: image of any number of axes.
        angle: angle in degrees.
        axes: two axes that span the plane of the rotation.
        reshape: whether the result is large enough for the whole rotated image.
        output: array that receives the result, or the dtype of the result.
        order: order of the spline, 0 to 5.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.
        cval: value beyond the borders in the modes `"constant"` and `"grid-constant"`.
        prefilter: whether coefficients of the spline are computed from the image. False means that `input` holds
            coefficients.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.rotate([[1.0, 2.0], [3.0, 4.0]], 90.0, order=1).round(6)
    array([[2., 4.],
           [1., 3.]])
    """
    order = _check(order, mode)
    if len(axes) != 2:
        raise ValueError("axes should contain exactly two values [nd-dim]")
    first, second = sorted(one_axis(a, input.ndim) for a in axes)
    turn = floating(angle) * (math.pi / 180)
    c, s = np.cos(turn), np.sin(turn)
    size = numpy.array([input.shape[first], input.shape[second]])
    out = size
    if reshape:
        import scipy.special

        degrees = float(values_of(floating(angle).detach()))
        plain = numpy.array(
            [
                [scipy.special.cosdg(degrees), scipy.special.sindg(degrees)],
                [-scipy.special.sindg(degrees), scipy.special.cosdg(degrees)],
            ]
        )
        corners = plain @ numpy.array([[0, 0, size[0], size[0]], [0, size[1], 0, size[1]]])
        out = (numpy.ptp(corners, axis=1) + 0.5).astype(int)
    shape = list(input.shape)
    shape[first], shape[second] = int(out[0]), int(out[1])
    grid = _grid(tuple(shape))
    middle_out, middle_in = (out - 1) / 2, (size - 1) / 2
    u, v = grid[first] - middle_out[0], grid[second] - middle_out[1]
    places = [floating(g) for g in grid]
    places[first] = c * u + s * v + middle_in[0]
    places[second] = c * v - s * u + middle_in[1]
    return _sample_planes(input, places, first, second, order, mode, cval, prefilter)


def _sample_planes(
    t: Array, places: list[Array], first: int, second: int, order: int, mode: str, cval: ArrayLike, prefilter: bool,
) -> Array:  # fmt: skip
    """Return samples of each plane separately: SciPy rotates them one by one, without interpolation along other
    axes.
    """
    if t.ndim == 2:
        return _sample(t, places, order, mode, cval, prefilter)
    others = [d for d in range(t.ndim) if d not in (first, second)]
    planes = np.transpose(t, (*others, first, second))
    lead = planes.shape[: len(others)]
    flat = planes.reshape((-1, *planes.shape[-2:]))
    index = tuple(slice(None) if d in (first, second) else 0 for d in range(t.ndim))
    where = [places[first][index], places[second][index]]
    made = np.stack([_sample(flat[k], where, order, mode, cval, prefilter) for k in range(flat.shape[0])])
    made = made.reshape((*lead, *made.shape[1:]))
    return np.transpose(made, tuple(numpy.argsort((*others, first, second))))


@wrap_image_function
def geometric_transform(
    input: Array, mapping: Callable[..., Any], output_shape: Sequence[int] | None = None, output: Output = None,
    order: int = 3, mode: str = "constant", cval: ArrayLike = 0.0, prefilter: bool = True,
    extra_arguments: tuple[Any, ...] = (), extra_keywords: dict[str, Any] | None = None,
) -> Array:  # fmt: skip
    """The image at mapping(position) for every position of the result.

    The mapping is called once, with arrays of all positions instead of numbers; it must use NumPy's functions.

    Args:
        input: image of any number of axes.
        mapping: function from positions in the result to positions in the image, each a tuple of arrays, one per axis.
        output_shape: shape of the result. The default is that of `input`.
        output: array that receives the result, or the dtype of the result.
        order: order of the spline, 0 to 5.
        mode: values beyond the borders: `"constant"`, `"grid-constant"`, `"nearest"`, `"reflect"` (or `"grid-mirror"`),
            `"mirror"`, `"wrap"` or `"grid-wrap"`.
        cval: value beyond the borders in the modes `"constant"` and `"grid-constant"`.
        prefilter: whether coefficients of the spline are computed from the image. False means that `input` holds
            coefficients.
        extra_arguments: further positional arguments of `mapping`.
        extra_keywords: further keyword arguments of `mapping`.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.geometric_transform([0.0, 1.0, 2.0, 3.0], lambda at: (at[0] * 0.5,), order=1)
    array([0. , 0.5, 1. , 1.5])
    """
    order = _check(order, mode)
    shape = input.shape if output_shape is None else tuple(int(n) for n in output_shape)
    found = mapping(tuple(floating(g) for g in _grid(shape)), *extra_arguments, **(extra_keywords or {}))
    places = [np.broadcast_to(floating(p), shape) for p in found]
    return _sample(input, places, order, mode, cval, prefilter)
