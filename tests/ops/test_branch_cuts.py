"""Derivatives on branch cuts: the sign of a zero selects the side, and value and slope belong to the same side."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func

PARTS = (-2.0, -0.5, -0.0, 0.0, 0.5, 2.0)
POINTS = [complex(a, b) for a in PARTS for b in PARTS if a == 0 or b == 0]


def add_step(z: complex, step: complex) -> complex:
    """Take a step that leaves the other part unchanged, including the sign of its zero."""
    return complex(z.real + step.real if step.real else z.real, z.imag + step.imag if step.imag else z.imag)


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sqrt", "log", "log1p", "log2", "log10"])
def test_slope_is_of_the_side_that_the_value_is_of(name: str) -> None:
    f = getattr(np, name)
    with np.errstate(all="ignore"):
        for z in POINTS:
            for direction in (1.0, 1j):
                step = 1e-6 * direction
                if (direction == 1j and z.imag == 0) or (direction == 1.0 and z.real == 0):
                    continue  # a step across the cut, or away from it, can change the side
                slope = (f(add_step(z, step)) - f(add_step(z, -step))) / 2e-6
                if not np.isfinite(slope) or abs(slope) > 1e3:
                    continue
                found = func.jvp(lambda t: f(t), (dnp.array(z),), (dnp.array(complex(direction)),))[1].item()
                assert found == pytest.approx(slope, rel=1e-5, abs=1e-8), (name, z, direction)
                x = dnp.array(z).requires_grad_()
                f(x).backward(dnp.array(1.0 + 0j))
                assert x.grad.item() == pytest.approx(np.conj(slope / direction), rel=1e-5, abs=1e-8), (name, z)


@pytest.mark.parametrize("name", ["arcsin", "arccos"])
def test_real_numbers_beyond_the_domain(name: str) -> None:
    f = getattr(np.emath, name)
    ours = getattr(dnp.emath, name)
    for at in (2.0, -2.0):
        slope = (f(at + 1e-6) - f(at - 1e-6)) / 2e-6
        assert func.jvp(ours, (dnp.array(at),), (dnp.array(1.0),))[1].item() == pytest.approx(slope, rel=1e-6)
        assert func.grad(lambda x: ours(x).imag)(dnp.array(at)).item() == pytest.approx(slope.imag, rel=1e-6)
    assert ndgrad.func.grad(lambda x: ours(x))(dnp.array(0.5)).item() == pytest.approx((f(0.5 + 1e-6) - f(0.5 - 1e-6)) / 2e-6, rel=1e-6)
