"""Short-time Fourier transforms and windows, against NumPy's transforms of the frames, SciPy's windows and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

r = np.random.default_rng(5)


def frames(x, n, hop, window):
    count = (x.shape[-1] - n) // hop + 1
    return np.stack([x[..., i * hop : i * hop + n] * window for i in range(count)], -2)


def test_transforms_of_frames_are_those_of_numpy():
    x, window = r.standard_normal((2, 30)), np.hanning(8)
    padded = np.pad(x, ((0, 0), (4, 4)), mode="reflect")
    want = np.fft.rfft(frames(padded, 8, 3, window)).swapaxes(-1, -2)
    got = ndgrad.stft(ndgrad.tensor(x), 8, 3, window=ndgrad.tensor(window), return_complex=True)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


def test_inverse_gives_the_signal_back_and_no_more_than_is_known():
    x = ndgrad.tensor(r.standard_normal(37))
    window = ndgrad.hann_window(8)
    back = ndgrad.istft(ndgrad.stft(x, 8, 2, window=window, return_complex=True), 8, 2, window=window, length=37)
    np.testing.assert_allclose(back[:36].numpy(), x[:36].numpy(), atol=1e-12)


def test_derivatives_of_both_in_signal_and_window():
    x, w = (ndgrad.tensor(a, requires_grad=True) for a in (r.standard_normal(14), r.uniform(0.5, 1.5, 4)))
    assert ndgrad.autograd.gradcheck(lambda x, w: ndgrad.stft(x, 4, 2, window=w, return_complex=True), (x, w), check_forward_ad=True)
    assert ndgrad.autograd.gradgradcheck(lambda x, w: ndgrad.stft(x, 4, 2, window=w, return_complex=True).abs(), (x, w))
    s = ndgrad.tensor(r.standard_normal((3, 6)) + 1j * r.standard_normal((3, 6)), requires_grad=True)
    assert ndgrad.autograd.gradcheck(lambda s, w: ndgrad.istft(s, 4, 2, window=w), (s, w), check_forward_ad=True)


def test_inverse_checks_windows_inside_vmap():
    s = ndgrad.tensor(r.standard_normal((2, 3, 6)) + 0j)
    good = ndgrad.func.vmap(lambda s, w: ndgrad.istft(s, 4, 2, window=w))(s, ndgrad.ones(2, 4))
    assert good.shape == (2, 10)
    with pytest.raises(RuntimeError, match="overlap"):
        ndgrad.func.vmap(lambda s, w: ndgrad.istft(s, 4, 2, window=w))(s, ndgrad.tensor([[1.0] * 4, [0.0] * 4]))


WINDOWS = [
    ("bartlett", {}, "bartlett"), ("blackman", {}, "blackman"), ("cosine", {}, "cosine"), ("hamming", {}, "hamming"), ("hann", {}, "hann"),
    ("nuttall", {}, "nuttall"), ("exponential", {"tau": 3.0}, ("exponential", None, 3.0)), ("gaussian", {"std": 1.5}, ("gaussian", 1.5)),
    ("kaiser", {"beta": 5.0}, ("kaiser", 5.0)), ("general_hamming", {"alpha": 0.6}, ("general_hamming", 0.6)),
    ("general_cosine", {"a": [0.4, 0.3, 0.3]}, ("general_cosine", [0.4, 0.3, 0.3])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "scipys"), WINDOWS, ids=[w[0] for w in WINDOWS])
def test_windows_are_those_of_scipy(name, settings, scipys):
    get_window = pytest.importorskip("scipy.signal").get_window
    for m in (1, 2, 5, 12):
        for symmetric in (True, False):
            got = getattr(ndgrad.signal.windows, name)(m, sym=symmetric, **settings)
            np.testing.assert_allclose(got.numpy(), get_window(scipys, m, fftbins=not symmetric), atol=1e-12, err_msg=f"{m} {symmetric}")


def test_kaiser_windows_do_not_overflow():
    w = ndgrad.kaiser_window(5, False, 900.0).numpy()
    assert np.isfinite(w).all()
    assert w[2] == 1.0
