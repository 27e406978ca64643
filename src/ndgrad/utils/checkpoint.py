"""`torch.utils.checkpoint`: recompute in backward instead of saving."""

from __future__ import annotations

from ndgrad._src.checkpoint import (
    SAC_IGNORED_OPS as SAC_IGNORED_OPS,
)
from ndgrad._src.checkpoint import (
    CheckpointError as CheckpointError,
)
from ndgrad._src.checkpoint import (
    CheckpointFunction as CheckpointFunction,
)
from ndgrad._src.checkpoint import (
    CheckpointPolicy as CheckpointPolicy,
)
from ndgrad._src.checkpoint import (
    DefaultDeviceType as DefaultDeviceType,
)
from ndgrad._src.checkpoint import (
    GraphExecGroup as GraphExecGroup,
)
from ndgrad._src.checkpoint import (
    SelectiveCheckpointContext as SelectiveCheckpointContext,
)
from ndgrad._src.checkpoint import (
    _CachedTorchDispatchMode as _CachedTorchDispatchMode,
)
from ndgrad._src.checkpoint import (
    _CachingTorchDispatchMode as _CachingTorchDispatchMode,
)
from ndgrad._src.checkpoint import (
    check_backward_validity as check_backward_validity,
)
from ndgrad._src.checkpoint import (
    checkpoint as checkpoint,
)
from ndgrad._src.checkpoint import (
    checkpoint_sequential as checkpoint_sequential,
)
from ndgrad._src.checkpoint import (
    create_selective_checkpoint_contexts as create_selective_checkpoint_contexts,
)
from ndgrad._src.checkpoint import (
    detach_variable as detach_variable,
)
from ndgrad._src.checkpoint import (
    get_device_states as get_device_states,
)
from ndgrad._src.checkpoint import (
    noop_context_fn as noop_context_fn,
)
from ndgrad._src.checkpoint import (
    set_checkpoint_debug_enabled as set_checkpoint_debug_enabled,
)
from ndgrad._src.checkpoint import (
    set_checkpoint_early_stop as set_checkpoint_early_stop,
)
from ndgrad._src.checkpoint import (
    set_device_states as set_device_states,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]
