"""Copies on a GPU between layouts and dtypes, and gradients of parts."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from tests.gpu.comparison import DTYPES, compare, draw

cupy = pytest.importorskip("cupy")

LAYOUTS = {
    "permuted": lambda x: x.permute(2, 0, 1),
    "every second": lambda x: x[:, ::2],
    "a part": lambda x: x[1:, 3:, 8:24],
    "expanded": lambda x: x[:1].expand(4, -1, -1),
    "flipped": lambda x: x.flip(1),
    "swapped": lambda x: x.transpose(1, 2),
}


@DTYPES
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, dtype):
    compare(lambda x: LAYOUTS[name](x).reshape(-1) * 2.0, [draw(4, 6, 32)], dtype)
    compare(lambda x: LAYOUTS[name](x).clone() + 1.0, [draw(4, 6, 32)], dtype)
    compare(lambda x: LAYOUTS[name](x).contiguous(), [draw(4, 6, 32)], dtype)


@pytest.mark.parametrize("to", [ndgrad.float64, ndgrad.float32, ndgrad.float16, ndgrad.bfloat16, ndgrad.int64], ids=str)
@DTYPES
def test_conversions(dtype, to):
    for shape in [(5,), (64, 33), (3, 1, 7)]:
        x = ndgrad.tensor(draw(*shape) * 30, dtype=dtype)
        got, want = x.to("cuda").to(to).cpu(), x.to(to)
        np.testing.assert_array_equal(got.double().numpy(), want.double().numpy())
        got = x.to("cuda").transpose(0, -1).to(to).cpu()
        np.testing.assert_array_equal(got.double().numpy(), want.transpose(0, -1).double().numpy())


@DTYPES
def test_gradients_of_parts_are_added_up(dtype):
    compare(lambda x: x[0, :, 3] * 2.0 + x[1, :, 4] + x.permute(2, 0, 1)[5, 1] + x[1, :, 4], [draw(2, 6, 9)], dtype)
    compare(lambda x: (x + x.exp() + x.sin()).transpose(0, 1) * x.transpose(0, 1), [draw(40, 300)], dtype)
    q = draw(3, 2, 4, 24, 8)
    compare(lambda x: x[0] * x[1] + x[2].cos(), [q], dtype)


@DTYPES
@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 8), (64, 1024)], ids=str)
def test_affine_maps(shape, dtype):
    inputs, outputs = shape[-1], 24
    compare(lambda x, w, b: ndgrad.nn.functional.linear(x, w, b),
            [draw(*shape), draw(outputs, inputs) / inputs**0.5, draw(outputs)], dtype)  # fmt: skip
    compare(lambda x, w: x @ w.T, [draw(*shape), draw(outputs, inputs) / inputs**0.5], dtype)
    compare(lambda x, w: x.transpose(0, 1) @ w, [draw(inputs, 6), draw(inputs, outputs)], dtype)
