"""Linear algebra: the same program through torch and through ndgrad gives the same values, dtypes, gradients and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import ndgrad

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]

r = np.random.default_rng(3)


def real(*shape):
    return r.standard_normal(shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


# Arguments of the programs: S square, T another, B a batch of squares, M tall, W wide, v w vectors, C D batches, n a number.
ARRAYS = {
    "S": real(3, 3) + 2 * np.eye(3), "T": real(3, 3) - 2 * np.eye(3), "B": real(2, 3, 3) + 2 * np.eye(3), "M": real(4, 3),
    "W": real(3, 4), "v": real(3), "w": real(3), "u": real(4), "C": real(2, 4, 3), "D": real(2, 3, 4),
    "Q": real(2, 1, 3, 3), "n": real(), "E": real(0, 3),
}  # fmt: skip
COMPLEX = {name: complex_(*a.shape) + (2 * np.eye(3) if name in "STB" else 0) for name, a in ARRAYS.items()}
POSITIVE = "(S @ S.mH + t.eye(3))"


PRODUCTS = [
    "S @ T", "S @ v", "v @ S", "v @ w", "B @ S", "S @ B", "B @ v", "v @ B", "B @ B", "C @ D", "Q @ B", "B @ Q", "E @ S",
    "M.mT @ M", "S.matmul(T)", "t.mm(M, W)", "t.bmm(C, D)", "t.mv(M, v)", "t.dot(v, w)", "t.vdot(v, w)", "t.inner(v, w)",
    "t.inner(M, S)", "t.inner(n, v)", "t.inner(C, v)", "t.outer(v, u)", "t.ger(v, u)", "v.outer(u)", "t.kron(M, S)",
    "t.kron(v, S)", "t.kron(C, v)", "t.chain_matmul(S, T, W)", "t.linalg.multi_dot([v, S, W, u])",
    "t.linalg.multi_dot([S, T])", "t.linalg.multi_dot((W, M, S, v))", "t.addmm(S, M.mT, M)",
    "t.addmm(v, M.mT, M, beta=0.5, alpha=2)", "S.addmm(W, M, alpha=-1)", "t.addmm(S, mat1=W, mat2=M)",
    "t.addr(S, vec1=v, vec2=w)", "t.addmv(v, mat=W, vec=u)", "t.baddbmm(B, batch1=D, batch2=C)", "t.addmv(v, W, u)",
    "t.addmv(v, W, u, beta=0)", "t.addr(S, v, w, alpha=3)", "t.addbmm(S, D, C)", "t.addbmm(S, D, C, beta=2, alpha=0.5)",
    "t.baddbmm(B, D, C)", "t.baddbmm(v, D, C, beta=0.1)", "t.trace(S)", "t.trace(M)", "S.trace()", "t.linalg.vecdot(v, w)",
    "t.linalg.vecdot(B, S)", "t.linalg.vecdot(B, v, dim=1)", "t.linalg.cross(S, T)", "t.linalg.cross(B, S[None], dim=1)",
    "t.cross(S, T, dim=0)", "t.linalg.matmul(S, T)", "t.tensordot(S, T, 1)", "t.tensordot(C, C.permute(1, 2, 0), 2)",
    "t.tensordot(C, D, ([0, 1], [0, 2]))", "t.tensordot(C, D, dims=([2], [1]))", "t.tensordot(S, T, 0)",
    "t.tensordot(C, D[:, :1], ([2], [1]))", "t.tensordot(v, w, 1)",
]  # fmt: skip
EINSUMS = [
    "t.einsum('ij,jk->ik', S, T)", "t.einsum('ij,jk', S, T)", "t.einsum('ij->ji', M)", "t.einsum('ij->', M)",
    "t.einsum('ii', S)", "t.einsum('ii->i', S)", "t.einsum('iij->j', S[:, None] * B[0])", "t.einsum('ij,ij->', S, T)",
    "t.einsum('ij,ij->ij', S, T)", "t.einsum('i,j->ij', v, w)", "t.einsum('i,i->i', v, w)",
    "t.einsum('bij,bjk->bik', C, D)", "t.einsum('bij,bjk->ki', C, D)", "t.einsum('bij->b', C)",
    "t.einsum('...ij,...jk->...ik', C, D)", "t.einsum('...ij,jk->...ik', B, S)", "t.einsum('...i,...i', B, v)",
    "t.einsum('...ij->...ji', C)", "t.einsum('...ij->ij', C)", "t.einsum('...ii->...i', B)",
    "t.einsum('i...,i...->...', C, D.mT)", "t.einsum('ij,jk,kl->il', S, T, W)", "t.einsum('ij,jk,kl,l->i', S, T, W, u)",
    "t.einsum('bij,bjk,k,i->b', C, D, u, u)", "t.einsum('ij,kl->ikjl', S, M)", "t.einsum('i,ij,j->', v, S, w)",
    "t.einsum('ij,j,j->i', S, v, w)", "t.einsum('ij,ij,ij->ij', S, T, S)",
    "t.einsum('ijk,ilm,njm,nlk,abc->', C, C, C, C, C)", "t.einsum('ij,ij->ij', S[:1], T)",
    "t.einsum('ij,jk->ik', S[:, :1], T)", "t.einsum('iij,jkk->ik', S[:, None] * B[0], B[0][None] * S[:, :, None])",
    "t.einsum('ij,kj->ik', M, S)", "t.einsum(S, [0, 1], T, [1, 2], [0, 2])", "t.einsum(S, [0, 1], T, [1, 2])",
    "t.einsum(C, [..., 0, 1], T, [1, 2], [..., 2, 0])", "t.einsum(S, [0, 0])", "t.einsum('n,->n', v, n)",
    "t.einsum('ab,Ba->Bb', S, T)", "t.einsum('Ab,ba', S, T)", "t.einsum(' i j , j k -> i k ', S, T)",
    "t.einsum('ij,jk->ik', [S, T])", "t.einsum('ei,ej->ij', E, E)", "t.einsum('...', C)", "t.einsum('ij->ij', S)",
    "t.einsum('i...i', B.permute(1, 0, 2))",
]  # fmt: skip
SOLVES = [
    "t.linalg.inv(S)", "t.inverse(B)", "B.inverse()", "t.linalg.inv_ex(S)[0]", "t.linalg.solve(S, v)",
    "t.linalg.solve(S, M.mT)", "t.linalg.solve(B, v)", "t.linalg.solve(B, D)", "t.linalg.solve(S, D)",
    "t.linalg.solve(Q + 3 * t.eye(3), D)", "t.linalg.solve(B, M, left=False)", "t.linalg.solve(B, B[..., 0])",
    "t.linalg.solve_ex(S, v)[0]", "t.linalg.solve_triangular(S, W, upper=True)",
    "t.linalg.solve_triangular(B, D, upper=False)", "t.linalg.solve_triangular(S, M, upper=True, left=False)",
    "t.linalg.solve_triangular(S, W, upper=False, unitriangular=True)", "t.triangular_solve(W, S)[0]",
    "t.triangular_solve(W, S, False, True)[0]", "t.linalg.pinv(M)", "t.linalg.pinv(W)", "t.linalg.pinv(C)", "t.pinverse(M)",
    "t.linalg.pinv(S + S.mH, hermitian=True)", "t.linalg.pinv(M, atol=1e-3)", "t.linalg.pinv(S, rtol=t.tensor(1e-4))",
    "t.linalg.lstsq(M, M[:, :2] ** 2)[0]", "t.linalg.lstsq(M, u)[0]", "t.linalg.lstsq(C, C ** 2)[0]",
    "t.linalg.tensorinv(t.kron(S, T).reshape(3, 3, 9)[..., None].reshape(9, 3, 3), ind=1)",
    "t.linalg.tensorsolve(t.kron(S, T).reshape(3, 3, 9), S)",
    "t.linalg.tensorsolve(t.kron(S, T).reshape(3, 9, 3).permute(0, 2, 1), S, dims=(2,))",
    "t.linalg.cholesky(" + POSITIVE + ")", "t.linalg.cholesky(" + POSITIVE + ", upper=True)",
    "t.cholesky(" + POSITIVE + ")", "t.cholesky_solve(M.mT, t.linalg.cholesky(" + POSITIVE + "))",
    "t.cholesky_solve(M.mT, t.linalg.cholesky(" + POSITIVE + ", upper=True), upper=True)",
    "t.cholesky_inverse(t.linalg.cholesky(" + POSITIVE + "))", "t.linalg.cholesky(B @ B.mH + t.eye(3))",
    "t.linalg.lu_factor(S)[0]", "t.linalg.lu_factor(C)[0]", "t.linalg.lu_factor(D)", "t.linalg.lu(S)", "t.linalg.lu(M)",
    "t.linalg.lu(D)", "t.lu_unpack(*t.linalg.lu_factor(M))", "t.linalg.lu_solve(*t.linalg.lu_factor(S), M.mT)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(B), D)", "t.linalg.lu_solve(*t.linalg.lu_factor(S), M, left=False)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(S), M.mT, adjoint=True)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(S), M, left=False, adjoint=True)", "t.lu_solve(W, *t.linalg.lu_factor(S))",
]  # fmt: skip
# only what does not depend on signs and phases
SPECTRA = [
    "t.linalg.qr(M)", "t.linalg.qr(W)", "t.linalg.qr(C)", "t.linalg.qr(D, mode='complete')", "t.qr(S)",
    "t.linalg.svdvals(M)", "t.linalg.svdvals(D)",
    "(lambda u, s, v: (s, u.abs(), v.abs(), (u * s ** 2) @ v))(*t.linalg.svd(M, full_matrices=False))",
    "(lambda u, s, v: (s, u.abs(), v.abs(), (u * s ** 2) @ v))(*t.linalg.svd(W, full_matrices=False))",
    "(lambda u, s, v: (s, u[..., :3].abs(), v.abs()))(*t.linalg.svd(C))",
    "(lambda u, s, v: (u * s.exp()[:, None]) @ v)(*t.linalg.svd(B))", "(lambda u, s, v: (s, u.abs(), v.abs()))(*t.svd(M))",
    "t.svd(M, compute_uv=False)[1]", "(lambda w, v: (w, v.abs(), (v * w ** 3) @ v.mH))(*t.linalg.eigh(S + S.mH))",
    "t.linalg.eigh(S + S.mH, UPLO='U')[0]", "(lambda w, v: (v * w.exp()[:, None]) @ v.mH)(*t.linalg.eigh(B + B.mH))",
    "t.linalg.eigvalsh(S + S.mH)", "t.linalg.eigvalsh(B + B.mH, 'U')",
    "(lambda w, v: ((w ** 2).sum(), (w.abs() * v.abs()).sum(-1), t.linalg.solve(v.mT, (v * w ** 3).mT).mT))(*t.linalg.eig(S))",
    "(t.linalg.eigvals(B) ** 3).sum(-1)", "t.linalg.eigvals(S).abs().sum()", "t.linalg.householder_product(M, v)",
    "t.orgqr(C, v[:2].expand(2, 2))",
]  # fmt: skip
OTHERS = [
    "t.linalg.det(S)", "t.det(B)", "S.det()", "t.linalg.det(S @ S @ T)", "t.linalg.slogdet(S)", "t.slogdet(B)",
    "t.logdet(" + POSITIVE + ")", "t.linalg.matrix_exp(S)", "t.matrix_exp(B * 3)", "S.matrix_exp()",
    "t.linalg.matrix_power(S, 3)", "t.matrix_power(B, 5)", "t.linalg.matrix_power(S, -2)", "t.linalg.matrix_power(S, 1)",
    "t.linalg.cond(S)", "t.linalg.cond(M)", "t.linalg.cond(B, -2)", "t.linalg.cond(S, 'nuc')", "t.linalg.vander(v)",
    "t.linalg.vander(S, N=5)", "t.linalg.diagonal(C)", "t.linalg.diagonal(C, offset=1, dim1=0)", "t.linalg.norm(S)",
    "t.linalg.matrix_norm(B)", "t.linalg.vector_norm(v, 3)",
]  # fmt: skip
DISTANCES = [
    "t.cdist(M, S)", "t.cdist(C, S)", "t.cdist(M, C[:, None])", "t.cdist(M, S, p=1.0)", "t.cdist(M, S, p=3.0)",
    "t.cdist(M, S, p=0.5)", "t.cdist(M, S, p=math.inf)", "t.cdist(M, S, p=0.0)", "t.cdist(S, S)", "t.cdist(S, S, p=1.0)",
    "t.cdist(S, S, p=1.5)", "t.pdist(M)", "t.pdist(M, 1)", "t.pdist(M, p=3)", "t.pdist(M, p=math.inf)", "t.pdist(M[:1])",
    "t.cdist(E, S)", "t.cdist(M, S, compute_mode='donot_use_mm_for_euclid_dist')",
]  # fmt: skip
REAL_ONLY = {"t.linalg.lstsq(C, C ** 2)[0]"}
PROGRAMS = [(p, False) for p in PRODUCTS + EINSUMS + SOLVES + SPECTRA + OTHERS + DISTANCES]
PROGRAMS += [(p, True) for p in PRODUCTS + EINSUMS + SOLVES + SPECTRA + OTHERS if p not in REAL_ONLY]


def run(program, library, make, arrays):
    """Outputs and gradients of a program."""
    names = {name: make(a) for name, a in arrays.items()}
    for x in names.values():
        x.requires_grad_()
    result = eval(program, {"t": library, "math": math, **names})
    outs = tuple(result) if isinstance(result, tuple) else (result,)
    loss = 0.0
    for number, o in enumerate(outs):
        if o.requires_grad and "int" not in str(o.dtype):
            weights = np.cos(np.arange(o.numel()) + number).reshape(tuple(o.shape))
            if "complex" in str(o.dtype):
                part = ((o * make(weights + 0.3j * weights**2)).real).sum()
            else:
                part = (o * make(weights)).sum()
            loss = loss + part
    if not isinstance(loss, float):
        loss.backward()
    grads = {name: None if x.grad is None else to_numpy(x.grad) for name, x in names.items()}
    return [to_numpy(o) for o in outs], grads, getattr(result, "_fields", None)


def to_numpy(t):
    t = t.detach()
    return np.asarray((t.resolve_conj() if isinstance(t, torch.Tensor) else t).numpy())


def torch_tensor(a):
    return torch.tensor(a)


@pytest.mark.parametrize(("program", "is_complex"), PROGRAMS, ids=[f"{p}{'-complex' if c else ''}" for p, c in PROGRAMS])
def test_values_and_gradients(program, is_complex):
    arrays = COMPLEX if is_complex else ARRAYS
    want, want_grads, _ = run(program, torch, torch_tensor, arrays)
    got, got_grads, _ = run(program, ndgrad, ndgrad.tensor, arrays)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
    for name, w in want_grads.items():
        g = got_grads[name]
        if w is None:
            assert g is None or not g.any(), name
        else:
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-7, atol=1e-7 * (1 + np.abs(w).max(initial=0)), err_msg=name)


SECOND = [
    "S @ T @ v", "t.einsum('ij,jk,kl->il', S, T, S)", "t.linalg.inv(S)", "t.linalg.solve(S, v)",
    "t.linalg.solve_triangular(S, T, upper=True)", "t.linalg.cholesky(S @ S.mT + t.eye(3))", "t.linalg.qr(M)[0]",
    "t.linalg.svd(M, full_matrices=False)[0].abs()", "t.linalg.svdvals(S)", "t.linalg.eigh(S + S.mT)[1].abs()",
    "t.linalg.eigvalsh(S + S.mT)", "t.linalg.eigvals(S).abs()", "t.linalg.det(S)", "t.linalg.slogdet(S)[1]",
    "t.linalg.matrix_exp(S)", "t.linalg.pinv(M)", "t.linalg.lu_factor(M)[0]", "t.addmm(S, S, T)", "t.linalg.cross(S, T)",
    "t.kron(S, T)", "t.linalg.matrix_power(S, 3)",
]  # fmt: skip


@pytest.mark.parametrize("program", SECOND)
def test_second_derivatives(program):
    def second(library, make):
        names = {name: make(a).requires_grad_() for name, a in ARRAYS.items()}
        loss = (eval(program, {"t": library, **names}) ** 2).sum()
        inputs = [x for name, x in names.items() if name in "STMv"]
        grads = library.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
        total = sum((g * g).sum() for g in grads if g is not None)
        return [None if g is None else to_numpy(g) for g in library.autograd.grad(total, inputs, allow_unused=True)]

    for g, w in zip(second(ndgrad, ndgrad.tensor), second(torch, torch_tensor), strict=True):
        if w is None:
            assert g is None or not g.any()
        else:
            np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-7 * (1 + np.abs(w).max()))


# torch's own backward fails for cond and vander (it overwrites what it saved)
RESULTS = [
    "t.linalg.cond(S, 1)", "t.linalg.cond(S, 'fro')", "t.linalg.cond(B, -math.inf)", "t.vander(v)", "t.vander(v, 2)",
    "t.vander(v, increasing=True)", "t.linalg.lstsq(M, M[:, :2])", "t.linalg.lstsq(M, M[:, :2] ** 2, driver='gelsd')",
    "t.linalg.lstsq(M, M[:, :2] ** 2, driver='gels')", "t.linalg.lstsq(C, C ** 2, driver='gelss')",
    "t.linalg.lstsq(W, W[:, :2], driver='gelsd')", "t.linalg.matrix_rank(S)", "t.linalg.matrix_rank(M @ W)",
    "t.linalg.matrix_rank(B, hermitian=True)", "t.linalg.matrix_rank(S, tol=1.5)",
    "t.linalg.matrix_rank(B, atol=t.tensor([0.1, 3.0]))", "t.linalg.matrix_rank(S, rtol=0.9)",
    "t.linalg.matrix_power(B, 0)", "t.linalg.qr(M, mode='r')", "t.linalg.qr(M, mode='complete')[1]", "t.linalg.inv_ex(S)",
    "t.linalg.cholesky_ex(S @ S.mT + t.eye(3))", "t.linalg.inv_ex(S * 0).info", "t.linalg.cholesky_ex(-S @ S.mT).info",
    "t.linalg.lu_factor(S)", "t.linalg.slogdet(S * 0)", "t.logdet(-S @ S.mT)", "t.linalg.cond(S * 0, 1)",
    "t.addmm(S * math.nan, S, T, beta=0)", "t.linalg.det(S[:0, :0])", "t.linalg.inv(S[:0, :0])", "t.linalg.svd(S[:0])[1]",
    "t.tensor([[1, 2], [3, 4]]) @ t.tensor([1, 1])", "t.linalg.vander(t.tensor([1, 2, 3]))",
    "t.einsum('ij,j->i', t.tensor([[1, 2], [3, 4]]), t.tensor([1, 1]))",
]  # fmt: skip


@pytest.mark.parametrize("program", RESULTS)
def test_results_without_gradients(program):
    def values(library, make):
        with library.no_grad():
            result = eval(program, {"t": library, "math": math, **{name: make(a) for name, a in ARRAYS.items()}})
        return [to_numpy(o) for o in (result if isinstance(result, tuple) else (result,))]

    for g, w in zip(values(ndgrad, ndgrad.tensor), values(torch, torch_tensor), strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)


NAMED = {
    "t.linalg.eigh(S)": ("eigenvalues", "eigenvectors"), "t.linalg.eig(S)": ("eigenvalues", "eigenvectors"),
    "t.linalg.svd(S)": ("U", "S", "Vh"), "t.svd(S)": ("U", "S", "V"), "t.linalg.qr(S)": ("Q", "R"),
    "t.linalg.slogdet(S)": ("sign", "logabsdet"), "t.linalg.lu(S)": ("P", "L", "U"),
    "t.linalg.lu_factor(S)": ("LU", "pivots"), "t.linalg.lstsq(S, T)": ("solution", "residuals", "rank", "singular_values"),
    "t.linalg.inv_ex(S)": ("inverse", "info"), "t.linalg.cholesky_ex(S)": ("L", "info"),
    "t.linalg.solve_ex(S, T)": ("result", "info"),
}  # fmt: skip


@pytest.mark.parametrize(("program", "fields"), NAMED.items(), ids=list(NAMED))
def test_results_have_names(program, fields):
    for library, make in ((torch, torch_tensor), (ndgrad, ndgrad.tensor)):
        result = eval(program, {"t": library, **{name: make(a) for name, a in ARRAYS.items()}})
        for i, field in enumerate(fields):
            assert getattr(result, field) is result[i]


ERRORS = [
    "n @ S", "S @ M", "M @ M", "B @ C", "t.mm(v, S)", "t.mm(M, M)", "t.bmm(S, S)", "t.bmm(C, C)", "t.bmm(C, D[:1])",
    "t.mv(S, S)", "t.mv(S, u)", "t.dot(v, u)", "t.dot(S, v)", "t.vdot(v, u)", "t.inner(v, u)", "t.outer(S, v)",
    "t.trace(v)", "t.trace(B)", "t.addmm(M, S, S)", "t.addmm(S, v, S)", "t.addmm(S, M, M)", "t.baddbmm(S[:2], D, C)",
    "t.addr(S, v, S)", "t.addmv(u, S, v)", "t.linalg.multi_dot([S])", "t.linalg.multi_dot([S, v, S])",
    "t.linalg.multi_dot([S, W, S])", "t.einsum('ij,jk', S)", "t.einsum('ij', S, S)", "t.einsum('ij,jk', S, W.mT)",
    "t.einsum('ij->ii', S)", "t.einsum('ij->ik', S)", "t.einsum('ii', M)", "t.einsum('i', S)", "t.einsum('ijk', S)",
    "t.einsum('i1', S)", "t.einsum('...ijk', S)", "t.einsum('ij')", "t.einsum('ij->i->j', S)", "t.einsum('i..j', S)",
    "t.tensordot(M, M, 1)", "t.tensordot(S, S, ([0], [0, 1]))", "t.tensordot(S, S, -1)", "t.linalg.cross(v, S)",
    "t.linalg.cross(u, u)", "t.cross(u, u)", "t.linalg.cross(S, T, dim=2)", "t.linalg.vecdot(v, u)", "t.linalg.inv(M)",
    "t.linalg.inv(v)", "t.linalg.inv(S * 0)", "t.linalg.solve(S, u)", "t.linalg.solve(S * 0, v)", "t.linalg.solve(M, v)",
    "t.linalg.solve(S, v, left=False)", "t.linalg.cholesky(-t.eye(3))", "t.linalg.cholesky(M)",
    "t.linalg.eigh(S, UPLO='X')", "t.linalg.eigh(M)", "t.linalg.eig(M)", "t.linalg.svd(v)",
    "t.linalg.svd(S, driver='gesvd')", "t.linalg.qr(S, mode='full')", "t.linalg.qr(v)", "t.linalg.det(M)",
    "t.linalg.slogdet(v)", "t.linalg.matrix_exp(M)", "t.linalg.matrix_power(S, 1.5)", "t.linalg.matrix_power(M, 2)",
    "t.linalg.lu(S, pivot=False)", "t.linalg.lu_factor(v)", "t.linalg.lstsq(S, u)", "t.linalg.lstsq(S, v, driver='x')",
    "t.linalg.tensorinv(S, ind=0)", "t.linalg.tensorinv(B, ind=1)", "t.linalg.tensorsolve(B, S)", "t.cdist(v, S)",
    "t.cdist(M, W)", "t.cdist(M, S, p=-1.0)", "t.cdist(M, S, compute_mode='x')", "t.pdist(C)", "t.pdist(M, -1)",
    "t.linalg.inv(S.to(t.float16))", "t.linalg.solve_triangular(S, u[:, None], upper=True)", "t.linalg.cond(M, 1)",
    "t.matmul(S, T, out=S.clone().requires_grad_())", "t.linalg.vander(n)", "t.vander(S)",
]  # fmt: skip


@pytest.mark.parametrize("program", ERRORS)
def test_errors_have_torchs_class(program):
    def error(library, make):
        names = {name: make(a) for name, a in ARRAYS.items()}
        with pytest.raises(Exception) as raised:
            eval(program, {"t": library, **names})
        return raised.value

    want, got = error(torch, torch_tensor), error(ndgrad, ndgrad.tensor)
    expected = RuntimeError if isinstance(want, RuntimeError) else type(want)
    assert isinstance(got, expected), (want, got)
    if isinstance(want, torch.linalg.LinAlgError):
        assert isinstance(got, ndgrad.linalg.LinAlgError)


INPLACE = ["x.addmm_(S, T, beta=0.5)", "x.addmv_(S, v)", "x.addr_(v, w, alpha=2)", "x.addbmm_(D, C)", "x.baddbmm_(D, C)"]


@pytest.mark.parametrize("program", INPLACE)
def test_in_place_forms(program):
    start = {"x.addmv_(S, v)": "w", "x.baddbmm_(D, C)": "B"}.get(program, "T")

    def both(library, make):
        names = {name: make(a).requires_grad_() for name, a in ARRAYS.items()}
        x = names[start] * 2
        result = eval(program, {"x": x, **names})
        assert result is x
        (x * x).sum().backward()
        return [to_numpy(x), *(None if t.grad is None else to_numpy(t.grad) for t in names.values())]

    for g, w in zip(both(ndgrad, ndgrad.tensor), both(torch, torch_tensor), strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("program", [
    "S @ T", "t.linalg.inv(S)", "t.linalg.solve(S, v)", "t.linalg.svdvals(M)", "t.linalg.eigvalsh(S)", "t.linalg.qr(M)[1]",
    "t.linalg.matrix_exp(S)", "t.linalg.pinv(M)", "t.linalg.lu_factor(S)[0]", "t.einsum('ij,kj->ik', S, M)",
    "t.cdist(M, S)", "t.linalg.solve_triangular(S, T, upper=True)", "t.addmm(S, S, T)",
])  # fmt: skip
def test_single_precision_stays(program):
    arrays = {name: a.astype(np.float32) for name, a in ARRAYS.items()}

    def both(library, make):
        names = {name: make(a).requires_grad_() for name, a in arrays.items()}
        out = eval(program, {"t": library, **names})
        out.sum().backward()
        return [to_numpy(out), *(to_numpy(x.grad) for x in names.values() if x.grad is not None)]

    for g, w in zip(both(ndgrad, ndgrad.tensor), both(torch, torch_tensor), strict=True):
        assert g.dtype == w.dtype == np.float32
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4)


NODES = [
    "t.linalg.inv(S)", "t.linalg.solve(S, T)", "t.linalg.cholesky(S @ S.mT + t.eye(3))",
    "t.linalg.qr(S)[0]", "t.linalg.svd(S)[1]", "t.linalg.eigh(S)[0]", "t.linalg.eig(S)[0]",
    "t.linalg.det(S)", "t.linalg.slogdet(S)[1]", "t.linalg.matrix_exp(S)", "t.linalg.pinv(S)",
    "t.linalg.lu_factor(S)[0]", "t.addmm(S, S, T)", "t.baddbmm(B, B, B)", "t.addmv(v, S, v)",
    "t.addr(S, v, v)", "t.trace(S)", "t.linalg.cross(S, T)", "t.cdist(S, T)",
    "t.linalg.solve_triangular(S, T, upper=True)", "t.linalg.svdvals(S)", "t.linalg.eigvalsh(S)",
    "t.outer(v, w)",
]  # fmt: skip


@pytest.mark.parametrize("program", NODES)
def test_nodes_have_torchs_names(program):
    def name(library, make):
        return eval(program, {"t": library, **{n: make(a).requires_grad_() for n, a in ARRAYS.items()}}).grad_fn.name()

    assert name(ndgrad, ndgrad.tensor) == name(torch, torch_tensor)
