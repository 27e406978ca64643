"""Files of torch in ndgrad, and files of ndgrad in torch."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.nn

pytestmark = pytest.mark.usefixtures("float64_torch")


def contents(t):
    base = t.tensor(np.arange(6.0))
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
    module = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
    module.load_state_dict({k: t.full_like(v, 2) for k, v in module.state_dict().items()})
    return {
        **{name: t.tensor([1, 0, 2], dtype=getattr(t, name)) for name in names},
        "base": base, "part": base[2:4], "turned": t.ones(2, 3).T, "empty": t.ones(0, 3), "number": t.tensor(3.0),
        "leaf": t.ones(1, requires_grad=True), "parameter": t.nn.Parameter(base.reshape(2, 3)), "state": module.state_dict(),
        "dtype": t.float32, "size": t.Size([1, 2]),
        "device": t.device("cpu"), "plain": [1, 2.5, None, "x", True, (1, {2, 3}), 1j],
    }  # fmt: skip


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "detach"):
        return value.tolist(), str(value.dtype).partition(".")[2], value.requires_grad, type(value).__name__, value.stride()
    return str(value).replace("ndgrad.", "torch.")


@pytest.mark.parametrize(
    ("writer", "reader"), [(torch, ndgrad), (ndgrad, torch), (ndgrad, ndgrad)], ids=["to ndgrad", "to torch", "to itself"]
)
def test_files_are_read_by_both(writer, reader):
    file = io.BytesIO()
    writer.save(contents(writer), file)
    file.seek(0)
    got = reader.load(file)
    want = contents(reader)
    assert plain(got) == plain(want)
    assert got["part"].data_ptr() - got["base"].data_ptr() == want["part"].data_ptr() - want["base"].data_ptr()
    assert got["state"]._metadata == want["state"]._metadata


def test_optimizer_state_goes_from_torch_to_ndgrad():
    start = np.arange(3.0)
    theirs = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    (theirs**2).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"p": theirs.detach(), "o": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = ndgrad.load(file)
    ours = loaded["p"].requires_grad_()
    mine = ndgrad.optim.Adam([ours], lr=0.1)
    mine.load_state_dict(loaded["o"])
    for p, o in ((theirs, optimizer), (ours, mine)):
        o.zero_grad()
        (p**2).sum().backward()
        o.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", "float64 float32 float16 int64 uint8 uint16 uint32 uint64 bool complex128".split())
def test_arrays_are_tensors_for_torch_and_arrays_again_for_ndgrad(name):
    array = ndgrad.numpy.array([[1, 0, 2], [3, 1, 0]], dtype=name)
    array.label = "x"
    file = io.BytesIO()
    ndgrad.save({"whole": array, "part": array[:, 1:], "tensor": ndgrad.ones(2)}, file)
    for reader, kind in ((torch, torch.Tensor), (ndgrad, ndgrad.numpy.Array)):
        file.seek(0)
        got = reader.load(file, weights_only=True)
        assert type(got["whole"]) is type(got["part"]) is kind
        assert type(got["tensor"]) is reader.Tensor
        assert got["whole"].label == "x"
        assert str(got["whole"].dtype).rpartition(".")[2] == name
        got["whole"][0, 1] = 1
        assert got["whole"].tolist() == np.array([[1, 1, 2], [3, 1, 0]]).astype(name).tolist()
        assert got["part"].tolist() == np.array([[1, 2], [1, 0]]).astype(name).tolist()


def test_attributes_of_tensors_and_parameters_go_both_ways():
    for writer, reader in ((torch, ndgrad), (ndgrad, torch)):
        t, p = writer.ones(2), writer.nn.Parameter(writer.ones(2))
        t.label, p.label = "t", ["p", 1]
        file = io.BytesIO()
        writer.save([t, p], file)
        file.seek(0)
        t, p = reader.load(file, weights_only=True)
        assert (t.label, p.label, type(t), type(p)) == ("t", ["p", 1], reader.Tensor, reader.nn.Parameter)


def test_conjugations_and_signs_that_torch_has_put_off_are_carried_out():
    c = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, -4.0]])
    other, real = c.clone(), c.real.clone()  # torch does not save one memory under two types
    lazy = {
        "conj": c.conj(), "part": c.conj()[1], "transposed": c.mH, "plain": c, "imag": other.conj().imag, "both": other.conj().imag[:, 0],
        "negated conj": torch._neg_view(c.conj()), "negated": torch._neg_view(real), "real": real,
        "expanded": c[0, :1].conj().expand(5), "leaf": c.conj().clone().requires_grad_(),
    }  # fmt: skip
    assert lazy["conj"].is_conj()
    assert lazy["imag"].is_neg()
    file = io.BytesIO()
    torch.save(lazy, file)
    file.seek(0)
    got = ndgrad.load(file)
    for name, want in lazy.items():
        assert got[name].tolist() == want.tolist(), name
        assert str(got[name].dtype).rpartition(".")[2] == str(want.dtype).rpartition(".")[2]
    got["conj"][1, 0] = 7  # tensors that were conjugated alike go on sharing their memory
    assert got["part"].tolist() == [7, -4]
    assert got["plain"].tolist() == c.tolist()


@pytest.mark.parametrize(
    ("writer", "reader"), [(torch, ndgrad), (ndgrad, torch), (ndgrad, ndgrad)], ids=["to ndgrad", "to torch", "to itself"]
)
def test_files_of_the_older_format_are_read_by_both(writer, reader):
    file = io.BytesIO()
    new = ("uint16", "uint32", "uint64") if reader is torch else ()  # torch itself does not read these from such files
    writer.save({k: v for k, v in contents(writer).items() if k not in new}, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    got, want = reader.load(file), {k: v for k, v in contents(reader).items() if k not in new}
    assert plain(got) == plain(want)
    assert got["part"].data_ptr() - got["base"].data_ptr() == want["part"].data_ptr() - want["base"].data_ptr()


@pytest.mark.parametrize(("writer", "reader"), [(torch, ndgrad), (ndgrad, torch)], ids=["to ndgrad", "to torch"])
def test_mapped_files_are_read_by_both(writer, reader, tmp_path):
    writer.save({"a": writer.arange(6.0).reshape(2, 3).T, "b": writer.ones(1)}, tmp_path / "x.pt")
    got = reader.load(tmp_path / "x.pt", mmap=True)
    assert (got["a"].tolist(), got["a"].stride(), got["b"].tolist()) == ([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], (1, 3), [1.0])
    got["a"].zero_()
    assert reader.load(tmp_path / "x.pt")["a"].sum() == 15


def tied(t):
    class Tied(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(2, 2, bias=False), t.nn.Linear(2, 2)
            self.b.weight = self.a.weight

    return Tied()


@pytest.mark.parametrize(("writer", "reader"), [(torch, ndgrad), (ndgrad, torch)], ids=["to ndgrad", "to torch"])
def test_tied_weights_meta_tensors_storages_and_results_go_both_ways(writer, reader):
    leaf = writer.ones(2, requires_grad=True)
    file = io.BytesIO()
    state = tied(writer).state_dict()
    writer.save(
        {
            "state": state,
            "meta": writer.ones(2, 3, device="meta"),
            "storage": writer.arange(3.0).storage(),
            "result": leaf * 2,
            "sparse": writer.eye(2).to_sparse(),
            "rows": writer.eye(2).to_sparse_csr(),
        },
        file,
    )
    file.seek(0)
    got = reader.load(file)
    assert got["state"]["a.weight"].data_ptr() == got["state"]["b.weight"].data_ptr()
    assert got["state"]["a.weight"].tolist() == state["a.weight"].tolist()
    assert (got["meta"].is_meta, tuple(got["meta"].shape)) == (True, (2, 3))
    assert got["storage"].tolist() == [0.0, 1.0, 2.0]
    assert (got["result"].requires_grad, got["result"].is_leaf) == (True, True)
    assert got["sparse"].to_dense().tolist() == got["rows"].to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]


OPTIMIZERS = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.1, "amsgrad": True}, "RMSprop": {"lr": 0.1}, "Adagrad": {"lr": 0.1}}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize(("writer", "reader"), [(torch, ndgrad), (ndgrad, torch)], ids=["to ndgrad", "to torch"])
def test_training_goes_on_in_the_other_library(name, writer, reader):
    def step(t, p, optimizer):
        optimizer.zero_grad()
        ((p - 3) ** 2).sum().backward()
        optimizer.step()

    def begin(t):
        p = t.nn.Parameter(t.arange(3.0))
        return p, getattr(t.optim, name)([p], **OPTIMIZERS[name])

    p, optimizer = begin(writer)
    step(writer, p, optimizer)
    file = io.BytesIO()
    writer.save({"p": p, "o": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = reader.load(file)
    q, other = begin(reader)
    q.data.copy_(loaded["p"].data)
    other.load_state_dict(loaded["o"])
    for _ in range(3):
        step(writer, p, optimizer)
        step(reader, q, other)
    np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-12)


def test_whole_modules_of_torch_become_modules_of_ours():
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.GELU(),
        torch.nn.Flatten(2),
        torch.nn.TransformerEncoderLayer(9, 3, 8, batch_first=True),
    ).eval()
    file = io.BytesIO()
    torch.save(theirs, file)
    file.seek(0)
    ours = ndgrad.load(file, weights_only=False)
    assert all(type(m).__module__.startswith("ndgrad.nn") for m in ours.modules())
    x = np.random.default_rng(0).normal(size=(2, 1, 5, 5))
    np.testing.assert_allclose(ours(ndgrad.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-9)


class Vouched:
    def __init__(self):
        self.x = [1, 2]


@pytest.mark.parametrize("t", [torch, ndgrad], ids=["torch", "ndgrad"])
def test_vouching_and_options_are_the_same(t):
    s = t.serialization
    file = io.BytesIO()
    t.save(Vouched(), file)
    file.seek(0)
    assert s.get_unsafe_globals_in_checkpoint(file) == [f"{__name__}.Vouched"]
    file.seek(0)
    with pytest.raises(Exception, match="Weights only load failed"):
        t.load(file)
    file.seek(0)
    with s.safe_globals([Vouched]):
        assert t.load(file).x == [1, 2]
    assert Vouched not in s.get_safe_globals()
    s.add_safe_globals([Vouched])
    assert Vouched in s.get_safe_globals()
    s.clear_safe_globals()
    assert s.get_crc32_options() is True
    assert s.get_default_load_endianness() is None
    with pytest.raises(TypeError, match="Invalid argument type"):
        s.set_default_load_endianness("little")
    with pytest.raises(ValueError, match="Invalid argument"):
        s.set_default_mmap_options(77)
    assert s.location_tag(t.ones(2).untyped_storage()) == "cpu"
    for location, words in (("cuda:0", "Attempting to deserialize object on a CUDA device"), ("nowhere", "don't know how to restore")):
        with pytest.raises(RuntimeError, match=words):
            s.default_restore_location(t.ones(2).untyped_storage(), location)
        file = io.BytesIO()
        t.save(t.ones(2), file)
        file.seek(0)
        with pytest.raises(RuntimeError, match=words):
            t.load(file, map_location=location)
    with s.skip_data():
        file = io.BytesIO()
        t.save(t.ones(3), file)
    file.seek(0)
    assert t.load(file).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("writer", "reader"), [(torch, ndgrad), (ndgrad, torch)], ids=["to ndgrad", "to torch"])
def test_safetensors_go_both_ways(writer, reader, tmp_path):
    theirs = pytest.importorskip("safetensors.torch")
    files = {torch: theirs, ndgrad: ndgrad.safetensors}
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64".split()
    path = tmp_path / "x.safetensors"
    files[writer].save_file({name: writer.tensor([1, 0, 2], dtype=getattr(writer, name)) for name in names}, path, {"a": "b"})
    got = files[reader].load_file(path)
    assert {k: (v.tolist(), str(v.dtype).partition(".")[2]) for k, v in got.items()} == {
        name: (reader.tensor([1, 0, 2], dtype=getattr(reader, name)).tolist(), name) for name in names
    }
    files[writer].save_model(tied(writer), str(path))
    model = tied(reader)
    assert files[reader].load_model(model, path) == (set(), [])
    assert model.a.weight is model.b.weight


def test_the_package_of_safetensors_runs_over_ours(tmp_path):
    pytest.importorskip("safetensors")
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nfrom safetensors import safe_open\nfrom safetensors.torch import load_file, load_model, save_file, save_model\n"
        "assert torch.nn.__name__.startswith('ndgrad')\n"
        "m = torch.nn.Linear(2, 3)\nsave_model(m, 'm.safetensors')\nprint(load_model(torch.nn.Linear(2, 3), 'm.safetensors'))\n"
        "save_file({'a': torch.arange(6.0).reshape(2, 3)}, 'a.safetensors')\nprint(load_file('a.safetensors')['a'].tolist())\n"
        "with safe_open('a.safetensors', 'pt') as f:\n    print(f.get_slice('a')[:, 1:2].tolist(), type(f.get_tensor('a')).__module__)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(ndgrad.__path__[0])}
    done = subprocess.run(
        [sys.executable, "-m", "ndgrad.as_torch", str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.splitlines() == ["(set(), [])", "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]", "[[1.0], [4.0]] ndgrad"], done.stderr
