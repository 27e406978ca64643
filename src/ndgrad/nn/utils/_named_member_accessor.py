"""`torch.nn.utils._named_member_accessor`: parameters and buffers of a module replaced by tensors."""

from __future__ import annotations

from typing import Any

from ndgrad import Tensor
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.modules.module import Module

#: Stands for an attribute that a module does not have.
_MISSING: Any = object()


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Set a parameter, buffer or attribute of a module to a tensor, which need not be a Parameter."""
    _check_name(module, name)
    for members in (module._parameters, module._buffers):
        if name in members:
            members[name] = tensor  # type: ignore[assignment]  # any tensor may take the place of a parameter
            return
    setattr(module, name, tensor)


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Set a parameter, buffer or attribute of a module to a tensor, and return its previous value.

    With `allow_missing`, a marker stands for an attribute that the module does not have, and deletes it when set.
    """
    _check_name(module, name)
    if tensor is not None and tensor is not _MISSING and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor: {name!r} takes a tensor. [nd-type]")
    for members in (module._parameters, module._buffers):
        if name in members:
            before = members[name]
            if tensor is _MISSING:
                del members[name]
            else:
                members[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not _MISSING and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor. [nd-type]")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def _check_name(module: Module, name: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module. [nd-type]")
    if not name or "." in name:
        raise KeyError(f"tensor name can't be empty or contain a dot: {name!r}. Pass the submodule. [nd-module]")


_refuse_absent(__name__)
