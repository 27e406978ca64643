"""Collectives through torch and ndgrad in a world of one rank, where both give what they are given; on several ranks the oracle is NumPy
(tests/distributed)."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's, of names that it renames


@pytest.fixture(params=["torch", "ndgrad"])
def world(request):
    """A library, and its group of one process."""
    if request.param == "torch":
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        library = torch
    else:
        ndgrad.distributed.init_process_group("gloo")
        library = ndgrad
    yield library
    library.distributed.destroy_process_group()


def test_collectives_of_one_rank(world):
    d = world.distributed
    x = world.tensor([1.0, 2.0])
    assert d.all_reduce(x) is None
    outs = [world.zeros(2)]
    d.all_gather(outs, x)
    piece, joined = world.zeros(2), world.zeros(2)
    d.reduce_scatter_tensor(piece, x)
    d.all_to_all_single(joined, x)
    d.broadcast(x, 0)
    d.reduce(x, 0)
    scattered = world.zeros(2)
    d.scatter(scattered, [x], src=0)
    d.gather(x, outs, dst=0)
    objects = [None]
    d.all_gather_object(objects, {"a": 1})
    work = d.all_reduce(x, async_op=True)
    assert work.wait() is True
    assert work.is_completed()
    d.barrier()
    found = [t.tolist() for t in (x, *outs, piece, joined, scattered)]
    assert found == [[1.0, 2.0]] * 5
    assert objects == [{"a": 1}]
    assert (d.get_rank(), d.get_world_size(), d.is_initialized()) == (0, 1, True)
    assert d.get_process_group_ranks(d.group.WORLD) == [0]
    assert d.new_group([0]).size() == 1


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (TypeError, lambda d, m: d.all_reduce([1.0])),
        (ValueError, lambda d, m: d.broadcast(m.ones(1))),
        (ValueError, lambda d, m: d.all_reduce(m.ones(2, dtype=m.complex64), op=d.ReduceOp.MAX)),
        (RuntimeError, lambda d, m: d.all_gather([m.ones(2), m.ones(2)], m.ones(2))),
        (ValueError, lambda d, m: d.send(m.ones(1), 0)),
        (ValueError, lambda d, m: d.init_process_group()),
    ],
)
def test_what_is_refused(world, kind, call):
    with pytest.raises(kind):
        call(world.distributed, world)


def test_without_a_group():
    for m in (torch, ndgrad):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            m.distributed.get_rank()


def test_differentiable_collectives_of_one_rank(world):
    functional = import_module(f"{world.__name__}.distributed.nn.functional")
    x = world.tensor([1.0, 2.0], requires_grad=True)
    y = functional.all_reduce(x) * functional.broadcast(x, 0) + functional.all_gather(x)[0] + functional.reduce(x, 0)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [4.0, 6.0])


def test_a_collective_that_writes_is_a_write_in_the_graph():
    """torch's leaves the graph as it was."""
    assert deliberate("collectives-record")
    ndgrad.distributed.init_process_group()
    try:
        x = ndgrad.ones(2, requires_grad=True)
        ndgrad.distributed.all_reduce(x)
        assert x.is_leaf
        y = x * 2
        ndgrad.distributed.all_reduce(y)
        assert y.grad_fn.name() == "AllReduceBackward0"
    finally:
        ndgrad.distributed.destroy_process_group()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        y = torch.ones(2, requires_grad=True) * 2
        torch.distributed.all_reduce(y)
        assert y.grad_fn.name() == "MulBackward0"
    finally:
        torch.distributed.destroy_process_group()
