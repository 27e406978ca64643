"""torch's `distributed.tensor.experimental`: sequences divided among ranks, and functions of local tensors."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.tensor.experimental.context_parallel import context_parallel, context_parallel_unshard
from ndgrad.distributed.tensor.experimental.local_map import local_map
from ndgrad.distributed.tensor.experimental.ring_attention import ring_attention
from ndgrad.distributed.tensor.planning import implicit_replication

__all__ = ["context_parallel", "context_parallel_unshard", "implicit_replication", "local_map", "ring_attention"]

_refuse_absent(__name__)
