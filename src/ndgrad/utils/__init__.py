"""torch's `utils` namespace: checkpointing, dispatch modes, trees. Each part is loaded when first used."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = frozenset(("_python_dispatch", "_pytree", "checkpoint", "data", "hooks"))


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"ndgrad.utils.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ndgrad.utils.{name}":
                raise
    raise AttributeError(f"module 'ndgrad.utils' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_SUBMODULES)
