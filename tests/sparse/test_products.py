"""Products, solves and softmax of sparse tensors: values against full matrices and SciPy, bad arguments."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import ndgrad
from ndgrad.autograd import gradcheck

RANDOM = np.random.default_rng(3)
A = RANDOM.standard_normal((5, 5)) * (RANDOM.random((5, 5)) < 0.4) + 4 * np.eye(5)
B = RANDOM.standard_normal((5, 3))
LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc"]


def sparse(full, layout="sparse_coo"):
    return ndgrad.tensor(full).to_sparse(layout=getattr(ndgrad, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_with_dense_and_sparse_matrices(layout):
    x = sparse(A, layout)
    for made, expected in (
        (x @ ndgrad.tensor(B), A @ B), (ndgrad.tensor(B.T) @ x, B.T @ A), (x @ ndgrad.tensor(B[:, 0]), A @ B[:, 0]),
        (ndgrad.tensor(B[:, 0]) @ x, B[:, 0] @ A), ((x @ x).to_dense(), A @ A), ((x @ sparse(B, layout)).to_dense(), A @ B),
        (ndgrad.sparse.mm(x, ndgrad.tensor(B)), A @ B),
        (ndgrad.sparse.addmm(ndgrad.tensor(B), x, ndgrad.tensor(B), beta=2.0, alpha=3.0), 2 * B + 3 * A @ B),
        (ndgrad.smm(x, ndgrad.tensor(B)).to_dense(), A @ B),
    ):  # fmt: skip
        np.testing.assert_allclose(made.numpy(), expected)


def test_products_without_scipy_are_the_same(monkeypatch):
    expected = sparse(A) @ ndgrad.tensor(B)
    for name in list(sys.modules):
        if name.partition(".")[0] == "scipy":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    np.testing.assert_allclose((sparse(A) @ ndgrad.tensor(B)).numpy(), expected.numpy())
    with pytest.raises(ImportError, match="pip install"):
        ndgrad.sparse.spsolve(sparse(A), ndgrad.tensor(B))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_solves_from_both_sides_with_derivatives(layout):
    importlib.import_module("scipy.sparse") if importlib.util.find_spec("scipy") else pytest.skip("SciPy solves")
    x, b = sparse(A, layout), ndgrad.tensor(B)
    np.testing.assert_allclose(ndgrad.sparse.spsolve(x, b).numpy(), np.linalg.solve(A, B))
    np.testing.assert_allclose(ndgrad.sparse.spsolve(x, b[:, 0]).numpy(), np.linalg.solve(A, B[:, 0]))
    np.testing.assert_allclose(ndgrad.sparse.spsolve(x, b.T, left=False).numpy(), np.linalg.solve(A.T, B).T)
    assert gradcheck(lambda x, b: ndgrad.sparse.spsolve(x, b), (x.requires_grad_(), b.requires_grad_()), masked=True)


def test_sampled_products():
    places = sparse(A, "sparse_csr")
    c = RANDOM.standard_normal((3, 5))
    made = ndgrad.sparse.sampled_addmm(places, ndgrad.tensor(B), ndgrad.tensor(c), beta=0.5, alpha=2.0)
    np.testing.assert_allclose(made.to_dense().numpy(), (2.0 * B @ c + 0.5 * A) * (A != 0))
    inputs = (places.requires_grad_(), ndgrad.tensor(B, requires_grad=True), ndgrad.tensor(c, requires_grad=True))
    assert gradcheck(lambda x, b, c: ndgrad.sparse.sampled_addmm(x, b, c, beta=0.5, alpha=2.0), inputs, masked=True)


@pytest.mark.parametrize("reduce", ["mean", "amax", "amin"])
def test_products_that_reduce_otherwise(reduce):
    full = np.array([[0.0, 2.0, -1.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]])
    x, b = sparse(full, "sparse_csr"), RANDOM.standard_normal((3, 2))
    function = {"mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    expected = np.stack([function(row[row != 0][:, None] * b[row != 0], axis=0) if row.any() else np.zeros(2) for row in full])
    np.testing.assert_allclose(ndgrad.sparse.mm(x, ndgrad.tensor(b), reduce).numpy(), expected)
    assert gradcheck(lambda x, b: ndgrad.sparse.mm(x, b, reduce), (x.requires_grad_(), ndgrad.tensor(b, requires_grad=True)), masked=True)
    with pytest.raises(ValueError, match="median"):
        ndgrad.sparse.mm(x, ndgrad.tensor(b), "median")
    with pytest.raises(RuntimeError, match="sparse_csr"):
        ndgrad.sparse.mm(sparse(full), ndgrad.tensor(b), reduce)


def test_softmax_counts_entries_alone():
    x = sparse(A)
    for d in (0, 1):
        logits = np.where(A != 0, A, -np.inf)
        powers = np.exp(logits - logits.max(axis=d, keepdims=True))
        expected = powers / powers.sum(axis=d, keepdims=True)
        np.testing.assert_allclose(ndgrad.sparse.softmax(x, d).to_dense().numpy(), expected)
        np.testing.assert_allclose(ndgrad.sparse.log_softmax(x, d).values().numpy(), np.log(expected[A != 0]))
    big = ndgrad.tensor([[1e4, 2e4]]).to_sparse()
    assert ndgrad.sparse.softmax(big, 1).to_dense().tolist() == [[0.0, 1.0]]


def test_diagonals_against_scipy():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    d = RANDOM.standard_normal((3, 4))
    for shape in ((4, 4), (3, 6), (6, 3)):
        made = ndgrad.sparse.spdiags(ndgrad.tensor(d), ndgrad.tensor([0, -1, 2]), shape).to_dense().numpy()
        np.testing.assert_allclose(made, scipy_sparse.spdiags(d, [0, -1, 2], *shape).toarray())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sparse(A) @ ndgrad.ones(4, 2), "cannot be multiplied"),
        (lambda: sparse(A) @ ndgrad.ones(5, 2, dtype=ndgrad.float32), "same dtype"),
        (lambda: sparse(A).mm(ndgrad.ones(5)), "2 dimensions"),
        (lambda: ndgrad.tensor(A).to_sparse(1) @ ndgrad.ones(5, 2), "dense dimensions"),
        (lambda: sparse(A) + sparse(B), "sizes"),
        (lambda: sparse(A) + sparse(A, "sparse_csr"), "layouts differ"),
        (lambda: sparse(A) * sparse(A, "sparse_csr"), "layouts differ"),
        (lambda: sparse(A) * sparse(B), "sizes"),
        (lambda: sparse(A) + 1.0, "dense"),
        (lambda: 1.0 + sparse(A), "dense"),
        (lambda: ndgrad.ones(5) + sparse(A), "same size"),
        (lambda: sparse(A) * ndgrad.ones(2, 5, 5), "cannot be expanded"),
        (lambda: sparse(A) * ndgrad.ones(4), "cannot be expanded"),
        (lambda: sparse(A) / ndgrad.tensor(A), "scalar"),
        (lambda: ndgrad.cat([sparse(A), ndgrad.tensor(A)]), "layouts"),
        (lambda: ndgrad.cat([sparse(A), sparse(B)]), "sizes"),
        (lambda: ndgrad.stack([sparse(A), sparse(B)]), "same shape"),
        (lambda: sparse(A).narrow(0, 3, 4), "exceeds"),
        (lambda: ndgrad.tensor(A).to_sparse(1).t(), "dense dimensions"),
        (lambda: ndgrad.tensor(A).to_sparse(1).permute(1, 0), "change places"),
        (lambda: ndgrad.sparse.sampled_addmm(sparse(A), ndgrad.ones(5, 2), ndgrad.ones(2, 5)), "sparse_csr"),
        (lambda: ndgrad.sparse.sampled_addmm(sparse(A, "sparse_csr"), ndgrad.ones(4, 2), ndgrad.ones(2, 5)), "shape of their product"),
        (lambda: ndgrad.sparse.spsolve(sparse(B), ndgrad.ones(5)), "square"),
        (lambda: ndgrad.sparse.spsolve(sparse(A), ndgrad.ones(4)), "does not fit"),
        (lambda: ndgrad.sparse.spsolve(sparse(A), ndgrad.ones(5, dtype=ndgrad.float32)), "Convert"),
        (lambda: sparse(A).copy_(ndgrad.tensor(A)), "cannot be copied"),
        (lambda: sparse(A).add_(ndgrad.tensor(A)), "cannot take the place"),
        (lambda: sparse(A).to(ndgrad.tensor(A)), "different layout"),
        (lambda: sparse(A).data_ptr(), "no memory"),
        (lambda: sparse(A).nbytes, "nbytes"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_other_refusals():
    with pytest.raises(IndexError):
        sparse(A)[7]
    with pytest.raises(IndexError):
        sparse(A).index_select(0, ndgrad.tensor([9]))
    with pytest.raises(IndexError, match="too many"):
        sparse(A)[0, 0, 0]
    with pytest.raises(NotImplementedError, match="step"):
        sparse(A)[::2]
    with pytest.raises(TypeError, match="Cannot assign"):
        sparse(A)[0] = 1.0
    with pytest.raises(NotImplementedError):
        ndgrad.sparse.softmax(ndgrad.tensor(A), 1)
    pytest.importorskip("scipy.sparse")
    singular = sparse(np.array([[1.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(np.linalg.LinAlgError):
        ndgrad.sparse.spsolve(singular, ndgrad.ones(2))


def test_parts_against_numpy():
    x = sparse(A)
    for index in (0, (1, 2), slice(1, 3), (slice(None), slice(2, 5)), (Ellipsis, 1), (slice(1, 4), 0), None, -1):
        made = x[index]
        np.testing.assert_allclose((made.to_dense() if made.layout is not ndgrad.strided else made).numpy(), A[index])
    rows = [2, 2, 0]
    np.testing.assert_allclose(x[ndgrad.tensor(rows)].to_dense().numpy(), A[rows])
    np.testing.assert_allclose(np.stack([row.to_dense().numpy() for row in x]), A)
