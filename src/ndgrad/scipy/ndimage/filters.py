"""Linear filters (correlations, Gaussians, derivatives) and order filters (maxima, medians, morphology) of images.

Linear filters are differentiable in image and weights, the Gaussian in its width. The gradient of an order filter goes
to the chosen pixel; equal extremes share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.numpy.coercion import one_axis, operands, values_of
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.ndimage.borders import axes_of, extend, mode_of, neighbourhoods, sequence, total, wrap_image_function

if TYPE_CHECKING:

    import numpy.typing as npt

    from ndgrad._typing import Array, ArrayLike, Axes, Shape
    from ndgrad.scipy.ndimage.borders import Modes, Output, Whole

__all__ = [
    "black_tophat", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "generic_gradient_magnitude", "generic_laplace", "grey_closing",
    "grey_dilation", "grey_erosion", "grey_opening", "laplace", "maximum_filter", "maximum_filter1d", "median_filter",
    "minimum_filter", "minimum_filter1d", "morphological_gradient", "morphological_laplace", "percentile_filter",
    "prewitt", "rank_filter", "sobel", "uniform_filter", "uniform_filter1d", "white_tophat",
]  # fmt: skip

# ----- correlations ---------------------------------------------------------------------------------------------------


def _correlate1d(t: Array, weights: ArrayLike, axis: int, mode: str, cval: ArrayLike, origin: int) -> Array:
    w = floating(weights)
    if w.ndim != 1 or w.shape[0] < 1:
        raise RuntimeError("no filter weights given [nd-arguments]")
    d = one_axis(axis, t.ndim)
    size = w.shape[0]
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError(
            "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2 [nd-window]"
        )
    t, w = operands(t, w)
    n = t.shape[d]
    wide = np.moveaxis(extend(t, d, before, size - 1 - before, mode_of(mode), cval), d, -1)
    lead = wide.shape[:-1]
    made = tensor_ops.convolution(
        wide.reshape((-1, 1, wide.shape[-1])),
        w.reshape((1, 1, size)),
        None,
        stride=(1,),
        padding=(0,),
        dilation=(1,),
        groups=1,
    )
    return np.moveaxis(made.reshape((*lead, n)), -1, d)


@wrap_image_function
def correlate1d(
    input: Array, weights: ArrayLike, axis: int = -1, output: Output = None, mode: str = "reflect",
    cval: ArrayLike = 0.0, origin: int = 0,
) -> Array:  # fmt: skip
    """The correlation along an axis.

    Args:
        input: image of any number of axes.
        weights: filter, of shape (n,).
        axis: axis of the filter.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.correlate1d([2.0, 8.0, 0.0, 4.0], weights=[1.0, 3.0])
    array([ 8., 26.,  8., 12.])
    """
    return _correlate1d(input, weights, axis, mode, cval, origin)


@wrap_image_function
def convolve1d(
    input: Array, weights: ArrayLike, axis: int = -1, output: Output = None, mode: str = "reflect",
    cval: ArrayLike = 0.0, origin: int = 0,
) -> Array:  # fmt: skip
    """The convolution along an axis, differentiable in both.

    Args:
        input: image of any number of axes.
        weights: filter, of shape (n,). It is reversed.
        axis: axis of the filter.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.convolve1d([2.0, 8.0, 0.0, 4.0], weights=[1.0, 3.0])
    array([14., 24.,  4., 16.])
    """
    w = floating(weights)
    return _correlate1d(input, w[::-1], axis, mode, cval, -origin - (w.shape[0] % 2 == 0))


def _correlate(
    t: Array, weights: ArrayLike, mode: Modes, cval: ArrayLike, origin: Whole, axes: Axes, *, turned: bool,
) -> Array:  # fmt: skip
    dims = axes_of(axes, t.ndim)
    w = floating(weights)
    if w.ndim != len(dims):
        raise RuntimeError(f"weights.ndim ({w.ndim}) must match len(axes) ({len(dims)}) [nd-ndim]")
    origins = [int(o) for o in sequence(origin, len(dims))]
    if turned:
        w = np.flip(w)
        origins = [-o - (n % 2 == 0) for o, n in zip(origins, w.shape, strict=True)]
    t, w = operands(t, w)
    for d, size, o, m in zip(dims, w.shape, origins, sequence(mode, len(dims)), strict=True):
        before = size // 2 + o
        if not 0 <= before < size:
            raise ValueError(
                "Invalid origin; "
                "origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2 [nd-window]"
            )
        t = extend(t, d, before, size - 1 - before, mode_of(m), cval)
    others = [d for d in range(t.ndim) if d not in dims]
    wide = np.transpose(t, (*others, *dims)) if others else t
    lead = wide.shape[: len(others)]
    k = len(dims)
    made = tensor_ops.convolution(
        wide.reshape((math.prod(lead), 1, *wide.shape[len(others) :])), w.reshape((1, 1, *w.shape)), None,
        stride=(1,) * k, padding=(0,) * k, dilation=(1,) * k, groups=1,
    )  # fmt: skip
    made = made.reshape((*lead, *made.shape[2:]))
    return np.transpose(made, tuple(numpy.argsort((*others, *dims)))) if others else made


@wrap_image_function
def correlate(
    input: Array, weights: ArrayLike, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
    origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The correlation with weights of as many axes, differentiable in both.

    Args:
        input: image of any number of axes.
        weights: filter, with as many axes as `axes`.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.correlate([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]])
    array([[2., 3.],
           [4., 5.]])
    """
    return _correlate(input, weights, mode, cval, origin, axes, turned=False)


