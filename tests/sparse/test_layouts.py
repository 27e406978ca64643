"""Making sparse tensors, converting them, and what they consist of: against full arrays."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import ndgrad
from ndgrad.sparse.tensor import SparseTensor

LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
FULL = np.array([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 4.0, 0.0], [0.0, 5.0, 0.0, 6.0]])


def sparse(full, layout, block=(2, 2)):
    t = ndgrad.tensor(full)
    return t.to_sparse(layout=getattr(ndgrad, layout), blocksize=block if layout in ("sparse_bsr", "sparse_bsc") else None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_every_layout_becomes_every_other(layout, other):
    x = sparse(FULL, layout)
    y = x.to_sparse(layout=getattr(ndgrad, other), blocksize=(2, 2) if other in ("sparse_bsr", "sparse_bsc") else None)
    assert str(y.layout) == f"ndgrad.{other}"
    np.testing.assert_array_equal(y.to_dense().numpy(), FULL)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_pickles_and_files(layout):
    x = sparse(FULL, layout)
    file = io.BytesIO()
    ndgrad.save(x, file)
    file.seek(0)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), ndgrad.load(file), x.clone()):
        assert isinstance(y, SparseTensor)
        assert y.layout is x.layout
        np.testing.assert_array_equal(y.to_dense().numpy(), FULL)


def test_a_pickled_leaf_is_one_again():
    x = sparse(FULL, "sparse_coo").requires_grad_()
    assert pickle.loads(pickle.dumps(x)).requires_grad
    assert copy.deepcopy(x).requires_grad


def test_batches_have_as_many_entries_in_each_matrix():
    full = np.zeros((2, 2, 3))
    full[0, 0, 1], full[1, 1, 2], full[1, 0, 0] = 1.0, 2.0, 3.0
    x = ndgrad.tensor(full).to_sparse_csr()
    assert x._nnz() == 3
    np.testing.assert_array_equal(x.to_dense().numpy(), full)
    np.testing.assert_array_equal(ndgrad.tensor(full).to_sparse().to_dense().numpy(), full)


def test_hybrid_tensors_change_their_number_of_sparse_dimensions():
    full = np.arange(12.0).reshape(3, 2, 2)
    x = ndgrad.tensor(full).to_sparse(1)
    assert (x.sparse_dim(), x.dense_dim()) == (1, 2)
    for count in (1, 2, 3):
        y = x.to_sparse(count)
        assert y.sparse_dim() == count
        np.testing.assert_array_equal(y.to_dense().numpy(), full)
        np.testing.assert_array_equal(y.to_sparse(1).to_dense().numpy(), full)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ndgrad.sparse_coo_tensor([[0, 3]], [1.0, 2.0], (3,)), "found index 3"),
        (lambda: ndgrad.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,)), "negative index -1"),
        (lambda: ndgrad.sparse_coo_tensor([[0, 1]], [1.0], (3,)), "same nnz"),
        (lambda: ndgrad.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 3)), "sparse_dim"),
        (lambda: ndgrad.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (-3,)), "negative"),
        (lambda: ndgrad.sparse_coo_tensor([[0, 1]], [[1.0, 2.0]] * 2, (3, 3)), "incorrect size"),
        (lambda: ndgrad.sparse_coo_tensor([[[0]]], [1.0]), "sparse_dim x nnz"),
        (lambda: ndgrad.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True), "not in order"),
        (lambda: ndgrad.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2)), "col_indices < ncols"),
        (lambda: ndgrad.sparse_csr_tensor([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), "== 0"),
        (lambda: ndgrad.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2)), "sorted"),
        (lambda: ndgrad.sparse_csr_tensor([0, 2, 2], [1, 1], [1.0, 2.0], (2, 2)), "distinct"),
        (lambda: ndgrad.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)), "nnz"),
        (lambda: ndgrad.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)), "decrease"),
        (lambda: ndgrad.sparse_csr_tensor([0, 2], [0, 1], [1.0, 2.0], (2, 2)), "nrows"),
        (lambda: ndgrad.sparse_csc_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2)), "row_indices < nrows"),
        (lambda: ndgrad.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0, 3.0], (2, 2)), "number of entries"),
        (lambda: ndgrad.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2, 2)), "does not fit"),
        (lambda: ndgrad.sparse_bsr_tensor([0, 1], [0], [1.0]), "blocks"),
        (lambda: ndgrad.sparse_bsr_tensor([0, 1], [0], ndgrad.ones(1, 2, 2), (3, 2)), "divisible"),
        (lambda: ndgrad.sparse_compressed_tensor([0], [], [], layout=ndgrad.strided), "compressed tensor layout"),
        (lambda: ndgrad.eye(3).to_sparse_bsr((2, 2)), "divisible"),
        (lambda: ndgrad.eye(3).to_sparse(5), "sparse_dim"),
        (lambda: ndgrad.ones(3).to_sparse_csr(), "too few"),
        (lambda: ndgrad.ones(3).to_sparse().to_sparse_csr(), "no rows and columns"),
        (lambda: ndgrad.eye(2).to_sparse(layout=ndgrad.sparse_bsr), "blocksize"),
        (lambda: ndgrad.eye(2).to_sparse(layout=ndgrad.strided), "to_dense"),
        (lambda: ndgrad.zeros(2, 2, layout=ndgrad.sparse_bsr), "bsr"),
        (lambda: ndgrad.ones(2, 2, layout=ndgrad.sparse_coo), "dense tensors"),
        (lambda: ndgrad.sparse_coo_tensor([[0]], [1.0]).values(), "uncoalesced"),
        (lambda: ndgrad.sparse_coo_tensor([[1, 1]], [1.0, 1.0])._coalesced_(True), "twice"),
        (lambda: ndgrad.ones(2).values(), "strided"),
        (lambda: ndgrad.ones(2, 2).sparse_mask(ndgrad.eye(3).to_sparse()), "incompatible sizes"),
        (lambda: ndgrad.eye(3).to_sparse().sparse_resize_((2, 2), 2, 0), "shrinking"),
        (lambda: ndgrad.eye(3).to_sparse().sparse_resize_((3, 3), 1, 1), "number of sparse"),
        (lambda: ndgrad.eye(3).to_sparse().requires_grad_().sparse_resize_((4, 4), 2, 0), "requires grad"),
    ],
)  # fmt: skip
def test_bad_structures_and_sizes_are_refused(make, words):
    with pytest.raises(RuntimeError, match=words):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ndgrad.sparse_coo_tensor([[0.5]], [1.0]),
        lambda: ndgrad.sparse_coo_tensor([["a"]], [1.0]),
        lambda: ndgrad.sparse_coo_tensor([[0]], ndgrad.ones(1).to_sparse()),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(make):
    with pytest.raises(TypeError):
        make()


def test_devices_and_masks_without_sense():
    with pytest.raises(NotImplementedError, match="CPU"):
        ndgrad.sparse_coo_tensor([[0]], [1.0], device="meta")
    with pytest.raises(NotImplementedError, match="must be sparse"):
        ndgrad.ones(2).sparse_mask(ndgrad.ones(2))


@pytest.mark.parametrize(
    "name",
    ["exp", "cos", "sigmoid", "cumsum", "sort", "reshape", "expand", "mean", "max", "argmax", "masked_fill", "einsum", "eq", "where"],
)
def test_what_is_not_there_is_refused_by_name_and_nothing_becomes_dense(name):
    x = ndgrad.eye(2).to_sparse()
    args = {
        "cumsum": (x, 0),
        "reshape": (x, (4,)),
        "expand": (x, 2, 2, 2),
        "masked_fill": (x, x, 1.0),
        "einsum": ("ij->ji", x),
        "eq": (x, x),
        "where": (x, x, x),
    }
    function = getattr(ndgrad, name, None) or getattr(ndgrad.Tensor, name)
    with pytest.raises(NotImplementedError, match=rf"{name}\(\) is not supported for sparse layouts"):
        function(*args.get(name, (x,)))


def test_numpy_is_refused_in_words():
    x = ndgrad.eye(2).to_sparse()
    for call in (lambda: np.sin(x), lambda: np.ones((2, 2)) * x, lambda: x * np.ones((2, 2)), lambda: np.asarray(x)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(NotImplementedError):
        np.sum(x)
    with pytest.raises(NotImplementedError, match="indexing with a sparse tensor"):
        ndgrad.ones(2, 2)[x]


def test_numpys_class_has_no_sparse_layouts():
    import ndgrad.numpy as tensor_type

    x = ndgrad.eye(2).to_sparse()
    for call in (
        lambda: tensor_type.sin(x),
        lambda: tensor_type.asarray(x),
        lambda: tensor_type.add(x, x),
        lambda: tensor_type.concatenate([x, x]),
    ):
        with pytest.raises(TypeError, match="sparse"):
            call()


def test_indices_are_fixed_and_their_own():
    index = ndgrad.tensor([0, 1, 2], dtype=ndgrad.int32)
    x = ndgrad.sparse_csr_tensor(index, ndgrad.tensor([1, 0], dtype=ndgrad.int32), [1.0, 2.0])
    index.zero_()
    assert x.crow_indices().tolist() == [0, 1, 2]
    for places in (x.crow_indices(), x.col_indices(), ndgrad.eye(2).to_sparse().indices(), x.to_sparse()._indices()):
        with pytest.raises(RuntimeError, match="read-only"):
            places.zero_()


def test_integers_do_not_require_grad():
    with pytest.raises(RuntimeError, match="floating point"):
        ndgrad.sparse_coo_tensor([[0]], [1], requires_grad=True)


def test_dtypes_are_promoted_as_of_dense_tensors():
    single, whole = ndgrad.ones(2, dtype=ndgrad.float32).to_sparse(), ndgrad.ones(2, dtype=ndgrad.int64).to_sparse()
    assert (single + whole).dtype is ndgrad.float32
    assert (single * whole).dtype is ndgrad.float32
    assert (ndgrad.ones(2, dtype=ndgrad.int64) + single).dtype is ndgrad.float32


def test_texts_inside_transforms_show_the_tensor_of_values():
    texts = []

    def f(v):
        x = ndgrad.sparse_coo_tensor([[0, 1]], v)
        texts.append(repr(x))
        assert x._values().shape == (2,)
        return x.sum()

    ndgrad.func.grad(f)(ndgrad.ones(2))
    assert "values=tensor([1., 1.], requires_grad=True)" in texts[0]


def test_an_argument_out_is_refused():
    x = ndgrad.eye(2).to_sparse()
    with pytest.raises(NotImplementedError, match="out="):
        ndgrad.mul(x, 2.0, out=x)


def test_comparison_of_sparse_tensors_for_tests():
    x = ndgrad.eye(2).to_sparse()
    ndgrad.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError):
        ndgrad.testing.assert_close(x, x * 2)
    with pytest.raises(AssertionError, match="layout"):
        ndgrad.testing.assert_close(x, x.to_sparse_csr())
