"""Texts of Arrays: NumPy's, and whether a gradient is required."""

from __future__ import annotations

import numpy

import ndgrad.numpy as np


def test_repr_is_that_of_numpy_without_gradients():
    plain = numpy.linspace(0, 1, 5, dtype="f")
    assert repr(np.array(plain)) == repr(plain)


def test_repr_shows_that_a_gradient_is_required():
    x = np.array([1.0, 2.0]).requires_grad_()
    assert repr(x) == "array([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "array([2., 4.], requires_grad=True)"
    assert repr(np.array(3.0, dtype="f").requires_grad_()) == "array(3., dtype=float32, requires_grad=True)"
    assert str(x) == "[1. 2.]"
    assert repr(x.detach()) == "array([1., 2.])"


def test_repr_breaks_long_lines():
    lines = repr(np.linspace(0, 1, 8).requires_grad_()).splitlines()
    assert lines[-1].endswith("requires_grad=True)")
    assert max(map(len, lines)) <= 75
