"""Messages of assert_close and results of make_tensor. Another test compares the accepted pairs with torch's."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import ndgrad
from ndgrad.testing import assert_allclose, assert_close, make_tensor


def message(*args, **options):
    with pytest.raises(AssertionError) as caught:
        assert_close(*args, **options)
    return str(caught.value)


def test_message_says_how_many_differ_which_most_and_where():
    text = message({"a": [1, ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])]}, {"a": [1, ndgrad.tensor([[1.0, 2.5], [3.0, 5.0]])]})
    assert "2 of 4 elements differ (50.0%)" in text
    assert "largest absolute difference is 1 at index (1, 1)" in text
    assert "largest relative difference is 0.2 at index (0, 1)" in text
    assert text.endswith("item ['a'][1] [nd-not-close]")


def test_message_of_numbers():
    assert "Expected 2.0 but got 1.0" in message(1.0, 2.0)
    assert "Expected 2.0 but got 1.0" in message(ndgrad.tensor(1.0), ndgrad.tensor(2.0))


def test_message_of_attributes():
    assert "'dtype'" in message(ndgrad.ones(2), ndgrad.ones(2).float())
    assert "'shape'" in message(ndgrad.ones(2), ndgrad.ones(3))
    assert "'stride'" in message(ndgrad.ones(2, 3), ndgrad.ones(3, 2).t(), check_stride=True)
    assert "'device'" in message(ndgrad.ones(2), ndgrad.ones(2, device="meta"))


def test_message_can_be_replaced():
    assert message(1, 2, msg="mine") == "mine"
    assert message(1, 2, msg=lambda text: text[:7] + "!") == "Scalars!"


def test_structures_of_any_kind():
    class Pair(NamedTuple):
        x: Any
        y: Any

    value = OrderedDict(k=Pair(ndgrad.ones(2), (np.ones(3), [None, True, 2 + 1j])))
    assert_close(value, {"k": [ndgrad.ones(2), [np.ones(3), (None, True, 2 + 1j)]]})


def test_large_integers_are_compared_exactly():
    big = 2**62
    assert "1 of 2" in message(ndgrad.tensor([big, 1]), ndgrad.tensor([big + 1, 1]))


def test_unsigned_integers_do_not_wrap_around():
    assert "difference is 1 " in message(ndgrad.tensor([1], dtype=ndgrad.uint8), ndgrad.tensor([2], dtype=ndgrad.uint8))


def test_infinities_and_not_a_number():
    inf, nan = float("inf"), float("nan")
    assert_close(ndgrad.tensor([inf, -inf]), ndgrad.tensor([inf, -inf]))
    assert "1 of 2" in message(ndgrad.tensor([inf, 1.0]), ndgrad.tensor([-inf, 1.0]))
    assert "1 of 1" in message(ndgrad.tensor([nan]), ndgrad.tensor([nan]))
    assert_close(ndgrad.tensor([nan]), ndgrad.tensor([nan]), equal_nan=True)


def test_the_graph_plays_no_part():
    assert_close(ndgrad.ones(2, requires_grad=True) * 2, ndgrad.ones(2) * 2)


def test_tensors_inside_a_transform_are_refused():
    with pytest.raises(RuntimeError, match="inside a function transform"):
        ndgrad.func.vmap(lambda x: (assert_close(x, x), x)[1])(ndgrad.ones(3))


def test_older_form_warns_and_takes_anything():
    with pytest.warns(FutureWarning):
        assert_allclose([1.0, 2.0], ndgrad.tensor([1.0, 2.0]))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        assert_allclose([1.0, 2.0], ndgrad.tensor([1.0, 2.1]))


@pytest.mark.parametrize(
    "dtype", [ndgrad.float16, ndgrad.float32, ndgrad.float64, ndgrad.complex64, ndgrad.int32, ndgrad.uint8, ndgrad.bool]
)
def test_made_tensors_have_the_dtype_and_lie_in_the_interval(dtype):
    t = make_tensor(2000, dtype=dtype)
    values = np.concatenate([t._array.real, t._array.imag]) if t._array.dtype.kind == "c" else t._array.astype(float)
    assert t.dtype == dtype
    low, high = {"u": (0, 9), "b": (0, 1), "i": (-9, 9)}.get(t._array.dtype.kind, (-9.0, 9.0))
    assert low <= values.min() <= low + 0.1
    assert high - 0.1 <= values.max() <= high


def test_made_tensors_of_other_kinds():
    strided = make_tensor(3, 4, dtype=ndgrad.float64, noncontiguous=True, requires_grad=True)
    assert strided.shape == (3, 4)
    assert not strided.is_contiguous()
    assert strided.is_leaf
    assert strided.requires_grad
    last = make_tensor((2, 3, 4, 5), dtype=ndgrad.float32, memory_format=ndgrad.channels_last)
    assert last.is_contiguous(memory_format=ndgrad.channels_last)
    assert (make_tensor(500, dtype=ndgrad.int64, low=-1, high=2, exclude_zero=True) != 0).all()
    assert make_tensor((), dtype=ndgrad.float64).shape == ()


def test_made_tensors_follow_the_seed():
    ndgrad.manual_seed(3)
    first = make_tensor(5, dtype=ndgrad.float64)
    ndgrad.manual_seed(3)
    assert_close(make_tensor(5, dtype=ndgrad.float64), first, rtol=0, atol=0)
