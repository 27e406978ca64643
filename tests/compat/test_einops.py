"""einops' own functions on tensors of both tensor classes, after `import ndgrad.compat.einops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp

einops = pytest.importorskip("einops")
pytest.importorskip("einops.array_api")
pytest.importorskip("ndgrad.compat.einops")

X = np.arange(24.0).reshape(2, 3, 4)

CALLS: dict[str, Callable[[Any], Any]] = {
    "rearrange": lambda x: einops.rearrange(x, "a b c -> c (b a)"),
    "rearrange a list": lambda x: einops.rearrange([x, x * 2], "n a b c -> a (n b) c"),
    **{
        f"reduce by {how}": lambda x, how=how: einops.reduce(x, "a (b1 b2) c -> b1 a", how, b2=3)
        for how in ("sum", "mean", "max", "min", "prod")
    },
    "repeat": lambda x: einops.repeat(x, "a b c -> b (a r) c d", r=2, d=3),
    "einsum": lambda x: einops.einsum(x, x, "a b c, a d c -> b d"),
    "pack": lambda x: einops.pack([x, x[:, :, 0]], "a b *")[0],
    "unpack": lambda x: einops.unpack(x, [(1,), (3,)], "a b *")[1],
}  # fmt: skip
STANDARD: dict[str, Callable[[Any], Any]] = {
    "rearrange": lambda x: einops.array_api.rearrange(x, "a b c -> c (b a)"),
    "reduce": lambda x: einops.array_api.reduce(x, "a b c -> b", "mean"),
    "repeat": lambda x: einops.array_api.repeat(x, "a b c -> a b c d", d=2),
}


def check_against_numpy(run: Callable[[Any], Any], x: Any) -> Any:
    expected = run(X)
    weights = np.random.default_rng(0).standard_normal(expected.shape)
    made = run(x)
    np.testing.assert_allclose(made.detach().numpy(), expected)
    (made * weights).sum().backward()
    direction, h = np.random.default_rng(1).standard_normal(X.shape), 1e-6
    numeric = ((run(X + h * direction) - run(X - h * direction)) * weights).sum() / (2 * h)
    np.testing.assert_allclose((x.grad.numpy() * direction).sum(), numeric, rtol=1e-6)
    return made


@pytest.mark.parametrize("name", CALLS)
def test_function_keeps_the_class_and_the_gradient(name: str) -> None:
    assert type(check_against_numpy(CALLS[name], dnp.array(X).requires_grad_())) is dnp.Array
    assert type(check_against_numpy(CALLS[name], ndgrad.tensor(X, requires_grad=True))) is ndgrad.Tensor


@pytest.mark.parametrize("name", STANDARD)
def test_function_of_the_array_api_standard(name: str) -> None:
    check_against_numpy(STANDARD[name], dnp.array(X).requires_grad_())


def test_lists_and_products_of_constants_are_tensors() -> None:
    x = ndgrad.tensor(X)
    for name in ("rearrange a list", "einsum", "pack"):
        made = CALLS[name](x)
        assert type(made) is ndgrad.Tensor
        np.testing.assert_allclose(made.numpy(), CALLS[name](X))
