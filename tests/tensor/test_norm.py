"""Vector and matrix norms, renorm and dist."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndgrad
from ndgrad._src.tensor.functions.norm import linalg_norm, matrix_norm, vector_norm

inf = math.inf
A = np.random.default_rng(6).standard_normal((3, 4))
STACK = np.random.default_rng(7).standard_normal((2, 3, 4))


def value(t):
    return np.asarray(t.detach().numpy())


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, -2, inf, -inf])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_vector_norms_agree_with_numpy(ord, dim):
    np.testing.assert_allclose(value(vector_norm(ndgrad.tensor(A), ord, dim)), np.linalg.norm(A, ord, axis=dim))


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, inf, -inf])
@pytest.mark.parametrize("keepdim", [False, True])
def test_matrix_norms_agree_with_numpy(ord, keepdim):
    for dims in ((-2, -1), (0, 2), (1, 0)):
        got = matrix_norm(ndgrad.tensor(STACK), ord, dims, keepdim)
        np.testing.assert_allclose(value(got), np.linalg.norm(STACK, ord, axis=dims, keepdims=keepdim))


@pytest.mark.parametrize("ord", [1, 2, 3, 1.5, inf, -inf])
def test_gradient_at_zero_is_zero_and_finite_to_second_order(ord):
    x = ndgrad.tensor([0.0, 0.0], requires_grad=True)
    (g,) = ndgrad.autograd.grad(vector_norm(x, ord), x, create_graph=True)
    assert value(g).tolist() == [0, 0]
    (h,) = ndgrad.autograd.grad(g.sum(), x, allow_unused=True, materialize_grads=True)
    assert np.isfinite(value(h)).all()


def test_gradient_of_a_high_order_does_not_overflow():
    x = ndgrad.tensor([1e3, 2e3], requires_grad=True)
    vector_norm(x, 80).backward()
    np.testing.assert_allclose(value(x.grad), [0.5**79, 1.0], rtol=1e-9)


def test_infinity_norm_shares_among_the_largest():
    x = ndgrad.tensor([2.0, -2.0, 1.0], requires_grad=True)
    x.norm(inf).backward()
    assert value(x.grad).tolist() == [0.5, -0.5, 0]


def test_order_zero_counts_and_has_no_graph():
    y = vector_norm(ndgrad.tensor([0.0, 3.0], requires_grad=True), 0)
    assert value(y) == 1
    assert not y.requires_grad


def test_torch_norm_reads_numbers_as_vector_orders_and_linalg_norm_as_matrix_orders():
    x = ndgrad.tensor(A)
    assert value(x.norm(1, dim=(0, 1))) == pytest.approx(np.abs(A).sum())
    assert value(linalg_norm(x, 1)) == pytest.approx(np.abs(A).sum(0).max())
    assert value(x.norm("nuc")) == pytest.approx(np.linalg.norm(A, "nuc"))


def test_dist_broadcasts():
    assert value(ndgrad.dist(ndgrad.tensor(A), ndgrad.tensor(A[0]), 1)) == pytest.approx(np.abs(A - A[0]).sum())


def test_renorm_shrinks_long_slices_only():
    got = value(ndgrad.renorm(ndgrad.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0))
    np.testing.assert_allclose(got, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_renorm_in_place_has_the_gradient_of_renorm():
    x, y = (ndgrad.tensor(A, requires_grad=True) for _ in range(2))
    z = x * 1.0
    assert z.renorm_(2, 0, 1.0) is z
    (z * z * z).sum().backward()
    w = (y * 1.0).renorm(2, 0, 1.0)
    (w * w * w).sum().backward()
    np.testing.assert_allclose(value(x.grad), value(y.grad))


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: vector_norm(x, "fro"), TypeError, "must be a number"),
        (lambda x: vector_norm(x[:0], inf), RuntimeError, "empty tensor"),
        (lambda x: matrix_norm(x[0]), RuntimeError, "at least 2 dimensions.*vector_norm"),
        (lambda x: matrix_norm(x, 3), RuntimeError, "Order 3 not supported.*fro, nuc"),
        (lambda x: matrix_norm(x, dim=(0, -2)), RuntimeError, "must be different"),
        (lambda x: matrix_norm(x, dim=0), RuntimeError, "2-tuple"),
        (lambda x: x.norm(dtype=ndgrad.float32), RuntimeError, "without narrowing"),
        (lambda x: ndgrad.renorm(x, -1, 0, 1.0), RuntimeError, "p is -1"),
        (lambda x: linalg_norm(x[None], 2), RuntimeError, "1D or 2D"),
    ],
)
def test_errors_say_what_and_what_to_do(f, error, text):
    with pytest.raises(error, match=text):
        f(ndgrad.tensor(A))
