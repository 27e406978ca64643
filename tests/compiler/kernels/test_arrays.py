"""The kernels on NumPy arrays, on the threads of the pool."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from tests.compiler.kernels.convolutions import axes

from ndgrad._src.arrays import convolution as eager
from ndgrad._src.arrays import pooling as eager_pooling
from ndgrad._src.arrays import threads
from ndgrad._src.compiler.kernels import arrays
from ndgrad._src.compiler.kernels.pooling import average_counts


@pytest.fixture(params=[1, 3])
def thread_count(request: pytest.FixtureRequest):
    before = threads.max_threads
    threads.set_max_threads(request.param)
    yield request.param
    threads.set_max_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernels_pass_their_own_check_on_this_machine(dtype: type) -> None:
    assert arrays.available(np.dtype(dtype))
    assert not arrays.available(np.dtype(np.int64))
    assert not arrays.available(np.dtype(dtype).newbyteorder())


def test_products_and_batches_on_threads(thread_count: int) -> None:
    r = np.random.default_rng(40)
    for left, right in [((300, 200), (200, 400)), ((4, 1, 60, 70), (3, 70, 50)), ((0, 5), (5, 3)), ((2, 0), (0, 3)), ((0, 3, 4), (4, 5))]:
        a, b = r.standard_normal(left).astype("f"), r.standard_normal(right).astype("f")
        np.testing.assert_allclose(arrays.matmul(a, b), a.astype("d") @ b, rtol=1e-4, atol=1e-4)
    out = np.ones((300, 400), "f")
    a, b = r.standard_normal((300, 30)).astype("f"), r.standard_normal((30, 400)).astype("f")
    assert arrays.matmul(a, b, out, accumulate=True) is out
    np.testing.assert_allclose(out, 1 + a.astype("d") @ b, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="inner sizes"):
        arrays.matmul(a, a)


def test_convolution_and_gradients_on_threads(thread_count: int) -> None:
    r = np.random.default_rng(41)
    x, w = r.standard_normal((6, 8, 20, 20)), r.standard_normal((12, 4, 3, 3))
    settings = ((2, 1), (1, 1), (1, 2), 2)
    expected = eager.conv(x, w, *settings)
    g = r.standard_normal(expected.shape)
    np.testing.assert_allclose(arrays.conv(x, w, *settings), expected, atol=1e-12)
    np.testing.assert_allclose(
        arrays.conv_input_grad(g, w, x.shape, *settings), eager.conv_input_grad(g, w, x.shape, *settings), atol=1e-12
    )
    np.testing.assert_allclose(
        arrays.conv_weight_grad(g, x, w.shape, *settings), eager.conv_weight_grad(g, x, w.shape, *settings), atol=1e-11
    )


@pytest.mark.parametrize(("x", "w"), [((0, 2, 5), (3, 2, 3)), ((2, 0, 5), (3, 0, 3)), ((2, 2, 5), (0, 2, 3))])
def test_convolutions_of_nothing_are_zeros_or_empty(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    settings = ((1,), (0,), (1,))
    a, b = np.ones(x), np.ones(w)
    out = arrays.conv(a, b, *settings)
    np.testing.assert_array_equal(out, eager.conv(a, b, *settings))
    np.testing.assert_array_equal(arrays.conv_input_grad(out, b, x, *settings), eager.conv_input_grad(out, b, x, *settings))
    np.testing.assert_array_equal(arrays.conv_weight_grad(out, a, w, *settings), eager.conv_weight_grad(out, a, w, *settings))


def test_pooling_on_threads(thread_count: int) -> None:
    r = np.random.default_rng(42)
    x, (kernel, stride, padding, dilation) = r.standard_normal((3, 4, 17, 19)), ((3, 2), (2, 1), (1, 1), (1, 1))
    windows = axes(x.shape[2:], kernel, stride, padding, dilation)
    expected, places = eager_pooling.max_pool(x, kernel, stride, padding, dilation)
    found = arrays.max_pool(x, windows)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], places)
    g = r.standard_normal(expected.shape)
    np.testing.assert_allclose(arrays.max_pool_grad(g, places, windows), eager_pooling.max_pool_grad(g, places, x.shape))
    counts = average_counts([w.counts for w in eager_pooling._regular_windows(x.shape, kernel, stride, padding, dilation, False)])
    np.testing.assert_allclose(arrays.avg_pool(x, windows, counts), eager_pooling.avg_pool(x, kernel, stride, padding))
    expected = eager_pooling.avg_pool_grad(g, x.shape, kernel, stride, padding)
    np.testing.assert_allclose(arrays.avg_pool_grad(g, windows, counts), expected, atol=1e-14)
