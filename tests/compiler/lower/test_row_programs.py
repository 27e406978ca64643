"""Bodies and rules as single kernels, natively and in CUDA C++: equal to the ops' formulas in double precision."""

from __future__ import annotations

import shutil
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ndgrad
import ndgrad.nn.functional as F
from ndgrad._src.arrays import native_kernels
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda import row_programs as on_device
from ndgrad._src.compiler.lower.row_programs import Columns, Layout, RowProgram, find_rows
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.decompose import decompose
from ndgrad._src.compiler.passes.terms import write_program
from ndgrad._src.compiler.runtime import fused_ops
from ndgrad._src.ops import recurrent
from ndgrad._src.ops.normalization import _channel_gradients
from ndgrad._src.ops.vocabulary import find, raw_ops
from tests.compiler.cuda import emulator

random = np.random.default_rng(0)


def draw(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


def body(name: str, **settings: Any) -> Callable[..., Any]:
    op = find(name)
    return lambda ops, *arrays: op.body(ops, arrays, {**op.settings, **settings})


def rule(name: str, argument: str, **settings: Any) -> Callable[..., Any]:
    """Return a reverse rule as a function of a vocabulary and the arrays that it names."""
    written, names = find(name).written_rules[argument]
    given = {**find(name).settings, **settings}

    def run(ops: Any, *arrays: Any) -> Any:
        waiting = iter(arrays)
        return written(*[ops if n == "ops" else given[n] if n in given else next(waiting) for n in names])

    return run


def _larger(ops: Any, x: Any) -> Any:
    """Return a row divided by its sum or its maximum: `maximum` is an elementwise op of two numbers here."""
    return x / ops.maximum(ops.sum(x, dim=(1,), keepdim=True), ops.amax(x, dim=(1,), keepdim=True))


def _slope_of_group_norm(ops: Any, g: Any, x: Any, w: Any) -> Any:
    """Return the gradients in x, w and b, where w and b have one number per channel."""
    return _channel_gradients(ops, (g, x, w), {"dim": (2, 3), "constant": (3,), "eps": 1e-5})


#: Functions with the shapes of their arguments.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "softmax": (body("softmax", dim=1), [(5, 37)]),
    "softmax down columns": (body("softmax", dim=0), [(19, 37)]),
    "softmax in the middle": (body("softmax", dim=1), [(3, 19, 4, 5)]),
    "softmax of one row": (body("softmax", dim=0), [(37,)]),
    "log_softmax": (body("log_softmax", dim=2), [(2, 3, 300)]),
    "logsumexp over two": (body("logsumexp", dim=(1, 2)), [(4, 5, 70)]),
    "logsumexp over all": (body("logsumexp", dim=(0, 1), keepdim=True), [(4, 70)]),
    "var": (body("var", dim=(1,)), [(6, 41)]),
    "var down columns": (body("var", dim=(0,), keepdim=True), [(41, 6)]),
    "std_mean": (body("std_mean", dim=(1,), correction=0), [(6, 41)]),
    "std_mean over the first two": (body("std_mean", dim=(0, 1)), [(6, 7, 33)]),
    "layer_norm": (body("native_layer_norm", dim=(2,)), [(3, 4, 50), (50,), (50,)]),
    "layer_norm over two": (body("native_layer_norm", dim=(1, 2)), [(3, 4, 50), (4, 50), (4, 50)]),
    "batch_norm": (body("native_batch_norm", dim=(0, 2, 3)), [(3, 4, 5, 6), (4, 1, 1), (4, 1, 1)]),
    "batch_norm of rows": (body("native_batch_norm", dim=(0,)), [(30, 9), (9,), (9,)]),
    "rms_norm": (body("rms_norm", dim=(1,)), [(7, 65), (65,)]),
    "group_norm": (body("native_layer_norm", dim=(2, 3)), [(3, 2, 4, 50), (3, 2, 4, 1), (3, 2, 4, 1)]),
    "group_norm of three dimensions": (body("native_layer_norm", dim=(1, 2, 3)), [(3, 2, 4, 7), (3, 2, 1, 1), (3, 2, 4, 7)]),
    "slope of group_norm": (_slope_of_group_norm, [(3, 2, 4, 50), (3, 2, 4, 50), (3, 2, 4, 1)]),
    "slope of group_norm with one channel": (_slope_of_group_norm, [(3, 2, 1, 50), (3, 2, 1, 50), (3, 2, 1, 1)]),
    "slope of log_softmax": (rule("log_softmax", "x", dim=1), [(5, 37), (5, 37)]),
    "slope of var": (rule("var", "x", dim=(1,)), [(9,), (9, 41)]),
    "slope of var of a square": (rule("var", "x", dim=(1,)), [(41,), (41, 41)]),
    "slope of var down columns": (rule("var", "x", dim=(0,)), [(6,), (41, 6)]),
    "fixed_norm": (body("fixed_norm"), [(5, 4, 5, 6), *[(4, 1, 1)] * 4]),
    "fixed_norm of rows": (body("fixed_norm"), [(30, 9), *[(9,)] * 4]),
    "prelu with one slope": (body("prelu"), [(30, 9), ()]),
    "cosine_similarity": (body("cosine_similarity", dim=1), [(9, 37), (9, 37)]),
    "cosine_similarity down columns": (body("cosine_similarity", dim=0), [(9, 37), (9, 37)]),
    "larger of two numbers of a row": (_larger, [(5, 37)]),
}


