"""Frequency responses of filters, and polynomial conversions between forms of a filter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.tensor.storage import batch_dims
from ndgrad.numpy.coercion import constant, values_of
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.signal.convolution import convolve
from ndgrad.scipy.signal.filters import leading_zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "bilinear", "bilinear_zpk", "freqs", "freqs_zpk", "freqz", "freqz_sos", "freqz_zpk", "group_delay", "lp2bp",
    "lp2bs", "lp2hp", "lp2lp", "lp2lp_zpk", "normalize", "sos2tf", "sosfreqz", "tf2zpk", "zpk2tf",
]  # fmt: skip


def _frequencies(worN: ArrayLike | None, whole: bool, fs: float, include_nyquist: bool) -> Array:
    """Return angles on the unit circle: a number of evenly spaced ones, or the given ones."""
    if worN is None or isinstance(worN, (int, numpy.integer)):
        n = 512 if worN is None else int(worN)
        end = 2 * math.pi if whole else math.pi
        return constant(numpy.linspace(0, end, n, endpoint=bool(include_nyquist and not whole)))
    return np.atleast_1d(floating(worN)) * (2.0 * math.pi / fs)


def _polynomial(c: Array, z: Array) -> Array:
    """Return c[0] + c[1] z + c[2] z^2 + ... by Horner's rule; c may have more axes after its first."""
    total = c[-1] + 0.0 * z
    for k in range(c.shape[0] - 2, -1, -1):
        total = total * z + c[k]
    return total


