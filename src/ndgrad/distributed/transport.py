"""Messages: MPI's collectives on NumPy arrays, as requests to wait for.

Every collective takes the same path, whether its caller waits now or later. It is started without blocking, together
with a small reduction that checks whether all ranks called the same collective (`agreement`). The wait polls both, with
a time limit. A contiguous array is its own message; MPI reads and writes its memory. A group of one rank needs no MPI
at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad.distributed import nccl
from ndgrad.distributed.agreement import Call, Kind, Pending, settle
from ndgrad.distributed.reductions import ReduceOp, as_integers, check_reducible, mpi_operation

if TYPE_CHECKING:
    from ndgrad._typing import Payload
    from ndgrad.distributed.groups import ProcessGroup

#: A pending collective, and its result if that is not the given array.
Started = Pending


@functools.cache
def mpi() -> Any:
    """Return mpi4py's module, whose import starts MPI."""
    from mpi4py import MPI  # optional library that starts MPI: imported only when a group is created

    return MPI


def message(array: Payload) -> Any:
    """Return a contiguous array as mpi4py takes it. Dtypes that NumPy cannot export (bfloat16, float8) are sent as
    integers of their width."""
    dtype = array.dtype
    if dtype.isbuiltin == 1 and dtype.char != "e":  # some float8 have the kind, or the code, of a type of NumPy
        return array
    return as_integers(mpi(), array)


def reducible(array: Payload, op: ReduceOp) -> tuple[Any, Any]:
    """Return a contiguous array as a message that is reduced, and MPI's operation for it."""
    return mpi_operation(mpi(), array, op)


# ----- one array for all ----------------------------------------------------------------------------------------------


def all_reduce(group: ProcessGroup, array: Payload, op: ReduceOp) -> Started:
    """Reduce `array` over the ranks, in place."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.all_reduce(group, array, op)
    check_reducible("all_reduce", array, op)
    call = Call("all_reduce", array.shape, array.dtype.char, op.name)
    if group.size() == 1:
        return Pending.make_finished(group, call)
    buffer, back = _contiguous(array)
    sent, operation = reducible(buffer, op)
    request = group.comm.Iallreduce(mpi().IN_PLACE, sent, op=operation)
    return Pending(group, call, (request,), _then(back, _make_division(buffer, op, group)), (buffer,))


#: Reductions of contiguous arrays that MPI accepts directly, by shape, dtype code and operation.
_kinds: dict[tuple[tuple[int, ...], str, int], Kind | None] = {}


def all_reduce_now(group: ProcessGroup, array: Payload, op: ReduceOp) -> None:
    """Reduce `array` over the ranks in place, and wait."""
    if array.__class__ is not np.ndarray:
        all_reduce(group, array, op).wait()
        return
    key = (array.shape, array.dtype.char, op._value_)
    kind = _kinds.get(key)
    if kind is None and key not in _kinds:
        kind = _kinds[key] = _kind_of_all_reduce(array, op)
    if kind is None or group.comm is None or not array.flags.carray:
        all_reduce(group, array, op).wait()
        return
    settle(group, kind, group.comm.Iallreduce(group.in_place, array, op=kind.operation), array)


def _kind_of_all_reduce(array: Payload, op: ReduceOp) -> Kind | None:
    if op is ReduceOp.AVG or array.dtype.char not in "fdFDlLqQiI":
        return None  # needs work before or after the call
    if len(_kinds) > 4096:
        _kinds.clear()
    check_reducible("all_reduce", array, op)
    _, operation = reducible(array, op)
    return Kind(Call("all_reduce", array.shape, array.dtype.char, op.name), operation)


def broadcast(group: ProcessGroup, array: Payload, root: int) -> Started:
    """Copy `array` from the rank `root` to all ranks, in place."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.broadcast(group, array, root)
    call = Call("broadcast", array.shape, array.dtype.char, root)
    if group.size() == 1:
        return Pending.make_finished(group, call)
    buffer, back = _contiguous(array)
    request = group.comm.Ibcast(message(buffer), root=root)
    return Pending(group, call, (request,), back if group.rank() != root else None, (buffer,))


def reduce(group: ProcessGroup, array: Payload, root: int, op: ReduceOp) -> Started:
    """Reduce `array` over the ranks, in place on the rank `root`; the others keep theirs."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.reduce(group, array, root, op)
    check_reducible("reduce", array, op)
    call = Call("reduce", array.shape, array.dtype.char, root, op.name)
    if group.size() == 1:
        return Pending.make_finished(group, call)
    buffer, back = _contiguous(array)
    sent, operation = reducible(buffer, op)
    if group.rank() == root:
        request = group.comm.Ireduce(mpi().IN_PLACE, sent, op=operation, root=root)
        return Pending(group, call, (request,), _then(back, _make_division(buffer, op, group)), (buffer,))
    request = group.comm.Ireduce(sent, None, op=operation, root=root)
    return Pending(group, call, (request,), None, (buffer,))


# ----- pieces, one after the other in memory --------------------------------------------------------------------------


def all_gather(group: ProcessGroup, out: Payload, array: Payload) -> Started:
    """Gather the arrays of all ranks into the contiguous `out`, one after the other."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.all_gather(group, out, array)
    call = Call("all_gather", array.shape, array.dtype.char)
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = np.ascontiguousarray(array)
    request = group.comm.Iallgather(message(buffer), message(out))
    return Pending(group, call, (request,), None, (buffer, out))


