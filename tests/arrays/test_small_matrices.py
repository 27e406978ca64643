"""Kernels for stacks of small matrices, against LAPACK in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad._src.arrays import native_kernels, small_matrices

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

DTYPES = [np.float32, np.float64]
SIZES = [1, 2, 3, 6, 8, 9, 17, 32]


def draw(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def well_conditioned(dtype, n, lead):
    return draw(dtype, *lead, n, n) + (2 * n**0.5 * np.eye(n)).astype(dtype)


def assert_close(found, expected, dtype):
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=500 * np.finfo(dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lead", [(5,), (2, 3)])
def test_stacks_give_what_lapack_gives(dtype, n, lead):
    a, b = well_conditioned(dtype, n, lead), draw(dtype, *lead, n, 3)
    wide = a.astype(np.float64)
    assert_close(small_matrices.inverse(a), np.linalg.inv(wide), dtype)
    assert_close(small_matrices.solve(a, b), np.linalg.solve(wide, b), dtype)
    assert_close(small_matrices.pivots(a).prod(-1), np.linalg.det(wide), dtype)
    positive = a @ a.swapaxes(-1, -2)
    assert_close(small_matrices.cholesky(positive), np.linalg.cholesky(positive.astype(np.float64)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_triangular_solves_read_one_triangle(dtype, upper, unit, n):
    a = well_conditioned(dtype, n, (2,)) / n
    triangle = (np.triu if upper else np.tril)(a.astype(np.float64))
    if unit:
        triangle[:, np.arange(n), np.arange(n)] = 1
    # The other triangle, and with `unit` the diagonal, may hold anything.
    i, j = np.indices((n, n))
    a[:, (i > j) if upper else (i < j)] = np.nan
    if unit:
        a[:, i == j] = np.nan
    b = draw(dtype, 2, n, 5)
    assert_close(small_matrices.solve_triangular(a, b, upper, unit), np.linalg.solve(triangle, b), dtype)


def test_any_strides_and_broadcasting():
    a, b = well_conditioned(np.float64, 5, (4,)), draw(np.float64, 3, 4, 5, 2)
    for matrix in (a.swapaxes(-1, -2), a[::-1], a[:, ::-1, ::-1], a[2], a[None, :1]):
        for right in (b, b[0], b[..., ::-1], np.asfortranarray(b), np.broadcast_to(b[..., :1], b.shape)):
            shape = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
            expected = np.linalg.solve(np.broadcast_to(matrix, (*shape, 5, 5)), right)
            assert_close(small_matrices.solve(matrix, right), expected, np.float64)
    packed = np.zeros(4, [("flag", "i1"), ("a", "f8", (5, 5))])
    packed["a"] = a  # strides that are no multiple of the element
    assert_close(nd.linalg.inv(nd.tensor(packed["a"])).numpy(), np.linalg.inv(a), np.float64)


def test_matrices_that_lapack_must_judge():
    singular = well_conditioned(np.float64, 3, (6,))
    singular[4] = 0
    assert small_matrices.inverse(singular) is None
    assert small_matrices.solve(singular, np.ones((6, 3, 1))) is None
    with pytest.raises(nd.linalg.LinAlgError, match="singular"):
        nd.linalg.inv(nd.tensor(singular))
    indefinite = np.broadcast_to(np.eye(3), (6, 3, 3)).copy()
    for bad in (-1.0, 0.0, np.nan, np.inf):
        indefinite[2, 1, 1] = bad
        assert small_matrices.cholesky(indefinite) is None
    for bad in (np.nan, np.inf):
        singular[4] = np.diag([bad, 1, 1])
        assert small_matrices.inverse(singular) is None
        assert small_matrices.pivots(singular) is None


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3, 3)),
        np.zeros((8, 0, 0)),
        np.zeros((8, 33, 33)),
        np.zeros((8, 2, 3)),
        np.zeros((3, 3)),
        np.zeros((8, 3, 3), np.float16),
        np.zeros((8, 3, 3), complex),
        np.zeros(3),
    ],
)
def test_other_arrays_are_left_to_lapack(array):
    for function in (small_matrices.inverse, small_matrices.pivots, small_matrices.cholesky):
        assert function(array) is None


def test_determinants_at_singular_matrices_and_far_from_one():
    a = well_conditioned(np.float64, 4, (8,))
    a[3, 2] = a[3, 1]
    a[5] *= 1e76 * np.array([1e60, 1, 1, 1e-60])[:, None]  # the product overflows on the way
    a[6] *= 1e-76
    for transform in (nd.linalg.det, lambda x: nd.linalg.slogdet(x)[1]):
        with native_kernels.kernels_in_use(False):
            expected = transform(nd.tensor(a)).numpy()
        found = transform(nd.tensor(a)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        nd.linalg.inv,
        nd.linalg.det,
        lambda x: nd.linalg.slogdet(x)[1],
        lambda x: nd.linalg.solve(x, x.flip(-1) ** 2),
        lambda x: nd.linalg.cholesky(x @ x.mT + nd.eye(4, dtype=nd.float64)),
        lambda x: nd.linalg.solve_triangular(x, x.mT, upper=True),
    ],
)
def test_gradients_with_kernels_equal_those_without(function):
    a = well_conditioned(np.float64, 4, (6,))

    def run():
        x = nd.tensor(a, requires_grad=True)
        (function(x) ** 2).sum().backward()
        return x.grad.numpy()

    with native_kernels.kernels_in_use(True):
        found = run()
    with native_kernels.kernels_in_use(False):
        expected = run()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
