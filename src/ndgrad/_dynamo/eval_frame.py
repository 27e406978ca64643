"""torch's module of the class of compiled modules."""

from __future__ import annotations

from ndgrad.nn.modules.compiled import CompiledModule as OptimizedModule

__all__ = ["OptimizedModule"]
