"""Families of functions, loaded at import or on first use.

The second kind would together add as much to the import time as NumPy's half of the package. Their names are listed
in `lazy_names`, written by scripts/surface.py.
"""

from __future__ import annotations

import importlib
from typing import Any

from ndgrad._src.tensor.lazy_names import FUNCTIONS, METHODS
from ndgrad._src.tensor.public import publish

#: Families loaded with the package.
AT_ONCE = (
    "pointwise", "elementwise", "comparison", "reduce", "index", "data", "creation", "convert", "describe", "fill",
    "shape", "split", "join", "extremum", "product",
)  # fmt: skip
WHEN_FIRST_USED = (
    "random", "rearrange", "triangle", "norm", "scan", "statistics", "dlpack", "einsum", "matrix", "gather", "slices",
    "order", "gamma", "special", "copies", "nonzero", "histogram", "integer",
    "windows", "spectrum", "reflections", "low_rank", "sparse", "sparse_parts",
    "segments", "nested", "names",
)  # fmt: skip


def load(family: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the functions and the methods of a family."""
    return publish(importlib.import_module(f"ndgrad._src.tensor.functions.{family}"))


class LaterMethod:
    """Placeholder on the tensor class for a method whose family is not loaded yet; looking it up loads the family."""

    def __init__(self, owner: type[Any], family: str) -> None:
        self.owner, self.family = owner, family

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        for name, function in load(self.family)[1].items():
            if isinstance(vars(self.owner).get(name), LaterMethod):
                setattr(self.owner, name, function)
        return getattr(self.owner if instance is None else instance, self.name)


def namespace() -> dict[str, Any]:
    """Return every function of the package's namespace, loaded."""
    return {name: f for family in (*AT_ONCE, *WHEN_FIRST_USED) for name, f in load(family)[0].items()}


def methods() -> dict[str, Any]:
    """Return every function that is a method of tensors, loaded."""
    return {name: f for family in (*AT_ONCE, *WHEN_FIRST_USED) for name, f in load(family)[1].items()}


def function(name: str) -> Any:
    """Return a function of a family that is loaded on first use; None if the name is unknown."""
    family = FUNCTIONS.get(name)
    return None if family is None else load(family)[0][name]


def give_methods(owner: type[Any]) -> None:
    """Give a class the methods of all families."""
    for family, names in METHODS.items():
        for name in names.split():
            later = LaterMethod(owner, family)
            later.name = name
            setattr(owner, name, later)
    for family in AT_ONCE:
        for name, method in load(family)[1].items():
            setattr(owner, name, method)
