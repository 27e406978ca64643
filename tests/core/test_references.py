"""Reference counts: measured, used only if they are reliable, and never able to change a value."""

from __future__ import annotations

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as np
from ndgrad._src.core import references, versions
from ndgrad._src.engine.accumulate import counts


class Doubled(ndgrad.autograd.Function):
    """Twice its input; notes the address of the gradient that it makes, and holds it if `held` is a list."""

    held: list | None = None
    place = 0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        made = g * 2
        Doubled.place = made._array.__array_interface__["data"][0]
        if Doubled.held is not None:
            Doubled.held.append(made._array)
        return made


def place_of_gradient(hook=False):
    x = ndgrad.ones(5, dtype=ndgrad.float64, requires_grad=True)
    if hook:
        x.register_hook(lambda g: None)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 5
    return x.grad._array.__array_interface__["data"][0]


@pytest.fixture
def held_gradients(monkeypatch):
    found = []
    monkeypatch.setattr(Doubled, "held", found)
    return found


@pytest.mark.skipif(not references.COUNTS, reason="without the interpreter lock nothing is stolen")
def test_a_gradient_that_nobody_holds_becomes_the_leafs_grad():
    assert place_of_gradient() == Doubled.place


@pytest.mark.parametrize("hook", [False, True])
def test_a_gradient_with_another_reference_is_copied(held_gradients, hook):
    assert place_of_gradient(hook) != Doubled.place
    assert held_gradients[0].tolist() == [2.0] * 5


@pytest.mark.parametrize("hook", [False, True])
def test_where_counts_say_nothing_gradients_are_copied(monkeypatch, hook):
    monkeypatch.setattr(counts, "array", 0)
    monkeypatch.setattr(counts, "tensor", 0)
    assert place_of_gradient(hook) != Doubled.place


def test_a_count_that_does_not_tell_one_holder_from_two_is_not_used():
    assert references.calibrate(lambda: 2, lambda: 3) == (2 if references.COUNTS else 0)
    assert references.calibrate(lambda: 2, lambda: 2) == 0  # immortal objects, deferred counts
    assert references.calibrate(lambda: 2, lambda: 5) == 0


@pytest.mark.parametrize("known", [True, False])
def test_saved_values_survive_writes_whatever_counts_say(monkeypatch, known):
    if not known:
        monkeypatch.setattr(versions, "ATTRIBUTE", 0)
        monkeypatch.setattr(versions, "LOCAL", 0)
    x = np.array([1.0, 2.0, 3.0])
    x.requires_grad_()
    u = x * 1
    total = np.zeros(())
    for i in range(3):
        total = total + (u * u).sum()
        u[i] = 10.0 * i
    total.backward()
    # x0 is in the first sum, x1 in two, x2 in all three.
    onp.testing.assert_allclose(x.grad, [2.0, 8.0, 18.0])
