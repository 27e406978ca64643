"""torch's `distributed.algorithms.ddp_comm_hooks`: functions that replace the average of a bucket of gradients."""

from __future__ import annotations

from enum import Enum, member
from functools import partial
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks

if TYPE_CHECKING:
    from ndgrad.distributed.data_parallel import DistributedDataParallel

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """Names of the hooks of this package, for `register_ddp_comm_hook`."""

    # A bare partial is an attribute, no member, from Python 3.13 on.
    ALLREDUCE = member(partial(default_hooks.allreduce_hook))
    FP16_COMPRESS = member(partial(default_hooks.fp16_compress_hook))
    BF16_COMPRESS = member(partial(default_hooks.bf16_compress_hook))
    NOOP = member(partial(debugging_hooks.noop_hook))


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: Any = None) -> None:
    """Register a hook of this package on a data parallel module.

    Args:
        comm_hook_type: name of the hook.
        model: data parallel module.
        state: group whose ranks take part. None means all.

    >>> import ndgrad
    >>> from ndgrad.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    >>> ndgrad.distributed.init_process_group()
    >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 1))
    >>> register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, net)
    >>> net(ndgrad.ones(3, 2)).sum().backward()
    >>> net.module.bias.grad
    tensor([3.])
    >>> ndgrad.distributed.destroy_process_group()
    """
    model.register_comm_hook(state, comm_hook_type.value.func)


_refuse_absent(__name__)
