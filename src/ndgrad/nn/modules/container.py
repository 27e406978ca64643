"""Containers: modules and parameters in sequences and dictionaries, registered like attributes."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar, overload

from ndgrad._src.core.variable import Variable
from ndgrad.nn.modules.module import Module, indent
from ndgrad.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

    Modules: TypeAlias = "Mapping[str, Module] | ModuleDict | Iterable[tuple[str, Module]]"
    Parameters: TypeAlias = "Mapping[str, Any] | ParameterDict | Iterable[tuple[str, Any]]"

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


V = TypeVar("V")


def _place(length: int, index: Any) -> int:
    """Convert an index from the end to one from the front."""
    place = operator.index(index)
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of range: there are {length} elements. [nd-module]")
    return place % length


def _iterable(owner: Module, what: str, values: Iterable[V]) -> Iterable[V]:
    if not isinstance(values, Iterable) or isinstance(values, Variable):
        raise TypeError(
            f"{type(owner).__name__}.{what} should be called with an iterable, but got {type(values).__name__}. "
            "[nd-type]"
        )
    return values


class Container(Module):
    """torch's deprecated base class of containers: modules by keyword.

    Args:
        **kwargs: modules by name.

    >>> import ndgrad
    >>> ndgrad.nn.Container(first=ndgrad.nn.ReLU()).first
    ReLU()
    """

    def __init__(self, **kwargs: Module | None) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


# ----- sequences of modules -------------------------------------------------------------------------------------------


class _Numbered(Module):
    """Modules with the names '0', '1', ..."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(i): m for i, m in enumerate(modules)}

    # Any: the elements are of user classes, and programs read their attributes.
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return list(self._modules.values())[_place(len(self), index)]

    def _part(self, items: list[tuple[str, Module]]) -> Self:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[_place(len(self), index)], module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        gone = set(names[index]) if isinstance(index, slice) else {names[_place(len(self), index)]}
        self._renumber([m for name, m in self._modules.items() if name not in gone])

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, module: Module) -> Self:
        """Append a module.

        Args:
            module: module to append.

        Returns:
            This module.
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Insert a module before an index.

        Args:
            index: position, which may count from the end.
            module: module to insert.
        """
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key: int) -> Any:
        """Remove and return a module.

        Args:
            key: position, which may count from the end.
        """
        found = self[key]
        del self[key]
        return found

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append several modules.

        Args:
            modules: modules to append.

        Returns:
            This module.
        """
        for module in list(_iterable(self, "extend", modules)):
            self.append(module)
        return self


class Sequential(_Numbered):
    """A chain of modules: each is called with the result of the previous one.

    Args:
        *args: modules in their order, or one `OrderedDict` of modules by name.

    >>> import ndgrad
    >>> from ndgrad import nn
    >>> nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    Sequential(
      (0): Linear(in_features=2, out_features=4, bias=True)
      (1): ReLU()
      (2): Linear(in_features=4, out_features=1, bias=True)
    )
    """

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: OrderedDict[str, Module], /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def _part(self, items: list[tuple[str, Module]]) -> Self:
        return type(self)(OrderedDict(items))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given. [nd-type]"
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given. [nd-type]"
            )
        for module in list(other):
            self.append(module)
        return self

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*(list(self) * self._times(other)))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        for module in list(self) * (self._times(other) - 1):
            self.append(module)
        return self

    def _times(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}. [nd-type]")
        if other <= 0:
            raise ValueError(
                f"Non-positive multiplication factor {other} for {type(self).__name__}. It must be 1 or more. "
                "[nd-module]"
            )
        return other

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before an index.

        Args:
            index: position, which may count from the end.
            module: module to insert.

        Returns:
            This module.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}, but is {type(module)}. [nd-type]")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}; there are {len(self)} modules. [nd-module]")
        super().insert(index, module)
        return self

    # The result of the last module, nearly always a tensor.
    def forward(self, input: Any) -> Tensor:
        """Call the modules one after another.

        Args:
            input: argument of the first module.

        Returns:
            The result of the last module.
        """
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules, which are registered as submodules.

    Args:
        modules: modules of the list.

    >>> import ndgrad
    >>> layers = ndgrad.nn.ModuleList([ndgrad.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _part(self, items: list[tuple[str, Module]]) -> Self:
        return type(self)([module for _, module in items])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        combined = ModuleList()
        for number, module in enumerate(itertools.chain(self, other)):
            combined.add_module(str(number), module)
        return combined

    def __repr__(self) -> str:
        """Return a text like that of other modules, with equal neighbours counted instead of repeated."""
        blocks: list[tuple[int, int, str]] = []  # first, last, text
        for number, text in enumerate(map(repr, self)):
            if blocks and blocks[-1][2] == text:
                blocks[-1] = (blocks[-1][0], number, text)
            else:
                blocks.append((number, number, text))
        if not blocks:
            return f"{self._get_name()}()"
        lines = [
            indent(f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}", 2)
            for first, last, text in blocks
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


# ----- a dictionary of modules ----------------------------------------------------------------------------------------


class ModuleDict(Module):
    """A dictionary of modules, which are registered as submodules.

    Args:
        modules: mapping from names to modules, or pairs of name and module.

    >>> import ndgrad
    >>> heads = ndgrad.nn.ModuleDict({"mean": ndgrad.nn.Linear(2, 1)})
    >>> heads["mean"](ndgrad.ones(3, 2)).shape
    ndgrad.Size([3, 1])
    """

    def __init__(self, modules: Modules | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module.

        Args:
            key: name of the module.
        """
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of name and module."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Modules) -> None:
        """Add modules, in place of those with the same names.

        Args:
            modules: mapping from names to modules, or pairs of name and module.
        """
        for key, module in _pairs(self, modules, ModuleDict):
            self[key] = module