@wrap_image_function
def convolve(
    input: Array, weights: ArrayLike, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
    origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The convolution with weights of as many axes, differentiable in both.

    Args:
        input: image of any number of axes.
        weights: filter, with as many axes as `axes`. It is reversed.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.convolve([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]])
    array([[5., 6.],
           [7., 8.]])
    """
    return _correlate(input, weights, mode, cval, origin, axes, turned=True)


@wrap_image_function
def uniform_filter1d(
    input: Array, size: int, axis: int = -1, output: Output = None, mode: str = "reflect", cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:  # fmt: skip
    """The mean of neighbours along an axis.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        axis: axis of the filter.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.uniform_filter1d([3.0, 0.0, 6.0], size=3)
    array([2., 3., 4.])
    """
    return _correlate1d(input, numpy.full(int(size), 1.0 / size), axis, mode, cval, origin)


@wrap_image_function
def uniform_filter(
    input: Array, size: Shape | None = 3, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
    origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The mean of the pixels in a box around each.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.uniform_filter([3.0, 0.0, 6.0], size=3)
    array([2., 3., 4.])
    """
    dims = axes_of(axes, input.ndim)
    made = input
    for d, n, m, o in zip(dims, *(sequence(v, len(dims)) for v in (size, mode, origin)), strict=True):
        if n > 1:
            made = _correlate1d(made, numpy.full(int(n), 1.0 / n), d, m, cval, o)
    return made


# ----- Gaussians ------------------------------------------------------------------------------------------------------


def _gaussian_weights(sigma: Array, order: int, radius: int) -> Array:
    """Return the normal density at integers, divided by its sum, times the polynomial of a derivative; differentiable
    in sigma.
    """
    if order < 0:
        raise ValueError("order must be non-negative [nd-range]")
    x = numpy.arange(-radius, radius + 1)
    variance = sigma * sigma
    phi = np.exp(x * x * (-0.5 / variance))
    phi = phi / phi.sum()
    if order == 0:
        return phi
    # For q(x) phi(x), a derivative maps q to q' - q x / variance.
    q = [np.ones_like(variance)]
    for _ in range(order):
        rises = [q[k + 1] * float(k + 1) for k in range(len(q) - 1)]
        falls = [np.zeros_like(variance), *(-c / variance for c in q)]
        q = [falls[k] + rises[k] if k < len(rises) else falls[k] for k in range(len(falls))]
    return total([c * x.astype(float) ** k for k, c in enumerate(q)]) * phi


def _gaussian1d(
    t: Array, sigma: ArrayLike, axis: int, order: int, mode: str, cval: ArrayLike, truncate: float, radius: int | None,
) -> Array:  # fmt: skip
    s = floating(sigma)
    reach = int(truncate * float(values_of(s.detach())) + 0.5) if radius is None else int(radius)
    if reach < 0:
        raise ValueError("Radius must be a nonnegative integer. [nd-range]")
    return _correlate1d(t, _gaussian_weights(s, order, reach)[::-1], axis, mode, cval, 0)


