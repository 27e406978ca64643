"""SciPy's functions under SciPy's names, with derivatives.

A submodule exists if SciPy computes outside of the graph and needs a rule of ours. Each is imported on first use.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def _submodules() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"ndgrad.scipy.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ndgrad.scipy.{name}":
                raise
    raise AttributeError(
        f"module 'ndgrad.scipy' has no attribute {name!r}. It has {', '.join(_submodules())}; "
        "what SciPy computes through NumPy's functions alone works on ndgrad's Arrays without it. [nd-absent]"
    )


def __dir__() -> list[str]:
    return _submodules()
