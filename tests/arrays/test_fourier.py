"""Fourier transforms by SciPy and by NumPy: the same numbers, dtypes and errors."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad._src.ops import fourier

pytest.importorskip("scipy")

CASES = {
    "fft": lambda x: nd.fft.fft(x),
    "fft of a dimension": lambda x: nd.fft.fft(x, dim=0, norm="ortho"),
    "padded": lambda x: nd.fft.fft(x, n=11),
    "ifft2": lambda x: nd.fft.ifft2(x, norm="forward"),
    "fftn": lambda x: nd.fft.fftn(x, dim=(0, 2)),
    "rfft": lambda x: nd.fft.rfft(x.real if x.is_complex() else x, dim=1),
    "rfft2": lambda x: nd.fft.rfft2(x.real if x.is_complex() else x),
    "irfft": lambda x: nd.fft.irfft(x, n=5),
    "irfft2": lambda x: nd.fft.irfft2(x),
    "hfft": lambda x: nd.fft.hfft(x),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("layout", ["dense", "reversed", "transposed", "expanded"])
def test_transforms_with_scipy_equal_those_without(name, dtype, layout, monkeypatch):
    r = np.random.default_rng(0)
    x = r.standard_normal((4, 7, 6)).astype(dtype)
    if np.iscomplexobj(x):
        x = x + (1j * r.standard_normal(x.shape)).astype(dtype)
    x = {
        "dense": x,
        "reversed": x[:, ::-1, ::2],
        "transposed": x.transpose(2, 1, 0),
        "expanded": np.broadcast_to(x[:1], x.shape),
    }[layout]

    def run():
        # A copy keeps the strides of the array, except for its expanded dimensions.
        t = nd.from_numpy(x.copy(order="K")).requires_grad_()
        y = CASES[name](t)
        (y * y.conj()).real.sum().backward() if y.is_complex() else (y * y).sum().backward()
        return y.detach().numpy(), t.grad.numpy()

    found = run()
    monkeypatch.setattr(fourier, "_scipy_fft", lambda: None)
    for a, b in zip(found, run(), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=32 * np.finfo(a.dtype).eps * max(1.0, np.abs(b).max()))


def test_integers_and_halves_are_left_to_numpy():
    for dtype in (np.int64, np.float16, np.longdouble):
        module, _ = fourier._transforms(np, np.ones(4, dtype))
        assert module is np.fft
    assert fourier._transforms(np, np.ones((0, 4)))[0] is np.fft
