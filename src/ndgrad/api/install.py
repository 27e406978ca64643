"""How public functions get their places: `ndgrad.<name>`, `Tensor.<name>` and `Tensor.<name>_`.

An api module lists what it offers:
    __all__      functions written there, which become `ndgrad.<name>`
    METHODS      those of them that are also tensor methods (the first argument is the tensor)
    ELEMENTWISE  names of elementwise ops that need no argument handling: function, method and in-place method
    ALIASES      other name -> name
    SPECIAL_METHODS  Python's special method -> function

Functions of elementwise ops are generated when first called (see ndgrad.ops.generate): until then a stub stands in.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ndgrad.autograd.inplace import write
from ndgrad.ops.generate import make_eager
from ndgrad.ops.table import Op, table


def install(module: ModuleType, namespace: dict[str, Any], tensor_class: type[Any]) -> None:
    """Give the functions of an api module their places in the package's namespace and on the tensor class."""
    for name in getattr(module, "ELEMENTWISE", ()):
        op = table[name]
        namespace[name] = _function(op, namespace, tensor_class)
        setattr(tensor_class, name, namespace[name])
        if op.inplace:
            setattr(tensor_class, name + "_", in_place_method(op))
    for name in getattr(module, "__all__", ()):
        namespace[name] = getattr(module, name)
    for name in getattr(module, "METHODS", ()):
        setattr(tensor_class, name, getattr(module, name))
    for special, name in getattr(module, "SPECIAL_METHODS", {}).items():
        setattr(tensor_class, special, getattr(module, name))
    for other, name in getattr(module, "ALIASES", {}).items():
        if name in namespace:
            namespace[other] = namespace[name]
        for suffix in ("", "_"):
            if hasattr(tensor_class, name + suffix):
                setattr(tensor_class, other + suffix, getattr(tensor_class, name + suffix))


def _function(op: Op, namespace: dict[str, Any], tensor_class: type[Any]) -> Callable[..., Any]:
    made: Callable[..., Any] | None = None

    def first_use(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        if made is None:
            made = make_eager(op, public=True)
            for name, value in list(namespace.items()):
                if value is first_use:
                    namespace[name] = made
            for name, value in list(vars(tensor_class).items()):
                if value is first_use:
                    setattr(tensor_class, name, made)
        return made(*args, **kwargs)

    first_use.__name__ = first_use.__qualname__ = op.name
    first_use.__doc__ = f"Elementwise {op.name}."
    return first_use


def in_place_method(op: Op) -> Callable[..., Any]:
    """The trailing-underscore form of an op."""

    def method(self: Any, *args: Any, **settings: Any) -> Any:
        return write(op, self, args, {**op.settings, **settings} if op.settings else settings)

    method.__name__ = method.__qualname__ = op.name + "_"
    method.__doc__ = f"In-place {op.name}."
    return method
