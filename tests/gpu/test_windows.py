"""Convolution and pooling on a GPU beside the CPU, in every floating dtype."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from tests.gpu.comparison import DTYPES, compare, draw

cupy = pytest.importorskip("cupy")

CONVOLUTIONS = {
    "one dimension": (F.conv1d, (2, 6, 31), (4, 6, 5), {"padding": 2}),
    "strides": (F.conv2d, (3, 4, 13, 11), (6, 4, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilation and groups": (F.conv2d, (2, 6, 15, 14), (9, 2, 3, 3), {"dilation": (2, 3), "groups": 3, "padding": 2}),
    "depthwise": (F.conv2d, (2, 5, 9, 9), (5, 1, 3, 3), {"groups": 5, "padding": 1}),
    "three dimensions": (F.conv3d, (2, 3, 6, 7, 8), (4, 3, 2, 3, 2), {"stride": (1, 2, 1)}),
    "transposed": (F.conv_transpose2d, (2, 4, 6, 5), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
}


@pytest.fixture(params=[True, False], ids=["cudnn", "own"])
def by_cudnn(request):
    with ndgrad.backends.cudnn.flags(enabled=request.param, allow_tf32=False):
        yield request.param


@DTYPES
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name, dtype, by_cudnn):
    function, x, w, how = CONVOLUTIONS[name]
    bias = w[0] if name != "transposed" else w[1]
    compare(lambda x, w, b: function(x, w, b, **how), [draw(*x), draw(*w), draw(bias)], dtype)


def test_many_samples_go_through_in_parts(monkeypatch):
    windows = pytest.importorskip("ndgrad._src.compiler.cuda.windows")
    monkeypatch.setattr(windows, "_WORKSPACE", 1 << 14)
    with ndgrad.backends.cudnn.flags(enabled=False):
        compare(lambda x, w: F.conv2d(x, w, padding=1), [draw(9, 3, 12, 12), draw(4, 3, 3, 3)], ndgrad.float32)


def test_tensor_cores_round_only_if_they_may():
    if not ndgrad.backends.cudnn.is_available():
        pytest.skip("cuDNN's front end is not installed")
    x, w = ndgrad.tensor(draw(8, 64, 32, 32)), ndgrad.tensor(draw(64, 64, 3, 3))
    exact = F.conv2d(x, w)
    errors = []
    for allowed in (True, False):
        with ndgrad.backends.cudnn.flags(enabled=True, allow_tf32=allowed):
            made = F.conv2d(x.to("cuda", ndgrad.float32), w.to("cuda", ndgrad.float32))
        errors.append(float((made.cpu().double() - exact).abs().max() / exact.abs().max()))
    assert errors[1] < 3e-6 < 3e-5 < errors[0] < 1e-2


@DTYPES
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True),
        lambda x: F.max_pool2d(x, 2, 1, dilation=2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, (3, 2), (2, 1), padding=(1, 0), count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    ],
    ids=["max", "max with padding", "max with dilation", "average", "average with padding", "adaptive average", "adaptive max"],
)
def test_pooling(function, dtype):
    compare(function, [np.random.default_rng(0).permutation(2 * 3 * 11 * 12).reshape(2, 3, 11, 12) / 97], dtype)


def test_a_nan_is_the_largest():
    x = np.array([[[[1.0, np.nan, 3.0, 4.0], [np.nan, 2.0, 5.0, 1.0]]]])
    values, places = F.max_pool2d(ndgrad.tensor(x, device="cuda"), 2, return_indices=True)
    assert np.isnan(values.cpu().numpy()[0, 0, 0, 0])
    assert places.tolist() == [[[[4, 6]]]]
