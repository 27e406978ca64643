"""Builtins for elements of small arrays at an index: the bits of the general way, which also raises the errors."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad._src.arrays import native_kernels, small_moves

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")


def _write(x, i, y):
    out = x.clone()
    out[i] = y
    return out


OPS = {
    "gather": lambda x, i, y, d: nd.gather(x, d, i),
    "scatter": lambda x, i, y, d: nd.scatter(x, d, i, y),
    "scatter of a number": lambda x, i, y, d: nd.scatter(x, d, i, 2.0),
    "scatter_": lambda x, i, y, d: x.clone().scatter_(d, i, y),
    "scatter_add": lambda x, i, y, d: nd.scatter_add(x, d, i, y),
    "take_along_dim": lambda x, i, y, d: nd.take_along_dim(x, i - 1, d),
    "index_select": lambda x, i, y, d: nd.index_select(x, d, i[0, :, 0]),
    "index_add": lambda x, i, y, d: nd.index_add(x, d, nd.arange(x.shape[d]) // 2, x * y),
    "x[i]": lambda x, i, y, d: x[i[:, 0] % x.shape[0]],
    "x[i] = y": lambda x, i, y, d: _write(x, i[0, :3, 0] % x.shape[0], y[:3]),
    "index_put": lambda x, i, y, d: x.index_put((i[0, :3, 0] % x.shape[0],), y[:3], accumulate=d == 1),
}


def _run(op, dtype, dim, wanted):
    r = np.random.default_rng(dim)
    x = nd.tensor(r.standard_normal((4, 5, 6)).astype(dtype), requires_grad=True)
    y = nd.tensor(r.standard_normal((4, 5, 6)).astype(dtype), requires_grad=True)
    i = nd.tensor(r.integers(0, x.shape[dim], (4, 5, 6)))  # positions repeat
    found = []
    with native_kernels.kernels_in_use(wanted):
        for _ in range(3):  # the builtin is made at the second call
            x.grad = y.grad = None
            out = OPS[op](x, i, y, dim)
            g = nd.tensor(np.random.default_rng(5).standard_normal(tuple(out.shape)).astype(dtype))
            out.backward(g)
            found.append([out.detach().numpy(), *(t.grad.numpy() for t in (x, y) if t.grad is not None)])
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", OPS)
def test_builtins_give_the_bits_of_the_general_way(op, dtype):
    for dim in range(3):
        (expected, *_), found = _run(op, dtype, dim, False), _run(op, dtype, dim, True)
        for results in found:
            assert [a.tobytes() for a in results] == [a.tobytes() for a in expected]


def test_index_out_of_range_raises_and_writes_nothing():
    x, y = nd.zeros(3, 4), nd.ones(3, 4)
    right, wrong = nd.tensor([[0] * 4] * 3), nd.tensor([[0, 1, 2, 3]] * 3)
    for _ in range(3):
        x.scatter_(0, right, y)
    assert any(small_moves._calls.values())
    before = x.clone()
    for function in (lambda: x.scatter_(0, wrong, y), lambda: nd.gather(x, 0, wrong), lambda: nd.gather(x, 0, wrong - 9)):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 3"):
                function()
    assert (x == before).all()


def test_gradient_of_written_values_is_zero_where_they_are_overwritten_in_large_arrays():
    r = np.random.default_rng(0)
    for shape, dim in (((70, 130), 1), ((70, 130), 0), ((5, 40, 60), 1)):
        index = r.integers(0, shape[dim] // 2, shape)
        g, y = r.standard_normal(shape).astype(np.float32), nd.zeros(*shape, requires_grad=True)
        nd.scatter(nd.zeros(*shape), dim, nd.tensor(index), y).backward(nd.tensor(g))
        line = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        numbers = np.broadcast_to(line, shape)
        last = np.zeros(shape, np.int64)
        np.put_along_axis(last, index, numbers, dim)
        kept = np.take_along_axis(last, index, dim) == numbers
        np.testing.assert_array_equal(y.grad.numpy(), np.where(kept, np.take_along_axis(g, index, dim), 0))
