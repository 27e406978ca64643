"""Searches by bisection inside functions of a program: no derivative of their steps is returned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp


def _by_branches(p: Any) -> Any:
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle**3 < p:
            low = middle
        else:
            high = middle
    return middle


def _by_where(p: Any) -> Any:
    low, high = np.zeros(2), np.full(2, 10.0)
    for _ in range(60):
        middle = low + (high - low) / 2
        below = middle**3 < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return middle.sum()


def _by_copyto(p: Any) -> Any:
    low, high = np.zeros(1), np.full(1, 10.0)
    middle = (low + high) / 2
    while high[0] - low[0] > 1e-9:
        below = middle**3 < p
        np.copyto(low, middle, where=below)
        np.copyto(high, middle, where=~below)
        np.copyto(middle, (low + high) / 2)
    return middle[0]


@pytest.mark.parametrize("search", [_by_branches, _by_where, _by_copyto])
def test_a_search_by_bisection_is_refused_with_a_derivative_only(search: Any) -> None:
    assert float(ndgrad.lift(search)(dnp.array(8.0))) == pytest.approx(search(8.0))
    with pytest.raises(TypeError, match=r"searches by bisection.*replace=\{"):
        ndgrad.lift(search)(dnp.array(8.0).requires_grad_())


def _bracketed(f: Any, low: float, high: float) -> Any:
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return middle


def _newton_with_bisection(p: Any) -> Any:
    low, high, x = 0.0, 10.0, 5.0
    for _ in range(40):
        if x**3 < p:
            low = x
        else:
            high = x
        x = x - (x**3 - p) / (3 * x**2)
        if not low <= x <= high:
            x = (low + high) / 2
    return x


def _means(p: Any) -> Any:
    a, g = p, 1.0
    for _ in range(8):
        a, g = (a + g) / 2, math.sqrt(a * g)
    return a


@pytest.mark.parametrize("f", [lambda p: _bracketed(lambda x: x**3 - p, 0.0, 10.0), _newton_with_bisection, _means])
def test_searches_with_a_known_derivative_are_differentiated(f: Any) -> None:
    expected = (f(8.0 + 1e-5) - f(8.0 - 1e-5)) / 2e-5
    assert float(ndgrad.func.grad(ndgrad.lift(f))(dnp.array(8.0))) == pytest.approx(expected, rel=1e-6)
