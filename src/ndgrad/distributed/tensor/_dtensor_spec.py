"""torch's description of a DTensor: mesh, placements, and the metadata of the whole tensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.tensor.placements import Placement, Spec, TensorMeta, normalize_placements, spec_of

__all__ = ["DTensorSpec", "TensorMeta"]


class DTensorSpec(NamedTuple):
    """Mesh, placements and metadata of a DTensor, from which its constructor makes one.

    Args:
        mesh: mesh over which the tensor is spread.
        placements: placement for each dimension of the mesh.
        tensor_meta: metadata of the whole tensor.
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    def to_spec(self) -> Spec:
        """Return the description that this package uses."""
        meta = self.tensor_meta
        if meta is None:
            raise ValueError("DTensorSpec: tensor_meta has the shape and dtype of the whole tensor. [nd-dtensor]")
        given = normalize_placements(self.placements, self.mesh, len(meta.shape), "DTensorSpec")
        found = spec_of(self.mesh, given, tuple(int(n) for n in meta.shape), np.dtype(as_dtype(meta.dtype)))
        if tuple(meta.stride) != found.payload.element_strides():
            raise NotImplementedError(
                f"DTensorSpec: strides {tuple(meta.stride)} of a tensor of shape {tuple(meta.shape)}. The whole is "
                f"dense, of strides {found.payload.element_strides()}. [nd-unsupported]"
            )
        return found


_refuse_absent(__name__)
