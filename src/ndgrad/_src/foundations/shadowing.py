"""Packages in which a function has the name of the file that it comes from, as `autograd.gradcheck` in torch.

Importing the file would put the module where the function belongs. In such a package the function keeps its place, and
the module is reached by `from package.name import ...`.
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
    """In a package, let these names mean the functions, whether or not their files have been imported."""
    module = sys.modules[package]
    module.__dict__["_shadowing"] = frozenset(names)
    module.__class__ = _Package
