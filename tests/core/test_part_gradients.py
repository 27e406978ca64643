"""Reads and writes of parts: every index form in every mode against central differences, and their cost."""

from __future__ import annotations

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as np
from ndgrad import func
from ndgrad._src.core import part_gradients
from ndgrad._src.core.node import sizes
from ndgrad._src.ops.vocabulary import find

START = onp.linspace(0.4, 1.5, 12)


@pytest.fixture(autouse=True, params=[0, 1024])
def small_read(request, monkeypatch):
    """Set the limit for small reads: the arrays below are small, and their reads would all run by their rules."""
    monkeypatch.setattr(sizes, "small_read", request.param)
    return request.param


@pytest.fixture(autouse=True)
def _in_place_at_any_size(monkeypatch):
    """Lower the limit, so that the small arrays of these tests take the path of large ones."""
    monkeypatch.setattr(part_gradients, "SMALL", 0)


def places(*numbers):
    return onp.array(numbers)


# ----- programs: reads -----------------------------------------------------------------------------------------------

READS = {
    "element": lambda x, i: x[i],
    "slice": lambda x, i: x[i : i + 3],
    "backwards": lambda x, i: x[i + 2 : i : -1],
    "fancy": lambda x, i: x[places(i, i + 1, i)],
    "take": lambda x, i: np.take(x, places(i, i + 2)),
    "take_along_axis": lambda x, i: np.take_along_axis(x.reshape(3, 4), places(i % 3, 1, 0, i % 2)[None], axis=0),
    "row": lambda x, i: x.reshape(4, 3)[i % 4],
    "column": lambda x, i: x.reshape(4, 3)[:, i % 3],
    "of the transpose": lambda x, i: x.reshape(4, 3).T[i % 3, 1:3],
    "of a slice": lambda x, i: x[1:][i],
    "of a view of a slice": lambda x, i: x[2:11].reshape(3, 3).T[1:][i % 2],
    "two arrays": lambda x, i: x.reshape(4, 3)[places(i % 4, 1), places(0, i % 3)],
    "array and slice": lambda x, i: x.reshape(4, 3)[places(i % 4, 1), 1:],
    "diagonal": lambda x, i: np.diagonal(x.reshape(4, 3), offset=-(i % 2)),
    "new axis": lambda x, i: x[None, i : i + 2, None],
    "part of a split": lambda x, i: np.split(x, 3)[i % 3][1:3],
    "mask": lambda x, i: x[onp.arange(12) % 3 == i % 3],
}


def reading(read):
    def program(x):
        total = 0.0
        for y in (x, np.sin(x)):  # a leaf, and a result
            for i in range(6):
                total = total + (read(y, i) ** 2).sum() * (0.5 + i)
        return total * x[0]

    return program


# ----- programs: buffers -------------------------------------------------------------------------------------------------


def by_element(u, x, i):
    u[i] = np.sin(u[i - 1]) * x[i] + u[i]


def by_slice(u, x, i):
    u[i : i + 3] = u[i - 1 : i + 2] * x[0] + 0.5


def by_augmented_slice(u, x, i):
    u[i : i + 2] += u[i - 1 : i + 1] ** 2


def by_fancy(u, x, i):
    u[places(i, i + 1)] = u[places(i - 1, i)] ** 2 * x[i]


def by_repeated_fancy(u, x, i):
    u[places(i, i + 1, i)] = x[:3] * u[i - 1]


def by_add_at(u, x, i):
    np.add.at(u, places(i, i + 1, i), x[:3] * u[i - 1])


def by_mask(u, x, i):
    u[onp.arange(12) % 4 == i % 4] = x[:3] * u[i - 1]


def through_transpose(u, x, i):
    u.reshape(3, 4).T[i % 4, 1] = u.reshape(3, 4).T[(i - 1) % 4, 0] * x[i]


def through_reshape(u, x, i):
    u.reshape(6, 2)[i % 6, 0] = u[i - 1] * x[1]


def along_axis(u, x, i):
    np.put_along_axis(u, places(i, i + 1), x[1:3] * u[i - 1], 0)


def aliased(u, x, i):
    u[places(i, i - 1)] = u[i - 1 : i + 1]
    u[i] *= x[0]


BUFFERS = [
    by_element, by_slice, by_augmented_slice, by_fancy, by_repeated_fancy, by_add_at, by_mask, through_transpose, through_reshape,
    along_axis, aliased,
]  # fmt: skip


def writing(write):
    def program(x):
        u = np.zeros(12)
        u[:4] = x[:4] * x[4]
        u[7] = x[5]
        for i in range(1, 8):
            write(u, x, i)
        return (u * u).sum() * x[0] + u[7]

    return program


PROGRAMS = {**{f"read {name}": reading(read) for name, read in READS.items()}, **{f.__name__: writing(f) for f in BUFFERS}}


def value(program, x):
    return float(program(np.array(x)).detach())


def gradient_by_differences(program, x, h=1e-5):
    steps = h * onp.eye(len(x))
    return onp.array([(value(program, x + e) - value(program, x - e)) / (2 * h) for e in steps])


def gradient_of(program, x):
    leaf = np.array(x)
    leaf.requires_grad_()
    program(leaf).backward()
    return onp.asarray(leaf.grad)


def hessian_by_differences(program, x, h=1e-5):
    steps = h * onp.eye(len(x))
    return onp.array([(gradient_of(program, x + e) - gradient_of(program, x - e)) / (2 * h) for e in steps])


