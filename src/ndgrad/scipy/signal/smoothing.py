"""Smoothing and transforms of whole signals: Savitzky and Golay's filter, detrending, the analytic signal,
Fourier resampling, medians.

All but the medians are linear in the signal, with matrices or spectra that are constants.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad.numpy.coercion import many_axes, one_axis
from ndgrad.scipy import ndimage
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.signal.convolution import convolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike, Shape

__all__ = ["detrend", "hilbert", "hilbert2", "medfilt", "medfilt2d", "resample", "savgol_filter", "wiener"]


def savgol_filter(
    x: ArrayLike, window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, axis: int = -1,
    mode: str = "interp", cval: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Each sample from a polynomial through its neighbours; in mode "interp" the ends come from
    the first and last window.

    Args:
        x: signal.
        window_length: number of samples of a window.
        polyorder: degree of the polynomial, less than `window_length`.
        deriv: order of the derivative of the polynomial.
        delta: distance between samples, for derivatives.
        axis: axis of the signal.
        mode: values at the ends: `"interp"`, `"mirror"`, `"constant"`, `"nearest"` or `"wrap"`.
        cval: value beyond the ends in mode `"constant"`.

    >>> from ndgrad.scipy import signal
    >>> signal.savgol_filter([0.0, 1.0, 4.0, 9.0, 16.0], 3, 2).round(6) + 0.0
    array([ 0.,  1.,  4.,  9., 16.])
    """
    import scipy.signal

    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'. [nd-option]")
    t = floating(x)
    d = one_axis(axis, t.ndim)
    taps = scipy.signal.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    if mode != "interp":
        return ndimage.convolve1d(t, taps, axis=d, mode=mode, cval=cval)
    n = t.shape[d]
    if window_length > n:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x. [nd-range]")
    t = np.moveaxis(t, d, -1)
    made = ndimage.convolve1d(t, taps, axis=-1, mode="constant")
    half = window_length // 2
    if half:
        ends = numpy.stack(
            [
                scipy.signal.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta, pos=p, use="dot")
                for p in range(window_length)
            ]
        )
        first, last = (
            t[..., :window_length] @ ends[:half].T,
            t[..., n - window_length :] @ ends[window_length - half :].T,
        )
        made = np.concatenate([first, made[..., half : n - half], last], axis=-1)
    return np.moveaxis(made, -1, d)


def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: npt.ArrayLike = 0, overwrite_data: bool = False,
) -> Array:  # fmt: skip
    """The signal minus its mean, or minus the best straight lines between breakpoints.

    Args:
        data: signal.
        axis: axis of the signal.
        type: `"linear"` to remove straight lines, or `"constant"` to remove the mean.
        bp: breakpoints between straight lines.
        overwrite_data: accepted as in SciPy; has no effect, because inputs are never overwritten.

    >>> from ndgrad.scipy import signal
    >>> signal.detrend([0.0, 2.0, 4.0, 7.0], type="constant")
    array([-3.25, -1.25,  0.75,  3.75])
    """
    t = floating(data)
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'. [nd-option]")
    if type in ("constant", "c"):
        return t - t.mean(axis=axis, keepdims=True)
    d = one_axis(axis, t.ndim)
    n = t.shape[d]
    breaks = numpy.sort(numpy.unique(numpy.concatenate(numpy.atleast_1d(0, bp, n))))
    if numpy.any(breaks > n):
        raise ValueError("Breakpoints must be less than length of data along given axis. [nd-range]")
    rows = np.moveaxis(t, d, -1)
    parts = []
    for low, high in pairwise(breaks):
        basis = numpy.stack([numpy.arange(1, high - low + 1) / (high - low), numpy.ones(high - low)], axis=1)
        projection = basis @ numpy.linalg.pinv(basis)
        part = rows[..., int(low) : int(high)]
        parts.append(part - part @ projection.T)
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, d)


