"""Numbers that describe labelled parts of an image: sums, means, extremes, centres of mass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad.numpy.coercion import as_array, plain
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.ndimage.borders import deliver_output, sequence

if TYPE_CHECKING:
    import numpy.typing as npt
    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike, Dtype

__all__ = [
    "center_of_mass", "fourier_gaussian", "fourier_shift", "fourier_uniform", "maximum", "mean", "median", "minimum",
    "standard_deviation", "sum", "sum_labels", "variance",
]  # fmt: skip


def _parts(
    input: ArrayLike, labels: ArrayLike | None, index: npt.ArrayLike | None, describe: Callable[[Array], Array],
) -> Array:  # fmt: skip
    """Describe the pixels of each requested label: of all pixels, of all labelled ones, of one label or of several."""
    t = floating(input)
    if labels is None:
        if index is not None:
            raise ValueError("index must not be given without labels [nd-arguments]")
        return describe(t.ravel())
    marks = numpy.broadcast_to(numpy.asarray(plain(as_array(labels))), t.shape)
    if index is None:
        return describe(t[marks > 0])
    wanted = numpy.asarray(plain(index))
    found = [describe(t[marks == k]) for k in wanted.ravel()]
    return found[0] if wanted.ndim == 0 else np.stack(found).reshape(wanted.shape)


def sum_labels(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The sum of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.sum_labels([1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], [1, 2])
    array([3., 7.])
    """
    return _parts(input, labels, index, lambda v: v.sum())


sum = sum_labels


def mean(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The mean of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.mean([1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], [1, 2])
    array([1.5, 3.5])
    """
    return _parts(input, labels, index, lambda v: v.mean())


def variance(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The variance of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.variance([1.0, 3.0, 3.0, 7.0], [1, 1, 2, 2], [1, 2])
    array([1., 4.])
    """
    return _parts(input, labels, index, lambda v: v.var())


def standard_deviation(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The standard deviation of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.standard_deviation([1.0, 3.0, 3.0, 7.0], [1, 1, 2, 2], [1, 2])
    array([1., 2.])
    """
    return _parts(input, labels, index, lambda v: v.std())


def minimum(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The smallest of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.minimum([1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], [1, 2])
    array([1., 3.])
    """
    return _parts(input, labels, index, lambda v: v.min())


def maximum(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The largest of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.maximum([1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], [1, 2])
    array([2., 4.])
    """
    return _parts(input, labels, index, lambda v: v.max())


def median(input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None) -> Array:
    """The median of the pixels, of those of one label, or of each of several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.median([1.0, 2.0, 3.0, 5.0], [1, 1, 2, 2], [1, 2])
    array([1.5, 4. ])
    """
    return _parts(input, labels, index, np.median)


def center_of_mass(
    input: ArrayLike, labels: ArrayLike | None = None, index: npt.ArrayLike | None = None,
) -> tuple[Array, ...] | list[tuple[Array, ...]]:  # fmt: skip
    """Mean positions weighted by the pixels: a tuple, or a list of tuples for several labels.

    Args:
        input: image of any number of axes.
        labels: integer array that gives each pixel a label. None puts all pixels together.
        index: label, or array of labels, to be measured. None means all pixels with a positive label.

    >>> from ndgrad.scipy import ndimage
    >>> [place.item() for place in ndimage.center_of_mass([[0.0, 1.0], [0.0, 3.0]])]
    [0.75, 1.0]
    """
    t = floating(input)
    total = sum_labels(t, labels, index)
    grid = numpy.meshgrid(*(numpy.arange(n, dtype=float) for n in t.shape), indexing="ij")
    found = [sum_labels(t * g, labels, index) / total for g in grid]
    if index is None or numpy.ndim(index) == 0:
        return tuple(found)
    return [tuple(f[k] for f in found) for k in range(found[0].shape[0])]


# ----- filters of spectra ---------------------------------------------------------------------------------------------


def _frequencies(shape: tuple[int, ...], n: int, axis: int, d: int) -> NDArray[Any]:
    """Return cycles per sample along an axis; along that of a real transform, of its n original samples."""
    if n >= 0 and d == axis % len(shape):
        return numpy.arange(shape[d]) / n
    return numpy.fft.fftfreq(shape[d])


def _spectral(input: ArrayLike, value: ArrayLike, n: int, axis: int, factor: Callable[[Any, Any], Any]) -> Array:
    t = floating(input)
    made = t
    for d, v in enumerate(sequence(value, t.ndim)):
        f = _frequencies(t.shape, n, axis, d).reshape([-1 if e == d else 1 for e in range(t.ndim)])
        made = made * factor(f, floating(v))
    return made


def fourier_gaussian(
    input: ArrayLike, sigma: ArrayLike, n: int = -1, axis: int = -1, output: Array | NDArray[Any] | Dtype | None = None,
) -> Array:  # fmt: skip
    """A spectrum times the spectrum of a Gaussian, differentiable in its width.

    Args:
        input: spectrum.
        sigma: standard deviation of the Gaussian in pixels; several axes may have one each.
        n: length of the real axis if `input` comes from `rfft`; -1 if it comes from `fft`.
        axis: axis of the real transform.
        output: array that receives the result, or the dtype of the result.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.fourier_gaussian([1.0, 1.0], sigma=0.5)
    array([1.        , 0.29121293])
    """
    made = _spectral(input, sigma, n, axis, lambda f, s: np.exp(f * f * (-2 * numpy.pi**2) * s * s))
    return deliver_output("fourier_gaussian", made, output)


def fourier_shift(
    input: ArrayLike, shift: ArrayLike, n: int = -1, axis: int = -1, output: Array | NDArray[Any] | Dtype | None = None,
) -> Array:  # fmt: skip
    """A spectrum with the phases of a shift, differentiable in it.

    Args:
        input: spectrum.
        shift: distance in pixels; several axes may have one each.
        n: length of the real axis if `input` comes from `rfft`; -1 if it comes from `fft`.
        axis: axis of the real transform.
        output: array that receives the result, or the dtype of the result.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.fourier_shift([1.0, 1.0, 1.0, 1.0], shift=1.0).round(6) + 0.0
    array([ 1.+0.j,  0.-1.j, -1.+0.j,  0.+1.j])
    """
    made = _spectral(input, shift, n, axis, lambda f, s: np.exp(f * (-2j * numpy.pi) * s))
    return deliver_output("fourier_shift", made, output)


def fourier_uniform(
    input: ArrayLike, size: ArrayLike, n: int = -1, axis: int = -1, output: Array | NDArray[Any] | Dtype | None = None,
) -> Array:  # fmt: skip
    """A spectrum times the spectrum of a box.

    Args:
        input: spectrum.
        size: size of the box in pixels; several axes may have one each.
        n: length of the real axis if `input` comes from `rfft`; -1 if it comes from `fft`.
        axis: axis of the real transform.
        output: array that receives the result, or the dtype of the result.

    >>> from ndgrad.scipy import ndimage
    >>> ndimage.fourier_uniform([1.0, 1.0], size=1.0).round(6)
    array([1.     , 0.63662])
    """
    made = _spectral(input, size, n, axis, lambda f, s: np.sinc(f * s))
    return deliver_output("fourier_uniform", made, output)
