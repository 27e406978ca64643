"""Triangular solves and LU factors, compared with the products that define them and with LAPACK through SciPy.

Every case runs twice: with SciPy's routines if the code would choose them, and with NumPy alone.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndgrad._src.arrays import triangular
from ndgrad._src.arrays.triangular import lu_factor, lu_solve, lu_unpack, solve_triangular

# Sizes around those at which the code changes its method, and below and above all of them.
SIZES = [1, 2, 7, 8, 9, 31, 33, 63, 64, 65, 130, 200]
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


@pytest.fixture(params=["with SciPy", "NumPy alone"], autouse=True)
def routines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "NumPy alone":
        monkeypatch.setattr(triangular, "_scipy_linalg", lambda: None)
    else:
        pytest.importorskip("scipy")


def random(*shape: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    values = np.random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * np.random.standard_normal(shape)
    return values.astype(dtype)


def triangle(a: np.ndarray[Any, Any], upper: bool, unit: bool = False) -> np.ndarray[Any, Any]:
    kept = np.triu(a) if upper else np.tril(a)
    if unit:
        n = a.shape[-1]
        kept[..., np.arange(n), np.arange(n)] = 1
    return kept


def well_conditioned(*shape: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Return a triangle with a dominant diagonal. Random entries alone would give exponentially large solutions."""
    n = shape[-1]
    return (random(*shape, dtype=dtype) / (2 * np.sqrt(n)) + 2 * np.eye(n)).astype(dtype)


def assert_solves(a: np.ndarray[Any, Any], x: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    """Check the componentwise backward error: x solves a system whose entries are within n roundings of the given
    ones.
    """
    residual = np.abs(a @ x - b)
    scale = np.abs(a) @ np.abs(x) + np.abs(b)
    assert np.all(residual <= 3 * a.shape[-1] * np.finfo(x.dtype).eps * scale)


# ----- triangular solve -----


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("upper", "unit", "transpose"), list(product([False, True], repeat=3)))
def test_solution_satisfies_the_system(n: int, upper: bool, unit: bool, transpose: bool) -> None:
    a, b = well_conditioned(n, n), random(n, 3)
    x = solve_triangular(a, b, upper=upper, unitriangular=unit, transpose=transpose)
    kept = triangle(a, upper, unit)
    assert_solves(kept.T if transpose else kept, x, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [5, 100])
@pytest.mark.parametrize("transpose", [False, True])
def test_solution_keeps_the_type_and_transpose_does_not_conjugate(dtype: Any, n: int, transpose: bool) -> None:
    a, b = well_conditioned(n, n, dtype=dtype), random(n, 2, dtype=dtype)
    x = solve_triangular(a, b, upper=True, transpose=transpose)
    assert x.dtype == dtype
    assert_solves(np.triu(a).T if transpose else np.triu(a), x, b)


@pytest.mark.parametrize("n", [4, 40, 100])
@pytest.mark.parametrize("upper", [False, True])
def test_the_other_triangle_is_not_read(n: int, upper: bool) -> None:
    a, b = well_conditioned(n, n), random(n, 2)
    dirty = np.where(triangle(np.ones((n, n)), upper) == 1, a, np.nan)
    np.testing.assert_array_equal(solve_triangular(dirty, b, upper=upper), solve_triangular(a, b, upper=upper))
    dirty[np.arange(n), np.arange(n)] = np.nan
    unit = solve_triangular(dirty, b, upper=upper, unitriangular=True)
    np.testing.assert_array_equal(unit, solve_triangular(a, b, upper=upper, unitriangular=True))


@pytest.mark.parametrize(
    ("stack_of_a", "stack_of_b"), [((3,), (3,)), ((), (2, 3)), ((2, 1), (3,)), ((70,), (70,)), ((70,), ()), ((0,), (0,))]
)
@pytest.mark.parametrize("n", [3, 20, 70])
def test_stacks_broadcast_and_equal_the_loop(stack_of_a: tuple[int, ...], stack_of_b: tuple[int, ...], n: int) -> None:
    a, b = well_conditioned(*stack_of_a, n, n), random(*stack_of_b, n, 2)
    x = solve_triangular(a, b, upper=False)
    stack = np.broadcast_shapes(stack_of_a, stack_of_b)
    assert x.shape == (*stack, n, 2)
    a, b = np.broadcast_to(a, (*stack, n, n)), np.broadcast_to(b, (*stack, n, 2))
    for index in np.ndindex(stack):
        one = solve_triangular(a[index], b[index], upper=False)
        np.testing.assert_allclose(x[index], one, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [3, 40, 100])
