"""SciPy itself, with ndgrad.scipy's functions for Arrays."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = frozenset("integrate linalg misc signal special stats".split())


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"ndgrad.compat.autograd.scipy.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    return getattr(importlib.import_module("scipy"), name)


def __dir__() -> list[str]:
    return sorted(_SUBMODULES)
