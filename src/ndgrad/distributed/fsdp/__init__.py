"""torch's `distributed.fsdp`: modules whose parameters are divided among the ranks."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.fsdp.fully_shard import FSDPModule, MixedPrecisionPolicy, UnshardHandle, fully_shard

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "UnshardHandle", "fully_shard"]

_refuse_absent(__name__)
