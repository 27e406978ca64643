"""Ragged sizes and layouts: equality by lengths, and errors if a ragged size is used as a number."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays.jagged import JaggedData, Layout, ragged_size


def test_equal_lengths_are_one_size_and_have_one_name():
    a, b = ragged_size([2, 3]), ragged_size(np.array([2, 3], np.int32))
    assert a is b
    assert repr(a) == repr(b)
    assert hash(a) == hash(pickle.loads(pickle.dumps(a)))
    assert a == pickle.loads(pickle.dumps(a))
    assert a != ragged_size([3, 2])


def test_a_size_is_freed_with_its_last_tensor():
    first = ragged_size([5, 7, 11])
    number = first.number
    del first
    assert ragged_size([5, 7, 11]).number != number


def test_a_ragged_size_is_no_number():
    j = ragged_size([2, 4])
    for wrong in (int, float, lambda j: j + 1, lambda j: range(j), lambda j: np.zeros((2, j)), lambda j: [0, 1][j], lambda j: 6 / j):
        with pytest.raises(TypeError):
            wrong(j)
    with pytest.raises(TypeError, match="RaggedSize"):
        ndgrad.zeros(2, j)


def test_comparisons_are_torchs():
    j = ragged_size([2, 4])
    assert j >= 2
    assert j > 1
    assert not j < 2
    assert not j <= 1
    assert j != 2
    assert j >= j
    assert not j > j
    for compare in (lambda: j > 2, lambda: j < 5, lambda: j >= ragged_size([1, 1])):
        with pytest.raises(ValueError, match=r"indeterminate.*\(2, 4\)"):
            compare()
    assert j * 2 == 2 * j != j
    assert j * 1 is j


def test_sizes_of_a_shape_stay_ragged_under_slicing_and_concatenation():
    j = ragged_size([2, 4])
    shape = ndgrad.Size((2, j, 3))
    assert shape[:2] + (5,) == (2, j, 5)
    assert (7, *shape) == (7, 2, j, 3)


@pytest.mark.parametrize("lengths", [[2, 0, 3], [1], [4, 4], [0, 0]])
def test_groups_hold_every_component_once_with_its_rows(lengths):
    size = ragged_size(lengths)
    found = {}
    for n, which, rows in size.groups:
        for place, component in enumerate(which):
            found[int(component)] = rows[place * n : (place + 1) * n].tolist()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    assert found == {i: list(range(offsets[i], offsets[i + 1])) for i in range(len(lengths))}
    assert size.components.tolist() == [i for i, n in enumerate(lengths) for _ in range(n)]
    assert size.positions.tolist() == [p for n in lengths for p in range(n)]


def test_numpy_does_not_take_the_payload_for_an_array():
    data = JaggedData(Layout(ragged_size([1, 2])), np.ones((3, 2)))
    with pytest.raises(TypeError, match="to_padded_tensor"):
        np.asarray(data)
    with pytest.raises(TypeError):
        np.sin(data)
    with pytest.raises(AttributeError, match="'strides'"):
        data.strides
    assert (data.ndim, data.size, data.nbytes) == (3, 6, 48)
