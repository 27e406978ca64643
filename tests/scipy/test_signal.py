"""`ndgrad.scipy.signal` beside `scipy.signal`: values, and derivatives in signals, coefficients and states."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.numpy as dnp
from ndgrad import func

scipys = pytest.importorskip("scipy.signal")
from tests.scipy.checking import check, leaves, plain  # noqa: E402

from ndgrad.scipy import signal  # noqa: E402

R = np.random.default_rng(8)
X = R.standard_normal(24)
XX = R.standard_normal((3, 24))
B = np.array([0.4, -0.3, 0.2])
A = np.array([1.3, -0.5, 0.2, 0.1])
SOS = np.array([[0.4, 0.2, 0.1, 1.0, -0.5, 0.2], [1.0, -0.3, 0.2, 1.0, 0.1, 0.3]])
IMAGE = R.standard_normal((6, 7))
KERNEL = R.standard_normal((2, 3))


def with_ones(t):
    """Changes of sections that leave their leading coefficients."""
    return np.where(np.arange(6) == 3, 0.0, t) if t.shape == (2, 6) else t


def both(name, *before, **settings):
    return tuple(lambda *a, s=s: getattr(s, name)(*before, *a, **settings) for s in (signal, scipys))


# ----- convolutions --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve", "oaconvolve"])
def test_convolutions_of_any_dimension(name, mode):
    for x, y in (
        (X, B),
        (B, X),
        (IMAGE, KERNEL),
        (KERNEL, IMAGE),
        (X + 1j * X[::-1], B * 1j),
        (R.standard_normal((3, 4, 3)), R.standard_normal((2, 2, 2))),
    ):
        check(*both(name, mode=mode), x, y, second=x is X)
    if name in ("convolve", "correlate"):
        for method in ("direct", "fft"):
            check(*both(name, mode=mode, method=method), X, B, vmap=False)
    else:
        check(*both(name, mode=mode, axes=1), IMAGE, KERNEL[:1], second=False)


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_convolutions_of_images_with_boundaries(name, mode, boundary):
    check(*both(name, mode=mode, boundary=boundary), IMAGE, KERNEL, second=False)
    check(*both(name, mode=mode, boundary=boundary), IMAGE, R.standard_normal((3, 3)), second=False, vmap=False)
    if boundary == "fill":
        check(*both(name, mode=mode, boundary=boundary, fillvalue=0.7), IMAGE, KERNEL, second=False, vmap=False)


def test_deconvolve_undoes_convolve():
    check(*both("deconvolve"), np.convolve(X, B) + 0.1, B)


# ----- filters ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("b", "a"), [(B, A), (A, B + 1), (B, np.array([2.0])), (np.array([0.7]), A)])
def test_lfilter_in_signal_coefficients_and_state(b, a):
    check(*both("lfilter"), b, a, X)
    check(*(lambda b, a, x, s=s: s.lfilter(b, a, x, axis=0) for s in (signal, scipys)), b, a, XX.T, second=False)
    order = max(len(b), len(a)) - 1
    zi = R.standard_normal(order)
    check(*(lambda b, a, x, zi, s=s: s.lfilter(b, a, x, zi=zi) for s in (signal, scipys)), b, a, X, zi, second=False)
    check(*(lambda b, a, x, zi, s=s: s.lfilter(b, a, x, zi=zi) for s in (signal, scipys)), b, a, X[:2], zi, second=False)
    check(*(lambda b, x, zi, s=s: s.lfilter(b, a, x, zi=zi) for s in (signal, scipys)), b, XX, R.standard_normal((3, order)), second=False)


def test_complex_filters_and_states():
    check(*both("lfilter"), B + 0.1j, A - 0.2j * np.array([0, 1, 1, 0]), X + 1j * X[::-1])
    check(*both("lfilter_zi"), B, A)
    check(*both("lfiltic"), B, A, X[:4], X[4:7])
    check(*both("sosfilt_zi"), SOS, tangents=with_ones)


def test_a_jacobian_of_lfilter_costs_one_filter_per_column():
    jacobian = func.jacrev(lambda x: signal.lfilter(B, A, x))(dnp.array(X))
    impulse = scipys.lfilter(B, A, np.eye(24)[0])
    np.testing.assert_allclose(plain(jacobian)[:, 0], impulse, atol=1e-12)
    np.testing.assert_allclose(plain(jacobian)[:, 5], np.r_[np.zeros(5), impulse[:-5]], atol=1e-12)


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_filters_without_phase(padtype):
    check(*both("filtfilt", padtype=padtype), B, A, X, second=False, vmap=False)
    check(*(lambda x, s=s: s.filtfilt(B, A, x, axis=0, padtype=padtype, padlen=3) for s in (signal, scipys)), XX.T, second=False)
    check(*both("sosfiltfilt", padtype=padtype), SOS, X, second=False, vmap=False, tangents=with_ones)
    check(*(lambda x, s=s: s.sosfiltfilt(SOS, x, padtype=padtype) for s in (signal, scipys)), XX, second=False)


def test_second_order_sections():
    check(*both("sosfilt"), SOS, X, tangents=with_ones)
    zi = R.standard_normal((2, 3, 2))
    check(*(lambda sos, x, zi, s=s: s.sosfilt(sos, x, zi=zi) for s in (signal, scipys)), SOS, XX, zi, second=False, tangents=with_ones)
    check(*(lambda x, s=s: s.sosfilt(SOS, x, axis=0) for s in (signal, scipys)), XX.T, second=False)


def test_changes_of_rate():
    for up, down in ((1, 1), (3, 1), (1, 2), (3, 2)):
        check(*(lambda h, x, s=s, u=up, d=down: s.upfirdn(h, x, u, d) for s in (signal, scipys)), B, X, second=False)
        check(*(lambda x, s=s, u=up, d=down: s.resample_poly(x, u, d) for s in (signal, scipys)), X, second=False, vmap=False)
    for padtype in ("mean", "line", "maximum", "edge", "symmetric"):
        check(
            *(lambda x, s=s, p=padtype: s.resample_poly(x, 3, 2, axis=1, padtype=p) for s in (signal, scipys)), XX, second=False, vmap=False
        )
    check(*(lambda x, h, s=s: s.resample_poly(x, 3, 2, window=h) for s in (signal, scipys)), X, np.hanning(7), second=False)
    for settings in ({}, {"ftype": "fir"}, {"zero_phase": False}, {"ftype": "fir", "zero_phase": False, "n": 12}):
        check(
            *(lambda x, s=s, k=settings: s.decimate(x, 3, **k) for s in (signal, scipys)), R.standard_normal(60), second=False, vmap=False
        )


# ----- smoothing and transforms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["interp", "mirror", "constant", "nearest", "wrap"])
def test_savgol_filter(mode):
    check(*both("savgol_filter", window_length=5, polyorder=2, mode=mode), X, second=False)
    check(*both("savgol_filter", window_length=7, polyorder=3, deriv=1, delta=0.5, axis=0, mode=mode), XX.T, second=False, vmap=False)


def test_linear_transforms_of_signals():
    check(*both("detrend"), XX, second=False)
    check(*both("detrend", type="constant", axis=0), XX, second=False)
    check(*both("detrend", bp=[8, 15]), X, second=False)
    check(*both("hilbert"), XX, second=False)
    check(*both("hilbert", N=30, axis=0), XX.T, second=False)
    check(*both("hilbert2"), IMAGE, second=False)
    for num in (12, 13, 30, 31):
        for x in (X, X[:23], X + 1j * X[::-1]):
            check(*both("resample", num=num), x, second=False, vmap=False)
    check(*both("resample", num=10, axis=1, window="hann"), XX, second=False)


def test_medians_and_wiener():
    check(*both("medfilt", kernel_size=3), X, second=False, step=1e-5)
    check(*both("medfilt2d", kernel_size=3), IMAGE, second=False, step=1e-5)
    check(*both("wiener", mysize=3), IMAGE, second=False, step=1e-5)
    check(*both("wiener", mysize=5, noise=0.3), X, second=False, step=1e-5)


# ----- spectra --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"nperseg": 8},
        {"nperseg": 8, "noverlap": 2, "nfft": 12, "scaling": "spectrum"},
        {"detrend": "linear", "nperseg": 9},
        {"detrend": False, "return_onesided": False, "nperseg": 8},
        {"average": "median", "nperseg": 8},
    ],
)
def test_welch_and_csd(settings):
    check(*both("welch", **settings), X, second=False, vmap=False)
    check(*both("csd", **settings), X, X[::-1].copy(), second=False, vmap=False)
    check(*both("welch", axis=0, **settings), XX.T, second=False, vmap=False)


def test_other_spectra():
    check(*both("periodogram"), X, second=False)
    check(*both("periodogram", nfft=32, window="hann"), XX, second=False, vmap=False)
    check(*both("periodogram", nfft=16), X, second=False, vmap=False)
    check(*both("coherence", nperseg=8), X, X[::-1] ** 2, second=False)
    for mode in ("psd", "magnitude", "complex"):
        check(*both("spectrogram", nperseg=8, mode=mode), XX, second=False, vmap=False)
    times, frequencies = np.sort(R.uniform(0, 9, 20)), np.linspace(0.4, 4, 6)
    check(*both("lombscargle"), times, R.standard_normal(20), frequencies, second=False)
    check(*both("vectorstrength"), times, np.array(2.3))


@pytest.mark.parametrize(
    "settings", [{"nperseg": 8}, {"nperseg": 8, "noverlap": 6, "nfft": 10}, {"nperseg": 8, "boundary": None, "padded": False}]
)
def test_short_time_transforms_and_back(settings):
    check(*both("stft", **settings), X, second=False, vmap=False)
    check(*both("stft", axis=0, **settings), XX.T, second=False, vmap=False)
    if settings.get("boundary", 0) is not None:
        window = {k: v for k, v in settings.items() if k in ("nperseg", "noverlap", "nfft")}
        z = scipys.stft(X, **settings)[2]
        check(
            *(lambda re, im, s=s: s.istft(re + 1j * im, **window)[1] for s in (signal, scipys)), z.real.copy(), z.imag.copy(), second=False
        )


# ----- responses and forms --------------------------------------------------------------------------------------------


def test_responses():
    check(*both("freqz", worN=9), B, A)
    check(*both("freqz", worN=9, whole=True, fs=2.0), B, A, second=False)
    check(*(lambda b, a, w, s=s: s.freqz(b, a, w)[1] for s in (signal, scipys)), B, A, np.array([0.2, 1.0, 2.0]))
    check(*both("freqz_sos", worN=9), SOS, second=False, tangents=with_ones)
    zpk = (np.array([0.3 + 0.4j, 0.3 - 0.4j]), np.array([0.5, -0.2]), np.array(1.4))
    check(*(lambda z, p, k, s=s: s.freqz_zpk(z, p, k, worN=9)[1] for s in (signal, scipys)), *zpk, second=False)
    check(*(lambda b, a, s=s: s.freqs(b, a, np.array([0.2, 1.0, 2.0]))[1] for s in (signal, scipys)), B, A)
    check(*(lambda b, a, s=s: s.group_delay((b, a), w=7)[1] for s in (signal, scipys)), B, A)


def test_conversions():
    check(*both("bilinear", fs=1.7), B, A, second=False)
    check(*both("lp2lp"), B, A, np.array(1.7), second=False)
    check(*both("lp2hp"), B, A, np.array(1.7), second=False)
    check(*both("lp2bp"), B, A, np.array(1.7), np.array(0.6), second=False)
    check(*both("lp2bs"), B, A, np.array(1.7), np.array(0.6), second=False)
    check(*both("sos2tf"), SOS, second=False, tangents=with_ones)
    z, p, k = np.array([-0.3, 0.4]), np.array([-0.5, -1.2, -2.0]), np.array(1.4)
    for name, more in (("zpk2tf", ()), ("bilinear_zpk", (1.3,)), ("lp2lp_zpk", (np.array(1.3),))):
        check(*both(name), z, p, k, *more, second=False, vmap=False)
    mine, theirs = signal.tf2zpk(B, A), scipys.tf2zpk(B, A)
    for m, t in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(np.sort_complex(np.atleast_1d(plain(m))), np.sort_complex(np.atleast_1d(t)))
    pair = signal.zpk2tf([0.3 + 0.4j, 0.3 - 0.4j], [0.5], 1.0)
    assert pair[0].dtype == np.float64


def test_a_change_of_one_root_of_a_conjugate_pair_makes_coefficients_complex():
    z, p = np.array([0.3 + 0.4j, 0.3 - 0.4j]), np.array([-0.5 + 1j, -0.5 - 1j, -0.2 + 0j])
    for name in ("zpk2tf", "freqs_zpk"):
        more = (np.array([0.2, 1.0, 2.0]),) if name == "freqs_zpk" else ()
        run = lambda s, name=name, more=more: lambda z, p, k: getattr(s, name)(z, p, k, *more)
        check(run(signal), run(scipys), z, p, np.array(1.4), second=False, vmap=False)
    np.testing.assert_allclose(plain(signal.freqs_zpk(z, p, 1.4)[1]), scipys.freqs_zpk(z, p, 1.4)[1])
    pole = dnp.array(p[0])
    moved = func.jvp(lambda v: signal.zpk2tf([], dnp.stack([v, v.conj()]), 1.0)[1], (pole,), (dnp.array(1j),))[1]
    np.testing.assert_allclose(plain(moved), [0.0, 0.0, 2.0], atol=1e-15)  # a pair that moves together stays real


def test_chirp_with_equal_frequencies_is_a_cosine():
    t = np.linspace(0.1, 3.0, 7)
    for method in ("linear", "quadratic", "logarithmic", "hyperbolic"):
        check(*both("chirp", method=method), t, np.array(0.7), np.array(2.0), np.array(0.7), second=False, only=(0, 2))
        run = lambda f1, method=method: signal.chirp(t, 0.7, 2.0, f1, method=method).sum()
        near = (float(plain(run(0.7 + 1e-5))) - float(plain(run(0.7 - 1e-5)))) / 2e-5
        np.testing.assert_allclose(plain(func.grad(run)(dnp.array(0.7))), near, rtol=1e-6)


def test_waveforms_and_windows():
    t = np.linspace(0.1, 3.0, 7)
    for method in ("linear", "quadratic", "logarithmic", "hyperbolic"):
        check(*both("chirp", method=method), t, np.array(0.7), np.array(2.0), np.array(1.9))
    check(*both("chirp", method="quadratic", vertex_zero=False, phi=30), t, np.array(0.7), np.array(2.0), np.array(1.9))
    check(*both("sweep_poly"), t, np.array([0.3, -0.2, 1.0]))
    check(
        *(lambda t, fc, bw, s=s: s.gausspulse(t, fc, bw, retquad=True, retenv=True) for s in (signal, scipys)),
        t,
        np.array(1.3),
        np.array(0.4),
    )
    check(*both("sawtooth"), t, np.array(0.37), second=False)
    check(*both("square"), t, second=False)
    windows, theirs = signal.windows, scipys.windows
    for name, given in (("gaussian", (1.7,)), ("kaiser", (3.2,)), ("general_gaussian", (1.3, 2.1)), ("general_hamming", (0.6,))):
        for m in (1, 6, 7):
            for sym in (True, False):
                pair = (lambda *p, w=w, name=name, m=m, sym=sym: getattr(w, name)(m, *p, sym=sym) for w in (windows, theirs))
                check(*pair, *(np.array(g) for g in given), second=False)
    check(*(lambda a, w=w: w.general_cosine(8, a) for w in (windows, theirs)), np.array([0.5, 0.3, 0.2]), second=False)
    check(*(lambda tau, w=w: w.exponential(8, None, tau) for w in (windows, theirs)), np.array(2.5), second=False)
    np.testing.assert_array_equal(plain(windows.hann(8)), theirs.hann(8))


def test_designs_run_on_constants_and_every_name_is_here():
    for mine, theirs in zip(leaves(signal.butter(3, 0.2)), scipys.butter(3, 0.2), strict=True):
        np.testing.assert_array_equal(plain(mine), theirs)
    cutoff = dnp.array(0.2).requires_grad_()
    with pytest.raises(NotImplementedError, match="freqz"):
        signal.butter(3, cutoff)
    np.testing.assert_array_equal(signal.find_peaks(dnp.array(X).requires_grad_())[0], scipys.find_peaks(X)[0])
    for name in scipys.__all__:
        assert getattr(signal, name) is not None
