"""LDL factors, reflections, low-rank decompositions; copies of views; integer functions and frexp."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

r = np.random.default_rng(8)


def symmetric(n, complex_=False, hermitian=False):
    x = r.standard_normal((n, n)) + (1j * r.standard_normal((n, n)) if complex_ else 0)
    return x + (x.conj().T if hermitian else x.T)


@pytest.mark.parametrize(("complex_", "hermitian"), [(False, False), (True, False), (True, True)])
def test_systems_solved_by_factors_in_a_batch(complex_, hermitian):
    a = np.stack([symmetric(5, complex_, hermitian), symmetric(5, complex_, hermitian) * (1 - np.eye(5))])
    b = r.standard_normal((5, 2)) + 0 * a[0, :, :2]
    packed, pivots = ndgrad.linalg.ldl_factor(ndgrad.tensor(a), hermitian=hermitian)
    x = ndgrad.linalg.ldl_solve(packed, pivots, ndgrad.tensor(b), hermitian=hermitian)
    np.testing.assert_allclose(a @ x.numpy(), np.broadcast_to(b, x.shape), atol=1e-9)


def test_derivatives_through_factors_are_those_of_the_solution():
    a, b = (ndgrad.tensor(v, requires_grad=True) for v in (symmetric(4), r.standard_normal((4, 1))))
    f = lambda a, b: ndgrad.linalg.ldl_solve(*ndgrad.linalg.ldl_factor(a + a.mT), b)
    got = ndgrad.autograd.grad(f(a, b).square().sum(), (a, b))
    want = ndgrad.autograd.grad(ndgrad.linalg.solve(a + a.mT, b).square().sum(), (a, b))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-8)


def test_singular_matrices_are_reported():
    assert ndgrad.linalg.ldl_factor_ex(ndgrad.zeros(3, 2, 2)).info.tolist() == [1, 1, 1]
    with pytest.raises(ndgrad.linalg.LinAlgError, match="zero pivot"):
        ndgrad.linalg.ldl_factor(ndgrad.zeros(2, 2))
    with pytest.raises(RuntimeError, match="shapes"):
        ndgrad.linalg.ldl_solve(ndgrad.eye(2), ndgrad.tensor([1, 2], dtype=ndgrad.int32), ndgrad.ones(3, 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
@pytest.mark.parametrize("complex_", [False, True])
def test_reflections_make_up_the_matrix_and_have_derivatives(shape, complex_):
    x = ndgrad.tensor(r.standard_normal(shape) + (1j * r.standard_normal(shape) if complex_ else 0), requires_grad=True)
    a, tau = ndgrad.geqrf(x)
    np.testing.assert_allclose(ndgrad.ormqr(a, tau, a.triu()).detach().numpy(), x.detach().numpy(), atol=1e-12)
    assert ndgrad.autograd.gradcheck(ndgrad.geqrf, (x,), check_forward_ad=True)


def test_matrices_of_low_rank_are_found_exactly_and_have_derivatives():
    a = r.standard_normal((7, 2)) @ r.standard_normal((2, 5))
    U, S, V = ndgrad.svd_lowrank(ndgrad.tensor(a), q=2)
    np.testing.assert_allclose(((U * S) @ V.mT).numpy(), a, atol=1e-10)
    np.testing.assert_allclose(S.numpy(), np.linalg.svd(a)[1][:2])
    x = ndgrad.tensor(a, requires_grad=True)
    (g,) = ndgrad.autograd.grad(ndgrad.svd_lowrank(x, q=2)[1].sum(), x)
    np.testing.assert_allclose(g.numpy(), (U @ V.mT).numpy(), atol=1e-8)


def test_eigenpairs_of_pairs_of_matrices():
    a, b = symmetric(7), symmetric(7)
    b = b @ b + np.eye(7)
    E, X = ndgrad.lobpcg(ndgrad.tensor(a), 2, ndgrad.tensor(b), largest=False)
    np.testing.assert_allclose(a @ X.numpy(), b @ X.numpy() * E.numpy(), atol=1e-8)
    np.testing.assert_allclose(X.numpy().T @ b @ X.numpy(), np.eye(2), atol=1e-8)


def test_forward_mode_of_spans_that_full_matrices_add():
    a, t = ndgrad.tensor(r.standard_normal((5, 2))), ndgrad.tensor(r.standard_normal((5, 2)))

    def projector(x):
        added = ndgrad.linalg.svd(x)[0][:, 2:]
        return added @ added.mT

    _, moved = ndgrad.func.jvp(projector, (a,), (t,))
    step = 1e-6
    np.testing.assert_allclose(moved.numpy(), ((projector(a + step * t) - projector(a - step * t)) / (2 * step)).numpy(), atol=1e-8)


def test_copies_of_views_follow_their_rules_and_share_nothing():
    x = ndgrad.tensor(r.standard_normal((3, 4)), requires_grad=True)
    y = ndgrad.permute_copy(x, (1, 0))
    assert y.is_contiguous()
    y.detach().fill_(0.0)
    assert (x.detach() != 0).all()
    assert ndgrad.autograd.gradcheck(
        lambda x: ndgrad.unfold_copy(ndgrad.slice_copy(x, 1, 1, None, 2), 0, 2, 1) ** 2, (x,), check_forward_ad=True
    )
    with pytest.raises(RuntimeError, match="positive"):
        ndgrad.slice_copy(x, 0, None, None, -1)


def test_shared_memory_is_seen_by_a_forked_process():
    import os

    x = ndgrad.zeros(3).share_memory_()
    child = os.fork()
    if not child:
        x.add_(2.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert x.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="view"):
        ndgrad.zeros(3)[:2].share_memory_()


def test_mantissas_have_the_slope_of_their_power_of_two():
    x = ndgrad.tensor([3.0, -0.7, 100.0], requires_grad=True)
    mantissa, exponent = ndgrad.frexp(x)
    np.testing.assert_array_equal((mantissa.detach() * 2.0**exponent).numpy(), x.detach().numpy())
    assert ndgrad.autograd.gradcheck(lambda x: ndgrad.frexp(x).mantissa, (x,), check_forward_ad=True)


def test_uniform_numbers_of_complex_dtypes_lie_between_the_bounds_in_both_parts():
    z = ndgrad.empty(500, dtype=ndgrad.complex128).uniform_(2.0, 3.0)
    assert ((z.real >= 2) & (z.real < 3) & (z.imag >= 2) & (z.imag < 3)).all()


def test_places_in_images_are_counted_exactly_in_half_precision():
    image, grid = np.arange(20.0 * 30.0).reshape(1, 1, 20, 30), np.array([[[[-1.0, 1.0], [1.0, 1.0]]]])
    for dtype in (ndgrad.bfloat16, ndgrad.float16):
        got = ndgrad.nn.functional.grid_sample(
            ndgrad.tensor(image).to(dtype), ndgrad.tensor(grid).to(dtype), mode="nearest", align_corners=True
        )
        np.testing.assert_allclose(got.double().flatten().numpy(), [570.0, 599.0], rtol=5e-3)
