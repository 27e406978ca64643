"""Sizes and offsets of the parts of a DTensor, under torch's names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.tensor.placements import Divided, Partial, Placement, Replicate

__all__ = ["compute_global_tensor_info", "compute_global_tensor_shape", "compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this rank's part, and the position of its first element in the whole.

    Args:
        global_shape: shape of the whole.
        mesh: mesh over which the tensor is spread.
        placements: placement for each dimension of the mesh.
        skip_offset: whether the position is left out, as an empty tuple.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard
    >>> from ndgrad.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> compute_local_shape_and_global_offset((4, 2), mesh, [Shard(0)])
    ((4, 2), (0, 0))
    >>> ndgrad.distributed.destroy_process_group()
    """
    at = mesh.get_coordinate()
    if at is None:
        return (0,), ()
    shape, offset = [int(n) for n in global_shape], [0] * len(global_shape)
    places = [np.arange(n) for n in shape]
    for i, placement in enumerate(placements):
        if isinstance(placement, Divided):
            dim = placement.dim % len(shape)
            sizes = placement.piece_sizes(shape[dim], mesh.size(i))
            order = placement.order(shape[dim], mesh.size(i))
            before = sum(sizes[: at[i]])
            shape[dim] = sizes[at[i]]
            sorted_by_rank = places[dim] if order is None else places[dim][list(order)]
            places[dim] = sorted_by_rank[before : before + shape[dim]]
            # A rank without elements is at the end of the whole.
            offset[dim] = int(places[dim][0]) if shape[dim] else int(global_shape[dim])
    return tuple(shape), () if skip_offset else tuple(offset)


def compute_global_tensor_info(
    tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """Return the shape and strides of the whole for a part, if all parts are as large.

    Args:
        tensor: this rank's part.
        mesh: mesh over which the tensor is spread.
        placements: placement for each dimension of the mesh.
    """
    shape, strides = list(tensor.shape), list(tensor.stride())
    for i, placement in enumerate(placements):
        if isinstance(placement, Divided):
            dim = placement.dim
            if dim < 0:
                raise AssertionError(
                    f"Shard placements should have negative dims normalized in the user-facing APIs: {placement!r}. "
                    "[nd-dtensor]"
                )
            if dim >= tensor.ndim:
                raise AssertionError(
                    f"Sharding dim {dim} greater than tensor ndim {tensor.ndim} for placement number {i}. [nd-dtensor]"
                )
            count = mesh.size(i)
            shape[dim] *= count
            inner = tensor.stride(dim)
            for j in range(len(strides)):
                if j != dim and tensor.stride(j) >= inner and not (tensor.stride(j) == inner and j > dim):
                    strides[j] *= count
        elif not isinstance(placement, (Replicate, Partial)):
            raise RuntimeError(f"placement type {type(placement)} not supported. [nd-dtensor]")
    return shape, strides


def compute_global_tensor_shape(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[int, ...]:
    """Return the shape of the whole, if all parts are as large as `shape`.

    Args:
        shape: shape of this rank's part.
        mesh: mesh over which the tensor is spread.
        placements: placement for each dimension of the mesh.
    """
    whole = [int(n) for n in shape]
    for i, placement in enumerate(placements):
        if isinstance(placement, Divided):
            whole[placement.dim] *= mesh.size(i)
    return tuple(whole)


_refuse_absent(__name__)
