"""`torch.ops`: ops by namespace, `ops.aten.mul` for those of the table and `ops.mylib.name` for registered ones."""

from __future__ import annotations

from typing import Any

#: Paths of loaded libraries of compiled ops: there are none.
loaded_libraries: set[str] = set()


def load_library(path: str) -> None:
    """Refuse a library of compiled ops, and note that the ops of its Python part will not be defined."""
    from ndgrad.library import overloads  # loads transforms, which most programs do not need

    overloads.refused_libraries.append(path)
    raise OSError(
        f"load_library({path!r}): compiled ops of torch cannot be loaded. Register a Python function: "
        "ndgrad.library.custom_op. [nd-unsupported]"
    )


def __getattr__(name: str) -> Any:
    """Return a namespace of ops, empty if nothing is registered in it."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("aten", "profiler"):
        import importlib

        return importlib.import_module(f"ndgrad.ops.{name}")
    if name in ("c10d_functional", "_c10d_functional", "c10d", "_dtensor"):
        from ndgrad.ops.collectives import NAMESPACES  # rarely needed

        return NAMESPACES[name]
    from ndgrad.library.overloads import find_namespace  # loads transforms, which most programs do not need

    return find_namespace(name)
