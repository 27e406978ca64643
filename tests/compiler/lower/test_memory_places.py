"""Places of values: views stay inside of the memory of their roots, and copies are no views."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.compiler.lower.memory_places import whole
from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad._src.ops import triangle, window  # noqa: F401  # the table has their ops
from ndgrad._src.ops.table import table

SHAPE = (64, 16_385)


def view(name, dtype, shape, settings):
    value = Value(SHAPE, np.dtype(dtype))
    result = Value(shape, value.dtype)
    return whole(value).viewed(Instruction(table[name], (value,), settings, (result,)), 0)


def test_an_array_with_addresses_inside_of_a_place_is_no_view_of_it():
    def copies_memory(a):
        return np.lib.stride_tricks.as_strided(np.zeros(1, a.dtype), a.shape, a.strides)

    assert whole(Value(SHAPE, np.dtype("F"))).apply_view(copies_memory) is None


def test_a_complex_conjugate_is_computed_and_a_real_one_is_the_value(monkeypatch):
    monkeypatch.setattr(type(table["conj"]), "forward_for", lambda *args: pytest.fail("the place has no memory to read"))
    assert view("conj", "F", SHAPE, {}) is None
    assert view("conj", "f", SHAPE, {}).is_whole


@pytest.mark.parametrize(
    ("name", "settings", "shape"),
    [
        ("permute", {"dims": (1, 0)}, SHAPE[::-1]),
        ("slice", {"dim": 1, "start": 3, "stop": 16_000, "step": 2}, (64, 7999)),
        ("select", {"dim": 0, "index": 63}, SHAPE[1:]),
        ("diagonal", {"offset": 1, "dim0": 0, "dim1": 1}, (64,)),
        ("expand", {"shape": (2, *SHAPE)}, (2, *SHAPE)),
        ("unsqueeze", {"dim": 1}, (64, 1, 16_385)),
        ("unfold", {"dim": 1, "width": 5, "step": 4}, (64, 4096, 5)),
        ("reshape", {"shape": (16_385, 64)}, (16_385, 64)),
    ],
)
def test_views_are_places_inside_of_their_roots(name, settings, shape):
    place = view(name, "F", shape, settings)
    assert place.shape == shape
    last = place.offset + sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True))
    assert 0 <= place.offset <= last < place.root.size
    elements = np.arange(place.root.size).reshape(SHAPE)
    item = elements.itemsize
    shown = np.lib.stride_tricks.as_strided(elements.reshape(-1)[place.offset :], place.shape, [s * item for s in place.strides])
    assert np.array_equal(shown, table[name].forward_for(np)(elements, **settings))
