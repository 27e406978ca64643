"""Linear filters (correlations, Gaussians, derivatives) and order filters (maxima, medians, morphology) of images.

Linear ones are differentiable in image and weights, the Gaussian in its width. Of an order filter the gradient goes to the pixel that was
chosen; where several are largest or smallest, they share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.autograd.variable import Variable
from ndgrad.numpy.coercion import one_axis, operands, values_of
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.ndimage.borders import axes_of, extended, mode_of, neighbourhoods, of_images, sequence

__all__ = [
    "black_tophat", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "generic_gradient_magnitude", "generic_laplace", "grey_closing", "grey_dilation",
    "grey_erosion", "grey_opening", "laplace", "maximum_filter", "maximum_filter1d", "median_filter", "minimum_filter", "minimum_filter1d",
    "morphological_gradient", "morphological_laplace", "percentile_filter", "prewitt", "rank_filter", "sobel", "uniform_filter",
    "uniform_filter1d", "white_tophat",
]  # fmt: skip

# ----- correlations ------------------------------------------------------------------------------------------------------------


def _correlate1d(t: Any, weights: Any, axis: int, mode: Any, cval: Any, origin: int) -> Any:
    w = floating(weights)
    if w.ndim != 1 or w.shape[0] < 1:
        raise RuntimeError("no filter weights given")
    d = one_axis(axis, t.ndim)
    size = w.shape[0]
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError("Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2")
    t, w = operands(t, w)
    n = t.shape[d]
    wide = np.moveaxis(extended(t, d, before, size - 1 - before, mode_of(mode), cval), d, -1)
    lead = wide.shape[:-1]
    made = tensor_ops.convolution(
        wide.reshape((-1, 1, wide.shape[-1])), w.reshape((1, 1, size)), None, stride=(1,), padding=(0,), dilation=(1,), groups=1
    )
    return np.moveaxis(made.reshape((*lead, n)), -1, d)


@of_images
def correlate1d(input: Any, weights: Any, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0, origin: int = 0) -> Any:
    """The correlation along an axis.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.correlate1d([2.0, 8.0, 0.0, 4.0], weights=[1.0, 3.0])
    array([ 8., 26.,  8., 12.])
    """
    return _correlate1d(input, weights, axis, mode, cval, origin)


@of_images
def convolve1d(input: Any, weights: Any, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0, origin: int = 0) -> Any:
    w = floating(weights)
    return _correlate1d(input, w[::-1], axis, mode, cval, -origin - (w.shape[0] % 2 == 0))


def _correlate(t: Any, weights: Any, mode: Any, cval: Any, origin: Any, axes: Any, *, turned: bool) -> Any:
    dims = axes_of(axes, t.ndim)
    w = floating(weights)
    if w.ndim != len(dims):
        raise RuntimeError(f"weights.ndim ({w.ndim}) must match len(axes) ({len(dims)})")
    origins = [int(o) for o in sequence(origin, len(dims))]
    if turned:
        w = np.flip(w)
        origins = [-o - (n % 2 == 0) for o, n in zip(origins, w.shape, strict=True)]
    t, w = operands(t, w)
    for d, size, o, m in zip(dims, w.shape, origins, sequence(mode, len(dims)), strict=True):
        before = size // 2 + o
        if not 0 <= before < size:
            raise ValueError("Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2")
        t = extended(t, d, before, size - 1 - before, mode_of(m), cval)
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


@of_images
def correlate(input: Any, weights: Any, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None) -> Any:
    """The correlation with weights of as many axes, differentiable in both."""
    return _correlate(input, weights, mode, cval, origin, axes, turned=False)


@of_images
def convolve(input: Any, weights: Any, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None) -> Any:
    return _correlate(input, weights, mode, cval, origin, axes, turned=True)


@of_images
def uniform_filter1d(input: Any, size: int, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0, origin: int = 0) -> Any:
    """The mean of neighbours along an axis."""
    return _correlate1d(input, numpy.full(int(size), 1.0 / size), axis, mode, cval, origin)


@of_images
def uniform_filter(input: Any, size: Any = 3, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None) -> Any:
    dims = axes_of(axes, input.ndim)
    made = input
    for d, n, m, o in zip(dims, *(sequence(v, len(dims)) for v in (size, mode, origin)), strict=True):
        if n > 1:
            made = _correlate1d(made, numpy.full(int(n), 1.0 / n), d, m, cval, o)
    return made


# ----- Gaussians --------------------------------------------------------------------------------------------------------------------


def _gaussian_weights(sigma: Any, order: int, radius: int) -> Any:
    """The normal density at whole numbers, over their sum, times the polynomial of a derivative; differentiable in sigma."""
    if order < 0:
        raise ValueError("order must be non-negative")
    x = numpy.arange(-radius, radius + 1)
    variance = sigma * sigma
    phi = np.exp(x * x * (-0.5 / variance))
    phi = phi / phi.sum()
    if order == 0:
        return phi
    # q(x) phi(x): a derivative takes q to q' - q x / variance
    q = [np.ones_like(variance)]
    for _ in range(order):
        rises = [q[k + 1] * float(k + 1) for k in range(len(q) - 1)]
        falls = [np.zeros_like(variance), *(-c / variance for c in q)]
        q = [falls[k] + rises[k] if k < len(rises) else falls[k] for k in range(len(falls))]
    return sum(c * x.astype(float) ** k for k, c in enumerate(q)) * phi


def _gaussian1d(t: Any, sigma: Any, axis: int, order: int, mode: Any, cval: Any, truncate: float, radius: Any) -> Any:
    s = floating(sigma)
    reach = int(truncate * float(values_of(s.detach())) + 0.5) if radius is None else int(radius)
    if reach < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    return _correlate1d(t, _gaussian_weights(s, order, reach)[::-1], axis, mode, cval, 0)


@of_images
def gaussian_filter1d(
    input: Any, sigma: Any, axis: int = -1, order: int = 0, mode: Any = "reflect", cval: Any = 0.0, truncate: float = 4.0, *,
    radius: Any = None,
) -> Any:  # fmt: skip
    """A Gaussian along an axis, or with `order` its derivative; differentiable in sigma (the reach, a whole number, is not)."""
    return _gaussian1d(input, sigma, axis, order, mode, cval, truncate, radius)


@of_images
def gaussian_filter(
    input: Any, sigma: Any, order: Any = 0, mode: Any = "reflect", cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None,
    axes: Any = None,
) -> Any:  # fmt: skip
    return _gaussian(input, sigma, order, mode, cval, truncate, radius, axes)


def _gaussian(t: Any, sigma: Any, order: Any, mode: Any, cval: Any, truncate: float, radius: Any, axes: Any) -> Any:
    dims = axes_of(axes, t.ndim)
    made = t
    for d, s, o, m, r in zip(dims, *(sequence(v, len(dims)) for v in (sigma, order, mode, radius)), strict=True):
        if float(values_of(s.detach()) if isinstance(s, Variable) else s) > 1e-15:
            made = _gaussian1d(made, s, d, o, m, cval, truncate, r)
    return made


@of_images
def gaussian_laplace(input: Any, sigma: Any, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None, **kwargs: Any) -> Any:
    """The sum of second derivatives of a Gaussian."""
    dims = axes_of(axes, input.ndim)
    modes = sequence(mode, len(dims))
    parts = [
        _gaussian(input, sigma, [2 * (e == d) for e in dims], modes, cval, kwargs.get("truncate", 4.0), kwargs.get("radius"), dims)
        for d in dims
    ]
    return sum(parts)


@of_images
def gaussian_gradient_magnitude(input: Any, sigma: Any, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None, **kwargs: Any) -> Any:
    dims = axes_of(axes, input.ndim)
    modes = sequence(mode, len(dims))
    parts = [
        _gaussian(input, sigma, [int(e == d) for e in dims], modes, cval, kwargs.get("truncate", 4.0), kwargs.get("radius"), dims)
        for d in dims
    ]
    return np.sqrt(sum(p * p for p in parts))


# ----- derivatives -------------------------------------------------------------------------------------------------------------------


def _edges(t: Any, axis: int, mode: Any, cval: Any, smooth: list[float]) -> Any:
    d = one_axis(axis, t.ndim)
    modes = sequence(mode, t.ndim)
    made = _correlate1d(t, [-1.0, 0.0, 1.0], d, modes[d], cval, 0)
    for other in range(t.ndim):
        if other != d:
            made = _correlate1d(made, smooth, other, modes[other], cval, 0)
    return made


@of_images
def sobel(input: Any, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _edges(input, axis, mode, cval, [1.0, 2.0, 1.0])


@of_images
def prewitt(input: Any, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _edges(input, axis, mode, cval, [1.0, 1.0, 1.0])


@of_images
def laplace(input: Any, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> Any:
    dims = axes_of(axes, input.ndim)
    parts = [_correlate1d(input, [1.0, -2.0, 1.0], d, m, cval, 0) for d, m in zip(dims, sequence(mode, len(dims)), strict=True)]
    return sum(parts)


def _derivatives(input: Any, derivative: Callable[..., Any], mode: Any, cval: Any, arguments: Any, keywords: Any, axes: Any) -> list[Any]:
    dims = axes_of(axes, input.ndim)
    more = keywords or {}
    return [derivative(input, d, None, m, cval, *arguments, **more) for d, m in zip(dims, sequence(mode, len(dims)), strict=True)]


@of_images
def generic_laplace(
    input: Any, derivative2: Callable[..., Any], mode: Any = "reflect", cval: Any = 0.0, extra_arguments: Any = (),
    extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The sum of second derivatives as `derivative2(input, axis, output, mode, cval, ...)` finds them; its `output` is None."""
    return sum(_derivatives(input, derivative2, mode, cval, extra_arguments, extra_keywords, axes))


