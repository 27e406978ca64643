"""torch's name for the module of placements."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.tensor.placements import Partial, Placement, Replicate, Shard, StridedShard
from ndgrad.distributed.tensor.placements import _restore_strided as _restore_strided
from ndgrad.serialization.trusted_names import trust_own as _trust_own

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_Partial = Partial  # torch's older name
_StridedShard = StridedShard
_trust_own(_restore_strided)

_refuse_absent(__name__)
