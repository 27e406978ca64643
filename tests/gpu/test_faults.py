"""Indices out of bounds on a GPU: found by the device, told when values come to the host, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim

cupy = pytest.importorskip("cupy")


def test_an_embedding_tells_which_index_and_where():
    table = ndgrad.randn(10, 8, device="cuda")
    index = ndgrad.tensor([[1, 2], [12, 3]], device="cuda")
    with pytest.raises(IndexError, match="embedding.*index 12 is out of bounds for dimension 0 with size 10") as error:
        F.embedding(index, table).cpu()
    if ndgrad._src.arrays.device_kernels.kernels() is not None:
        assert "test_faults.py" in error.value.__notes__[0]
    good = F.embedding(ndgrad.tensor([1, 2], device="cuda"), table)  # later work is right
    np.testing.assert_array_equal(good.cpu().numpy(), table.cpu().numpy()[1:3])


@pytest.mark.parametrize("read", [lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: t.cpu(), lambda t: bool((t > 0).any()),
                                  lambda t: repr(t), lambda t: float(t.sum()), lambda t: ndgrad.cuda.synchronize()])  # fmt: skip
def test_whatever_brings_values_to_the_host_tells(read):
    x = ndgrad.randn(5, device="cuda")
    with pytest.raises(IndexError, match="out of bounds"):
        read(x[ndgrad.tensor([0, 7], device="cuda")])
    read(x[ndgrad.tensor([0, -5], device="cuda")])


def test_targets_and_a_step_that_must_not_happen():
    model = nn.Linear(4, 3).to("cuda")
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    x = ndgrad.randn(6, 4, device="cuda")
    before = [p.detach().clone() for p in model.parameters()]

    def step():
        F.cross_entropy(model(x), ndgrad.tensor([0, 1, 2, 3, 0, 1], device="cuda")).backward()
        optimizer.step()
        ndgrad.cuda.synchronize()

    with pytest.raises(IndexError, match="Target 3 is out of bounds for 3 classes"):
        step()
    for p, b in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().cpu().numpy(), b.cpu().numpy())


@pytest.mark.parametrize("targets", [[0, 2, 1, 1], [0, -100, 1, -100], [-100, -100, -100, -100]])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_targets(targets, reduction):
    scores = np.random.default_rng(0).standard_normal((4, 3))

    def run(device):
        x = ndgrad.tensor(scores, device=device, requires_grad=True)
        loss = F.cross_entropy(x, ndgrad.tensor(targets, device=device), reduction=reduction)
        loss.sum().backward()
        return loss.detach().cpu().numpy(), x.grad.cpu().numpy()

    for got, want in zip(run("cuda"), run("cpu"), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-14)


def test_gather_and_scatter():
    x = ndgrad.randn(4, 3, device="cuda")
    for wrong in (lambda i: x.gather(1, i), lambda i: x.index_select(0, i.reshape(-1)), lambda i: x.scatter(1, i, 1.0)):
        with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
            wrong(ndgrad.tensor([[9]], device="cuda")).cpu()
    np.testing.assert_array_equal((x + 0).cpu().numpy(), x.cpu().numpy())
