"""Collectives on tensors, compared with NumPy on the values of all ranks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, everybody, mine, on_ranks, values

import ndgrad
import ndgrad.distributed as dist

REDUCTIONS = {"SUM": np.sum, "AVG": np.mean, "PRODUCT": np.prod, "MIN": np.min, "MAX": np.max}


@on_ranks(1, 2, 3, 4)
def all_reduce_is_the_reduction_of_everybodys_values():
    for name, reduction in REDUCTIONS.items():
        x = mine(3, 2)
        assert dist.all_reduce(x, op=getattr(dist.ReduceOp, name)) is None
        close(x, reduction(everybody(3, 2), axis=0))


@on_ranks(2, 3)
def all_reduce_of_every_dtype():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (ndgrad.float32, ndgrad.float16, ndgrad.bfloat16, ndgrad.int8, ndgrad.uint8, ndgrad.int32, ndgrad.int64):
        x = ndgrad.tensor([rank + 1, 2, 3 * rank]).to(dtype)
        dist.all_reduce(x)
        assert x.dtype is dtype
        assert x.tolist() == [sum(range(size + 1)), 2 * size, 3 * sum(range(size))]
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        assert x.tolist() == [sum(range(size + 1)), 2 * size, 3 * sum(range(size))]
    z = ndgrad.tensor([1 + 1j * rank], dtype=ndgrad.complex64)
    dist.all_reduce(z)
    assert z.item() == complex(size, sum(range(size)))
    b = ndgrad.tensor([rank == 0, True, False])
    dist.all_reduce(b, op=dist.ReduceOp.MIN)
    assert b.tolist() == [False, True, False]
    b = ndgrad.tensor([rank == 0, True, False])
    dist.all_reduce(b)
    assert b.tolist() == [True, True, False]
    bits = ndgrad.tensor([1 << rank], dtype=ndgrad.int32)
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    assert bits.item() == 2**size - 1


@on_ranks(2)
def bfloat16_travels_as_it_is():
    x = ndgrad.tensor(values(dist.get_rank(), 5)).to(ndgrad.bfloat16)
    want = [ndgrad.tensor(values(r, 5)).to(ndgrad.bfloat16).float().tolist() for r in range(2)]
    out = [ndgrad.empty(5, dtype=ndgrad.bfloat16) for _ in range(2)]
    dist.all_gather(out, x)
    assert [o.float().tolist() for o in out] == want
    dist.broadcast(x, src=1)
    assert x.float().tolist() == want[1]


@on_ranks(2)
def what_has_no_meaning_is_refused_before_anything_is_sent():
    z = ndgrad.ones(2, dtype=ndgrad.complex64)
    with pytest.raises(ValueError, match="does not support ReduceOp.MAX on complex"):
        dist.all_reduce(z, op=dist.ReduceOp.MAX)
    with pytest.raises(RuntimeError, match="average of int32 is not int32"):
        dist.all_reduce(ndgrad.ones(2, dtype=ndgrad.int32), op=dist.ReduceOp.AVG)
    with pytest.raises(ValueError, match="for integers and bools"):
        dist.all_reduce(ndgrad.ones(2), op=dist.ReduceOp.BOR)
    with pytest.raises(TypeError, match="to be a tensor but got"):
        dist.all_reduce([1.0])
    with pytest.raises(ValueError, match="Must specify global_rank or group_rank"):
        dist.broadcast(ndgrad.ones(1))
    with pytest.raises(ValueError, match="the ranks of group"):
        dist.broadcast(ndgrad.ones(1), src=5)
    with pytest.raises(RuntimeError, match="has 1 tensors, and the group 2"):
        dist.all_gather([ndgrad.ones(1)], ndgrad.ones(1))
    with pytest.raises(RuntimeError, match=r"must be ndgrad.float32 \(4,\) or \(2, 2\)"):
        dist.all_gather_into_tensor(ndgrad.ones(5), ndgrad.ones(2))
    with pytest.raises(RuntimeError, match="does not divide equally"):
        dist.all_to_all_single(ndgrad.ones(3), ndgrad.ones(3))
    with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
        dist.send(ndgrad.ones(1), dist.get_rank())
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        dist.all_reduce(ndgrad.ones(2, requires_grad=True)[:1])
    dist.barrier()


@on_ranks(1, 2, 3)
def memory_that_is_not_one_block_is_written_all_the_same():
    whole = mine(4, 6)
    part = whole[::2, 1::3]
    dist.all_reduce(part)
    expected = values(dist.get_rank(), 4, 6)
    expected[::2, 1::3] = everybody(4, 6).sum(0)[::2, 1::3]
    close(whole, expected)
    t = mine(2, 3).T
    dist.broadcast(t, src=dist.get_world_size() - 1)
    close(t, values(dist.get_world_size() - 1, 2, 3).T)


@on_ranks(2)
def contiguous_memory_is_not_copied():
    x = mine(4)
    before = x.numpy()
    dist.all_reduce(x)
    close(before, everybody(4).sum(0))  # the array that was there holds the result
    out = ndgrad.empty(8, dtype=ndgrad.float64)
    seen = out.numpy()
    dist.all_gather_into_tensor(out, mine(4))
    close(seen, everybody(4).reshape(-1))


@on_ranks(1, 2, 4)
def gathering_and_scattering():
    rank, size = dist.get_rank(), dist.get_world_size()
    all_values = everybody(3)
    outs = [ndgrad.empty(3, dtype=ndgrad.float64) for _ in range(size)]
    dist.all_gather(outs, mine(3))
    close(ndgrad.stack(outs), all_values)
    stacked = ndgrad.empty(size, 3, dtype=ndgrad.float64)
    dist.all_gather_into_tensor(stacked, mine(3))
    close(stacked, all_values)
    piece = ndgrad.empty(2, dtype=ndgrad.float64)
    dist.reduce_scatter_tensor(piece, mine(2 * size))
    close(piece, everybody(2 * size).sum(0)[2 * rank : 2 * rank + 2])
    dist.reduce_scatter(piece, list(mine(size, 2).unbind(0)), op=dist.ReduceOp.AVG)
    close(piece, everybody(size, 2).mean(0)[rank])
    x = mine(3)
    dist.reduce(x, dst=size - 1)
    close(x, all_values.sum(0) if rank == size - 1 else all_values[rank])
    dist.gather(mine(3), outs if rank == 0 else None, dst=0)
    if rank == 0:
        close(ndgrad.stack(outs), all_values)
    y = ndgrad.empty(3, dtype=ndgrad.float64)
    dist.scatter(y, list(ndgrad.tensor(values(7, size, 3)).unbind(0)) if rank == size - 1 else None, src=size - 1)
    close(y, values(7, size, 3)[rank])


@on_ranks(1, 2, 3)
def all_to_all_with_and_without_sizes():
    rank, size = dist.get_rank(), dist.get_world_size()
    out = ndgrad.empty(size, 2, dtype=ndgrad.float64)
    dist.all_to_all_single(out, mine(size, 2))
    close(out, everybody(size, 2)[:, rank])
    # rank r sends r + k + 1 rows to rank k
    sent, received = [rank + k + 1 for k in range(size)], [rank + k + 1 for k in range(size)]
    x = mine(sum(sent), 2)
    out = ndgrad.empty(sum(received), 2, dtype=ndgrad.float64)
    dist.all_to_all_single(out, x, received, sent)
    starts = [sum(r + k + 1 for k in range(rank)) for r in range(size)]
    rows = [values(r, sum(r + k + 1 for k in range(size)), 2)[starts[r] : starts[r] + r + rank + 1] for r in range(size)]
    close(out, np.concatenate(rows))
    outs = [ndgrad.empty(r + 1, dtype=ndgrad.float64) for r in range(size)]
    dist.all_to_all(outs, [mine(rank + 1, seed=k) for k in range(size)])
    for r in range(size):
        close(outs[r], values(r, r + 1, seed=rank))


@on_ranks(2, 3)
def messages_between_two():
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        for k in range(1, size):
            dist.send(mine(3, seed=k), k, tag=k)
        got = set()
        for _ in range(1, size):
            x = ndgrad.empty(2, dtype=ndgrad.float64)
            source = dist.recv(x)
            close(x, values(source, 2))
            got.add(source)
        assert got == set(range(1, size))
    else:
        x = ndgrad.empty(3, dtype=ndgrad.float64)
        assert dist.recv(x, 0, tag=rank) == 0
        close(x, values(0, 3, seed=rank))
        dist.send(mine(2), 0)
    dist.barrier()  # keeps later messages from a receive from any source
    after, before = (rank + 1) % size, (rank - 1) % size
    a, b = mine(4), ndgrad.empty(4, dtype=ndgrad.float64)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, a, after), dist.P2POp(dist.irecv, b, before)])
    for work in works:
        work.wait()
    close(b, values(before, 4))


@on_ranks(1, 2, 4)
def objects():
    rank, size = dist.get_rank(), dist.get_world_size()
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found == [{"rank": r, "text": "x" * r} for r in range(size)]
    told = [rank, "a"]
    dist.broadcast_object_list(told, src=size - 1)
    assert told == [size - 1, "a"]
    got = [None]
    dist.scatter_object_list(got, [("to", r) for r in range(size)] if rank == 0 else None, src=0)
    assert got == [("to", rank)]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * "y", gathered, dst=0)
    assert gathered == ([r * "y" for r in range(size)] if rank == 0 else None)
    if size > 1 and rank < 2:
        if rank == 0:
            dist.send_object_list([1, {2: 3}], dst=1)
        else:
            places = [None, None]
            assert dist.recv_object_list(places, src=0) == 0
            assert places == [1, {2: 3}]


@on_ranks(1, 2)
def asynchronous_work_is_done_when_it_was_waited_for():
    a, b = mine(3), mine(1000, seed=1)
    first, second = dist.all_reduce(a, async_op=True), dist.all_reduce(b, async_op=True)
    assert second.wait() is True
    assert first.wait() is True
    assert first.is_completed()
    assert first.exception() is None
    close(a, everybody(3).sum(0))
    close(b, everybody(1000, seed=1).sum(0))
    assert first.result()[0] is a
    outs = [ndgrad.empty(2, dtype=ndgrad.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(outs, mine(2), async_op=True).wait()
    close(ndgrad.stack(outs), everybody(2))


@on_ranks(3, 4)
def groups_of_some_ranks():
    rank, size = dist.get_rank(), dist.get_world_size()
    even = dist.new_group(range(0, size, 2))
    odd = dist.new_group(range(1, size, 2))
    own = odd if rank % 2 else even
    members = list(range(rank % 2, size, 2))
    assert dist.get_process_group_ranks(own) == members
    assert dist.get_rank(own) == members.index(rank)
    assert dist.get_rank(even if rank % 2 else odd) == -1
    x = mine(2)
    dist.all_reduce(x, group=own)
    close(x, everybody(2)[members].sum(0))
    y = mine(2)
    dist.broadcast(y, src=members[-1], group=own)
    close(y, values(members[-1], 2))
    with pytest.warns(UserWarning, match="not in the group"):
        assert dist.all_reduce(x, group=even if rank % 2 else odd) is None


@on_ranks(2)
def a_write_by_a_collective_is_a_write():
    x = mine(3)
    version = x._version
    w = ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    y = w * x  # saves x
    dist.all_reduce(x)
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
