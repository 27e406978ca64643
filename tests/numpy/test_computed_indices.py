"""Numbers that were computed are indices like ints: what NumPy views by them is a view, what it copies a copy, in every mode. And programs
that find out by writing whether memory is shared, against central differences of NumPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func

START = onp.array([1.0, 2.5, 1.7])

# ----- programs --------------------------------------------------------------------------------------------------------------


def row_read_before_a_write(np: Any, x: Any) -> Any:
    m = np.stack([x, 2 * x])
    r = m[np.argmax(m[:, 0])]
    y = (r * r).sum()
    m[...] = 0.0
    return y


def rows_in_a_loop(np: Any, x: Any) -> Any:
    m, total = np.stack([x, 2 * x]), 0.0
    for i in np.arange(2):
        r = m[i]
        total = total + (r * r).sum()
        m[i] = 0
    return total


def element_changed_in_place(np: Any, x: Any) -> Any:
    u = x * x
    u[np.argmax(u)] *= x[0]
    return (u**2).sum()


def every_index_form(np: Any, x: Any) -> Any:
    m = np.stack([x, 2 * x])
    i = np.argmax(m[:, 0])
    parts = [m[i], m[:, i], m[i, ...], m[None, i], m[i, 1:], m[..., i], m[i, None]]
    copies = [np.take(m, i, axis=0), m[[1, 0]][i]]
    m[...] = m * 3 * x[1]
    parts[0][...] = parts[0] * 2
    total = sum(((k + 1.0) * p**2 * x[0]).sum() for k, p in enumerate(parts))
    return total + sum((p * x).sum() for p in copies)


def row_changed_in_place(np: Any, x: Any) -> Any:
    m = np.stack([x, 2 * x])
    i = np.argmax(m[:, 0])
    r = m[i]
    y = (r * r).sum()
    m[i] = r * x[0]
    m[i] *= 2.0
    r += x[1]
    return y + (m**2).sum() + r[0]


def part_of_a_row_changed_in_place(np: Any, x: Any) -> Any:
    m = np.stack([x, 2 * x, x * x])
    r = m[np.argmax(m[:, 2])]
    tail = r[1:]
    tail *= x[:2]
    m[:, 0] = x
    before = r * 1.0
    m[...] = m * x[2]
    tail[0] = 5.0 * x[0]
    return (m**2).sum() + (r * before).sum() + (tail**3).sum()


def swapped_by_plain_places(np: Any, x: Any) -> Any:
    u = x * 1.0
    i, j = onp.argsort([2, 0, 1])[:2]
    kept = u[i]
    u[i] = u[j]
    u[j] = kept * x[0]
    return (u * np.array([1.0, 10.0, 100.0])).sum()


def permutation_in_cycles(np: Any, x: Any) -> Any:
    u, p = x * x, np.argsort(x)
    for k in range(len(p)):
        u[p[k]], u[k] = u[k], u[p[k]]
    return (u * np.array([1.0, 10.0, 100.0])).sum()


def swapped_by_a_list_of_places(np: Any, x: Any) -> Any:
    u = x * x
    i, j = np.argmax(u), np.argmin(u)
    u[[i, j]] = u[[j, i]] * x[0]
    return (u * np.array([1.0, 10.0, 100.0])).sum() + u[[i, 0]][0] ** 2


def zero_dimensional_view(np: Any, x: Any) -> Any:
    u = x * 1.0
    last = u[np.argmax(u), ...]
    u[...] = u * x[0]
    last[...] = last * x[2]
    return (u**2).sum() + last


def copies_of_what_could_be_views(np: Any, x: Any) -> Any:
    a = np.stack([x, 2 * x, x * x])
    made = [+a, np.conj(a), a[::2].ravel(), np.choose(0, [a]), np.block(a), np.take(a, 1, axis=0)]
    for m in made:
        m[...] = x[0]
    return (a**2).sum()


def views_of_what_could_be_copies(np: Any, x: Any) -> Any:
    a = np.stack([x, 2 * x, x * x])
    np.rot90(a)[0] = x[0]
    a.T.ravel("K")[1] = x[1] * 5
    a.T.reshape(-1, order="F")[2] = x[2] * 7
    np.ravel(a.T, "F")[3] = x[0] * 9
    return (a**2 * np.arange(9.0).reshape(3, 3)).sum()


def memory_order_of_copies(np: Any, x: Any) -> Any:
    a = np.stack([x, 2 * x, x * x])
    made = [
        np.repeat(a, 2, axis=-1), np.take(a, [2, 0], axis=-1), np.delete(a, 0, axis=-1), np.insert(a, 1, x[0], axis=-1),
        np.sort(a.T, axis=0), np.zeros_like(a.T) + x, np.pad(a.T, 1), np.take_along_axis(a.T, np.argsort(a.T, axis=0), axis=0),
        np.compress([True, False, True], a, axis=-1), np.einsum("ij,kj->ki", a, a), np.array([a.T, a.T]),
    ]  # fmt: skip
    total = 0.0
    for k, m in enumerate(made):
        m.reshape(-1)[0] = 9.0 * x[1]
        m.reshape(-1, order="F")[1] = 4.0 * x[2]
        total = total + (k + 1.0) * (m**2).sum()
    return total


def buffer_in_fortran_order(np: Any, x: Any) -> Any:
    """Its memory order decides what a reshape is, also when a value of a transform has been written to it."""
    u = np.zeros((2, 3), order="F")
    u[0] = x
    u[...] = u + x[0]
    u.reshape(-1)[0] = 9.0 * x[1]
    u.reshape(-1, order="F")[1] = 4.0 * x[2]
    u.T.ravel()[4] = 3.0 * x[0]
    return (u**2 * np.arange(1.0, 7.0).reshape(2, 3)).sum()


PROGRAMS = [
    row_read_before_a_write, rows_in_a_loop, element_changed_in_place, every_index_form, row_changed_in_place,
    part_of_a_row_changed_in_place, swapped_by_plain_places, permutation_in_cycles, swapped_by_a_list_of_places,
    zero_dimensional_view,    copies_of_what_could_be_views, views_of_what_could_be_copies, memory_order_of_copies, buffer_in_fortran_order,
]  # fmt: skip


def differences(program: Callable[..., Any], x: Any, step: float = 1e-5) -> Any:
    return onp.array([(program(onp, x + step * e) - program(onp, x - step * e)) / (2 * step) for e in onp.eye(len(x))])


def _eager(f: Callable[[Any], Any], x: Any) -> Any:
    x.requires_grad_()
    f(x).backward()
    return x.grad


MODES: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "eager": _eager,
    "grad": lambda f, x: func.grad(f)(x),
    "jacfwd": lambda f, x: func.jacfwd(f)(x),
    "jacrev": lambda f, x: func.jacrev(f)(x),
    "grad of functionalize": lambda f, x: func.grad(func.functionalize(f))(x),
    "functionalize of grad": lambda f, x: func.functionalize(func.grad(f))(x),
    "vmap of grad": lambda f, x: func.vmap(func.grad(f))(x[None])[0],
    "vmap of jacfwd": lambda f, x: func.vmap(func.jacfwd(f))(x[None])[0],
    "grad of vmap": lambda f, x: func.grad(lambda t: func.vmap(f)(t[None])[0])(x),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_have_numpys_gradient(program: Callable[..., Any], mode: str) -> None:
    found = MODES[mode](lambda x: program(dnp, x), dnp.array(START))
    onp.testing.assert_allclose(found.detach().numpy(), differences(program, START), rtol=1e-6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_lifted_programs_have_numpys_gradient(program: Callable[..., Any]) -> None:
    x = dnp.array(START).requires_grad_()
    ndgrad.lift(lambda x: program(onp, x))(x).backward()
    onp.testing.assert_allclose(x.grad.numpy(), differences(program, START), rtol=1e-6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_have_a_symmetric_hessian(program: Callable[..., Any]) -> None:
    found = func.hessian(lambda x: program(dnp, x))(dnp.array(START)).numpy()
    onp.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-9)
    step = 1e-5
    slopes = [func.grad(lambda x: program(dnp, x))(dnp.array(START + s * e)).numpy() for e in onp.eye(3) for s in (step, -step)]
    onp.testing.assert_allclose(found, (onp.array(slopes[::2]) - slopes[1::2]) / (2 * step), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_vmap_of_programs_whose_samples_take_other_places_equals_the_loop(program: Callable[..., Any]) -> None:
    points = onp.stack([START, START[::-1], START[[1, 0, 2]] * 1.5])
    expected = [differences(program, p) for p in points]
    onp.testing.assert_allclose(func.vmap(func.grad(lambda x: program(dnp, x)))(dnp.array(points)).numpy(), expected, rtol=1e-6)
    together = func.grad(lambda t: func.vmap(lambda x: program(dnp, x))(t).sum())(dnp.array(points)).numpy()
    onp.testing.assert_allclose(together, expected, rtol=1e-6)
    forward = func.vmap(func.jacfwd(lambda x: program(dnp, x)))(dnp.array(points)).numpy()
    onp.testing.assert_allclose(forward, expected, rtol=1e-6)


# ----- a part for each sample --------------------------------------------------------------------------------------------------


def test_a_part_picked_for_each_sample_follows_the_array_out_of_vmap() -> None:
    def late(m: Any, i: Any) -> Any:
        m = m * 1.0
        r = m[i]
        m[...] = m + 10.0
        return r

    m = onp.arange(12.0).reshape(2, 2, 3)
    found = func.vmap(late)(dnp.array(m), dnp.array([1, 0]))
    onp.testing.assert_array_equal(found.numpy(), onp.stack([m[0, 1], m[1, 0]]) + 10.0)


def test_a_part_of_an_array_that_becomes_batched_later_follows_it() -> None:
    def late(x: Any, i: Any) -> Any:
        m = dnp.zeros((2, 3))
        r = m[i]
        m[0] = x
        m[1] = 2.0 * x
        r[1:] = 7.0
        return dnp.stack([m.sum(), r.sum()])

    x = onp.arange(6.0).reshape(2, 3)
    found = func.vmap(late)(dnp.array(x), dnp.array([1, 0])).numpy()
    rows = [onp.stack([v, 2 * v]) for v in x]
    for m, i in zip(rows, (1, 0), strict=True):
        m[i, 1:] = 7.0
    onp.testing.assert_array_equal(found, [[m.sum(), m[i].sum()] for m, i in zip(rows, (1, 0), strict=True)])


def test_a_0d_array_as_index_copies_and_an_integer_views() -> None:
    a = dnp.zeros((2, 3))
    a[onp.array(1)][0] = 5.0  # 0-d arrays pick, as all arrays do
    a[dnp.array(1)][0] = 5.0
    assert not a.numpy().any()
    a[onp.int64(1)][0] = 5.0
    a[dnp.array(0) + 0][1] = 6.0  # what is computed stands for NumPy's scalars (see Note [Scalars])
    assert a.tolist() == [[0.0, 6.0, 0.0], [5.0, 0.0, 0.0]]


def test_a_computed_index_is_a_view_on_torchs_class_too() -> None:
    def late(x: Any) -> Any:
        m = ndgrad.stack([x, 2 * x])
        r = m[m[:, 0].argmax()]
        m.mul_(3.0)
        return (r * r).sum()

    x = ndgrad.tensor(START.tolist(), dtype=ndgrad.float64, requires_grad=True)
    late(x).backward()
    onp.testing.assert_allclose(x.grad.numpy(), 72.0 * START)
    onp.testing.assert_allclose(func.grad(late)(x.detach()).numpy(), 72.0 * START)


@pytest.mark.parametrize("rows", [[0, 1], onp.array([1, 0, 0])], ids=["list", "array"])
def test_rows_picked_from_a_batch_lie_as_numpys_do_so_their_reshape_is_a_view(rows: Any) -> None:
    def write_part(x: Any) -> Any:
        t = x[rows]
        t.reshape(-1)[1] = 0.7
        return t

    x = onp.arange(8.0).reshape(2, 2, 2)
    found = func.vmap(write_part)(dnp.array(x))
    onp.testing.assert_array_equal(onp.asarray(found), onp.stack([write_part(sample.copy()) for sample in x]))


@pytest.mark.parametrize(
    "with_dimensions",
    [dnp.ravel, dnp.atleast_1d, dnp.atleast_2d, dnp.atleast_3d, lambda s: dnp.reshape(s, (1, 1)), lambda s: dnp.reshape(s, 1, order="F"),
     lambda s: dnp.expand_dims(s, 0), lambda s: s[None], lambda s: s[..., None], lambda s: s.reshape(-1)],
)  # fmt: skip
def test_what_gives_a_number_dimensions_copies_it(with_dimensions):
    x = dnp.array([1.0, 2.0]).requires_grad_()
    s = dnp.sum(x)
    v = with_dimensions(s)
    v *= v
    assert float(s.detach()) == 3
    (v.sum() + 10 * s).backward()
    assert x.grad.tolist() == [16, 16]


# ----- arrays without dimensions as indices ----------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "a[i]": lambda a, i: a[i],
    "a[i, ...]": lambda a, i: a[i, ...],
    "a[:, i]": lambda a, i: a[:, i],
    "a[None, i]": lambda a, i: a[None, i],
    "a[i, 1:]": lambda a, i: a[i, 1:],
    "a[i, i]": lambda a, i: a[i, i],
}
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda np: np.array(1),
    "asarray": lambda np: np.asarray(1),
    "zeros": lambda np: np.zeros((), int),
    "plain": lambda np: onp.array(1),
    "computed": lambda np: np.array(0) + 1,
    "argmax": lambda np: np.argmax(np.array([1.0, 3.0, 2.0])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("integer", INTEGERS)
def test_an_array_without_dimensions_copies_what_a_scalar_views(integer: str, form: str) -> None:
    def f(np: Any, x: Any) -> Any:
        a = x * 1.0
        part = FORMS[form](a, INTEGERS[integer](np))
        a[...] = -7.0
        return (part * part).sum()

    x = onp.arange(1.0, 13.0).reshape(3, 4)
    expected = f(onp, x)
    array = dnp.array(x)
    ours = lambda t: f(dnp, t)
    assert float(ours(array)) == expected
    assert float(func.vjp(ours, array)[0]) == expected
    assert float(func.jvp(ours, (array,), (array,))[0]) == expected
    assert func.vmap(ours)(dnp.stack([array, array])).tolist() == [expected] * 2
    assert float(func.functionalize(ours)(array)) == expected
    assert float(ndgrad.lift(lambda t: f(onp, t))(array)) == expected