@wrap_image_function
def gaussian_filter1d(
    input: Array, sigma: ArrayLike, axis: int = -1, order: int = 0, output: Output = None, mode: str = "reflect",
    cval: ArrayLike = 0.0, truncate: float = 4.0, *, radius: int | None = None,
) -> Array:  # fmt: skip
    """A Gaussian along an axis, or with `order` its derivative; differentiable in sigma (except through the integer
    radius).

    Args:
        input: image of any number of axes.
        sigma: standard deviation of the Gaussian in pixels; several axes may have one each.
        axis: axis of the filter.
        order: order of the derivative; 0 smooths. Several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        truncate: radius of the filter in standard deviations.
        radius: radius of the filter in pixels, instead of `truncate`; several axes may have one each.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.gaussian_filter1d([0.0, 1.0, 0.0], sigma=0.5)
    array([0.10671464, 0.78657073, 0.10671464])
    """
    return _gaussian1d(input, sigma, axis, order, mode, cval, truncate, radius)


@wrap_image_function
def gaussian_filter(
    input: Array, sigma: ArrayLike, order: Whole = 0, output: Output = None, mode: Modes = "reflect",
    cval: ArrayLike = 0.0, truncate: float = 4.0, *, radius: Whole | None = None, axes: Axes = None,
) -> Array:  # fmt: skip
    """The image smoothed by a Gaussian of width `sigma`, or with `order` a derivative of it; differentiable in sigma
    too.

    Args:
        input: image of any number of axes.
        sigma: standard deviation of the Gaussian in pixels; several axes may have one each.
        order: order of the derivative; 0 smooths. Several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        truncate: radius of the filter in standard deviations.
        radius: radius of the filter in pixels, instead of `truncate`; several axes may have one each.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.gaussian_filter([[0.0, 0.0], [0.0, 4.0]], sigma=0.5)
    array([[0.0457776 , 0.38213641],
           [0.38213641, 3.18994958]])
    """
    return _gaussian(input, sigma, order, mode, cval, truncate, radius, axes)


def _gaussian(
    t: Array, sigma: ArrayLike, order: Whole, mode: Modes, cval: ArrayLike, truncate: float, radius: Whole | None,
    axes: Axes,
) -> Array:  # fmt: skip
    dims = axes_of(axes, t.ndim)
    made = t
    for d, s, o, m, r in zip(dims, *(sequence(v, len(dims)) for v in (sigma, order, mode, radius)), strict=True):
        if float(values_of(s.detach()) if isinstance(s, Variable) else s) > 1e-15:
            made = _gaussian1d(made, s, d, o, m, cval, truncate, r)
    return made


def _gaussian_derivatives(
    t: Array, order: int, sigma: ArrayLike, mode: Modes, cval: ArrayLike, axes: Axes, truncate: float,
    radius: Whole | None,
) -> list[Array]:  # fmt: skip
    """Return a derivative of a Gaussian of the image along each axis."""
    dims = axes_of(axes, t.ndim)
    return [_gaussian(t, sigma, [order * (e == d) for e in dims], mode, cval, truncate, radius, dims) for d in dims]


@wrap_image_function
def gaussian_laplace(
    input: Array, sigma: ArrayLike, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0, *,
    axes: Axes = None, truncate: float = 4.0, radius: Whole | None = None,
) -> Array:  # fmt: skip
    """The sum of second derivatives of a Gaussian.

    Args:
        input: image of any number of axes.
        sigma: standard deviation of the Gaussian in pixels; several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        axes: axes of the filter. None means all.
        truncate: radius of the filter in standard deviations.
        radius: radius of the filter in pixels, instead of `truncate`; several axes may have one each.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.gaussian_laplace([0.0, 1.0, 0.0], sigma=1.0)
    array([ 0.16398084, -0.32803368,  0.16398084])
    """
    return total(_gaussian_derivatives(input, 2, sigma, mode, cval, axes, truncate, radius))


