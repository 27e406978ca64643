"""Frequent ops of a trace run by generated functions: they record the same as eager calls, and a trace leaves no
reference cycles.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ndnp
from ndgrad._src.compiler.capture import traced_calls
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.compiler.kernels import arrays
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.ops.table import RANDOM
from ndgrad._src.ops.vocabulary import find
from tests.op_programs import SAMPLES, program_of

#: More calls than an op needs before its function is generated.
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


def test_numbers_first_on_numpys_class_and_without_gradients() -> None:
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


# ----- calls that take another path later -----------------------------------------------------------------------------------

_DTYPES = (ndgrad.complex64, ndgrad.complex128, ndgrad.bool, ndgrad.int64, ndgrad.uint8, ndgrad.float32, ndgrad.float64)

_MIXED: dict[str, Any] = {
    "cat": lambda x, y: ndgrad.cat([x, y]),
    "three": lambda x, y: ndgrad.cat([x, y, x]),
    "stack": lambda x, y: ndgrad.stack([x, y]),
    "block_diag": lambda x, y: ndgrad.block_diag(x, y),
    "copy_": lambda x, y: x.clone().copy_(y),
    "slices": lambda x, y: _replace(x, y),
    "where": lambda x, y: ndgrad.where(x == y, x, y),
    "add": lambda x, y: x + y,
    "mul": lambda x, y: 2 * x * y,
}


def _replace(x: Any, y: Any) -> Any:
    made = x.clone()
    made[1:] = y[1:] if x.is_complex() else y.real[1:]
    return made


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("frequent", [0, 10**9])
def test_arguments_of_several_dtypes_before_and_after_ops_have_functions_of_their_own(
    frequent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traced_calls, "_FREQUENT", frequent)
    monkeypatch.setattr(traced_calls, "_functions", {key: {} for key in traced_calls._functions})
    values = {d: ndgrad.tensor([1.0, 2.0, 0.0]).to(d) for d in _DTYPES}
    for d in _DTYPES[:2]:
        values[d] = values[d] + ndgrad.tensor([1j, 0j, -2j], dtype=d)

    def f(given: dict[Any, Any], first: Any) -> list[Any]:
        return [op(given[first], given[d]) for op in _MIXED.values() for d in _DTYPES]

    for first in _DTYPES:
        compiled = CompiledFunction(lambda given, first=first: f(given, first))
        for found, expected in zip(compiled(values), f(values, first), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
        assert compiled.entries[0].specialisation is not None


def _check_many_calls(name: str) -> None:
    """An op in native code, call after call: by frames, by a builtin, by a row, with joint gradients, and without."""
    op, sample = find(name), SAMPLES[name][0]
    program, inputs = program_of(op, sample)

    def f(*leaves: Any) -> Any:
        return sum([r.abs().sum().double() for r in program(*leaves)], ndgrad.zeros((), dtype=ndgrad.float64))

    def run(f: Any, backward: bool) -> list[Any]:
        leaves = [t.detach().clone().requires_grad_() for t in inputs]
        total = f(*leaves)
        if backward and total.requires_grad:
            total.backward()
        return [total.detach().numpy(), *[None if t.grad is None else t.grad.numpy() for t in leaves]]

    compiled = CompiledFunction(f)
    for backward in (True,) * 5 + (False,) * 9 + (True,) * 5:
        for found, expected in zip(run(compiled, backward), run(f, backward), strict=True):
            assert (found is None) == (expected is None), name
            if expected is not None:
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=name)


_ALL_OPS = sorted(name for name in SAMPLES if find(name).batch is not RANDOM)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["exp", "matmul", "softmax", "cat", "index_select", "cumsum"])
def test_an_op_gives_the_same_at_each_call(name: str) -> None:
    _check_many_calls(name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _ALL_OPS)
def test_every_op_gives_the_same_at_each_call(name: str) -> None:
    _check_many_calls(name)
