"""Copies of any steps and choices by a mask: the bits of NumPy's results."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad._src.arrays import copies, native_kernels

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

DTYPES = ("?", "i2", "f4", "f8", "c8", "c16")
FORMS = {
    "dense": lambda x: x,
    "reversed": lambda x: x[:, :, ::-1],
    "all reversed": lambda x: x[::-1, ::-1, ::-1],
    "rows reversed": lambda x: x[:, ::-1],
    "transposed": lambda x: x.T,
    "swapped": lambda x: x.transpose(1, 0, 2),
    "rotated": lambda x: x.transpose(0, 2, 1)[:, ::-1],
    "every second": lambda x: x[:, :, ::2],
    "part": lambda x: x[1:, 2:-1, 1:-2],
    "one number": lambda x: np.broadcast_to(x[0, 0, 0], (5, 300, 70)),
    "one row": lambda x: np.broadcast_to(x[0, 0], (700, x.shape[2])),
    "one column": lambda x: np.broadcast_to(x[0, :, :1], (600, x.shape[1], 3)),
    "flat": lambda x: x.reshape(-1)[3:],
    "flat reversed": lambda x: x.reshape(-1)[::-1],
    "many dimensions": lambda x: x.reshape(5, 4, 16, 2, 3, 37).transpose(5, 3, 1, 0, 2, 4),
}


def _draw(dtype):
    bits = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 255, (5, 128, 111 * np.dtype(dtype).itemsize))
    return bits.astype("u1").view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_copy_has_the_bits_of_the_original(form, dtype):
    x = FORMS[form](_draw(dtype))
    out = copies.copy_in_order(x)
    assert out.flags.c_contiguous
    assert out.tobytes() == x.tobytes()
    larger = np.zeros((*x.shape[:-1], x.shape[-1] + 5), x.dtype)
    copies.copy_into(larger[..., 2:-3], x)
    assert larger[..., 2:-3].tobytes() == x.tobytes()
    assert not larger[..., :2].any()
    assert not larger[..., -3:].any()


def test_joined_arrays_lie_side_by_side():
    x = _draw("f4")
    for axis in range(3):
        parts = np.array_split(x, [30, 31], axis=axis)
        parts = [np.ascontiguousarray(p) for p in parts if p.size] + [x]
        assert copies.concatenate(parts, axis).tobytes() == np.concatenate(parts, axis).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_choice_has_the_bits_of_where(dtype):
    x, y = _draw(dtype), _draw(dtype)[::-1].copy()
    mask = np.random.default_rng(1).random(x.shape) < 0.3
    one = x[0, 0, :1].reshape(())
    for a, b in ((x, y), (one, y), (x, one)):
        expected = np.where(mask, a, b)
        found = copies.choose(mask, a, b)
        if np.dtype(dtype).itemsize > 8:
            assert found is None
            continue
        assert found.tobytes() == expected.tobytes()
        target = b.copy()
        if target.shape:
            copies.choose(mask, a, target, target)
            assert target.tobytes() == expected.tobytes()
    assert copies.choose(mask[:, ::2], x[:, ::2], y[:, ::2]) is None


def test_results_do_not_depend_on_kernels():
    x = _draw("f8")[:, ::-1]
    with native_kernels.kernels_in_use(False):
        assert copies.choose(x > 0, x, x) is None
        assert copies.copy_in_order(x).tobytes() == x.tobytes()


LARGE = {
    "flip": (lambda x: nd.flip(x, (0, 1)), lambda x: np.flip(x, (0, 1))),
    "rot90": (nd.rot90, np.rot90),
    "roll": (lambda x: nd.roll(x, 70, 1), lambda x: np.roll(x, 70, 1)),
    "roll by a multiple": (lambda x: nd.roll(x, -600, 0), lambda x: np.roll(x, -600, 0)),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3))),
    "cat": (lambda x: nd.cat([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    "stack": (lambda x: nd.stack([x, x], 2), lambda x: np.stack([x, x], 2)),
    "tril": (lambda x: nd.tril(x, -3), lambda x: np.tril(x, -3)),
    "triu": (lambda x: nd.triu(x, 70), lambda x: np.triu(x, 70)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 2.0), lambda x: np.where(x > 0, np.float32(2), x)),
    "masked_fill_": (lambda x: x.clone().masked_fill_(x > 0, 2.0), lambda x: np.where(x > 0, np.float32(2), x)),
    "where": (lambda x: nd.where(x > 0, x, 2.0), lambda x: np.where(x > 0, x, np.float32(2))),
    "transposed": (lambda x: x.T.contiguous(), lambda x: x.T),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_give_what_numpy_gives_and_the_gradient_of_small_ones(name):
    function, expected = LARGE[name]
    x = np.random.default_rng(0).standard_normal((300, 260)).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -0.0
    assert function(nd.tensor(x)).numpy().tobytes() == expected(x).tobytes()
    leaf = nd.tensor(x, requires_grad=True)
    out = function(leaf)
    g = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(np.float32)
    out.backward(nd.tensor(g))
    with native_kernels.kernels_in_use(False):
        again = nd.tensor(x, requires_grad=True)
        function(again).backward(nd.tensor(g))
    assert leaf.grad.numpy().tobytes() == again.grad.numpy().tobytes()
