"""Structures of sparse tensors and their payloads, against full arrays."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.sparse  # noqa: F401  # registers products of payloads
from ndgrad._src.arrays.sparse import Coo, SparseData, add_entries, compress

RANDOM = np.random.default_rng(7)


def payload(shape, sparse_dim, entries, sort=False):
    lead = shape[:sparse_dim]
    indices = np.stack([RANDOM.integers(0, n, entries) for n in lead])
    data = SparseData(Coo(indices, shape), RANDOM.standard_normal((entries, *shape[sparse_dim:])))
    return data.coalesce() if sort else data


@pytest.mark.parametrize(("shape", "sparse_dim"), [((5,), 1), ((4, 3), 2), ((4, 3), 1), ((2, 3, 4), 2), ((2, 3, 4), 3)])
def test_coalescing_keeps_the_full_array_and_names_each_place_once(shape, sparse_dim):
    x = payload(shape, sparse_dim, 9)
    y = x.coalesce()
    assert np.unique(y.structure.keys).size == y.structure.count
    assert (np.diff(y.structure.keys) > 0).all()
    np.testing.assert_allclose(y.to_full(), x.to_full())


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("block", [(1, 1), (2, 1), (2, 3)])
def test_compressing_keeps_the_full_array(layout, block):
    if block != (1, 1) and layout in ("sparse_csr", "sparse_csc"):
        pytest.skip("single entries")
    x = payload((4, 6), 2, 8, sort=True)
    structure, source = compress(x.structure, layout, block)
    values = np.where(source < 0, 0.0, x.values[source]).reshape(structure.values_shape)
    np.testing.assert_allclose(structure.to_full(values), x.to_full())
    assert (np.diff(structure.pointers) >= 0).all()


def test_sums_of_payloads_are_those_of_the_full_arrays():
    x, y, full = payload((4, 3), 2, 5), payload((4, 3), 2, 6), RANDOM.standard_normal((4, 3))
    for total in (x + y, add_entries(x, y, merged=True)):
        np.testing.assert_allclose(total.to_full(), x.to_full() + y.to_full())
    np.testing.assert_allclose(x + full, x.to_full() + full)
    np.testing.assert_allclose(full + x, x.to_full() + full)
    target = full.copy()
    target += x
    np.testing.assert_allclose(target, x.to_full() + full)


def test_sums_of_layouts_and_of_hybrid_payloads():
    x, y = payload((4, 3), 2, 5), payload((4, 3), 1, 3)
    np.testing.assert_allclose((x + y).to_full(), x.to_full() + y.to_full())
    structure, source = compress(x.coalesce().structure, "sparse_csr", (1, 1))
    rows = SparseData(structure, x.coalesce().values[source])
    np.testing.assert_allclose((rows + y).to_full(), x.to_full() + y.to_full())
    assert (rows + y).structure.layout == "sparse_csr"


def test_adding_in_place_changes_the_payload_itself():
    x, y = payload((4, 3), 2, 5), payload((4, 3), 2, 6)
    expected = x.to_full() + y.to_full()
    kept = x
    x += y
    assert x is kept
    np.testing.assert_allclose(kept.to_full(), expected)


def test_products_of_payloads_by_arrays_and_numbers():
    x, full = payload((4, 3), 2, 5), RANDOM.standard_normal((4, 3))
    for product, expected in (
        (x * full, x.to_full() * full),
        (full * x, x.to_full() * full),
        (x * 2.0, 2.0 * x.to_full()),
        (-x, -x.to_full()),
    ):
        np.testing.assert_allclose(product.to_full(), expected)


@pytest.mark.parametrize(
    "function", [np.sin, np.exp, lambda x: np.add.reduce(x), np.asarray, lambda x: x @ np.ones(3), lambda x: np.multiply(x, 2.0, out=x)]
)
def test_numpys_functions_are_refused(function):
    with pytest.raises(TypeError, match="sparse_coo tensor of shape"):
        function(payload((4, 3), 2, 5))


def test_what_arrays_have_and_payloads_have_not_is_explained():
    with pytest.raises(AttributeError, match="no rule for sparse gradients"):
        payload((4, 3), 2, 5).reshape(12)


def test_a_matrix_without_entries_and_one_without_rows():
    empty = SparseData(Coo(np.zeros((2, 0), np.int64), (0, 3)), np.zeros(0))
    assert empty.to_full().shape == (0, 3)
    assert (empty + empty).coalesce().structure.count == 0
