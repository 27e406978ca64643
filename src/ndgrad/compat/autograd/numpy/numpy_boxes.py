"""The type of a value that is being differentiated."""

from __future__ import annotations

from ndgrad.numpy.array import Array as ArrayBox

__all__ = ["ArrayBox"]