def freqz(
    b: ArrayLike, a: ArrayLike = 1, worN: ArrayLike | None = 512, whole: bool = False,
    plot: Callable[..., Any] | None = None, fs: float = 2 * math.pi, include_nyquist: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """Frequencies, and the response of the filter b/a there; differentiable in b, a and in given frequencies.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        worN: frequencies, or their number. None means the default number.
        whole: whether frequencies go round the whole circle, instead of half of it.
        plot: function that is called with frequencies and response.
        fs: sampling rate. The default measures frequencies in radians per sample.
        include_nyquist: whether the last frequency is the Nyquist frequency.

    >>> from ndgrad.scipy import signal
    >>> w, h = signal.freqz([0.5, 0.5], worN=[0.0, 1.0])
    >>> abs(h)
    array([1.        , 0.87758256])
    """
    num, den = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    w = _frequencies(worN, whole, fs, include_nyquist)
    z = np.exp(-1j * w)
    if num.ndim > 1:
        num = num[..., None] if num.shape[-1] != 1 and num.shape[1:] != w.shape else num
    h = _polynomial(num, z) / _polynomial(den, z)
    w = w * (fs / (2 * math.pi))
    if plot is not None:
        plot(w, h)
    return w, h


def freqz_sos(
    sos: ArrayLike, worN: ArrayLike | None = 512, whole: bool = False, fs: float = 2 * math.pi,
) -> tuple[Array, Array]:  # fmt: skip
    """Frequencies, and the response of second order sections there.

    Args:
        sos: second order sections, of shape (n_sections, 6).
        worN: frequencies, or their number. None means the default number.
        whole: whether frequencies go round the whole circle, instead of half of it.
        fs: sampling rate. The default measures frequencies in radians per sample.

    >>> from ndgrad.scipy import signal
    >>> w, h = signal.freqz_sos([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]], worN=[0.0, 1.0])
    >>> abs(h)
    array([1.        , 0.87758256])
    """
    sections = floating(sos)
    h: Any = 1.0
    w: Any = None
    for i in range(sections.shape[0]):
        w, one = freqz(sections[i, :3], sections[i, 3:], worN, whole, fs=fs)
        h = h * one
    return w, h


sosfreqz = freqz_sos


def freqz_zpk(
    z: ArrayLike, p: ArrayLike, k: ArrayLike, worN: ArrayLike | None = 512, whole: bool = False,
    fs: float = 2 * math.pi,
) -> tuple[Array, Array]:  # fmt: skip
    """Frequencies, and the response there of the filter with given zeros, poles and gain.

    Args:
        z: zeros.
        p: poles.
        k: gain.
        worN: frequencies, or their number. None means the default number.
        whole: whether frequencies go round the whole circle, instead of half of it.
        fs: sampling rate. The default measures frequencies in radians per sample.

    >>> from ndgrad.scipy import signal
    >>> w, h = signal.freqz_zpk([-1.0], [0.0], 0.5, worN=[0.0, 1.0])
    >>> abs(h)
    array([1.        , 0.87758256])
    """
    zeros, poles = (np.atleast_1d(floating(v)) for v in (z, p))
    w = _frequencies(worN, whole, fs, False)
    at = np.exp(1j * w)[:, None]
    h = floating(k) * (at - zeros).prod(axis=-1) / (at - poles).prod(axis=-1)
    return w * (fs / (2 * math.pi)), h


def freqs(
    b: ArrayLike, a: ArrayLike, worN: ArrayLike | None = 200, plot: Callable[..., Any] | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The response of an analog filter at angular frequencies; frequencies chosen by SciPy are constants.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        worN: frequencies, or their number. None means the default number.
        plot: function that is called with frequencies and response.

    >>> from ndgrad.scipy import signal
    >>> w, h = signal.freqs([1.0], [1.0, 1.0], worN=[0.0, 1.0])
    >>> abs(h)
    array([1.        , 0.70710678])
    """
    num, den = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    if worN is None or isinstance(worN, (int, numpy.integer)):
        import scipy.signal

        count = 200 if worN is None else int(worN)
        w = constant(scipy.signal.freqs(values_of(num.detach()), values_of(den.detach()), count)[0])
    else:
        w = np.atleast_1d(floating(worN))
    s = 1j * w
    h = np.polyval(num, s) / np.polyval(den, s)
    if plot is not None:
        plot(w, h)
    return w, h


def freqs_zpk(z: ArrayLike, p: ArrayLike, k: ArrayLike, worN: ArrayLike | None = 200) -> tuple[Array, Array]:
    """The response of an analog filter from its zeros, poles and gain.

    Args:
        z: zeros.
        p: poles.
        k: gain.
        worN: frequencies, or their number. None means the default number.

    >>> from ndgrad.scipy import signal
    >>> w, h = signal.freqs_zpk([], [-1.0], 1.0, worN=[0.0, 1.0])
    >>> abs(h)
    array([1.        , 0.70710678])
    """
    zeros, poles = (np.atleast_1d(floating(v)) for v in (z, p))
    if worN is None or isinstance(worN, (int, numpy.integer)):
        import scipy.signal

        w = constant(
            scipy.signal.freqs_zpk(
                *(values_of(floating(v).detach()) for v in (z, p, k)), 200 if worN is None else int(worN)
            )[0]
        )
    else:
        w = np.atleast_1d(floating(worN))
    at = (1j * w)[:, None]
    return w, floating(k) * (at - zeros).prod(axis=-1) / (at - poles).prod(axis=-1)


def group_delay(
    system: tuple[Any, Any], w: ArrayLike = 512, whole: bool = False, fs: float = 2 * math.pi,
) -> tuple[Array, Array]:  # fmt: skip
    """The delay in samples of a filter (b, a), -d(phase)/dw, computed from the filter times its index.

    Args:
        system: coefficients (b, a).
        w: frequencies, or their number.
        whole: whether frequencies go round the whole circle, instead of half of it.
        fs: sampling rate. The default measures frequencies in radians per sample.

    Returns:
        The frequencies, and the delay at them in samples.

    >>> from ndgrad.scipy import signal
    >>> w, delay = signal.group_delay(([0.5, 0.5], [1.0]), w=[0.5, 1.0])
    >>> delay
    array([0.5, 0.5])
    """
    b, a = (np.atleast_1d(floating(v)) for v in system)
    angles = _frequencies(w, whole, fs, False)
    c = convolve(b, a[::-1].conj())
    z = np.exp(-1j * angles)
    index = numpy.arange(c.shape[0])
    num, den = _polynomial(c * index, z), _polynomial(c, z)
    singular = abs(den.detach()) < 10 * numpy.finfo(float).eps
    delay = np.where(singular, 0.0, (num / np.where(singular, 1.0, den)).real - (a.shape[0] - 1))
    return angles * (fs / (2 * math.pi)), delay


# ----- zeros, poles and coefficients ----------------------------------------------------------------------------------


def _expand_roots(roots: Array) -> Array:
    """Return the coefficients of the polynomial with given roots, the highest first.

    They are real if the roots come in conjugate pairs, and their derivative is then that of the real parts.
    """
    made = np.ones(1, dtype=np_dtype(roots))
    for i in range(roots.shape[-1]):
        made = np.concatenate([made, np.zeros(1, dtype=np_dtype(made))]) - roots[i] * np.concatenate(
            [np.zeros(1, dtype=np_dtype(made)), made]
        )
    if np_dtype(made).kind != "c":
        return made
    plain = numpy.sort_complex(values_of(roots.detach()))
    return made.real if numpy.allclose(plain, numpy.sort_complex(plain.conj()), rtol=1e-12, atol=1e-14) else made


def zpk2tf(z: ArrayLike, p: ArrayLike, k: ArrayLike) -> tuple[Array, Array]:
    """Coefficients of the polynomials from zeros, poles and gain; real if complex roots come in pairs.

    Args:
        z: zeros.
        p: poles.
        k: gain.

    >>> from ndgrad.scipy import signal
    >>> signal.zpk2tf([-1.0], [0.5], 2.0)
    (array([2., 2.]), array([ 1. , -0.5]))
    """
    zeros, poles = (np.atleast_1d(floating(v)) for v in (z, p))
    return np.atleast_1d(floating(k)) * _expand_roots(zeros), _expand_roots(poles)


def normalize(b: ArrayLike, a: ArrayLike) -> tuple[Array, Array]:
    """Both polynomials divided by the leading nonzero coefficient of the denominator.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.

    >>> from ndgrad.scipy import signal
    >>> signal.normalize([2.0], [4.0, 2.0])
    (array([0.5]), array([1. , 0.5]))
    """
    num, den = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    den = den[leading_zeros(den) :]
    num, den = num / den[0], den / den[0]
    if batch_dims(num):
        return num, den
    start = 0
    flat = numpy.abs(values_of(num.detach()))
    while start < flat.shape[-1] - 1 and flat[..., start].max() <= 1e-14:
        start += 1
    return num[..., start:], den


def tf2zpk(b: ArrayLike, a: ArrayLike) -> tuple[Array, Array, Array]:
    """Zeros, poles and gain from the polynomials, whose roots must be simple for a derivative.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.

    >>> from ndgrad.scipy import signal
    >>> zeros, poles, gain = signal.tf2zpk([1.0, -1.0], [1.0, -0.5])
    >>> zeros, poles, gain
    (array([1.]), array([0.5]), array(1.))
    """
    num, den = normalize(b, a)
    num, den = num / den[0], den / den[0]
    gain = num[0]
    return np.roots(num / gain), np.roots(den), gain


def sos2tf(sos: ArrayLike) -> tuple[Array, Array]:
    """The polynomials of second order sections, multiplied out.

    Args:
        sos: second order sections, of shape (n_sections, 6).

    >>> from ndgrad.scipy import signal
    >>> signal.sos2tf([[1.0, 1.0, 0.0, 1.0, -0.5, 0.0]])
    (array([1., 1., 0.]), array([ 1. , -0.5,  0. ]))
    """
    sections = floating(sos)
    b, a = np.ones(1), np.ones(1)
    for i in range(sections.shape[0]):
        b, a = convolve(b, sections[i, :3], method="direct"), convolve(a, sections[i, 3:], method="direct")
    return b, a


# ----- frequency transformations --------------------------------------------------------------------------------------


def _powers_of(coefficients: list[Any], numerator: Array, denominator: Array, degree: int) -> Array:
    """Return the sum over k of c[k] numerator^k denominator^(degree - k), as coefficients, the highest first."""
    ups, downs = [np.ones(1)], [np.ones(1)]
    for _ in range(degree):
        ups.append(convolve(ups[-1], numerator, method="direct"))
        downs.append(convolve(downs[-1], denominator, method="direct"))
    total: Any = None
    for k, c in enumerate(coefficients):
        term = convolve(ups[k], downs[degree - k], method="direct") * c
        if total is None:
            total = term
        else:
            size = max(total.shape[0], term.shape[0])
            total, term = (np.pad(t, (size - t.shape[0], 0)) for t in (total, term))
            total = total + term
    return total


def _substitute(b: ArrayLike, a: ArrayLike, numerator: Array, denominator: Array) -> tuple[Array, Array]:
    """Return b(s) / a(s) with s = numerator / denominator."""
    num, den = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    degree = max(num.shape[0], den.shape[0]) - 1
    parts = [
        _powers_of([c[c.shape[0] - 1 - k] for k in range(c.shape[0])], numerator, denominator, degree)
        for c in (num, den)
    ]
    return parts[0], parts[1]


def bilinear(b: ArrayLike, a: ArrayLike, fs: ArrayLike = 1.0) -> tuple[Array, Array]:
    """A digital filter from an analog one, by s = 2 fs (z - 1) / (z + 1).

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        fs: sampling rate.

    >>> from ndgrad.scipy import signal
    >>> signal.bilinear([1.0], [1.0, 1.0], fs=0.5)
    (array([0.5, 0.5]), array([1., 0.]))
    """
    rate = 2.0 * floating(fs)
    num, den = _substitute(b, a, rate * np.asarray([1.0, -1.0]), np.asarray([1.0, 1.0]))
    return normalize(num, den)


def bilinear_zpk(z: ArrayLike, p: ArrayLike, k: ArrayLike, fs: ArrayLike) -> tuple[Array, Array, Array]:
    """A digital filter from an analog one, by zeros, poles and gain.

    Args:
        z: zeros.
        p: poles.
        k: gain.
        fs: sampling rate.

    >>> from ndgrad.scipy import signal
    >>> signal.bilinear_zpk([-3.0], [-1.0], 1.0, fs=0.5)
    (array([-0.5]), array([0.]), array(2.))
    """
    zeros, poles = (np.atleast_1d(floating(v)) for v in (z, p))
    rate = 2.0 * floating(fs)
    degree = poles.shape[0] - zeros.shape[0]
    if degree < 0:
        raise ValueError("Improper transfer function. Must have at least as many poles as zeros. [nd-values]")
    digital = (rate + zeros) / (rate - zeros)
    gain = floating(k) * ((rate - zeros).prod() / (rate - poles).prod()).real
    return np.concatenate([digital, -np.ones(degree, dtype=np_dtype(digital))]), (rate + poles) / (rate - poles), gain


def lp2lp(b: ArrayLike, a: ArrayLike, wo: ArrayLike = 1.0) -> tuple[Array, Array]:
    """A lowpass filter with another cutoff, by s -> s / wo.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        wo: cutoff or middle frequency of the result.

    >>> from ndgrad.scipy import signal
    >>> signal.lp2lp([1.0], [1.0, 1.0], wo=2.0)
    (array([2.]), array([1., 2.]))
    """
    return normalize(*_substitute(b, a, np.asarray([1.0, 0.0]), floating(wo)[None]))


def lp2lp_zpk(z: ArrayLike, p: ArrayLike, k: ArrayLike, wo: ArrayLike = 1.0) -> tuple[Array, Array, Array]:
    """A lowpass filter with another cutoff, by zeros, poles and gain.

    Args:
        z: zeros.
        p: poles.
        k: gain.
        wo: cutoff or middle frequency of the result.

    >>> from ndgrad.scipy import signal
    >>> signal.lp2lp_zpk([-3.0], [-1.0], 1.0, wo=2.0)
    (array([-6.]), array([-2.]), array(1.))
    """
    zeros, poles, w = np.atleast_1d(floating(z)), np.atleast_1d(floating(p)), floating(wo)
    return w * zeros, w * poles, floating(k) * w ** (poles.shape[0] - zeros.shape[0])


def lp2hp(b: ArrayLike, a: ArrayLike, wo: ArrayLike = 1.0) -> tuple[Array, Array]:
    """A highpass filter, by s -> wo / s.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        wo: cutoff or middle frequency of the result.

    >>> from ndgrad.scipy import signal
    >>> signal.lp2hp([1.0], [1.0, 1.0], wo=2.0)
    (array([1., 0.]), array([1., 2.]))
    """
    return normalize(*_substitute(b, a, floating(wo)[None], np.asarray([1.0, 0.0])))


def lp2bp(b: ArrayLike, a: ArrayLike, wo: ArrayLike = 1.0, bw: ArrayLike = 1.0) -> tuple[Array, Array]:
    """A bandpass filter, by s -> (s^2 + wo^2) / (bw s).

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        wo: cutoff or middle frequency of the result.
        bw: width of the band.

    >>> from ndgrad.scipy import signal
    >>> signal.lp2bp([1.0], [1.0, 1.0], wo=2.0, bw=1.0)
    (array([1., 0.]), array([1., 1., 4.]))
    """
    w = floating(wo)
    one = np.ones(1)
    up = np.concatenate([one, np.zeros(1), (w * w)[None]])
    return normalize(*_substitute(b, a, up, np.concatenate([floating(bw)[None], np.zeros(1)])))


def lp2bs(b: ArrayLike, a: ArrayLike, wo: ArrayLike = 1.0, bw: ArrayLike = 1.0) -> tuple[Array, Array]:
    """A bandstop filter, by s -> bw s / (s^2 + wo^2).

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        wo: cutoff or middle frequency of the result.
        bw: width of the band.

    >>> from ndgrad.scipy import signal
    >>> signal.lp2bs([1.0], [1.0, 1.0], wo=2.0, bw=1.0)
    (array([1., 0., 4.]), array([1., 1., 4.]))
    """
    w = floating(wo)
    down = np.concatenate([np.ones(1), np.zeros(1), (w * w)[None]])
    return normalize(*_substitute(b, a, np.concatenate([floating(bw)[None], np.zeros(1)]), down))
