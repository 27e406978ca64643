"""Max and average pooling with their gradients equal eager ndgrad's: values, places, NaN, infinities, ceil mode, padding, dilation."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from ndgrad._src.arrays import pooling as eager
from ndgrad._src.compiler.kernels import pooling, windows
from ndgrad._src.compiler.native.ir import module
from ndgrad._src.compiler.native.target import Code, host, processor

POINTER, SIZE = ctypes.c_void_p, ctypes.c_int64


@cache
def library(dtype: str, plain: bool = False) -> Code:
    target = processor("generic") if plain else host()
    return Code(module(pooling.library("pool", {"float32": "float", "float64": "double"}[dtype], target)), target, level=0)


def run(code: Code, name: str, planes: int, *arrays: np.ndarray) -> None:
    """Planes in two ranges."""
    function = code.function(f"pool_{name}", None, *[POINTER] * len(arrays), SIZE, SIZE)
    for begin, end in ((0, planes // 2), (planes // 2, planes)):
        function(*(a.ctypes.data for a in arrays), begin, end)


def problem(r: np.random.Generator, dims: int, dilated: bool) -> tuple[Any, ...]:
    while True:
        x, kernel, stride = r.integers(1, 25 if dims < 3 else 8, dims), r.integers(1, 5, dims), r.integers(1, 5, dims)
        dilation = r.integers(1, 4, dims) if dilated else np.ones(dims, int)
        padding = np.array([r.integers(0, (d * (k - 1) + 1) // 2 + 1) for k, d in zip(kernel, dilation)])
        if (x + 2 * padding > dilation * (kernel - 1)).all():
            return tuple(tuple(int(n) for n in values) for values in (x, kernel, stride, padding, dilation))


def axes_of(found: list[eager.Windows], settings: Any) -> list[windows.Axis]:
    sizes, kernel, stride, padding, dilation = settings
    return [windows.Axis(n, k, s, d, p, w.out) for n, k, s, p, d, w in zip(sizes, kernel, stride, padding, dilation, found)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("plain", [False, True])
def test_max_pooling_and_its_gradient(dtype: str, plain: bool) -> None:
    r = np.random.default_rng(31)
    code, tested = library(dtype, plain), 0
    for turn in range(60):
        settings, ceil_mode = problem(r, 1 + turn % 3, True), bool(r.integers(2))
        sizes, *rest = settings
        x = r.integers(-3, 4, (2, 3, *sizes)).astype(dtype)  # many equal maxima
        x[r.random(x.shape) < 0.05] = np.nan
        x[r.random(x.shape) < 0.2] = -np.inf
        try:
            values, places = eager.max_pool(x, *rest, ceil_mode)
        except ValueError:  # a window of nothing but padding
            continue
        found = eager._regular_windows(x.shape, *rest, ceil_mode)
        table = pooling.pooling_table(axes_of(found, settings))
        y, i = np.empty_like(values), np.empty_like(places)
        run(code, "max", 6, table, x, y, i)
        np.testing.assert_array_equal(y, values, err_msg=str((settings, ceil_mode)))
        np.testing.assert_array_equal(i, places, err_msg=str((settings, ceil_mode)))
        g, dx = r.standard_normal(values.shape).astype(dtype), np.full_like(x, np.nan)
        run(code, "max_gradient", 6, table, g, i, dx)
        np.testing.assert_allclose(dx, eager.max_pool_grad(g, places, x.shape), rtol=1e-5, atol=1e-6)
        tested += 1
    assert tested > 40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_average_pooling_and_its_gradient(dtype: str) -> None:
    r = np.random.default_rng(32)
    code = library(dtype)
    for turn in range(60):
        settings = problem(r, 1 + turn % 3, False)
        ceil_mode, include, override = bool(r.integers(2)), bool(r.integers(2)), [None, 7][turn % 5 == 0]
        sizes, kernel, stride, padding, dilation = settings
        x = r.standard_normal((2, 3, *sizes)).astype(dtype)
        try:
            expected = eager.avg_pool(x, kernel, stride, padding, ceil_mode, include, override)
        except ValueError:
            continue
        found = eager._regular_windows(x.shape, kernel, stride, padding, dilation, ceil_mode, include)
        axes = windows.three(axes_of(found, settings))
        table = pooling.pooling_table(axes_of(found, settings))
        counts = pooling.average_counts([w.counts for w in found], override)
        assert len(counts) == sum(a.out for a in axes)
        y = np.empty_like(expected)
        run(code, "average", 6, table, counts, x, y)
        np.testing.assert_allclose(y, expected, rtol=2e-5 if dtype == "float32" else 1e-13, atol=1e-6 if dtype == "float32" else 1e-14)
        g, dx = r.standard_normal(y.shape).astype(dtype), np.full_like(x, np.nan)
        run(code, "average_gradient", 6, table, counts, g, dx)
        expected = eager.avg_pool_grad(g, x.shape, kernel, stride, padding, ceil_mode, include, override)
        np.testing.assert_allclose(dx, expected, rtol=2e-5 if dtype == "float32" else 1e-13, atol=1e-6 if dtype == "float32" else 1e-14)


def last(a: np.ndarray) -> np.ndarray:
    """Channels last, in that order in memory."""
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("plain", [False, True])
def test_pooling_with_channels_last(dtype: str, plain: bool) -> None:
    r = np.random.default_rng(33)
    code, tested, apart = library(dtype, plain), 0, 0
    for turn in range(60):
        channels = int(r.integers(1, 20))
        settings, ceil_mode, include = problem(r, 1 + turn % 3, turn % 2 == 0), bool(r.integers(2)), bool(r.integers(2))
        sizes, kernel, stride, padding, dilation = settings
        x = r.integers(-3, 4, (2, channels, *sizes)).astype(dtype)
        x[r.random(x.shape) < 0.05] = np.nan
        try:
            values, places = eager.max_pool(x, kernel, stride, padding, dilation, ceil_mode)
        except ValueError:
            continue
        found = eager._regular_windows(x.shape, kernel, stride, padding, dilation, ceil_mode, include)
        axes = axes_of(found, settings)
        table = pooling.pooling_table(axes, channels)
        rows = 2 * windows.three(axes)[0].out
        y, i = np.empty_like(last(values)), np.empty_like(last(places))
        run(code, "max_last", rows, table, last(x), y, i)
        np.testing.assert_array_equal(y, last(values), err_msg=str(settings))
        np.testing.assert_array_equal(i, last(places), err_msg=str(settings))
        g, dx = r.standard_normal(values.shape).astype(dtype), np.full_like(last(x), np.nan)
        expected = last(eager.max_pool_grad(g, places, x.shape))
        run(code, "max_gradient_last", 2, table, last(g), i, dx)
        np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=1e-6)
        if all(s > d * (k - 1) for s, k, d in zip(stride, kernel, dilation)):
            apart += 1
            dx = np.full_like(dx, np.nan)
            run(code, "max_windows_last", 2, table, last(g), i, dx)
            np.testing.assert_array_equal(dx, expected)
        tested += 1
        if turn % 2 == 0:
            continue
        x = np.nan_to_num(x)
        counts = pooling.average_counts([w.counts for w in found])
        run(code, "average_last", rows, table, counts, last(x), y)
        expected = eager.avg_pool(x, kernel, stride, padding, ceil_mode, include, None)
        np.testing.assert_allclose(y, last(expected), rtol=1e-5, atol=1e-6)
        run(code, "average_gradient_last", 2, table, counts, last(g), dx)
        expected = eager.avg_pool_grad(g, x.shape, kernel, stride, padding, ceil_mode, include, None)
        np.testing.assert_allclose(dx, last(expected), rtol=1e-5, atol=1e-6)
    assert tested > 40
    assert apart > 5
