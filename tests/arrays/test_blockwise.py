"""Running by blocks changes how a result is computed, never the result."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.arrays import threads
from ndgrad._src.arrays.blockwise import blockwise
from ndgrad._src.arrays.scalar_operands import Constants

SIZE = 12 * 65536 + 18


@pytest.fixture
def calls():
    return []


@pytest.fixture
def function(calls):
    @blockwise()
    def f(np, x, *, power=2):
        calls.append(x.shape)
        return x**power + 1.0

    return f


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("count", [1, 2])
def test_blocks_give_what_the_whole_gives(function, calls, dtype, count, monkeypatch):
    monkeypatch.setattr(threads, "max_threads", count)
    x = np.linspace(-2, 2, SIZE).astype(dtype)
    out = function(np, x, power=3)
    assert len(calls) > 2
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, x**3 + 1.0)


def test_memory_order_is_kept(function, calls):
    x = np.asfortranarray(np.linspace(-2, 2, SIZE).reshape(-1, 5))
    out = function(np, x)
    assert len(calls) > 2
    assert out.flags.f_contiguous
    np.testing.assert_array_equal(out, x**2 + 1.0)


@pytest.mark.parametrize("x", [np.linspace(0, 1, 100), np.linspace(0, 1, 2 * SIZE)[::2], np.arange(SIZE), np.float64(2.0)], ids=str)
def test_small_arrays_gaps_integers_and_scalars_run_whole(function, calls, x):
    np.testing.assert_array_equal(function(np, x), x**2 + 1.0)
    assert calls == [np.shape(x)]


def test_an_error_in_a_block_reaches_the_caller():
    @blockwise()
    def f(np, x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        f(np, np.zeros(SIZE))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64])
def test_constants_do_not_widen_what_they_meet(dtype):
    half, two = Constants(0.5, 2.0)(np.ones(3, dtype))
    out = np.ones(3, dtype) * half + two
    assert out.dtype == dtype
    assert out.tolist() == [2.5, 2.5, 2.5]
    assert (np.ones(1, dtype)[0] * Constants(0.5)(np.ones(1, dtype)[0])[0]).dtype == dtype
