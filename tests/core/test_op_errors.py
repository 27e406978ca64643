"""Errors of ops: their classes and texts."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from ndgrad._src.core.op_errors import explain
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops import arithmetic, bitwise, selection, trigonometric
from ndgrad._src.tensor.tensor_class import Tensor


def explained(op, *arrays):
    """Return the error that replaces NumPy's error for these arguments."""
    with pytest.raises((TypeError, ValueError)) as raised:
        op.forward_for(np)(*arrays)
    return explain(op, tuple(wrap(Tensor, a) if isinstance(a, np.ndarray) else a for a in arrays), raised.value)


def test_shapes_that_do_not_fit():
    error = explained(arithmetic.add, np.ones((2, 3)), np.ones((4, 1, 4)))
    assert isinstance(error, RuntimeError)
    assert isinstance(error, ValueError)
    assert "add(): The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 2" in str(error)
    assert "(2, 3) and (4, 1, 4)" in str(error)
    error = explained(selection.where, np.ones(3, bool), np.ones((2, 1)), np.ones(2))
    assert "tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0" in str(error)


@pytest.mark.parametrize(
    ("op", "arrays"),
    [
        (bitwise.bitwise_and, (np.ones(2), np.ones(2))),
        (bitwise.bitwise_left_shift, (np.ones(2), 1)),
        (trigonometric.atan2, (np.ones(2) * 1j, np.ones(2))),
        (arithmetic.sub, (np.ones(2, bool), np.ones(2, bool))),
        (arithmetic.neg, (np.ones(2, bool),)),
    ],
)
def test_dtypes_an_op_is_not_defined_for(op, arrays):
    error = explained(op, *arrays)
    assert isinstance(error, NotImplementedError)
    assert isinstance(error, TypeError)
    assert str(error).startswith(op.name + "(): ")
    assert arrays[0].dtype.name in str(error) or "logical_" in str(error)


def test_negative_powers_of_integers():
    error = explained(arithmetic.pow, np.arange(3), -1)
    assert isinstance(error, RuntimeError)
    assert "Convert the base" in str(error)


def test_what_is_not_known_stays_as_it_is():
    error = ValueError("something else")
    assert explain(arithmetic.add, (wrap(Tensor, np.ones(2)), 1.0), error) is error
    assert operator.is_(explain(arithmetic.add, (), error), error)
