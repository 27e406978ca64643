"""max, min and relatives: the three forms, ties, named results and errors."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

A = np.array([[1.0, 5.0, 5.0], [4.0, 2.0, 4.0]])


def value(t):
    return np.asarray(t.detach().numpy())


def test_max_has_three_forms():
    x = ndgrad.tensor(A)
    assert value(x.max()) == 5
    assert value(x.max(1).values).tolist() == [5, 4]
    assert value(x.max(1).indices).tolist() == [1, 0]
    assert value(ndgrad.max(x, ndgrad.tensor(3.0))).tolist() == [[3, 5, 5], [4, 3, 4]]
    assert value(ndgrad.min(x, other=ndgrad.tensor(3.0))).tolist() == [[1, 3, 3], [3, 2, 3]]


def test_max_and_min_take_the_keywords_of_numpy():
    values = np.array([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])
    x = ndgrad.tensor(values)
    np.testing.assert_array_equal(x.max(axis=1, keepdims=True).values.numpy(), values.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(ndgrad.min(x, axis=0).indices.numpy(), values.argmin(axis=0))


def test_named_results_unpack_and_print():
    result = ndgrad.tensor(A).max(0)
    values, indices = result
    assert result.values is values
    assert result[1] is indices
    assert repr(result) == "ndgrad.return_types.max(\nvalues=tensor([4., 5., 5.]),\nindices=tensor([1, 0, 0]))"
    assert type(result) is ndgrad.return_types.max


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: x.amax(), [[0, 0.5, 0.5], [0, 0, 0]]),
        (lambda x: x.max(), [[0, 0.5, 0.5], [0, 0, 0]]),
        (lambda x: x.amax(1).sum(), [[0, 0.5, 0.5], [0.5, 0, 0.5]]),
        (lambda x: x.max(1).values.sum(), [[0, 1, 0], [1, 0, 0]]),
        (lambda x: x.amin(1).sum(), [[1, 0, 0], [0, 1, 0]]),
        (lambda x: ndgrad.aminmax(x).max - ndgrad.aminmax(x).min, [[-1, 0.5, 0.5], [0, 0, 0]]),
    ],
)
def test_ties_share_unless_an_index_says_whose_it_is(f, want):
    x = ndgrad.tensor(A, requires_grad=True)
    f(x).backward()
    assert value(x.grad).tolist() == want


def test_argmax_flattens_and_keeps_dims_on_request():
    x = ndgrad.tensor(A)
    assert value(x.argmax()) == 1
    assert x.argmax(keepdim=True).shape == (1, 1)
    assert value(x.argmin(dim=0, keepdim=True)).tolist() == [[0, 1, 1]]


def test_first_of_equals_is_found_in_large_arrays_along_any_dimension():
    x = np.random.default_rng(0).integers(0, 5, (90, 50)).astype(float)
    for dim in (0, 1):
        assert (value(ndgrad.tensor(x).max(dim).indices) == x.argmax(dim)).all()
        assert (value(ndgrad.tensor(x).min(dim).values) == x.min(dim)).all()


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: x[:0].max(), RuntimeError, "numel.. == 0.*dim"),
        (lambda x: x[:0].max(0), IndexError, "dim 0 to have non-zero size.*shape is .0, 3."),
        (lambda x: x.max((0, 1)), TypeError, "amax"),
        (lambda x: x.max(2), IndexError, "out of range"),
        (lambda x: (x * 1j).max(), NotImplementedError, "no order.*abs"),
        (lambda x: ndgrad.max(x, 0, out=ndgrad.empty(0)), TypeError, "2 tensors"),
    ],
)
def test_errors_say_what_and_what_to_do(f, error, text):
    with pytest.raises(error, match=text):
        f(ndgrad.tensor(A))


def test_out_takes_both_results():
    values, indices = ndgrad.empty(0), ndgrad.empty(0, dtype=ndgrad.int64)
    result = ndgrad.max(ndgrad.tensor(A), 1, out=(values, indices))
    assert result.values is values
    assert value(indices).tolist() == [1, 0]
