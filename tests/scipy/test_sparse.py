"""`ndgrad.scipy.sparse`: SciPy's matrices as constants, our arrays as differentiable values, solves."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func

scipys = pytest.importorskip("scipy.sparse")
import scipy.sparse.linalg as scipy_linalg  # noqa: E402
from tests.scipy.checking import check, plain  # noqa: E402

from ndgrad.scipy import sparse  # noqa: E402
from ndgrad.scipy.sparse import linalg  # noqa: E402

R = np.random.default_rng(1)
FULL = np.where(R.uniform(size=(5, 5)) < 0.4, R.standard_normal((5, 5)), 0.0) + 4 * np.eye(5)
ROWS, COLUMNS = np.nonzero(FULL)
DATA = FULL[ROWS, COLUMNS]
X = R.standard_normal((5, 2))
V = R.standard_normal(5)
WIDE = np.where(R.uniform(size=(3, 5)) < 0.5, R.standard_normal((3, 5)), 0.0)


def ours(data, kind=sparse.csr_array, shape=(5, 5)):
    return kind((data, (ROWS, COLUMNS)), shape=shape)


def full(data):
    made = np.zeros((5, 5), data.dtype)
    made[ROWS, COLUMNS] = data
    return made


# ----- constants ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_array", "dia_array", "bsr_array", "csr_matrix"])
def test_scipys_matrices_are_constants_in_products(form):
    a = getattr(scipys, form)(FULL)
    for x in (V, X):
        check(lambda t: a @ t, lambda t: FULL @ t, x)
        if form != "coo_array":  # its dot() asks for bare memory, which raises
            check(lambda t: a.dot(t), lambda t: FULL @ t, x, second=False)
        check(lambda t: t @ a, lambda t: t @ FULL, x.T.copy())
    w = scipys.csr_array(WIDE)
    check(lambda t: w @ t, lambda t: WIDE @ t, V)


def test_products_keep_the_class_and_the_graph():
    a = scipys.csr_array(FULL)
    for t in (ndgrad.tensor(V, requires_grad=True), dnp.array(V).requires_grad_(), dnp.array(V)):
        made = a @ t
        assert type(made) is type(t)
        assert made.requires_grad == t.requires_grad
        np.testing.assert_allclose(made.detach().numpy(), FULL @ V)
    jacobian = func.jacrev(lambda v: a @ v)(dnp.array(V))
    np.testing.assert_allclose(plain(jacobian), FULL)
    pushed = func.jvp(lambda v: a @ v, (dnp.array(V),), (dnp.array(X[:, 0]),))[1]
    np.testing.assert_allclose(plain(pushed), FULL @ X[:, 0])
    with pytest.raises(ValueError, match="mismatch"):
        a @ dnp.array(np.ones(4))
    np.testing.assert_allclose(np.asarray(dnp.array(V)), V)  # other entries are as they were


# ----- differentiable arrays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_products_are_differentiable_in_the_entries(kind):
    for x in (V, X):
        check(lambda d, t: ours(d, kind) @ t, lambda d, t: full(d) @ t, DATA, x)
        check(lambda d, t: t @ ours(d, kind), lambda d, t: t @ full(d), DATA, x.T.copy())
        check(lambda d, t: ours(d, kind).T @ t, lambda d, t: full(d).T @ t, DATA, x, second=False)
    check(lambda d, t: ours(d, kind) @ t, lambda d, t: full(d) @ t, DATA + 0.3j * DATA[::-1], X + 1j * X[::-1])
    check(lambda d: ours(d, kind).toarray(), full, DATA)


def test_the_gradient_has_the_pattern_of_the_matrix():
    data = dnp.array(DATA).requires_grad_()
    a = ours(data)
    assert a.data is data
    (a @ V).sum().backward()
    np.testing.assert_allclose(data.grad.numpy(), V[COLUMNS])
    assert (a.nnz, a.shape, a.format, a.requires_grad) == (len(DATA), (5, 5), "csr", True)
    np.testing.assert_array_equal(a.indptr, scipys.csr_array(FULL).indptr)
    np.testing.assert_array_equal(a.indices, scipys.csr_array(FULL).indices)
    np.testing.assert_allclose(a.to_scipy().toarray(), FULL)


def test_all_ways_to_make_one():
    csr, csc = scipys.csr_array(FULL), scipys.csc_array(FULL)
    for made in (
        sparse.csr_array((csr.data, csr.indices, csr.indptr)),
        sparse.csc_array((csc.data, csc.indices, csc.indptr)),
        sparse.coo_array(csr),
        sparse.csr_array(FULL),
        sparse.csc_array(sparse.csr_array(FULL)),
        sparse.csr_array((DATA[::-1], (ROWS[::-1], COLUMNS[::-1])), shape=(5, 5)),
    ):
        np.testing.assert_allclose(plain(made.toarray()), FULL)
    repeated = sparse.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    np.testing.assert_allclose(plain(repeated.toarray()), [[0, 2], [1, 0]])
    assert sparse.csr_array((3, 4)).nnz == 0
    with pytest.raises(ValueError, match="outside"):
        sparse.coo_array((np.ones(1), ([7], [0])), shape=(2, 2))


def test_arithmetic_of_sparse_arrays():
    other = scipys.csr_array(np.where(R.uniform(size=(5, 5)) < 0.3, 1.5, 0.0))
    dense = other.toarray()
    pairs = [
        (lambda a: (a @ other).toarray(), lambda f: f @ dense),
        (lambda a: (a + other).toarray(), lambda f: f + dense),
        (lambda a: (a - other).toarray(), lambda f: f - dense),
        (lambda a: (2.0 * a / 3.0).toarray(), lambda f: f * 2 / 3),
        (lambda a: a.multiply(V).toarray(), lambda f: f * V),
        (lambda a: (-a).power(2).toarray(), lambda f: f**2),
        (lambda a: a.sum(), lambda f: f.sum()),
        (lambda a: a.sum(axis=0), lambda f: f.sum(axis=0)),
        (lambda a: a.mean(axis=1), lambda f: f.mean(axis=1)),
        (lambda a: a.diagonal(), lambda f: np.diagonal(f)),
        (lambda a: a.diagonal(1), lambda f: np.diagonal(f, 1)),
        (lambda a: a.trace(), np.trace),
        (lambda a: (a @ a).toarray(), lambda f: f @ f),
    ]
    for mine, theirs in pairs:
        check(lambda d, mine=mine: mine(ours(d)), lambda d, theirs=theirs: theirs(full(d)), DATA)


def test_matrices_made_of_parts():
    d = R.standard_normal(4)
    check(lambda a, b: sparse.diags_array([a, b], offsets=[0, 1]).toarray(), lambda a, b: np.diag(a) + np.diag(b, 1), V, d)
    check(lambda a: sparse.diags_array(a, offsets=-1).toarray(), lambda a: np.diag(a, -1), d)
    check(lambda a: sparse.kron(ours(a), WIDE).toarray(), lambda a: np.kron(full(a), WIDE), DATA)
    check(lambda a: sparse.vstack([ours(a), WIDE]).toarray(), lambda a: np.vstack([full(a), WIDE]), DATA)
    check(lambda a: sparse.hstack([ours(a), WIDE.T]).toarray(), lambda a: np.hstack([full(a), WIDE.T]), DATA)
    check(lambda a: sparse.block_diag([ours(a), WIDE]).toarray(), lambda a: scipys.block_diag([full(a), WIDE]).toarray(), DATA)
    np.testing.assert_array_equal(plain(sparse.eye_array(3, 4, k=1).toarray()), np.eye(3, 4, k=1))
    assert sparse.issparse(ours(DATA))
    assert sparse.issparse(scipys.csr_array(FULL))
    assert not sparse.issparse(FULL)


# ----- solves ---------------------------------------------------------------------------------------------------------------------------


def test_direct_solves_in_entries_and_right_sides():
    for b in (V, X):
        check(lambda d, b: linalg.spsolve(ours(d), b), lambda d, b: np.linalg.solve(full(d), b), DATA, b)
    check(lambda d, b: linalg.spsolve(ours(d), b), lambda d, b: np.linalg.solve(full(d), b), DATA + 0.2j * DATA[::-1], X + 1j * X[::-1])
    a = scipys.csc_array(FULL)
    check(lambda b: linalg.spsolve(a, b), lambda b: np.linalg.solve(FULL, b), V)
    check(lambda b: linalg.factorized(a)(b), lambda b: np.linalg.solve(FULL, b), X)
    for trans, turned in (("N", FULL), ("T", FULL.T), ("H", FULL.T)):
        check(
            lambda d, b, trans=trans: linalg.splu(ours(d)).solve(b, trans),
            lambda d, b, t=trans: np.linalg.solve(full(d) if t == "N" else full(d).T, b),
            DATA,
            V,
        )
        np.testing.assert_allclose(plain(linalg.splu(a).solve(V, trans)), np.linalg.solve(turned, V))
    lower = np.flatnonzero(ROWS >= COLUMNS)
    triangle = lambda d: sparse.csr_array((d, (ROWS[lower], COLUMNS[lower])), shape=(5, 5))
    dense = lambda d: triangle(d).to_scipy().toarray()
    check(lambda d, b: linalg.spsolve_triangular(triangle(d), b), lambda d, b: np.linalg.solve(dense(d), b), DATA[lower], V)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        linalg.spsolve(sparse.csr_array((np.ones(1), ([0], [0])), shape=(2, 2)), np.ones(2))


def test_a_factor_is_kept_for_the_backward_pass_and_not_for_other_numbers(monkeypatch):
    made = []
    theirs = scipy_linalg.splu
    monkeypatch.setattr(scipy_linalg, "splu", lambda m: made.append(1) or theirs(m))
    data = dnp.array(DATA).requires_grad_()
    a = ours(data)
    linalg.spsolve(a, V).sum().backward()
    assert len(made) == 1
    with ndgrad.no_grad():
        data *= 2.0
    np.testing.assert_allclose(plain(linalg.spsolve(a, V)), np.linalg.solve(2 * FULL, V))
    assert len(made) == 2


@pytest.mark.parametrize("name", ["cg", "minres", "gmres", "bicgstab"])
def test_iterative_solves(name):
    symmetric = name in ("cg", "minres")
    data = DATA if not symmetric else None
    if symmetric:
        matrix = lambda d: ours(d) @ ours(d).T
        dense = lambda d: full(d) @ full(d).T
        data = DATA
    else:
        matrix, dense = ours, full
    solve = getattr(linalg, name)
    check(lambda d, b: solve(matrix(d), b)[0], lambda d, b: np.linalg.solve(dense(d), b), data, V, value=1e-8, second=False, vmap=False)
    a = scipys.csr_array(dense(DATA))
    check(lambda b: solve(a, b)[0], lambda b: np.linalg.solve(a.toarray(), b), V, value=1e-8, second=False, vmap=False)
    x, info = solve(a, V, M=scipys.diags_array(1 / a.diagonal()))
    assert info == 0
    np.testing.assert_allclose(plain(x), np.linalg.solve(a.toarray(), V), rtol=1e-6)
    check(
        lambda m, b: solve(m, b)[0],
        np.linalg.solve,
        dense(DATA),
        V,
        value=1e-8,
        second=False,
        vmap=False,
        tangents=lambda t: t + t.T if t.ndim == 2 else t,
    )


def test_least_squares_exponentials_and_norms():
    tall = np.where(R.uniform(size=(7, 3)) < 0.7, R.standard_normal((7, 3)), 0.0)
    b = R.standard_normal(7)
    for name in ("lsqr", "lsmr"):
        check(
            lambda b, name=name: getattr(linalg, name)(scipys.csr_array(tall), b)[0],
            lambda b: np.linalg.lstsq(tall, b)[0],
            b,
            value=1e-7,
            second=False,
            vmap=False,
        )
    import scipy.linalg

    check(lambda d, x: linalg.expm_multiply(ours(d), x), lambda d, x: scipy.linalg.expm(full(d)) @ x, 0.3 * DATA, X, vmap=False)
    for order in (None, 1, np.inf):
        check(
            lambda d, o=order: linalg.norm(ours(d), o),
            lambda d, o=order: scipy_linalg.norm(scipys.csr_array(full(d)), o),
            DATA,
            second=False,
            step=1e-5,
        )
    check(lambda d: linalg.norm(ours(d), axis=1), lambda d: np.linalg.norm(full(d), axis=1), DATA)


def test_every_name_is_here_and_what_has_no_rule_says_so():
    for name in scipys.__all__:
        assert getattr(sparse, name) is not None
    for name in scipy_linalg.__all__:
        assert getattr(linalg, name) is not None
    x = dnp.array(FULL).requires_grad_()
    with pytest.raises(NotImplementedError, match="toarray"):
        linalg.eigsh(x)
    with pytest.raises(NotImplementedError, match="csr_array"):
        sparse.lil_array(x)
    assert sparse.random_array((3, 3), density=0.5, rng=0).shape == (3, 3)


def test_scipys_functions_without_a_rule_take_our_arrays_as_constants_and_say_what_to_use_for_derivatives():
    symmetric = FULL + FULL.T
    rows, columns = np.nonzero(symmetric)
    a = sparse.csr_array((dnp.array(symmetric[rows, columns]), (rows, columns)), shape=(5, 5))
    np.testing.assert_allclose(plain(linalg.eigsh(a, 1, return_eigenvectors=False)), np.linalg.eigvalsh(symmetric)[-1:])
    np.testing.assert_allclose(plain(linalg.svds(a, 1, return_singular_vectors=False)), np.linalg.norm(symmetric, 2))
    np.testing.assert_allclose(linalg.onenormest(a), np.linalg.norm(symmetric, 1))
    np.testing.assert_allclose(linalg.expm(a).toarray(), plain(dnp.asarray(scipy_linalg.expm(scipys.csc_array(symmetric)).toarray())))
    a.requires_grad_()
    for call in (lambda: linalg.eigsh(a, 1), lambda: linalg.svds(a, 1), lambda: linalg.expm(a), lambda: linalg.lobpcg(a, X)):
        with pytest.raises(NotImplementedError, match=r"scipy.sparse.linalg.\w+ has no derivative.*toarray"):
            call()
    with pytest.raises(NotImplementedError, match="csr_array of the entries"):
        sparse.tril(a)


def test_functions_of_full_matrices_say_why_they_refuse_a_sparse_one():
    for call in (np.asarray, dnp.asarray, dnp.linalg.det, np.linalg.eigh):
        with pytest.raises(TypeError, match=r"csr_array of shape \(5, 5\).*toarray\(\)"):
            call(ours(dnp.array(DATA)))
