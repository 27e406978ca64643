"""Linear algebra: points where derivatives end, argument forms, and laws, against NumPy, SciPy and closed forms."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad._src.tensor.functions import einsum as einsum_module
from ndgrad._src.tensor.functions import linalg as linalg_module
from ndgrad._src.transforms.transforms import grad, jvp, vmap
from ndgrad.linalg import LinAlgError

r = np.random.default_rng(0)


def tensor(a, requires_grad=True):
    t = ndgrad.tensor(np.array(a))
    return t.requires_grad_() if requires_grad else t


def gradient(f, a):
    x = tensor(a)
    f(x).backward()
    return x.grad.numpy()


def random(*shape):
    return r.standard_normal(shape)


# ----- equal eigenvalues and singular values --------------------------------------------------------------------------


def rotated(values):
    q, _ = np.linalg.qr(random(len(values), len(values)))
    return (q * values) @ q.T


def test_eigenvalues_have_gradients_where_they_are_equal():
    a = rotated([1.0, 1.0, 2.0])
    for f in (lambda x: ndgrad.linalg.eigvalsh(x).sum(), lambda x: ndgrad.linalg.eigh(x)[0].sum()):
        np.testing.assert_allclose(gradient(f, a), np.eye(3), atol=1e-12)
    square = gradient(lambda x: (ndgrad.linalg.eigvalsh(x) ** 2).sum(), a)
    np.testing.assert_allclose(square, 2 * a, atol=1e-12)


def test_eigenvectors_of_equal_eigenvalues_raise():
    with pytest.raises(LinAlgError, match="equal.*eigvalsh"):
        gradient(lambda x: ndgrad.linalg.eigh(x)[1][0, 1], np.eye(3))


def test_forward_mode_gives_nan_for_eigenvectors_of_equal_eigenvalues_and_the_right_eigenvalues():
    (w, v), (w_t, v_t) = jvp(ndgrad.linalg.eigh, (tensor(np.diag([1.0, 1.0, 2.0]), False),), (tensor(np.ones((3, 3)), False),))
    np.testing.assert_allclose(w_t.numpy(), [1.0, 1.0, 1.0])
    assert np.isnan(v_t.numpy()[:2, :2]).any()
    assert np.isfinite(w.numpy()).all()
    assert np.isfinite(v.numpy()).all()


def test_a_function_of_the_matrix_through_equal_eigenvalues_raises_instead_of_losing_terms():
    """V exp(w) V^T has a derivative at the identity, but the eigenvectors do not determine it."""
    c = tensor(random(3, 3), False)

    def f(x):
        w, v = ndgrad.linalg.eigh(x)
        return (((v * w.exp()) @ v.mT) * c).sum()

    with pytest.raises(LinAlgError, match="matrix_exp"):
        gradient(f, np.eye(3))
    through_exp = gradient(lambda x: (ndgrad.linalg.matrix_exp(x) * c).sum(), np.eye(3))
    np.testing.assert_allclose(through_exp, math.e * c.numpy(), rtol=1e-12)


def test_one_degenerate_matrix_of_a_batch_raises_also_under_vmap():
    batch = np.stack([np.diag([1.0, 2.0]), np.eye(2)])
    with pytest.raises(LinAlgError, match="equal"):
        vmap(grad(lambda x: ndgrad.linalg.eigh(x)[1][0, 1]))(tensor(batch, False))


def test_second_derivative_through_equal_eigenvalues_raises():
    x = tensor(np.eye(2))
    (g,) = ndgrad.autograd.grad((ndgrad.linalg.eigvalsh(x) ** 3).sum(), [x], create_graph=True)
    with pytest.raises(LinAlgError, match="equal"):
        (g * tensor(random(2, 2), False)).sum().backward()


def test_singular_values_have_gradients_where_they_are_equal():
    np.testing.assert_allclose(gradient(lambda x: ndgrad.linalg.svdvals(x).sum(), np.eye(3)), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(gradient(lambda x: ndgrad.linalg.svd(x)[1].sum(), 2 * np.eye(3)), np.eye(3), atol=1e-12)


def test_singular_vectors_of_equal_singular_values_raise():
    with pytest.raises(LinAlgError, match="equal.*svdvals"):
        gradient(lambda x: ndgrad.linalg.svd(x)[0][0, 1], np.eye(3))


def test_singular_vectors_of_a_zero_singular_value_raise_unless_square():
    a = np.outer(random(4), random(2))
    with pytest.raises(LinAlgError, match="zero"):
        gradient(lambda x: ndgrad.linalg.svd(x, full_matrices=False)[0][:, 1].abs().sum(), a)
    assert np.isfinite(gradient(lambda x: ndgrad.linalg.svd(x, full_matrices=False)[0][:, 0].abs().sum(), a)).all()


def test_full_svd_has_gradients_for_the_columns_that_are_determined():
    a = random(4, 2)
    reduced = gradient(lambda x: ndgrad.linalg.svd(x, full_matrices=False)[0].abs().sum(), a)
    full = gradient(lambda x: ndgrad.linalg.svd(x)[0][:, :2].abs().sum(), a)
    np.testing.assert_allclose(full, reduced, rtol=1e-12)
    with pytest.raises(LinAlgError, match="full_matrices"):
        gradient(lambda x: ndgrad.linalg.svd(x)[0].abs().sum(), a)
    u, moved = jvp(lambda x: ndgrad.linalg.svd(x)[0], (tensor(a, False),), (tensor(random(4, 2), False),))
    turned = u.detach().numpy().T @ moved.detach().numpy()  # rotation between two orthogonal bases
    np.testing.assert_allclose(turned, -turned.T, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ndgrad.linalg.eigh(x + x.mH)[1][0, 0].imag + ndgrad.linalg.eigh(x + x.mH)[1][1, 1].imag,
        lambda x: ndgrad.linalg.svd(x)[0].imag.sum(),
        lambda x: ndgrad.linalg.eig(x)[1].imag.sum(),
    ],
    ids=["eigh", "svd", "eig"],
)
def test_a_loss_that_depends_on_phases_raises(f):
    with pytest.raises(LinAlgError, match="phases"):
        gradient(f, random(3, 3) + 1j * random(3, 3))


def test_eig_of_equal_eigenvalues_raises_for_vectors():
    with pytest.raises(LinAlgError):
        gradient(lambda x: ndgrad.linalg.eig(x)[1][0, 1].real, np.eye(2))


# ----- determinants at singular matrices ------------------------------------------------------------------------------


def cofactors(a):
    n = len(a)
    return np.array(
        [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    )


@pytest.mark.parametrize(
    "a",
    [np.array([[1.0, 2.0], [2.0, 4.0]]), np.zeros((2, 2)), np.diag([1.0, 0.0, 2.0]), np.diag([1.0, 0.0, 0.0]), np.ones((3, 3))],
)
def test_gradient_of_det_at_a_singular_matrix_is_the_cofactors(a):
    np.testing.assert_allclose(gradient(ndgrad.linalg.det, a), cofactors(a), atol=1e-12)


@pytest.mark.parametrize("a", [np.diag([1.0, 0.0, 2.0]), np.diag([1.0, 0.0, 0.0]), np.ones((3, 3)), np.zeros((2, 2))])
def test_second_derivative_of_det_at_a_singular_matrix(a):
    """The derivative of the cofactors along t; differences are exact for such small matrices."""
    t = random(*a.shape)
    x = tensor(a)
    (g,) = ndgrad.autograd.grad(ndgrad.linalg.det(x), [x], create_graph=True)
    (g * tensor(t, False)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), (cofactors(a + 0.5 * t) - cofactors(a - 0.5 * t)), atol=1e-9)


def test_a_batch_with_one_singular_matrix_has_every_gradient_of_det():
    a = np.stack([random(3, 3), np.diag([1.0, 0.0, 2.0])])
    got = gradient(lambda x: ndgrad.linalg.det(x).sum(), a)
    np.testing.assert_allclose(got, [cofactors(a[0]), cofactors(a[1])], rtol=1e-9, atol=1e-12)


def test_singular_matrices_raise_with_what_to_do():
    x = tensor(np.ones((2, 2)))
    for f in (ndgrad.linalg.inv, lambda a: ndgrad.linalg.solve(a, a), lambda a: ndgrad.linalg.slogdet(a)[1].backward()):
        with pytest.raises(LinAlgError, match=r"singular.*\(2, 2\).*pinv"):
            f(x)


# ----- QR, LU, Cholesky -----------------------------------------------------------------------------------------------


def test_qr_of_mode_r_has_a_gradient():
    a = random(4, 3)
    np.testing.assert_allclose(
        gradient(lambda x: ndgrad.linalg.qr(x, "r")[1].sum(), a), gradient(lambda x: ndgrad.linalg.qr(x)[1].sum(), a)
    )


def test_complete_qr_of_a_tall_matrix_raises_in_both_modes_of_differentiation():
    a = random(4, 3)
    with pytest.raises(RuntimeError, match="reduced"):
        gradient(lambda x: ndgrad.linalg.qr(x, "complete")[1].sum(), a)
    with pytest.raises(RuntimeError, match="reduced"):
        jvp(lambda x: ndgrad.linalg.qr(x, "complete")[1], (tensor(a, False),), (tensor(a, False),))
    q, upper = ndgrad.linalg.qr(tensor(a, False), "complete")
    np.testing.assert_allclose((q @ upper).numpy(), a, atol=1e-12)


def test_factors_multiply_to_the_matrix():
    for shape in ((3, 3), (4, 3), (3, 5), (2, 4, 3)):
        a = tensor(random(*shape), False)
        p, lower, upper = ndgrad.linalg.lu(a)
        np.testing.assert_allclose((p @ lower @ upper).numpy(), a.numpy(), atol=1e-12)


def test_cholesky_reads_one_triangle():
    a = random(3, 3)
    a = a @ a.T + np.eye(3)
    np.testing.assert_allclose(ndgrad.linalg.cholesky(tensor(np.tril(a), False)).numpy(), np.linalg.cholesky(a))


def test_ex_forms_report_instead_of_raising():
    good = random(3, 3)
    good = good @ good.T + np.eye(3)
    batch = tensor(np.stack([good, np.diag([1.0, 1.0, 0.0]), np.diag([1.0, -1.0, 1.0])]), False)
    inverse, info = ndgrad.linalg.inv_ex(batch)
    assert info.tolist() == [0, 3, 0]
    np.testing.assert_allclose(inverse[0].numpy(), np.linalg.inv(good))
    assert not np.isfinite(inverse[1].numpy()).any()
    factor, info = ndgrad.linalg.cholesky_ex(batch)
    assert info.tolist() == [0, 3, 2]
    np.testing.assert_allclose(factor[0].numpy(), np.linalg.cholesky(good))
    with pytest.raises(LinAlgError):
        ndgrad.linalg.inv_ex(batch, check_errors=True)


# ----- least squares, pseudoinverse -----------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", [None, "gelsd", "gels"])
def test_lstsq_is_numpys(driver):
    a, b = random(5, 3), random(5, 2)
    np.testing.assert_allclose(
        ndgrad.linalg.lstsq(tensor(a), tensor(b), driver=driver)[0].detach().numpy(), np.linalg.lstsq(a, b)[0], rtol=1e-9
    )


def test_lstsq_of_a_matrix_without_full_rank_has_least_norm():
    a, b = random(5, 2) @ random(2, 4), random(5)
    found = ndgrad.linalg.lstsq(tensor(a, False), tensor(b, False), driver="gelsd")
    want, _, rank, values = np.linalg.lstsq(a, b)
    np.testing.assert_allclose(found.solution.numpy(), want, rtol=1e-8)
    np.testing.assert_allclose(found.singular_values.numpy(), values, atol=1e-12)
    assert found.rank.item() == rank == 2
    assert found.residuals.numel() == 0


def test_pinv_takes_a_tolerance_for_each_matrix():
    a = np.stack([np.diag([1.0, 1e-3])] * 2)
    got = ndgrad.linalg.pinv(tensor(a, False), atol=tensor([1e-2, 1e-4], False), rtol=0.0).numpy()
    np.testing.assert_allclose(got, [np.diag([1.0, 0.0]), np.diag([1.0, 1e3])])
    by_vmap = vmap(lambda x, tolerance: ndgrad.linalg.pinv(x, atol=tolerance, rtol=0.0))(
        tensor(a, False), tensor([1e-2, 1e-4], False)
    )
    np.testing.assert_allclose(by_vmap.numpy(), got)


# ----- the matrix exponential -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.1, 0.7, 2.0, 5.0, 30.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
def test_matrix_exp_is_scipys(size, dtype):
    expm = pytest.importorskip("scipy.linalg").expm
    a = random(4, 4)
    a = (size * (a - 2 * np.eye(4)) / np.abs(a).sum()).astype(dtype)
    if dtype is np.complex128:
        a = a * (1 + 0.5j)
    want = expm(a.astype(np.complex128 if dtype is np.complex128 else np.float64))
    tolerance = 2e-5 * max(1, size) if dtype is np.float32 else 1e-13 * max(10, size)
    np.testing.assert_allclose(
        ndgrad.linalg.matrix_exp(tensor(a, False)).numpy(), want, rtol=0, atol=tolerance * np.abs(want).max()
    )


def test_matrix_exp_of_a_batch_scales_each_matrix_by_itself():
    a = np.stack([0.01 * random(3, 3), 20 * random(3, 3) - 30 * np.eye(3)])
    got = ndgrad.linalg.matrix_exp(tensor(a, False)).numpy()
    for one, whole in zip(a, got, strict=True):
        np.testing.assert_allclose(whole, ndgrad.linalg.matrix_exp(tensor(one, False)).numpy(), rtol=1e-10, atol=1e-300)


def test_matrix_exp_of_what_is_not_finite_is_nan_for_that_matrix_only():
    a = np.stack([np.full((2, 2), np.inf), np.zeros((2, 2))])
    got = ndgrad.linalg.matrix_exp(tensor(a, False)).numpy()
    assert np.isnan(got[0]).all()
    np.testing.assert_array_equal(got[1], np.eye(2))


# ----- matmul: how gradients are computed -----------------------------------------------------------------------------


class Recorder:
    """Ops on raw arrays that record the shapes of products."""

    raw = True

    def __init__(self):
        from ndgrad._src.ops.vocabulary import raw_ops

        self.ops, self.shapes = raw_ops(np), []

    def __getattr__(self, name):
        return getattr(self.ops, name)

    def matmul(self, x, y):
        self.shapes.append((x.shape, y.shape))
        return self.ops.matmul(x, y)


def test_the_gradient_of_a_weight_is_one_product_of_two_matrices():
    from ndgrad._src.ops.product import _matmul_x, _matmul_y

    x, w, g = random(5, 2, 3, 4), random(4, 6), random(5, 2, 3, 6)
    ops = Recorder()
    np.testing.assert_allclose(_matmul_y(g, x, 2, ops), np.einsum("abij,abik->jk", x, g))
    np.testing.assert_allclose(_matmul_x(g, w, 4, ops), g @ w.T)
    assert ops.shapes == [((4, 30), (30, 6)), ((30, 6), (6, 4))]


def test_a_transposed_weight_is_multiplied_without_a_copy():
    w = tensor(random(6, 4))
    out = tensor(random(3, 4)) @ w.mT
    saved = out.grad_fn._saved_other if hasattr(out.grad_fn, "_saved_other") else out.grad_fn.y
    assert np.shares_memory(saved.detach().numpy(), w.detach().numpy())


def test_matmul_takes_arrays_beside_tensors():
    a, b = random(2, 3), random(3, 2)
    np.testing.assert_allclose((tensor(a, False) @ b).numpy(), a @ b)


# ----- einsum ---------------------------------------------------------------------------------------------------------


@st.composite
def equations(draw):
    """Draw an equation with one to four operands of up to three dimensions, with repeated, summed and broadcast ones."""
    letters = "abcde"
    sizes = {c: draw(st.integers(1, 3)) for c in letters}
    terms = draw(st.lists(st.text(letters, max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    out = "".join(draw(st.permutations(draw(st.lists(st.sampled_from(used), unique=True))))) if used else ""
    shapes = [tuple(sizes[c] for c in t) for t in terms]
    return ",".join(terms) + "->" + out, shapes


@given(equations(), st.booleans())
def test_einsum_is_numpys(case, is_complex):
    equation, shapes = case
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) + (1j * rng.standard_normal(s) if is_complex else 0) for s in shapes]
    got = ndgrad.einsum(equation, *(tensor(a, False) for a in arrays))
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), atol=1e-9)


@given(equations())
def test_the_gradient_of_einsum_is_linear_in_each_operand(case):
    """<g, f(..., x, ...)> = <grad of x, x>, since f is linear in x."""
    equation, shapes = case
    rng = np.random.default_rng(2)
    tensors = [tensor(rng.standard_normal(s)) for s in shapes]
    out = ndgrad.einsum(equation, *tensors)
    g = rng.standard_normal(tuple(out.shape))
    value = float((out.detach().numpy() * g).sum())
    (out * tensor(g, False)).sum().backward()
    for t in tensors:
        assert float((t.grad.numpy() * t.detach().numpy()).sum()) == pytest.approx(value, abs=1e-9)


@given(equations())
def test_vmap_of_einsum_is_a_loop(case):
    equation, shapes = case
    rng = np.random.default_rng(3)
    batched = [rng.standard_normal((3, *s)) if i % 2 == 0 else rng.standard_normal(s) for i, s in enumerate(shapes)]
    dims = tuple(0 if i % 2 == 0 else None for i in range(len(shapes)))
    got = vmap(lambda *xs: ndgrad.einsum(equation, *xs), in_dims=dims)(*(tensor(a, False) for a in batched))
    rows = [np.einsum(equation, *(a[k] if d == 0 else a for a, d in zip(batched, dims, strict=True))) for k in range(3)]
    np.testing.assert_allclose(got.numpy(), np.stack(rows), atol=1e-9)


@pytest.mark.parametrize("available", [True, False], ids=["opt_einsum", "numpy"])
def test_einsum_contracts_in_a_cheap_order(available, monkeypatch):
    if available:
        pytest.importorskip("opt_einsum")
    else:

        def refuse(name):
            raise ImportError(name)

        monkeypatch.setattr(einsum_module.importlib, "import_module", refuse)
    shapes = ((100, 2), (2, 100), (100, 1))
    plan = einsum_module._plan.__wrapped__("ij,jk,kl->il", shapes)
    # From the right: 2 * 100 * 1 and 100 * 2 * 1 operations rather than 100 * 2 * 100 and 100 * 100 * 1.
    assert plan.steps[0][:2] == (1, 2)


def test_einsum_of_one_operand_is_a_view():
    x = tensor(random(2, 3), False)
    for equation in ("ij->ji", "ij", "...j->j..."):
        assert np.shares_memory(ndgrad.einsum(equation, x).numpy(), x.numpy())


def test_einsum_errors_repeat_the_equation():
    with pytest.raises(RuntimeError, match=r"does not broadcast.*'ij,jk->ik'"):
        ndgrad.einsum("ij,jk->ik", tensor(random(2, 3)), tensor(random(2, 3)))
    with pytest.raises(TypeError, match="list of subscripts"):
        ndgrad.einsum(tensor(random(2)), 3)
    with pytest.raises(ValueError, match="0 to 51"):
        ndgrad.einsum(tensor(random(2)), [60])


# ----- chains, powers, distances --------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 9), min_size=3, max_size=7))
def test_multi_dot_finds_the_cheapest_order(sizes):
    def cheapest(i, j):
        return (
            0
            if i == j
            else min(cheapest(i, k) + cheapest(k + 1, j) + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j))
        )

    split = linalg_module._best_splits(sizes)

    def cost(i, j):
        return (
            0 if i == j else cost(i, split[i, j]) + cost(split[i, j] + 1, j) + sizes[i] * sizes[split[i, j] + 1] * sizes[j + 1]
        )

    assert cost(0, len(sizes) - 2) == cheapest(0, len(sizes) - 2)


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 7])
def test_matrix_power_is_numpys(n):
    a = random(2, 3, 3)
    np.testing.assert_allclose(ndgrad.linalg.matrix_power(tensor(a, False), n).numpy(), np.linalg.matrix_power(a, n), rtol=1e-9)


def test_distances_of_close_points_keep_their_digits():
    """Points far from the origin, a millionth apart, among many others: |x|^2 + |y|^2 - 2xy would keep no digit."""
    x = 100 + random(200, 20)
    y = np.concatenate([x[:50] + 1e-6 * random(50, 20), 100 + random(100, 20)])
    want = np.sqrt(((x[:, None].astype(np.longdouble) - y[None]) ** 2).sum(-1)).astype(float)
    np.testing.assert_allclose(ndgrad.cdist(tensor(x, False), tensor(y, False)).numpy(), want, rtol=1e-12)


def test_gradient_of_zero_distances_is_zero():
    x = random(3, 2)
    for p in (1.0, 1.5, 2.0, 3.0, math.inf):
        assert not gradient(lambda t, p=p: ndgrad.cdist(t, tensor(x, False), p=p).diagonal().sum(), x).any()


def test_pdist_is_the_upper_triangle_of_cdist():
    x = tensor(random(5, 3), False)
    for p in (1.0, 2.0, 3.0):
        whole = ndgrad.cdist(x, x, p=p).numpy()
        want = [whole[i, j] for i, j in itertools.combinations(range(5), 2)]
        np.testing.assert_allclose(ndgrad.pdist(x, p).numpy(), want, rtol=1e-12)


# ----- out= -----------------------------------------------------------------------------------------------------------


def test_out_holds_the_result():
    a, b = tensor(random(3, 3), False), tensor(random(3, 3), False)
    for f, args in (
        (ndgrad.mm, (a, b)),
        (ndgrad.linalg.inv, (a,)),
        (ndgrad.matmul, (a, b)),
        (ndgrad.linalg.solve, (a, b)),
        (ndgrad.addmm, (a, a, b)),
    ):
        out = ndgrad.empty(0)
        assert f(*args, out=out) is out
        np.testing.assert_array_equal(out.numpy(), f(*args).numpy())
    w, v = ndgrad.empty(0), ndgrad.empty(0)
    found = ndgrad.linalg.eigh(a + a.mT, out=(w, v))
    assert found.eigenvalues is w
    assert found.eigenvectors is v
    np.testing.assert_allclose(w.numpy(), np.linalg.eigvalsh((a + a.mT).numpy()))


def test_out_refuses_what_requires_grad():
    a = tensor(random(3, 3))
    with pytest.raises(RuntimeError, match="out="):
        ndgrad.linalg.inv(a, out=ndgrad.empty(0))


# ----- integers -------------------------------------------------------------------------------------------------------


def test_integers_are_converted_as_numpy_does():
    a = tensor([[2, 1], [1, 3]], False)
    np.testing.assert_allclose(ndgrad.linalg.inv(a).numpy(), np.linalg.inv([[2, 1], [1, 3]]))
    np.testing.assert_allclose(
        ndgrad.linalg.matrix_exp(a).numpy(), ndgrad.linalg.matrix_exp(tensor([[2.0, 1.0], [1.0, 3.0]], False)).numpy()
    )
    assert (a @ a).numpy().dtype.kind == "i"


def test_results_have_the_classes_and_the_text_of_torch() -> None:
    result = ndgrad.linalg.eigh(ndgrad.eye(1))
    assert repr(result) == "ndgrad.return_types.linalg_eigh(\neigenvalues=tensor([1.]),\neigenvectors=tensor([[1.]]))"
    assert type(pickle.loads(pickle.dumps(result))) is ndgrad.return_types.linalg_eigh
    assert type(ndgrad.linalg.eig(ndgrad.eye(1))) is ndgrad.return_types.linalg_eig
    assert type(ndgrad.qr(ndgrad.eye(1))) is ndgrad.return_types.qr
