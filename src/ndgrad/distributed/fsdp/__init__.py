"""torch's `distributed.fsdp`: modules whose parameters are divided among the ranks."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.fsdp import wrap
from ndgrad.distributed.fsdp.fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)
from ndgrad.distributed.fsdp.wrapped import (
    BackwardPrefetch,
    CPUOffload,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullStateDictConfig",
    "FullyShardedDataParallel", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictType", "UnshardHandle", "fully_shard",
    "register_fsdp_forward_method", "wrap",
]  # fmt: skip

_refuse_absent(__name__)
