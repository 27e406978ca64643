"""Tensors that a solved function closes over are found wherever they are used, and never silently dropped."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.functions import Cube

import ndgrad
import ndgrad.numpy as nnp
from ndgrad import func, implicit
from ndgrad._src.core.modes import thread

pytest.importorskip("scipy")

F64 = ndgrad.float64


def tensor(values, **options):
    return ndgrad.tensor(values, dtype=F64, **options)


def close(have, want):
    np.testing.assert_allclose(have.detach().numpy(), want, rtol=1e-9, atol=1e-9)


def check(make):
    """`make(a)` is x = a**2 solved in some way; all kinds of derivatives of it."""
    a = tensor(3.0, requires_grad=True)
    make(a).sum().backward()
    close(a.grad, 6.0)
    value = tensor(3.0)
    scalar = lambda a: make(a).sum()
    close(func.grad(scalar)(value), 6.0)
    close(func.jvp(scalar, (value,), (tensor(1.0),))[1], 6.0)
    close(func.grad(func.grad(scalar))(value), 2.0)
    close(func.vmap(func.grad(scalar))(tensor([1.0, 3.0])), [2.0, 6.0])


def test_a_history_made_before_the_call():
    def make(a):
        b = a * a
        return implicit.root(lambda x: x - b, tensor(1.0))

    check(make)


def test_a_tensor_used_only_near_the_solution():
    def make(a):
        def f(x):
            return x - 1.5 if x.item() < 1.0 else x - a * a

        return implicit.root(f, tensor(1.25), method="newton")

    a = tensor(3.0, requires_grad=True)
    make(a).backward()
    close(a.grad, 6.0)


def test_a_tensor_held_by_an_object():
    class Model:
        def __init__(self, a):
            self.a = a

        def __call__(self, x):
            return x - self.a * self.a

    check(lambda a: implicit.root(Model(a), tensor(1.0)))


def test_a_tensor_written_into_a_buffer():
    def make(a):
        def f(x):
            buffer = ndgrad.zeros(2, dtype=F64)
            buffer[0] = a
            buffer[1:] = a
            return x - buffer[0] * buffer[1]

        return implicit.root(f, tensor(1.0))

    check(make)


def test_a_tensor_written_into_an_array():
    a = nnp.array(3.0).requires_grad_()

    def f(x):
        buffer = nnp.zeros(2)
        buffer[0] = a
        buffer[1] = a
        return x - buffer[0] * buffer[1]

    implicit.root(f, nnp.array(1.0)).backward()
    assert a.grad.item() == pytest.approx(6.0)


def test_a_tensor_copied_in_place():
    def make(a):
        return implicit.root(lambda x: x - ndgrad.zeros((), dtype=F64).copy_(a) * a, tensor(1.0))

    check(make)


def test_a_tensor_given_to_a_custom_function():
    a = tensor(3.0, requires_grad=True)
    implicit.root(lambda x: x - Cube.apply(a), tensor(1.0)).backward()
    close(a.grad, 27.0)
    make = lambda a: implicit.root(lambda x: x - Cube.apply(a), tensor(1.0))
    close(func.grad(make)(tensor(3.0)), 27.0)


def test_a_tensor_used_in_a_transform_inside_the_function():
    def make(a):
        def f(x):
            return x - func.grad(lambda u: u**3 / 3.0)(a)

        return implicit.root(f, tensor(1.0))

    check(make)

    def other(a):
        return implicit.root(lambda x: x - func.vmap(lambda u: u * a)(a.reshape(1)).sum(), tensor(1.0))

    check(other)

    def third(a):
        return implicit.root(lambda x: x - func.jvp(lambda u: u**3 / 3.0, (a,), (ndgrad.ones_like(a),))[1], tensor(1.0))

    check(third)


def test_a_function_that_differentiates_with_leaves_of_its_own():
    a = tensor(3.0, requires_grad=True)

    def f(x):
        leaf = ndgrad.tensor(2.0, dtype=F64, requires_grad=True)
        with ndgrad.enable_grad():
            (two,) = ndgrad.autograd.grad(leaf * leaf / 2.0, leaf)
        return x - a ** two.item()

    implicit.root(f, tensor(1.0)).backward()
    close(a.grad, 6.0)


def test_two_roads_to_one_tensor_add_up():
    a = tensor(3.0, requires_grad=True)
    implicit.root(lambda x, b: x - a * b, tensor(1.0), (a,)).backward()
    close(a.grad, 6.0)


def test_a_write_into_a_captured_tensor_is_refused():
    a = tensor([3.0], requires_grad=True)
    b = a * 1.0

    def f(x):
        b[0] = 1.0
        return x - b

    with pytest.raises(RuntimeError, match="wrote in place"):
        implicit.root(f, tensor([1.0]))
    assert thread.captures is None


def test_a_tensor_changed_after_the_solve_raises_in_backward():
    a = tensor([3.0], requires_grad=True)
    b = a * 1.0
    x = implicit.root(lambda x: x - b * b, tensor([1.0]))
    b.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


@pytest.mark.parametrize("tensor_type", [ndgrad.tensor, nnp.array])
def test_a_constant_changed_after_the_solve_raises_in_backward(tensor_type):
    a, data = tensor_type([3.0]).requires_grad_(), tensor_type([2.0])
    x = implicit.root(lambda x: x - a * data, tensor_type([1.0]))
    y = implicit.solve_ivp(lambda t, y: -a * data * y, (0.0, 1.0), tensor_type([1.0])).y
    x.sum().backward(retain_graph=True)
    y.sum().backward(retain_graph=True)
    data[0] = 5.0
    for result in (x, y):
        with pytest.raises(RuntimeError, match="modified by an inplace operation after the solve"):
            result.sum().backward()


def test_a_tensor_that_turns_up_only_in_backward_is_an_error():
    late = tensor(1.0, requires_grad=True)
    a = tensor(3.0, requires_grad=True)
    solved = []

    def f(x):
        return x - a * late if solved else x - a

    x = implicit.root(f, tensor(1.0))
    solved.append(True)
    with pytest.raises(RuntimeError, match="did not use while it was solved"):
        x.backward()


def test_threads_do_not_see_each_other():
    import threading

    a = [tensor(float(i + 2), requires_grad=True) for i in range(4)]
    shared = tensor(3.0, requires_grad=True)
    found = [None] * 4

    def work(i):
        for _ in range(5):
            x = implicit.root(lambda x: x - a[i] * shared, tensor(1.0))
            found[i] = ndgrad.autograd.grad(x, [a[i], shared])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(4):
        close(found[i][0], 3.0)
        close(found[i][1], float(i + 2))
