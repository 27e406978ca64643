"""Differentiable collectives that return new tensors. Gradients are those of the sum of all ranks' results.

They work inside transforms, in forward mode and to any order. Every rank must differentiate the same computation, since
the backward pass consists of collectives too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import ndgrad._src.tensor.functions.creation as creation
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.join import cat, stack
from ndgrad.distributed import ops
from ndgrad.distributed.collectives import rank_in
from ndgrad.distributed.groups import ProcessGroup, group_of
from ndgrad.distributed.reductions import ReduceOp

if TYPE_CHECKING:
    from ndgrad._src.tensor.tensor_class import Tensor

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "recv", "reduce",
    "reduce_scatter", "scatter", "send", "shift",
]  # fmt: skip


def _member(name: str, group: Any) -> ProcessGroup:
    found = group_of(group)
    if found is None:
        raise ValueError(f"{name}: this process is not in the group. Call it on the members alone. [nd-rank]")
    return found


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the reduction of all ranks' tensors, on every rank.

    Args:
        tensor: tensor of this rank.
        op: reduction: `ReduceOp.SUM`, `AVG`, `MAX`, `MIN` or `PRODUCT`.
        group: group whose ranks take part. The default is the world.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> ndgrad.distributed.nn.functional.all_reduce(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = _member("all_reduce", group)
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        return ops.all_reduce(tensor, group=found, reduction=op)
    if op in (ReduceOp.MAX, ReduceOp.MIN):
        return ops.all_reduce_extreme(tensor, group=found, reduction=op)
    if op is ReduceOp.PRODUCT:
        return ops.all_gather(tensor.unsqueeze(0), group=found).prod(0)
    raise ValueError(f"all_reduce: {op} has no derivative. Use ndgrad.distributed.all_reduce. [nd-no-derivative]")


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks, on every rank.

    Args:
        tensor: tensor of this rank.
        group: group whose ranks take part. The default is the world.
    """
    return tuple(ops.all_gather(tensor.unsqueeze(0), group=_member("all_gather", group)).unbind(0))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Return the reduction of all ranks' `input_list[i]`, on rank i; its values are written to `output` too.

    Args:
        output: tensor that receives the values of the result.
        input_list: tensors to reduce, one per rank.
        op: reduction: `ReduceOp.SUM` or `AVG`.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("reduce_scatter", group)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"reduce_scatter: {op} has no derivative here. Use SUM or AVG. [nd-no-derivative]")
    result = ops.reduce_scatter(stack(list(input_list)), group=found, reduction=op).squeeze(0)
    return _also_write("reduce_scatter", output, result, *input_list)


