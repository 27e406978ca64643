"""Blocks without dispatch modes, under torch's private module name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad.overrides import DisableTorchFunction
from ndgrad.utils._python_dispatch import _disable_current_modes

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Any) -> bool:
    """True if all modes are the same object."""
    return all(mode is modes[0] for mode in modes)


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Return a block in which neither modes nor classes of tensors are asked."""
    with _disable_current_modes(), DisableTorchFunction():
        yield
