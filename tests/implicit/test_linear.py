"""Linear systems: dense and Krylov, functions and matrices, against NumPy's solve and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import func, implicit
from ndgrad._src.core.modes import thread

pytest.importorskip("scipy")

RNG = np.random.default_rng(0)
M = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
S = M @ M.T
B = RNG.normal(size=4)
METHODS = [None, "dense", "gmres", "bicgstab", "cg", "minres", "lsmr"]


def tensor(values):
    return ndgrad.tensor(values, dtype=ndgrad.float64)


def close(have, want, tolerance=1e-7):
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=tolerance, atol=tolerance)


def matrix_for(method):
    return S if method in ("cg", "minres") else M


@pytest.mark.parametrize("method", METHODS)
def test_values_and_derivatives_equal_those_of_the_dense_solve(method):
    a, b = tensor(matrix_for(method)), tensor(B)

    def solve(a, b):
        return implicit.linear_solve(lambda x: a @ x, b, method=method)

    def symmetric(a, b):  # a symmetric method may rely on symmetry: perturb symmetrically
        return solve((a + a.T) / 2, b) if method in ("cg", "minres") else solve(a, b)

    def want(a, b):
        return ndgrad.linalg.solve((a + a.T) / 2, b) if method in ("cg", "minres") else ndgrad.linalg.solve(a, b)

    close(symmetric(a, b), want(a, b).numpy())
    weights = tensor([1.0, -2.0, 0.5, 3.0])
    for transform in (func.grad, func.jacfwd):
        have = transform(lambda a, b: (symmetric(a, b) * weights).sum(), (0, 1))(a, b)
        goal = func.grad(lambda a, b: (want(a, b) * weights).sum(), (0, 1))(a, b)
        for h, g in zip(have, goal, strict=True):
            close(h, g.numpy())
    have, goal = (func.hessian(lambda b, f=f: (f(a, b * b) * weights).sum())(b) for f in (symmetric, want))
    close(have, goal.numpy())


@pytest.mark.parametrize("method", ["dense", "gmres", "cg", "lsmr"])
def test_vmap_over_operators_and_right_sides(method):
    d = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tensor([[1.0, 1.0, 1.0], [2.0, 3.0, 4.0]])

    def solve(d, b):
        return implicit.linear_solve(lambda x: d * x, b, method=method)

    close(func.vmap(solve)(d, b), b.numpy() / d.numpy())
    close(func.vmap(solve, (None, 0))(d[0], b), b.numpy() / d.numpy()[0])
    close(func.vmap(func.grad(lambda d, b: solve(d, b).sum()))(d, b), -b.numpy() / d.numpy() ** 2)
    close(func.grad(lambda d: func.vmap(solve)(d, b).sum())(d), -b.numpy() / d.numpy() ** 2)


def test_matrices_structures_and_arguments():
    close(implicit.linear_solve(tensor(M), tensor(B)), np.linalg.solve(M, B))
    close(implicit.linear_solve(M, tensor(B), method="gmres"), np.linalg.solve(M, B))
    k = ndgrad.tensor(2.0, dtype=ndgrad.float64, requires_grad=True)
    x = implicit.linear_solve(lambda x, k: {"u": k * x["u"] + x["v"], "v": x["v"] * k}, {"u": tensor([4.0]), "v": tensor([2.0])}, (k,))
    close(x["u"], [1.5])
    x["u"].sum().backward()  # u = (4 - 2/k) / k
    close(k.grad, -4 / 4 + 4 / 8)


def test_least_squares_of_a_tall_system():
    tall = RNG.normal(size=(6, 3))
    b = RNG.normal(size=6)
    a = tensor(tall)

    def solve(a, b):
        return implicit.linear_solve(lambda x: a @ x, b, method="lsmr", x0=ndgrad.zeros(3, dtype=ndgrad.float64))

    close(solve(a, tensor(b)), np.linalg.lstsq(tall, b, rcond=None)[0])
    close(func.jacrev(solve, 1)(a, tensor(b)), np.linalg.pinv(tall))
    want = func.jacrev(lambda a: ndgrad.linalg.solve(a.T @ a, a.T @ tensor(b)))(a)
    close(func.jacrev(solve)(a, tensor(b)), want.numpy())
    close(func.jacfwd(solve)(a, tensor(b)), want.numpy())


def test_matrix_free_for_many_unknowns():
    n = 2000
    k = ndgrad.tensor(0.1, dtype=ndgrad.float64, requires_grad=True)

    def smooth(x):  # a tridiagonal operator, never formed
        y = (1.0 + 2.0 * k) * x
        y = y - k * ndgrad.cat([x[1:], x[:1]]) - k * ndgrad.cat([x[-1:], x[:-1]])
        return y

    b = tensor(np.sin(np.linspace(0, 20, n)))
    x = implicit.linear_solve(smooth, b, symmetric=True)
    (x * x).sum().backward()

    def evaluate(k):
        q = 2 * np.pi * np.fft.fftfreq(n)
        return (np.fft.ifft(np.fft.fft(b.numpy()) / (1 + 2 * k - 2 * k * np.cos(q))).real ** 2).sum()

    close(k.grad, (evaluate(0.1 + 1e-5) - evaluate(0.1 - 1e-5)) / 2e-5, 1e-5)


def test_a_solver_of_the_users_own_and_a_preconditioner():
    a = tensor(M)
    dense = lambda matvec, b: np.linalg.solve(np.stack([matvec(e) for e in np.eye(b.size)], -1), b)
    close(func.jacrev(lambda b: implicit.linear_solve(lambda x: a @ x, b, method=dense))(tensor(B)), np.linalg.inv(M))
    near = np.linalg.inv(M + 0.01)
    close(implicit.linear_solve(lambda x: a @ x, tensor(B), method="gmres", preconditioner=lambda v: near @ v), np.linalg.solve(M, B))


def test_errors_say_what_is_wrong_and_leave_nothing_behind():
    a, b = tensor(M), tensor(B)
    with pytest.raises(ValueError, match="no method"):
        implicit.linear_solve(lambda x: a @ x, b, method="qr")
    with pytest.raises(implicit.ConvergenceError, match="residual"):
        implicit.linear_solve(lambda x: a @ x, b, method="bicgstab", maxiter=1)
    with pytest.raises(implicit.SingularError):
        implicit.linear_solve(lambda x: 0.0 * x, b, method="dense")
    with pytest.raises(implicit.SingularError):
        implicit.linear_solve(tensor(np.ones((2, 2))), tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="do not fit"):
        implicit.linear_solve(tensor(np.ones((2, 3))), tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="not square"):
        implicit.linear_solve(lambda x: x[:2], b[:2], method="gmres", x0=b)
    with pytest.raises(ValueError, match="NaN"):
        implicit.linear_solve(lambda x: x, b * float("nan"), method="cg")
    assert thread.captures is None
    assert thread.levels == ()
