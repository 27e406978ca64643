"""NCCL's road, over stand-ins for CuPy and for NCCL: the calls, their agreement and their derivatives are ours, the rest is not."""

from __future__ import annotations

import ctypes
import types

import numpy as np
import pytest
from tests.distributed.on_ranks import close, everybody, on_ranks, values

import ndgrad
import ndgrad.distributed as dist


class _Communicator:
    """NCCL's communicator over MPI, on addresses of the host. As in NCCL, messages of a group are matched when it ends."""

    under_way: list | None = None

    def __init__(self, count, identity, rank):
        from mpi4py import MPI

        assert identity == bytes([77] * 128)  # the first rank's
        self.comm = MPI.COMM_WORLD.Dup() if count == MPI.COMM_WORLD.size else MPI.COMM_SELF.Dup()
        assert (self.comm.size, self.comm.rank) == (count, rank)
        self.destroy = self.comm.Free

    @staticmethod
    def view_memory(address, count, kind):
        dtype = np.dtype(kind_names[kind])
        return np.frombuffer((ctypes.c_byte * (count * dtype.itemsize)).from_address(address), dtype)

    def _reduce(self, source, count, kind, op):
        return UFUNCS[op].reduce(self.comm.allgather(self.view_memory(source, count, kind)))

    def allReduce(self, source, target, count, kind, op, stream):
        self.view_memory(target, count, kind)[...] = self._reduce(source, count, kind, op)

    def reduce(self, source, target, count, kind, op, root, stream):
        found = self._reduce(source, count, kind, op)
        if self.comm.rank == root:
            self.view_memory(target, count, kind)[...] = found

    def broadcast(self, source, target, count, kind, root, stream):
        self.view_memory(target, count, kind)[...] = self.comm.bcast(self.view_memory(source, count, kind), root=root)

    def allGather(self, source, target, count, kind, stream):
        found = np.concatenate(self.comm.allgather(self.view_memory(source, count, kind)))
        self.view_memory(target, found.size, kind)[...] = found

    def reduceScatter(self, source, target, count, kind, op, stream):
        whole = self._reduce(source, count * self.comm.size, kind, op)
        self.view_memory(target, count, kind)[...] = whole[self.comm.rank * count : (self.comm.rank + 1) * count]

    def send(self, source, count, kind, peer, stream):
        request = self.comm.isend(self.view_memory(source, count, kind).copy(), peer)
        self._later(lambda: request.wait())

    def recv(self, target, count, kind, peer, stream):
        def take():
            self.view_memory(target, count, kind)[...] = self.comm.recv(source=peer)

        self._later(take)

    def _later(self, act):
        if _Communicator.under_way is None:
            act()
        else:
            _Communicator.under_way.append(act)


def _group_end():
    acts, _Communicator.under_way = _Communicator.under_way, None
    for act in acts:
        act()


kind_names = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


UFUNCS = [np.add, np.multiply, np.maximum, np.minimum]


def _stand_ins():
    import sys

    from tests.gpu import stand_in

    if "cupy" not in sys.modules:
        stand_in.install()
    cupy = sys.modules["cupy"]
    nccl = types.ModuleType("cupy.cuda.nccl")
    nccl.available = True
    nccl.get_unique_id = lambda: bytes([77 + dist.get_rank()] * 128)
    nccl.NcclCommunicator = _Communicator
    nccl.groupStart = lambda: setattr(_Communicator, "under_way", [])
    nccl.groupEnd = _group_end
    for number, name in enumerate(("SUM", "PROD", "MAX", "MIN")):
        setattr(nccl, f"NCCL_{name}", number)
    for number, name in enumerate(kind_names):
        setattr(nccl, f"NCCL_{name.upper()}", number)
    cuda = types.ModuleType("cupy.cuda")
    vars(cuda).update(vars(cupy.cuda))
    cuda.nccl = nccl
    cupy.cuda = cuda
    sys.modules["cupy.cuda"], sys.modules["cupy.cuda.nccl"] = cuda, nccl


