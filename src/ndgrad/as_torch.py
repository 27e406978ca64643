"""Run files with `import torch` on this package.

    with ndgrad.install_as_torch():
        import training          # which imports torch, torch.nn, ...

    python -m ndgrad.as_torch training.py --epochs 3

`torch` is then a thin module over this package: the same functions, classes and submodules (`torch.nn is ndgrad.nn`;
nothing is loaded twice), with the version of torch whose interface it follows. A finder handles imports of submodules:
it returns the module of that name, or raises an error with the reason of its absence.

A process has one `torch`. If the real one has been imported already, this raises an error, since its tensors and ours
do not mix. Libraries built for the real one (such as torchvision) need that one.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import ndgrad
from ndgrad import version
from ndgrad._src.foundations import package_name
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.missing_names import explain
from ndgrad.torch_version import TorchVersion

__all__ = ["install_as_torch", "uninstall_as_torch"]

#: The value of `torch.__version__`.
VERSION = TorchVersion(f"{version.torch}+ndgrad.{version.__version__}")
_lock = make_lock()


class _Torch(ModuleType):
    """The module `torch`: its attributes and assignments are those of this package."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(ndgrad, name)
        if callable(found):
            vars(self)[name] = found  # functions and classes are constant; other attributes may change
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            vars(self).pop(name, None)
            setattr(ndgrad, name, value)

    def __delattr__(self, name: str) -> None:
        vars(self).pop(name, None)
        delattr(ndgrad, name)

    def __dir__(self) -> list[str]:
        return dir(ndgrad)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import finder of `torch` and its submodules."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin="ndgrad", is_package=True)

    def create_module(self, spec: Any) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module created for the import by the module of this package in sys.modules, from which Python
        then reads it.
        """
        name = module.__name__
        sys.modules[name] = _make_torch() if name == "torch" else _find_module(name)


def _make_torch() -> _Torch:
    made = _Torch("torch", ndgrad.__doc__)
    vars(made).update(__version__=VERSION, __path__=[], __file__=ndgrad.__file__, __package__="torch")
    vars(made)["__spec__"] = importlib.machinery.ModuleSpec("torch", _finder, origin="ndgrad", is_package=True)
    return made


def _find_module(name: str) -> ModuleType:
    """Return the module of this package for `torch.x.y`."""
    here = "ndgrad" + name.removeprefix("torch")
    try:
        return importlib.import_module(here)
    except ModuleNotFoundError as error:
        if error.name is None or not (here == error.name or here.startswith(f"{error.name}.")):
            raise
    parent, _, last = here.rpartition(".")
    value = getattr(importlib.import_module(parent), last, None)  # a module under another name
    if isinstance(value, ModuleType):
        return value
    told = explain(parent, last) or ". docs/absent.md lists what is not here"
    raise ModuleNotFoundError(f"No module named {name!r} in ndgrad{told} [nd-absent]", name=name)


_finder = _Finder()


class install_as_torch:
    """Make `import torch` import this package from now on; as a context manager, until the block ends.

    >>> import ndgrad
    >>> with ndgrad.install_as_torch():  # doctest: +SKIP
    ...     import torch
    ...     import torch.nn.functional as F
    ...     print(torch.nn is ndgrad.nn, F.relu(torch.tensor(-1.0)))
    True tensor(0.)
    """

    def __init__(self) -> None:
        with _lock:
            there = sys.modules.get("torch")
            if there is not None and not isinstance(there, _Torch):
                raise RuntimeError(
                    f"install_as_torch: torch {getattr(there, '__version__', '')} has been imported in this process, "
                    f"from {getattr(there, '__file__', 'an unknown place')}. Install before anything imports it, or "
                    "run the script with `python -m ndgrad.as_torch script.py`. [nd-call-order]"
                )
            self._was_there = _finder in sys.meta_path
            if not self._was_there:
                sys.meta_path.insert(0, _finder)
                package_name.package = "torch"

    def __enter__(self) -> ModuleType:
        return importlib.import_module("torch")

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._was_there:
            uninstall_as_torch()


def uninstall_as_torch() -> None:
    """Make `import torch` import the real one again. Modules that have imported it keep their reference.

    >>> import ndgrad
    >>> ndgrad.uninstall_as_torch()
    """
    with _lock:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
            package_name.package = "ndgrad"
        if isinstance(sys.modules.get("torch"), _Torch):
            for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
                del sys.modules[name]


def main(arguments: Sequence[str]) -> int:
    """Run a script, or with -m a module, in which `import torch` imports this package."""
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print("usage: python -m ndgrad.as_torch (script.py | -m module) [argument ...]")
        return 0 if arguments and arguments != ["-m"] else 2
    install_as_torch()
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(arguments[0])
    if not script.is_file():
        print(f"python -m ndgrad.as_torch: there is no file {str(script)!r}", file=sys.stderr)
        return 2
    sys.argv = list(arguments)
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    # Use the package's own copy: this module is called __main__, and would be a second finder.
    raise SystemExit(importlib.import_module("ndgrad.as_torch").main(sys.argv[1:]))
