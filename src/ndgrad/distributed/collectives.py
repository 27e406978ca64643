"""torch's collectives: functions that write into tensors.

On tensors that require no gradient, or under no_grad, MPI reads and writes the memory of the tensors themselves, and
`async_op=True` immediately returns a `Work` to wait for. If gradients are needed, the written tensor gets the history
of the differentiable op (`ndgrad.distributed.ops`). torch leaves the graph unchanged, so its gradients ignore it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.grad_mode import is_grad_enabled, no_grad
from ndgrad._src.core.inplace import check_memory, check_writable, write
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.variable import Variable
from ndgrad._src.core.versions import Storage, storage_of
from ndgrad.distributed import nccl, ops, transport
from ndgrad.distributed.agreement import Pending
from ndgrad.distributed.groups import GroupMember, ProcessGroup, group_of
from ndgrad.distributed.reductions import ReduceOp

if TYPE_CHECKING:
    from ndgrad._src.tensor.tensor_class import Tensor


class Work:
    """Collective under way. Created by collectives with `async_op=True`.

    Args:
        pending: message under way.
        results: tensors that receive the result.
        after: function that is called once when the message is complete.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> work = ndgrad.distributed.all_reduce(ndgrad.ones(2), async_op=True)
    >>> work.wait(), work.is_completed()
    (True, True)
    >>> ndgrad.distributed.destroy_process_group()
    """

    __slots__ = ("_after", "_pending", "_results")

    def __init__(
        self, pending: Pending, results: Sequence[Tensor] = (), after: Callable[[], None] | None = None
    ) -> None:
        self._pending, self._results, self._after = pending, list(results), after

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: longest time to wait. The default is that of the group.
        """
        self._pending.wait(None if timeout is None else timeout.total_seconds())
        self._finish()
        return True

    def is_completed(self) -> bool:
        """True if it is done."""
        if not self._pending.is_completed():
            return False
        self._finish()
        return True

    def _finish(self) -> None:
        after, self._after = self._after, None
        if after is not None:
            after()

    def is_success(self) -> bool:
        """True if it is done and did not fail."""
        return self._pending.done

    def exception(self) -> BaseException | None:
        """Return the exception it failed with, or None."""
        return self._pending.error

    def result(self) -> list[Tensor]:
        """Return the tensors that it writes."""
        return list(self._results)

    def source_rank(self) -> int:
        """Return the sender's rank, for a completed receive."""
        group = self._pending.group
        return group.global_rank(self._pending.source)

    def synchronize(self) -> None:
        """Wait until it is done."""
        self.wait()

    def get_future(self) -> Any:
        """Wait for the work, and return a future of its results."""
        from ndgrad.futures import Future  # rarely needed

        self.wait()
        future: Any = Future()
        future.set_result(self.result())
        return future


# ----- arguments ------------------------------------------------------------------------------------------------------


def _tensor(name: str, value: Any, what: str = "tensor") -> Any:
    if not isinstance(value, Variable):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{what}` of {name} to be a tensor but got {type(value)} "
            "instead. "
            "Wrap arrays with ndgrad.as_tensor(...), which shares their memory. [nd-type]"
        )
    return value


def _tensors(name: str, values: Any, what: str) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{what}` of {name} to be a list of tensors but got "
            f"{type(values)} instead. [nd-type]"
        )
    return [_tensor(name, v, what) for v in values]


def _array(name: str, t: Any) -> Any:
    """Return the memory of a tensor, as a NumPy array."""
    if process.open or modes().levels:
        raise RuntimeError(
            f"{name}: inside a transform (grad, vmap, ...) a collective that writes into a tensor has no meaning. Use "
            "ndgrad.distributed.nn.functional, whose functions return new tensors. [nd-collective-grad]"
        )
    array = t._array
    if isinstance(array, np.generic):
        storage_of(t)
        array = t._array
    if not isinstance(array, np.ndarray) and (name in _HOST_ONLY or not nccl.carries(array)):
        raise NotImplementedError(
            f"{name}: messages go through the memory of the host, and the tensor of shape {tuple(t.shape)} is not "
            "there "
            f"({type(array).__name__}). Bring it there with .cpu(), and the result back with .to(device). [nd-host]"
        )
    return array


#: Collectives that NCCL does not have.
_HOST_ONLY = frozenset(("gather", "scatter"))