def _mine(*shape, dtype=None, **options):
    return ndgrad.tensor(values(dist.get_rank(), *shape), device="cuda", dtype=dtype, **options)


@on_ranks(1, 2, 3)
def tensors_on_gpus_go_through_nccl():
    _stand_ins()
    assert dist.is_nccl_available()
    rank, size = dist.get_rank(), dist.get_world_size()
    every = everybody(2 * size, 3)
    for op, want in ((dist.ReduceOp.SUM, every.sum(0)), (dist.ReduceOp.AVG, every.mean(0)), (dist.ReduceOp.MAX, every.max(0))):
        x = _mine(2 * size, 3)
        dist.all_reduce(x, op)
        assert x.device.type == "cuda"
        close(x.cpu(), want)
    x = _mine(2 * size, 3).T
    dist.all_reduce(x)  # its memory is no block
    close(x.cpu(), every.sum(0).T)
    x = _mine(2, 3)
    dist.broadcast(x, size - 1)
    close(x.cpu(), values(size - 1, 2, 3))
    out = ndgrad.empty(size * 2, 3, device="cuda", dtype=ndgrad.float64)
    dist.all_gather_into_tensor(out, _mine(2, 3))
    close(out.cpu(), np.concatenate(list(everybody(2, 3))))
    out = ndgrad.empty(2, 3, device="cuda", dtype=ndgrad.float64)
    dist.reduce_scatter_tensor(out, _mine(2 * size, 3))
    close(out.cpu(), every.sum(0)[2 * rank : 2 * rank + 2])
    out = ndgrad.empty(2 * size, 3, device="cuda", dtype=ndgrad.float64)
    dist.all_to_all_single(out, _mine(2 * size, 3))
    close(out.cpu(), every.reshape(size, size, 2, 3)[:, rank].reshape(-1, 3))
    x = _mine(2, 3)
    dist.reduce(x, 0)
    close(x.cpu(), everybody(2, 3).sum(0) if rank == 0 else values(rank, 2, 3))
    flags = ndgrad.tensor([rank == 0, True, False], device="cuda")
    dist.all_reduce(flags)
    assert flags.cpu().tolist() == [True, True, False]


@on_ranks(2)
def differentiable_collectives_on_gpus():
    _stand_ins()
    size = dist.get_world_size()
    for name, run in {
        "all_reduce": lambda x: dist.nn.functional.all_reduce(x),
        "all_gather": lambda x: ndgrad.stack(dist.nn.functional.all_gather(x)),
        "all_to_all": lambda x: dist.nn.functional.all_to_all_single(ndgrad.empty_like(x), x),
    }.items():
        there, here = _mine(2 * size, 3, requires_grad=True), ndgrad.tensor(values(dist.get_rank(), 2 * size, 3), requires_grad=True)
        (run(there) ** 2).sum().backward()
        (run(here) ** 2).sum().backward()
        assert there.grad.device.type == "cuda"
        close(there.grad.cpu(), here.grad.numpy()), name


@on_ranks(2)
def ranks_agree_before_anything_goes_to_a_gpu():
    _stand_ins()
    rank = dist.get_rank()
    with pytest.raises(dist.DistBackendError, match=r"rank 0: all_reduce\(float64\[2\], SUM, NCCL\).*rank 1: all_reduce\(float64\[3\]"):
        dist.all_reduce(_mine(2 + rank))
    apart = dist.new_group()
    with pytest.raises(dist.DistBackendError, match=r"NCCL\); rank 1: all_reduce\(float64\[2\], SUM\)"):
        dist.all_reduce(_mine(2) if rank == 0 else _mine(2).cpu(), group=apart)
    with pytest.raises(NotImplementedError, match=r"NCCL has no BXOR of int64.*\.cpu\(\)"):
        dist.all_reduce(ndgrad.ones(2, dtype=ndgrad.int64, device="cuda"), dist.ReduceOp.BXOR)
    with pytest.raises(NotImplementedError, match=r"gather: messages go through the memory of the host"):
        dist.gather(_mine(2), [_mine(2), _mine(2)] if rank == 0 else None, dst=0)
