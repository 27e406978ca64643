"""The kernel that adds at repeated positions, compared with numpy's `ufunc.apply_at`, which defines the result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgrad._src.arrays import scatter

DTYPES = [np.float64, np.float32, np.float16, np.complex128, np.complex64, np.int64, np.int8, np.uint8]


def random(shape, dtype, seed=0):
    r = np.random.default_rng(seed)
    values = r.standard_normal(shape) * 8
    if np.dtype(dtype).kind == "c":
        values = values + 1j * r.standard_normal(shape)
    return (values if np.dtype(dtype).kind in "fc" else np.abs(values)).astype(dtype)


def apply_at(target, indices, values, ufunc=np.add):
    out = target.copy()
    ufunc.at(out, indices, values)
    return out


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), min_size=0, max_size=3).map(tuple),
    st.lists(st.integers(-5, 4), min_size=0, max_size=12),
    st.sampled_from([np.int64, np.int32, np.int8]),
)
def test_rows_at_one_index_equal_add_at_to_the_bit(dtype, rest, places, index_dtype):
    index = np.array(places, index_dtype)
    values = random((len(places), *rest), dtype)
    target = random((5, *rest), dtype, 1)
    expected = apply_at(target, index, values)
    zeros = apply_at(np.zeros_like(target), index, values)
    assert scatter.add_arrays(np, target, (index,), values) is target
    np.testing.assert_array_equal(target, expected)
    made = scatter.zeros_and_add(np, target.shape, (index,), values)
    np.testing.assert_array_equal(made, zeros)
    assert made.dtype == dtype


@given(st.lists(st.tuples(st.integers(-3, 2), st.integers(-4, 3)), min_size=1, max_size=8), st.integers(0, 3))
def test_several_broadcast_indices_equal_add_at(pairs, width):
    i, j = np.array(pairs).T
    target = random((3, 4, width), np.float64)
    values = random((len(pairs), len(pairs), width), np.float64, 1)
    expected = apply_at(target, (i[:, None], j), values)
    np.testing.assert_array_equal(scatter.add_arrays(np, target, (i[:, None], j), values), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sparse", [True, False])
def test_large_sums_equal_add_at_with_and_without_scipy(dtype, sparse, monkeypatch):
    if sparse:
        pytest.importorskip("scipy")
    else:
        monkeypatch.setattr(scatter, "_sparse", lambda: None)
    index = np.random.default_rng(0).integers(-30, 30, 3000)
    values, target = random((3000, 24), dtype), random((30, 24), dtype, 1)
    assert values.size >= scatter._LARGE
    np.testing.assert_array_equal(scatter.zeros_and_add(np, (30, 24), (index,), values), apply_at(np.zeros((30, 24), dtype), index, values))
    got = scatter.add_arrays(np, target.copy(), (index,), values)
    tolerance = {"f2": 2e-1, "f4": 1e-3, "c8": 1e-3}.get(np.dtype(dtype).str[1:], 1e-10)
    np.testing.assert_allclose(got, apply_at(target, index, values), rtol=tolerance, atol=tolerance)


def test_infinities_and_nans_stay_in_their_places():
    index = np.arange(6000) % 40
    values = np.zeros((6000, 12), np.complex128)
    values[3, 2], values[7, 5] = np.inf, np.nan
    out = scatter.zeros_and_add(np, (40, 12), (index,), values)
    assert out[3, 2] == np.inf
    assert np.isnan(out[7, 5])
    assert np.count_nonzero(out) == 2


def test_target_with_gaps_in_memory_is_written_through():
    memory = np.zeros((4, 3, 10))
    target = memory[:, ::2, ::3]
    index, values = np.array([1, 1, 3]), random((3, 2, 4), np.float64)
    expected = apply_at(target, index, values)
    scatter.add_arrays(np, target, (index,), values)
    np.testing.assert_array_equal(memory[:, ::2, ::3], expected)
    assert memory.sum() == pytest.approx(values.sum())


@pytest.mark.parametrize("index", [[5], [0, -6]])
@pytest.mark.parametrize("shape", [(5,), (5, 4), (5, 2000)])
def test_out_of_bounds_is_named_and_nothing_is_changed(index, shape):
    target = np.zeros(shape)
    values = np.ones((len(index), *shape[1:]))
    with pytest.raises(IndexError, match=str(index[-1])):
        scatter.add_arrays(np, target, (np.array(index),), values)
    assert not target.any()


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("contiguous", [True, False])
def test_combining_along_a_dimension_equals_the_ufunc_at_all_indices(dim, name, contiguous):
    r = np.random.default_rng(dim)
    target = r.standard_normal((3, 4, 5))
    if not contiguous:
        target = np.ascontiguousarray(target.T).T
    index = r.integers(0, target.shape[dim], (2, 3, 4))
    values = r.standard_normal(index.shape)
    where = list(np.indices(index.shape))
    where[dim] = index
    expected = apply_at(target, tuple(where), values, getattr(np, name))
    np.testing.assert_array_equal(scatter.combine_along(np, name, target, index, values, dim), expected)


def test_an_expanded_index_is_recognised():
    index = np.array([2, 0])
    expanded = np.broadcast_to(index[:, None, None], (2, 4, 5))
    np.testing.assert_array_equal(scatter.one_index_per_slice(expanded, (3, 4, 5), 0), index)
    assert scatter.one_index_per_slice(expanded, (3, 4, 6), 0) is None
    assert scatter.one_index_per_slice(expanded.copy(), (3, 4, 5), 0) is None
    assert scatter.one_index_per_slice(expanded, (2, 4, 5), 1) is None


@pytest.mark.parametrize(("shape", "dim"), [((40, 300), 1), ((40, 300), 0), ((3, 70, 50), 1), ((9000,), 0)])
@pytest.mark.parametrize("layout", ["dense", "expanded", "reversed", "narrow"])
def test_overwritten_positions_along_a_dimension(shape, dim, layout):
    r = np.random.default_rng(0)
    index = r.integers(0, shape[dim], shape)
    if layout == "expanded":
        index = np.broadcast_to(index.take([0], axis=(dim + 1) % len(shape)), shape)
    elif layout == "reversed":
        index = np.flip(index, dim)
    elif layout == "narrow":
        index = index[tuple(slice(n - (d != dim)) for d, n in enumerate(shape))]
    found = scatter.find_overwritten_along(np, index, shape, dim)
    lines, hits = np.moveaxis(index, dim, -1), np.moveaxis(found, dim, -1)
    for place in np.ndindex(lines.shape[:-1]):
        later: set[int] = set()
        expected = []
        for i in reversed(lines[place].tolist()):
            expected.append(i in later)
            later.add(i)
        assert hits[place].tolist() == expected[::-1]