def _target(name: str, t: Any) -> Any:
    """Return the memory of a tensor that is about to be written."""
    array = t._array
    if array.__class__ is np.ndarray and t._meta is None and not process.busy and array.flags.carray:
        storage = t._storage  # common case: no mode, no view, no saved old values
        if storage.__class__ is Storage and not storage.keeps:
            return array
    array = _array(name, t)
    # The values of a leaf may be replaced, as those of its `.data` may: no graph leads to it.
    with no_grad() if t.is_leaf else nullcontext():
        check_writable(t, name)
    check_memory(name, array)
    storage_of(t).store_before_write(array)
    return array


def _needs_gradient(*tensors: Any) -> bool:
    return is_grad_enabled() and any(t.requires_grad for t in tensors)


def _refuse_asynchronous(name: str) -> None:
    raise RuntimeError(
        f"{name}(async_op=True) on tensors that require grad: the graph cannot wait for the result. Leave async_op "
        "out, or call it "
        "under no_grad() if no gradient is to pass. [nd-collective-grad]"
    )


def _group(name: str, group: Any) -> ProcessGroup | None:
    found = group_of(group)
    if found is None:
        warnings.warn(f"Running {name} on a process that is not in the group: nothing is done.", stacklevel=3)
    return found


def rank_in(name: str, group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    """Return a root or partner as a rank of the group, given by its rank in the world or in the group."""
    if (rank is None) == (group_rank is None):
        raise ValueError(
            f"{name}: Must specify global_rank or group_rank [nd-exclusive]" if rank is None else
            f"{name}: Can't specify both group_{what} and {what} [nd-exclusive]"
        )  # fmt: skip
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(
                f"{name}(group_{what}={group_rank}): {group.name} has ranks 0 to {group.size() - 1}. [nd-rank]"
            )
        return group_rank
    if rank not in group.ranks:
        raise ValueError(
            f"{name}({what}={rank}): the ranks of {group.name} are {', '.join(map(str, group.ranks))}. [nd-rank]"
        )
    return group.ranks.index(rank)


def _finish(
    pending: Pending, name: str, targets: Sequence[Any], async_op: bool, after: Callable[[], None] | None = None
) -> Work | None:
    """Wait for a started collective, or return its `Work`. Its targets count as written from now on."""
    for t in targets:
        storage_of(t).bump(name)
    if async_op:
        return Work(pending, targets, after)
    pending.wait()
    if after is not None:
        after()
    return None


def _same(name: str, tensors: Sequence[Any], like: Any, what: str) -> None:
    for i, t in enumerate(tensors):
        if t.shape != like.shape or t.dtype != like.dtype:
            raise RuntimeError(
                f"{name}: {what}[{i}] is {t.dtype} {tuple(t.shape)}, and must be {like.dtype} {tuple(like.shape)} like "
                "the other tensor. Make it with empty_like. [nd-collective]"
            )


def _count(name: str, tensors: Sequence[Any], group: ProcessGroup, what: str) -> None:
    if len(tensors) != group.size():
        raise RuntimeError(
            f"{name}: {what} has {len(tensors)} tensors, and the group {group.size()} ranks. Give one for each rank. "
            "[nd-collective]"
        )


# ----- one tensor -----------------------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce the tensors of all ranks and write the result to `tensor`.

    Args:
        tensor: tensor that is read and overwritten.
        op: reduction: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` or `BXOR`.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> x = ndgrad.ones(2)
    >>> ndgrad.distributed.all_reduce(x)
    >>> x
    tensor([1., 1.])
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = GroupMember.WORLD if group is None else None
    if found is None:
        found = _group("all_reduce", group)
    t = tensor if isinstance(tensor, Variable) else _tensor("all_reduce", tensor)
    if found is None:
        return None
    if t.requires_grad and is_grad_enabled() and not t.is_leaf:
        if async_op:
            _refuse_asynchronous("all_reduce")
        if op in (ReduceOp.SUM, ReduceOp.AVG):
            write(ops.all_reduce, t, (), {"group": found, "reduction": op})
        elif op in (ReduceOp.MAX, ReduceOp.MIN):
            write(ops.all_reduce_extreme, t, (), {"group": found, "reduction": op})
        else:
            t.copy_(ops.all_gather(t.unsqueeze(0), group=found).prod(0))
        return None
    array = _target("all_reduce", t)
    if async_op:
        return _finish(transport.all_reduce(found, array, op), "all_reduce", (t,), True)
    storage_of(t).bump("all_reduce")
    transport.all_reduce_now(found, array, op)
    return None


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Copy `tensor` from the rank `src` to all ranks.

    Args:
        tensor: tensor that `src` sends, and that other ranks overwrite.
        src: rank in the world that sends.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.
        group_src: rank in the group that sends, instead of `src`.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.broadcast(ndgrad.ones(2), src=0)
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("broadcast", group)
    t = _tensor("broadcast", tensor)
    if found is None:
        return None
    root = rank_in("broadcast", found, src, group_src, "src")
    if _needs_gradient(t) and not t.is_leaf:
        if async_op:
            _refuse_asynchronous("broadcast")
        write(ops.broadcast, t, (), {"group": found, "root": root})
        return None
    return _finish(transport.broadcast(found, _target("broadcast", t), root), "broadcast", (t,), async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce the tensors of all ranks and write the result to `tensor` on the rank `dst`; other ranks keep theirs.

    Args:
        tensor: tensor of this rank, which `dst` overwrites with the result.
        dst: rank in the world that receives.
        op: reduction: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` or `BXOR`.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.
        group_dst: rank in the group that receives, instead of `dst`.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.reduce(ndgrad.ones(2), dst=0)
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("reduce", group)
    t = _tensor("reduce", tensor)
    if found is None:
        return None
    root = rank_in("reduce", found, dst, group_dst, "dst")
    if _needs_gradient(t):
        raise RuntimeError(
            "reduce: the tensor requires grad, and on the ranks that keep theirs it would stand for two things in the "
            "graph. Use "
            "ndgrad.distributed.nn.functional.reduce, or no_grad(). [nd-collective-grad]"
        )
    return _finish(transport.reduce(found, _target("reduce", t), root, op), "reduce", (t,), async_op)


# ----- pieces ---------------------------------------------------------------------------------------------------------


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the tensor of each rank i to `tensor_list[i]`.

    Args:
        tensor_list: tensors that receive the result, one per rank.
        tensor: tensor of this rank.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> found = [ndgrad.empty(2)]
    >>> ndgrad.distributed.all_gather(found, ndgrad.ones(2))
    >>> found
    [tensor([1., 1.])]
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("all_gather", group)
    t, outs = _tensor("all_gather", tensor), _tensors("all_gather", tensor_list, "tensor_list")
    if found is None:
        return None
    _count("all_gather", outs, found, "tensor_list")
    _same("all_gather", outs, t, "tensor_list")
    if _needs_gradient(t, *outs):
        if async_op:
            _refuse_asynchronous("all_gather")
        whole = ops.all_gather(t.unsqueeze(0), group=found)
        for i, out in enumerate(outs):
            out.copy_(whole[i])
        return None
    array = _array("all_gather", t)
    targets = [_target("all_gather", o) for o in outs]
    buffer = library_of(array).empty((found.size(), *array.shape), array.dtype)

    def deal() -> None:
        for target, piece in zip(targets, buffer, strict=True):
            target[...] = piece

    return _finish(transport.all_gather(found, buffer, array), "all_gather", outs, async_op, deal)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Gather the tensors of all ranks into `output_tensor`, concatenated along the first dimension or stacked.

    Args:
        output_tensor: tensor that receives the result.
        input_tensor: tensor of this rank.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> out = ndgrad.empty(1, 2)
    >>> ndgrad.distributed.all_gather_into_tensor(out, ndgrad.ones(2))
    >>> ndgrad.distributed.destroy_process_group()
    """
    name = "all_gather_into_tensor"
    found = _group(name, group)
    out, t = _tensor(name, output_tensor, "output_tensor"), _tensor(name, input_tensor, "input_tensor")
    if found is None:
        return None
    _check_whole(name, out, t, found, "output_tensor", "input_tensor")
    if _needs_gradient(out, t):
        if async_op:
            _refuse_asynchronous(name)
        out.copy_(ops.all_gather(t.unsqueeze(0), group=found).reshape(out.shape))
        return None
    target, back = _block(name, out)
    return _finish(transport.all_gather(found, target, _array(name, t)), name, (out,), async_op, back)


all_gather_single = all_gather_into_tensor


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce `input_list[i]` over all ranks and write the result to `output` on rank i.

    Args:
        output: tensor that receives this rank's result.
        input_list: tensors to reduce, one per rank.
        op: reduction: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` or `BXOR`.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.reduce_scatter(ndgrad.empty(2), [ndgrad.ones(2)])
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("reduce_scatter", group)
    out, given = _tensor("reduce_scatter", output, "output"), _tensors("reduce_scatter", input_list, "input_list")
    if found is None:
        return None
    _count("reduce_scatter", given, found, "input_list")
    _same("reduce_scatter", given, out, "input_list")
    if _needs_gradient(out, *given):
        from ndgrad._src.tensor.functions.join import stack  # differentiable

        return reduce_scatter_tensor(out, stack(given), op, found, async_op)
    arrays = [_array("reduce_scatter", g) for g in given]
    whole = library_of(arrays[0]).stack(arrays)
    target, back = _block("reduce_scatter", out)
    return _finish(transport.reduce_scatter(found, target, whole, op), "reduce_scatter", (out,), async_op, back)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce `input` over all ranks and write this rank's piece along the first dimension to `output`.

    Args:
        output: tensor that receives this rank's result.
        input: tensor to reduce, n times as long as `output` along the first dimension for n ranks, or stacked.
        op: reduction: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` or `BXOR`.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.reduce_scatter_tensor(ndgrad.empty(2), ndgrad.ones(2))
    >>> ndgrad.distributed.destroy_process_group()
    """
    name = "reduce_scatter_tensor"
    found = _group(name, group)
    out, t = _tensor(name, output, "output"), _tensor(name, input, "input")
    if found is None:
        return None
    _check_whole(name, t, out, found, "input", "output")
    if _needs_gradient(out, t):
        if async_op:
            _refuse_asynchronous(name)
        if op not in (ReduceOp.SUM, ReduceOp.AVG):
            raise RuntimeError(
                f"{name}: {op} has no derivative here. Use SUM or AVG, or all_reduce and take the piece. "
                "[nd-no-derivative]"
            )
        whole = t.reshape((found.size(), *out.shape))
        out.copy_(ops.reduce_scatter(whole, group=found, reduction=op).squeeze(0))
        return None
    target, back = _block(name, out)
    return _finish(transport.reduce_scatter(found, target, _array(name, t), op), name, (out,), async_op, back)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor that rank i has for this rank in its `input_tensor_list` to `output_tensor_list[i]`.

    Args:
        output_tensor_list: tensors that receive, one per rank.
        input_tensor_list: tensors to send, one per rank.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.all_to_all([ndgrad.empty(2)], [ndgrad.ones(2)])
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("all_to_all", group)
    outs = _tensors("all_to_all", output_tensor_list, "output_tensor_list")
    given = _tensors("all_to_all", input_tensor_list, "input_tensor_list")
    if found is None:
        return None
    _count("all_to_all", outs, found, "output_tensor_list")
    _count("all_to_all", given, found, "input_tensor_list")
    sent, received = [g.numel() for g in given], [o.numel() for o in outs]
    if _needs_gradient(*outs, *given):
        if async_op:
            _refuse_asynchronous("all_to_all")
        from ndgrad._src.tensor.functions.join import cat  # differentiable

        flat = ops.all_to_all(
            cat([g.reshape(-1) for g in given]), group=found, sent=tuple(sent), received=tuple(received)
        )
        for out, piece in zip(outs, flat.split(received), strict=True):
            out.copy_(piece.reshape(out.shape))
        return None
    arrays = [_array("all_to_all", g) for g in given]
    targets = [_target("all_to_all", o) for o in outs]
    library = library_of(arrays[0])
    buffer = library.concatenate([a.reshape(-1) for a in arrays])
    flat = library.empty(sum(received), targets[0].dtype)

    def deal() -> None:
        start = 0
        for target in targets:
            target[...] = flat[start : start + target.size].reshape(target.shape)
            start += target.size

    return _finish(transport.all_to_all(found, flat, buffer, received, sent), "all_to_all", outs, async_op, deal)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send pieces of `input` along its first dimension to the ranks in order, and write the received pieces to
    `output`.

    Args:
        output: tensor that receives the pieces.
        input: tensor whose pieces are sent.
        output_split_sizes: lengths of the received pieces. The default divides `output` evenly.
        input_split_sizes: lengths of the sent pieces. The default divides `input` evenly.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.all_to_all_single(ndgrad.empty(2), ndgrad.ones(2))
    >>> ndgrad.distributed.destroy_process_group()
    """
    name = "all_to_all_single"
    found = _group(name, group)
    out, t = _tensor(name, output, "output"), _tensor(name, input, "input")
    if found is None:
        return None
    sent = _splits(name, t, input_split_sizes, found, "input")
    received = _splits(name, out, output_split_sizes, found, "output")
    if t.dtype != out.dtype or t.shape[1:] != out.shape[1:]:
        raise RuntimeError(
            f"{name}: output is {out.dtype} {tuple(out.shape)} and input {t.dtype} {tuple(t.shape)}: the dtypes and "
            "all dimensions "
            "but the first must agree. [nd-collective]"
        )
    if _needs_gradient(out, t):
        if async_op:
            _refuse_asynchronous(name)
        out.copy_(ops.all_to_all(t, group=found, sent=tuple(sent), received=tuple(received)))
        return None
    target, back = _block(name, out)
    each = math.prod(t.shape[1:])
    pending = transport.all_to_all(
        found, target, _array(name, t), [n * each for n in received], [n * each for n in sent]
    )
    return _finish(pending, name, (out,), async_op, back)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Write `scatter_list[i]` of the rank `src` to `tensor` on rank i.

    Args:
        tensor: tensor that receives this rank's piece.
        scatter_list: tensors to send, one per rank; on `src` only.
        src: rank in the world that sends. The default is rank 0 of the group.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.
        group_src: rank in the group that sends, instead of `src`.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.scatter(ndgrad.empty(2), [ndgrad.ones(2)], src=0)
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("scatter", group)
    t = _tensor("scatter", tensor)
    if found is None:
        return None
    if src is None and group_src is None:
        group_src = 0
    root = rank_in("scatter", found, src, group_src, "src")
    whole = None
    if found.rank() == root:
        given = _tensors("scatter", scatter_list, "scatter_list")
        _count("scatter", given, found, "scatter_list")
        _same("scatter", given, t, "scatter_list")
        if _needs_gradient(t, *given):
            _refuse_recording("scatter")
        whole = np.stack([_array("scatter", g) for g in given])
    elif scatter_list:
        raise ValueError(
            f"scatter: Argument ``scatter_list`` must NOT be specified on non-source ranks (rank {found.rank()} of "
            f"{found.size()}). [nd-rank]"
        )
    if _needs_gradient(t):
        _refuse_recording("scatter")
    return _finish(transport.scatter(found, _target("scatter", t), whole, root), "scatter", (t,), async_op)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Write the tensor of each rank i to `gather_list[i]` on the rank `dst`.

    Args:
        tensor: tensor of this rank.
        gather_list: tensors that receive the result, one per rank; on `dst` only.
        dst: rank in the world that receives. The default is rank 0 of the group.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.
        group_dst: rank in the group that receives, instead of `dst`.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.gather(ndgrad.ones(2), [ndgrad.empty(2)], dst=0)
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("gather", group)
    t = _tensor("gather", tensor)
    if found is None:
        return None
    if dst is None and group_dst is None:
        group_dst = 0
    root = rank_in("gather", found, dst, group_dst, "dst")
    if _needs_gradient(t, *(gather_list or ())):
        _refuse_recording("gather")
    array = _array("gather", t)
    if found.rank() != root:
        if gather_list:
            raise ValueError(
                f"gather: Argument ``gather_list`` must NOT be specified on non-destination ranks (rank {found.rank()} "
                "of "
                f"{found.size()}). [nd-rank]"
            )
        return _finish(transport.gather(found, None, array, root), "gather", (), async_op)
    outs = _tensors("gather", gather_list, "gather_list")
    _count("gather", outs, found, "gather_list")
    _same("gather", outs, t, "gather_list")
    targets = [_target("gather", o) for o in outs]
    buffer = library_of(array).empty((found.size(), *array.shape), array.dtype)

    def deal() -> None:
        for target, piece in zip(targets, buffer, strict=True):
            target[...] = piece

    return _finish(transport.gather(found, buffer, array, root), "gather", outs, async_op, deal)


def _refuse_recording(name: str) -> None:
    raise RuntimeError(
        f"{name}: a tensor requires grad, and whether one does is not known on the other ranks. Use "
        f"ndgrad.distributed.nn.functional.{name}, which every rank differentiates, or no_grad(). [nd-collective-grad]"
    )


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait until all ranks have called `barrier`. The work of the GPUs `device_ids` is complete then.

    Args:
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.
        device_ids: numbers of GPUs whose work is awaited first.
        timeout: longest time to wait. The default is that of the group.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.barrier()
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _group("barrier", group)
    if found is None:
        return None
    for device in _device_numbers(device_ids):
        from ndgrad import cuda  # GPUs are optional

        cuda.synchronize(device)
    pending = transport.barrier(found)
    if async_op:
        return Work(pending)
    pending.wait(None if timeout is None else timeout.total_seconds())
    return None


def _device_numbers(device_ids: Any) -> list[int]:
    """Return the GPUs given to `barrier`."""
    if device_ids is None:
        return []
    if not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int] [nd-type]")
    if not nccl.available():
        raise RuntimeError(
            "Function argument device_ids not supported for the selected backend mpi: "
            f"barrier(device_ids={device_ids}) waits for GPUs, and there are none. Leave it out. [nd-process-group]"
        )
    return device_ids


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """Same as `barrier`. Its error after `timeout` names all missing ranks, as for every collective.

    Args:
        group: group whose ranks take part. The default is the world.
        timeout: longest time to wait. The default is that of the group.
        wait_all_ranks: accepted as in torch; has no effect, because the error names all missing ranks anyway.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> ndgrad.distributed.monitored_barrier()
    >>> ndgrad.distributed.destroy_process_group()
    """
    barrier(group, timeout=timeout)


def _check_whole(name: str, whole: Any, piece: Any, group: ProcessGroup, whole_name: str, piece_name: str) -> None:
    shape, count = tuple(piece.shape), group.size()
    joined = (shape[0] * count, *shape[1:]) if shape else (count,)
    if whole.dtype != piece.dtype or tuple(whole.shape) not in ((count, *shape), joined):
        raise RuntimeError(
            f"{name}: {whole_name} is {whole.dtype} {tuple(whole.shape)}, and with {piece_name} of {piece.dtype} "
            f"{shape} on {count} "
            f"ranks it must be {piece.dtype} {joined} or {(count, *shape)}. [nd-collective]"
        )


def _block(name: str, t: Any) -> tuple[Any, Callable[[], None] | None]:
    """Return memory for a result: the tensor's own if that is contiguous."""
    array = _target(name, t)
    if array.flags.c_contiguous:
        return array, None
    buffer = library_of(array).empty(array.shape, array.dtype)

    def back() -> None:
        array[...] = buffer

    return buffer, back


def _splits(name: str, t: Any, sizes: Sequence[int] | None, group: ProcessGroup, what: str) -> list[int]:
    length = t.shape[0] if t.ndim else 0
    if sizes is None:
        if length % group.size():
            raise RuntimeError(
                f"{name}: the first dimension of {what} ({length}) does not divide equally across group size "
                f"({group.size()}). "
                f"Give {what}_split_sizes. [nd-divisible]"
            )
        return [length // group.size()] * group.size()
    found = [int(n) for n in sizes]
    if len(found) != group.size() or sum(found) != length:
        raise RuntimeError(
            f"{name}: {what}_split_sizes {found} must be {group.size()} numbers, one for each rank, whose sum is the "
            "first dimension "
            f"of {what}, {length}. [nd-collective]"
        )
    return found


# ----- from one to one ------------------------------------------------------------------------------------------------


def _peer(name: str, group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    peer = rank_in(name, group, rank, group_rank, what)
    if peer == group.rank():
        role = "destination" if what == "dst" else "source"
        raise ValueError(
            f"Invalid {role} rank: {role} rank should not be the same as the rank of the current process ({name}, rank "
            f"{group.global_rank(peer)}). [nd-rank]"
        )
    return peer


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send a tensor to a rank. The tensor must not be changed until the work is done.

    Args:
        tensor: tensor to send.
        dst: rank in the world that receives.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
        group_dst: rank in the group that receives, instead of `dst`.
    """
    found = _group("isend", group)
    t = _tensor("isend", tensor)
    if found is None:
        return None
    if _needs_gradient(t):
        _refuse_message("isend")
    peer = _peer("isend", found, dst, group_dst, "dst")
    return Work(transport.send(found, _array("isend", t), peer, tag))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive a tensor from the rank `src`, or from any rank if `src` is not given.

    Args:
        tensor: tensor that receives.
        src: rank in the world that sends. The default is any rank.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
        group_src: rank in the group that sends, instead of `src`.
    """
    found = _group("irecv", group)
    t = _tensor("irecv", tensor)
    if found is None:
        return None
    if _needs_gradient(t):
        _refuse_message("irecv")
    peer = None if src is None and group_src is None else _peer("irecv", found, src, group_src, "src")
    target = _target("irecv", t)
    storage_of(t).bump("recv")
    return Work(transport.receive(found, target, peer, tag), (t,))


def _refuse_message(name: str) -> None:
    raise RuntimeError(
        f"{name}: the tensor requires grad, and a message carries none back. Use ndgrad.distributed.nn.functional.send "
        "and recv, "
        "whose gradients travel the other way, or no_grad() or detach(). [nd-collective-grad]"
    )


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to a rank.

    Args:
        tensor: tensor to send.
        dst: rank in the world that receives.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
        group_dst: rank in the group that receives, instead of `dst`.
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from the rank `src`, or from any rank if it is not given; return the sender's rank.

    Args:
        tensor: tensor that receives.
        src: rank in the world that sends. The default is any rank.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
        group_src: rank in the group that sends, instead of `src`.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """Message for `batch_isend_irecv`: `P2POp(isend, tensor, peer)` or `P2POp(irecv, tensor, peer)`.

    Args:
        op: `isend` or `irecv`.
        tensor: tensor to send, or that receives.
        peer: other rank, in the world.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
        group_peer: other rank, in the group, instead of `peer`.
    """

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``ndgrad.distributed.isend`` or "
                "``ndgrad.distributed.irecv``. [nd-type]"
            )
        _tensor("P2POp", tensor)
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, {tuple(self.tensor.shape)}, peer={self.peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages, in any order: none waits for another.

    Args:
        p2p_op_list: messages.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list) or not p2p_op_list:
        raise ValueError("batch_isend_irecv takes a list of P2POp that is not empty. [nd-too-few]")
    # Start receives first, so that sent messages have a destination.
    works: dict[int, Any] = {}
    for kind in (irecv, isend):
        for i, p in enumerate(p2p_op_list):
            if p.op is kind:
                works[i] = p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer)
    return [works[i] for i in sorted(works) if works[i] is not None]


# ----- several at once ------------------------------------------------------------------------------------------------


def all_reduce_coalesced(
    tensors: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Same as `all_reduce` for several tensors of one dtype, as one message.

    Args:
        tensors: tensors that are read and overwritten.
        op: reduction: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR` or `BXOR`.
        group: group whose ranks take part. The default is the world.
        async_op: whether to return a Work at once, instead of waiting.
    """
    found = _group("all_reduce_coalesced", group)
    given = _tensors("all_reduce_coalesced", tensors, "tensors")
    if found is None or not given:
        return None
    if _needs_gradient(*given):
        for t in given:
            all_reduce(t, op, found)
        return None
    targets = [_target("all_reduce_coalesced", t) for t in given]
    if len({t.dtype for t in targets}) > 1:
        raise ValueError(
            "all_reduce_coalesced: the tensors are of several dtypes. Call it for those of each. [nd-dtype-mismatch]"
        )
    buffer = library_of(targets[0]).concatenate([t.reshape(-1) for t in targets])

    def deal() -> None:
        start = 0
        for target in targets:
            target[...] = buffer[start : start + target.size].reshape(target.shape)
            start += target.size

    return _finish(transport.all_reduce(found, buffer, op), "all_reduce_coalesced", given, async_op, deal)


def supports_complex(reduceOp: ReduceOp) -> bool:
    """True if the operation can reduce complex tensors.

    Args:
        reduceOp: reduction.

    >>> import ndgrad
    >>> ndgrad.distributed.supports_complex(ndgrad.distributed.ReduceOp.SUM)
    True
    """
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)
