"""Properties of element types, including bfloat16."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import precision

ml_dtypes = pytest.importorskip("ml_dtypes")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NUMBERS = [np.dtype(d) for d in "?bBhHiIlLefdFD"]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_numpys_own_types_are_what_numpy_says(dtype):
    assert precision.is_number(dtype)
    assert precision.is_floating(dtype) == np.issubdtype(dtype, np.floating)
    assert precision.is_inexact(dtype) == np.issubdtype(dtype, np.inexact)
    assert precision.is_half(dtype) == (dtype == np.float16)
    assert precision.result_dtype(dtype, np.float32) == np.result_type(dtype, np.float32)


def test_bfloat16_is_a_float_of_half_precision():
    assert precision.is_number(BFLOAT16)
    assert precision.is_floating(BFLOAT16)
    assert precision.is_inexact(BFLOAT16)
    assert precision.is_half(BFLOAT16)
    assert precision.computing_dtype(BFLOAT16) == np.float32
    assert precision.complex_dtype(BFLOAT16) == np.complex64
    assert float(precision.finfo(BFLOAT16).eps) == 2.0**-7


@pytest.mark.parametrize("name", ["float8_e3m4", "float4_e2m1fn", "int4", "bcomplex32"])
def test_other_types_that_extend_numpy_are_refused_everywhere(name):
    if not hasattr(ml_dtypes, name):
        pytest.skip("this ml_dtypes has no such type")
    array = np.ones(2, getattr(ml_dtypes, name))
    assert not precision.is_number(array.dtype)
    for enter in (ndgrad.tensor, ndgrad.as_tensor, ndgrad.from_numpy):
        with pytest.raises((TypeError, RuntimeError)):
            enter(array)
    assert isinstance(ndgrad.numpy.array(array), np.ndarray)  # arrays of other types are returned unchanged


@pytest.mark.parametrize("other", NUMBERS, ids=str)
def test_promotion_with_bfloat16(other):
    wider = np.result_type(np.float32, other)
    assert precision.result_dtype(BFLOAT16, other) == (BFLOAT16 if np.dtype(other).itemsize == 1 else wider)
    a, b = ndgrad.ones(2, dtype=ndgrad.bfloat16), ndgrad.tensor(np.ones(2, other))
    assert (a * b).dtype == (b * a).dtype == ndgrad.promote_types(ndgrad.bfloat16, other)


@pytest.mark.parametrize("number", [2, 2.5, True])
def test_a_python_number_does_not_widen_bfloat16(number):
    assert precision.result_dtype(np.ones(2, BFLOAT16), number) == BFLOAT16
    x = ndgrad.ones(2, dtype=ndgrad.bfloat16, requires_grad=True)
    powers = (x**number, ndgrad.maximum(x, x * number), ndgrad.where(x > 0, x, 0.0))
    for y in (x * number, number * x, x + number, number - x, x / number, *powers):
        assert y.dtype == ndgrad.bfloat16
        (g,) = ndgrad.autograd.grad(y.sum(), x)
        assert g.dtype == ndgrad.bfloat16
    with ndgrad.no_grad():
        assert (x * number).dtype == ndgrad.bfloat16
    assert ndgrad.func.grad(lambda v: (v * number).sum())(x).dtype == ndgrad.bfloat16
    assert ndgrad.vmap(lambda v: v * number)(x).dtype == ndgrad.bfloat16


def test_a_python_number_does_not_widen_bfloat16_on_numpys_class():
    x = ndgrad.numpy.array(np.ones(2), dtype=BFLOAT16)
    for y in (np.maximum(x, 0.5), np.heaviside(x, 0.5), np.multiply(2.5, x), x - 1.5, np.where(x > 0, x, 0.0), np.mean(x), x @ x):
        assert y.dtype == BFLOAT16


def test_halves_are_rounded_once():
    seen = []

    def forward(x, *, dim):
        seen.append(x.dtype)
        return x + 1, np.arange(2)

    out, places = precision.run_in_single(forward, (np.ones(2, np.float16),), {"dim": 0})
    assert seen == [np.float32]
    assert out.dtype == np.float16
    assert places.dtype == np.int64
    mixed = (np.ones(2, np.float16), np.ones(2, BFLOAT16))
    assert precision.run_in_single(lambda x, y: x + y, mixed, {}).dtype == np.float32
