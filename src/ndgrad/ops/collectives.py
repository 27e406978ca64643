"""torch's names of collectives, as keys of `CommDebugMode.get_comm_counts()`.

`ops.c10d_functional.all_reduce` is the string "all_reduce", by which ndgrad counts.
"""

from __future__ import annotations

from types import SimpleNamespace

_FUNCTIONAL = {
    "all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all", "broadcast": "broadcast", "all_reduce_coalesced": "all_reduce",
    "all_gather_into_tensor_coalesced": "all_gather", "reduce_scatter_tensor_coalesced": "reduce_scatter",
}  # fmt: skip
_WRITING = {
    "allreduce_": "all_reduce", "_allgather_base_": "all_gather", "allgather_": "all_gather", "broadcast_": "broadcast",
    "_reduce_scatter_base_": "reduce_scatter", "reduce_scatter_": "reduce_scatter", "scatter_": "scatter",
    "gather_": "gather", "alltoall_": "all_to_all", "alltoall_base_": "all_to_all", "reduce_": "reduce",
    "allgather_into_tensor_coalesced_": "all_gather", "reduce_scatter_tensor_coalesced_": "reduce_scatter",
}  # fmt: skip

c10d_functional = SimpleNamespace(**_FUNCTIONAL)
c10d = SimpleNamespace(**_WRITING)
_dtensor = SimpleNamespace(shard_dim_alltoall="all_to_all")

NAMESPACES = {
    "c10d_functional": c10d_functional,
    "_c10d_functional": c10d_functional,
    "c10d": c10d,
    "_dtensor": _dtensor,
}
