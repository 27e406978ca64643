"""torch's functional collectives: they return new tensors and leave their arguments unchanged.

A group is a process group, a mesh of one dimension, a mesh with the number or name of a dimension, or a list of ranks.
Results are complete when a call returns, so `wait_tensor` returns its argument. Every function is differentiable; the
gradient is that of the sum of all ranks' results, as in `distributed.nn.functional`. torch has separate functions with
this gradient, whose names end in `_autograd`. They are the same functions here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import ops
from ndgrad.distributed.collectives import all_reduce as _all_reduce_here
from ndgrad.distributed.collectives import rank_in
from ndgrad.distributed.collectives import reduce_scatter_single as _reduce_scatter_here
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.groups import ProcessGroup, get_process_group_ranks, group_of, new_group, world_group
from ndgrad.distributed.nn import functional
from ndgrad.distributed.reductions import ReduceOp

__all__ = [
    "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd", "all_gather_tensor",
    "all_gather_tensor_autograd", "all_reduce", "all_reduce_coalesced", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "permute_tensor", "reduce_scatter_single",
    "reduce_scatter_single_autograd", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip

_Group = Any

_REDUCTIONS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX,
    "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR,
}  # fmt: skip


def _reduction(name: str) -> ReduceOp:
    found = _REDUCTIONS.get(str(name).lower())
    if found is None:
        raise ValueError(f"reduceOp={name!r}: a reduction is one of {', '.join(_REDUCTIONS)}. [nd-option]")
    return found


def _resolve(name: str, group: _Group, tag: str) -> ProcessGroup:
    """Return the process group that an argument `group` means."""
    if tag:
        raise NotImplementedError(f"{name}(tag={tag!r}): groups have no tags. Give the group. [nd-unsupported]")
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ValueError(
                f"{name}: Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D: the group is "
                f"{group!r}. [nd-dtensor]"
            )
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, list):
        return _group_of_ranks(name, group)
    found = group_of(group)
    if found is None:
        raise ValueError(f"{name}: this process is not in the group. Call it on the members alone. [nd-rank]")
    return found


def _group_of_ranks(name: str, ranks: Sequence[Any]) -> ProcessGroup:
    """Return the world for a list of all its ranks, else the cached group of the list."""
    if any(isinstance(r, (list, tuple)) for r in ranks):
        raise NotImplementedError(
            f"{name}: a list of lists of ranks as a group. Make the groups with new_subgroups. [nd-unsupported]"
        )
    given = [int(r) for r in ranks]
    if given == get_process_group_ranks(None):
        return world_group()
    return _new_group_once(world_group(), tuple(given))


@functools.lru_cache(maxsize=64)
def _new_group_once(world: ProcessGroup, ranks: tuple[int, ...]) -> ProcessGroup:
    """Return the group of these ranks. Each world has its own."""
    return new_group(list(ranks), use_local_synchronization=True)


def _has_gradient(t: Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor: results of collectives are complete.

    Args:
        tensor: result of a collective.
    """
    return tensor


