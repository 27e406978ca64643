"""Size: a tuple with torch's manners."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgrad._src.foundations.sizes import Size, size_of_shape

shapes = st.lists(st.integers(0, 9), max_size=5).map(tuple)


@given(shapes)
def test_is_a_tuple(shape: tuple[int, ...]) -> None:
    size = Size(shape)
    assert size == shape
    assert hash(size) == hash(shape)
    assert list(size) == list(shape)
    assert np.zeros(size).shape == shape
    assert size_of_shape(shape) == size
    assert type(size_of_shape(shape)) is Size


@given(shapes)
def test_numel_is_the_number_of_elements(shape: tuple[int, ...]) -> None:
    assert Size(shape).numel() == np.empty(shape, "i1").size


@given(shapes, st.slices(5))
def test_slices_are_sizes_and_items_are_ints(shape: tuple[int, ...], part: slice) -> None:
    size = Size(shape)
    assert size[part] == shape[part]
    assert type(size[part]) is Size
    for i in range(-len(shape), len(shape)):
        assert size[i] == shape[i]
        assert type(size[i]) is int


@given(shapes, shapes, st.integers(0, 3))
def test_sums_and_products_are_sizes(a: tuple[int, ...], b: tuple[int, ...], n: int) -> None:
    for sum_ in (Size(a) + b, a + Size(b), Size(a) + Size(b)):
        assert sum_ == a + b
        assert type(sum_) is Size
    for product in (Size(a) * n, n * Size(a)):
        assert product == a * n
        assert type(product) is Size


def test_concatenation_with_a_list_is_refused_as_for_tuples() -> None:
    with pytest.raises(TypeError):
        Size([1]) + [2]
    with pytest.raises(TypeError):
        [2] + Size([1])


def test_repr_is_torchs_with_our_name() -> None:
    assert repr(Size([2, 3])) == str(Size((2, 3))) == "ndgrad.Size([2, 3])"
    assert repr(Size()) == "ndgrad.Size([])"


def test_integers_of_every_kind_become_ints() -> None:
    size = Size([np.int64(2), True, np.array(3)])
    assert size == (2, 1, 3)
    assert {type(n) for n in size} == {int}


def test_what_is_no_integer_is_refused_with_its_place() -> None:
    with pytest.raises(TypeError, match=r"Size\(\) got float 1\.5 as item 1 of \(2, 1\.5\).*int\(\)"):
        Size([2, 1.5])
    with pytest.raises(TypeError, match=r"Size\(\) got str 'a' as item 0"):
        Size("ab")
    with pytest.raises(TypeError, match=r"item 1 of \(1, 'a'\)"):
        Size([1]) + ("a",)
    with pytest.raises(TypeError, match=r"item 0"):
        Size([np.array([1, 2])])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_as_a_size(protocol: int) -> None:
    size = Size([2, 3])
    for again in (pickle.loads(pickle.dumps(size, protocol)), copy.copy(size), copy.deepcopy(size)):
        assert again == size
        assert type(again) is Size
