"""Registration of ndgrad in libraries that accept backends: einops and scipy.fft.

einops looks for backends among the subclasses of its own base class. scipy.fft asks the registered backends. This
module imports no library for the user: it registers at once if the library is loaded, and otherwise an import hook
registers when the library is imported. The classes below have no base class of `importlib.abc`, which takes 5 % of
ndgrad's import time.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Maps each library to the ndgrad module that registers the backend.
PLACES = {"einops": "ndgrad.compat.einops", "scipy.fft": "ndgrad.scipy._fft_backend"}


class _Loader:
    """Runs the library's own loader, then registers ndgrad's backend."""

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
        _register_backend(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder:
    """Finds the libraries of PLACES through the other finders, and wraps their loaders."""

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


def _register_backend(name: str) -> None:
    # A version of the library without a backend interface raises ImportError. ndgrad then works without it.
    with suppress(ImportError):
        importlib.import_module(PLACES[name])


def watch() -> None:
    """Register the backends in libraries that are loaded, and in others when they are imported."""
    for name in PLACES:
        if name in sys.modules:
            _register_backend(name)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
