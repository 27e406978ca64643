"""Oracle of nested tensors: their components, computed one by one as dense tensors with a batch of one."""

from __future__ import annotations

from typing import Any

import numpy as np

import ndgrad

LENGTHS = (2, 4, 1, 2)


def arrays(*tail: int, lengths: tuple[int, ...] = LENGTHS, low: float = 0.2, high: float = 0.9) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.uniform(low, high, size=(n, *tail)) for n in lengths]


def nested(parts: Any, requires_grad: bool = False) -> Any:
    return ndgrad.nested.nested_tensor(parts, layout=ndgrad.jagged, requires_grad=requires_grad)


def batch_of_one(part: Any) -> Any:
    return part[None]


def agree(found: Any, expected: list[Any], tolerance: float = 1e-12) -> None:
    """A result for all components is what each comes to; `expected` are results of batches of one."""
    if isinstance(found, tuple):
        for number, part in enumerate(found):
            agree(part, [e[number] for e in expected], tolerance)
        return
    parts = found.unbind()
    assert len(parts) == len(expected)
    for part, e in zip(parts, expected, strict=True):
        assert tuple(part.shape) == tuple(e.shape[1:])
        assert part.dtype == e.dtype
        np.testing.assert_allclose(part.detach().numpy(), e[0].detach().numpy(), rtol=tolerance, atol=tolerance)


def check(f: Any, *parts: list[np.ndarray], dense: Any = (), tolerance: float = 1e-10) -> None:
    """f of nested tensors (and of dense ones after them) is f of each component: values, and gradients of a weighted sum."""
    wholes = [nested(p, True) for p in parts]
    shared = [ndgrad.tensor(d, requires_grad=True) for d in dense]
    found = f(*wholes, *shared)
    pieces = [[ndgrad.tensor(a, requires_grad=True) for a in p] for p in parts]
    others = [ndgrad.tensor(d, requires_grad=True) for d in dense]
    expected = [f(*map(batch_of_one, row), *others) for row in zip(*pieces, strict=True)]
    agree(found, expected, tolerance)
    total = ndgrad.tensor(0.0, dtype=ndgrad.float64)
    for e in expected:
        total = total + (e * e).sin().sum()
    total.backward()
    (found * found).sin().sum().backward()
    for whole, piece in zip(wholes, pieces, strict=True):
        assert whole.grad.is_nested
        assert whole.grad.shape == whole.shape
        for g, p in zip(whole.grad.unbind(), piece, strict=True):
            np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=tolerance, atol=tolerance)
    for d, o in zip(shared, others, strict=True):
        np.testing.assert_allclose(d.grad.numpy(), o.grad.numpy(), rtol=tolerance, atol=tolerance)
