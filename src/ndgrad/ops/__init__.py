"""The table of ops, one file per family. Ops from outside are found here by their namespace, as
`torch.ops.mylib.name` is."""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    """Namespaces that are not files. Importing a file asks here first, so nothing is loaded to answer."""
    if name in ("aten", "profiler"):
        import importlib

        return importlib.import_module(f"ndgrad.ops.{name}")
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
