"""Parts of a batch on several devices: `nn.parallel.scatter` and `gather`; errors of workers in files."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple

import pytest

import ndgrad
from ndgrad.distributed.errors import record
from ndgrad.nn.parallel import gather, scatter, scatter_kwargs

Pair = namedtuple("Pair", "x y")  # noqa: PYI024  # torch's functions recognise it by its fields


def test_gather_inverts_scatter_in_containers():
    batch = OrderedDict(a=ndgrad.arange(5.0), b=[Pair(ndgrad.ones(5, 2), ndgrad.zeros(5))])
    parts = scatter(batch, ["cpu"] * 2)
    assert [part["a"].shape[0] for part in parts] == [3, 2]
    assert isinstance(parts[0]["b"][0], Pair)
    back = gather(parts, "cpu")
    assert isinstance(back, OrderedDict)
    assert back["a"].tolist() == batch["a"].tolist()
    assert back["b"][0].x.shape == (5, 2)


def test_scatter_records_gradients():
    x = ndgrad.arange(4.0).requires_grad_()
    a, b = scatter(x, ["cpu", "cpu"])
    (a * 2 + b * 3).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 3.0, 3.0]


def test_scatter_kwargs_pads_the_shorter_side():
    args, kwargs = scatter_kwargs((), {"x": ndgrad.arange(4)}, ["cpu", "cpu"])
    assert args == ((), ())
    assert [part["x"].tolist() for part in kwargs] == [[0, 1], [2, 3]]


def test_gather_of_numbers_is_a_vector():
    assert gather([ndgrad.tensor(1.0), ndgrad.tensor(2.0)], "cpu").tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"a": ndgrad.ones(1)}, {}], "cpu")


def test_record_writes_an_error_and_raises_it(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @record
    def fail():
        raise KeyError("lost")

    with pytest.raises(KeyError):
        fail()
    assert "lost" in json.loads(path.read_text())["message"]["message"]


def test_no_tensor_is_fake():
    from ndgrad._subclasses.fake_tensor import FakeTensor, is_fake

    assert not is_fake(ndgrad.ones(1))
    with pytest.raises(RuntimeError, match="device='meta'"):
        FakeTensor()
