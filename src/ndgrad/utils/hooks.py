"""The handle that registering a hook returns, under the name that torch programs import it by."""

from __future__ import annotations

from ndgrad.autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
