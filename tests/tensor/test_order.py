"""Sorting and searching: forms of arguments and results, ties, NaN, transforms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import ndgrad
from ndgrad import func

A = np.random.default_rng(10).permutation(60).reshape(3, 4, 5) / 7.0


def tensor(a, **options):
    return ndgrad.tensor(a, **options)


def values(t):
    return np.asarray(t.detach().numpy())


# ----- sort --------------------------------------------------------------------------------------------------------------


def test_results_are_named_tuples():
    for result in (tensor(A).sort(), tensor(A).topk(2), tensor(A).kthvalue(2)):
        found, places = result
        assert result.values is found
        assert result.indices is places
        assert places.dtype == np.int64
    assert "values=" in repr(tensor([1.0]).sort())


@given(arrays(float, st.integers(0, 80), elements=st.sampled_from([0.0, 1.0, -1.0, 2.0, np.nan, np.inf])), st.booleans())
def test_sorting_is_stable_with_nan_as_the_largest(a, descending):
    found, places = tensor(a).sort(descending=descending)
    rank = [(1, 0.0) if np.isnan(v) else (0, v) for v in a]
    keyed = sorted(range(len(a)), key=lambda i: tuple(-k for k in rank[i]) if descending else rank[i])
    assert values(places).tolist() == keyed
    np.testing.assert_array_equal(values(found), a[keyed])
    np.testing.assert_array_equal(values(tensor(a).argsort(descending=descending)), keyed)


@given(arrays(np.int64, st.integers(1, 60), elements=st.integers(-3, 3)), st.integers(0, 60), st.booleans())
def test_topk_gives_the_extreme_values_at_distinct_places(a, k, largest):
    k = min(k, len(a))
    found, places = tensor(a).topk(k, largest=largest)
    expected = np.sort(a)[::-1][:k] if largest else np.sort(a)[:k]
    np.testing.assert_array_equal(values(found), expected)
    np.testing.assert_array_equal(a[values(places)], expected)
    assert len(set(values(places).tolist())) == k


@given(arrays(float, st.integers(1, 40), elements=st.floats(-2, 2)), st.data())
def test_kthvalue_is_the_kth_of_the_sorted(a, data):
    k = data.draw(st.integers(1, len(a)))
    found, place = tensor(a).kthvalue(k)
    assert values(found) == np.sort(a)[k - 1] == a[values(place)]


def test_gradients_go_where_the_elements_came_from():
    x = tensor(A, requires_grad=True)
    weights = tensor(np.arange(60.0).reshape(3, 4, 5))
    (g,) = ndgrad.autograd.grad((x.sort(1)[0] * weights).sum(), x)
    np.testing.assert_array_equal(np.take_along_axis(values(g), np.argsort(A, 1), 1), values(weights))
    (g,) = ndgrad.autograd.grad(x.topk(2, 2)[0].sum() + x.kthvalue(1, 0, keepdim=True)[0].sum(), x)
    expected = (np.argsort(np.argsort(A, 2), 2) >= 3) + 1.0 * (np.argsort(np.argsort(A, 0), 0) == 0)
    np.testing.assert_array_equal(values(g), expected)


def test_gradients_of_equal_elements_follow_the_stable_order():
    x = tensor([2.0, 1.0, 2.0, 1.0], requires_grad=True)
    x.sort()[0].backward(tensor([10.0, 20.0, 30.0, 40.0]))
    assert values(x.grad).tolist() == [30, 10, 40, 20]


def test_second_derivatives_through_sort():
    hessian = func.hessian(lambda x: (x.sort()[0] ** 3 * tensor([1.0, 2.0, 3.0])).sum())(tensor([3.0, 1.0, 2.0]))
    np.testing.assert_allclose(values(hessian), np.diag([6 * 3 * 3, 6 * 1 * 1, 6 * 2 * 2]))


def test_forms_of_arguments():
    x = tensor(A)
    np.testing.assert_array_equal(values(ndgrad.sort(x, axis=0, descending=True)[0]), -np.sort(-A, 0))
    np.testing.assert_array_equal(values(ndgrad.msort(x)), np.sort(A, 0))
    np.testing.assert_array_equal(values(ndgrad.topk(x, k=2, dim=0, largest=False, sorted=False)[0]), np.sort(A, 0)[:2])
    assert values(tensor(3.0).sort()[1]) == 0
    assert tensor(3.0).topk(1)[0].shape == ()


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (lambda x: x.sort(3), IndexError),
        (lambda x: x.sort("a"), TypeError),
        (lambda x: (x * 1j).sort(), RuntimeError),
        (lambda x: x.topk(6), RuntimeError),
        (lambda x: x.topk(-1), RuntimeError),
        (lambda x: (x > 0).topk(1), RuntimeError),
        (lambda x: x.kthvalue(0), RuntimeError),
        (lambda x: ndgrad.sort([1.0]), TypeError),
        (lambda x: ndgrad.searchsorted([1.0], x), TypeError),
        (lambda x: ndgrad.searchsorted(x, x[:2]), RuntimeError),
        (lambda x: ndgrad.searchsorted(x, x, side="middle"), RuntimeError),
        (lambda x: ndgrad.bucketize(x, x), RuntimeError),
        (lambda x: ndgrad.bucketize("a", x[0, 0]), TypeError),
        (lambda x: ndgrad.isin(1, 2), TypeError),
        (lambda x: ndgrad.unique(x, dim=5), IndexError),
    ],
)
def test_errors_name_what_is_wrong(program, error):
    with pytest.raises(error) as caught:
        program(tensor(A))
    assert len(str(caught.value)) > 40


# ----- unique ------------------------------------------------------------------------------------------------------------


@given(arrays(np.int64, st.tuples(st.integers(0, 6), st.integers(1, 3)), elements=st.integers(0, 2)))
def test_unique_reconstructs_its_input(a):
    found, inverse, counts = tensor(a).unique(return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values(found), np.unique(a))
    np.testing.assert_array_equal(values(found)[values(inverse)], a)
    assert values(counts).sum() == a.size
    rows, inverse, counts = ndgrad.unique(tensor(a), return_inverse=True, return_counts=True, dim=0)
    np.testing.assert_array_equal(values(rows), np.unique(a, axis=0))
    np.testing.assert_array_equal(values(rows)[values(inverse)], a)
    assert values(counts).sum() == len(a)


@given(arrays(np.int64, st.integers(0, 12), elements=st.integers(0, 1)))
def test_unique_consecutive_is_run_length_encoding(a):
    found, inverse, counts = ndgrad.unique_consecutive(tensor(a), return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(np.repeat(values(found), values(counts)), a)
    np.testing.assert_array_equal(values(found)[values(inverse)], a)
    assert not (values(found)[1:] == values(found)[:-1]).any()


def test_unique_returns_what_is_asked_for():
    x = tensor(np.array([3, 1, 3]))
    assert values(ndgrad.unique(x)).tolist() == [1, 3]
    assert [values(t).tolist() for t in ndgrad.unique(x, return_inverse=True)] == [[1, 3], [1, 0, 1]]
    assert [values(t).tolist() for t in x.unique(return_counts=True)] == [[1, 3], [1, 2]]
    picked = tensor([2.0, 1.0, 2.0], requires_grad=True)  # torch drops the gradient: see picked-elements in docs/differences/
    (ndgrad.unique(picked) * tensor([10.0, 1.0])).sum().backward()
    assert values(picked.grad).sum() == 11
    assert values(picked.grad)[1] == 10
    with pytest.raises(RuntimeError, match="vmap"):
        func.vmap(ndgrad.unique)(tensor(A))


# ----- searching -----------------------------------------------------------------------------------------------------------


@given(
    arrays(float, st.tuples(st.just(2), st.integers(0, 9)), elements=st.sampled_from([0.0, 1.0, 2.0, 3.0, np.nan])),
    arrays(float, st.tuples(st.just(2), st.integers(0, 4)), elements=st.sampled_from([-1.0, 0.0, 1.5, 3.0, np.nan])),
    st.booleans(),
)
def test_searching_rows_equals_numpy_row_by_row(rows, wanted, right):
    rows = np.sort(rows, axis=1)
    found = values(ndgrad.searchsorted(tensor(rows), tensor(wanted), right=right))
    expected = [np.searchsorted(row, w, side="right" if right else "left") for row, w in zip(rows, wanted, strict=True)]
    np.testing.assert_array_equal(found, np.stack(expected))
    single = values(ndgrad.searchsorted(tensor(rows[0]), tensor(wanted), side="right" if right else "left"))
    np.testing.assert_array_equal(single, np.searchsorted(rows[0], wanted, side="right" if right else "left"))


def test_searching_with_a_sorter_and_in_32_bits():
    place = ndgrad.searchsorted(tensor(A), tensor(A + 0.01), sorter=tensor(A).argsort(), out_int32=True)
    assert place.dtype == np.int32
    np.testing.assert_array_equal(values(place), np.argsort(np.argsort(A)) + 1)
    assert values(ndgrad.bucketize(2.5, tensor([1.0, 2.0, 3.0]))) == 2


def test_vmap_of_sorting_and_searching_equals_a_loop():
    x, y = tensor(A), tensor(A[::-1].copy())
    for f in (
        lambda a, b: ndgrad.searchsorted(a.sort()[0], b),
        lambda a, b: ndgrad.searchsorted(a[0].sort()[0], b),
        lambda a, b: ndgrad.isin(a, b[:2] + 1 / 7),
        lambda a, b: ndgrad.bucketize(b, a[0].sort()[0], right=True),
        lambda a, b: a.topk(2, 0)[1],
        lambda a, b: b.kthvalue(3)[0],
        lambda a, b: a.argsort(descending=True),
    ):
        np.testing.assert_array_equal(values(func.vmap(f)(x, y)), np.stack([values(f(x[i], y[i])) for i in range(3)]))


@given(arrays(np.int64, 5, elements=st.integers(0, 5)), arrays(np.int64, 3, elements=st.integers(0, 5)), st.booleans())
def test_isin_equals_numpy(a, b, invert):
    np.testing.assert_array_equal(values(ndgrad.isin(tensor(a), tensor(b), invert=invert)), np.isin(a, b, invert=invert))
