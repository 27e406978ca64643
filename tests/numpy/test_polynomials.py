"""Polynomials by their roots: when coefficients are real."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.numpy as dnp
from ndgrad import func, lift

scipy_signal = pytest.importorskip("scipy.signal")


def test_coefficients_of_conjugate_roots_are_real_as_in_numpy():
    """The derivative is that of the real parts: exact for a pair that moves together."""
    roots = np.array([1.0 + 2.0j, 1.0 - 2.0j])
    assert dnp.poly(roots).dtype == np.float64
    assert dnp.poly(dnp.array(roots).requires_grad_()).dtype == np.float64
    moved = func.jvp(dnp.poly, (dnp.array(roots),), (dnp.array([1.0 + 0.0j, 0.0]),))[1]
    step = lambda h: np.poly(roots + np.array([h, 0.0]))
    np.testing.assert_allclose(moved.numpy(), ((step(1e-6) - step(-1e-6)) / 2e-6).real, atol=1e-9)
    together = func.jvp(lambda t: dnp.poly(dnp.stack([1.0 + 1j * t, 1.0 - 1j * t])), (dnp.array(2.0),), (dnp.array(1.0),))[1]
    np.testing.assert_allclose(together.numpy(), [0.0, 0.0, 4.0], atol=1e-12)
    matrix = np.array([[0.0, -2.0], [2.0, 0.3]])
    assert dnp.poly(dnp.array(matrix).requires_grad_()).dtype == np.float64


def test_a_filter_designed_from_a_parameter_has_real_coefficients():
    signal = np.sin(np.arange(30.0))

    def response(cutoff):
        b, a = scipy_signal.butter(3, cutoff)
        return scipy_signal.lfilter(b, a, signal)[-5]

    found = func.grad(lift(response))(dnp.array(0.3))
    np.testing.assert_allclose(found, (response(0.3 + 1e-6) - response(0.3 - 1e-6)) / 2e-6, rtol=1e-6)
