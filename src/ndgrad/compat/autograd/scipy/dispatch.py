"""Choice of a function: SciPy's for plain values, ndgrad.scipy's for Arrays or if a function of the user is
differentiated.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from ndgrad._src.core.modes import thread
from ndgrad.numpy.coercion import holds_tensors


def _needs_ours(values: Any) -> bool:
    # A function among the arguments may close over differentiated values.
    return holds_tensors(values) or (bool(thread.levels or thread.dual_levels) and any(callable(v) for v in values))


def choose_by_arguments(theirs: Any, ours: Any) -> Any:
    """Wrap a SciPy function to check its arguments first."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (ours if _needs_ours((*args, *kwargs.values())) else theirs)(*args, **kwargs)

    return call


class Distribution:
    """A distribution whose methods check their arguments first."""

    def __init__(self, theirs: Any, ours: Any) -> None:
        self._theirs, self._ours = theirs, ours

    def __getattr__(self, name: str) -> Any:
        theirs, ours = getattr(self._theirs, name), getattr(self._ours, name, None)
        return choose_by_arguments(theirs, ours) if callable(theirs) and callable(ours) else theirs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._ours if holds_tensors((*args, *kwargs.values())) else self._theirs)(*args, **kwargs)

    def __dir__(self) -> list[str]:
        return dir(self._theirs)


def finder(submodule: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a submodule."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module scipy.{submodule} has no attribute {name!r}")
        theirs_module = importlib.import_module(f"scipy.{submodule}")
        theirs = getattr(theirs_module, name)
        ours = (
            getattr(importlib.import_module(f"ndgrad.scipy.{submodule}"), name, None)
            if not name.startswith("_")
            else None
        )
        if ours is None or ours is theirs or isinstance(theirs, type):
            return theirs
        if hasattr(theirs, "rvs") or hasattr(theirs, "logpdf"):
            return Distribution(theirs, ours)
        return choose_by_arguments(theirs, ours) if callable(theirs) else theirs

    def names() -> list[str]:
        # dir() must not fail if SciPy is not installed.
        return dir(importlib.import_module(f"scipy.{submodule}")) if importlib.util.find_spec("scipy") else []

    return find, names
