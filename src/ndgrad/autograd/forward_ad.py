"""`torch.autograd.forward_ad`: explicit dual tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.interpreters.forward_ad import (  # noqa: F401  # torch programs import these private names
    UnpackedDualTensor,
    _is_fwd_grad_enabled,
    _set_fwd_grad_enabled,
    current_level,
    dual_level,
    enter_dual_level,
    exit_dual_level,
    is_fwd_grad_enabled,
    make_dual,
    set_fwd_grad_enabled,
    unpack_dual,
)

__all__ = [
    "UnpackedDualTensor",
    "current_level",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "is_fwd_grad_enabled",
    "make_dual",
    "set_fwd_grad_enabled",
    "unpack_dual",
]

if TYPE_CHECKING:
    _current_level: int
else:

    def __getattr__(name: str) -> int:
        if name == "_current_level":  # a variable in torch
            return current_level()
        raise AttributeError(f"module 'ndgrad.autograd.forward_ad' has no attribute {name!r}")
