"""`ndgrad.scipy.fft` beside `scipy.fft`."""

from __future__ import annotations

import numpy as np
import pytest

scipys = pytest.importorskip("scipy.fft")
from tests.scipy.checking import check  # noqa: E402

from ndgrad.scipy import fft  # noqa: E402

R = np.random.default_rng(0)
X = R.standard_normal((3, 6))
Z = X + 1j * R.standard_normal((3, 6))


@pytest.mark.parametrize("name", ["fft", "ifft", "hfft", "irfft", "fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn", "hfft2", "hfftn"])
def test_transform_of_complex_numbers(name):
    check(getattr(fft, name), getattr(scipys, name), Z, second=False)
    check(*(lambda x, s=s: getattr(s, name)(x, norm="ortho") for s in (fft, scipys)), Z, second=False, vmap=False)


@pytest.mark.parametrize("name", ["rfft", "ihfft", "rfft2", "rfftn", "ihfft2", "ihfftn", "fftshift", "ifftshift"])
def test_transform_of_real_numbers(name):
    check(getattr(fft, name), getattr(scipys, name), X, second=False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_cosine_and_sine_transforms(name, kind, norm):
    for n in (2, 5, 6):
        x = X[:, :n]
        check(*(lambda x, s=s: getattr(s, name)(x, kind, norm=norm) for s in (fft, scipys)), x, second=False, vmap=n == 5)
    check(*(lambda x, s=s: getattr(s, name)(x, kind, n=8, axis=0, norm=norm) for s in (fft, scipys)), X, second=False, vmap=False)
    check(*(lambda x, s=s: getattr(s, name + "n")(x, kind, norm=norm) for s in (fft, scipys)), X, second=False, vmap=False)
    check(*(lambda x, s=s: getattr(s, name)(x, kind, norm=norm) for s in (fft, scipys)), Z, second=False, vmap=False)
    for orthogonalize in (True, False):  # real numbers only: SciPy ignores this argument for complex ones
        run = lambda s, o=orthogonalize: lambda x: getattr(s, name)(x, kind, norm=norm, orthogonalize=o)
        check(run(fft), run(scipys), X, second=False, vmap=False)


def test_every_name_of_scipys_is_here():
    for name in scipys.__all__:
        assert getattr(fft, name) is not None
    assert fft.next_fast_len(13) == scipys.next_fast_len(13)
    np.testing.assert_array_equal(fft.fftfreq(5, 0.5).numpy(), scipys.fftfreq(5, 0.5))
