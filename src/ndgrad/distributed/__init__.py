"""torch's `distributed` over MPI: process groups, collectives, and tensors spread over processes.

    mpiexec -n 4 python train.py        or        python -m ndgrad.launch -n 4 train.py

docs/distributed.md is the tour. mpi4py (the extra `mpi4py mpich`) carries the messages. A program that is
started alone runs as a world of one, without mpi4py.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.collectives import (
    P2POp,
    Work,
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    send,
    supports_complex,
)
from ndgrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from ndgrad.distributed.errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from ndgrad.distributed.groups import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from ndgrad.distributed.groups import _get_default_group as _get_default_group
from ndgrad.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.distributed.seeds import manual_seed_per_rank
from ndgrad.distributed.stores import FileStore, HashStore, PrefixStore, Store, TCPStore

if TYPE_CHECKING:
    from ndgrad.distributed import algorithms as algorithms
    from ndgrad.distributed import autograd as autograd
    from ndgrad.distributed import checkpoint as checkpoint
    from ndgrad.distributed import device_mesh as device_mesh
    from ndgrad.distributed import fsdp as fsdp
    from ndgrad.distributed import nn as nn
    from ndgrad.distributed import optim as optim
    from ndgrad.distributed import pipelining as pipelining
    from ndgrad.distributed import planning as planning
    from ndgrad.distributed import rpc as rpc
    from ndgrad.distributed import tensor as tensor
    from ndgrad.distributed.data_parallel import GradBucket as GradBucket

__all__ = [
    "Backend", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore",
    "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "QueueEmptyError", "ReduceOp", "Store",
    "TCPStore", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object",
    "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "default_pg_timeout", "destroy_process_group",
    "gather", "gather_object", "get_backend", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_device_mesh",
    "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "manual_seed_per_rank", "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send", "send_object_list", "supports_complex",
]  # fmt: skip

_SUBMODULES = frozenset(
    "algorithms autograd checkpoint device_mesh fsdp nn optim pipelining planning rpc tensor".split()
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name == "GradBucket":
        return _importlib.import_module(f"{__name__}.data_parallel").GradBucket
    raise AttributeError(name)


_refuse_absent(__name__)
