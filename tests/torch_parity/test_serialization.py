"""Files of torch in ndgrad, and files of ndgrad in torch."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.nn

pytestmark = pytest.mark.usefixtures("float64_torch")


def contents(t):
    base = t.tensor(np.arange(6.0))
    names = "float64 float32 float16 int64 int32 int16 int8 uint8 uint16 bool complex64 complex128".split()
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


@pytest.mark.parametrize("name", "float64 float32 float16 int64 uint8 uint16 bool complex128".split())
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