def test_arguments_are_left_alone_and_may_lie_anyhow(n: int) -> None:
    a, b = np.repeat(well_conditioned(n, n), 2, axis=1)[:, ::2], random(2, n).T
    a.flags.writeable = b.flags.writeable = False
    expected = solve_triangular(a.copy(), b.copy(), upper=True)
    np.testing.assert_allclose(solve_triangular(a, b, upper=True), expected, rtol=1e-13)
    np.testing.assert_allclose(solve_triangular(np.asfortranarray(a), b, upper=True), expected, rtol=1e-13)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("n", "count"), [(4, 1), (80, 1), (4, 100)])
@pytest.mark.parametrize("upper", [False, True])
def test_zero_on_the_diagonal_gives_infinity_not_an_error(n: int, count: int, upper: bool) -> None:
    a, b = np.tile(np.eye(n), (count, 1, 1)), np.ones((count, n, 1))
    a[:, 2, 2] = 0
    x = solve_triangular(a, b, upper=upper)
    assert np.all(np.isposinf(x[:, 2]))
    # An infinity times the zeros of its column affects later unknowns, but not the ones before it.
    before = slice(3, None) if upper else slice(0, 2)
    np.testing.assert_array_equal(x[:, before], 1)


@pytest.mark.parametrize("n", [4, 40, 80])
def test_infinite_entries_do_not_spoil_unknowns_that_do_not_depend_on_them(n: int) -> None:
    a, b = well_conditioned(n, n), random(n, 1)
    a[-1, 0] = np.inf
    x = solve_triangular(a, b, upper=False)
    assert_solves(np.tril(a)[:-1, :-1], x[:-1], b[:-1])
    assert not np.isfinite(x[-1, 0])


def test_half_precision_and_integers() -> None:
    a = np.array([[2, 0], [1, 4]])
    b = np.array([[2], [9]])
    half = solve_triangular(a.astype(np.float16), b.astype(np.float16), upper=False)
    assert half.dtype == np.float16
    whole = solve_triangular(a, b, upper=False)
    assert whole.dtype == np.float64
    np.testing.assert_array_equal(whole, [[1], [2]])
    np.testing.assert_array_equal(half, [[1], [2]])


@pytest.mark.parametrize("shapes", [((0, 0), (0, 2)), ((3, 3), (3, 0)), ((2, 0, 0), (2, 0, 1))])
def test_empty_systems(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert solve_triangular(np.ones(shapes[0]), np.ones(shapes[1]), upper=True).shape == shapes[1]


@pytest.mark.parametrize("shapes", [((2, 3), (2, 1)), ((3, 3), (2, 1)), ((3, 3), (3,)), ((3,), (3, 1))])
def test_shapes_that_do_not_fit_are_named(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"solve_triangular got .* of shape \("):
        solve_triangular(np.ones(shapes[0]), np.ones(shapes[1]), upper=True)


# ----- LU -----


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (5, 3), (8, 8), (31, 33), (40, 20), (20, 90), (100, 100), (150, 70)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_multiply_to_the_matrix(shape: tuple[int, int], dtype: Any) -> None:
    a = random(*shape, dtype=dtype)
    P, L, U = lu_unpack(*lu_factor(a))
    rank = min(shape)
    assert (P.shape, L.shape, U.shape) == ((shape[0], shape[0]), (shape[0], rank), (rank, shape[1]))
    assert P.dtype == L.dtype == U.dtype == dtype
    np.testing.assert_array_equal(P @ P.T, np.eye(shape[0]))
    np.testing.assert_array_equal(L, triangle(L, upper=False, unit=False))
    np.testing.assert_array_equal(np.diagonal(L), 1)
    np.testing.assert_array_equal(U, np.triu(U))
    # Partial pivoting, in the measure |re| + |im|, bounds every multiplier.
    assert np.abs(L).max() <= np.sqrt(2) * (1 + 1e-6)
    eps = np.finfo(dtype).eps
    np.testing.assert_array_less(np.abs(P @ L @ U - a), 5 * rank * eps * (np.abs(L) @ np.abs(U)).max())


@pytest.mark.parametrize("n", [2, 9, 40, 90])
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_and_pivots_are_those_of_lapack_counted_from_one(n: int, dtype: Any) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    a = random(n, n, dtype=dtype)
    packed, pivots = lu_factor(a)
    expected, expected_pivots = linalg.lu_factor(a)
    assert pivots.dtype == np.int32
    np.testing.assert_array_equal(pivots, expected_pivots + 1)
    tolerance = 1000 * np.finfo(dtype).eps
    np.testing.assert_allclose(packed, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 5, 9), (100, 6, 4), (70, 40, 40), (2, 33, 70), (0, 3, 3), (2, 0, 3)])
