"""Nested tensors in files: they come back whole, and a damaged file says so."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import ndgrad
from ndgrad.nested.files import from_parts, parts_of
from tests.nested.components import arrays, nested


@pytest.mark.parametrize("trusted", [False, True])
def test_saved_and_loaded(trusted):
    x = nested(arrays(3), True)
    cut = ndgrad.nested.narrow(ndgrad.arange(12.0).reshape(2, 3, 2), 1, 0, ndgrad.tensor([1, 2]), layout=ndgrad.jagged)
    file = io.BytesIO()
    ndgrad.save({"x": x, "y": [(x * 2).transpose(1, 2), cut]}, file)
    file.seek(0)
    read = ndgrad.load(file, weights_only=not trusted)
    assert read["x"].requires_grad
    assert read["x"].is_leaf
    assert ndgrad.equal(read["x"], x)
    turned, again = read["y"]
    assert not turned.requires_grad
    assert ndgrad.equal(turned, (x * 2).transpose(1, 2))
    assert again.lengths().tolist() == [1, 2]
    assert ndgrad.equal(again, cut)


def test_a_module_with_a_nested_buffer_keeps_it():
    module = ndgrad.nn.Module()
    module.register_buffer("table", nested(arrays(2)))
    file = io.BytesIO()
    ndgrad.save(module.state_dict(), file)
    file.seek(0)
    assert ndgrad.equal(ndgrad.load(file)["table"], module.table)


GOOD = parts_of(nested([[1.0, 2.0], [3.0]]))
DAMAGED = {
    "no dict": [1],
    "nothing": {},
    "no values": {**GOOD, "values": None},
    "no offsets": {**GOOD, "offsets": None},
    "offsets beyond": {**GOOD, "offsets": ndgrad.tensor([0, 2, 9])},
    "offsets of fractions": {**GOOD, "offsets": ndgrad.tensor([0.0, 2.0, 3.0])},
    "lengths beyond": {**GOOD, "lengths": ndgrad.tensor([2, 5])},
    "another dimension": {**GOOD, "_ragged_idx": 7},
    "a word": {**GOOD, "_ragged_idx": "one"},
    "a leaf of integers": {**GOOD, "values": ndgrad.tensor([1, 2, 3]), "requires_grad": True},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_an_error(name):
    with pytest.raises(pickle.UnpicklingError, match="damaged"):
        from_parts(DAMAGED[name])
    np.testing.assert_array_equal(from_parts(GOOD).values().numpy(), [1.0, 2.0, 3.0])
