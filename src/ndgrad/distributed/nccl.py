"""NCCL, through CuPy: collectives on arrays in GPU memory.

The ranks find each other and agree through MPI, as for host arrays. A call goes to the GPU only when every rank is
known to have made the same call, since kernels that wait for missing partners cannot be stopped. The call is queued on
the current stream of the array's device, so later work on the stream follows it, and the host does not wait. Each rank
uses one GPU.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad.distributed.agreement import Call, Pending
from ndgrad.distributed.errors import DistBackendError
from ndgrad.distributed.reductions import ReduceOp, check_reducible

if TYPE_CHECKING:
    from ndgrad._typing import Payload
    from ndgrad.distributed.groups import ProcessGroup

_OPERATIONS = {"SUM": "NCCL_SUM", "AVG": "NCCL_SUM", "PRODUCT": "NCCL_PROD", "MIN": "NCCL_MIN", "MAX": "NCCL_MAX"}
#: Reductions of bools, as bytes: a nonzero sum is True.
_OF_BOOLS = {"SUM": "NCCL_MAX", "PRODUCT": "NCCL_MIN", "MIN": "NCCL_MIN", "MAX": "NCCL_MAX", "BAND": "NCCL_MIN",
             "BOR": "NCCL_MAX"}  # fmt: skip
#: Dtypes that NCCL reduces: NCCL's name of each, and the number of NCCL elements per array element.
_TYPES = {
    "bool": ("NCCL_UINT8", 1), "int8": ("NCCL_INT8", 1), "uint8": ("NCCL_UINT8", 1), "int32": ("NCCL_INT32", 1),
    "uint32": ("NCCL_UINT32", 1), "int64": ("NCCL_INT64", 1), "uint64": ("NCCL_UINT64", 1),
    "float16": ("NCCL_FLOAT16", 1), "bfloat16": ("NCCL_BFLOAT16", 1), "float32": ("NCCL_FLOAT32", 1),
    "float64": ("NCCL_FLOAT64", 1), "complex64": ("NCCL_FLOAT32", 2), "complex128": ("NCCL_FLOAT64", 2),
}  # fmt: skip


def available() -> bool:
    """True if CuPy is installed and was built with NCCL."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return False
    try:
        return bool(_library().available)
    except ImportError:
        return False


def _library() -> Any:
    from cupy.cuda import nccl  # optional library

    return nccl


def carries(array: Any) -> bool:
    """True if messages of this array go through NCCL: it lies on a GPU."""
    return array.__class__ is not np.ndarray and is_on_device(array) and available()


# ----- communicators --------------------------------------------------------------------------------------------------

_communicators: dict[ProcessGroup, Any] = {}


def _communicator(group: ProcessGroup) -> Any:
    """Return the group's NCCL communicator, created on first use. The first rank sends its id to the others through
    MPI.
    """
    found = _communicators.get(group)
    if found is None:
        from ndgrad.distributed import transport  # avoids an import cycle

        library = _library()
        own = library.get_unique_id()  # bytes, or a tuple of numbers in older CuPy
        given = np.array(list(own), np.int64)
        transport.broadcast(group, given, 0).wait()
        try:
            found = library.NcclCommunicator(group.size(), type(own)(int(n) for n in given), group.rank())
        except Exception as error:
            raise DistBackendError(
                f"NCCL could not connect the {group.size()} ranks of {group.name} (rank {group.rank()}: {error}). "
                "Every rank needs a GPU of its own: cuda.set_device(get_node_local_rank()). [nd-process-group]"
            ) from error
        _communicators[group] = found
    return found


def forget(group: ProcessGroup) -> None:
    """Forget a group that has ended."""
    found = _communicators.pop(group, None)
    if found is not None:
        found.destroy()


def _agree(group: ProcessGroup, call: Call) -> Any:
    """Return the communicator after all ranks are known to have made this call."""
    if group.comm is not None:
        Pending(group, call, (), None, ()).wait()
    return _communicator(group)


def _call(name: str, array: Payload, *settings: Any) -> Call:
    return Call(name, array.shape, array.dtype.char, *settings)


def _stream() -> int:
    import cupy  # optional library

    return int(cupy.cuda.get_current_stream().ptr)


@functools.cache
def _number_of(name: str) -> int:
    return int(getattr(_library(), name))


def _pointer(array: Payload, elements: int = 0) -> int:
    return int(array.data.ptr) + elements * array.dtype.itemsize


def _reducible(name: str, array: Payload, op: ReduceOp) -> tuple[int, int, int]:
    """Return NCCL's count, type and operation for an array."""
    check_reducible(name, array, op)
    kind = _TYPES.get(array.dtype.name)
    operation = (_OF_BOOLS if array.dtype.kind == "b" else _OPERATIONS).get(op.name)
    if kind is None or operation is None:
        raise NotImplementedError(
            f"{name}: NCCL has no {op.name} of {array.dtype.name} (shape {tuple(array.shape)}). Bring the tensor to "
            "the host with .cpu(), where MPI has it. [nd-dtype]"
        )
    return array.size * kind[1], _number_of(kind[0]), _number_of(operation)


def _contiguous(array: Payload) -> tuple[Payload, bool]:
    """Return an array as one block, and True if that is a copy."""
    if array.flags.c_contiguous:
        return array, False
    import cupy  # optional library

    return cupy.ascontiguousarray(array), True


def _finish(group: ProcessGroup, call: Call, array: Payload, block: Payload, copied: bool, op: Any = None) -> Pending:
    if op is ReduceOp.AVG:
        block /= group.size()
    if copied:
        array[...] = block
    return Pending.make_finished(group, call)


