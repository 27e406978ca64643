"""Files: what is saved comes back, shares memory as it did, and nothing in a file runs unless asked for."""

from __future__ import annotations

import collections
import io
import os
import pickle
import re
import resource
import struct
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
    assert back["result"].requires_grad  # as a leaf: the graph stays behind
    assert back["result"].is_leaf


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
    with pytest.raises(RuntimeError, match="Parent directory"):
        ndgrad.save(ndgrad.ones(1), tmp_path / "none" / "x.pt")
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_saving_inside_a_transform_is_refused():
    with pytest.raises(RuntimeError, match="transform"):
        ndgrad.vmap(lambda x: ndgrad.save(x, io.BytesIO()))(ndgrad.ones(2))


# ----- torch's older format, and other options -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float64", "bfloat16", "complex64", "bool", "uint16"])
def test_older_format_comes_back_with_its_shared_memory(name):
    base = ndgrad.arange(6).to(getattr(ndgrad, name)).reshape(2, 3)
    file = io.BytesIO()
    ndgrad.save({"all": base, "part": base[1:], "turned": base.T, "none": ndgrad.ones(0)}, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    back = ndgrad.load(file)
    assert [back[k].tolist() for k in ("all", "part", "turned", "none")] == [base.tolist(), base[1:].tolist(), base.T.tolist(), []]
    back["all"][1, 0] = 0
    assert back["part"][0, 0] == back["turned"][0, 1] == 0


def test_older_files_one_after_the_other():
    file = io.BytesIO()
    for value in (1.0, 2.0):
        ndgrad.save(ndgrad.tensor(value), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [ndgrad.load(file).item(), ndgrad.load(file).item()] == [1.0, 2.0]


def test_older_file_cut_off_anywhere_is_refused(tmp_path):
    file = io.BytesIO()
    ndgrad.save([ndgrad.arange(5.0), "x"], file, _use_new_zipfile_serialization=False)
    whole = file.getvalue()
    for end in range(len(whole)):
        with pytest.raises((pickle.UnpicklingError, RuntimeError, EOFError)):
            ndgrad.load(io.BytesIO(whole[:end]))
    path = tmp_path / "old.pt"
    path.write_bytes(whole)
    with pytest.raises(RuntimeError, match="without mmap"):
        ndgrad.load(path, mmap=True)


def test_older_file_that_claims_more_memory_than_it_has_is_refused():
    file = io.BytesIO()
    ndgrad.save(ndgrad.arange(5.0), file, _use_new_zipfile_serialization=False)
    claimed = re.sub(rb"(cpuq.)K\x05N", lambda found: found[1] + b"J\xff\xff\xff\x7fN", file.getvalue())
    assert claimed != file.getvalue()
    with pytest.raises(pickle.UnpicklingError, match="larger than the file"):
        ndgrad.load(io.BytesIO(claimed))


def test_archive_cut_off_anywhere_is_refused():
    file = io.BytesIO()
    ndgrad.save([ndgrad.arange(5.0), "x"], file)
    whole = file.getvalue()
    for end in range(0, len(whole), 7):
        with pytest.raises((pickle.UnpicklingError, RuntimeError, EOFError)):
            ndgrad.load(io.BytesIO(whole[:end]))


class Point:
    def __init__(self, x):
        self.x = x


class Slotted:
    __slots__ = ("y",)

    def __getstate__(self):
        return self.y

    def __setstate__(self, state):
        self.y = state


def test_classes_that_the_user_vouches_for_are_read():
    slotted = Slotted()
    slotted.y = [1]
    with pytest.raises(pickle.UnpicklingError, match="safe_globals"):
        there_and_back(Point(1))
    with ndgrad.serialization.safe_globals([Point, Slotted, collections.deque, collections.defaultdict, list]):
        point, other, queue, found = there_and_back(
            [Point(ndgrad.ones(2)), slotted, collections.deque([1, 2]), collections.defaultdict(list, a=[1])]
        )
    assert queue == collections.deque([1, 2])
    assert found["b"] == []
    assert type(point) is Point
    assert point.x.tolist() == [1.0, 1.0]
    assert other.y == [1]
    assert ndgrad.serialization.get_safe_globals() == []
    with ndgrad.serialization.safe_globals([Point]), pytest.raises(pickle.UnpicklingError, match="Slotted"):
        there_and_back(slotted)
    with pytest.raises(TypeError, match="classes, functions"):
        ndgrad.serialization.add_safe_globals(["Point"])


def test_names_of_a_file_are_listed_without_running_it():
    file = io.BytesIO()
    ndgrad.save([ndgrad.ones(2), Point(1), Trap()], file)
    assert set(ndgrad.serialization.get_unsafe_globals_in_checkpoint(file)) == {f"{__name__}.Point", f"{os.getcwd.__module__}.getcwd"}


def test_functions_of_place_are_asked_once_per_memory():
    base, asked = ndgrad.arange(4.0), []

    def place(storage, where):
        asked.append((storage.nbytes(), where))
        return storage

    back = there_and_back([base, base[1:], ndgrad.ones(1)], map_location=place)
    assert asked == [(32, "cpu"), (8, "cpu")]
    assert back[1].tolist() == [1.0, 2.0, 3.0]
    other = ndgrad.full((1,), 5.0).untyped_storage()
    assert there_and_back(ndgrad.ones(1), map_location=lambda storage, where: other).tolist() == [5.0]
    with pytest.raises(TypeError, match="returned a str"):
        there_and_back(ndgrad.ones(1), map_location=lambda storage, where: "cpu")
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        there_and_back(ndgrad.ones(1), map_location="elsewhere")


def test_storages_come_back_with_those_who_share_them():
    x = ndgrad.arange(3.0)
    typed, tensor = there_and_back([x.storage(), x])
    assert typed.tolist() == [0.0, 1.0, 2.0]
    tensor[0] = 9.0
    assert typed[0] == 9.0
    assert there_and_back(x.untyped_storage()).nbytes() == 24


def test_tensors_without_data_come_back():
    back = there_and_back(ndgrad.empty(2, 3, device="meta", dtype=ndgrad.float16, requires_grad=True))
    assert (back.is_meta, back.shape, back.dtype, back.requires_grad) == (True, (2, 3), ndgrad.float16, True)


def test_other_byte_order_is_turned():
    tensors = {name: ndgrad.tensor([1, 2], dtype=getattr(ndgrad, name)) for name in ("float32", "bfloat16", "complex64", "int16", "bool")}
    file = io.BytesIO()
    ndgrad.save(tensors, file)
    with zipfile.ZipFile(file) as archive:
        records = {n: archive.read(n) for n in archive.namelist()}
    for name, record in zip(tensors, sorted(n for n in records if "/data/" in n), strict=True):
        word = {"float32": 4, "bfloat16": 2, "complex64": 4, "int16": 2, "bool": 1}[name]
        records[record] = b"".join(records[record][i : i + word][::-1] for i in range(0, len(records[record]), word))
    records["archive/byteorder"] = b"big"
    swapped = io.BytesIO()
    with zipfile.ZipFile(swapped, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    assert {k: v.tolist() for k, v in ndgrad.load(swapped).items()} == {k: v.tolist() for k, v in tensors.items()}


def archive_with_a_hole(path, pickled, size):
    """An archive of one memory of `size` bytes, none of which is on the disk."""
    name = b"archive/data/0"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        directory = archive.fp.tell()
    first = path.read_bytes()
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, size, size, len(name), 0) + name
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, size, size, len(name), 0, 0, 0, 0, 0, directory) + name
    entries = first[directory : first.rindex(b"PK\5\6")] + entry
    with open(path, "r+b") as file:
        file.seek(directory)
        file.write(local)
        file.seek(size, os.SEEK_CUR)
        begin = file.tell()
        file.write(entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(entries), begin, 0))


