"""Elements at indexed positions by the kernels of a device, on the processor, compared with NumPy."""

from __future__ import annotations

import shutil
import types

import numpy as np
import pytest

from ndgrad._src.compiler.cuda import indexed, launch
from tests.compiler.cuda import emulator

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(5)


class Held:
    """An array as kernels are given it."""

    def __init__(self, array):
        self.array = array
        self.data = types.SimpleNamespace(ptr=array.ctypes.data, device_id=0)
        self.shape, self.strides, self.size, self.ndim, self.dtype = array.shape, array.strides, array.size, array.ndim, array.dtype
        self._c_contiguous = array.flags.c_contiguous


class Notes:
    """In the place of the notes of a device: the first index out of bounds."""

    def __init__(self):
        self.memory = np.zeros(3, np.int64)

    def words(self, error):
        at = self.memory.ctypes.data
        return at, at + 16, 7


@pytest.fixture(autouse=True)
def notes_of_device(monkeypatch):
    indexed._kernel.cache_clear()
    found = Notes()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.zeros(shape, dtype)))
    monkeypatch.setattr(launch, "zeros", lambda count, dtype: Held(np.zeros(count, dtype)))
    monkeypatch.setattr(indexed, "notes", lambda device: found)
    yield found.memory
    indexed._kernel.cache_clear()


def _fail(index):
    return IndexError(index)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.uint8])
def test_reads_along_a_dimension(dtype, notes_of_device):
    x = r.integers(0, 99, (4, 5, 6)).astype(dtype)
    index = r.integers(0, 5, (4, 7, 3))
    out = Held(np.zeros(index.shape, dtype))
    assert indexed.move_along("read", Held(x), out, Held(index), 1, _fail)
    np.testing.assert_array_equal(out.array, np.take_along_axis(x[:, :, :3], index, 1))
    turned = x.transpose(2, 1, 0)
    index = np.broadcast_to(r.integers(0, 5, (1, 7, 1), np.int32), (6, 7, 4))
    out = Held(np.zeros(index.shape, dtype))
    assert indexed.move_along("read", Held(turned), out, Held(index), 1, _fail)
    np.testing.assert_array_equal(out.array, np.take_along_axis(turned, index.astype(int), 1))
    assert not notes_of_device.any()


def test_an_index_out_of_bounds_is_noted_and_skipped(notes_of_device):
    x = np.arange(5.0)
    out = Held(np.full(3, 9.0))
    assert indexed.move_along("read", Held(x), out, Held(np.array([1, 5, -1])), 0, _fail)
    assert out.array.tolist() == [1, 0, 0]
    assert notes_of_device[0] == 7
    assert notes_of_device[1] in (5, -1)
    assert indexed.move_along("add", Held(x), Held(np.ones(3)), Held(np.array([1, 5, -1])), 0, None)
    assert x.tolist() == [0, 2, 2, 3, 4]


@pytest.mark.parametrize("name", ["add", "maximum", "minimum", "multiply"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_combines_repeated_positions(name, dtype):
    target, index = r.integers(1, 9, (4, 6)).astype(dtype), r.integers(0, 4, (9, 6))
    values = r.integers(1, 5, (9, 6)).astype(dtype)
    want = target.copy()
    getattr(np, name).at(want, (index, np.arange(6)), values)
    assert indexed.move_along(name, Held(target), Held(values), Held(index), 0, None)
    np.testing.assert_array_equal(target, want)


def test_extremes_keep_nan():
    target = np.array([1.0, np.nan])
    assert indexed.move_along("maximum", Held(target), Held(np.array([np.nan, 5.0])), Held(np.array([0, 1])), 0, None)
    assert np.isnan(target).all()


def test_the_last_of_several_values_stays():
    target, index = np.zeros((3, 4)), r.integers(0, 3, (8, 4))
    values = r.standard_normal((8, 4))
    want = np.zeros((3, 4))
    for row in range(8):
        want[index[row], np.arange(4)] = values[row]
    assert indexed.move_along("write", Held(target), Held(values), Held(index), 0, None)
    np.testing.assert_array_equal(target, want)
    lost = indexed.lost_along(Held(index), (3, 4), 0).array
    for column in range(4):
        for row in range(8):
            assert lost[row, column] == (index[row, column] in index[row + 1 :, column])


def test_index_arrays_broadcast_and_wrap(notes_of_device):
    x = r.standard_normal((4, 5, 8)).astype(np.float32)
    i, j = r.integers(-4, 4, (3, 1)), r.integers(-5, 5, 6, np.int32)
    out = Held(np.zeros((3, 6, 8), np.float32))
    assert indexed.at_arrays("read", Held(x), out, (Held(i), Held(j)), (_fail, _fail))
    np.testing.assert_array_equal(out.array, x[i, j])
    want, values = x.copy(), r.standard_normal((6, 8)).astype(np.float32)
    np.add.at(want, (i, j), values)
    assert indexed.at_arrays("add", Held(x), Held(values), (Held(i), Held(j)), None)
    np.testing.assert_allclose(x, want, rtol=1e-5)
    assert indexed.at_arrays("fill", Held(x), 2.5, (Held(i), Held(j)), None)
    assert (x[i, j] == 2.5).all()
    assert (x != 2.5).any()
    lost = indexed.lost_at_arrays((Held(np.array([2, 0, -1, 2])),), (4,)).array
    assert lost.tolist() == [True, False, False, False]
    assert not notes_of_device.any()


@pytest.mark.parametrize("dim", [0, 1])
def test_whole_slices(dim):
    x, index = r.standard_normal((6, 8)).astype(np.float32), r.integers(0, 6, 5)
    out = Held(np.zeros((5, 8) if dim == 0 else (6, 5), np.float32))
    assert indexed.of_slices("read", Held(x), out, Held(index), dim, _fail)
    np.testing.assert_array_equal(out.array, x.take(index, dim))
    want = x.copy()
    np.add.at(want, (index,) if dim == 0 else (slice(None), index), out.array)
    assert indexed.of_slices("add", Held(x), out, Held(index), dim, None)
    np.testing.assert_allclose(x, want, rtol=1e-6)


def test_other_arrays_are_left_to_the_general_path():
    x, index = np.zeros((3, 4)), np.zeros((3, 4), int)
    assert not indexed.move_along("read", Held(x), Held(x), Held(index.astype(np.uint64)), 0, None)
    assert not indexed.move_along("add", Held(x.astype(np.complex128)), Held(x.astype(np.complex128)), Held(index), 0, None)
    assert not indexed.move_along("write", Held(x.T), Held(x.T), Held(index.T), 0, None)
    assert not indexed.move_along("add", Held(x), Held(np.zeros((4, 4))), Held(index), 0, None)
