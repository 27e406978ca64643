"""`ndgrad.scipy.linalg` beside `scipy.linalg`: values, derivatives of both orders in both modes, batching."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func

scipys = pytest.importorskip("scipy.linalg")
from tests.scipy.checking import check, plain  # noqa: E402

from ndgrad.scipy import linalg  # noqa: E402

R = np.random.default_rng(5)
A = R.standard_normal((4, 4)) + 4 * np.eye(4)
C = A + 1j * R.standard_normal((4, 4))
B = R.standard_normal((4, 3))
V = R.standard_normal(4)
S = A @ A.T + np.eye(4)
H = C @ C.conj().T + np.eye(4)
TALL = R.standard_normal((5, 3))
WIDE = R.standard_normal((3, 5))
BANDS = R.standard_normal((4, 6)) + 5 * (np.arange(4) == 2)[:, None]
POSITIVE_BANDS = np.vstack([R.standard_normal((2, 6)), 8 + R.standard_normal((1, 6))])
SMALL = 0.3 * A

CASES = {
    "solve": (A, B),
    "solve vector": (A, V),
    "solve complex": (C, B),
    "solve_triangular": (A, B),
    "inv": (A,),
    "inv complex": (C,),
    "det": (A,),
    "lu_factor": (A,),
    "lu": (A,),
    "lu tall": (TALL,),
    "expm": (SMALL,),
    "expm complex": (0.3 * C,),
    "logm": (A,),
    "logm complex": (C,),
    "sqrtm": (A,),
    "sqrtm complex": (C,),
    "signm": (A - 3 * np.diag([1.0, 3.0, 1.0, 3.0]),),
    "cosm": (SMALL,),
    "cosm complex": (0.3 * C,),
    "sinm": (SMALL,),
    "tanm": (SMALL,),
    "coshm": (SMALL,),
    "sinhm": (SMALL,),
    "tanhm": (SMALL,),
    "expm_frechet": (SMALL, 0.1 * C.real),
    "solve_sylvester": (A, S[:3, :3], B),
    "solve_continuous_lyapunov": (A, S),
    "solve_lyapunov": (C, H),
    "solve_discrete_lyapunov": (0.1 * A, S),
    "polar": (A,),
    "polar complex": (C,),
    "pinv": (TALL,),
    "svdvals": (TALL,),
    "orthogonal_procrustes": (TALL, TALL[::-1] + 0.1),
    "toeplitz": (V, TALL[:, 0]),
    "circulant": (V,),
    "hankel": (V, TALL[:, 0]),
    "companion": (V,),
    "leslie": (V, V[1:]),
    "fiedler": (V,),
    "fiedler_companion": (TALL[:, 0],),
    "block_diag": (A, B, V),
    "khatri_rao": (B, TALL),
    "solve_toeplitz": (V + 5 * (np.arange(4) == 0), B),
    "solve_circulant": (V, V[::-1]),
    "subspace_angles": (TALL, R.standard_normal((5, 2))),
    "eigvalsh_tridiagonal": (V, V[1:]),
}


@pytest.mark.parametrize("case", CASES)
def test_function_equals_scipys_with_derivatives(case):
    name = case.split()[0]
    check(getattr(linalg, name), getattr(scipys, name), *CASES[case], second=name not in ("subspace_angles",))


def with_arguments(name, *before, **settings):
    mine, theirs = getattr(linalg, name), getattr(scipys, name)
    return lambda *a: mine(*before, *a, **settings), lambda *a: theirs(*before, *a, **settings)


SETTINGS = [
    ("solve", (S, B), {"assume_a": "pos"}),
    ("solve", (H, B), {"assume_a": "her", "lower": True}),
    ("solve", (C, V), {"assume_a": "sym"}),
    ("solve", (A, B), {"transposed": True}),
    ("solve", (np.triu(A), B), {"assume_a": "upper triangular"}),
    ("solve", (np.tril(A), V), {"assume_a": "lower triangular", "transposed": True}),
    ("solve", (np.diag(V), V), {"assume_a": "diagonal"}),
    ("solve_triangular", (A, V), {"lower": True}),
    ("solve_triangular", (C, B), {"trans": 1}),
    ("solve_triangular", (C, B), {"trans": "C", "lower": True}),
    ("solve_triangular", (A, B), {"unit_diagonal": True}),
    ("pinvh", (S,), {}),
    ("polar", (TALL,), {"side": "left"}),
    ("polar", (WIDE,), {"side": "right"}),
    ("convolution_matrix", (V,), {"n": 3}),
    ("convolution_matrix", (V,), {"n": 6, "mode": "same"}),
    ("convolution_matrix", (V,), {"n": 6, "mode": "valid"}),
    ("diagsvd", (V,), {"M": 6, "N": 4}),
    ("norm", (A,), {"ord": "nuc"}),
    ("norm", (A,), {"ord": 1}),
    ("lu", (A,), {"permute_l": True}),
    ("svd", (TALL,), {"compute_uv": False}),
    ("qr", (WIDE,), {"mode": "r"}),
    ("eigvalsh", (S,), {"subset_by_index": [1, 2]}),
]


@pytest.mark.parametrize(("name", "arguments", "settings"), SETTINGS)
def test_settings_mean_what_scipys_mean(name, arguments, settings):
    symmetric = name in ("pinvh", "eigvalsh")
    check(*with_arguments(name, **settings), *arguments, tangents=(lambda t: t + t.T) if symmetric else None)


@pytest.mark.parametrize("lower", [False, True])
def test_cholesky_and_its_solves_on_symmetric_matrices(lower):
    symmetric = lambda f: lambda x, *rest: f(x @ (x.swapaxes(-1, -2).conj()) + np.eye(4), *rest)
    for a in (A, C):
        check(*(symmetric(lambda m, f=f: f(m, lower=lower)) for f in (linalg.cholesky, scipys.cholesky)), a)
        solves = [lambda m, b, s=s: s.cho_solve(s.cho_factor(m, lower=lower), b) for s in (linalg, scipys)]
        check(*map(symmetric, solves), a, B)


@pytest.mark.parametrize("trans", [0, 1, 2])
def test_lu_solve_of_lu_factor(trans):
    check(*(lambda a, b, s=s: s.lu_solve(s.lu_factor(a), b, trans=trans) for s in (linalg, scipys)), C, B)


@pytest.mark.parametrize("l_and_u", [(1, 2), (2, 1), (0, 3), (3, 0)])
def test_banded_systems(l_and_u):
    bands = R.standard_normal((4, 6)) + 5 * (np.arange(4) == l_and_u[1])[:, None]
    for right in (R.standard_normal((6, 2)), R.standard_normal(6)):
        check(*with_arguments("solve_banded", l_and_u), bands, right)
        check(*with_arguments("solve_banded", l_and_u), bands + 1j * R.standard_normal(bands.shape), right)


@pytest.mark.parametrize("lower", [False, True])
def test_symmetric_banded_systems(lower):
    bands = POSITIVE_BANDS[::-1].copy() if lower else POSITIVE_BANDS
    hermitian = bands + 0.5j * R.standard_normal(bands.shape) * (np.arange(3) != (0 if lower else 2))[:, None]
    right = R.standard_normal((6, 2))
    main = 0 if lower else 2
    real_diagonal = lambda t: np.where(np.arange(3)[:, None] == main, t.real, t) if t.shape == (3, 6) else t
    inside = lambda s: lambda ab, b: s.cho_solve_banded((s.cholesky_banded(ab, lower=lower), lower), b)
    factor = lambda s: lambda ab: _entries(s.cholesky_banded(ab, lower=lower), lower)
    for matrix in (bands, hermitian):
        check(*with_arguments("solveh_banded", lower=lower), matrix, right, tangents=real_diagonal)
        check(inside(linalg), inside(scipys), matrix, right, tangents=real_diagonal)
        check(factor(linalg), factor(scipys), matrix, tangents=real_diagonal)
        check(*with_arguments("eigvals_banded", lower=lower), matrix, tangents=real_diagonal)
    with pytest.raises(np.linalg.LinAlgError):
        linalg.solveh_banded(-bands, right, lower=lower)


@pytest.mark.parametrize("kind", [float, complex])
def test_gradients_of_banded_systems_and_factors_need_no_matrix(kind):
    """Memory of some bands, where a matrix would be hundreds of times as much; and the gradient is that of finite differences."""
    n = 5000
    bands = R.standard_normal((3, n)) + 8 * np.eye(3)[:, :1]
    if kind is complex:
        bands = bands + 1j * R.standard_normal((3, n)) * (np.arange(3) > 0)[:, None]
    b, v = R.standard_normal((2, n))

    def f(s, bands, b):
        factor = s.cholesky_banded(bands, lower=True)
        solved = s.cho_solve_banded((factor, True), b) + s.solveh_banded(bands, b, lower=True)
        return (solved * v).real.sum() + (factor[:, :-2] * v[:-2]).real.sum() + s.solve_banded((2, 0), bands, b).real.sum()

    leaves = [dnp.array(x).requires_grad_() for x in (bands, b)]
    tracemalloc.start()
    try:
        f(linalg, *leaves).backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * n / 20
    along = [R.standard_normal((3, n)).astype(kind), R.standard_normal(n)]
    if kind is complex:
        along[0][1:] += 1j * R.standard_normal((2, n))
    h = 1e-3
    values = [f(scipys, *(x + s * h * t for x, t in zip((bands, b), along, strict=True))) for s in (1, -1, 2, -2)]
    expected = (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h)
    found = sum((leaf.grad.numpy().conj() * t).real.sum() for leaf, t in zip(leaves, along, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_many_bands_and_stacks_of_banded_matrices():
    """So many bands that derivatives go by matrices; and a stack beside a loop over it."""
    wide = R.standard_normal((6, 8)) + 12 * np.eye(6)[:, :1]
    inside = np.add.outer(np.arange(6), np.arange(8)) < 8
    check(*(lambda ab, s=s: s.cholesky_banded(ab, lower=True) * inside for s in (linalg, scipys)), wide)
    stack = np.stack([POSITIVE_BANDS[::-1], POSITIVE_BANDS[::-1] + 1])
    factor = linalg.cholesky_banded(dnp.array(stack), lower=True)
    for one, bands in zip(factor, stack, strict=True):
        np.testing.assert_allclose(_entries(one.numpy(), True), _entries(scipys.cholesky_banded(bands, lower=True), True), atol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        linalg.cholesky_banded(-stack, lower=True)
    with pytest.raises(ValueError, match="as rows"):
        linalg.cholesky_banded(V)


def _entries(bands, lower):
    """SciPy leaves what was there in the corners."""
    place = np.arange(6) + (np.arange(3)[:, None] if lower else np.arange(-2, 1)[:, None])
    return bands * ((place >= 0) & (place < 6))


def test_matmul_toeplitz():
    check(*(lambda c, r, x, s=s: s.matmul_toeplitz((c, r), x) for s in (linalg, scipys)), V, TALL[:, 0], TALL)
    check(*(lambda c, x, s=s: s.matmul_toeplitz(c, x) for s in (linalg, scipys)), V, V)


def test_toeplitz_systems():
    solve = [lambda c, r, b, s=s: s.solve_toeplitz((c, r), b) for s in (linalg, scipys)]
    first = 6 * np.eye(4)[0]
    check(*solve, V + first, B[:, 0], V)
    check(*solve, V + first + 1j * B[:, 1], B[:, 0], V)
    check(*(lambda c, b, s=s: s.solve_toeplitz(c, b) for s in (linalg, scipys)), V + first + 0.5j * B[:, 1] * (first == 0), B)
    # stacks of matrices, small ones at once and large ones one by one, and one matrix for all right sides
    for n in (4, 70):
        columns, rows = (R.standard_normal((2, n)) + 4 * n**0.5 * np.eye(n)[0] for _ in range(2))
        check(*solve, columns, rows, R.standard_normal(n), second=n == 4, vmap=n == 4)
        check(*solve, columns[0], rows[0], R.standard_normal((2, n, 3)), second=n == 4, vmap=n == 4)
    # long enough for Fourier transforms
    long = R.standard_normal(100) + 40 * np.eye(100)[0]
    check(*solve, long, R.standard_normal(100), R.standard_normal((100, 2)))


def test_one_matrix_is_factored_once_for_all_right_sides(monkeypatch):
    calls = []
    original = scipys.solve_toeplitz
    monkeypatch.setattr(scipys, "solve_toeplitz", lambda *args, **named: (calls.append(1), original(*args, **named))[1])
    c, sides = dnp.array(V + 6 * np.eye(4)[0]), dnp.array(R.standard_normal((5, 4)))
    made = func.vmap(func.vjp(lambda b: linalg.solve_toeplitz(c, b), sides[0])[1])(sides)[0]
    assert len(calls) == 2
    np.testing.assert_allclose(made.numpy(), np.stack([original(V + 6 * np.eye(4)[0], s) for s in sides.numpy()]))


@pytest.mark.parametrize("n", [3000, pytest.param(20000, marks=pytest.mark.slow)])
def test_gradients_of_toeplitz_systems_and_products_need_no_matrix(n):
    """Memory of a few vectors, where a matrix would be n times as much; and the gradient is that of finite differences."""
    c = R.standard_normal(n) / (1 + np.arange(n)) ** 1.5 + 8 * (np.arange(n) == 0)
    r, b, v = R.standard_normal((3, n)) / (1 + np.arange(n)) ** 1.5
    f = lambda s, c, r, b: (s.solve_toeplitz((c, r), b) * v).sum() + (s.matmul_toeplitz((r, c), b) * v).sum()
    leaves = [dnp.array(x).requires_grad_() for x in (c, r, b)]
    tracemalloc.start()
    try:
        f(linalg, *leaves).backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * 8 * n
    along = R.standard_normal((3, n)) / (1 + np.arange(n))
    h = 1e-3
    values = [f(scipys, *(x + s * h * t for x, t in zip((c, r, b), along, strict=True))) for s in (1, -1, 2, -2)]
    expected = (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h)
    np.testing.assert_allclose(sum((leaf.grad.numpy() * t).sum() for leaf, t in zip(leaves, along, strict=True)), expected, rtol=1e-7)


def test_toeplitz_systems_that_do_not_fit_or_have_no_solution():
    for c, b in (((V, V[:3]), V), (V, V[:3]), (V, B[:3]), (V, np.float64(1.0))):
        with pytest.raises(ValueError, match="Incompatible dimensions"):
            linalg.solve_toeplitz(c, b)
    with pytest.raises(np.linalg.LinAlgError, match="leading part"):
        linalg.solve_toeplitz(np.array([0.0, 1.0]), np.ones(2))


def test_riccati_equations_with_all_their_matrices():
    e, s = np.eye(4) + 0.1 * R.standard_normal((4, 4)), 0.1 * B[:, :2]
    positive = lambda x: x @ x.T + np.eye(len(x)) if x.ndim == 2 else x
    for name in ("solve_continuous_are", "solve_discrete_are"):
        for more in ((), (e,), (e, s)):
            run = lambda module, name=name: lambda a, b, q, r, *rest: getattr(module, name)(a, b, positive(q), positive(r), *rest)
            check(run(linalg), run(scipys), 0.2 * A, B[:, :2], 0.1 * A, 0.1 * A[:2, :2], *more, tolerance=1e-5, value=1e-7, vmap=False)
    given = [0.2 * A, B[:, :2], S, np.eye(2)]
    plain_solution = scipys.solve_continuous_are(*given)
    stacked = linalg.solve_continuous_are(np.stack([given[0]] * 2), *given[1:])
    np.testing.assert_allclose(plain(stacked), np.stack([plain_solution] * 2), rtol=1e-9)


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_generalised_symmetric_eigenvalues_and_vectors(kind):
    symmetric = lambda x: (x + x.swapaxes(-1, -2)) / 2
    positive = lambda x: x @ x.swapaxes(-1, -2) + np.eye(4)
    for lower in (True, False):
        run = lambda s, lower=lower: lambda a, b: s.eigh(symmetric(a), positive(b), type=kind, eigvals_only=True, lower=lower)
        check(run(linalg), run(scipys), A, R.standard_normal((4, 4)))
    squares = lambda s: lambda a, b: s.eigh(symmetric(a), positive(b), type=kind)[1] ** 2
    check(squares(linalg), squares(scipys), A, R.standard_normal((4, 4)), tolerance=1e-5)


def test_eigenvalues_of_any_matrix_and_of_pairs():
    a = R.standard_normal((4, 4)) + np.diag([0.0, 3.0, 6.0, 9.0])
    order = lambda w: w[np.argsort(plain(w).real)]
    check(*(lambda m, s=s: order(s.eigvals(m)) for s in (linalg, scipys)), a, vmap=False)
    check(*(lambda m, b, s=s: order(s.eigvals(m, b)) for s in (linalg, scipys)), a, np.eye(4) + 0.1 * A, vmap=False)
    w, left, right = linalg.eig(a, A, left=True, right=True)
    wanted = scipys.eig(a, A, left=True, right=True)
    turn = lambda v: np.abs(plain(v))
    for mine, theirs in zip((left, right), wanted[1:], strict=True):
        mine = mine / np.linalg.norm(plain(mine), axis=0)
        places, others = np.argsort(plain(w).real), np.argsort(wanted[0].real)
        np.testing.assert_allclose(turn(mine)[:, places], np.abs(theirs / np.linalg.norm(theirs, axis=0))[:, others], atol=1e-9)


def test_functions_of_matrices_by_a_scalar_function():
    a = R.standard_normal((3, 3)) + np.diag([1.0, 4.0, 8.0])
    check(lambda m: linalg.funm(m, lambda w: np.sqrt(w) + w), lambda m: scipys.funm(m, lambda w: np.sqrt(w) + w), a, vmap=False)
    check(lambda m: linalg.fractional_matrix_power(m, 0.3), lambda m: scipys.fractional_matrix_power(m, 0.3), A, vmap=False)
    t = dnp.array(0.3).requires_grad_()
    linalg.fractional_matrix_power(A, t).sum().backward()
    difference = (scipys.fractional_matrix_power(A, 0.3 + 1e-6) - scipys.fractional_matrix_power(A, 0.3 - 1e-6)).sum() / 2e-6
    np.testing.assert_allclose(t.grad.item(), difference, rtol=1e-6)


def test_least_squares():
    check(*(lambda a, b, s=s: s.lstsq(a, b)[:2] for s in (linalg, scipys)), TALL, R.standard_normal((5, 2)), vmap=False)
    mine, theirs = linalg.lstsq(TALL, TALL[:, 0]), scipys.lstsq(TALL, TALL[:, 0])
    assert mine[2] == theirs[2]
    np.testing.assert_allclose(plain(mine[3]), theirs[3])
    assert linalg.pinv(TALL, return_rank=True)[1] == 3


def test_qr_with_pivoting_and_modes():
    for mode in ("full", "economic"):
        q, r, p = linalg.qr(A, mode=mode, pivoting=True)
        wanted = scipys.qr(A, mode=mode, pivoting=True)
        np.testing.assert_array_equal(p, wanted[2])
        np.testing.assert_allclose(plain(q @ r), A[:, p], atol=1e-12)
        np.testing.assert_allclose(np.abs(plain(r)), np.abs(wanted[1]), atol=1e-12)
    check(*(lambda a, s=s: [abs(x) for x in s.qr(a, mode="economic")] for s in (linalg, scipys)), TALL)
    assert linalg.qr(TALL, mode="r")[0].shape == (5, 3)


def test_bad_input_raises_what_scipy_raises():
    nan = A.copy()
    nan[0, 0] = np.nan
    for call in (linalg.solve, scipys.solve):
        with pytest.raises(ValueError, match="infs or NaNs"):
            call(nan, V)
        with pytest.raises(ValueError):
            call(A[:3], V)
        with pytest.raises(np.linalg.LinAlgError):
            call(np.zeros((4, 4)), V)
    with pytest.raises(np.linalg.LinAlgError, match="eigenvalue in common"):
        linalg.solve_sylvester(dnp.zeros((2, 3, 3)), np.zeros((2, 2, 2)), np.ones((2, 3, 2)))


def test_stacks_of_matrices():
    stack = np.stack([A, A.T, A @ A])
    for name in ("expm", "sqrtm", "logm", "inv", "det", "polar"):
        made = getattr(linalg, name)(stack)
        each = [getattr(scipys, name)(m) for m in stack]
        for part, wanted in zip(made if isinstance(made, tuple) else (made,), zip(*each) if name == "polar" else (each,)):
            np.testing.assert_allclose(plain(part), np.stack(wanted), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(plain(linalg.solve(stack, B)), np.stack([np.linalg.solve(m, B) for m in stack]))


def test_every_name_of_scipys_is_here():
    for name in scipys.__all__:
        assert getattr(linalg, name) is not None
    x = dnp.array(A).requires_grad_()
    with pytest.raises(NotImplementedError, match="sqrtm"):
        linalg.schur(x)
    with ndgrad.no_grad():
        t, z = linalg.schur(x)
    np.testing.assert_allclose(plain(z @ t @ z.T), A, atol=1e-12)
    assert linalg.issymmetric(x) is False
    with pytest.raises(AttributeError):
        linalg.no_such_name


def test_powers_and_functions_whose_derivative_is_complex_stay_complex():
    """(-1)^t turns off the real line as t moves, though it is real for whole t."""
    a = np.array([[-1.0, 0.3], [0.0, 2.0]])
    moved = func.jvp(lambda t: linalg.fractional_matrix_power(a, t), (dnp.array(2.0),), (dnp.array(1.0),))[1]
    differences = (scipys.fractional_matrix_power(a, 2 + 1e-5) - scipys.fractional_matrix_power(a, 2 - 1e-5)) / 2e-5
    np.testing.assert_allclose(plain(moved), differences, atol=1e-8)
    b = np.array([[1.0, 0.2], [0.1, 3.0]])
    assert linalg.funm(dnp.array(b).requires_grad_(), lambda w: w**3).dtype == np.float64
    bent = lambda w: w + 1j * (w - 1.0) * (w - 3.0)  # real at the eigenvalues alone
    near = lambda h: np.asarray(linalg.funm(np.diag([1.0 + h, 3.0]), bent), complex)
    moved = func.jvp(lambda h: linalg.funm(dnp.diag(dnp.stack([1.0 + h, dnp.array(3.0)])), bent), (dnp.array(0.0),), (dnp.array(1.0),))[1]
    np.testing.assert_allclose(plain(moved), (near(1e-6) - near(-1e-6)) / 2e-6, atol=1e-6)