def test_stack_of_factors_equals_the_loop(shape: tuple[int, ...]) -> None:
    a = random(*shape)
    packed, pivots = lu_factor(a)
    assert packed.shape == shape
    assert pivots.shape == (*shape[:-2], min(shape[-2:]))
    unpacked = lu_unpack(packed, pivots)
    for index in np.ndindex(shape[:-2]):
        one, one_pivots = lu_factor(a[index])
        np.testing.assert_array_equal(pivots[index], one_pivots)
        np.testing.assert_allclose(packed[index], one, rtol=1e-9, atol=1e-11)
        for part, whole in zip(lu_unpack(one, one_pivots), unpacked):
            np.testing.assert_allclose(whole[index], part, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [3, 40])
def test_singular_matrix_factors_with_a_zero_pivot(n: int) -> None:
    a = random(n, n)
    a[:, 1] = 2 * a[:, 0]
    a[:, 2] = 0
    P, L, U = lu_unpack(*lu_factor(a))
    assert U[2, 2] == 0
    assert np.isfinite(L).all()
    np.testing.assert_allclose(P @ L @ U, a, atol=1e-13 * n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 40, 90])
@pytest.mark.parametrize("adjoint", [False, True])
def test_factors_solve_the_system_and_its_adjoint(dtype: Any, n: int, adjoint: bool) -> None:
    a = well_conditioned(2, n, n, dtype=dtype)[:, ::-1].copy()
    b = random(3, 1, n, 2, dtype=dtype)
    x = lu_solve(*lu_factor(a), b, adjoint=adjoint)
    assert x.dtype == dtype
    assert x.shape == (3, 2, n, 2)
    matrix = a.conj().swapaxes(-1, -2) if adjoint else a
    assert np.abs(matrix @ x - b).max() <= 50 * n * np.finfo(dtype).eps


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_row_exchanges_give_the_permutation_that_solve_applies(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pivots = np.array([rng.integers(i, n) for i in range(n)], np.int32) + 1
    P, _, _ = lu_unpack(np.eye(n), pivots)
    b = rng.standard_normal((n, 2))
    np.testing.assert_array_equal(lu_solve(np.eye(n), pivots, b), P.T @ b)
    np.testing.assert_array_equal(lu_solve(np.eye(n), pivots, b, adjoint=True), P @ b)


def test_half_precision_factors() -> None:
    a = np.array([[1, 2], [4, 4]], np.float16)
    packed, pivots = lu_factor(a)
    assert packed.dtype == np.float16
    np.testing.assert_array_equal(packed, [[4, 4], [0.25, 1]])
    np.testing.assert_array_equal(pivots, [2, 2])


@pytest.mark.parametrize("shapes", [((3, 3), (4, 1)), ((2, 3), (3, 1)), ((3, 3), (3,))])
def test_right_hand_side_that_does_not_fit_is_named(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    pivots = np.arange(1, min(shapes[0]) + 1, dtype=np.int32)
    with pytest.raises(ValueError, match=r"lu_solve got factors of shape \("):
        lu_solve(np.ones(shapes[0]), pivots, np.ones(shapes[1]))
