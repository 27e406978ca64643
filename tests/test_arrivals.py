"""Libraries with a place for others' arrays take tensors, whichever was imported first, and nothing is imported for the user."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ndgrad


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.path.dirname(ndgrad.__path__[0])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


USE_EINOPS = (
    "x = ndgrad.ones(2, 3, requires_grad=True); y = einops.rearrange(x, 'a b -> b a'); y.sum().backward(); "
    "print(type(y).__name__, x.grad.sum().item())"
)
USE_FFT = (
    "x = dnp.arange(4.0).requires_grad_(); scipy.fft.dct(x)[0].backward(); print(x.grad.tolist(), type(scipy.fft.dct(np.ones(2))).__name__)"
)


@pytest.mark.parametrize("imports", ["import ndgrad, einops", "import einops, ndgrad"])
def test_einops_takes_tensors(imports):
    pytest.importorskip("einops")
    assert run(f"{imports}; {USE_EINOPS}") == "Tensor 6.0"


@pytest.mark.parametrize("imports", ["import ndgrad.numpy as dnp, scipy.fft", "import scipy.fft, ndgrad.numpy as dnp"])
def test_scipys_own_transforms_take_arrays(imports):
    pytest.importorskip("scipy")
    assert run(f"import numpy as np; {imports}; {USE_FFT}") == "[2.0, 2.0, 2.0, 2.0] ndarray"


def test_nothing_is_imported_for_the_user():
    assert (
        run("import sys, ndgrad; print([m for m in ('einops', 'scipy.fft', 'ndgrad.compat', 'ndgrad.numpy') if m in sys.modules])") == "[]"
    )


def test_the_library_keeps_its_own_loader():
    pytest.importorskip("scipy")
    assert (
        run("import ndgrad, scipy.fft, inspect; print(type(scipy.fft.__loader__).__name__, 'fft' in inspect.getsource(scipy.fft))")
        == "SourceFileLoader True"
    )


def test_xarray_keeps_arrays_with_their_history():
    xr = pytest.importorskip("xarray")
    import ndgrad.numpy as dnp

    x = dnp.array([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    labelled = xr.DataArray(x, dims=("row", "column"), coords={"column": ["a", "b"]})
    made = (labelled.sel(column="b") ** 2).sum("row") + labelled.mean()
    made.data.backward()
    assert x.grad.tolist() == [[0.25, 4.25], [0.25, 8.25]]
    both = xr.concat([labelled, labelled * 2], "row").transpose("column", "row")
    assert both.data.requires_grad
    assert both.shape == (2, 4)