def all_gather_uneven(group: ProcessGroup, out: Payload, array: Payload, counts: Sequence[int]) -> Started:
    """Same as `all_gather`, with pieces of different numbers of elements, `counts`."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.all_gather(group, out, array, counts)
    call = Call("all_gather", tuple(counts), array.dtype.char, "uneven")
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = np.ascontiguousarray(array)
    request = group.comm.Iallgatherv(_with_type(buffer), _pieces(out, counts))
    return Pending(group, call, (request,), None, (buffer, out))


def reduce_scatter(group: ProcessGroup, out: Payload, array: Payload, op: ReduceOp) -> Started:
    """Write this rank's piece of the reduction of `array` over the ranks to the contiguous `out`."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.reduce_scatter(group, out, array, op)
    check_reducible("reduce_scatter", array, op)
    call = Call("reduce_scatter", array.shape, array.dtype.char, op.name)
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = np.ascontiguousarray(array)
    sent, operation = reducible(buffer, op)
    received, _ = reducible(out, op)
    request = group.comm.Ireduce_scatter_block(sent, received, op=operation)
    return Pending(group, call, (request,), _make_division(out, op, group), (buffer, out))


def reduce_scatter_uneven(
    group: ProcessGroup, out: Payload, array: Payload, counts: Sequence[int], op: ReduceOp
) -> Started:
    """Same as `reduce_scatter`, with pieces of different numbers of elements, `counts`."""
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.reduce_scatter(group, out, array, op, counts)
    check_reducible("reduce_scatter", array, op)
    call = Call("reduce_scatter", tuple(counts), array.dtype.char, op.name, "uneven")
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = np.ascontiguousarray(array)
    sent, operation = reducible(buffer, op)
    received, _ = reducible(out, op)
    request = group.comm.Ireduce_scatter(sent, received, list(counts), op=operation)
    return Pending(group, call, (request,), _make_division(out, op, group), (buffer, out))


def all_to_all(
    group: ProcessGroup, out: Payload, array: Payload, out_counts: Sequence[int] | None, counts: Sequence[int] | None
) -> Started:
    """Send the k-th piece of `array` to rank k, and write the received pieces to the contiguous `out`, in the order of
    the ranks. Without counts all pieces have the same size.
    """
    if array.__class__ is not np.ndarray and nccl.carries(array) and group.size() > 1:
        return nccl.all_to_all(group, out, array, out_counts, counts)
    even = counts is None or out_counts is None
    call = Call("all_to_all", array.shape if even else (), array.dtype.char)
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = np.ascontiguousarray(array)
    if counts is None or out_counts is None:
        request = group.comm.Ialltoall(message(buffer), message(out))
    else:
        request = group.comm.Ialltoallv(_pieces(buffer, counts), _pieces(out, out_counts))
    return Pending(group, call, (request,), None, (buffer, out))


def gather(group: ProcessGroup, out: Payload | None, array: Payload, root: int) -> Started:
    """Gather the arrays of all ranks into `out` on the rank `root`, one after the other."""
    call = Call("gather", array.shape, array.dtype.char, root)
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = np.ascontiguousarray(array)
    request = group.comm.Igather(message(buffer), None if out is None else message(out), root=root)
    return Pending(group, call, (request,), None, (buffer, out))


def scatter(group: ProcessGroup, out: Payload, array: Payload | None, root: int) -> Started:
    """Write this rank's piece of the array of the rank `root` to `out`."""
    call = Call("scatter", out.shape, out.dtype.char, root)
    if group.size() == 1:
        return _copy(group, call, out, array)
    buffer = None if array is None else np.ascontiguousarray(array)
    target, back = _contiguous(out)
    request = group.comm.Iscatter(None if buffer is None else message(buffer), message(target), root=root)
    return Pending(group, call, (request,), back, (buffer, target))


def barrier(group: ProcessGroup) -> Started:
    """Run only the agreement, which completes when all ranks have joined."""
    call = Call("barrier", (), "")
    return Pending.make_finished(group, call) if group.size() == 1 else Pending(group, call, (), None, ())


# ----- from one to one ------------------------------------------------------------------------------------------------

