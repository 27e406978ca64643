"""Integrals of functions against closed forms, derivatives in limits and parameters to second order."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as nnp
from ndgrad import func, implicit
from ndgrad._src.core.modes import process, thread

pytest.importorskip("scipy")


def tensor(values, **options):
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def close(have, want, tolerance=1e-8):
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=tolerance, atol=tolerance)


def area(a, b, k):
    return implicit.quad(lambda x: x * ndgrad.exp(-k * x), a, b)[0]


def exact(a, b, k):
    """The same, written out with tensors."""
    return (ndgrad.exp(-k * a) * (k * a + 1) - ndgrad.exp(-k * b) * (k * b + 1)) / k**2


P = tensor([0.5, 1.5, 2.0])


@pytest.mark.slow
def test_all_derivatives_equal_those_of_the_closed_form():
    have, want = (lambda p, f=f: f(p[0], p[1], p[2]) for f in (area, exact))
    close(have(P), want(P).item())
    for transform in (
        func.grad, func.jacfwd, func.hessian, lambda f: func.jacrev(func.jacrev(f)), lambda f: func.jacrev(func.jacfwd(f)),
        lambda f: func.jacfwd(func.jacfwd(f)), lambda f: func.jacrev(func.hessian(f)),
    ):  # fmt: skip
        close(transform(have)(P), transform(want)(P).numpy(), 1e-7)


def test_leaves_arguments_and_infinite_limits():
    k = tensor(2.0, requires_grad=True)
    value, error = implicit.quad(lambda x, k: ndgrad.exp(-k * x * x), -np.inf, np.inf, (k,))
    close(value, np.sqrt(np.pi / 2))
    assert 0 <= error < 1e-6
    value.backward()
    close(k.grad, -0.5 * np.sqrt(np.pi) * 2**-1.5)


def test_structures_are_integrated_together():
    k = nnp.array([1.0, 2.0]).requires_grad_()
    value, _ = implicit.quad(lambda x: {"power": x**k, "wave": (nnp.array([0.0]) + x,)}, 0.0, 1.0)
    assert type(value["power"]) is nnp.Array
    close(value["power"], [1 / 2, 1 / 3])
    close(value["wave"][0], [0.5])
    value["power"].sum().backward()
    np.testing.assert_allclose(k.grad.numpy(), [-1 / 4, -1 / 9], rtol=1e-6)


def test_vmap():
    k = tensor([1.0, 2.0])
    close(func.vmap(lambda k: area(0.5, 1.5, k))(k), exact(tensor(0.5), tensor(1.5), k).numpy())
    close(
        func.vmap(func.grad(lambda k: area(0.5, 1.5, k)))(k),
        func.vmap(func.grad(lambda k: exact(tensor(0.5), tensor(1.5), k)))(k).numpy(),
    )


def test_kinks_and_swapped_limits():
    c = tensor(0.3, requires_grad=True)
    value, _ = implicit.quad(lambda x: abs(x - c), 1.0, 0.0, points=[0.3])
    close(value, -(0.3**2 + 0.7**2) / 2)
    value.backward()
    close(c.grad, -(0.3 - 0.7), 1e-6)


def test_errors():
    before = len(process.busy)
    with np.errstate(all="ignore"), pytest.raises(implicit.ConvergenceError, match="did not converge"):
        implicit.quad(lambda x: 1.0 / x, 0.0, 1.0, limit=20)
    with pytest.raises(ValueError, match="one real number"):
        implicit.quad(lambda x: x, tensor([0.0, 1.0]), 1.0)
    with pytest.raises(ValueError, match="batched by vmap"):
        func.vmap(lambda b: implicit.quad(lambda x: x, 0.0, b)[0])(tensor([1.0, 2.0]))
    top = tensor(float("inf"), requires_grad=True)
    value, _ = implicit.quad(lambda x: ndgrad.exp(-x), 0.0, top)
    with pytest.raises(ValueError, match="infinite limit"):
        value.backward()
    with pytest.raises(TypeError, match="no tensor"):
        implicit.quad(lambda x: 1.0, 0.0, 1.0)
    assert len(process.busy) == before
    assert thread.captures is None
