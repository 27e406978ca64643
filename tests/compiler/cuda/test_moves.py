"""Ops that only move elements, by the copy kernels of a device, on the processor, compared with NumPy's functions."""

from __future__ import annotations

import shutil
import types

import ml_dtypes
import numpy as np
import pytest

from ndgrad._src.compiler.cuda import copies, launch
from ndgrad._src.ops.vocabulary import find
from tests.compiler.cuda import emulator

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(11)
DTYPES = [np.float32, np.bool_]


class Held:
    """An array of any layout as kernels are given it."""

    def __init__(self, array):
        self.array = array
        self.data = types.SimpleNamespace(
            ptr=array.ctypes.data, device_id=0, memset_async=lambda value, size: array.fill(0)
        )
        self.shape, self.strides, self.size, self.ndim = array.shape, array.strides, array.size, array.ndim
        self.dtype, self._c_contiguous = array.dtype, array.flags.c_contiguous

    def reshape(self, shape):
        return Held(self.array.reshape(shape))


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    caches = [copies._kernel, copies._find_kernel, copies._filling, copies._counting]
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.zeros(shape, dtype)))
    monkeypatch.setattr(launch, "shaped", lambda x, shape: Held(x.array.reshape(shape)))
    yield
    for cache in caches:
        cache.cache_clear()


def _draw(shape, dtype):
    return np.array(r.standard_normal(shape) * 3).astype(dtype)


def _compare(name, arrays, settings):
    got = getattr(copies, name)(tuple(map(Held, arrays)), settings)
    want = find(name).forward_for(np)(*arrays, **settings)
    assert got is not None
    assert got.array.dtype == want.dtype
    np.testing.assert_array_equal(got.array.astype(complex), want.astype(complex))


CALLS = [
    ("cat", [(2, 3, 4), (2, 5, 4), (2, 1, 4)], {"dim": 1}),
    ("cat", [(3, 8), (2, 8)], {"dim": 0}),
    ("stack", [(3, 8), (3, 8), (3, 8)], {"dim": 1}),
    ("stack", [(3, 8), (3, 8)], {"dim": 2}),
    ("stack", [(), ()], {"dim": 0}),
    ("flip", [(3, 4, 8)], {"dims": (0, 2)}),
    ("flip", [(5,)], {"dims": (0,)}),
    *[("rot90", [(3, 4, 2)], {"k": k, "dims": (0, 1)}) for k in range(4)],
    ("rot90", [(3, 4, 2)], {"k": -1, "dims": (2, 0)}),
    ("roll", [(3, 8)], {"shifts": (3,), "dims": (1,)}),
    ("roll", [(3, 8)], {"shifts": (-10,), "dims": (0,)}),
    ("roll", [(3, 8)], {"shifts": (7,), "dims": None}),
    ("repeat", [(3, 4)], {"repeats": (2, 1, 3)}),
    ("repeat", [(4,)], {"repeats": (5,)}),
    ("repeat_interleave", [(3, 4)], {"repeats": (2, 2, 2), "dim": 0}),
    ("repeat_interleave", [(3, 2)], {"repeats": (3, 3), "dim": 1}),
    ("slice_backward", [(3, 2)], {"shape": (3, 7), "dim": 1, "start": 1, "stop": 5, "step": 2}),
    ("slice_backward", [(4, 2)], {"shape": (9, 2), "dim": 0, "start": 3, "stop": 7, "step": 1}),
    ("select_backward", [(3, 4)], {"shape": (3, 6, 4), "dim": 1, "index": 5}),
    ("select_backward", [(3, 4)], {"shape": (3, 6, 4), "dim": 1, "index": -2}),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "shapes", "settings"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_moves_equal_those_of_numpy(name, shapes, settings, dtype):
    _compare(name, [_draw(shape, dtype) for shape in shapes], settings)


def test_moves_of_other_layouts():
    x, y = _draw((4, 6), np.float32).T, _draw((6, 8), np.float32)[:, ::2]
    _compare("cat", [x, y], {"dim": 1})
    _compare("stack", [x, y], {"dim": 0})
    _compare("flip", [x], {"dims": (0,)})
    _compare("rot90", [y], {"k": 1, "dims": (0, 1)})
    _compare("repeat", [x], {"repeats": (2, 2)})
    _compare("slice_backward", [x], {"shape": (8, 4), "dim": 0, "start": 1, "stop": 7, "step": 1})
    _compare("cat", [_draw((2, 3), np.complex64)] * 2, {"dim": 1})
    _compare("flip", [_draw((2, 8), ml_dtypes.bfloat16)], {"dims": (0,)})


def test_unequal_arrays_are_left_to_the_general_path():
    x, y = Held(_draw((2, 3), np.float32)), Held(_draw((2, 3), np.float64))
    assert copies.cat((x, y), {"dim": 0}) is None
    assert copies.cat((x, Held(_draw((2, 4), np.float32))), {"dim": 0}) is None
    assert copies.stack((x, y), {"dim": 0}) is None
    assert copies.roll((x,), {"shifts": (1, 2), "dims": (0, 1)}) is None
    assert copies.repeat_interleave((x,), {"repeats": (1, 2), "dim": 0}) is None
    assert copies.flip((x,), {"dims": (0, 0)}) is None


@pytest.mark.parametrize(
    ("given", "to"),
    [(np.bool_, np.float32), (np.int64, ml_dtypes.bfloat16), (np.float16, np.int32), (np.int32, np.uint8), (np.float64, np.bool_)],
    ids=str,
)
def test_conversions_are_those_of_c(given, to):
    x = np.arange(12, dtype=np.int64).reshape(3, 4).astype(given)
    out = Held(np.zeros((3, 4), to))
    assert copies.copy_into(out, Held(x))
    np.testing.assert_array_equal(out.array.astype(float), x.astype(to).astype(float))


def test_counters_count_in_place():
    x = np.array([1, 2, (1 << 40) + 1])
    assert copies.count_up(Held(x), (5,))
    np.testing.assert_array_equal(x, [6, 7, (1 << 40) + 6])
    assert not copies.count_up(Held(x), (1.5,))
    assert not copies.count_up(Held(x), (1 << 40,))
