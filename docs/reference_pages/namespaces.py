"""The public names and namespaces that the reference must show.

Namespaces are found, not listed, so that a new one appears automatically: those that `dir(ndgrad)`
shows, and below each the submodules that it lists itself or that torch has under the same name. The names of a
namespace are those of its `__dir__` or `__all__`. A namespace without either shows its own definitions.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.torch_parity import names as torch_names

import ndgrad

#: Headings of the reference, each with the prefixes of the namespaces below it; the longest prefix counts.
HEADINGS = {
    "Tensors and functions": "ndgrad ndgrad.Tensor ndgrad.linalg ndgrad.fft ndgrad.special ndgrad.random ndgrad.signal ndgrad.masked ndgrad.sparse "
    "ndgrad.return_types ndgrad.nested",
    "Derivatives": "ndgrad.autograd ndgrad.func ndgrad.implicit ndgrad.functorch ndgrad.library ndgrad.overrides",
    "NumPy's tensor class": "ndgrad.numpy ndgrad.array_api ndgrad.compat",
    "SciPy, differentiable": "ndgrad.scipy",
    "Networks and training": "ndgrad.nn ndgrad.optim ndgrad.amp ndgrad.utils ndgrad.distributions ndgrad.ao ndgrad.quantization",
    "Looking inside": "ndgrad.profiler ndgrad.viz ndgrad.testing ndgrad.compiler ndgrad.jit ndgrad.fx ndgrad.errors ndgrad.export ndgrad.onnx ndgrad._src.debug",
    "Devices and processes": "ndgrad.cuda ndgrad.cpu ndgrad.accelerator ndgrad.mps ndgrad.xpu ndgrad.mtia ndgrad.backends ndgrad.multiprocessing "
    "ndgrad.distributed ndgrad.futures",
    "The rest": "ndgrad.types ndgrad.version ndgrad.torch_version",
}
_THE_REST = "The rest"
#: Namespaces of torch that the comparison does not list.
ALSO_IN_TORCH = (
    "torch.nn.attention.bias",
    "torch.nn.attention.flex_attention",
    "torch.distributions.utils",
    "torch.utils.data.distributed",
)
#: Not shown name by name: the op table has its own pages, and these are NumPy and SciPy themselves under another name.
APART = ("ndgrad.ops", "ndgrad.compat.autograd.numpy", "ndgrad.compat.autograd.scipy")
#: Classes that have their own pages, as namespaces have.
CLASSES = ("ndgrad.Tensor", "ndgrad.numpy.Array")


@dataclass
class Namespace:
    """A public module, or a class with its own pages: its name, itself, and its public names in order."""

    name: str
    home: Any
    names: list[str] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        return inspect.isclass(self.home)

    @property
    def heading(self) -> str:
        best, found = -1, _THE_REST
        for heading, beginnings in HEADINGS.items():
            for beginning in beginnings.split():
                if (
                    self.name == beginning or (self.name.startswith(beginning + ".") and beginning != "ndgrad")
                ) and len(beginning) > best:
                    best, found = len(beginning), heading
        return found


def is_module(value: Any) -> bool:
    return isinstance(value, ModuleType)


@functools.cache
def namespaces() -> dict[str, Namespace]:
    """Return every public namespace by name, parents before children."""
    found: dict[str, Namespace] = {}
    _visit(ndgrad, found)
    for name in CLASSES:
        module, _, last = name.rpartition(".")
        home = getattr(importlib.import_module(module), last)
        found[name] = Namespace(
            name, home, sorted(n for n in dir(home) if not n.startswith("_") and _ours_in_class(home, n))
        )
    return found


def _visit(module: ModuleType, found: dict[str, Namespace]) -> None:
    if module.__name__ in found or module.__name__ in APART:
        return
    found[module.__name__] = Namespace(module.__name__, module, public_names(module))
    for name in _children(module):
        try:
            _visit(importlib.import_module(f"{module.__name__}.{name}"), found)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.startswith("ndgrad"):
                raise
            # An optional library is not installed: the reference of a smaller installation is smaller.


def _children(module: ModuleType) -> list[str]:
    """Return the submodules of a namespace that are public themselves."""
    files = {
        info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ())) if not info.name.startswith("_")
    }
    listed = set(vars(module).get("_SUBMODULES", ())) | set(getattr(module, "__all__", ()))
    if "__dir__" in vars(module):
        listed |= set(dir(module))
    if not listed and not public_names(module):
        listed = files  # a package that only holds others
    return sorted(name for name in files if name in listed or _is_elsewhere(f"{module.__name__}.{name}"))


def _is_elsewhere(name: str) -> bool:
    """True if torch has a namespace of this name too, or if it lists its names: then programs look for it here."""
    if name.startswith("ndgrad.scipy."):
        return "__dir__" in vars(importlib.import_module(name))
    return "torch" + name.removeprefix("ndgrad") in (*torch_names.NAMESPACES, *ALSO_IN_TORCH)


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module, without its submodules, sorted."""
    if "__dir__" in vars(module):
        names = set(dir(module))
    elif hasattr(module, "__all__"):
        names = set(module.__all__)
    else:
        names = {name for name in vars(module) if _is_own(vars(module)[name], module.__name__)}
    return sorted(name for name in names if not name.startswith("_") and not is_module(getattr(module, name, None)))


def _is_own(value: Any, home: str) -> bool:
    """True if a module without a list of names defines a value, instead of importing it."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return getattr(value, "__module__", None) == home
    return False


def _ours_in_class(owner: type[Any], name: str) -> bool:
    """True if an attribute of a class comes from this package, not from NumPy's or Python's classes."""
    for cls in owner.__mro__:
        if name in vars(cls):
            return cls.__module__.partition(".")[0] == "ndgrad"
    return True


def get(namespace: Namespace, name: str) -> Any:
    """Return the value of a public name; for a class, the attribute itself (a property, not its value)."""
    if not namespace.is_class:
        return getattr(namespace.home, name)
    static = inspect.getattr_static(namespace.home, name)
    return static if isinstance(static, (property, functools.cached_property)) else getattr(namespace.home, name)
