"""The meta device: shapes and dtypes of programs that never compute, compared with the same programs on the CPU."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import ndgrad

PROGRAMS = {
    "arithmetic": lambda x: (x + 1) * 2.0 / x - x**2,
    "mixed dtypes": lambda x: x.float() * ndgrad.ones(3, dtype=ndgrad.float64, device=x.device),
    "comparison": lambda x: x > 0,
    "elementwise": lambda x: x.exp().sin().sqrt(),
    "where": lambda x: ndgrad.where(x > 0, x, 0.0),
    "sum": lambda x: x.sum(1, keepdim=True),
    "sum of all": lambda x: x.sum(),
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.max(1)[0],
    "argmax": lambda x: x.argmax(),
    "matmul": lambda x: x @ x.T,
    "matvec": lambda x: x @ x[0],
    "reshape": lambda x: x.reshape(-1),
    "permute": lambda x: x.T[None],
    "index": lambda x: x[1:, ::2],
    "cat": lambda x: ndgrad.cat([x, x], 1),
    "cumsum": lambda x: x.cumsum(0),
    "cast": lambda x: x.to(ndgrad.complex64),
    "clone": lambda x: x.clone(),
    "in place": lambda x: x.clone().mul_(2).add_(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_and_dtypes_are_those_of_the_cpu(name):
    real = PROGRAMS[name](ndgrad.ones(2, 3))
    meta = PROGRAMS[name](ndgrad.ones(2, 3, device="meta"))
    for r, m in zip(real if isinstance(real, tuple) else (real,), meta if isinstance(meta, tuple) else (meta,)):
        assert m.is_meta
        assert (m.shape, m.dtype) == (r.shape, r.dtype)


def test_gradients_have_shapes_too():
    x = ndgrad.ones(2, 3, device="meta", requires_grad=True)
    (x @ x.T).exp().sum().backward()
    assert x.grad.is_meta
    assert x.grad.shape == (2, 3)


def test_large_tensors_cost_nothing():
    tracemalloc.start()
    try:
        x = ndgrad.empty(100_000, 100_000, device="meta", dtype=ndgrad.float32)
        y = ((x * 2).exp() @ x).sum(0).reshape(10, -1)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert y.shape == (10, 10_000)
    assert x.nbytes == 40_000_000_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: bool(x.sum()), lambda x: x.to("cpu"), lambda x: float(x.sum()),
        lambda x: ndgrad.nonzero(x),
    ],
)  # fmt: skip
def test_what_needs_values_raises(ask):
    with pytest.raises(NotImplementedError, match=r"meta device.*(CPU|device=)"):
        ask(ndgrad.ones(2, device="meta"))


def test_conversion_to_numpy_is_refused():
    with pytest.raises(TypeError, match="can't convert meta device"):
        ndgrad.ones(2, device="meta").numpy()
    with pytest.raises((TypeError, NotImplementedError)):
        np.asarray(ndgrad.ones(2, device="meta"))


def test_shapes_that_do_not_fit_are_errors_as_on_the_cpu():
    x = ndgrad.ones(2, 3, device="meta")
    for wrong in (lambda: x + ndgrad.ones(2, device="meta"), lambda: x @ x, lambda: x.reshape(7)):
        with pytest.raises((RuntimeError, ValueError)):
            wrong()


def test_moving_to_meta_keeps_shape_and_dtype():
    t = ndgrad.ones(2, 3, dtype=ndgrad.int8).to("meta")
    assert (t.is_meta, t.shape, t.dtype, t.stride()) == (True, (2, 3), ndgrad.int8, (3, 1))
    assert ndgrad.zeros_like(t, device="cpu").tolist() == [[0, 0, 0], [0, 0, 0]]
