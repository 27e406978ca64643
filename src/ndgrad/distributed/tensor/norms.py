"""Norm of several tensors together, some of them spread: each rank computes its part and sends one small message.

A norm of norms is the norm of everything (of order 0, which counts, it is the sum), so a rank computes the norm of its
parts, and the ranks exchange one number. Replicated tensors count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.tensor.functions.data import tensor as make_tensor
from ndgrad.distributed import transport
from ndgrad.distributed.tensor.dtensor import DTensor
from ndgrad.distributed.tensor.placements import REPLICATE, Divided
from ndgrad.linalg import vector_norm

if TYPE_CHECKING:
    from ndgrad._src.tensor.tensor_class import Tensor


def total_norm(tensors: Sequence[Any], order: float) -> Tensor:
    """Return the norm of all tensors, as if they were one vector; all ranks call it. The norm of DTensors is a
    replicated DTensor.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard, distribute_tensor
    >>> from ndgrad.distributed.tensor.norms import total_norm
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> total_norm([distribute_tensor(ndgrad.tensor([3.0]), mesh, [Shard(0)]), ndgrad.tensor([4.0])], 2.0)
    DTensor(local_tensor=tensor(5.), device_mesh=DeviceMesh((1), 'cpu'), placements=(Replicate(),))
    >>> ndgrad.distributed.destroy_process_group()
    """
    by_groups: dict[Any, list[Any]] = {}
    for t in tensors:
        groups: tuple[Any, ...] = ()
        if isinstance(t, DTensor):
            whole_terms = tuple(REPLICATE if p.is_partial() else p for p in t.placements)
            t = t.detach()._redistribute_to(whole_terms)
            groups = tuple(
                t.device_mesh.get_group(i)
                for i, p in enumerate(t.placements)
                if isinstance(p, Divided) and t.device_mesh.size(i) > 1
            )
            t = t.to_local()
        by_groups.setdefault(groups, []).append(t.detach())
    dtype = np.result_type(*(vector_norm(t.new_zeros(1), 2.0)._array.dtype for ts in by_groups.values() for t in ts))
    found = []
    for groups, alike in by_groups.items():
        norms = [float(vector_norm(t, order)) for t in alike if t.numel()]
        part = _combine_norms(np.array(norms, np.float64), order)
        for group in groups:
            parts = np.empty(group.size(), np.float64)
            transport.all_gather(group, parts, np.array([part])).wait()
            part = _combine_norms(parts, order)
        found.append(part)
    total = make_tensor(np.asarray(_combine_norms(np.array(found), order), dtype))
    mesh = next((t.device_mesh for t in tensors if isinstance(t, DTensor)), None)
    return total if mesh is None else DTensor.from_local(total, mesh, [REPLICATE] * mesh.ndim, run_check=False)


def _combine_norms(norms: Any, order: float) -> float:
    """Return the norm of everything, from the norms of parts."""
    if not norms.size:
        return 0.0 if order >= 0 else float("inf")
    if order == 0:
        return float(norms.sum())
    return float(vector_norm(make_tensor(norms), order))
