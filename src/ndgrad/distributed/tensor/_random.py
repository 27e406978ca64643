"""Seeds of the random numbers of DTensors, under torch's names. All ranks draw from the same generator."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.random import manual_seed as _manual_seed

__all__ = ["is_rng_supported_mesh", "manual_seed"]


def is_rng_supported_mesh(device_mesh: DeviceMesh) -> bool:
    """True if random numbers of a DTensor on this mesh are those of the whole tensor: on every mesh.

    Args:
        device_mesh: mesh of the tensor.
    """
    return isinstance(device_mesh, DeviceMesh)


def manual_seed(seed: int, device_mesh: DeviceMesh) -> None:
    """Set the seed of the default generator. All ranks of the mesh call it with the same seed.

    Args:
        seed: seed.
        device_mesh: mesh whose ranks call this function.
    """
    if device_mesh.get_coordinate() is None:
        raise RuntimeError(
            f"manual_seed requires the current rank to be a part of the device mesh {device_mesh!r}. Call it on its "
            "ranks alone. [nd-rank]"
        )
    _manual_seed(seed)


_refuse_absent(__name__)
