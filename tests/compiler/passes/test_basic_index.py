"""Basic indices in one form, against NumPy on every index of a small array."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ndgrad._src.compiler.passes.basic_index import are_disjoint, compose, is_whole, places, relative_to, shape_of, to_setting

SLICES = [slice(a, b, s) for a in (None, 0, 1, -2) for b in (None, 3, -1) for s in (None, 2, -1)]
INDICES: list[Any] = [(i,) for i in (*SLICES, 0, -1, 2)]
PAIRS = [(a, b) for a, b in itertools.product([*SLICES[::3], 0, -1], [slice(None), slice(1, 3), 1])]


def _places(index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    found = places(index, shape)
    assert found is not None
    return found


@pytest.mark.parametrize("index", [*INDICES, *PAIRS, (Ellipsis, 1), (), (None, 1, None)], ids=str)
def test_the_form_shows_the_same(index: Any) -> None:
    x = np.arange(20).reshape(4, 5)
    found = _places(index, x.shape)
    shown = x[to_setting(found)]
    assert shown.shape == shape_of(found)
    np.testing.assert_array_equal(shown.reshape(x[index].shape), x[index])
    assert is_whole(found, x.shape) == (shown.shape == x.shape and (shown == x).all())


def test_no_basic_index_has_no_form() -> None:
    assert places((np.array([0, 1]),), (4,)) is None
    assert places((True,), (4,)) is None


def test_indices_of_what_indices_show() -> None:
    x = np.arange(20).reshape(4, 5)
    for first, second in itertools.product(PAIRS, [*INDICES, (slice(0, 1), slice(0, 1))]):
        a = _places(first, x.shape)
        shown = x[to_setting(a)]
        try:
            expected = shown[second]
        except IndexError:
            continue
        np.testing.assert_array_equal(x[to_setting(compose(a, _places(second, shown.shape)))], expected)


def test_two_indices_meet_or_contain_one_another_as_their_elements_do() -> None:
    x = np.arange(20).reshape(4, 5)
    every = [_places(i, x.shape) for i in (*INDICES, *PAIRS)]
    inside = 0
    for a, b in itertools.product(every, every):
        first, second = set(x[to_setting(a)].ravel().tolist()), set(x[to_setting(b)].ravel().tolist())
        assert are_disjoint(a, b) == (not first & second)
        part = relative_to(a, b)
        if part is not None:
            inside += 1
            np.testing.assert_array_equal(x[to_setting(b)][to_setting(part)], x[to_setting(a)])
            assert first <= second
    assert inside > 500
