"""Libraries that have a place for others' arrays: when one is imported, before or after this package, ours takes its
place.

einops looks for backends among the subclasses of its own, and scipy.fft asks those that were registered. Nothing is
imported for the user: a finder waits for the import of such a library, and adds ours when it is done.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The library, and the module of ours that takes the place.
PLACES = {"einops": "ndgrad.compat.einops", "scipy.fft": "ndgrad.scipy._fft_backend"}


class _Loader(importlib.abc.Loader):
    """The library's own loader, and ours after it."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader, self._name = loader, name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _take(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the finders after it find, for the libraries of PLACES alone."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in PLACES:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, fullname)
                found: ModuleSpec = spec
                return found
        return None


def _take(name: str) -> None:
    # A version of the library without that place says by itself what it does not take.
    with suppress(ImportError):
        importlib.import_module(PLACES[name])


def watch() -> None:
    """Take the place in libraries that are there, and in those that will be."""
    for name in PLACES:
        if name in sys.modules:
            _take(name)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
