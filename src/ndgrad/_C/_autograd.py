"""`torch._C._autograd`: hooks on saved tensors without a block, and other names that libraries use."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import thread
from ndgrad._src.core.saved_access import SavedTensor
from ndgrad._src.core.saved_hooks import saved_tensors_hooks
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


__all__ = ["DeviceType", "SavedTensor"]


class DeviceType(enum.IntEnum):
    """Numbers of device kinds."""

    CPU = 0
    CUDA = 1
    Meta = 11


_pushed: list[saved_tensors_hooks] = []


def _push_saved_tensors_default_hooks(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
    """Enter `saved_tensors_hooks(pack, unpack)`, until it is popped."""
    made = saved_tensors_hooks(pack, unpack)
    made.__enter__()
    _pushed.append(made)


def _pop_saved_tensors_default_hooks() -> None:
    """Leave the hooks that were pushed last."""
    _pushed.pop().__exit__(None, None, None)


def _saved_tensors_hooks_is_enabled() -> bool:
    """True if hooks on saved tensors may be used."""
    return thread.saved_hooks_disabled is None


def _saved_tensors_hooks_disable(error_message: str) -> None:
    """Make hooks on saved tensors raise, with this message."""
    thread.saved_hooks_disabled = error_message


def _saved_tensors_hooks_enable() -> None:
    """Allow hooks on saved tensors again."""
    thread.saved_hooks_disabled = None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """Return the message that hooks on saved tensors raise; None if they may be used."""
    return thread.saved_hooks_disabled


def _get_data_attr(t: Tensor) -> Tensor:
    """Return `t.data`, for a tensor of any class."""
    return t.detach()


_refuse_absent(__name__)
