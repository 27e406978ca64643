"""Spectra: periodograms, Welch's averages, short-time Fourier transforms and their inverse, Lomb-Scargle periodograms.

Windows are constants unless given as Arrays. Segments are one indexing of the signal, with indices that depend only on
lengths.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad.numpy.coercion import constant, one_axis, operands
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.signal.filters import _extend_ends
from ndgrad.scipy.signal.smoothing import detrend as remove_trend

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgrad._typing import Array, ArrayLike

__all__ = ["coherence", "csd", "istft", "lombscargle", "periodogram", "spectrogram", "stft", "vectorstrength", "welch"]


def _window(window: str | tuple[Any, ...] | ArrayLike, nperseg: int | None, length: int) -> tuple[Array, int]:
    """Return the window's samples and their number."""
    if isinstance(window, (str, tuple)):
        import scipy.signal

        count = 256 if nperseg is None else int(nperseg)
        if count > length:
            count = length
        return floating(scipy.signal.get_window(window, count)), count
    samples = floating(window)
    if samples.ndim != 1:
        raise ValueError("window must be 1-D [nd-ndim]")
    if samples.shape[0] > length:
        raise ValueError("window is longer than input signal [nd-window]")
    if nperseg is not None and nperseg != samples.shape[0]:
        raise ValueError("value specified for nperseg is different from length of window [nd-window]")
    return samples, samples.shape[0]


def _segments(x: Array, size: int, step: int) -> Array:
    """Return overlapping segments of the last axis, in a new axis before it."""
    count = (x.shape[-1] - size) // step + 1
    places = numpy.arange(count)[:, None] * step + numpy.arange(size)
    return np.take(x, places, axis=-1)


def _remove_trend(x: Array, detrend: str | bool | Callable[[Array], Array]) -> Array:
    if not detrend:
        return x
    return detrend(x) if callable(detrend) else remove_trend(x, type=str(detrend), axis=-1)


def _spectra(
    signals: list[Any], fs: ArrayLike, window: str | tuple[Any, ...] | ArrayLike, nperseg: int | None,
    noverlap: int | None, nfft: int | None, detrend: str | bool | Callable[[Array], Array], onesided: bool, axis: int,
    boundary: str | None = None, padded: bool = False,
) -> tuple[Any, Any, list[Any], Any, int, int]:  # fmt: skip
    """Return frequencies, times and the transforms of all segments (..., segment, frequency), with the window and its
    sizes.
    """
    moved = [np.moveaxis(s, one_axis(axis, s.ndim), -1) for s in signals]
    samples, size = _window(window, nperseg, max(m.shape[-1] for m in moved))
    points = size if nfft is None else int(nfft)
    if points < size:
        raise ValueError("nfft must be greater than or equal to nperseg. [nd-window]")
    overlap = size // 2 if noverlap is None else int(noverlap)
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg. [nd-window]")
    step = size - overlap
    transforms = []
    length = 0
    for m in moved:
        if boundary is not None:
            m = _extend_boundary(m, size // 2, boundary)
        if padded:
            extra = -(m.shape[-1] - size) % step % size
            m = np.pad(m, [(0, 0)] * (m.ndim - 1) + [(0, extra)])
        length = m.shape[-1]
        parts = _remove_trend(_segments(m, size, step), detrend) * samples
        transforms.append(np.fft.rfft(parts, points, axis=-1) if onesided else np.fft.fft(parts, points, axis=-1))
    f = (numpy.fft.rfftfreq if onesided else numpy.fft.fftfreq)(points)
    times = numpy.arange(size / 2, length - size / 2 + 1, size - overlap)
    if boundary is not None:
        times = times - size / 2
    rate = floating(fs)
    return constant(f) * rate, constant(times) / rate, transforms, samples, points, size


def _extend_boundary(x: Array, edge: int, kind: str) -> Array:
    if kind == "zeros":
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(edge, edge)])
    if kind not in ("even", "odd", "constant"):
        raise ValueError(
            f"Unknown boundary option '{kind}', must be one of: ['even', 'odd', 'constant', 'zeros', None] [nd-option]"
        )
    return _extend_ends(x, edge, kind)


