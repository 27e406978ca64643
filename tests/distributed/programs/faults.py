"""Ranks that do not do the same: a clear error on every one of them, and no wait past a bound."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from tests.distributed.on_ranks import close, everybody, mine, on_ranks

import ndgrad
import ndgrad.distributed as dist


@on_ranks(2, 3)
def other_shapes_dtypes_and_orders_are_told_to_everybody():
    rank = dist.get_rank()
    last = dist.get_world_size() - 1
    apart = dist.new_group()
    told = rf"rank 0: all_reduce\(float32\[3\], SUM\).*rank {last}: all_reduce\(float32\[{3 + last}\]"
    with pytest.raises(dist.DistBackendError, match=told):
        dist.all_reduce(ndgrad.ones(3 + rank), group=apart)
    apart = dist.new_group()
    told = rf"rank 0: all_reduce\(float32\[4\], SUM\).*rank {last}: all_reduce\(int32\[4\], SUM\)"
    with pytest.raises(dist.DistBackendError, match=told):
        dist.all_reduce(ndgrad.ones(4, dtype=ndgrad.int32 if rank == last else ndgrad.float32), group=apart)
    apart = dist.new_group()
    call = dist.barrier if rank == last else lambda group: dist.broadcast(ndgrad.ones(4), src=0, group=group)
    with pytest.raises(dist.DistBackendError, match=rf"rank 0: broadcast\(float32\[4\], 0\).*rank {last}: barrier\(\)"):
        call(group=apart)
    apart = dist.new_group()
    with pytest.raises(dist.DistBackendError, match="MAX"):
        dist.all_reduce(ndgrad.ones(2), op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM, group=apart)
    # other groups are as before
    x = mine(2)
    dist.all_reduce(x)
    close(x, everybody(2).sum(0))


@on_ranks(2)
def another_message_than_was_waited_for_is_told():
    if dist.get_rank() == 0:
        dist.send(ndgrad.ones(3), 1, tag=1)
        dist.send(ndgrad.ones(4, dtype=ndgrad.int32), 1, tag=2)
    else:
        with pytest.raises(RuntimeError, match=r"rank 0 sent float32\[3\], and the tensor to receive into is float32\[2\]"):
            dist.recv(ndgrad.empty(2), 0, tag=1)
        with pytest.raises(RuntimeError, match=r"rank 0 sent int32\[4\], and the tensor to receive into is float32\[4\]"):
            dist.recv(ndgrad.empty(4), 0, tag=2)


@on_ranks(2, 3)
def a_rank_that_comes_late_but_in_time_is_waited_for():
    if dist.get_rank() == 0:
        time.sleep(0.3)
    x = mine(2)
    dist.all_reduce(x)
    close(x, everybody(2).sum(0))


@on_ranks(2)
def a_hook_that_fails_on_one_rank_ends_the_waits_of_the_others():
    """The wait ends by the group's timeout here, since the rank that failed goes on; a rank that ends is told at once
    (test_launch)."""
    group = dist.new_group(timeout=timedelta(seconds=0.5))
    x = mine(3, requires_grad=True)
    y = dist.nn.functional.all_reduce(x * 1, group=group)

    def hook(g):
        if dist.get_rank() == 1:
            raise ArithmeticError("a hook that fails")

    y.register_hook(hook)
    wanted = dist.DistBackendError if dist.get_rank() == 0 else ArithmeticError
    told = "all_reduce.*rank 1 did not come" if dist.get_rank() == 0 else "a hook that fails"
    with pytest.raises(wanted, match=told):
        y.sum().backward()
    assert x.grad is None
    dist.barrier()


@on_ranks(2, 3)
def disagreement_of_what_is_waited_for_later():
    """The same for collectives that are waited for afterwards, and for every kind of them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    last = size - 1
    calls = {
        "all_gather": lambda g, n: dist.all_gather([ndgrad.empty(n) for _ in range(size)], ndgrad.ones(n), group=g, async_op=True),
        "reduce_scatter": lambda g, n: dist.reduce_scatter_tensor(ndgrad.empty(n), ndgrad.ones(n * size), group=g, async_op=True),
        "all_reduce": lambda g, n: dist.all_reduce(ndgrad.ones(n), group=g, async_op=True),
        "broadcast": lambda g, n: dist.broadcast(ndgrad.ones(n), 0, group=g, async_op=True),
    }
    for name, call in calls.items():
        apart = dist.new_group()
        work = call(apart, 5 if rank == last else 4)
        with pytest.raises(dist.DistBackendError, match=rf"rank 0: {name}.*rank {last}: {name}"):
            work.wait()
        assert isinstance(work.exception(), dist.DistBackendError)


@on_ranks(3)
def who_does_not_come_is_named():
    slow = dist.new_group(timeout=timedelta(seconds=0.5))
    begun = time.monotonic()
    if dist.get_rank() != 1:
        with pytest.raises(dist.DistBackendError, match="rank 1 did not come"):
            dist.all_reduce(ndgrad.ones(2), group=slow)
        assert time.monotonic() - begun < 10
    dist.barrier()
