"""Copies of batches in memory that a GPU reads directly. On the CPU, tensors stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """Call `pin_memory()` on the tensors of a batch, and on objects with such a method.

    Args:
        data: batch, which may be a container. Other values are unchanged.
        device: device that will read the memory; passed on to the method if it is given.

    >>> import ndgrad
    >>> from ndgrad.utils.data.pinning import pin_memory
    >>> pin_memory({"x": [ndgrad.ones(1)], "name": "a"})
    {'x': [tensor([1.])], 'name': 'a'}
    """
    if callable(getattr(data, "pin_memory", None)):
        return data.pin_memory() if device is None else data.pin_memory(device)
    if isinstance(data, Mapping):
        pairs = {key: pin_memory(value, device) for key, value in data.items()}
        return type(data)(pairs) if type(data) is not dict else pairs  # type: ignore[call-arg]  # a mapping of mappings
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return type(data)([pin_memory(value, device) for value in data])  # type: ignore[call-arg]  # list, tuple or like
    return data
