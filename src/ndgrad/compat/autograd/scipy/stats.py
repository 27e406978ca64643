"""scipy.stats, with derivatives from ndgrad.scipy.stats. Distributions can be imported like modules, as in HIPS
autograd.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from ndgrad.compat.autograd.scipy.dispatch import finder

__getattr__, __dir__ = finder("stats")


class _DistributionModule(ModuleType):
    """Module of a distribution, for `import ndgrad.compat.autograd.scipy.stats.norm as norm`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(sys.modules[__name__], self.__name__.rpartition(".")[2]), name)


for _name in importlib.import_module("ndgrad.scipy.stats").__all__:
    sys.modules[f"{__name__}.{_name}"] = _DistributionModule(f"{__name__}.{_name}")
