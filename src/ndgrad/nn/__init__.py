"""Neural networks: the functions that layers are made of."""

from __future__ import annotations

from ndgrad.nn import functional

__all__ = ["functional"]