def _pairs(owner: Module, given: Any, own_class: type[ModuleDict | ParameterDict]) -> list[tuple[str, Any]]:
    """Return the argument of `update` as pairs."""
    if isinstance(given, (own_class, Mapping)):
        return list(given.items())
    pairs = []
    for number, pair in enumerate(_iterable(owner, "update", given)):
        name = type(owner).__name__
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{number} should be Iterable; is {type(pair).__name__}. [nd-type]"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{name} update sequence element #{number} has length {len(pair)}; 2 is required. [nd-module]"
            )
        pairs.append(pair)
    return pairs


# ----- parameters -----------------------------------------------------------------------------------------------------


def _as_parameter(value: Any) -> Any:
    """Turn a tensor into a parameter; other values are unchanged."""
    is_tensor = isinstance(value, Variable) and not isinstance(value, Parameter)
    return Parameter(value) if is_tensor else value


def _entry_text(value: object, dtype_text: Callable[[Any], str]) -> str:
    if not isinstance(value, Variable):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    if is_lazy(value):
        return repr(value)
    where = "" if value.is_cpu else f" ({value.device})"
    return f"{kind} containing: [{dtype_text(value)} of size {'x'.join(str(n) for n in value.shape)}{where}]"


class ParameterList(Module):
    """A list of parameters; added tensors become parameters.

    Args:
        values: tensors, which become parameters, and other objects, which are kept as they are.

    >>> import ndgrad
    >>> weights = ndgrad.nn.ParameterList([ndgrad.ones(2), ndgrad.ones(3)])
    >>> [len(w) for w in weights], weights[0].requires_grad
    ([2, 3], True)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            out = type(self)()
            for number in range(*index.indices(len(self))):
                out.append(self[number])
            return out
        return getattr(self, str(_place(len(self), index)))

    def __setitem__(self, index: int, value: object) -> None:
        setattr(self, str(_place(len(self), index)), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: object) -> Self:
        """Append a value.

        Args:
            value: tensor, which becomes a parameter, or another object.

        Returns:
            This module.
        """
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Append several values.

        Args:
            values: tensors and other objects.

        Returns:
            This module.
        """
        for value in list(_iterable(self, "extend", values)):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_entry_text(value, lambda t: str(t.dtype))}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "ParameterList should not be called. Use its parameters in the forward of a module. [nd-module]"
        )


class ParameterDict(Module):
    """A dictionary of parameters; added tensors become parameters.

    Args:
        parameters: mapping from names to tensors, or pairs of name and tensor. A plain dict is sorted by name.

    >>> import ndgrad
    >>> weights = ndgrad.nn.ParameterDict({"scale": ndgrad.ones(2)})
    >>> weights["scale"].requires_grad
    True
    """

    def __init__(self, parameters: Parameters | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        """Return the attribute name under which a value is stored."""
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type "
                f"is '{type(key).__name__}'). Use strings. [nd-module]"
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: object) -> None:
        attribute = self._attribute(key)
        self._keys[key] = None
        setattr(self, attribute, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dictionary of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return the value of a key, after setting it to the default if it is missing.

        Args:
            key: name of the value.
            default: value to set if there is none.
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value.

        Args:
            key: name of the value.
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair of key and value."""
        key, _ = self._keys.popitem()
        self._keys[key] = None  # pop expects the key
        return key, self.pop(key)

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of a key, or the default.

        Args:
            key: name of the value.
            default: result if there is no such value.
        """
        return self[key] if key in self else default  # noqa: SIM401

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return a dictionary with one value under several keys.

        Args:
            keys: names.
            default: value under all names.
        """
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return pairs of key and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """Return the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Parameters) -> None:
        """Add values, in place of those with the same names.

        Args:
            parameters: mapping from names to values, or pairs of name and value. A plain dict is sorted by name.
        """
        pairs = _pairs(self, parameters, ParameterDict)
        # torch does not rely on the order of a plain dict, and optimizers depend on the order of parameters.
        ordered = isinstance(parameters, (OrderedDict, ParameterDict)) or not isinstance(parameters, Mapping)
        for key, value in pairs if ordered else sorted(pairs, key=lambda pair: pair[0]):
            self[key] = value

    def __or__(self, other: Parameters) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Any) -> ParameterDict:
        out = other.copy()
        out.update(self)
        return out  # same class as the other one

    def __ior__(self, other: Parameters) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_entry_text(value, lambda t: str(t.type()))}" for key, value in self.items())

    def __call__(self, input: Any) -> NoReturn:
        raise RuntimeError(
            "ParameterDict should not be called. Use its parameters in the forward of a module. [nd-module]"
        )
