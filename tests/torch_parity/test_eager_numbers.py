"""Numbers that torch's users see to the last bit: dtypes of nested data, ranges, failed factorisations, memory order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import ndgrad

pytestmark = pytest.mark.filterwarnings("ignore")
nan, inf = math.nan, math.inf


@pytest.fixture(autouse=True)
def single_precision():
    before = ndgrad.get_default_dtype(), torch.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    torch.set_default_dtype(torch.float32)
    with np.errstate(all="ignore"):
        yield
    ndgrad.set_default_dtype(before[0])
    torch.set_default_dtype(before[1])


def arrays(results):
    return [np.asarray(r.detach()) for r in (results if isinstance(results, tuple) else (results,))]


def same(mine, theirs, **tolerance):
    for a, b in zip(arrays(mine), arrays(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, **tolerance) if tolerance else np.testing.assert_array_equal(a, b)


# ----- the dtype of nested data ---------------------------------------------------------------------------------------


def elements(m):
    typed = [
        m.tensor(1, dtype=getattr(m, d))
        for d in "float64 float32 float16 bfloat16 int64 int32 int8 uint8 bool complex64 complex128".split()
    ]
    plain = [1.5, 2, True, 1j, np.float64(1), np.float32(1), np.float16(1), np.int64(1), np.int8(1), np.complex64(1)]
    return [*typed, *plain, m.tensor([1.0], dtype=m.float64)]


def test_nested_data_has_torchs_dtype():
    count = len(elements(torch))
    for a, b in itertools.product(range(count), repeat=2):
        for nest in (lambda x, y: [x, y], lambda x, y: ((x,), (y,)), lambda x, y: [[[x], [y]]]):
            theirs = torch.tensor(nest(elements(torch)[a], elements(torch)[b]))
            mine = ndgrad.tensor(nest(elements(ndgrad)[a], elements(ndgrad)[b]))
            assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], (a, b)
            assert tuple(mine.shape) == tuple(theirs.shape)


@pytest.mark.parametrize("value", [np.float64(1), np.float32(1), np.complex128(1), np.int8(1), np.bool_(True)])
def test_numpys_numbers_keep_their_dtype(value):
    assert str(ndgrad.tensor(value).dtype).split(".")[-1] == str(torch.tensor(value).dtype).split(".")[-1]


# ----- ranges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "complex64"])
@pytest.mark.skipif(
    "AVX2" not in torch.backends.cpu.get_cpu_capability() and "AVX512" not in torch.backends.cpu.get_cpu_capability(),
    reason="torch rounds fused multiplications otherwise without them",
)
def test_linspace_is_torchs_to_the_last_bit(dtype):
    for (a, b), n in itertools.product([(0, 1), (-1, 1), (0.1, 0.7), (1, -3), (-5, 5.5)], [0, 1, 2, 3, 8, 17, 100, 101, 1001]):
        same(ndgrad.linspace(a, b, n, dtype=getattr(ndgrad, dtype)), torch.linspace(a, b, n, dtype=getattr(torch, dtype)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_other_ranges_are_torchs_up_to_the_last_bit(dtype):
    close = {"rtol": 1e-15 if dtype == "float64" else 3e-7, "atol": 1e-15 if dtype == "float64" else 1e-7}
    for a, b, n in itertools.product([0, -2, 1], [3, 4.5], [1, 7, 64]):
        same(ndgrad.logspace(a, b, n, dtype=getattr(ndgrad, dtype)), torch.logspace(a, b, n, dtype=getattr(torch, dtype)), **close)
        same(
            ndgrad.arange(a, 20 * b, 1.5, dtype=getattr(ndgrad, dtype)), torch.arange(a, 20 * b, 1.5, dtype=getattr(torch, dtype)), **close
        )


# ----- matrices without a factorisation -------------------------------------------------------------------------------

GOOD, SINGULAR, INDEFINITE = [[4.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [2.0, 1.0]]
MATRICES = {
    "good": GOOD, "singular": SINGULAR, "indefinite": INDEFINITE, "zero": [[0.0, 0.0], [0.0, 0.0]], "swap": [[0.0, 1.0], [1.0, 0.0]],
    "batch": [GOOD, SINGULAR, INDEFINITE, [[0.0, 1.0], [1.0, 0.0]]], "order 3": [[1.0, 4.0, 7.0], [4.0, 5.0, 8.0], [7.0, 8.0, 9.0]],
}  # fmt: skip
REPORTING = {
    "lu_factor_ex": lambda m, a: m.linalg.lu_factor_ex(a),
    "inv_ex": lambda m, a: m.linalg.inv_ex(a),
    "solve_ex": lambda m, a: m.linalg.solve_ex(a, m.ones_like(a)),
    "solve_ex of a vector": lambda m, a: m.linalg.solve_ex(a, m.ones_like(a[..., 0])),
    "cholesky_ex": lambda m, a: m.linalg.cholesky_ex(a),
    "upper cholesky_ex": lambda m, a: m.linalg.cholesky_ex(a, upper=True),
    "lu": lambda m, a: m.lu(a, get_infos=True) if m is ndgrad else torch.Tensor.lu(a, get_infos=True),
}
RAISING = {
    "lu_factor": lambda m, a: m.linalg.lu_factor(a),
    "lu_factor_ex": lambda m, a: m.linalg.lu_factor_ex(a, check_errors=True),
    "inv": lambda m, a: m.linalg.inv(a),
    "inv_ex": lambda m, a: m.linalg.inv_ex(a, check_errors=True),
    "solve_ex": lambda m, a: m.linalg.solve_ex(a, m.ones_like(a), check_errors=True),
    "cholesky": lambda m, a: m.linalg.cholesky(a),
    "cholesky_ex": lambda m, a: m.linalg.cholesky_ex(a, check_errors=True),
    "cholesky_inverse": lambda m, a: m.cholesky_inverse(a),
}


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", REPORTING)
def test_failures_are_reported_as_in_torch(name, matrix):
    mine, theirs = (REPORTING[name](m, m.tensor(MATRICES[matrix], dtype=m.float64)) for m in (ndgrad, torch))
    same(tuple(mine), tuple(theirs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("matrix", [*MATRICES, "nan"])
@pytest.mark.parametrize("name", RAISING)
def test_failures_raise_as_in_torch(name, matrix):
    raised = []
    for m in (ndgrad, torch):
        try:
            RAISING[name](m, m.tensor(MATRICES.get(matrix, [[nan, nan], [nan, nan]]), dtype=m.float64))
        except RuntimeError:
            raised.append(m)
    assert raised in ([], [ndgrad, torch])


def test_matrices_beside_a_singular_one_keep_their_gradient():
    a = ndgrad.tensor([GOOD, SINGULAR], dtype=ndgrad.float64, requires_grad=True)
    ndgrad.linalg.inv_ex(a).inverse[0].sum().backward()
    inverse = np.linalg.inv(GOOD)
    np.testing.assert_allclose(a.grad[0], -inverse.T @ np.ones((2, 2)) @ inverse.T, rtol=1e-12)


# ----- derivatives at the edge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0], [1.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [2.0]])
@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("dim", [0, None])
def test_gradients_of_spread_with_none_left(name, values, excess, dim):
    grads = []
    for m in (ndgrad, torch):
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        out = getattr(m, name)(x, dim=dim, correction=len(values) + excess)
        (out[0] if isinstance(out, tuple) else out).backward(m.tensor(-1.0, dtype=m.float64))
        grads.append(x.grad)
    same(*grads, rtol=1e-12, atol=1e-15)


# torch itself ends with a segmentation fault if a place is NaN in bilinear mode with a border or reflections.
@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        ("bilinear", "zeros"),
        ("nearest", "zeros"),
        ("nearest", "border"),
        ("bicubic", "zeros"),
        ("bicubic", "border"),
        ("bicubic", "reflection"),
    ],
)
def test_places_that_are_not_finite_are_seen(mode, padding):
    image = np.arange(1.0, 17.0).reshape(1, 1, 4, 4)
    places = np.array([[[[0.1, 0.2], [nan, 0.0], [0.3, nan], [inf, 0.0], [0.0, -inf], [-0.4, -0.4], [5.0, 5.0]]]])
    made = [m.nn.functional.grid_sample(m.tensor(image), m.tensor(places), mode, padding, True) for m in (ndgrad, torch)]
    same(*made, rtol=1e-12)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_place_that_is_nan_spoils_its_own_value_only(padding):
    image = ndgrad.arange(1.0, 17.0).reshape(1, 1, 4, 4).requires_grad_()
    places = ndgrad.tensor([[[[0.1, 0.2], [nan, 0.0]]]], requires_grad=True)
    out = ndgrad.nn.functional.grid_sample(image, places, "bilinear", padding, True)
    assert out.isnan().tolist() == [[[[False, True]]]]
    out.sum().backward()
    assert not image.grad.isnan().any()
    assert not places.grad[0, 0, 0].isnan().any()
    assert places.grad[0, 0, 1].isnan().any()


# ----- memory order ---------------------------------------------------------------------------------------------------

SORTS = {
    "sort": lambda m, x, dim, flag: m.sort(x, dim=dim, descending=flag),
    "argsort": lambda m, x, dim, flag: m.argsort(x, dim=dim, descending=flag),
    "topk": lambda m, x, dim, flag: m.topk(x, 3, dim=dim, largest=flag),
}


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize("shape", [(6, 5), (60, 50), (7, 40, 3)])
def test_sorted_results_have_torchs_strides(name, shape):
    x = np.random.default_rng(0).normal(size=shape)
    for dim, flag in itertools.product(range(len(shape)), (False, True)):
        mine, theirs = (SORTS[name](m, m.tensor(x), dim, flag) for m in (ndgrad, torch))
        mine, theirs = (tuple(r) if isinstance(r, tuple) else (r,) for r in (mine, theirs))
        for a, b in zip(mine, theirs, strict=True):
            assert a.stride() == b.stride()
            np.testing.assert_array_equal(a.view(-1), b.view(-1))