def _also_write(name: str, output: Tensor, result: Tensor, *inputs: Tensor) -> Tensor:
    """Write the values of a result to the tensor given for it, and return the result."""
    if any(np.may_share_memory(output._array, t._array) for t in inputs if isinstance(t._array, np.ndarray)):
        raise RuntimeError(
            f"{name}: output shares memory with the input, which backward may need. Make another: empty_like. "
            "[nd-shared-memory]"
        )
    if tuple(output.shape) != tuple(result.shape) or output.dtype != result.dtype:
        raise RuntimeError(
            f"{name}: output is {output.dtype} {tuple(output.shape)}, and the result {result.dtype} "
            f"{tuple(result.shape)}. Make it with empty. [nd-collective]"
        )
    with no_grad():
        output.detach().copy_(result)
    return result


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Send one tensor to each rank, and return the tensors received from the ranks, in order. `output_tensor_list` only
    gives their shapes.

    Args:
        output_tensor_list: tensors that give the shapes of the results.
        input_tensor_list: tensors to send, one per rank.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("all_to_all", group)
    received = [t.numel() for t in output_tensor_list]
    flat = ops.all_to_all(
        cat([t.reshape(-1) for t in input_tensor_list]), group=found, sent=tuple(t.numel() for t in input_tensor_list),
        received=tuple(received),
    )  # fmt: skip
    return tuple(p.reshape(t.shape) for p, t in zip(flat.split(received), output_tensor_list, strict=True))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None,
) -> Tensor:  # fmt: skip
    """Send pieces of `input` along its first dimension to the ranks in order; return the received pieces, concatenated.
    Their values are written to `output` too.

    Args:
        output: tensor that receives the values of the result.
        input: tensor whose pieces are sent.
        output_split_sizes: lengths of the received pieces. The default divides evenly.
        input_split_sizes: lengths of the sent pieces. The default divides evenly.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("all_to_all_single", group)
    result = ops.all_to_all(
        input, group=found, sent=None if input_split_sizes is None else tuple(input_split_sizes),
        received=None if output_split_sizes is None else tuple(output_split_sizes),
    )  # fmt: skip
    return _also_write("all_to_all_single", output, result, input)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return the tensor of the rank `src`, on every rank.

    Args:
        tensor: tensor of this rank.
        src: rank in the world that sends.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("broadcast", group)
    return ops.broadcast(tensor, group=found, root=rank_in("broadcast", found, src, None, "src"))


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum of all ranks' tensors on the rank `dst`, and zeros on the others.

    Args:
        tensor: tensor of this rank.
        dst: rank in the world that receives.
        op: must be `ReduceOp.SUM`.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("reduce", group)
    if op is not ReduceOp.SUM:
        raise ValueError(
            f"reduce: only a sum has a derivative here, and this is {op}. Use all_reduce. [nd-no-derivative]"
        )
    return ops.reduce_to(tensor, group=found, root=rank_in("reduce", found, dst, None, "dst"))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks on the rank `dst`, and zeros on the others.

    Args:
        tensor: tensor of this rank.
        dst: rank in the world that receives.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("gather", group)
    return tuple(ops.gather_to(tensor, group=found, root=rank_in("gather", found, dst, None, "dst")).unbind(0))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Return the i-th tensor of the rank `src`, on rank i. The tensors of other ranks only give the shape.

    Args:
        tensors: tensors to send, one per rank.
        src: rank in the world that sends.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("scatter", group)
    return ops.scatter_from(stack(list(tensors)), group=found, root=rank_in("scatter", found, src, None, "src"))


def send(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> Tensor:
    """Send a tensor to a rank, to be received by `recv`. The result is empty and represents the message in the graph:
    its backward receives the gradient of the tensor from `dst`.

    Args:
        tensor: tensor to send.
        dst: rank in the world that receives.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
    """
    found = _member("send", group)
    return ops.exchange(tensor, group=found, to=rank_in("send", found, dst, None, "dst"), tag=tag)


def recv(shape: Sequence[int], src: int, group: Any = None, tag: int = 0, dtype: Any = None) -> Tensor:
    """Return a tensor that `send` has sent. It requires grad if its dtype allows, and its backward sends its gradient
    to `src`.

    Args:
        shape: shape of the tensor.
        src: rank in the world that sends.
        group: group whose ranks take part. The default is the world.
        tag: number that a message and its receive must share.
        dtype: dtype of the tensor.
    """
    found = _member("recv", group)
    empty = creation.empty(0, dtype=dtype)
    if empty.is_floating_point() or empty.is_complex():
        empty.requires_grad_()
    return ops.exchange(
        empty, group=found, source=rank_in("recv", found, src, None, "src"), shape=tuple(shape), tag=tag
    )


def shift(tensor: Tensor, offset: int = 1, group: Any = None) -> Tensor:
    """Return the tensor of the rank `offset` places before this one, in a ring: every rank sends and receives.

    Args:
        tensor: tensor of this rank.
        offset: distance of the ranks.
        group: group whose ranks take part. The default is the world.
    """
    found = _member("shift", group)
    size, here = found.size(), found.rank()
    if offset % size == 0:
        return tensor.clone()
    return ops.exchange(tensor, group=found, to=(here + offset) % size, source=(here - offset) % size)


_refuse_absent(__name__)