@wrap_image_function
def gaussian_gradient_magnitude(
    input: Array, sigma: ArrayLike, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0, *,
    axes: Axes = None, truncate: float = 4.0, radius: Whole | None = None,
) -> Array:  # fmt: skip
    """The length of the gradient of a Gaussian of the image.

    Args:
        input: image of any number of axes.
        sigma: standard deviation of the Gaussian in pixels; several axes may have one each.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        axes: axes of the filter. None means all.
        truncate: radius of the filter in standard deviations.
        radius: radius of the filter in pixels, instead of `truncate`; several axes may have one each.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.gaussian_gradient_magnitude([0.0, 1.0, 3.0], sigma=1.0)
    array([0.45686531, 1.04825513, 0.59138982])
    """
    parts = _gaussian_derivatives(input, 1, sigma, mode, cval, axes, truncate, radius)
    return np.sqrt(total([p * p for p in parts]))


# ----- derivatives ----------------------------------------------------------------------------------------------------


def _edges(t: Array, axis: int, mode: Modes, cval: ArrayLike, smooth: list[float]) -> Array:
    d = one_axis(axis, t.ndim)
    modes = sequence(mode, t.ndim)
    made = _correlate1d(t, [-1.0, 0.0, 1.0], d, modes[d], cval, 0)
    for other in range(t.ndim):
        if other != d:
            made = _correlate1d(made, smooth, other, modes[other], cval, 0)
    return made


@wrap_image_function
def sobel(input: Array, axis: int = -1, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0) -> Array:
    """Sobel's derivative along an axis, smoothed along the others.

    Args:
        input: image of any number of axes.
        axis: axis of the derivative.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.sobel([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    array([[4., 8., 4.],
           [4., 8., 4.]])
    """
    return _edges(input, axis, mode, cval, [1.0, 2.0, 1.0])


