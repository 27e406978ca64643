"""Modules with allocated but uninitialised parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Create a module without initialising its parameters and buffers.

    Args:
        module_cls: class of the module, whose constructor takes `device`.
        *args, **kwargs: arguments of the constructor. `device` is the device of the module, by default the CPU.

    >>> import ndgrad
    >>> ndgrad.nn.utils.skip_init(ndgrad.nn.Linear, 2, 3).weight.shape
    ndgrad.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls} [nd-type]")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"Module must support a 'device' arg to skip initialization, and {module_cls.__name__} takes none. "
            "[nd-module]"
        )
    device: Device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
