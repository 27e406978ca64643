"""`torch.ops`: ops by namespace, `ops.aten.mul` for those of the table and `ops.mylib.name` for registered ones."""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a namespace of ops. Importing a submodule calls this first, so it loads nothing else."""
    if name in ("aten", "profiler"):
        import importlib

        return importlib.import_module(f"ndgrad.ops.{name}")
    if name in ("c10d_functional", "_c10d_functional", "c10d", "_dtensor"):
        from ndgrad.ops.collectives import NAMESPACES  # see above

        return NAMESPACES[name]
    library = sys.modules.get("ndgrad.library")
    if library is not None and hasattr(library, "registered"):
        found = {
            full.split("::")[1]: entry.function
            for full, entry in library.registered().items()
            if full.startswith(name + "::")
        }
        if found:
            from types import SimpleNamespace

            return SimpleNamespace(**found)
    raise AttributeError(
        f"module 'ndgrad.ops' has no attribute {name!r}, and no op is registered as '{name}::...' [nd-absent]"
    )
