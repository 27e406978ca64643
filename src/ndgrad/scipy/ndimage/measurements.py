"""Numbers that describe labelled parts of an image: sums, means, extremes, centres of mass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.numpy.coercion import as_array, plain
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.ndimage.borders import sequence

__all__ = [
    "center_of_mass", "fourier_gaussian", "fourier_shift", "fourier_uniform", "maximum", "mean", "median", "minimum", "standard_deviation",
    "sum", "sum_labels", "variance",
]  # fmt: skip


def _parts(input: Any, labels: Any, index: Any, describe: Callable[[Any], Any]) -> Any:
    """A description of the pixels of each label that is asked for: of all pixels, of all labelled ones, of one label or of several."""
    t = floating(input)
    if labels is None:
        if index is not None:
            raise ValueError("index must not be given without labels")
        return describe(t.ravel())
    marks = numpy.broadcast_to(numpy.asarray(plain(as_array(labels))), t.shape)
    if index is None:
        return describe(t[marks > 0])
    wanted = numpy.asarray(plain(index))
    found = [describe(t[marks == k]) for k in wanted.ravel()]
    return found[0] if wanted.ndim == 0 else np.stack(found).reshape(wanted.shape)


def sum_labels(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, lambda v: v.sum())


sum = sum_labels


def mean(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, lambda v: v.mean())


def variance(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, lambda v: v.var())


def standard_deviation(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, lambda v: v.std())


def minimum(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, lambda v: v.min())


def maximum(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, lambda v: v.max())


def median(input: Any, labels: Any = None, index: Any = None) -> Any:
    return _parts(input, labels, index, np.median)


def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """Mean places weighted by the pixels: a tuple, or a list of tuples for several labels."""
    t = floating(input)
    total = sum_labels(t, labels, index)
    grid = numpy.meshgrid(*(numpy.arange(n, dtype=float) for n in t.shape), indexing="ij")
    found = [sum_labels(t * g, labels, index) / total for g in grid]
    if numpy.ndim(index) == 0:
        return tuple(found)
    return [tuple(f[k] for f in found) for k in range(len(index))]


# ----- filters of spectra ---------------------------------------------------------------------------------------------------------------


def _frequencies(shape: tuple[int, ...], n: int, axis: int, d: int) -> Any:
    """Cycles per sample along an axis; along that of a real transform, of the n samples it came from."""
    if n >= 0 and d == axis % len(shape):
        return numpy.arange(shape[d]) / n
    return numpy.fft.fftfreq(shape[d])


def _spectral(input: Any, value: Any, n: int, axis: int, factor: Callable[[Any, Any], Any]) -> Any:
    t = floating(input)
    made = t
    for d, v in enumerate(sequence(value, t.ndim)):
        f = _frequencies(t.shape, n, axis, d).reshape([-1 if e == d else 1 for e in range(t.ndim)])
        made = made * factor(f, floating(v))
    return made


def fourier_gaussian(input: Any, sigma: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """A spectrum times that of a Gaussian, differentiable in its width."""
    return _spectral(input, sigma, n, axis, lambda f, s: np.exp(f * f * (-2 * numpy.pi**2) * s * s))


def fourier_shift(input: Any, shift: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """A spectrum with the phases of a shift, differentiable in it."""
    return _spectral(input, shift, n, axis, lambda f, s: np.exp(f * (-2j * numpy.pi) * s))


def fourier_uniform(input: Any, size: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """A spectrum times that of a box."""
    return _spectral(input, size, n, axis, lambda f, s: np.sinc(f * s))
