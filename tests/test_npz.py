"""npz files: NumPy reads ours, we read NumPy's, and nothing in them is a pickle."""

from __future__ import annotations

import os

import numpy as np
import pytest

import ndgrad
from ndgrad.npz import load_file, save_file

NAMES = "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex64 complex128".split()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("mmap", [False, True])
def test_every_dtype_and_layout_goes_to_numpy_and_back(tmp_path, mmap, compressed):
    tensors = {name: ndgrad.tensor([[1, 0, 2]], dtype=getattr(ndgrad, name)) for name in NAMES}
    tensors |= {
        "0.weight": ndgrad.arange(6.0).reshape(2, 3).T,
        "file": ndgrad.tensor(3.0),
        "empty": ndgrad.ones(0, 2),
        "steps": ndgrad.arange(6.0)[::2],
    }
    path = tmp_path / "x.npz"
    save_file(tensors, path, compressed=compressed)
    want = {k: (t.tolist(), t.numpy().dtype) for k, t in tensors.items()}
    with np.load(path) as theirs:
        assert {k: (theirs[k].tolist(), theirs[k].dtype) for k in theirs.files} == want
    ours = load_file(path, mmap=mmap)
    assert {k: (t.tolist(), t.numpy().dtype) for k, t in ours.items()} == want


def test_arrays_of_numpy_are_read_in_any_order(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, fortran=np.asfortranarray(np.arange(6.0).reshape(2, 3)), big=np.array([1, 2], ">i4"), number=np.array(5))
    for mmap in (False, True):
        found = load_file(path, mmap=mmap)
        assert {k: t.tolist() for k, t in found.items()} == {"fortran": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "big": [1, 2], "number": 5}
        found["number"].zero_()
    assert load_file(path)["number"].item() == 5


def test_what_would_be_pickled_is_refused_and_the_file_left_alone(tmp_path):
    path = tmp_path / "x.npz"
    save_file({"a": ndgrad.ones(1)}, path)
    before = path.read_bytes()
    for wrong in (
        {"a": [1]},
        {"a": np.array([{}], object)},
        {"a": ndgrad.ones(1, dtype=ndgrad.bfloat16)},
        {"a": ndgrad.ones(1, device="meta")},
        {1: ndgrad.ones(1)},
    ):
        with pytest.raises(ValueError, match=r"ndgrad\.npz\.save_file"):
            save_file(wrong, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.npz"]
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(ValueError, match="objects"):
        load_file(path)
    np.savez(path, a=np.array(["text"]))
    with pytest.raises(ValueError, match="text"):
        load_file(path)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    save_file({"a": ndgrad.arange(8.0), "b": ndgrad.ones(2)}, path)
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, 11):
        path.write_bytes(whole[:end])
        for mmap in (False, True):
            with pytest.raises(ValueError, match="cut off|damaged"):
                load_file(path, mmap=mmap)
    path.write_bytes(whole.replace(b"'shape': (8,)", b"'shape': (9,)"))
    with pytest.raises(ValueError, match="does not fit|damaged"):
        load_file(path, mmap=True)