def _scale(scaling: str, fs: ArrayLike, window: Array) -> Any:
    if scaling == "density":
        return 1.0 / (floating(fs) * (window * window).sum())
    if scaling == "spectrum":
        return 1.0 / window.sum() ** 2
    raise ValueError(f"Unknown scaling: {scaling!r} [nd-option]")


def _both_sides(power: Array, points: int, onesided: bool) -> Array:
    """Add the power of negative frequencies to the positive ones."""
    if not onesided:
        return power
    factor = numpy.full(power.shape[-1], 2.0)
    factor[0] = 1.0
    if points % 2 == 0:
        factor[-1] = 1.0
    return power * factor


def csd(
    x: ArrayLike, y: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = "hann_periodic",
    nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    detrend: str | bool | Callable[[Array], Array] = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """The cross spectral density by Welch's method.

    Args:
        x: signal.
        y: second signal.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nperseg: samples per segment. The default is 256, or the length of the signal if that is shorter.
        noverlap: samples that neighbouring segments share. The default is half a segment.
        nfft: length of the Fourier transform. The default is the segment's length.
        detrend: `"constant"`, `"linear"`, a function of segments, or False for none.
        return_onesided: whether only frequencies from 0 up are returned for a real signal.
        scaling: `"density"` for power per frequency, or `"spectrum"` for power.
        axis: axis of the signal.
        average: `"mean"` or `"median"` of the segments.

    >>> from ndgrad.scipy import signal
    >>> f, power = signal.csd([1.0, 0.0, -1.0, 0.0] * 4, [0.0, 1.0, 0.0, -1.0] * 4, nperseg=8)
    >>> f[abs(power).argmax()].item()
    0.25
    """
    if isinstance(window, str) and window == "hann_periodic":
        window = "hann"
    same = y is x
    u, v = operands(floating(x), floating(x if same else y))
    n = max(u.shape[axis], v.shape[axis])
    if not same and u.shape[axis] != v.shape[axis]:
        u, v = (
            np.pad(s, [(0, n - s.shape[axis]) if d == one_axis(axis, s.ndim) else (0, 0) for d in range(s.ndim)])
            for s in (u, v)
        )
    onesided = return_onesided and np_dtype(u).kind != "c"
    f, _, spectra, samples, points, _ = _spectra(
        [u] if same else [u, v], fs, window, nperseg, noverlap, nfft, detrend, onesided, axis
    )
    power = spectra[0].conj() * spectra[-1] * _scale(scaling, fs, samples)
    power = _both_sides(power, points, onesided)
    if same:
        power = power.real
    if average == "mean":
        made = power.mean(axis=-2)
    elif average == "median":
        count = power.shape[-2]
        halves = numpy.arange(1, count)[1::2] if count > 1 else numpy.zeros(0)
        bias = 1 + numpy.sum(1.0 / (halves + 1) - 1.0 / halves) if count > 1 else 1.0
        parts = [np.median(p, axis=-2) for p in ((power.real, power.imag) if np_dtype(power).kind == "c" else (power,))]
        made = (parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]) / bias
    else:
        raise ValueError(f"average must be 'median' or 'mean', got {average} [nd-option]")
    return f, np.moveaxis(made, -1, one_axis(axis, u.ndim))


