"""`torch.autograd.grad_mode`: contexts that switch recording on and off."""

from __future__ import annotations

from ndgrad._src.core.grad_mode import (
    ContextSwitch as ContextSwitch,
)
from ndgrad._src.core.grad_mode import (
    FieldSwitch as FieldSwitch,
)
from ndgrad._src.core.grad_mode import (
    Mode as Mode,
)
from ndgrad._src.core.grad_mode import (
    Switch as Switch,
)
from ndgrad._src.core.grad_mode import (
    _enter_inference_mode as _enter_inference_mode,
)
from ndgrad._src.core.grad_mode import (
    _exit_inference_mode as _exit_inference_mode,
)
from ndgrad._src.core.grad_mode import (
    _force_original_view_tracking as _force_original_view_tracking,
)
from ndgrad._src.core.grad_mode import (
    _unsafe_preserve_version_counter as _unsafe_preserve_version_counter,
)
from ndgrad._src.core.grad_mode import (
    enable_grad as enable_grad,
)
from ndgrad._src.core.grad_mode import (
    enforce_grad_layout_policy as enforce_grad_layout_policy,
)
from ndgrad._src.core.grad_mode import (
    inference_mode as inference_mode,
)
from ndgrad._src.core.grad_mode import (
    is_grad_enabled as is_grad_enabled,
)
from ndgrad._src.core.grad_mode import (
    is_inference_mode_enabled as is_inference_mode_enabled,
)
from ndgrad._src.core.grad_mode import (
    is_multithreading_enabled as is_multithreading_enabled,
)
from ndgrad._src.core.grad_mode import (
    is_view_replay_enabled as is_view_replay_enabled,
)
from ndgrad._src.core.grad_mode import (
    no_grad as no_grad,
)
from ndgrad._src.core.grad_mode import (
    set_grad_enabled as set_grad_enabled,
)
from ndgrad._src.core.grad_mode import (
    set_multithreading_enabled as set_multithreading_enabled,
)

__all__ = [
    "ContextSwitch",
    "FieldSwitch",
    "Mode",
    "Switch",
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