@wrap_image_function
def prewitt(
    input: Array, axis: int = -1, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Prewitt's derivative along an axis, smoothed along the others.

    Args:
        input: image of any number of axes.
        axis: axis of the derivative.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.prewitt([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    array([[3., 6., 3.],
           [3., 6., 3.]])
    """
    return _edges(input, axis, mode, cval, [1.0, 1.0, 1.0])


@wrap_image_function
def laplace(
    input: Array, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The sum of second differences along the axes.

    Args:
        input: image of any number of axes.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.laplace([0.0, 0.0, 1.0, 0.0, 0.0])
    array([ 0.,  1., -2.,  1.,  0.])
    """
    dims = axes_of(axes, input.ndim)
    parts = [
        _correlate1d(input, [1.0, -2.0, 1.0], d, m, cval, 0)
        for d, m in zip(dims, sequence(mode, len(dims)), strict=True)
    ]
    return total(parts)


def _derivatives(
    input: Array, derivative: Callable[..., Any], mode: Modes, cval: ArrayLike, arguments: tuple[Any, ...],
    keywords: dict[str, Any] | None, axes: Axes,
) -> list[Array]:  # fmt: skip
    dims = axes_of(axes, input.ndim)
    more = keywords or {}
    return [
        derivative(input, d, None, m, cval, *arguments, **more)
        for d, m in zip(dims, sequence(mode, len(dims)), strict=True)
    ]


@wrap_image_function
def generic_laplace(
    input: Array, derivative2: Callable[..., Any], output: Output = None, mode: Modes = "reflect",
    cval: ArrayLike = 0.0, extra_arguments: tuple[Any, ...] = (), extra_keywords: dict[str, Any] | None = None, *,
    axes: Axes = None,
) -> Array:  # fmt: skip
    """The sum of second derivatives, computed by `derivative2(input, axis, output, mode, cval, ...)` with `output`
    None.

    Args:
        input: image of any number of axes.
        derivative2: function that returns the second derivative along an axis. Its `output` is None.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        extra_arguments: further positional arguments of the function.
        extra_keywords: further keyword arguments of the function.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> second = lambda t, axis, output, mode, cval: ndimage.correlate1d(t, [1.0, -2.0, 1.0], axis, output, mode, cval)
    >>> ndimage.generic_laplace([0.0, 1.0, 0.0], second)
    array([ 1., -2.,  1.])
    """
    return total(_derivatives(input, derivative2, mode, cval, extra_arguments, extra_keywords, axes))


@wrap_image_function
def generic_gradient_magnitude(
    input: Array, derivative: Callable[..., Any], output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
    extra_arguments: tuple[Any, ...] = (), extra_keywords: dict[str, Any] | None = None, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The length of the gradient, computed by `derivative(input, axis, output, mode, cval, ...)` with `output` None.

    Args:
        input: image of any number of axes.
        derivative: function that returns the derivative along an axis. Its `output` is None.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        extra_arguments: further positional arguments of the function.
        extra_keywords: further keyword arguments of the function.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.generic_gradient_magnitude([0.0, 1.0, 3.0], ndimage.sobel)
    array([1., 3., 2.])
    """
    parts = _derivatives(input, derivative, mode, cval, extra_arguments, extra_keywords, axes)
    return np.sqrt(total([p * p for p in parts]))


# ----- order filters --------------------------------------------------------------------------------------------------


def _footprint(
    size: Shape | None, footprint: npt.ArrayLike | None, ndim: int, axes: Axes,
) -> tuple[Any, tuple[int, ...]]:  # fmt: skip
    """Return a mask over all axes, of size one along axes that are not filtered."""
    dims = axes_of(axes, ndim)
    if footprint is None:
        if size is None:
            raise RuntimeError("no footprint or filter size provided [nd-arguments]")
        mask = numpy.ones([int(n) for n in sequence(size, len(dims))], bool)
    else:
        mask = numpy.asarray(footprint, bool)
        if mask.ndim != len(dims):
            raise RuntimeError("footprint array has incorrect shape. [nd-shape]")
    if not mask.any():
        raise ValueError("All-zero footprint is not supported. [nd-values]")
    shape = [1] * ndim
    for d, n in zip(dims, mask.shape, strict=True):
        shape[d] = n
    return numpy.transpose(mask, numpy.argsort(dims)).reshape(shape), dims


def _windows(
    t: Array, size: Shape | None, footprint: npt.ArrayLike | None, mode: Modes, cval: ArrayLike, origin: Whole,
    axes: Axes,
) -> Array:  # fmt: skip
    mask, dims = _footprint(size, footprint, t.ndim, axes)
    modes, origins = ["reflect"] * t.ndim, [0] * t.ndim
    for d, m, o in zip(dims, sequence(mode, len(dims)), sequence(origin, len(dims)), strict=True):
        modes[d], origins[d] = mode_of(m), int(o)
    return neighbourhoods(t, mask, modes, cval, origins)


@wrap_image_function
def maximum_filter(
    input: Array, size: Shape | None = None, footprint: npt.ArrayLike | None = None, output: Output = None,
    mode: Modes = "reflect", cval: ArrayLike = 0.0, origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The largest pixel in a box or footprint around each; equal maxima share the gradient.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        footprint: boolean array that marks the pixels of the window, instead of `size`.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.maximum_filter([0.0, 5.0, 2.0, 2.0], size=3)
    array([5., 5., 5., 2.])
    """
    return _windows(input, size, footprint, mode, cval, origin, axes).max(axis=-1)


@wrap_image_function
def minimum_filter(
    input: Array, size: Shape | None = None, footprint: npt.ArrayLike | None = None, output: Output = None,
    mode: Modes = "reflect", cval: ArrayLike = 0.0, origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The smallest pixel in a box or footprint around each; equal minima share the gradient.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        footprint: boolean array that marks the pixels of the window, instead of `size`.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.minimum_filter([0.0, 5.0, 2.0, 2.0], size=3)
    array([0., 0., 2., 2.])
    """
    return _windows(input, size, footprint, mode, cval, origin, axes).min(axis=-1)


@wrap_image_function
def maximum_filter1d(
    input: Array, size: int, axis: int = -1, output: Output = None, mode: str = "reflect", cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:  # fmt: skip
    """The largest pixel in a window along an axis.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        axis: axis of the filter.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.maximum_filter1d([0.0, 5.0, 2.0, 2.0], size=3)
    array([5., 5., 5., 2.])
    """
    return _windows(input, (size,), None, mode, cval, origin, (axis,)).max(axis=-1)


@wrap_image_function
def minimum_filter1d(
    input: Array, size: int, axis: int = -1, output: Output = None, mode: str = "reflect", cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:  # fmt: skip
    """The smallest pixel in a window along an axis.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        axis: axis of the filter.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.minimum_filter1d([0.0, 5.0, 2.0, 2.0], size=3)
    array([0., 0., 2., 2.])
    """
    return _windows(input, (size,), None, mode, cval, origin, (axis,)).min(axis=-1)


def _pick_rank(windows: Array, rank: int) -> Array:
    count = windows.shape[-1]
    place = rank + count if rank < 0 else rank
    if not 0 <= place < count:
        raise RuntimeError("rank not within filter footprint size [nd-range]")
    return np.sort(windows, axis=-1)[..., place]


@wrap_image_function
def rank_filter(
    input: Array, rank: int, size: Shape | None = None, footprint: npt.ArrayLike | None = None, output: Output = None,
    mode: Modes = "reflect", cval: ArrayLike = 0.0, origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The pixel of the given rank (0 is the smallest, -1 the largest) in a box or footprint around each.

    Args:
        input: image of any number of axes.
        rank: position of the wanted pixel among the sorted ones. Negative positions count from the largest.
        size: size of the window in pixels; several axes may have one each.
        footprint: boolean array that marks the pixels of the window, instead of `size`.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.rank_filter([0.0, 5.0, 2.0, 2.0], rank=1, size=3)
    array([0., 2., 2., 2.])
    """
    return _pick_rank(_windows(input, size, footprint, mode, cval, origin, axes), int(rank))


@wrap_image_function
def median_filter(
    input: Array, size: Shape | None = None, footprint: npt.ArrayLike | None = None, output: Output = None,
    mode: Modes = "reflect", cval: ArrayLike = 0.0, origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The median of the pixels in a box or footprint around each; the gradient goes to the median pixel.

    Args:
        input: image of any number of axes.
        size: size of the window in pixels; several axes may have one each.
        footprint: boolean array that marks the pixels of the window, instead of `size`.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.median_filter([0.0, 5.0, 2.0, 2.0], size=3)
    array([0., 2., 2., 2.])
    """
    windows = _windows(input, size, footprint, mode, cval, origin, axes)
    return _pick_rank(windows, windows.shape[-1] // 2)


@wrap_image_function
def percentile_filter(
    input: Array, percentile: float, size: Shape | None = None, footprint: npt.ArrayLike | None = None,
    output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0, origin: Whole = 0, *, axes: Axes = None,
) -> Array:  # fmt: skip
    """The given percentile, as one of the pixels in a box or footprint around each.

    Args:
        input: image of any number of axes.
        percentile: percentile from 0 to 100. Negative ones count from 100.
        size: size of the window in pixels; several axes may have one each.
        footprint: boolean array that marks the pixels of the window, instead of `size`.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.percentile_filter([0.0, 5.0, 2.0, 2.0], percentile=50, size=3)
    array([0., 2., 2., 2.])
    """
    windows = _windows(input, size, footprint, mode, cval, origin, axes)
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise RuntimeError("invalid percentile [nd-range]")
    count = windows.shape[-1]
    return _pick_rank(windows, count - 1 if share == 100 else int(count * share / 100.0))


# ----- grey morphology ---------------------------------------------------------------------------------------------


def _apply_structure(
    t: Array, size: Shape | None, footprint: npt.ArrayLike | None, structure: ArrayLike | None, mode: Modes,
    cval: ArrayLike, origin: Whole, axes: Axes, *, dilate: bool,
) -> Array:  # fmt: skip
    """Return the largest neighbour plus the reflected structure, or the smallest neighbour minus the structure."""
    dims = axes_of(axes, t.ndim)
    if structure is None and size is None and footprint is None:
        raise ValueError("size, footprint, or structure must be specified [nd-arguments]")
    heights = None if structure is None else floating(structure)
    if heights is not None and footprint is None:
        footprint = numpy.ones(heights.shape, bool)
    if footprint is None:
        footprint = numpy.ones([int(n) for n in sequence(size, len(dims))], bool)
    mask = numpy.asarray(footprint, bool)
    origins = [int(o) for o in sequence(origin, len(dims))]
    if dilate:
        mask = mask[(slice(None, None, -1),) * mask.ndim]
        heights = None if heights is None else np.flip(heights)
        origins = [-o - (n % 2 == 0) for o, n in zip(origins, mask.shape, strict=True)]
    windows = _windows(t, None, mask, mode, cval, origins, dims)
    if heights is None:
        return windows.max(axis=-1) if dilate else windows.min(axis=-1)
    steps = heights[mask]
    return (windows + steps).max(axis=-1) if dilate else (windows - steps).min(axis=-1)


class _Morphology(Protocol):
    def __call__(
        self, input: ArrayLike, size: Shape | None = None, footprint: npt.ArrayLike | None = None,
        structure: ArrayLike | None = None, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
        origin: Whole = 0, *, axes: Axes = None,
    ) -> Array: ...  # fmt: skip


_Step: TypeAlias = "Callable[[Array], Array]"


def _morphology(name: str, doc: str, example: str, compute: Callable[[Array, _Step, _Step], Array]) -> _Morphology:
    """Return a morphological filter. `compute` gets the image, an erosion and a dilation. The example of all filters is
    a 3-pixel filter on the same row of pixels.
    """

    def function(
        input: Array, size: Shape | None = None, footprint: npt.ArrayLike | None = None,
        structure: ArrayLike | None = None, output: Output = None, mode: Modes = "reflect", cval: ArrayLike = 0.0,
        origin: Whole = 0, *, axes: Axes = None,
    ) -> Array:  # fmt: skip
        def step(dilate: bool) -> _Step:
            return lambda t: _apply_structure(t, size, footprint, structure, mode, cval, origin, axes, dilate=dilate)

        return compute(input, step(False), step(True))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    Args:
        input: image of any number of axes.
        size: size of the flat structure in pixels; several axes may have one each.
        footprint: boolean array that marks the pixels of the flat structure, instead of `size`.
        structure: heights of the structure, one per pixel of the window.
        output: array that receives the result, or the dtype of the result.
        mode: values beyond the borders: `"reflect"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`; several axes
            may have one each.
        cval: value beyond the borders in mode `"constant"`.
        origin: shift of the window; several axes may have one each. 0 centres it.
        axes: axes of the filter. None means all.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.{name}([0.0, 5.0, 2.0, 2.0, 9.0, 3.0], size=3)
    array([{example}])
    """
    return wrap_image_function(function)  # type: ignore[return-value]  # mypy forgets the names of parameters


grey_erosion = _morphology(
    "grey_erosion", "The smallest neighbour less the structure.", "0., 0., 2., 2., 2., 3.",
    lambda t, erode, dilate: erode(t),
)  # fmt: skip
grey_dilation = _morphology(
    "grey_dilation", "The largest neighbour plus the structure.", "5., 5., 5., 9., 9., 9.",
    lambda t, erode, dilate: dilate(t),
)  # fmt: skip
grey_opening = _morphology(
    "grey_opening", "An erosion, then a dilation: narrow peaks go.", "0., 2., 2., 2., 3., 3.",
    lambda t, erode, dilate: dilate(erode(t)),
)  # fmt: skip
grey_closing = _morphology(
    "grey_closing", "A dilation, then an erosion: narrow pits go.", "5., 5., 5., 5., 9., 9.",
    lambda t, erode, dilate: erode(dilate(t)),
)  # fmt: skip
morphological_gradient = _morphology(
    "morphological_gradient", "The dilation less the erosion.", "5., 5., 3., 7., 7., 6.",
    lambda t, erode, dilate: dilate(t) - erode(t),
)  # fmt: skip
morphological_laplace = _morphology(
    "morphological_laplace", "The dilation plus the erosion less twice the image.", " 5., -5.,  3.,  7., -7.,  6.",
    lambda t, erode, dilate: dilate(t) + erode(t) - 2.0 * t,
)  # fmt: skip
white_tophat = _morphology(
    "white_tophat", "The image less its opening: its peaks.", "0., 3., 0., 0., 6., 0.",
    lambda t, erode, dilate: t - dilate(erode(t)),
)  # fmt: skip
black_tophat = _morphology(
    "black_tophat", "The closing less the image: its pits.", "5., 0., 3., 3., 0., 6.",
    lambda t, erode, dilate: erode(dilate(t)) - t,
)  # fmt: skip