def plan(function: Callable[..., Any], arrays: list[Any]) -> RowProgram | None:
    program, checks = decompose(write_program("test", function, arrays))
    return None if checks else find_rows(simplify_program(program))


def compare(found: list[Any], function: Callable[..., Any], arrays: list[Any], dtype: Any) -> None:
    expected = function(raw_ops(np), *[a.astype(np.float64) for a in arrays])
    for got, want in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert got.dtype == dtype
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=200 * np.finfo(dtype).eps, atol=200 * np.finfo(dtype).eps)


@pytest.mark.skipif(not available(), reason="no native code on this machine")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_native_kernel_equals_the_formula(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    arrays = [draw(*shape, dtype=dtype) for shape in shapes]
    made = plan(function, arrays)
    assert made is not None
    compare(fused_ops.run_rows(made, expand(arrays, made)), function, arrays, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_later_calls_of_a_fused_body_run_the_same_kernel(dtype: Any) -> None:
    """The first call makes a builtin, which refuses arrays of other layouts and dtypes."""
    if native_kernels.kernels() is None:
        pytest.skip("without native kernels")

    def function(ops: Any, arrays: Any, settings: Any) -> Any:
        x, y = arrays
        return ops.exp(x - ops.amax(x, dim=(1,), keepdim=True)) * settings["scale"], None, x + y

    def run(x: np.ndarray, y: np.ndarray) -> Any:
        return native_kernels.run_fused(function, [x, y], {"scale": 2.0}, small=True)

    x, y = draw(6, 11, dtype=dtype), draw(6, 11, dtype=dtype)
    first, second = run(x, y), run(x, y)
    assert first[1] is None
    assert second[1] is None
    for found, wanted in zip(second[::2], first[::2], strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == dtype
    np.testing.assert_allclose(second[0], 2 * np.exp(x - x.max(1, keepdims=True)), rtol=1e-6)
    assert run(np.asfortranarray(x), y) is None
    assert run(x, y.astype(np.float16)) is None
    with native_kernels.kernels_in_use(False):
        assert run(x, y) is None


def expand(arrays: list[Any], made: RowProgram) -> list[Any]:
    """Return the arrays in the shapes in which a program takes them."""
    return [a if s is None else np.ascontiguousarray(np.broadcast_to(a, s)) for a, s in zip(arrays, made.expanded)]


class Held:
    """An array as kernels of a device take it."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array)
        self.data = types.SimpleNamespace(ptr=self.array.ctypes.data, device_id=0)
        self.dtype = self.array.dtype


class Memory:
    """Memory of a device, whose bytes are NaN in every floating dtype."""

    def __init__(self, size: int) -> None:
        self.bytes = np.full(size, 255, np.uint8)
        self.ptr = self.bytes.ctypes.data


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("name", CASES)
def test_cuda_kernel_equals_the_formula(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "allocate", Memory)
    monkeypatch.setattr(launch, "array", lambda shape, dtype, memory: Held(memory.bytes.view(dtype).reshape(shape)))
    on_device._kernel.cache_clear()
    function, shapes = CASES[name]
    arrays = [draw(*shape) for shape in shapes]
    made = plan(function, arrays)
    assert made is not None
    held = [Held(a) for a in expand(arrays, made)]
    launcher = on_device.make_launcher(made, held[0])
    assert launcher is not None
    found = launcher(held)
    on_device._kernel.cache_clear()
    assert found is not None
    compare([f.array for f in found], function, arrays, np.float64)


@pytest.mark.parametrize("name", ["softmax", "var down columns", "batch_norm"])
def test_other_sizes_have_the_same_formula(name: str) -> None:
    function, shapes = CASES[name]
    other = [tuple([2 * n if n > 1 else n for n in shape]) for shape in shapes]
    first, second = (plan(function, [draw(*s) for s in some]) for some in (shapes, other))
    assert first is not None
    assert second is not None
    assert first.formula == second.formula
    assert first.layout != second.layout


def test_layouts() -> None:
    def layout(name: str, shape: tuple[int, ...], **settings: Any) -> Any:
        made = plan(body(name, **settings), [draw(*shape)])
        return None if made is None else made.layout

    assert layout("var", (6, 8, 10), dim=(1, 2)) == Layout(6, 1, 80, 80, 0)
    assert layout("var", (6, 8, 10), dim=(0, 2)) == Layout(8, 6, 10, 10, 80)
    assert layout("var", (6, 8, 10), dim=(1,)) == Columns(6, 8, 10)
    assert layout("var", (6, 8, 10, 5), dim=(0, 2)) is None


def test_programs_that_have_no_rows() -> None:
    x, w = draw(4, 6, 8), draw(6, 1)
    assert plan(lambda ops, x: ops.sum(x, dim=(1,), keepdim=True) + ops.sum(x, dim=(2,), keepdim=True), [x]) is None
    # An argument that varies along rows, and along some of the other dimensions only.
    assert plan(lambda ops, x, w: ops.exp(x) * w, [x, draw(4, 1, 8)]) is None
    assert plan(lambda ops, x: ops.sum(ops.reshape(x, shape=(8, 24)), dim=(1,)), [x]) is None
    # An argument that varies along the last part of the rows only, and a sum over a segment that others need.
    assert plan(lambda ops, x, w: ops.sum(x * w, dim=(1, 2)), [x, w]) is not None
    assert plan(lambda ops, x, w: ops.sum(x * w, dim=(0, 1, 2)), [x, w]) is None
    parts = lambda ops, x: ops.sum(x, dim=(2,), keepdim=True)
    assert plan(lambda ops, x: ops.sum(x, dim=(1, 2), keepdim=True) * ops.exp(parts(ops, x)), [x]) is None
    # A reduced value without its dimensions, against elements of a square.
    square = draw(5, 5)
    assert plan(lambda ops, x: x - ops.sum(x, dim=(1,)), [square]) is None


def test_infinite_and_missing_values_are_those_of_the_op() -> None:
    x = draw(6, 40)
    x[0, 3], x[1, 5], x[2] = np.inf, np.nan, -np.inf
    for name in ("softmax", "log_softmax"):
        made = plan(body(name, dim=1), [x])
        assert made is not None
        with np.errstate(all="ignore"):
            expected = find(name).forward_for(np)(x, dim=1)
        np.testing.assert_allclose(fused_ops.run_rows(made, [x])[0], expected, rtol=1e-13)


#: Functions of large arrays, by the public names, with shapes.
LARGE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "softmax": (lambda x: F.softmax(x, 1), [(90, 130)]),
    "softmax down columns": (lambda x: F.softmax(x, 0), [(130, 90)]),
    "log_softmax": (lambda x: F.log_softmax(x, 1), [(4, 60, 70)]),
    "logsumexp": (lambda x: x.logsumexp((0, 1)), [(90, 130)]),
    "var": (lambda x: x.var(1), [(90, 130)]),
    "std": (lambda x: x.std(0), [(90, 130)]),
    "var_mean": (lambda x: sum(ndgrad.var_mean(x, (0, 2))), [(9, 10, 130)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (65,), w, b), [(13, 14, 65), (65,), (65,)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [(9, 10, 8, 13), (10,), (10,)]),
    "batch_norm of rows": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [(130, 90), (90,), (90,)]),
    "batch_norm without weights": (lambda x: F.batch_norm(x, None, None, training=True), [(130, 90)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [(9, 10, 8, 13), (10,), (10,)]),
    "instance_norm": (lambda x: F.instance_norm(x), [(9, 10, 8, 13)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (65,), w), [(13, 14, 65), (65,)]),
}


@pytest.mark.skipif(not available(), reason="no native code on this machine")
@pytest.mark.parametrize("name", LARGE)
def test_values_and_gradients_equal_those_of_numpy(name: str) -> None:
    function, shapes = LARGE[name]
    arrays = [draw(*shape) for shape in shapes]
    found = []
    for wanted in (True, False):
        with native_kernels.kernels_in_use(wanted):
            tensors = [ndgrad.tensor(a, requires_grad=True) for a in arrays]
            out = function(*tensors)
            out.backward(ndgrad.cos(ndgrad.arange(out.numel(), dtype=out.dtype)).reshape(out.shape))
            found.append([out.detach().numpy(), *(t.grad.numpy() for t in tensors)])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.skipif(not available(), reason="no native code on this machine")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 33), (70, 300)])
@pytest.mark.parametrize(("name", "gates"), [("lstm_cell", 4), ("gru_cell", 3)])
def test_steps_of_recurrent_networks_are_one_kernel_each_way(
    name: str, gates: int, shape: tuple[int, ...], dtype: Any
) -> None:
    wide = (*shape[:-1], gates * shape[-1])
    arrays = [draw(*wide, dtype=dtype), draw(*wide, dtype=dtype), draw(*shape, dtype=dtype)]
    op = find(name)
    given = [draw(*shape, dtype=dtype) for _ in range(op.outputs)]
    slopes = {"lstm_cell": recurrent._lstm_slopes, "gru_cell": recurrent.gru_slopes}[name].__wrapped__

    def backward(ops: Any, *values: Any) -> Any:
        return slopes(*values[3:], *values[:3], ops)

    for function, operands in ((body(name), arrays), (backward, [*arrays, *given])):
        made = plan(function, operands)
        assert made is not None
        assert made.parts
        compare(fused_ops.run_rows(made, operands), function, operands, dtype)


def test_parts_of_unequal_sizes_and_of_other_dimensions_have_no_kernel() -> None:
    x = draw(4, 6)
    assert plan(lambda ops, x: x[:, :2] * 2.0, [x]) is not None
    assert plan(lambda ops, x: (x[:, :2] * 2.0, x[:, 2:5] * 2.0), [x]) is None
    assert plan(lambda ops, x: x[:2] * x[2:], [x]) is None
    assert plan(lambda ops, x: x[:, ::2] * x[:, 1::2], [x]) is None
