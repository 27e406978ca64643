"""Ops that come often in a trace run in lanes of their own: what they record is what eager calls give, and a trace leaves
nothing behind that only a collection would find."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ndnp
from ndgrad.compiler.kernels import arrays
from ndgrad.compiler.native import pool, target
from ndgrad.compiler.payload import TracedArray

#: More than an op needs before it has a lane.
ROUNDS = 40


def _numbers_first(x: Any, w: Any) -> Any:
    for _ in range(ROUNDS):
        x = 1.0 - x * w
        x = 2 / (3 + x * x)
        x = 0.5 - (1 - x) + w * 2.0
    return x


def _outside_on_either_side(x: Any, w: Any) -> Any:
    total = x * 0.0
    for i in range(ROUNDS):
        total = w[i % 2] * total + total * w[1 - i % 2] - w[0]
    return total + x


@pytest.mark.parametrize("f", [_numbers_first, _outside_on_either_side])
def test_values_and_gradients_are_those_of_eager_code(f: Any) -> None:
    given = [np.array([0.3, -0.7]), np.array([0.25, 0.5])]
    found = []
    for function in (f, ndgrad.compile(f, fullgraph=True)):
        x, w = (ndgrad.tensor(a, requires_grad=True) for a in given)
        out = function(x, w)
        out.sum().backward()
        found.append([out.detach().numpy(), x.grad.numpy(), w.grad.numpy()])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-12)


def test_numbers_first_on_numpys_face_and_without_gradients() -> None:
    x, w = np.array([0.3, -0.7]), np.array([0.25, 0.5])
    expected = _numbers_first(x, w)
    given = ndnp.asarray(x), ndnp.asarray(w)
    np.testing.assert_allclose(np.asarray(ndgrad.compile(_numbers_first)(*given)), expected, rtol=1e-12)
    with ndgrad.no_grad():
        found = ndgrad.compile(_numbers_first)(ndgrad.tensor(x, requires_grad=True), ndgrad.tensor(w))
    assert not found.requires_grad
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_a_trace_is_freed_without_a_collection() -> None:
    compiled = ndgrad.compile(_numbers_first)
    gc.collect()
    gc.disable()
    try:
        compiled(*[ndgrad.tensor([0.3, -0.7], requires_grad=True) for _ in range(2)])
        assert sum(type(o) is TracedArray for o in gc.get_objects()) == 0
    finally:
        gc.enable()


@pytest.mark.skipif(not target.available(), reason="llvmlite is not installed")
def test_threads_that_ask_at_once_get_one_library_and_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(arrays, "_codes", {})
    monkeypatch.setattr(target, "Code", lambda *given, **settings: made.append(object()) or made[-1])
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append((arrays.code("product", "float"), pool.pool()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == len(made) == 1
