"""Convolution and pooling kernels give torch's values, at sizes where their different algorithms are in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import convolution, pooling

torch = pytest.importorskip("torch")

# name: input, weight, stride, padding, dilation, groups
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "first layer": ((8, 3, 32, 32), (16, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "second layer": ((8, 16, 16, 16), (32, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "small planes": ((9, 24, 8, 8), (40, 24, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "LeNet": ((8, 6, 14, 14), (16, 6, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    "strided": ((4, 16, 29, 28), (24, 16, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "uneven": ((3, 4, 19, 23), (6, 4, 3, 5), (2, 3), (2, 1), (3, 2), 1),
    "patches": ((2, 3, 32, 32), (20, 3, 8, 8), (8, 8), (0, 0), (1, 1), 1),
    "pointwise": ((4, 32, 14, 14), (48, 32, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "grouped": ((4, 16, 15, 15), (32, 4, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    "depthwise": ((4, 32, 17, 17), (32, 1, 3, 3), (2, 2), (1, 1), (1, 1), 32),
    "depthwise, two outputs": ((2, 12, 17, 17), (24, 1, 5, 3), (1, 1), (2, 1), (1, 2), 12),
    "signal": ((4, 6, 500), (8, 6, 7), (3,), (3,), (2,), 1),
    "volume": ((2, 4, 9, 10, 11), (6, 4, 3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 2), 1),
    "no samples": ((0, 3, 8, 8), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
}
FUNCTIONS = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}


def normal(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_and_both_gradients(name: str, dtype: Any) -> None:
    x_shape, w_shape, stride, padding, dilation, groups = CONVOLUTIONS[name]
    settings = (stride, padding, dilation, groups)
    x, w = normal(x_shape, dtype, 0), normal(w_shape, dtype, 1)
    x_torch, w_torch = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    out_torch = FUNCTIONS[len(stride)](x_torch, w_torch, None, *settings)
    g = normal(tuple(out_torch.shape), dtype, 2)
    out_torch.backward(torch.tensor(g))
    close = {"rtol": 1e-4, "atol": 1e-3} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    out = convolution.conv(x, w, *settings)
    np.testing.assert_allclose(out, out_torch.detach().numpy(), **close)
    # torch's gradient is the adjoint over complex numbers: what is not exchanged is conjugated.
    np.testing.assert_allclose(convolution.conv_input_grad(g, w.conj(), x_shape, *settings), x_torch.grad.numpy(), **close)
    np.testing.assert_allclose(convolution.conv_weight_grad(g, x.conj(), w_shape, *settings), w_torch.grad.numpy(), **close)


def test_input_gradient_is_the_transposed_convolution() -> None:
    x, w = normal((2, 6, 7, 5), float, 0), normal((6, 4, 4, 3), float, 1)
    expected = torch.nn.functional.conv_transpose2d(
        torch.tensor(x), torch.tensor(w), stride=(2, 3), padding=(1, 0), output_padding=(1, 2)
    ).numpy()
    out = convolution.conv_input_grad(x, w, expected.shape, (2, 3), (1, 0), (1, 1))
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-10)


def with_ties(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """As after a rectifier: many zeros."""
    return np.maximum(np.random.default_rng(0).standard_normal(shape), 0).astype(dtype)


POOLS: list[tuple[Any, ...]] = [
    ((4, 3, 32, 32), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((4, 3, 31, 33), (2, 2), (2, 2), (0, 0), (1, 1), True),
    ((2, 3, 28, 27), (3, 3), (2, 2), (1, 1), (1, 1), False),
    ((2, 3, 28, 27), (3, 3), (2, 2), (1, 1), (1, 1), True),
    ((2, 3, 12, 13), (3, 2), (1, 3), (1, 0), (2, 3), False),
    ((2, 3, 50), (5,), (3,), (2,), (2,), True),
    ((2, 3, 7, 8, 9), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 2), True),
    ((1, 1, 40, 40), (20, 20), (20, 20), (0, 0), (1, 1), False),
]
MAX_POOLS = {
    1: torch.nn.functional.max_pool1d,
    2: torch.nn.functional.max_pool2d,
    3: torch.nn.functional.max_pool3d,
}


@pytest.mark.parametrize("case", POOLS, ids=str)
@pytest.mark.parametrize("special", [None, np.nan, -np.inf])
def test_max_pool_values_places_and_gradient(case: tuple[Any, ...], special: float | None) -> None:
    shape, *settings = case
    x = with_ties(shape)
    if special is not None:
        x[np.random.default_rng(1).random(shape) < 0.3] = special
    x_torch = torch.tensor(x, requires_grad=True)
    expected, places = MAX_POOLS[len(shape) - 2](x_torch, *settings, return_indices=True)
    values, indices = pooling.max_pool(x, *settings)
    assert np.array_equal(values, expected.detach().numpy(), equal_nan=True)
    assert np.array_equal(indices, places.numpy())
    g = np.random.default_rng(2).standard_normal(values.shape).astype(np.float32)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(pooling.max_pool_grad(g, indices, shape), x_torch.grad.numpy(), rtol=1e-5, atol=1e-5)


AVG_POOLS = {
    1: torch.nn.functional.avg_pool1d,
    2: torch.nn.functional.avg_pool2d,
    3: torch.nn.functional.avg_pool3d,
}


@pytest.mark.parametrize("case", [case for case in POOLS if set(case[4]) == {1}], ids=str)
@pytest.mark.parametrize("include_pad", [True, False])
@pytest.mark.parametrize("divisor", [None, 5])
def test_avg_pool_values_and_gradient(case: tuple[Any, ...], include_pad: bool, divisor: int | None) -> None:
    shape, kernel, stride, padding, _, ceil_mode = case
    x = np.random.default_rng(0).standard_normal(shape)
    x_torch = torch.tensor(x, requires_grad=True)
    expected = AVG_POOLS[len(shape) - 2](
        x_torch, kernel, stride, padding, ceil_mode, include_pad, **({} if len(shape) == 3 else {"divisor_override": divisor})
    )
    how = (kernel, stride, padding, ceil_mode, include_pad, divisor)
    np.testing.assert_allclose(pooling.avg_pool(x, *how), expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    g = np.random.default_rng(1).standard_normal(tuple(expected.shape))
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(pooling.avg_pool_grad(g, shape, *how), x_torch.grad.numpy(), rtol=1e-12, atol=1e-12)


ADAPTIVE = [((2, 3, 10, 7), (4, 3)), ((2, 3, 8, 8), (4, 2)), ((2, 3, 3, 5), (5, 7)), ((2, 3, 11), (4,)), ((2, 3, 5, 6, 7), (2, 6, 3))]


@pytest.mark.parametrize(("shape", "sizes"), ADAPTIVE, ids=str)
def test_adaptive_pools_and_their_gradients(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    x = with_ties(shape, np.float64)
    x[0, 0].flat[:4] = np.nan
    average = getattr(torch.nn.functional, f"adaptive_avg_pool{len(sizes)}d")
    maximum = getattr(torch.nn.functional, f"adaptive_max_pool{len(sizes)}d")
    x_torch = torch.tensor(x, requires_grad=True)
    expected = average(x_torch, sizes)
    ours = ndgrad.tensor(x, requires_grad=True)
    found = getattr(ndgrad.nn.functional, f"adaptive_avg_pool{len(sizes)}d")(ours, sizes)
    np.testing.assert_allclose(found.detach(), expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    g = np.random.default_rng(1).standard_normal(tuple(expected.shape))
    expected.backward(torch.tensor(g))
    found.backward(ndgrad.tensor(g))
    np.testing.assert_allclose(ours.grad, x_torch.grad.numpy(), rtol=1e-12, atol=1e-12)
    x_torch.grad = None
    expected, places = maximum(x_torch, sizes, return_indices=True)
    values, indices = pooling.adaptive_max_pool(x, sizes)
    assert np.array_equal(values, expected.detach().numpy(), equal_nan=True)
    assert np.array_equal(indices, places.numpy())
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(pooling.max_pool_grad(g, indices, shape), x_torch.grad.numpy(), rtol=1e-12, atol=1e-12)