def _one_sided(n: int, middle: float = 1.0) -> NDArray[Any]:
    """Return weights that double positive frequencies and remove negative ones; the middle one of an even number is
    both.
    """
    h = numpy.zeros(n)
    h[0] = 1
    if n % 2 == 0:
        h[n // 2] = middle
    h[1 : (n + 1) // 2] = 2
    return h


def hilbert(x: ArrayLike, N: int | None = None, axis: int = -1) -> Array:
    """The analytic signal: the signal and i times its Hilbert transform.

    Args:
        x: real signal.
        N: number of samples of the transform. The default is that of the signal.
        axis: axis of the signal.

    >>> from ndgrad.scipy import signal
    >>> signal.hilbert([1.0, 0.0, -1.0, 0.0])
    array([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j])
    """
    t = floating(x)
    if np_dtype(t).kind == "c":
        raise ValueError("x must be real. [nd-complex]")
    n = t.shape[axis] if N is None else int(N)
    if n <= 0:
        raise ValueError("N must be positive. [nd-range]")
    spectrum = np.fft.fft(t, n, axis=axis)
    shape = [1] * t.ndim
    shape[axis] = n
    return np.fft.ifft(spectrum * _one_sided(n).reshape(shape), axis=axis)


def hilbert2(x: ArrayLike, N: Shape | None = None, axes: Sequence[int] = (-2, -1)) -> Array:
    """The analytic signal of images, without the middle frequency of an even number of pixels, as in SciPy.

    Args:
        x: real image.
        N: number of pixels of the transform along both axes. The default is that of the image.
        axes: two axes of the image.

    >>> from ndgrad.scipy import signal
    >>> signal.hilbert2([[1.0, -1.0, 2.0], [0.0, 2.0, 1.0]]).shape
    (2, 3)
    """
    t = floating(x)
    first, second = many_axes(tuple(axes), t.ndim)
    sizes = (
        (t.shape[first], t.shape[second]) if N is None else (N, N) if isinstance(N, int) else tuple(int(n) for n in N)
    )
    spectrum = np.fft.fftn(t, sizes, axes=(first, second))
    for d, n in zip((first, second), sizes, strict=True):
        shape = [1] * t.ndim
        shape[d] = n
        spectrum = spectrum * _one_sided(n, 0.0).reshape(shape)
    return np.fft.ifftn(spectrum, axes=(first, second))


@overload
def resample(
    x: ArrayLike, num: int, t: None = None, axis: int = 0,
    window: ArrayLike | str | tuple[Any, ...] | Callable[[Any], Any] | None = None,
    domain: str = "time",
) -> Array: ...  # fmt: skip
@overload
def resample(
    x: ArrayLike, num: int, t: ArrayLike, axis: int = 0,
    window: ArrayLike | str | tuple[Any, ...] | Callable[[Any], Any] | None = None,
    domain: str = "time",
) -> tuple[Array, Array]: ...  # fmt: skip
def resample(
    x: ArrayLike, num: int, t: ArrayLike | None = None, axis: int = 0,
    window: ArrayLike | str | tuple[Any, ...] | Callable[[Any], Any] | None = None, domain: str = "time",
) -> Any:  # fmt: skip
    """Resample to another number of samples, by cutting or padding the spectrum.

    Args:
        x: signal, or its spectrum for `domain="freq"`.
        num: number of samples of the result.
        t: times of the samples. With it, the times of the result are returned too.
        axis: axis of the signal.
        window: weights of the spectrum: an array, a function of frequencies, or a window's name.
        domain: `"time"` or `"freq"`: domain of `x`.

    >>> from ndgrad.scipy import signal
    >>> signal.resample([1.0, 0.0, -1.0, 0.0], 8).round(6) + 0.0
    array([ 1.      ,  0.707107,  0.      , -0.707107, -1.      , -0.707107,
            0.      ,  0.707107])
    """
    values = floating(x)
    d = one_axis(axis, values.ndim)
    n = values.shape[d]
    if domain not in ("time", "freq"):
        raise ValueError(f"Parameter domain={domain!r} not in ('time', 'freq')! [nd-option]")
    spectrum = values if domain == "freq" else np.fft.fft(values, axis=d)
    spectrum = np.moveaxis(spectrum, d, -1)
    if window is not None:
        import scipy.signal

        if callable(window):
            weights = numpy.asarray(window(numpy.fft.fftfreq(n)))
        elif isinstance(window, numpy.ndarray):
            weights = window
        else:
            weights = numpy.fft.ifftshift(scipy.signal.get_window(window, n))
        spectrum = spectrum * weights
    m = min(num, n)
    half = m // 2 + 1
    head, tail = spectrum[..., :half], spectrum[..., n - (m - half) :] if m > half else spectrum[..., :0]
    if m % 2 == 0 and num != n:
        middle = head[..., m // 2 : m // 2 + 1]
        if num < n:  # both halves of the folded frequency
            middle = middle + spectrum[..., n - m // 2 : n - m // 2 + 1]
            head = np.concatenate([head[..., : m // 2], middle], axis=-1)
        else:
            head = np.concatenate([head[..., : m // 2], 0.5 * middle], axis=-1)
            tail = np.concatenate([0.5 * middle, tail], axis=-1)
    zeros = np.zeros((*head.shape[:-1], num - head.shape[-1] - tail.shape[-1]), dtype=np_dtype(head))
    made = np.fft.ifft(np.concatenate([head, zeros, tail], axis=-1), axis=-1) * (num / n)
    if np_dtype(values).kind != "c" and domain == "time":
        made = made.real
    made = np.moveaxis(made, -1, d)
    if t is None:
        return made
    times = floating(t)
    return made, numpy.arange(num) * (times[1] - times[0]) * n / float(num) + times[0]


# ----- medians and local means ----------------------------------------------------------------------------------------


def medfilt(volume: ArrayLike, kernel_size: Shape | None = None) -> Array:
    """The median of each neighbourhood, zeros beyond the borders; the gradient goes to the median sample.

    Args:
        volume: signal of any number of dimensions.
        kernel_size: odd size of the neighbourhood; several dimensions may have one each. The default is 3.

    >>> from ndgrad.scipy import signal
    >>> signal.medfilt([2.0, 9.0, 4.0, 1.0, 3.0], 3)
    array([2., 4., 4., 3., 1.])
    """
    t = np.atleast_1d(floating(volume))
    size = _sizes(kernel_size, t.ndim)
    if any(n % 2 != 1 for n in size):
        raise ValueError("Each element of kernel_size should be odd. [nd-range]")
    return ndimage.median_filter(t, size=size, mode="constant", cval=0.0)


def medfilt2d(input: ArrayLike, kernel_size: Shape | None = 3) -> Array:
    """The median of each neighbourhood of an image; see `medfilt`.

    Args:
        input: image.
        kernel_size: odd size of the neighbourhood; both dimensions may have one each.

    >>> from ndgrad.scipy import signal
    >>> signal.medfilt2d([[2.0, 9.0, 4.0], [1.0, 3.0, 5.0], [2.0, 2.0, 8.0]])
    array([[0., 2., 0.],
           [2., 3., 3.],
           [0., 2., 0.]])
    """
    return medfilt(input, kernel_size)


def _sizes(kernel_size: Shape | None, ndim: int) -> tuple[int, ...]:
    if kernel_size is None:
        return (3,) * ndim
    if isinstance(kernel_size, int):
        return (kernel_size,) * ndim
    return tuple(int(n) for n in kernel_size)


def wiener(im: ArrayLike, mysize: Shape | None = None, noise: ArrayLike | None = None) -> Array:
    """Smoothing that is stronger if the local variance is closer to that of the noise.

    Args:
        im: signal or image.
        mysize: size of the neighbourhood; several dimensions may have one each. The default is 3.
        noise: power of the noise. The default is the mean of the local variances.

    >>> from ndgrad.scipy import signal
    >>> signal.wiener([1.0, 1.0, 5.0, 1.0, 1.0], 3).round(6)
    array([0.666667, 1.833333, 3.333333, 1.833333, 0.666667])
    """
    t = floating(im)
    size = _sizes(mysize, t.ndim)
    ones = numpy.ones(size)
    count = ones.size
    mean = convolve(t, ones, "same") / count
    variance = convolve(t**2, ones, "same") / count - mean**2
    power = variance.mean() if noise is None else floating(noise)
    smooth = variance < power
    safe = np.where(smooth, 1.0, variance)
    return np.where(smooth, mean, (t - mean) * (1.0 - power / safe) + mean)
