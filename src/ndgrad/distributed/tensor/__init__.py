"""torch's `distributed.tensor`: tensors spread over a mesh of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions import creation as _creation
from ndgrad._src.tensor.functions import random as _draws
from ndgrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from ndgrad.distributed.device_mesh import restore_mesh as _restore_mesh
from ndgrad.distributed.tensor import _random as _random
from ndgrad.distributed.tensor.dtensor import DTensor, _factory, distribute_module, distribute_tensor, explain
from ndgrad.distributed.tensor.dtensor import rebuild_dtensor as _rebuild_dtensor
from ndgrad.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from ndgrad.serialization.trusted_names import trust_own as _trust_own

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
    "empty", "explain", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip

_trust_own(_rebuild_dtensor, _restore_mesh, Partial, Replicate, Shard)

zeros = _factory(_creation.zeros, False)
ones = _factory(_creation.ones, False)
empty = _factory(_creation.empty, False)
rand = _factory(_draws.rand, True)
randn = _factory(_draws.randn, True)


def full(
    size: Sequence[int],
    fill_value: float,
    *,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    **kwargs: Any,
) -> DTensor:
    """Return a DTensor of this size, filled with one number.

    Args:
        size: shape of the tensor.
        fill_value: number.
        device_mesh: mesh over which the tensor is spread. The default is that of all ranks.
        placements: placement for each dimension of the mesh. The default is replicated.
        kwargs: `dtype`, `requires_grad` and other arguments of `ndgrad.zeros`.
    """
    requires_grad = kwargs.pop("requires_grad", False)
    kwargs.setdefault("dtype", _creation.full((), fill_value).dtype)
    made = zeros(size, device_mesh=device_mesh, placements=placements, **kwargs)
    return made.fill_(fill_value).requires_grad_(requires_grad)


_refuse_absent(__name__)
