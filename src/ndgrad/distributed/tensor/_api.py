"""torch's name for the module of `DTensor`."""

from __future__ import annotations

from collections.abc import Sequence

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.tensor.dtensor import DTensor, distribute_module, distribute_tensor
from ndgrad.distributed.tensor.placements import Placement

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


def _shard_tensor(
    full_tensor: Tensor, placements: Sequence[Placement], device_mesh: DeviceMesh | None = None
) -> DTensor:
    """Return the DTensor of a whole that every rank has: each rank keeps its part, and nothing is sent.

    Args:
        full_tensor: the whole, the same on all ranks.
        placements: placement for each dimension of the mesh.
        device_mesh: mesh over which the tensor is spread. The default is that of all ranks.
    """
    return distribute_tensor(full_tensor, device_mesh, placements, src_data_rank=None)


_refuse_absent(__name__)