@of_images
def generic_gradient_magnitude(
    input: Any, derivative: Callable[..., Any], mode: Any = "reflect", cval: Any = 0.0, extra_arguments: Any = (),
    extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    parts = _derivatives(input, derivative, mode, cval, extra_arguments, extra_keywords, axes)
    return np.sqrt(sum(p * p for p in parts))


# ----- order filters --------------------------------------------------------------------------------------------------------------------


def _footprint(size: Any, footprint: Any, ndim: int, axes: Any) -> tuple[Any, tuple[int, ...]]:
    """A mask over all axes, of size one along those that are not filtered."""
    dims = axes_of(axes, ndim)
    if footprint is None:
        if size is None:
            raise RuntimeError("no footprint or filter size provided")
        mask = numpy.ones([int(n) for n in sequence(size, len(dims))], bool)
    else:
        mask = numpy.asarray(footprint, bool)
        if mask.ndim != len(dims):
            raise RuntimeError("footprint array has incorrect shape.")
    if not mask.any():
        raise ValueError("All-zero footprint is not supported.")
    shape = [1] * ndim
    for d, n in zip(dims, mask.shape, strict=True):
        shape[d] = n
    return numpy.transpose(mask, numpy.argsort(dims)).reshape(shape), dims


def _windows(t: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any, axes: Any) -> Any:
    mask, dims = _footprint(size, footprint, t.ndim, axes)
    modes, origins = ["reflect"] * t.ndim, [0] * t.ndim
    for d, m, o in zip(dims, sequence(mode, len(dims)), sequence(origin, len(dims)), strict=True):
        modes[d], origins[d] = mode_of(m), int(o)
    return neighbourhoods(t, mask, modes, cval, origins)


@of_images
def maximum_filter(
    input: Any, size: Any = None, footprint: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    return _windows(input, size, footprint, mode, cval, origin, axes).max(axis=-1)


@of_images
def minimum_filter(
    input: Any, size: Any = None, footprint: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    return _windows(input, size, footprint, mode, cval, origin, axes).min(axis=-1)


@of_images
def maximum_filter1d(input: Any, size: int, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0, origin: int = 0) -> Any:
    return _windows(input, (size,), None, mode, cval, origin, (axis,)).max(axis=-1)


@of_images
def minimum_filter1d(input: Any, size: int, axis: int = -1, mode: Any = "reflect", cval: Any = 0.0, origin: int = 0) -> Any:
    return _windows(input, (size,), None, mode, cval, origin, (axis,)).min(axis=-1)


def _ranked(windows: Any, rank: int) -> Any:
    count = windows.shape[-1]
    place = rank + count if rank < 0 else rank
    if not 0 <= place < count:
        raise RuntimeError("rank not within filter footprint size")
    return np.sort(windows, axis=-1)[..., place]


@of_images
def rank_filter(
    input: Any, rank: int, size: Any = None, footprint: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> Any:  # fmt: skip
    return _ranked(_windows(input, size, footprint, mode, cval, origin, axes), int(rank))


@of_images
def median_filter(
    input: Any, size: Any = None, footprint: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None
) -> Any:
    windows = _windows(input, size, footprint, mode, cval, origin, axes)
    return _ranked(windows, windows.shape[-1] // 2)


@of_images
def percentile_filter(
    input: Any, percentile: float, size: Any = None, footprint: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> Any:  # fmt: skip
    windows = _windows(input, size, footprint, mode, cval, origin, axes)
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise RuntimeError("invalid percentile")
    count = windows.shape[-1]
    return _ranked(windows, count - 1 if share == 100 else int(count * share / 100.0))


# ----- grey morphology
# ---------------------------------------------------------------------------------------------------------------------


def _structured(t: Any, size: Any, footprint: Any, structure: Any, mode: Any, cval: Any, origin: Any, axes: Any, *, dilate: bool) -> Any:
    """The largest neighbour plus the structure, turned around, or the smallest neighbour less the structure."""
    dims = axes_of(axes, t.ndim)
    if structure is None and size is None and footprint is None:
        raise ValueError("size, footprint, or structure must be specified")
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


def _morphology(name: str, compute: Callable[[Any, Callable[[Any], Any], Callable[[Any], Any]], Any], doc: str) -> Callable[..., Any]:
    def function(
        input: Any, size: Any = None, footprint: Any = None, structure: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0,
        *, axes: Any = None,
    ) -> Any:  # fmt: skip
        def step(dilate: bool) -> Callable[[Any], Any]:
            return lambda t: _structured(t, size, footprint, structure, mode, cval, origin, axes, dilate=dilate)

        return compute(input, step(False), step(True))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return of_images(function)


grey_erosion = _morphology("grey_erosion", lambda t, erode, dilate: erode(t), "The smallest neighbour less the structure.")
grey_dilation = _morphology("grey_dilation", lambda t, erode, dilate: dilate(t), "The largest neighbour plus the structure.")
grey_opening = _morphology("grey_opening", lambda t, erode, dilate: dilate(erode(t)), "An erosion, then a dilation.")
grey_closing = _morphology("grey_closing", lambda t, erode, dilate: erode(dilate(t)), "A dilation, then an erosion.")
morphological_gradient = _morphology("morphological_gradient", lambda t, erode, dilate: dilate(t) - erode(t), "Dilation less erosion.")
morphological_laplace = _morphology(
    "morphological_laplace", lambda t, erode, dilate: dilate(t) + erode(t) - 2.0 * t, "Dilation plus erosion less twice the image."
)
white_tophat = _morphology("white_tophat", lambda t, erode, dilate: t - dilate(erode(t)), "The image less its opening.")
black_tophat = _morphology("black_tophat", lambda t, erode, dilate: erode(dilate(t)) - t, "The closing less the image.")
