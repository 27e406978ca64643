"""Derivatives of products with factors that are zero, infinite or NaN, or whose product leaves the range: equal in
every mode.

The oracle omits each factor in turn and multiplies the rest, which is the derivative by definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad

inf, nan = np.inf, np.nan

FACTORS = {
    "a NaN": [2.0, nan, 3.0],
    "a NaN and a zero": [2.0, 0.0, nan],
    "a NaN and two zeros": [0.0, nan, 0.0],
    "two NaNs": [nan, 2.0, nan],
    "an infinity": [2.0, inf, 3.0],
    "an infinity and a zero": [-inf, 2.0, 0.0],
    "an infinity and a NaN": [inf, nan, 2.0],
    "overflow": [1e200, 2.0, 1e200],
    "overflow and a zero": [1e200, 0.0, 1e200],
    "underflow": [1e-200, 2.0, 1e-200],
    "too small for all digits": [1.1e-160, 3.0, 1.3e-163],
    "one factor": [nan],
    "ordinary numbers": [2.0, -3.0, 0.5],
}

MODES: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "backward": lambda f, x: _backward(f, x, False),
    "create_graph": lambda f, x: _backward(f, x, True),
    "func.grad": lambda f, x: ndgrad.func.grad(f)(ndgrad.tensor(x)),
    "vmap": lambda f, x: ndgrad.func.vmap(ndgrad.func.grad(f))(ndgrad.tensor(x[None]))[0],
    "grad of grad's primal": lambda f, x: ndgrad.func.vjp(ndgrad.func.grad(f), ndgrad.tensor(x))[0],
}


def _backward(f: Any, x: np.ndarray, create_graph: bool) -> Any:
    leaf = ndgrad.tensor(x, requires_grad=True)
    return ndgrad.autograd.grad(f(leaf), leaf, create_graph=create_graph)[0].detach()


def _others(x: np.ndarray) -> np.ndarray:
    return np.array([np.prod(np.delete(x, k)) for k in range(len(x))], x.dtype)


def _running_others(x: np.ndarray) -> np.ndarray:
    """Return the gradient of the sum of the running products: the factors before, times the sum of the running products
    behind.
    """
    return np.array([np.prod(x[:k]) * (1.0 + np.cumprod(x[k + 1 :]).sum()) for k in range(len(x))])


def _scatter_prod(x: Any) -> Any:
    start = ndgrad.ones(1, dtype=x.dtype)
    return start.scatter_reduce(0, ndgrad.zeros(len(x), dtype=ndgrad.int64), x, "prod", include_self=False).sum()


PRODUCTS = {
    "prod": (lambda x: x.prod(), _others),
    "prod(0)": (lambda x: x.prod(0), _others),
    "scatter_reduce": (_scatter_prod, _others),
    "cumprod": (lambda x: x.cumprod(0).sum(), _running_others),
    "the last of cumprod": (lambda x: x.cumprod(0)[-1], _others),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("factors", FACTORS)
def test_the_gradient_is_the_product_of_the_others_in_every_mode(factors: str, product: str, mode: str) -> None:
    f, oracle = PRODUCTS[product]
    x = np.array(FACTORS[factors])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(MODES[mode](f, x).numpy(), oracle(x), rtol=1e-12)


@pytest.mark.parametrize("product", PRODUCTS)
def test_single_precision_and_complex_numbers_take_the_same_ways(product: str) -> None:
    f, oracle = PRODUCTS[product]
    with np.errstate(all="ignore"):
        single = np.array([1e30, 2.0, 1e30], np.float32)
        for mode in MODES:
            found = MODES[mode](f, single).numpy()
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, oracle(single), rtol=1e-6)
        for z in (np.array([1 + 2j, 3 - 1j, 0.5j]), np.array([1 + 2j, 0j, 2 - 1j]), np.array([1e200j, 2 + 1j, 1e-300 + 0j])):
            for mode in ("backward", "create_graph"):
                np.testing.assert_allclose(MODES[mode](lambda z: f(z).real, z).numpy(), oracle(z).conj(), rtol=1e-12)


def test_a_gradient_that_would_overflow_on_the_way() -> None:
    x = np.array([1e150, 1e-100, 1e100])
    with np.errstate(all="ignore"):
        for mode in MODES:
            np.testing.assert_allclose(MODES[mode](lambda x: x.prod() * 1e200, x).numpy()[:2], [1e200, inf], rtol=1e-12)


def test_one_row_with_a_nan_leaves_the_other_rows_as_they_are() -> None:
    x = np.array([[2.0, 3.0, 4.0], [2.0, nan, 4.0]])
    for mode in MODES:
        np.testing.assert_array_equal(MODES[mode](lambda x: x.prod(1).sum(), x).numpy(), [[12.0, 8.0, 6.0], [nan, 8.0, nan]])


def test_running_products_that_overflow_behind_the_ones_that_count() -> None:
    """The recurrence is h[k] = a[k] h[k-1], so it never multiplies later factors by values that they do not meet."""
    x = np.array([2.0, 3.0, 1e200, 1e200, 1e200, 1e200])
    with np.errstate(all="ignore"):
        for mode in MODES:
            np.testing.assert_allclose(MODES[mode](lambda x: x.cumprod(0)[1], x).numpy()[:2], [3.0, 2.0])
