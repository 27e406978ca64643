"""Collectives along a dimension of a mesh, under torch's names."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import ops
from ndgrad.distributed.collectives import broadcast, scatter
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.nn.functional.padding import pad

__all__ = ["mesh_broadcast", "mesh_scatter", "pad_tensor", "shard_dim_alltoall", "unpad_tensor"]


def shard_dim_alltoall(input: Tensor, gather_dim: int, shard_dim: int, mesh: DeviceMesh, mesh_dim: int) -> Tensor:
    """Return this rank's piece along `shard_dim` of the tensor whose pieces along `gather_dim` the ranks have.

    Args:
        input: piece of this rank. All pieces have the same shape.
        gather_dim: dimension along which the pieces are joined.
        shard_dim: dimension along which the whole is divided, evenly.
        mesh: mesh of the ranks.
        mesh_dim: dimension of the mesh.
    """
    count = mesh.size(mesh_dim)
    sent = (input.shape[shard_dim] // count,) * count
    if sum(sent) != input.shape[shard_dim]:
        raise ValueError(
            f"shard_dim_alltoall: dimension {shard_dim} of shape {tuple(input.shape)} is not divisible by {count}. Pad "
            "the tensor. [nd-collective]"
        )
    received = (input.shape[gather_dim],) * count
    return ops.all_to_all(
        input, group=mesh.get_group(mesh_dim), split=shard_dim, join=gather_dim, sent=sent, received=received
    )


def mesh_scatter(
    output: Tensor, scatter_list: list[Tensor], mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False,
    *, group_src: int = 0,
) -> object:  # fmt: skip
    """Write to `output` this rank's tensor of the list of one rank. Return the work of an asynchronous call, else None.

    Args:
        output: tensor that receives.
        scatter_list: tensors to send, of the rank `group_src` alone.
        mesh: mesh of the ranks.
        mesh_dim: dimension of the mesh.
        async_op: whether the call returns before the tensor has arrived.
        group_src: position of the sender along the dimension.
    """
    group = mesh.get_group(mesh_dim)
    sent = scatter_list if group.rank() == group_src else None
    return scatter(output, sent, group=group, group_src=group_src, async_op=async_op)


def mesh_broadcast(
    tensor: Tensor, mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False, *, group_src: int = 0
) -> object:
    """Copy the tensor of one rank to the others along a dimension. Return the work of an asynchronous call, else None.

    Args:
        tensor: tensor that is sent or received.
        mesh: mesh of the ranks.
        mesh_dim: dimension of the mesh.
        async_op: whether the call returns before the tensor has arrived.
        group_src: position of the sender along the dimension.
    """
    return broadcast(tensor, group=mesh.get_group(mesh_dim), group_src=group_src, async_op=async_op)


def pad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """Return the tensor with zeros appended along a dimension.

    Args:
        tensor: tensor to pad.
        pad_dim: dimension.
        pad_size: number of zeros.
    """
    if not pad_size:
        return tensor
    return pad(tensor, [0, 0] * (tensor.ndim - pad_dim % tensor.ndim - 1) + [0, pad_size])


def unpad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """Return the tensor without its last elements along a dimension.

    Args:
        tensor: tensor to cut.
        pad_dim: dimension.
        pad_size: number of elements to leave out.
    """
    return tensor.narrow(pad_dim, 0, tensor.shape[pad_dim] - pad_size) if pad_size else tensor


_refuse_absent(__name__)
