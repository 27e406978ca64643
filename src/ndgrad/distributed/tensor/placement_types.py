"""torch's name for the module of placements."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.tensor.placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_Partial = Partial  # torch's older name

_refuse_absent(__name__)
