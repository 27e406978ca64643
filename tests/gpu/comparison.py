"""Functions on a GPU beside the CPU: values and gradients, in every floating dtype."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

TOLERANCE = {ndgrad.float64: 1e-12, ndgrad.float32: 3e-5, ndgrad.float16: 5e-3, ndgrad.bfloat16: 4e-2}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def draw(*shape):
    return np.random.default_rng(len(shape) + shape[-1]).standard_normal(shape)


def compare(function, arrays, dtype):
    """Values and gradients of a function on both devices."""

    def run(device):
        given = [ndgrad.tensor(a, dtype=dtype if a.dtype.kind == "f" else None, device=device) for a in arrays]
        leaves = [t.requires_grad_() for t in given if t.is_floating_point()]
        out = function(*given)
        g = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
        out.backward(ndgrad.tensor(g, dtype=out.dtype, device=device))
        return [out, *[t.grad for t in leaves]]

    for got, want in zip(run("cuda"), run("cpu"), strict=True):
        assert (got.dtype, got.device.type) == (want.dtype, "cuda")
        got, want = got.detach().cpu().double().numpy(), want.detach().double().numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[dtype] * np.abs(want).max())
