"""Convolutions of any kernel, stride, dilation, padding and groups, and both gradients, equal those of eager ndgrad in float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from tests.compiler.kernels.convolutions import Convolution, axes

from ndgrad._src.arrays import convolution as eager
from ndgrad._src.compiler.kernels import windows
from ndgrad._src.compiler.kernels.tiles import Tile
from ndgrad._src.compiler.native.target import processor

DTYPES = ["float32", "float64"]


@cache
def kernels(dtype: str, plain: bool = False) -> Convolution:
    return Convolution(dtype, processor("generic") if plain else None)


def problem(r: np.random.Generator, dims: int) -> tuple[Any, ...]:
    """Sizes, kernel, stride, padding and dilation whose output is not empty."""
    while True:
        x = r.integers(1, 20 if dims < 3 else 9, dims)
        kernel, stride, dilation, padding = (r.integers(low, 5, dims) for low in (1, 1, 1, 0))
        if (x + 2 * padding > dilation * (kernel - 1)).all():
            return tuple(tuple(int(n) for n in values) for values in (x, kernel, stride, padding, dilation))


def close(found: np.ndarray, expected: np.ndarray, terms: int) -> bool:
    """Equal up to the rounding of sums of `terms` products of normal numbers."""
    return bool((np.abs(found - expected) <= 8 * np.finfo(found.dtype).eps * (terms + 8)).all())


def compare(run: Convolution, r: np.random.Generator, settings: Any, n: int, groups: int, c: int, o: int, last: bool) -> None:
    """Forward, input gradient and weight gradient of one convolution; `last`: channels come last, in and out."""
    dtype, geometry = run.dtype, axes(*settings)
    x_sizes, kernel, stride, padding, dilation = settings
    x = r.standard_normal((n, groups * c, *x_sizes)).astype(dtype)
    w = r.standard_normal((groups * o, c, *kernel)).astype(dtype)
    expected = eager.conv(x.astype("d"), w.astype("d"), stride, padding, dilation, groups)
    g = r.standard_normal(expected.shape).astype(dtype)
    what = (x.shape, w.shape, stride, padding, dilation, groups)

    def there(a: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(a, 1, -1)) if last else a

    def back(a: np.ndarray) -> np.ndarray:
        return np.moveaxis(a, -1, 1) if last else a

    flags = {"in_last": last, "out_last": last}
    taps = int(np.prod(kernel))
    out = np.full_like(there(g), np.nan)
    run.correlate(windows.forward(n, groups, c, o, geometry), there(x), w, out, r, **flags)
    assert close(back(out), expected, c * taps), ("forward", what)
    dx = np.full_like(there(x), np.nan)
    run.correlate(windows.input_gradient(n, groups, c, o, geometry), there(g), w, dx, r, **flags)
    expected = eager.conv_input_grad(g.astype("d"), w.astype("d"), x.shape, stride, padding, dilation, groups)
    assert close(back(dx), expected, o * taps), ("input gradient", what)
    dw = np.full_like(w, np.nan)
    run.weight_gradient(windows.forward(n, groups, c, o, geometry), there(x), there(g), dw, r, **flags)
    expected = eager.conv_weight_grad(g.astype("d"), x.astype("d"), w.shape, stride, padding, dilation, groups)
    assert close(dw, expected, g.size // g.shape[1]), ("weight gradient", what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_random_convolutions(dtype: str, dims: int) -> None:
    r = np.random.default_rng(20 + dims)
    for _ in range(25):
        groups, c, o = int(r.choice([1, 1, 2, 3])), int(r.integers(1, 12)), int(r.integers(1, 20))
        compare(kernels(dtype), r, problem(r, dims), int(r.integers(1, 4)), groups, c, o, bool(r.integers(2)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_depthwise_convolutions(dtype: str) -> None:
    r = np.random.default_rng(29)
    for turn in range(24):
        compare(kernels(dtype), r, problem(r, 1 + turn % 3), int(r.integers(1, 4)), int(r.integers(2, 23)), 1, 1, bool(turn % 2))


def test_random_convolutions_with_plain_vectors() -> None:
    r = np.random.default_rng(24)
    for _ in range(12):
        compare(
            kernels("float32", plain=True), r, problem(r, 2), 2, int(r.choice([1, 2])), int(r.integers(1, 9)), int(r.integers(1, 14)), False
        )


@pytest.mark.parametrize("last", [False, True])
def test_many_channels_are_cut_into_blocks_and_small_images_go_together(last: bool) -> None:
    r = np.random.default_rng(25)
    square = ((3, 3), (3, 3), (1, 1), (1, 1), (1, 1))
    run = kernels("float32")
    table = run.table(windows.forward(9, 1, 600, 20, axes(*square)))
    header = dict(zip(windows.HEADER, table.words))
    assert header["channel_block"] < 600
    assert header["together"] > 1
    compare(run, r, square, 9, 1, 600, 20, last)


def test_large_images_are_cut_along_their_first_axis() -> None:
    r = np.random.default_rng(26)
    settings = ((70, 40), (3, 5), (1, 2), (1, 2), (1, 1))
    run = kernels("float32")
    assert run.table(windows.forward(1, 1, 16, 24, axes(*settings))).chunks > 2
    for stride in ((1, 2), (3, 1)):
        compare(run, r, ((70, 40), (3, 5), stride, (1, 2), (1, 1)), 1, 1, 16, 24, False)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_few_output_channels_are_the_rows_of_tiles(dtype: str, plain: bool) -> None:
    """With stride 1 along the last axis, images stay as they come: with and without zeros around them, in groups, cut
    along their first axis, the kernel turned round for the gradient of the input."""
    r, run, turned = np.random.default_rng(30), kernels(dtype, plain), 0
    cases: list[Any] = [
        (((28, 28), (5, 5), (1, 1), (2, 2), (1, 1)), 1, 1, 6),
        (((14, 13), (5, 5), (1, 1), (0, 0), (1, 1)), 1, 6, 3),
        (((150, 40), (3, 3), (2, 1), (1, 2), (1, 2)), 1, 4, 5),
        (((19,), (4,), (1,), (3,), (2,)), 3, 2, 1),
        (((6, 5, 31), (2, 3, 3), (1, 2, 1), (1, 0, 1), (2, 1, 1)), 2, 3, 7),
    ]
    for settings, groups, c, o in cases:
        table = run.table(windows.forward(3, groups, c, o, axes(*settings)))
        turned += int(dict(zip(windows.HEADER, table.words))["planes"])
        compare(run, r, settings, 3, groups, c, o, False)
    is_narrow = run.tile.type.lanes * run.dtype.itemsize <= 16
    assert turned >= (2 if is_narrow else 4)  # narrow vectors are full sooner


def test_gradient_of_the_weight_does_not_depend_on_the_order_of_chunks() -> None:
    r = np.random.default_rng(27)
    run, geometry = kernels("float32"), axes((9, 9), (3, 3), (1, 1), (1, 1), (1, 1))
    x, g = r.standard_normal((20, 5, 9, 9)).astype("f"), r.standard_normal((20, 7, 9, 9)).astype("f")
    results = []
    for _ in range(3):
        dw = np.empty((7, 5, 3, 3), "f")
        run.weight_gradient(windows.forward(20, 1, 5, 7, geometry), x, g, dw, r)
        results.append(dw.tobytes())
    assert len(set(results)) == 1


def _bias_relu(tile: Tile) -> None:
    f = tile.f
    for v in range(tile.vectors):
        added = tile.load(f.ahead(tile.context, f.mul(tile.column, 4)), v)
        for i in range(tile.rows):
            value = f.set(f"fadd {tile.type} {tile.values[i, v]}, {added}")
            tile.values[i, v] = f.call(tile.type, f"llvm.maxnum.{tile.type.suffix}", f"{tile.type} {value}", f"{tile.type} zeroinitializer")


def test_epilogue_adds_a_bias_to_finished_sums() -> None:
    r = np.random.default_rng(28)
    run = Convolution("float32", epilogue=_bias_relu)
    for groups, c, o, size in [(1, 3, 32, 12), (2, 4, 9, 7), (1, 200, 10, 4), (11, 1, 1, 9)]:
        settings = ((size, size), (3, 3), (1, 1), (1, 1), (1, 1))
        x, w = r.standard_normal((3, groups * c, size, size)).astype("f"), r.standard_normal((groups * o, c, 3, 3)).astype("f")
        bias = r.standard_normal(groups * o).astype("f")
        out = np.empty((3, groups * o, size, size), "f")
        run.correlate(windows.forward(3, groups, c, o, axes(*settings)), x, w, out, r, bias.ctypes.data, epilogue=True)
        expected = np.maximum(eager.conv(x.astype("d"), w.astype("d"), *settings[2:], groups) + bias[:, None, None], 0)
        assert close(out, expected, 9 * c)