def welch(
    x: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = "hann_periodic",
    nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    detrend: str | bool | Callable[[Array], Array] = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """The power spectral density by Welch's method, differentiable in the signal, in `fs` and in a
    window given as an Array.

    Args:
        x: signal.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nperseg: samples per segment. The default is 256, or the length of the signal if that is shorter.
        noverlap: samples that neighbouring segments share. The default is half a segment.
        nfft: length of the Fourier transform. The default is the segment's length.
        detrend: `"constant"`, `"linear"`, a function of segments, or False for none.
        return_onesided: whether only frequencies from 0 up are returned for a real signal.
        scaling: `"density"` for power per frequency, or `"spectrum"` for power.
        axis: axis of the signal.
        average: `"mean"` or `"median"` of the segments.

    >>> from ndgrad.scipy import signal
    >>> f, power = signal.welch([1.0, 0.0, -1.0, 0.0] * 4, nperseg=8)
    >>> f[power.argmax()].item()
    0.25
    """
    return csd(x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def periodogram(
    x: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = "boxcar", nfft: int | None = None,
    detrend: str | bool | Callable[[Array], Array] = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1,
) -> tuple[Array, Array]:  # fmt: skip
    """Frequencies, and the power of a signal at them.

    Args:
        x: signal.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nfft: length of the Fourier transform. A shorter one cuts the signal.
        detrend: `"constant"`, `"linear"`, a function of segments, or False for none.
        return_onesided: whether only frequencies from 0 up are returned for a real signal.
        scaling: `"density"` for power per frequency, or `"spectrum"` for power.
        axis: axis of the signal.

    >>> from ndgrad.scipy import signal
    >>> f, power = signal.periodogram([1.0, 0.0, -1.0, 0.0])
    >>> f
    array([0.  , 0.25, 0.5 ])
    >>> power
    array([0., 2., 0.])
    """
    t = floating(x)
    n = t.shape[axis]
    if nfft is not None and nfft < n:
        t = np.take(t, numpy.arange(int(nfft)), axis=axis)
        n, nfft = int(nfft), None
    return welch(t, fs, "boxcar" if window is None else window, n, 0, nfft, detrend, return_onesided, scaling, axis)


def coherence(
    x: ArrayLike, y: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = "hann",
    nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    detrend: str | bool | Callable[[Array], Array] = "constant", axis: int = -1,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the coherence of two signals: |csd(x, y)|^2 / (welch(x) welch(y)).

    Args:
        x: signal.
        y: second signal.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nperseg: samples per segment. The default is 256, or the length of the signal if that is shorter.
        noverlap: samples that neighbouring segments share. The default is half a segment.
        nfft: length of the Fourier transform. The default is the segment's length.
        detrend: `"constant"`, `"linear"`, a function of segments, or False for none.
        axis: axis of the signal.

    >>> from ndgrad.scipy import signal
    >>> f, share = signal.coherence([1.0, 0.0, -1.0, 3.0] * 4, [2.0, 0.0, -2.0, 6.0] * 4, nperseg=8, detrend=False)
    >>> share.shape
    (5,)
    """
    settings = (fs, window, nperseg, noverlap, nfft, detrend)
    f, pxx = welch(x, *settings, axis=axis)
    _, pyy = welch(y, *settings, axis=axis)
    _, pxy = csd(x, y, *settings, axis=axis)
    return f, (pxy.real**2 + pxy.imag**2 if np_dtype(pxy).kind == "c" else pxy**2) / pxx / pyy


def spectrogram(
    x: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = ("tukey_periodic", 0.25),
    nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    detrend: str | bool | Callable[[Array], Array] = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, mode: str = "psd",
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Spectra of consecutive segments, which are the last axis of the result.

    Args:
        x: signal.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nperseg: samples per segment. The default is 256, or the length of the signal if that is shorter.
        noverlap: samples that neighbouring segments share. The default is an eighth of a segment.
        nfft: length of the Fourier transform. The default is the segment's length.
        detrend: `"constant"`, `"linear"`, a function of segments, or False for none.
        return_onesided: whether only frequencies from 0 up are returned for a real signal.
        scaling: `"density"` for power per frequency, or `"spectrum"` for power.
        axis: axis of the signal.
        mode: `"psd"`, `"complex"`, `"magnitude"` or `"angle"`: content of the result.

    Returns:
        Frequencies, times of the segments, and spectra.

    >>> from ndgrad.scipy import signal
    >>> f, t, power = signal.spectrogram([1.0, 0.0, -1.0, 0.0] * 4, nperseg=8, noverlap=0)
    >>> power.shape
    (5, 2)
    """
    t = floating(x)
    if isinstance(window, tuple) and window[0] == "tukey_periodic":
        window = ("tukey", *window[1:])
    onesided = return_onesided and np_dtype(t).kind != "c"
    _, size = _window(window, nperseg, t.shape[axis])
    overlap = size // 8 if noverlap is None and mode != "stft" else noverlap
    f, times, (z,), samples, points, _ = _spectra([t], fs, window, nperseg, overlap, nfft, detrend, onesided, axis)
    if mode == "psd":
        made = _both_sides((z.conj() * z).real * _scale(scaling, fs, samples), points, onesided)
    else:
        z = z * np.sqrt(_scale(scaling, fs, samples))
        if mode not in ("complex", "magnitude", "angle"):
            raise NotImplementedError(
                f"spectrogram(mode={mode!r}) has no rule here. Use 'psd', 'complex', 'magnitude' or 'angle'. "
                "[nd-no-derivative]"
            )
        made = z if mode == "complex" else abs(z) if mode == "magnitude" else np.angle(z)
    return f, times, _frequency_first(made, t.ndim, axis)


def _frequency_first(made: Array, ndim: int, axis: int) -> Array:
    """Move axes from (..., segment, frequency) to frequencies in place of the signal's axis and segments last."""
    d = one_axis(axis, ndim)
    return np.moveaxis(np.swapaxes(made, -1, -2), -2, d if d < ndim - 1 else -2)


def stft(
    x: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = "hann_periodic",
    nperseg: int | None = 256, noverlap: int | None = None, nfft: int | None = None,
    detrend: str | bool | Callable[[Array], Array] = False, return_onesided: bool = True,
    boundary: str | None = "zeros", padded: bool = True, axis: int = -1, scaling: str = "spectrum",
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The short-time Fourier transform: frequencies, times, and spectra with times in the last axis.

    Args:
        x: signal.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nperseg: samples per segment. The default is 256, or the length of the signal if that is shorter.
        noverlap: samples that neighbouring segments share. The default is half a segment.
        nfft: length of the Fourier transform. The default is the segment's length.
        detrend: `"constant"`, `"linear"`, a function of segments, or False for none.
        return_onesided: whether only frequencies from 0 up are returned for a real signal.
        boundary: extension at the ends: `"zeros"`, `"even"`, `"odd"`, `"constant"` or None.
        padded: whether the signal is padded to a whole number of segments.
        axis: axis of the signal.
        scaling: `"spectrum"` or `"psd"`.

    >>> from ndgrad.scipy import signal
    >>> f, t, z = signal.stft([1.0, 0.0, -1.0, 0.0] * 4, nperseg=8)
    >>> z.shape
    (5, 5)
    """
    if isinstance(window, str) and window == "hann_periodic":
        window = "hann"
    t = floating(x)
    onesided = return_onesided and np_dtype(t).kind != "c"
    f, times, (z,), samples, _, _ = _spectra(
        [t], fs, window, nperseg, noverlap, nfft, detrend, onesided, axis, boundary, padded
    )
    scale = {"spectrum": "spectrum", "psd": "density"}[scaling]
    return f, times, _frequency_first(z * np.sqrt(_scale(scale, fs, samples)), t.ndim, axis)


def istft(
    Zxx: ArrayLike, fs: ArrayLike = 1.0, window: str | tuple[Any, ...] | ArrayLike = "hann_periodic",
    nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True,
    boundary: bool = True, time_axis: int = -1, freq_axis: int = -2, scaling: str = "spectrum",
) -> tuple[Array, Array]:  # fmt: skip
    """The signal of a short-time Fourier transform, by weighted overlapping sums.

    Args:
        Zxx: short-time Fourier transform.
        fs: sampling rate.
        window: window's name, a tuple of its name and parameters, or its samples.
        nperseg: samples per segment. The default follows from the number of frequencies.
        noverlap: samples that neighbouring segments share. The default is half a segment.
        nfft: length of the Fourier transform. The default is the segment's length.
        input_onesided: whether frequencies start at 0, as for a real signal.
        boundary: whether the signal was extended at its ends by half a segment.
        time_axis: axis of the times.
        freq_axis: axis of the frequencies.
        scaling: `"spectrum"` or `"psd"`, as in `stft`.

    Returns:
        Times and samples of the signal.

    >>> from ndgrad.scipy import signal
    >>> f, t, z = signal.stft([1.0, 0.0, -1.0, 0.0] * 4, nperseg=8)
    >>> times, x = signal.istft(z, nperseg=8)
    >>> x[:4].round(6) + 0.0
    array([ 1.,  0., -1.,  0.])
    """
    if isinstance(window, str) and window == "hann_periodic":
        window = "hann"
    z = floating(Zxx) + 0j
    z = np.moveaxis(z, (one_axis(freq_axis, z.ndim), one_axis(time_axis, z.ndim)), (-2, -1))
    bins, count = z.shape[-2:]
    default = 2 * (bins - 1) if input_onesided else bins
    size = default if nperseg is None else int(nperseg)
    points = (default + (1 if input_onesided and size == default + 1 else 0)) if nfft is None else int(nfft)
    overlap = size // 2 if noverlap is None else int(noverlap)
    step = size - overlap
    samples, size = _window(window, None if isinstance(window, Variable) else size, max(size, 1))
    segments = np.swapaxes(z, -1, -2)
    back = (np.fft.irfft if input_onesided else np.fft.ifft)(segments, points, axis=-1)[..., :size]
    length = size + (count - 1) * step
    if scaling == "spectrum":
        back = back * samples.sum()
    elif scaling == "psd":
        back = back * np.sqrt(floating(fs) * (samples * samples).sum())
    else:
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']! [nd-option]")
    total, weight = np.zeros((*back.shape[:-2], length), dtype=np_dtype(back)), np.zeros(length)
    for k in range(count):
        total[..., k * step : k * step + size] += back[..., k, :] * samples
        weight[..., k * step : k * step + size] += samples * samples
    if boundary:
        inside = slice(size // 2, length - size // 2)
        total, weight = total[..., inside], weight[inside]
    made = total / np.where(weight > 1e-10, weight, 1.0)
    return constant(numpy.arange(made.shape[-1])) / floating(fs), made


def lombscargle(
    x: ArrayLike, y: ArrayLike, freqs: ArrayLike, precenter: bool = False, normalize: bool | str = False, *,
    weights: ArrayLike | None = None, floating_mean: bool = False,
) -> Array:  # fmt: skip
    """The Lomb-Scargle periodogram of unevenly spaced samples, differentiable in times,
    samples and angular frequencies.

    Args:
        x: times of the samples.
        y: samples.
        freqs: angular frequencies of the result.
        precenter: whether the mean of the samples is subtracted.
        normalize: False or `"power"`, or True or `"normalize"` to divide by the power of the samples.
        weights: must be None.
        floating_mean: must be False.

    >>> from ndgrad.scipy import signal
    >>> signal.lombscargle([0.0, 0.5, 1.7], [1.0, -1.0, 0.5], [1.0, 2.0])
    array([0.00096163, 0.83763391])
    """
    t, v, w = floating(x), floating(y), floating(freqs)
    if floating_mean or weights is not None:
        raise NotImplementedError(
            "lombscargle with weights or a floating mean has no rule here. Take out the mean, and scale the samples. "
            "[nd-no-derivative]"
        )
    if precenter:
        v = v - v.mean()
    angle = w[:, None] * t
    # The time offset makes sine and cosine orthogonal.
    tau = 0.5 * np.arctan2(np.sin(2.0 * angle).sum(axis=-1), np.cos(2.0 * angle).sum(axis=-1))
    c, s = np.cos(angle - tau[:, None]), np.sin(angle - tau[:, None])
    a = (v * c).sum(axis=-1) ** 2 / (c * c).sum(axis=-1)
    b = (v * s).sum(axis=-1) ** 2 / (s * s).sum(axis=-1)
    power = 0.5 * (a + b)
    if normalize in (False, "power"):
        return power
    if normalize in (True, "normalize"):
        return power * 2.0 / (v * v).sum()
    raise NotImplementedError(
        f"lombscargle(normalize={normalize!r}) has no rule here. Use False or True. [nd-no-derivative]"
    )


def vectorstrength(events: ArrayLike, period: ArrayLike) -> tuple[Array, Array]:
    """The strength of synchronisation of events with a period, and their mean phase.

    Args:
        events: times of the events.
        period: period, or several periods.

    >>> from ndgrad.scipy import signal
    >>> strength, phase = signal.vectorstrength([0.0, 1.0, 2.0], 1.0)
    >>> round(strength.item(), 6)
    1.0
    """
    t, p = np.atleast_1d(floating(events)), floating(period)
    angle = 2.0 * math.pi * t / p[..., None] if p.ndim else 2.0 * math.pi * t / p
    sine, cosine = np.sin(angle).mean(axis=-1), np.cos(angle).mean(axis=-1)
    return np.hypot(sine, cosine), np.arctan2(sine, cosine)
