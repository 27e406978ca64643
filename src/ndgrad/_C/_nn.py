"""`torch._C._nn`: the arguments of `Module.to`, and functions of `nn.functional` under the names of their kernels."""

from __future__ import annotations

from typing import Any

from ndgrad._src.foundations import devices as _devices
from ndgrad._src.tensor.functions.convert import _read_to
from ndgrad.nn import functional as _functional


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return device, dtype, non_blocking and memory format of the arguments of `to`."""
    dtype, device, _, memory_format, non_blocking = _read_to(args, kwargs)
    return None if device is None else _devices.device(device), dtype, bool(non_blocking), memory_format


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_functional, name)