def test_a_mapped_file_is_not_read(tmp_path):
    file = io.BytesIO()
    ndgrad.save(ndgrad.ones(9, dtype=ndgrad.float32), file)
    with zipfile.ZipFile(file) as archive:
        pickled = archive.read("archive/data.pkl")
    count = 1 << 29  # 2 GB of float32
    pickled = pickled.replace(b"K\x09", b"J" + struct.pack("<i", count))
    path = tmp_path / "large.pt"
    archive_with_a_hole(path, pickled, 4 * count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large = ndgrad.load(path, mmap=True)
    assert large.shape == (count,)
    assert large[-1].item() == 0.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_many_mapped_tensors_hold_one_file_open(tmp_path):
    path = tmp_path / "x.pt"
    ndgrad.save([ndgrad.full((2,), float(i)) for i in range(300)], path)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    tensors = ndgrad.load(path, mmap=True)
    assert not before or len(os.listdir("/proc/self/fd")) <= before + 1
    saved = (tensors[1].requires_grad_() * tensors[2]).sum()
    tensors[0].zero_()  # another memory: no version of the others has changed
    saved.backward()
    assert tensors[1].grad.tolist() == [2.0, 2.0]


def test_changes_of_a_shared_map_go_to_the_file(tmp_path):
    path = tmp_path / "x.pt"
    ndgrad.save(ndgrad.ones(2), path)
    with ndgrad.serialization.set_default_mmap_options(ndgrad.serialization.MAP_SHARED):
        ndgrad.load(path, mmap=True)[0] = 5.0
    assert ndgrad.load(path, mmap=True).tolist() == [5.0, 1.0]
    with pytest.raises(pickle.UnpicklingError, match=r"checksum.*mmap=True"):
        ndgrad.load(path)
    with pytest.raises(ValueError, match="MAP_PRIVATE"):
        ndgrad.serialization.set_default_mmap_options(77)


def test_a_link_goes_on_pointing_at_what_is_written(tmp_path):
    target, link = tmp_path / "target.pt", tmp_path / "link.pt"
    ndgrad.save(ndgrad.ones(1), target)
    target.chmod(0o640)
    link.symlink_to(target)
    ndgrad.save(ndgrad.zeros(1), link)
    assert link.is_symlink()
    assert ndgrad.load(target).tolist() == [0.0]
    assert target.stat().st_mode & 0o777 == 0o640


def test_arguments_of_torch_are_taken_in_its_order():
    file = io.BytesIO()
    ndgrad.save({"a": ndgrad.ones(1)}, file, pickle, 2)
    file.seek(0)
    assert ndgrad.load(file, "cpu", pickle, weights_only=False, encoding="utf-8")["a"].tolist() == [1.0]
    with pytest.raises(RuntimeError, match="pickle_module"):
        ndgrad.load(file, pickle_module=pickle, weights_only=True)
    with pytest.raises(NotImplementedError, match="marshal"):
        ndgrad.save(1, file, __import__("marshal"))
    with pytest.raises(AttributeError, match="write"):
        ndgrad.save(1, 3)
    with pytest.raises(AttributeError, match="seek"):
        ndgrad.load(3)
