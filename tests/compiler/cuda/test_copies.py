"""Copies: which shapes are views, how many elements are taken at a time, and the source of a kernel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ndgrad._src.compiler.cuda.copies import _is_view, _width, source


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 6, 1, 4), (24,), (4, 6)])
def test_views_are_those_of_numpy(shape):
    whole = np.zeros((2, *shape, 2))
    layouts = [np.zeros(shape), whole[0, ..., 0], whole[1, ..., 1], np.zeros(shape[::-1]).T, np.broadcast_to(np.zeros(1), shape)]
    layouts += [np.zeros(shape).transpose(order) for order in itertools.permutations(range(len(shape)))]
    for x in layouts:
        for wanted in [(24,), (2, 12), (4, 6), (2, 3, 4), (3, 1, 8), (6, 2, 2), (4, 3, 2)]:
            assert _is_view(x.shape, x.strides, wanted) == np.shares_memory(x.reshape(wanted), x), (x.shape, x.strides, wanted)


def test_sixteen_bytes_at_a_time_where_both_sides_lie_so():
    assert _width([8, 64], [[64, 1], [128, 1]], (0, 256), (2, 2)) == 8
    assert _width([8, 64], [[64, 1], [128, 1]], (0, 256), (4, 2)) == 4
    assert _width([8, 64], [[64, 1], [128, 1]], (0, 260), (4, 4)) == 1  # not aligned
    assert _width([8, 6], [[6, 1], [6, 1]], (0, 0), (2, 2)) == 2
    assert _width([8, 64], [[64, 1], [1, 8]], (0, 0), (4, 4)) == 1  # a transpose


def test_a_kernel_adds_or_moves():
    added = source("f", "E", 2, 4, True)
    assert "put(t.at[k], wide(t.at[k]) + wide(x.at[k]));" in added
    assert "typedef Pack<float, 4> To; typedef Pack<Brain, 4> From;" in added
    moved = source("l", "l", 1, 2, False)
    assert "t.at[k] = x.at[k];" in moved
    assert "unsigned long long" in moved
