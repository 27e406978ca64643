"""Convolutions, pooling and slices by index inside programs: what NumPy gives, without a call of its functions in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import Tensor
from ndgrad.nn import functional as F

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.kernels import arrays
from ndgrad._src.compiler.lower.loops import Loop
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.routines import Routine
from ndgrad._src.compiler.lower.steps import Call
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.reroll import find_loops
from ndgrad._src.compiler.runtime.function import CompiledFunction
from tests.compiler.lower.test_native_programs import assert_close, failures_are_errors, native
from tests.compiler.traced import arrays_for, run, traced

assert failures_are_errors  # a fixture that every test here uses

RNG = np.random.default_rng(8)


def normal(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def without_calls(made: NativeProgram) -> bool:
    return not any(isinstance(step, Call) for step in made.groups.steps)


def phases(made: NativeProgram) -> list[str]:
    return [p.function for step in made.groups.steps if isinstance(step, Routine) for p in step.phases]


CONVOLUTIONS = {  # (channels in, out, kernel, settings, sizes)
    "line": (3, 9, (4,), {"stride": 2, "padding": 1}, (17,)),
    "plane": (5, 16, (3, 3), {"padding": 1}, (8, 9)),
    "strided": (8, 12, (3, 2), {"stride": (2, 3), "padding": (1, 0)}, (9, 11)),
    "dilated": (9, 8, (2, 3), {"dilation": (3, 2), "padding": 2}, (10, 9)),
    "grouped": (6, 12, (3, 3), {"groups": 3, "padding": 1}, (6, 7)),
    "depthwise": (10, 10, (3, 3), {"groups": 10, "padding": 1, "stride": 2}, (7, 8)),
    "space": (4, 9, (2, 2, 3), {"padding": 1}, (4, 5, 6)),
    "points": (16, 8, (1, 1), {}, (5, 6)),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_a_convolution_between_others(case: str, dtype: Any) -> None:
    channels, out, kernel, settings, sizes = CONVOLUTIONS[case]
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(sizes)]
    pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(sizes)]
    average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(sizes)]

    def function(x: Tensor, first: Tensor, w: Tensor, b: Tensor) -> Any:
        hidden = ndgrad.relu(convolve(x, first))
        hidden = ndgrad.relu(convolve(hidden, w, b, **settings))
        return (pool(hidden, 2, ceil_mode=True) + average(hidden, 2, ceil_mode=True)).sum(1)

    unit = (1,) * len(kernel)
    inputs = normal(2, 3, *sizes), normal(channels, 3, *unit), normal(out, channels // settings.get("groups", 1), *kernel), normal(out)
    made, _ = native(function, *[a.astype(dtype) for a in inputs])
    assert without_calls(made)
    found = phases(made)
    assert found.count("conv_correlate") == 4  # two forward, one gradient of hidden and one of x
    assert found.count("conv_weight_gradient") == 2


def test_images_stay_with_their_channels_last_between_convolutions() -> None:
    def function(x: Tensor, w: Tensor, v: Tensor) -> Any:
        hidden = F.max_pool2d(ndgrad.relu(F.conv2d(x, w, padding=1)), 2)
        return F.conv2d(hidden + 1, v).exp()

    made, _ = native(function, normal(2, 3, 8, 8), normal(16, 3, 3, 3), normal(16, 16, 2, 2))
    assert without_calls(made)
    assert "pool_max_last" in phases(made)
    assert "pool_max_windows_last" in phases(made)
    given = [normal(*v.shape) for v in made.program.inputs]
    assert all(output.flags.c_contiguous for output in made(given))


def test_an_image_that_is_read_in_both_orders() -> None:
    """By a reshape, a transpose, a concatenation, sums, a slice, and an elementwise op with an array that lies as its dimensions do."""

    def function(x: Tensor, w: Tensor, y: Tensor) -> Any:
        hidden = ndgrad.tanh(F.conv2d(x, w, padding=1))
        other = F.conv2d(hidden, w.transpose(0, 1), padding=1)
        joined = ndgrad.cat([hidden, hidden * y], 1)
        sums = hidden.sum(2), hidden.sum((2, 3))
        return other, hidden.reshape(2, -1).exp(), hidden.permute(2, 0, 1, 3) * 2, joined, *sums, hidden[:, 1:3, ::2]

    made, _ = native(function, normal(2, 9, 5, 6), normal(8, 9, 3, 3), normal(2, 8, 5, 6))
    assert without_calls(made)


def test_batch_normalisation_between_convolutions() -> None:
    def function(x: Tensor, w: Tensor, v: Tensor, scale: Tensor, shift: Tensor) -> Any:
        hidden = F.conv2d(x, w, padding=1)
        hidden = ndgrad.relu(F.batch_norm(hidden, None, None, scale, shift, training=True))
        return F.adaptive_avg_pool2d(F.conv2d(hidden, v, stride=2, padding=1) + hidden[:, :, ::2, ::2], 1)

    made, _ = native(function, normal(3, 5, 8, 8), normal(16, 5, 3, 3), normal(16, 16, 3, 3), normal(16), normal(16))
    assert without_calls(made)


@pytest.mark.parametrize("include", [True, False])
def test_average_pooling_with_padding(include: bool) -> None:
    def function(x: Tensor, w: Tensor) -> Any:
        return F.avg_pool2d(F.conv2d(x, w), (3, 2), stride=(2, 1), padding=1, ceil_mode=True, count_include_pad=include)

    made, _ = native(function, normal(2, 3, 9, 8), normal(11, 3, 2, 2))
    assert without_calls(made)


def test_max_pooling_of_overlapping_windows_with_nan() -> None:
    x = normal(2, 9, 7, 8)
    x[0, 3, 2, 2] = np.nan

    def function(x: Tensor, w: Tensor) -> Any:
        return F.max_pool2d(F.conv2d(x, w), 3, stride=2, padding=1, dilation=1)

    made, _ = native(function, x, normal(9, 9, 1, 1))
    assert without_calls(made)


def test_a_convolution_inside_a_native_loop() -> None:
    def function(x: Tensor, w: Tensor, b: Tensor) -> Any:
        for _ in range(12):
            x = ndgrad.tanh(F.conv2d(x, w, padding=1)) + b.reshape(9, 1, 1)
        return x * x

    x, w, b = normal(2, 9, 6, 5), normal(9, 9, 3, 3) * 0.1, normal(9)
    program = find_loops(simplify_program(traced(function, [x, w, b])))
    made = NativeProgram(program)
    assert any(isinstance(step, Loop) for step in made.groups.steps)
    assert without_calls(made)
    given = arrays_for(program, [x, w, b])
    assert_close(made(given), run(program, given))


def test_a_forward_program_leaves_what_its_backward_program_needs() -> None:
    x, w, v = (ndgrad.tensor(normal(*s), requires_grad=True) for s in ((2, 3, 8, 8), (16, 3, 3, 3), (9, 16, 3, 3)))

    def function(x: Tensor, w: Tensor, v: Tensor) -> Any:
        return F.conv2d(F.max_pool2d(ndgrad.relu(F.conv2d(x, w, padding=1)), 2), v)

    compiled = CompiledFunction(function, True)
    g = ndgrad.tensor(normal(2, 9, 2, 2))
    for _ in range(2):
        found = ndgrad.autograd.grad(compiled(x, w, v), (x, w, v), g)
    for a, b in zip(found, ndgrad.autograd.grad(function(x, w, v), (x, w, v), g), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


# ----- slices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(50, 7), (3, 11), (900, 64), (40,), (17, 1)])
def test_an_embedding_and_its_gradient(shape: tuple[int, ...], dtype: Any) -> None:
    index = RNG.integers(0, shape[0], (6, 50))

    def function(x: Tensor) -> Any:
        rows = F.embedding(ndgrad.tensor(index), x) if len(shape) == 2 else x[ndgrad.tensor(index)]
        return rows * rows

    made, _ = native(function, normal(*shape, dtype=dtype))
    assert without_calls(made)
    assert phases(made) == ["slices_take", "slices_begin", "slices_put"]


def test_every_way_to_read_by_index() -> None:
    i, j = RNG.integers(-5, 5, (4, 3)), RNG.integers(-6, 6, 3)
    flat, along = RNG.integers(-30, 30, (2, 5)), RNG.integers(0, 6, (4, 9, 3))

    def function(x: Tensor, y: Tensor) -> Any:
        return (
            x[ndgrad.tensor(i), ndgrad.tensor(j)], x[ndgrad.tensor(i)], y.index_select(1, ndgrad.tensor(j % 6)),
            x.take(ndgrad.tensor(flat)), y.gather(1, ndgrad.tensor(along)), y.gather(1, ndgrad.tensor(along[:, :1])),
        )  # fmt: skip

    made, _ = native(function, normal(5, 6), normal(4, 6, 3))
    assert without_calls(made)


_I, _J, _ALONG = RNG.integers(0, 9, 20), RNG.integers(-6, 6, 20), RNG.integers(0, 6, (7, 6))

WRITES: dict[str, Any] = {  # places are named again and again
    "index_add": lambda x, y: x.index_add(0, ndgrad.tensor(_I), y),
    "index_copy": lambda x, y: x.index_copy(0, ndgrad.tensor(_I), y),
    "index_fill": lambda x, y: x.index_fill(1, ndgrad.tensor(_J), 0.5) * y[:9],
    "index_put": lambda x, y: x.index_put((ndgrad.tensor(_I),), y),
    "index_put of a row": lambda x, y: x.index_put((ndgrad.tensor(_I),), y[3]),
    "index_put of two": lambda x, y: x.index_put((ndgrad.tensor(_I), ndgrad.tensor(_J)), y[:, 2]),
    "adding index_put": lambda x, y: x.index_put((ndgrad.tensor(_I), ndgrad.tensor(_J)), y[:, 2], accumulate=True),
    "scatter": lambda x, y: x.scatter(1, ndgrad.tensor(_ALONG), y[:7]),
    "scatter of a number": lambda x, y: x.scatter(1, ndgrad.tensor(_ALONG), 2.0) * y[:9],
    "scatter_add": lambda x, y: x.scatter_add(0, ndgrad.tensor(_ALONG), y[:7]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", WRITES)
def test_every_way_to_write_by_index(case: str, dtype: Any) -> None:
    """Both gradients among them: of several values for one place the last one alone has one."""
    made, _ = native(lambda x, y: WRITES[case](x * 2, y).cos(), normal(9, 6, dtype=dtype), normal(20, 6, dtype=dtype))
    assert without_calls(made)


def test_a_write_out_of_range_is_the_error_of_the_op() -> None:
    x = ndgrad.tensor(normal(9, 6))
    added = CompiledFunction(lambda i: x.index_add(0, i, x[: len(i)]), True)
    placed = CompiledFunction(lambda i: x.index_put((i,), x[0]), True)
    np.testing.assert_array_equal(placed(ndgrad.tensor([1, -9])).numpy(), x.numpy()[[0, 0, *range(2, 9)]])
    added(ndgrad.tensor([1, 8]))
    for compiled, wrong in ((added, 9), (added, -1), (placed, 9), (placed, -10)):
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(ndgrad.tensor([1, wrong]))


def test_integers_are_written_by_index() -> None:
    i, places = ndgrad.tensor(_I), ndgrad.tensor(RNG.integers(0, 100, 20))
    made, _ = native(lambda x: x.index_put((i,), places), RNG.integers(0, 100, 9), gradients=False)
    assert without_calls(made)


def test_integers_and_bools_are_read_by_index() -> None:
    index = ndgrad.tensor(RNG.integers(0, 9, 20))

    def function(x: Tensor, y: Tensor, z: Tensor) -> Any:
        return x[index], y[index], z[index]

    wide, narrow, mask = RNG.integers(0, 100, (9, 3)), RNG.integers(0, 100, 9).astype(np.int16), RNG.random((9, 5)) < 0.5
    made, _ = native(function, wide, narrow, mask, gradients=False)
    assert without_calls(made)


def test_an_index_out_of_range_is_the_error_of_the_op() -> None:
    weight = ndgrad.tensor(normal(10, 4), requires_grad=True)
    compiled = CompiledFunction(lambda i: F.embedding(i, weight).sum(), True)
    compiled(ndgrad.tensor([1, 2, 9]))
    compiled(ndgrad.tensor([1, 2, 0])).backward()
    for wrong in (10, -1, 2**40, -(2**62)):
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(ndgrad.tensor([1, wrong, 0]))
    rows = CompiledFunction(lambda i: weight[i].sum(), True)
    rows(ndgrad.tensor([1, -10]))
    assert rows(ndgrad.tensor([0, -1])).item() == pytest.approx(weight[0].sum().item() + weight[9].sum().item())
    with pytest.raises(IndexError):
        rows(ndgrad.tensor([0, -11]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slices_of_arrays(dtype: Any) -> None:
    cases = [((5,), 0, 9), ((1, 3), 0, 4000), ((3000, 33), 0, 700), ((4, 70, 19), 1, 90), ((6, 8), 1, 300), ((2, 3, 1), 2, 5)]
    for shape, dim, count in cases:
        x, index = normal(*shape, dtype=dtype), RNG.integers(0, shape[dim], count)
        np.testing.assert_array_equal(arrays.take_slices(x, index, dim), x.take(index, dim))
        g = normal(*shape[:dim], count, *shape[dim + 1 :], dtype=dtype)
        expected = np.zeros_like(x)
        np.add.at(np.moveaxis(expected, dim, 0), index, np.moveaxis(g, dim, 0))
        np.testing.assert_array_equal(arrays.put_slices(None, g, index, shape[dim], dim), expected)
        expected = x.copy()
        np.add.at(np.moveaxis(expected, dim, 0), index, np.moveaxis(g, dim, 0))
        np.testing.assert_array_equal(arrays.put_slices(x, g, index, shape[dim], dim), expected)
        expected = x.copy()
        for k, j in enumerate(index):
            np.moveaxis(expected, dim, 0)[j] = np.moveaxis(g, dim, 0)[k]
        np.testing.assert_array_equal(arrays.put_slices(x, g, index, shape[dim], dim, False), expected)
