"""The type of a value that is being differentiated."""

from __future__ import annotations

from ndgrad.numpy._array import Array as ArrayBox

__all__ = ["ArrayBox"]
