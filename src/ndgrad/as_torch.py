"""Run files with `import torch` on this package.

    with ndgrad.install_as_torch():
        import training          # which imports torch, torch.nn, ...

    python -m ndgrad.as_torch training.py --epochs 3
    python -m ndgrad.as_torch --install      # every `import torch` of this environment, until --uninstall

`torch` is then a thin module over this package: the same functions, classes and submodules (`torch.nn is ndgrad.nn`;
nothing is loaded twice), with the version of torch whose interface it follows. A finder handles imports of submodules:
it returns the module of that name, or raises an error with the reason of its absence.

A process has one `torch`. If the real one has been imported already, this raises an error, since its tensors and ours
do not mix. Compiled ops of libraries (such as torchvision's `nms`) need that one.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import ndgrad
from ndgrad import version
from ndgrad._src.foundations import module_names, package_name
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.missing_names import explain
from ndgrad._src.tensor import float_warnings
from ndgrad.torch_version import TorchVersion

__all__ = ["install_as_torch", "uninstall_as_torch"]

#: The value of `torch.__version__`.
VERSION = TorchVersion(f"{version.torch}+ndgrad.{version.__version__}")
#: Packages of this library that torch does not have.
_OWN = frozenset("array_api as_torch compat implicit launch npz numpy pytree safetensors scipy viz".split())
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
            return
        vars(self).pop(name, None)
        # The import system stores a loaded submodule in its package, where this package finds it by itself.
        if not (isinstance(value, ModuleType) and sys.modules.get(f"torch.{name}") is value):
            setattr(ndgrad, name, value)

    def __delattr__(self, name: str) -> None:
        vars(self).pop(name, None)
        delattr(ndgrad, name)

    def __dir__(self) -> list[str]:
        return dir(ndgrad)


class _PendingModule(ModuleType):
    """A submodule of torch in `sys.modules` before its first use.

    Programs look for modules there (`if "torch.nn.init" in sys.modules`), and change their attributes. The first access
    to an attribute imports the module of this package and puts it into `sys.modules` instead. Attributes that tools
    read from every loaded module (`__file__`, `__warningregistry__`) are absent and import nothing.
    """

    def __getattribute__(self, name: str) -> Any:
        if name == "__spec__":
            # Marked as being imported: `importlib` then reads sys.modules again, and returns the loaded module.
            spec = importlib.machinery.ModuleSpec(self.__name__, _finder, origin="ndgrad", is_package=True)
            spec._initializing = True  # type: ignore[attr-defined]  # read by importlib
            _load_pending(self)
            return spec
        if name[:2] == "__" and name not in _LOADING:
            return super().__getattribute__(name)
        return getattr(_load_pending(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_load_pending(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_load_pending(self), name)

    def __dir__(self) -> list[str]:
        return dir(_load_pending(self))


#: Attributes with underscores that import a pending module.
_LOADING = frozenset(("__all__", "__dict__", "__getattr__", "__path__"))


def _load_pending(module: _PendingModule) -> ModuleType:
    found = _find_module(module.__name__)
    if sys.modules.get(module.__name__) is module:
        sys.modules[module.__name__] = found
    return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import finder of `torch`, `functorch` and their submodules."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname.partition(".")[0] not in ("torch", "functorch"):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin="ndgrad", is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Yield the metadata of `torch`, which `importlib.metadata` looks for. An installed package has its own."""
        if getattr(context, "name", None) not in (None, "torch"):
            return
        import importlib.metadata as metadata  # few programs ask for versions

        class TorchDistribution(metadata.Distribution):
            def read_text(self, filename: str) -> str | None:
                return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename == "METADATA" else None

            def locate_file(self, path: Any) -> Any:
                return Path(ndgrad.__file__).parent / path

        if not _is_installed:
            yield TorchDistribution()

    def create_module(self, spec: Any) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module created for the import by the module of this package in sys.modules, from which Python
        then reads it.
        """
        name = module.__name__
        sys.modules[name] = _make_torch() if name == "torch" else _find_module(name)


def _make_torch() -> _Torch:
    """Return the module `torch`, and put its submodules into `sys.modules`."""
    made = _Torch("torch", ndgrad.__doc__)
    vars(made).update(__version__=VERSION, __path__=[], __file__=ndgrad.__file__, __package__="torch", torch=made)
    vars(made)["__spec__"] = importlib.machinery.ModuleSpec("torch", _finder, origin="ndgrad", is_package=True)
    for name in list_modules():
        here = sys.modules.get(f"ndgrad.{module_names.aliases().get(name, name)}")
        sys.modules.setdefault(f"torch.{name}", here or _PendingModule(f"torch.{name}"))
    return made


def list_modules() -> Iterator[str]:
    """Iterate over the public modules of torch that are here, without `torch.`."""
    for root, folders, files in os.walk(Path(ndgrad.__file__).parent):
        parts = Path(root).relative_to(Path(ndgrad.__file__).parent).parts
        folders[:] = [f for f in folders if f != "__pycache__" and not (f == "_src" or (not parts and f in _OWN))]
        for file in files:
            name = file.removesuffix(".py")
            if name != file and not name.startswith("__") and (parts or name not in _OWN):
                yield ".".join((*parts, name))
        if parts and "__init__.py" in files:
            yield ".".join(parts)
    yield from module_names.aliases()


def _find_module(name: str) -> ModuleType:
    """Return the module of this package for `torch.x.y`."""
    name = "torch." + name if name.startswith("functorch") else name
    wanted = name.removeprefix("torch.")
    here = f"ndgrad.{module_names.resolve(wanted)}".rstrip(".")
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
#: True if the package `torch` of this environment, with metadata of its own, is in use.
_is_installed = False


def run_torch_package() -> None:
    """Replace the installed package `torch`, which is being imported, by this one."""
    global _is_installed
    _is_installed = True
    with _lock:
        _insert_finder()
        sys.modules["torch"] = _make_torch()


def run_functorch_package() -> None:
    """Replace the installed package `functorch`, which is being imported, by this one."""
    importlib.import_module("torch")
    sys.modules["functorch"] = _find_module("functorch")


def _insert_finder() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        package_name.package = "torch"
        float_warnings.silence_tensors()


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
            _insert_finder()

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
            float_warnings.restore_warnings()
        if isinstance(sys.modules.get("torch"), _Torch):
            for name in [n for n in sys.modules if n.partition(".")[0] in ("torch", "functorch")]:
                del sys.modules[name]


def main(arguments: Sequence[str]) -> int:
    """Run a script, or with -m a module, in which `import torch` imports this package; or install the package `torch`
    into this environment.
    """
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print("usage: python -m ndgrad.as_torch (--install | --uninstall | script.py | -m module) [argument ...]")
        return 0 if arguments and arguments != ["-m"] else 2
    if arguments[0] in ("--install", "--uninstall"):
        from ndgrad._src.command_line import torch_package  # only for this command

        return torch_package.main(arguments[0].removeprefix("--"), list(arguments[1:]))
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
