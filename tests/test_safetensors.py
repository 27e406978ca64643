"""The safetensors format: read and written as the package safetensors does, and nothing in a file is believed unchecked."""

from __future__ import annotations

import json
import os
import resource

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad.safetensors import SafetensorError, load, load_file, load_model, safe_open, save, save_file, save_model

NAMES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex64".split()


def some_of_everything():
    made = {name: ndgrad.tensor([[1, 0, 2]], dtype=getattr(ndgrad, name)) for name in NAMES}
    return {
        **made,
        "number": ndgrad.tensor(3.0),
        "empty": ndgrad.ones(0, 2),
        "turned": ndgrad.arange(6.0).reshape(2, 3).T,
        "ä/ö": ndgrad.ones(1),
    }


def plain(tensors):
    return {name: (t.tolist(), str(t.dtype).partition(".")[2], tuple(t.shape)) for name, t in tensors.items()}


@pytest.mark.parametrize("mmap", [False, True])
def test_every_dtype_and_layout_comes_back(tmp_path, mmap):
    tensors = some_of_everything()
    save_file(tensors, tmp_path / "x.safetensors")
    assert plain(load_file(tmp_path / "x.safetensors", mmap=mmap)) == plain(tensors)
    assert plain(load(save(tensors))) == plain(tensors)


def test_the_package_reads_our_files_and_we_read_its_own(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {name: np.array([[1, 0, 2]], name) for name in NAMES if name != "bfloat16"}
    path = tmp_path / "x.safetensors"
    save_file({k: ndgrad.tensor(v, dtype=getattr(ndgrad, k)) for k, v in arrays.items()}, path, {"a": "b"})
    theirs = package.load_file(path)
    assert {k: (v.tolist(), v.dtype.name) for k, v in theirs.items()} == {k: (v.tolist(), v.dtype.name) for k, v in arrays.items()}
    assert plain(load(package.save(arrays, {"a": "b"}))) == plain({k: ndgrad.tensor(v) for k, v in arrays.items()})


def test_files_are_read_part_by_part(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"w": ndgrad.arange(12.0).reshape(3, 4), "b": ndgrad.ones(2, dtype=ndgrad.int16)}, path, {"by": "me"})
    with safe_open(path, framework="pt", device="cpu") as file:
        assert (file.keys(), file.offset_keys(), file.metadata(), len(file)) == (["b", "w"], ["w", "b"], {"by": "me"}, 2)
        part = file.get_slice("w")
        assert (part.get_shape(), part.get_dtype()) == ([3, 4], "F64")
        assert part[1:, ::2].tolist() == [[4.0, 6.0], [8.0, 10.0]]
        assert part[0].shape == (4,)
        with pytest.raises(SafetensorError, match="does not contain tensor other"):
            file.get_tensor("other")
    with pytest.raises(SafetensorError, match="closed"):
        file.get_tensor("b")
    with safe_open(path, framework="np") as file:
        assert type(file.get_tensor("b")) is np.ndarray
    with pytest.raises(ValueError, match="'pt'"):
        safe_open(path, framework="jax")


def test_mapped_tensors_do_not_change_the_file_nor_each_other(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"a": ndgrad.ones(2), "b": ndgrad.full((2,), 3.0)}, path)
    mapped = load_file(path, mmap=True)
    a = mapped["a"].requires_grad_()
    saved = (a * mapped["b"]).sum()
    load_file(path, mmap=True)["a"].zero_()
    saved.backward()
    assert a.grad.tolist() == [3.0, 3.0]
    mapped["b"].zero_()
    assert load_file(path)["b"].tolist() == [3.0, 3.0]


def test_a_file_larger_than_memory_opens_at_once(tmp_path):
    count = 1 << 38  # a terabyte, of which the disk has one page
    header = json.dumps({"x": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    path = tmp_path / "large.safetensors"
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        try:
            file.truncate(8 + len(header) + 4 * count)
        except OSError:
            pytest.skip("the file system has no file of that size")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with safe_open(path) as opened:
        assert opened.get_slice("x")[-3:].tolist() == [0.0] * 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2)
        self.b.weight = self.a.weight


def test_tied_weights_are_written_once_and_filled_again(tmp_path):
    path, model, other = tmp_path / "m.safetensors", Tied(), Tied()
    with pytest.raises(RuntimeError, match=r"share memory, 'a\.weight' and 'b\.weight'"):
        save_file(model.state_dict(), path)
    assert not path.exists()
    save_model(model, path)
    with safe_open(path) as file:
        assert (file.keys(), file.metadata()) == (["a.weight", "b.bias"], {"b.weight": "a.weight"})
    assert load_model(other, path) == (set(), [])
    assert other.b.weight is other.a.weight
    assert other.a.weight.tolist() == model.a.weight.tolist()
    before = nn.Linear(2, 2).state_dict()
    fresh = nn.Linear(2, 2)
    fresh.load_state_dict(before)
    with pytest.raises(RuntimeError, match="missing keys"):
        load_model(fresh, path)
    assert fresh.weight.tolist() == before["weight"].tolist()
    assert load_model(fresh, path, strict=False) == ({"weight", "bias"}, ["a.weight", "b.bias"])


def test_what_the_format_cannot_hold_is_refused_and_the_file_left_alone(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"a": ndgrad.ones(1)}, path)
    before = path.read_bytes()
    for wrong, match in (
        ({"a": 1}, "is a int"),
        ({"__metadata__": ndgrad.ones(1)}, "another name"),
        ({"a": ndgrad.ones(1, dtype=ndgrad.complex128)}, "no name"),
        ({"a": ndgrad.ones(1, device="meta")}, "meta"),
        ({"a": ndgrad.eye(2).to_sparse()}, "sparse"),
    ):
        with pytest.raises(ValueError, match=match):
            save_file(wrong, path)
    with pytest.raises(ValueError, match="text to text"):
        save_file({"a": ndgrad.ones(1)}, path, {"a": 1})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.safetensors"]


def header(entries, data=b"\0" * 8):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        (1 << 62).to_bytes(8, "little"),
        header(b"{"),
        header(b"[]"),
        header(b"\xff\xfe"),
        header({"a": 1}),
        header(b"[" * 100_000),
        header({"a": {**GOOD, "shape": [3]}}),
        header({"a": {**GOOD, "dtype": "F4"}}),
        header({"a": {**GOOD, "shape": [-2]}}),
        header({"a": {**GOOD, "shape": [True, 2]}}),
        header({"a": {**GOOD, "data_offsets": [8, 0]}}),
        header({"a": {**GOOD, "more": 1}}),
        header({"a": GOOD, "b": GOOD}),
        header({"a": GOOD}, b"\0" * 7),
        header({"a": GOOD}, b"\0" * 9),
        header({"a": GOOD, "__metadata__": {"x": 1}}),
        header({"a": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}}),
        header(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
        header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}),
    ],
    ids=range(21),
)
def test_damaged_files_are_refused(data, tmp_path):
    with pytest.raises(SafetensorError, match="damaged|cut off|not here"):
        load(data)
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(SafetensorError, match="damaged|cut off|not here"):
        load_file(path, mmap=True)


def test_a_good_file_of_the_same_making_is_read():
    assert load(header({"a": GOOD}))["a"].tolist() == [0.0, 0.0]
