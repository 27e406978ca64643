"""Roots and fixed points: values, derivatives of every kind against closed forms, structures, batches, failures."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as nnp
from ndgrad import func, implicit
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.node import Node

pytest.importorskip("scipy")

F64 = ndgrad.float64


def tensor(values, **options):
    return ndgrad.tensor(values, dtype=F64, **options)


def square_root(a):
    return implicit.root(lambda x: x * x - a, tensor(1.0))


def square_root_of_argument(a):
    return implicit.root(lambda x, a: x * x - a, tensor(1.0), args=(a,))


def close(have, want, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(ndgrad.as_tensor(have).detach().numpy()), want, rtol=tolerance, atol=tolerance)


FORMS = pytest.mark.parametrize("root", [square_root, square_root_of_argument], ids=["closure", "argument"])
METHODS = ["hybr", "lm", "broyden1", "krylov", "df-sane", "newton", None]


def system(x, a):
    """Two equations, coupled both ways."""
    return ndgrad.stack([x[0] ** 3 + x[1] - a[0], ndgrad.exp(0.3 * x[0]) + 2.0 * x[1] - a[1]])


def test_every_method_finds_the_same_root():
    a = tensor([1.0, 2.5])
    want = implicit.root(system, tensor([0.5, 0.5]), (a,), method="newton")
    close(system(want, a), [0.0, 0.0], 1e-13)
    for method in METHODS:
        close(implicit.root(system, tensor([0.5, 0.5]), (a,), method=method), want.numpy())


def test_a_solver_of_the_users_own():
    from scipy import optimize

    a = tensor(2.0, requires_grad=True)
    x = implicit.root(lambda x: x * x - a, tensor(1.0), method=lambda f, x0: optimize.fsolve(f, x0))
    x.backward()
    close(a.grad, 0.5 / np.sqrt(2.0))
    with pytest.raises(implicit.ConvergenceError, match="given solver"):
        implicit.root(lambda x: x * x - a, tensor(1.0), method=lambda f, x0: x0 + 1e6)


@FORMS
def test_reverse_to_third_order(root):
    a = tensor(2.0, requires_grad=True)
    x = root(a)
    (d1,) = ndgrad.autograd.grad(x, a, create_graph=True)
    (d2,) = ndgrad.autograd.grad(d1, a, create_graph=True)
    (d3,) = ndgrad.autograd.grad(d2, a)
    for have, want in zip((x, d1, d2, d3), (2**0.5, 0.5 * 2**-0.5, -0.25 * 2**-1.5, 0.375 * 2**-2.5), strict=True):
        close(have, want)


@FORMS
def test_transforms_to_second_order_in_every_combination(root):
    a, second = tensor(2.0), -0.25 * 2**-1.5
    close(func.jvp(root, (a,), (tensor(3.0),))[1], 3.0 * 0.5 * 2**-0.5)
    close(func.grad(root)(a), 0.5 * 2**-0.5)
    close(func.grad(func.grad(root))(a), second)
    close(func.jacfwd(func.grad(root))(a), second)
    close(func.grad(func.jacfwd(root))(a), second)
    close(func.jacfwd(func.jacfwd(root))(a), second)
    close(func.grad(func.jacfwd(func.grad(root)))(a), 0.375 * 2**-2.5)


@FORMS
def test_vmap_with_derivatives_inside_and_outside(root):
    a = tensor([1.0, 2.0, 3.0])
    n = a.numpy()
    close(func.vmap(root)(a), n**0.5)
    close(func.vmap(func.grad(root))(a), 0.5 * n**-0.5)
    close(func.vmap(func.grad(func.grad(root)))(a), -0.25 * n**-1.5)
    close(func.jacrev(func.vmap(root))(a), np.diag(0.5 * n**-0.5))
    close(func.jacfwd(func.vmap(root))(a), np.diag(0.5 * n**-0.5))
    close(func.vmap(lambda v: func.jvp(root, (v,), (tensor(1.0),))[1])(a), 0.5 * n**-0.5)
    close(func.grad(lambda v: func.vmap(func.grad(root))(v).sum())(a), -0.25 * n**-1.5)
    table = func.vmap(func.vmap(lambda p, q: root(p * q), (None, 0)), (0, None))(a, a)
    close(table, np.sqrt(np.outer(n, n)))


def test_vmap_over_the_first_guess_alone_finds_different_roots():
    close(func.vmap(lambda x0: implicit.root(lambda x: x * x - 4.0, x0))(tensor([1.0, -1.0])), [2.0, -2.0])


def test_vmap_does_not_call_the_function_once_per_sample():
    def calls(size):
        count = [0]

        def f(x, a):
            count[0] += 1
            return x * x - a

        func.vmap(lambda a: implicit.root(f, tensor(1.0), (a,)))(tensor(np.full(size, 2.0)))
        return count[0]

    assert calls(2) == calls(64)


def test_a_method_for_one_sample_is_refused_inside_vmap():
    with pytest.raises(ValueError, match="inside vmap"):
        func.vmap(lambda a: implicit.root(lambda x: x - a, tensor(1.0), method="hybr"))(tensor([1.0, 2.0]))


def test_jacobian_of_a_system_against_finite_differences():
    a = np.array([1.0, 2.5])

    def solve(a):
        return implicit.root(system, tensor([0.5, 0.5]), (tensor(a) if isinstance(a, np.ndarray) else a,))

    h = 1e-6
    want = np.stack([(solve(a + h * e).numpy() - solve(a - h * e).numpy()) / (2 * h) for e in np.eye(2)], axis=-1)
    close(func.jacrev(solve)(tensor(a)), want, 1e-8)
    close(func.jacfwd(solve)(tensor(a)), want, 1e-8)


def test_krylov_derivatives_equal_dense_ones():
    a = tensor([1.0, 2.5])

    def solve(a, linear):
        return implicit.root(system, tensor([0.5, 0.5]), (a,), linear=linear)

    for linear in ("gmres", "bicgstab"):
        for transform in (func.jacrev, func.jacfwd):
            close(transform(lambda a, linear=linear: solve(a, linear))(a), func.jacrev(lambda a: solve(a, "dense"))(a).numpy(), 1e-8)
    close(func.hessian(lambda a: solve(a, "gmres").sum())(a), func.hessian(lambda a: solve(a, "dense").sum())(a).numpy(), 1e-7)


def test_structures_of_unknowns_and_parameters():
    params = {"scale": tensor(2.0, requires_grad=True), "shift": [tensor([1.0, 2.0], requires_grad=True)]}

    def f(x, p, power):
        return {"v": p["scale"] * x["v"] ** power - p["shift"][0], "s": (x["s"] - x["v"].sum(),)}

    x = implicit.root(f, {"v": tensor([1.0, 1.0]), "s": (tensor(0.0))}, (params, 3))
    want = np.array([0.5, 1.0]) ** (1 / 3)
    close(x["v"], want)
    x["s"].backward()
    close(params["scale"].grad, (-want / 6).sum())
    close(params["shift"][0].grad, want / 3 / np.array([1.0, 2.0]))


def test_complex_unknowns_that_are_not_holomorphic():
    a = tensor(2.0)

    def f(z, a):
        return z * z.conj() * z - a * (1.0 + 1.0j)  # |z|^2 z

    z0 = ndgrad.tensor(1.0 + 0.5j, dtype=ndgrad.complex128)
    z = implicit.root(f, z0, (a,))
    want = (2 * np.sqrt(2)) ** (1 / 3) * np.exp(0.25j * np.pi)
    np.testing.assert_allclose(z.item(), want, rtol=1e-9)
    _, along = func.jvp(lambda a: implicit.root(f, z0, (a,)), (a,), (tensor(1.0),))
    np.testing.assert_allclose(along.item(), want / 6.0, rtol=1e-9)


def test_both_faces_and_what_the_function_is_given():
    seen = []

    def f(x, a):
        seen.append((type(x), type(a)))
        return x * x - a

    x = implicit.root(f, nnp.array([1.0]), (nnp.array([2.0]).requires_grad_(),))
    x.sum().backward()
    assert type(x) is nnp.Array
    assert set(seen) == {(nnp.Array, nnp.Array)}
    seen.clear()
    a = tensor([2.0], requires_grad=True)
    x = implicit.root(f, tensor([1.0]), (a,))
    x.sum().backward()
    assert type(x) is ndgrad.Tensor
    assert set(seen) == {(ndgrad.Tensor, ndgrad.Tensor)}


def test_single_precision_keeps_its_dtype():
    a = ndgrad.tensor(2.0, dtype=ndgrad.float32, requires_grad=True)
    x = implicit.root(lambda x: x * x - a, ndgrad.tensor(1.0, dtype=ndgrad.float32))
    x.backward()
    assert x.dtype is ndgrad.float32
    close(a.grad, 0.35355339, 1e-6)


def test_fixed_point_by_iteration_and_by_root_methods():
    for method in (None, "iteration", "hybr", "newton"):
        a = tensor(3.0, requires_grad=True)
        x = implicit.fixed_point(lambda x, a=a: (x + a / x) / 2, tensor(1.0), method=method)
        x.backward()
        close(x, 3**0.5)
        close(a.grad, 0.5 * 3**-0.5)
    batch = func.vmap(lambda a: implicit.fixed_point(lambda x: ndgrad.cos(a * x), tensor(0.5)))(tensor([0.5, 1.0]))
    close(ndgrad.cos(tensor([0.5, 1.0]) * batch), batch.numpy())


def test_solves_nest():
    def inner(b):
        return implicit.root(lambda u: u**3 - b, tensor(1.0))

    def outer(a):
        return implicit.root(lambda x: inner(x * a) - 2.0 * a, tensor(1.0))  # (x a)^(1/3) = 2 a, so x = 8 a^2

    a = tensor(1.5)
    close(outer(a), 8 * 1.5**2)
    close(func.grad(outer)(a), 24.0, 1e-8)
    close(func.grad(func.grad(outer))(a), 16.0, 1e-7)
    close(func.jacfwd(outer)(a), 24.0, 1e-8)
    close(func.vmap(func.grad(outer))(tensor([1.5, 2.0])), [24.0, 32.0], 1e-8)


# ----- memory ----------------------------------------------------------------------------------------------------------


def nodes_alive():
    gc.collect()
    return sum(isinstance(o, Node) for o in gc.get_objects())


def test_graph_does_not_grow_with_iterations():
    a = tensor(0.9, requires_grad=True)

    def graph(start, steps):
        before = nodes_alive()
        x = implicit.fixed_point(lambda x: x * a + 1.0, tensor(start), maxiter=10_000)
        made = nodes_alive() - before
        count = [0]

        def counting(x):
            count[0] += 1
            return x * a + 1.0

        implicit.fixed_point(counting, tensor(start), maxiter=10_000)
        assert count[0] > steps
        return made, x

    kept = a * 1.0  # keeps the leaf's accumulator alive, which would be counted once
    near, _ = graph(9.9999999, 3)
    far, x = graph(1e6, 150)
    assert near == far
    del kept
    x.backward()
    close(a.grad, 100.0, 1e-6)


@pytest.mark.parametrize(
    "solve",
    [
        lambda a: implicit.root(lambda x: x * x - a, tensor([1.0])),
        lambda a: implicit.minimize(lambda x: ((x - a) ** 2).sum(), tensor([1.0])),
        lambda a: implicit.linear_solve(lambda x: a * x, tensor([1.0]), method="cg"),
        lambda a: implicit.solve_ivp(lambda t, y: -a * y, (0.0, 1.0), tensor([1.0])).y,
        lambda a: implicit.quad(lambda x: a * x, 0.0, 1.0)[0],
    ],
    ids=["root", "minimize", "linear_solve", "solve_ivp", "quad"],
)
def test_what_a_solve_held_dies_without_the_cyclic_collector(solve):
    gc.collect()
    gc.disable()
    try:
        a = tensor([2.0], requires_grad=True)
        b = a * 1.0
        solve(b).sum().backward()
        alive = weakref.ref(b)
        del b
        assert alive() is None
    finally:
        gc.enable()


# ----- failures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def modes():
    """Whatever fails must leave modes, levels and later backward passes as they were."""
    before = (len(process.busy), thread.grad_enabled, thread.levels, thread.dual_levels)
    yield
    assert (len(process.busy), thread.grad_enabled, thread.levels, thread.dual_levels) == before
    assert thread.captures is None
    a = tensor(2.0, requires_grad=True)
    square_root(a).backward()
    close(a.grad, 0.5 * 2**-0.5)


def test_no_root_is_an_error_with_the_residual(modes):
    a = tensor(1.0, requires_grad=True)
    with pytest.raises(implicit.ConvergenceError, match="did not converge.*largest residual") as caught:
        implicit.root(lambda x: x * x + a, tensor(1.0))
    assert caught.value.residual >= 0.9
    with pytest.warns(implicit.ConvergenceWarning, match="did not converge"):
        implicit.root(lambda x: x * x + a, tensor(1.0), on_failure="warn")
    with pytest.raises(implicit.ConvergenceError, match="diverged"):
        implicit.fixed_point(lambda x: 3.0 * x + a, tensor(1.0))
    with pytest.raises(implicit.ConvergenceError):
        func.vmap(lambda a: implicit.root(lambda x: x * x + a, tensor(1.0)))(tensor([-1.0, 1.0]))


def test_singular_jacobian_is_an_error(modes):
    a = tensor(1.0, requires_grad=True)

    def f(x):
        return ndgrad.stack([x[0] + x[1] - a, 2.0 * (x[0] + x[1] - a)])

    x = implicit.root(f, tensor([0.5, 0.5]))
    with pytest.raises(implicit.SingularError, match="singular at the solution"):
        x.sum().backward()
    with pytest.raises(np.linalg.LinAlgError):
        func.jvp(lambda a: implicit.root(lambda x: (x - a) * ndgrad.zeros(1, dtype=F64), tensor([1.0])), (tensor([1.0]),), (tensor([1.0]),))


def test_errors_inside_the_function_come_out(modes):
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        implicit.root(f, tensor(1.0))
    with pytest.raises(KeyError, match="mine"):
        func.vmap(func.grad(lambda a: implicit.root(lambda x: f(x * a), tensor(1.0))))(tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("f", "x0", "settings", "error", "message"),
    [
        (lambda x: x[:1], [1.0, 2.0], {}, ValueError, "one equation per unknown"),
        (lambda x: 1.0, [1.0], {}, TypeError, "no tensor"),
        (lambda x: x, [1.0], {"method": "nonsense"}, ValueError, "no method"),
        (lambda x: x, [1.0], {"on_failure": "ignore"}, ValueError, "on_failure"),
        (lambda x: x, "text", {}, TypeError, "no number"),
        (lambda x: x, (), {}, ValueError, "no tensor"),
        (lambda x: x, ndgrad.tensor([1, 2]), {}, TypeError, "real or complex"),
    ],
)  # fmt: skip
def test_bad_input(f, x0, settings, error, message, modes):
    with pytest.raises(error, match=message):
        implicit.root(f, x0 if not isinstance(x0, list) else tensor(x0), **settings)


def test_no_warning_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = tensor([1.0, 2.0], requires_grad=True)
        implicit.root(lambda x: x * x - a, tensor([1.0, 1.0])).sum().backward()