def broadcast(self: Tensor, src: int, group: _Group, tag: str = "") -> Tensor:
    """Return the tensor of the rank `src`, on every rank of the group.

    Args:
        self: tensor of this rank.
        src: rank in the world that sends.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    found = _resolve("broadcast", group, tag)
    return ops.broadcast(self, group=found, root=rank_in("broadcast", found, src, None, "src"))


def all_reduce(self: Tensor, reduceOp: str, group: _Group, tag: str = "") -> Tensor:
    """Return the reduction of all ranks' tensors, on every rank.

    Args:
        self: tensor of this rank.
        reduceOp: `"sum"`, `"avg"`, `"product"`, `"min"`, `"max"`, `"band"`, `"bor"` or `"bxor"`.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.

    >>> import ndgrad
    >>> from ndgrad.distributed._functional_collectives import all_reduce
    >>> ndgrad.distributed.init_process_group()
    >>> all_reduce(ndgrad.ones(2), "sum", ndgrad.distributed.group.WORLD)
    tensor([1., 1.])
    >>> ndgrad.distributed.destroy_process_group()
    """
    found, reduction = _resolve("all_reduce", group, tag), _reduction(reduceOp)
    if _has_gradient(self) and reduction not in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        return functional.all_reduce(self, reduction, found)
    result = self.clone()
    _all_reduce_here(result, reduction, found)
    return result


def all_gather_tensor(self: Tensor, gather_dim: int, group: _Group, tag: str = "") -> Tensor:
    """Return the tensors of all ranks, concatenated along a dimension.

    Args:
        self: tensor of this rank.
        gather_dim: dimension along which the tensors are concatenated.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    return ops.all_gather(self, group=_resolve("all_gather_tensor", group, tag), dim=gather_dim % max(self.ndim, 1))


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: _Group, tag: str = "") -> Tensor:
    """Return this rank's piece, along a dimension, of the reduction of all ranks' tensors.

    Args:
        self: tensor of this rank.
        reduceOp: `"sum"`, `"avg"`, `"product"`, `"min"` or `"max"`.
        scatter_dim: dimension that is divided evenly among the ranks.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    found, reduction = _resolve("reduce_scatter_tensor", group, tag), _reduction(reduceOp)
    dim, count = scatter_dim % max(self.ndim, 1), found.size()
    if self.shape[dim] % count:
        raise ValueError(
            f"input dimension {dim} ({self.shape[dim]}) must be a multiple of group_size {count}: "
            "reduce_scatter_tensor divides it evenly. Pad the tensor. [nd-collective]"
        )
    if reduction in (ReduceOp.SUM, ReduceOp.AVG):
        return ops.reduce_scatter(self, group=found, dim=dim, reduction=reduction)
    front = self.detach().movedim(dim, 0).contiguous()
    result = front.new_empty((front.shape[0] // count, *front.shape[1:]))
    _reduce_scatter_here(result, front, reduction, found)
    return result.movedim(0, dim)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: _Group,
    tag: str = "",
) -> Tensor:
    """Send pieces of the tensor along its first dimension to the ranks in order; return the received pieces,
    concatenated.

    Args:
        self: tensor whose pieces are sent.
        output_split_sizes: lengths of the received pieces. None divides evenly.
        input_split_sizes: lengths of the sent pieces. None divides evenly.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    return ops.all_to_all(
        self, group=_resolve("all_to_all_single", group, tag),
        sent=None if input_split_sizes is None else tuple(int(n) for n in input_split_sizes),
        received=None if output_split_sizes is None else tuple(int(n) for n in output_split_sizes),
    )  # fmt: skip


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: _Group, tag: str = "") -> Tensor:
    """Return the tensor of another rank: rank `i` of the group sends its tensor to rank `src_dst[i]`.

    Args:
        self: tensor of this rank.
        src_dst: receiver of each rank of the group; a permutation.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    found = _resolve("permute_tensor", group, tag)
    receivers = [int(r) for r in src_dst]
    if sorted(receivers) != list(range(found.size())):
        raise ValueError(
            f"permute_tensor: src_dst {receivers} is no permutation of the {found.size()} ranks. Name each receiver "
            "once. [nd-rank]"
        )
    here = found.rank()
    if receivers[here] == here:
        return self.clone()
    return ops.exchange(self, group=found, to=receivers[here], source=receivers.index(here))


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: _Group, tag: str = "") -> list[Tensor]:
    """Return the reduction of all ranks' tensors, for each tensor of a list.

    Args:
        self: tensors of this rank.
        reduceOp: `"sum"`, `"avg"`, `"product"`, `"min"` or `"max"`.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    return [all_reduce(t, reduceOp, group, tag) for t in self]


def all_gather_into_tensor_coalesced(self: Sequence[Tensor], group: _Group, tag: str = "") -> list[Tensor]:
    """Return the tensors of all ranks, concatenated along the first dimension, for each tensor of a list.

    Args:
        self: tensors of this rank.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    return [all_gather_tensor(t, 0, group, tag) for t in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: _Group, tag: str = ""
) -> list[Tensor]:
    """Return this rank's pieces of the reduction of all ranks' tensors, for each tensor of a list.

    Args:
        inputs: tensors of this rank.
        reduceOp: `"sum"`, `"avg"`, `"product"`, `"min"` or `"max"`.
        scatter_dim: dimension of each tensor that is divided evenly among the ranks.
        group: group, mesh of one dimension, pair of a mesh and its dimension, or list of ranks.
        tag: must be empty.
    """
    return [
        reduce_scatter_tensor(t, reduceOp, dim, group, tag) for t, dim in zip(inputs, scatter_dim, strict=True)
    ]


all_gather_tensor_autograd = all_gather_single = all_gather_single_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single

_refuse_absent(__name__)