@pytest.mark.parametrize("name", PROGRAMS)
def test_first_derivatives_of_parts_are_those_of_differences(name):
    program = PROGRAMS[name]
    expected = gradient_by_differences(program, START)
    scale = abs(expected).max()
    onp.testing.assert_allclose(gradient_of(program, START), expected, rtol=1e-6, atol=1e-7 * scale)
    onp.testing.assert_allclose(func.grad(program)(np.array(START)), expected, rtol=1e-6, atol=1e-7 * scale)
    onp.testing.assert_allclose(func.jacfwd(program)(np.array(START)), expected, rtol=1e-6, atol=1e-7 * scale)
    batch = np.array(onp.stack([START, START[::-1]]))
    each = onp.stack([onp.asarray(func.grad(program)(sample)) for sample in batch])
    onp.testing.assert_allclose(func.vmap(func.grad(program))(batch), each, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_of_parts_are_those_of_differences(name):
    program = PROGRAMS[name]
    expected = hessian_by_differences(program, START)
    x, scale = np.array(START), abs(expected).max()
    onp.testing.assert_allclose(func.jacfwd(func.grad(program))(x), expected, rtol=1e-5, atol=1e-6 * scale)
    onp.testing.assert_allclose(func.jacrev(func.grad(program))(x), expected, rtol=1e-5, atol=1e-6 * scale)
    onp.testing.assert_allclose(func.jacrev(func.jacfwd(program))(x), expected, rtol=1e-5, atol=1e-6 * scale)
    leaf = np.array(START)
    leaf.requires_grad_()
    (first,) = ndgrad.autograd.grad(program(leaf), leaf, create_graph=True)
    rows = [ndgrad.autograd.grad(first[i], leaf, retain_graph=True)[0] for i in range(len(START))]
    onp.testing.assert_allclose(onp.stack([onp.asarray(row) for row in rows]), expected, rtol=1e-5, atol=1e-6 * scale)


def test_third_derivative_of_a_buffer():
    def program(x):
        u = np.zeros(3)
        u[0] = x
        u[1] = u[0] ** 2
        u[places(2, 0)] = u[places(1, 1)] * u[0]
        return u[2] * u[0]

    third = func.grad(func.grad(func.grad(program)))(np.array(1.5))
    assert float(third) == pytest.approx(6 * 5 * 4 * 1.5**3)  # derivative of x^6


# ----- other holders of the gradient -----------------------------------------------------------------------------------------


def test_a_hook_sees_the_whole_gradient_of_what_was_read_and_may_keep_it():
    x = ndgrad.arange(5.0, dtype=ndgrad.float64).requires_grad_()
    y, seen = x * 2, []
    y.register_hook(lambda g: seen.append(g) or g * 10)
    (y[0] + y[3] * 2 + y[3]).backward()
    assert seen[0].tolist() == [1, 0, 0, 3, 0]
    assert x.grad.tolist() == [20, 0, 0, 60, 0]


def test_a_hook_on_a_view_between_sees_its_gradient():
    x = ndgrad.arange(6.0, dtype=ndgrad.float64).requires_grad_()
    y = x * 1
    first = y[0]
    view, seen = y.reshape(2, 3), []
    view.register_hook(lambda g: seen.append(g.clone()))
    (first + view[1, 2] + view[0, 0] * 3).backward()
    assert seen[0].tolist() == [[3, 0, 0], [0, 0, 1]]
    assert x.grad.tolist() == [4, 0, 0, 0, 0, 1]


def test_the_gradient_of_a_buffer_between_writes_is_not_changed_by_older_nodes():
    x = ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    u = x * 1
    before = u.clone()
    u[1] = x[0] * 5
    u.retain_grad()
    (u.sum() + before[1]).backward()
    assert u.grad.tolist() == [1, 1, 1]
    assert x.grad.tolist() == [6, 1, 1]


def test_wanted_gradients_of_buffers_stay_what_they_were():
    x = ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    y = x * 2
    z = y * 1
    z[places(0, 2)] = x[1:] * 3
    of_z, of_y, of_x = ndgrad.autograd.grad((z * z).sum() + y[0], (z, y, x))
    assert of_z.tolist() == [6, 4, 6]
    assert of_y.tolist() == [1, 4, 0]
    assert of_x.tolist() == [2, 26, 18]


# ----- cost --------------------------------------------------------------------------------------------------------------------


DENSE = {  # ops that make a gradient of the whole from that of a part
    "element": "embed", "slice": "embed", "fancy": "index_add_zeros", "take": "index_select_backward", "row": "select_backward",
    "of a slice": "embed", "of the transpose": "embed", "two arrays": "index_add_zeros", "diagonal": "diagonal_backward",
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_many_reads_of_one_array_make_few_gradients_of_the_whole(name, monkeypatch, small_read):
    if small_read:
        pytest.skip("each makes one, which is the quicker while they are small")
    op, made = find(DENSE[name]), []
    forward = op.forward_for(onp)
    monkeypatch.setitem(op._forwards, onp, lambda *args, **settings: made.append(1) or forward(*args, **settings))
    ndgrad._src.ops.vocabulary.forget(op.name)
    try:
        gradient_of(lambda x: sum((READS[name](np.sin(x), 0)).sum() for _ in range(3)), START)  # one array each: at most three
        separate = len(made)
        made.clear()
        gradient_of(reading(READS[name]), START)
    finally:
        monkeypatch.undo()
        ndgrad._src.ops.vocabulary.forget(op.name)
    assert separate >= 3
    assert len(made) <= 3  # for the leaf, for the result, and for a gradient that was not owned


def test_writes_through_an_index_change_the_gradient_in_place(monkeypatch):
    op, made = find("index_put"), []
    forward = op.forward_for(onp)
    monkeypatch.setitem(op._forwards, onp, lambda *args, **settings: made.append(1) or forward(*args, **settings))
    gradient_of(writing(by_fancy), START)
    assert len(made) <= 1