#: Size of the header of a point-to-point message. It holds the size in bytes, dtype and shape, so that the receiver can
#: check them.
_HEADER = 16
#: The last bit of a tag tells headers from the messages that follow them.


def _header(array: Payload) -> np.ndarray[Any, np.dtype[np.int64]]:
    shape = array.shape[: _HEADER - 3]
    found = np.zeros(_HEADER, np.int64)
    found[0], found[1], found[2] = array.nbytes, ord(array.dtype.char), array.ndim
    found[3 : 3 + len(shape)] = shape
    return found


def send(group: ProcessGroup, array: Payload, peer: int, tag: int) -> Started:
    """Send an array to a rank of the group."""
    if array.__class__ is not np.ndarray and nccl.carries(array):
        return nccl.send(group, array, peer)
    call = Call("send", array.shape, array.dtype.char, peer, tag)
    buffer = np.ascontiguousarray(array)
    header = _header(array)
    requests = (
        group.comm.Isend(header, dest=peer, tag=2 * tag),
        group.comm.Isend(message(buffer), dest=peer, tag=2 * tag + 1),
    )
    return Pending(group, call, requests, None, (buffer, header), alone=True)


def receive(group: ProcessGroup, array: Payload, peer: int | None, tag: int) -> Started:
    """Receive an array from a rank of the group, or from any rank if `peer` is None."""
    if array.__class__ is not np.ndarray and nccl.carries(array):
        if peer is None:
            raise NotImplementedError(
                "recv into a tensor on a GPU: NCCL must be told who sends. Give src=. [nd-arguments]"
            )
        return nccl.receive(group, array, peer)
    call = Call("recv", array.shape, array.dtype.char, -1 if peer is None else peer, tag)
    buffer, back = _contiguous(array)
    header = np.zeros(_HEADER, np.int64)
    if peer is None:
        return Pending.receive_any(
            group, call, header, functools.partial(_receive_from, group, call, buffer, back), tag
        )
    return _receive_from(group, call, buffer, back, header, peer, tag)


def _receive_from(
    group: ProcessGroup, call: Call, buffer: Payload, back: Callable[[], None] | None, header: Any, peer: int, tag: int
) -> Started:
    requests = (
        group.comm.Irecv(header, source=peer, tag=2 * tag),
        group.comm.Irecv(message(buffer), source=peer, tag=2 * tag + 1),
    )
    expected = _header(buffer)

    def check() -> None:
        if (header != expected).any():
            shape = tuple(int(n) for n in header[3 : 3 + min(int(header[2]), _HEADER - 3)])
            came = np.dtype(chr(int(header[1]))).name if chr(int(header[1])) != "E" else "bfloat16"
            raise RuntimeError(
                f"recv on rank {group.global_rank(group.rank())}: rank {group.global_rank(peer)} sent {came}"
                f"{list(shape)}, and the tensor to receive into is {call.describe_value()}. Receive into a tensor of "
                "the shape and dtype that is sent. [nd-collective]"
            )

    pending = Pending(group, call, requests, _then(back, None), (buffer, header), alone=True, check=check)
    pending.source = peer
    return pending


# ----- pieces of code -------------------------------------------------------------------------------------------------


def _contiguous(array: Payload) -> tuple[Payload, Callable[[], None] | None]:
    """Return an array's own memory if it is one block, else a copy and a function that copies it back."""
    if array.flags.c_contiguous and array.flags.writeable:
        return array, None
    copy = np.ascontiguousarray(array).copy() if array.flags.c_contiguous else np.ascontiguousarray(array)

    def back() -> None:
        array[...] = copy

    return copy, back


def _make_division(buffer: Payload, op: ReduceOp, group: ProcessGroup) -> Callable[[], None] | None:
    if op is not ReduceOp.AVG:
        return None

    def divide() -> None:
        np.divide(buffer, group.size(), out=buffer)

    return divide


def _then(last: Callable[[], None] | None, first: Callable[[], None] | None) -> Callable[[], None] | None:
    if first is None or last is None:
        return first or last

    def both() -> None:
        first()
        last()

    return both


def _copy(group: ProcessGroup, call: Call, out: Payload | None, array: Payload | None) -> Started:
    if out is not None and array is not None:
        out.reshape(-1)[...] = array.reshape(-1)
    return Pending.make_finished(group, call)


def _with_type(array: Payload) -> Any:
    found = message(array)
    return found if isinstance(found, tuple) else (found, mpi_type(array))


def mpi_type(array: Payload) -> Any:
    """Return MPI's datatype for an array's elements."""
    found = message(array)
    return found[1] if isinstance(found, tuple) else mpi().Datatype.fromcode(array.dtype.char)


def _pieces(array: Payload, counts: Sequence[int]) -> Any:
    found = message(array)
    return [found[0] if isinstance(found, tuple) else found, list(counts), mpi_type(array)]
