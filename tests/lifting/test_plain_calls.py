"""Calls of lifted functions without derivatives, which run the original on NumPy, compared with the lifted code."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import zlib

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp

#: Buffers that programs make; in a plain call they are NumPy's, in lifted code Arrays.
made: list[object] = []
scale: object = 2.0
table: list[object] = [1.0, 2.0]
count = 0


def is_plain(f, *args):
    """True if a call of a lifted function runs the original."""
    made.clear()
    f(*args)
    return all(type(m) is np.ndarray for m in made)


def without_plain_calls(f):
    """Lift a function whose calls always run lifted code: a program with a replaced function."""
    return ndgrad.lift(f, replace={zlib.crc32: zlib.adler32})


def buffer(n):
    u = np.zeros(n)
    made.append(u)
    return u


def oscillator(k, n=6):
    x = buffer(n)
    x[:2] = 1.0
    for i in range(2, n):
        x[i] = 2 * x[i - 1] - x[i - 2] - k / 2.0 * x[i - 1]
    return x


def records(k):
    u = buffer(3)
    u[1] = k
    return u, u[1], float(u[1]), [u[0], {"a": u[:2]}], u > 0, np.int64(3), "text", None, math.sin(k), u.sum() > 0


def scaled(x):
    return buffer(1)[0] + x * scale


def from_table(x):
    return buffer(1)[0] + x * table[1]


def count_calls(x):
    global count
    count += 1
    return x + count


@dataclasses.dataclass
class Spring:
    stiffness: object
    history: list = dataclasses.field(default_factory=list)

    def force(self, x):
        f = buffer(2)
        f[0] = -self.stiffness * x
        self.history.append(float(x))
        return f[0]


def classes(v):
    if isinstance(v, (list, tuple)):
        return [classes(i) for i in v]
    return {k: classes(i) for k, i in v.items()} if isinstance(v, dict) else type(v)


@pytest.mark.parametrize("f", [oscillator, records], ids=["buffer", "containers"])
def test_results_are_those_of_lifted_code(f):
    plain, general = ndgrad.lift(f), without_plain_calls(f)
    for k in (0.3, dnp.array(0.3)):
        assert is_plain(plain, k)
        assert not is_plain(general, k)
        assert repr(plain(k)) == repr(general(k))
        assert classes(plain(k)) == classes(general(k))


def test_arguments_with_derivatives_run_lifted_code():
    f = ndgrad.lift(oscillator)
    assert is_plain(f, 0.3)
    k = dnp.array(0.3).requires_grad_()
    assert not is_plain(f, k)
    f(k).sum().backward()
    slope = (oscillator(0.3 + 1e-6).sum() - oscillator(0.3 - 1e-6).sum()) / 2e-6
    assert abs(k.grad.item() - slope) < 1e-6
    with ndgrad.no_grad():
        assert is_plain(f, 0.3)
        assert not is_plain(f, k)


def test_transforms_run_lifted_code():
    f = ndgrad.lift(oscillator)
    x = dnp.array([0.1, 0.3])
    rows = ndgrad.func.vmap(f)(x)
    assert np.allclose(rows, [oscillator(0.1), oscillator(0.3)])
    # Inside a transform even constants take the general path.
    assert not ndgrad.func.grad(lambda t: t * is_plain(f, 0.3))(dnp.array(1.0))


def theta():
    return dnp.array(3.0).requires_grad_()


def test_a_tensor_in_a_closure_or_default_is_found():
    t = theta()

    def closure(x):
        return buffer(1)[0] + x * t

    def default(x, t=t):
        return buffer(1)[0] + x * t

    def keyword(x, *, t=t):
        return buffer(1)[0] + x * t

    def nested(x):
        return next((lambda: closure(v))() for v in (x,))

    for f in (closure, default, keyword, nested, functools.partial(default, 2.0)):
        t.grad = None
        f = ndgrad.lift(f)
        (f() if isinstance(getattr(f, "__lifts__", f), functools.partial) else f(2.0)).backward()
        assert t.grad.item() == 2.0


def test_a_tensor_in_a_global_is_found_when_it_appears(monkeypatch):
    for name, value, f in (
        ("scale", lambda t: t, scaled),
        ("table", lambda t: [1.0, t], from_table),
        ("table", lambda t: collections.deque([1.0, t]), from_table),
        ("table", lambda t: collections.defaultdict(float, {1: t}), from_table),
    ):
        with monkeypatch.context() as patch:
            lifted, t = ndgrad.lift(f), theta()
            assert is_plain(lifted, 2.0)
            patch.setitem(globals(), name, value(t))
            lifted(2.0).backward()
            assert t.grad.item() == 2.0
        assert is_plain(lifted, 2.0)


def test_a_tensor_that_enters_a_container_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "table", [1.0, 2.0])
    lifted, t = ndgrad.lift(from_table), theta()
    assert is_plain(lifted, 2.0)
    table[1] = 5.0
    assert is_plain(lifted, 2.0)
    assert lifted(2.0) == 10.0
    table[1] = t
    lifted(2.0).backward()
    assert t.grad.item() == 2.0


def test_a_tensor_in_an_attribute_is_found():
    spring = Spring(2.0)
    force = ndgrad.lift(spring.force)
    assert is_plain(force, 1.5)
    assert force(1.5) == -3.0
    assert spring.history == [1.5, 1.5]
    spring.stiffness = 4.0
    assert is_plain(force, 1.5)
    spring.stiffness = t = theta()
    force(1.5).backward()
    assert t.grad.item() == -1.5


def test_a_tensor_in_a_class_attribute_is_found():
    class Config:
        gain: object = 2.0

    def f(x):
        return buffer(1)[0] + x * Config.gain

    lifted, t = ndgrad.lift(f), theta()
    assert is_plain(lifted, 2.0)
    Config.gain = t
    lifted(2.0).backward()
    assert t.grad.item() == 2.0


def test_arguments_that_are_functions_or_objects_are_searched():
    def apply(f, x):
        return buffer(1)[0] + f(x)

    t = theta()
    lifted = ndgrad.lift(apply)
    assert is_plain(lifted, lambda v: v**2, 3.0)
    assert is_plain(lifted, Spring(2.0).force, 3.0)
    lifted(lambda v: v * t, 2.0).backward()
    assert t.grad.item() == 2.0
    lifted(Spring(t).force, 2.0).backward()
    assert t.grad.item() == 0.0


def test_names_assigned_by_the_program_stay_with_it():
    lifted = ndgrad.lift(count_calls)
    assert lifted(1.0) == 2.0
    assert lifted(1.0) == 3.0
    assert count == 0


def test_a_returned_function_is_lifted():
    def maker(k):
        def inner(x):
            u = np.zeros(1)
            u[0] = k * x
            return u[0]

        return inner

    t = theta()
    ndgrad.lift(maker)(2.0)(t).backward()
    assert t.grad.item() == 2.0


def test_an_argument_is_returned_as_itself_and_its_parts_as_views():
    def parts(x):
        return x, x[1:], x[::-1], x.T

    x = dnp.arange(4.0)
    same, tail, back, turned = ndgrad.lift(parts)(x)
    assert same is x
    t = theta()
    tail[0] = t  # a view: the value is in x too
    assert [v.detach().tolist() for v in (x, back, turned)] == [[0, 3, 2, 3], [3, 2, 3, 0], [0, 3, 2, 3]]
    (2 * x[1]).backward()
    assert t.grad.item() == 2.0


def test_a_write_to_an_argument_that_a_graph_needs_keeps_the_gradient():
    def fill(x):
        x[:] = 100.0
        return x.sum()

    x, w = dnp.array([1.0, 2.0]), dnp.array([3.0, 3.0]).requires_grad_()
    loss = (x * w).sum()
    assert ndgrad.lift(fill)(x) == 200.0
    assert x[0] == 100.0
    loss.backward()
    assert w.grad.tolist() == [1.0, 2.0]


def test_zero_dimensional_arguments_are_numbers_of_numpy():
    def shift(x):
        x += 1
        return x

    z = dnp.array(1.0)
    assert ndgrad.lift(shift)(z) == without_plain_calls(shift)(z) == 2.0
    assert z == 1.0


def test_a_list_of_arrays_keeps_changes():
    def put(items):
        items[0][0] = 7.0
        items.append(1.0)

    items = [dnp.zeros(2)]
    ndgrad.lift(put)(items)
    assert items[0][0] == 7.0
    assert items[1] == 1.0


def test_a_generator_runs_as_lifted_code():
    def steps(x):
        u = np.zeros(1)
        while True:
            t = yield u[0] + x
            u[0] = t

    run, t = ndgrad.lift(steps)(1.0), theta()
    next(run)
    run.send(t * 2).backward()
    assert t.grad.item() == 2.0