# ----- collectives ----------------------------------------------------------------------------------------------------


def all_reduce(group: ProcessGroup, array: Payload, op: ReduceOp) -> Pending:
    """Reduce `array` over the ranks, in place."""
    count, kind, operation = _reducible("all_reduce", array, op)
    call = _call("all_reduce", array, op.name, "NCCL")
    comm = _agree(group, call)
    block, copied = _contiguous(array)
    comm.allReduce(_pointer(block), _pointer(block), count, kind, operation, _stream())
    return _finish(group, call, array, block, copied, op)


def broadcast(group: ProcessGroup, array: Payload, root: int) -> Pending:
    """Copy `array` from the rank `root` to all ranks."""
    call = _call("broadcast", array, root, "NCCL")
    comm = _agree(group, call)
    block, copied = _contiguous(array)
    comm.broadcast(_pointer(block), _pointer(block), block.nbytes, _number_of("NCCL_INT8"), root, _stream())
    return _finish(group, call, array, block, copied)


def reduce(group: ProcessGroup, array: Payload, root: int, op: ReduceOp) -> Pending:
    """Reduce `array` over the ranks, in place on the rank `root`."""
    count, kind, operation = _reducible("reduce", array, op)
    call = _call("reduce", array, root, f"{op.name} NCCL")
    comm = _agree(group, call)
    here = group.rank() == root
    block, copied = _contiguous(array)
    target = block if here else block.copy()  # not written, but NCCL requires memory
    comm.reduce(_pointer(block), _pointer(target), count, kind, operation, root, _stream())
    return _finish(group, call, array, block, copied and here, op if here else None)


def all_gather(group: ProcessGroup, out: Payload, array: Payload, counts: Sequence[int] | None = None) -> Pending:
    """Gather the arrays of all ranks into the contiguous `out`, in pieces of `counts` elements or of equal size."""
    call = Call("all_gather", array.shape if counts is None else tuple(counts), array.dtype.char, "NCCL")
    comm = _agree(group, call)
    block, _ = _contiguous(array)
    kind, stream = _number_of("NCCL_INT8"), _stream()
    if counts is None:
        comm.allGather(_pointer(block), _pointer(out), block.nbytes, kind, stream)
        return Pending.make_finished(group, call)
    with _together():
        at = 0
        for rank, n in enumerate(counts):
            nbytes = n * out.dtype.itemsize
            source = _pointer(block) if rank == group.rank() else _pointer(out, at)
            comm.broadcast(source, _pointer(out, at), nbytes, kind, rank, stream)
            at += n
    return Pending.make_finished(group, call)


def reduce_scatter(
    group: ProcessGroup, out: Payload, array: Payload, op: ReduceOp, counts: Sequence[int] | None = None
) -> Pending:
    """Write this rank's piece of the reduction to the contiguous `out`."""
    _, kind, operation = _reducible("reduce_scatter", array, op)
    each = _TYPES[array.dtype.name][1]
    call = Call(
        "reduce_scatter", array.shape if counts is None else tuple(counts), array.dtype.char, op.name, "NCCL"
    )  # fmt: skip
    comm = _agree(group, call)
    block, _ = _contiguous(array)
    stream = _stream()
    if counts is None:
        comm.reduceScatter(_pointer(block), _pointer(out), out.size * each, kind, operation, stream)
    else:
        with _together():
            at = 0
            for rank, n in enumerate(counts):
                comm.reduce(_pointer(block, at), _pointer(out), n * each, kind, operation, rank, stream)
                at += n
    return _finish(group, call, out, out, False, op)


def all_to_all(
    group: ProcessGroup, out: Payload, array: Payload, out_counts: Sequence[int] | None, counts: Sequence[int] | None
) -> Pending:
    """Send the k-th piece of `array` to rank k, and write the received pieces to `out`."""
    even = counts is None or out_counts is None
    call = Call("all_to_all", array.shape if even else (), array.dtype.char, "NCCL")
    comm = _agree(group, call)
    p = group.size()
    block, _ = _contiguous(array)
    sent = [block.size // p] * p if counts is None or out_counts is None else list(counts)
    received = [out.size // p] * p if counts is None or out_counts is None else list(out_counts)
    kind, stream, itemsize = _number_of("NCCL_INT8"), _stream(), block.dtype.itemsize
    with _together():
        there = here = 0
        for rank in range(p):
            comm.send(_pointer(block, there), sent[rank] * itemsize, kind, rank, stream)
            comm.recv(_pointer(out, here), received[rank] * itemsize, kind, rank, stream)
            there, here = there + sent[rank], here + received[rank]
    return Pending.make_finished(group, call)


def send(group: ProcessGroup, array: Payload, peer: int) -> Pending:
    """Send an array to a rank. Only the two ranks communicate, without agreement: shapes must be the same on both."""
    block, _ = _contiguous(array)
    _communicator(group).send(_pointer(block), block.nbytes, _number_of("NCCL_INT8"), peer, _stream())
    return Pending.make_finished(group, _call("send", array, peer))


def receive(group: ProcessGroup, array: Payload, peer: int) -> Pending:
    """Receive an array from a rank."""
    block, copied = _contiguous(array)
    _communicator(group).recv(_pointer(block), block.nbytes, _number_of("NCCL_INT8"), peer, _stream())
    return _finish(group, _call("recv", array, peer), array, block, copied)


class _together:
    """Combine messages into one NCCL group."""

    def __enter__(self) -> None:
        _library().groupStart()

    def __exit__(self, *error: object) -> None:
        _library().groupEnd()
