"""Packages in which a function has the same name as its file, such as torch's `autograd.gradcheck`.

Importing the file would replace the function by the module. In such a package the function keeps its name, and the
module is reached by `from package.name import ...`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    _shadowing: frozenset[str]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in self._shadowing:
            value = getattr(value, name)
        super().__setattr__(name, value)


def prefer_functions(package: str, *names: str) -> None:
    """Let these names of a package mean the functions, even after their files have been imported."""
    module = sys.modules[package]
    module.__dict__["_shadowing"] = frozenset(names)
    module.__class__ = _Package
