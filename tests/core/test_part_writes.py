"""Writes of parts, `x[index] = value`: the direct way compared with the general one, which a mode selects."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.core.modes import process
from ndgrad._src.core.part_writes import PartWrite
from ndgrad._src.core.view import CopySlices
from ndgrad.autograd.graph import saved_tensors_hooks


@contextlib.contextmanager
def general():
    """Put a mode without an effect in force: hooks that return what they get."""
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        yield


def recurrence(k):
    x = dnp.zeros(7)
    x[:2] = k
    for i in range(2, 7):
        x[i] = 2 * x[i - 1] - k * x[i - 2] * x[i - 1]
    return x.sum()


def rows(k):
    x = dnp.ones((4, 3))
    x[0] = k * dnp.arange(3.0)
    x[1, 1] = k**2
    x[2:, ::2] = k
    x[-1, 0] = 4.0
    x[1:3] = x[0] * x[1]
    return (x * x).sum()


def reads_before_writes(k):
    x = k * dnp.arange(1.0, 5.0)
    y = x * x
    x[1] = k**3
    z = x * y
    x[2:] = 1.0
    return (z + x).sum()


def own_part(k):
    x = dnp.ones(5) * k
    x[1:-1] += k * (x[2:] - 2 * x[1:-1] + x[:-2])
    x[0] *= k
    return (x**3).sum()


def overlapping(k):
    x = k * dnp.arange(1.0, 6.0)
    x[1:] = x[:-1] * 2
    x[:3] = x[2:]
    return (x**2).sum()


def large(k):
    x = dnp.zeros(2000)
    for i in range(3):
        x[i] = k**i
        x[100 + i : 105] = x[i] * 3
    return (x**2).sum()


PROGRAMS = [recurrence, rows, reads_before_writes, own_part, overlapping, large]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_both_ways_have_the_derivatives_of_the_program(f):
    steps = 1e-5 * np.array([-1.0, 0.0, 1.0])
    values = [f(dnp.array(0.7 + h)).item() for h in steps]
    slope, bend = (values[2] - values[0]) / 2e-5, (values[2] - 2 * values[1] + values[0]) / 1e-10

    def derivatives():
        k = dnp.array(0.7).requires_grad_()
        y = f(k)
        (first,) = ndgrad.autograd.grad(y, k, create_graph=True)
        (second,) = ndgrad.autograd.grad(first, k)
        return [float(v.detach()) for v in (y, first, second)]

    direct = derivatives()
    with general():
        assert np.allclose(direct, derivatives(), rtol=1e-14)
    assert np.allclose(direct, (values[1], slope, bend), rtol=1e-3)
    k = dnp.array(0.7)
    assert np.allclose(ndgrad.func.grad(f)(k), direct[1], rtol=1e-14)
    assert np.allclose(ndgrad.func.grad(ndgrad.func.grad(f))(k), direct[2], rtol=1e-14)
    assert np.allclose(ndgrad.func.jacfwd(ndgrad.func.grad(f))(k), direct[2], rtol=1e-14)
    assert np.allclose(ndgrad.func.vmap(ndgrad.func.grad(f))(dnp.array([0.7, 0.7])), direct[1], rtol=1e-14)


def test_the_node_shows_the_fields_of_a_general_write(monkeypatch):
    # Some tests switch on features that take the general path for the rest of the process.
    monkeypatch.setattr(process, "busy", process.busy - {"process"})
    monkeypatch.setattr(process, "dispatching", False)
    x, k = dnp.zeros((2, 3)), dnp.array(1.0).requires_grad_()
    x[0, 1:] = k
    node = x.grad_fn
    assert type(node) is PartWrite
    assert isinstance(node, CopySlices)
    assert node.name() == "CopySlices"
    assert node.inner.shape == (2,)
    assert node.path[2] == {"index": (0, slice(1, None))}
    with general():
        y = dnp.zeros((2, 3))
        y[0, 1:] = k
    assert type(y.grad_fn) is CopySlices


@pytest.mark.parametrize("make", [dnp.zeros, ndgrad.zeros], ids=["numpy", "torch"])
def test_a_second_backward_raises(make):
    x = make(3)
    x[0] = make(1).requires_grad_()[0] * 2
    y = x.sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_versions_and_stale_saves_are_those_of_the_general_way():
    x = ndgrad.ones(3)
    x[0] = 2.0
    x[1:] = ndgrad.ones(2)
    assert x._version == 2
    w = ndgrad.ones(3, requires_grad=True)
    y = (w * x).sum()
    x[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize(
    ("index", "value"),
    [(7, 1.0), ((0, 0), 1.0), (slice(0, 2), dnp.ones(3)), (0, dnp.ones(2))],
    ids=["range", "dimensions", "shape", "element"],
)
def test_a_write_that_fails_changes_nothing(index, value):
    x = dnp.zeros(5)
    k = dnp.array(2.0).requires_grad_()
    x[1] = k
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        x[index] = value
    assert x.detach().tolist() == [0.0, 2.0, 0.0, 0.0, 0.0]
    x.sum().backward()
    assert k.grad.item() == 1.0


def test_overwritten_elements_have_exact_zeros():
    a = dnp.array([1.0, 0.0, 4.0]).requires_grad_()
    with np.errstate(all="ignore"):
        y = 1 / a
        y[1] = 0.0
        y.sum().backward()
    assert a.grad.tolist() == [-1.0, 0.0, -1 / 16]


def test_a_leaf_and_its_views_are_refused():
    x = dnp.ones(3).requires_grad_()
    for target in (x, x[1:]):
        with pytest.raises(RuntimeError, match="leaf"):
            target[0] = 2.0


def test_saved_scalars_keep_their_value_after_a_write():
    # NumPy does not allow such writes of its scalars; Arrays do.
    k = dnp.array(3.0).requires_grad_()
    for write in (lambda t: np.add(t, 1.0, out=t), lambda t: t.fill_(7.0), lambda t: t.detach().fill_(7.0)):
        k.grad = None
        x = k * 2.0
        y = x * x * x
        write(x)
        y.backward()
        assert k.grad.item() == 3 * 36.0 * 2

    def f(k):
        x = k * 2.0
        y = x * x * x
        np.multiply(x, k, out=x)
        return y + x

    at = dnp.array(3.0)
    assert ndgrad.func.grad(f)(at) == 3 * 36.0 * 2 + 4 * 3.0
    assert ndgrad.func.grad(ndgrad.func.grad(f))(at) == 48 * 3.0 + 4.0
    k = dnp.array(3.0).requires_grad_()
    (first,) = ndgrad.autograd.grad(f(k), k, create_graph=True)
    assert ndgrad.autograd.grad(first, k)[0] == 48 * 3.0 + 4.0
