"""Files: what is saved comes back, shares memory as it did, and nothing in a file runs unless asked for."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest

import ndgrad
from ndgrad import nn


def there_and_back(obj, **options):
    file = io.BytesIO()
    ndgrad.save(obj, file)
    file.seek(0)
    return ndgrad.load(file, **options)


@pytest.mark.parametrize(
    "name", "float64 float32 float16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
)
def test_every_dtype_comes_back(name):
    t = ndgrad.tensor([[1, 0, 2]], dtype=getattr(ndgrad, name))
    back = there_and_back(t)
    assert back.dtype is t.dtype
    assert back.tolist() == t.tolist()


LAYOUTS = {
    "transposed": lambda: ndgrad.ones(2, 3).T,
    "empty": lambda: ndgrad.ones(0, 3),
    "a NumPy scalar": lambda: ndgrad.tensor(2.0).sin(),
    "backwards": lambda: ndgrad.arange(5)[::-2],
    "expanded": lambda: ndgrad.ones(3).expand(2, 3),
    "Fortran": lambda: ndgrad.tensor(np.asfortranarray(np.arange(6.0).reshape(2, 3))),
}


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_comes_back(make):
    t = make()
    back = there_and_back(t)
    assert back.shape == t.shape
    assert back.tolist() == t.tolist()


def test_shared_memory_is_still_shared_and_watched():
    t = ndgrad.arange(6.0)
    a, b = there_and_back([t, t[2:4]])
    saved = (b.clone().requires_grad_() * b).sum()
    a.zero_()
    assert b.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="overwritten|modified"):
        saved.backward()


def test_classes_requires_grad_and_attributes_come_back():
    p = nn.Parameter(ndgrad.ones(2))
    named = ndgrad.ones(2)
    named.label = "x"
    array = ndgrad.numpy.ones(2)
    back = there_and_back({"p": p, "same": p, "named": named, "array": array, "leaf": ndgrad.ones(1, requires_grad=True), "result": p * 2})
    assert isinstance(back["p"], nn.Parameter)
    assert back["p"].requires_grad
    assert back["same"] is back["p"]
    assert back["named"].label == "x"
    assert type(back["array"]) is type(array)
    assert back["leaf"].requires_grad
    assert not back["result"].requires_grad


def test_plain_values_come_back():
    obj = {"a": [1, 2.5, "x", None, True, (1, 2)], "s": {1, 2}, "dtype": ndgrad.float32, "size": ndgrad.Size([1, 2]), "c": 1j, "b": b"xy",
           "device": ndgrad.device("cpu")}  # fmt: skip
    assert there_and_back(obj) == obj


def test_state_dict_with_its_metadata_comes_back():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = there_and_back(module.state_dict())
    assert state._metadata == module.state_dict()._metadata
    other = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    other.load_state_dict(state)
    x = ndgrad.rand(3, 2)
    assert other.eval()(x).tolist() == module.eval()(x).tolist()


def test_mapped_file_is_not_changed_by_writes(tmp_path):
    path = tmp_path / "weights.pt"
    ndgrad.save([ndgrad.arange(4.0)], path)
    (mapped,) = ndgrad.load(path, mmap=True)
    mapped.zero_()
    assert mapped.tolist() == [0.0] * 4
    assert ndgrad.load(path)[0].tolist() == [0.0, 1.0, 2.0, 3.0]
    with open(path, "rb") as file, pytest.raises(ValueError, match="path"):
        ndgrad.load(file, mmap=True)


def test_map_location():
    t = ndgrad.ones(2)
    assert there_and_back(t, map_location="meta").is_meta
    assert there_and_back(t, map_location={"cpu": "meta"}).is_meta
    assert there_and_back(t, map_location=lambda storage, where: storage).is_cpu


class Trap:
    def __reduce__(self):
        return os.getcwd, ()


def test_code_in_a_file_is_not_run():
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        there_and_back([Trap()])
    assert there_and_back([Trap()], weights_only=False) == [os.getcwd()]


def test_whole_module_comes_back_when_trusted():
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    with pytest.raises(pickle.UnpicklingError):
        there_and_back(module)
    assert repr(there_and_back(module, weights_only=False)) == repr(module)


def test_damaged_or_foreign_files_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"not an archive")
    with pytest.raises(RuntimeError, match="not an archive"):
        ndgrad.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(RuntimeError, match=r"data\.pkl"):
        ndgrad.load(path)


def test_window_outside_its_memory_is_refused():
    file = io.BytesIO()
    ndgrad.save(ndgrad.arange(4.0), file)
    with zipfile.ZipFile(file) as archive:
        records = {n: archive.read(n) for n in archive.namelist()}
    records["archive/data/0"] = records["archive/data/0"][:16]
    broken = io.BytesIO()
    with zipfile.ZipFile(broken, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    with pytest.raises(pickle.UnpicklingError, match="out of bounds"):
        ndgrad.load(broken)


def test_a_missing_file_is_a_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        ndgrad.load(tmp_path / "none.pt")
    with pytest.raises(FileNotFoundError):
        ndgrad.load(str(tmp_path / "none.pt"), mmap=True)


def test_errors_of_map_location_are_the_users_own():
    def place(storage, where):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        there_and_back(ndgrad.ones(1), map_location=place)


def test_arrays_with_attributes_come_back_as_arrays_over_shared_memory():
    array = ndgrad.numpy.arange(4.0)
    array.label = "x"
    back, part = there_and_back([array, array[1:3]])
    assert type(back) is type(part) is type(array)
    assert back.label == "x"
    back[1] = 7.0
    assert part.tolist() == [7.0, 2.0]


class Labelled(ndgrad.Tensor):
    label = None


def test_attributes_that_a_class_declares_come_back_when_trusted():
    t = ndgrad.ones(2).as_subclass(Labelled)
    t.label = "x"
    assert there_and_back(t, weights_only=False).label == "x"


def test_failed_save_leaves_the_file_alone(tmp_path):
    path = tmp_path / "x.pt"
    ndgrad.save(ndgrad.ones(1), path)
    with pytest.raises(Exception, match="pickle|Can't"):
        ndgrad.save([ndgrad.ones(2), lambda: 0], path)
    assert ndgrad.load(path).tolist() == [1.0]
    with pytest.raises(RuntimeError, match="meta"):
        ndgrad.save(ndgrad.ones(1, device="meta"), path)


def test_saving_inside_a_transform_is_refused():
    with pytest.raises(RuntimeError, match="transform"):
        ndgrad.vmap(lambda x: ndgrad.save(x, io.BytesIO()))(ndgrad.ones(2))
