"""Sizes that stay open in an exported program: `Dim`, its derived forms, hints, and their assignment to arguments."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ndgrad._src.core.variable import Variable

__all__ = ["Dim", "ShapesCollection", "dims"]


class _HintKind(enum.Enum):
    AUTO = "AUTO"
    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"


@dataclass(frozen=True)
class _DimHint:
    """A size without a name: open if possible (AUTO), open (DYNAMIC), or fixed (STATIC)."""

    type: _HintKind
    min: int | None = None
    max: int | None = None

    def __repr__(self) -> str:
        bounds = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint({', '.join([self.type.value, *bounds])})"

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        """Return the hint with bounds."""
        return _DimHint(self.type, min, max)


class Dim:
    """Named size of exported programs. Arguments that share it have equal sizes.

    `2 * batch + 1` is a size derived from it. `Dim.AUTO` and `Dim.DYNAMIC` are open sizes without a name, and
    `Dim.STATIC` is a fixed one.

    Args:
        name: name of the size, an identifier.
        min: smallest size. The default is 0.
        max: largest size. The default is no limit.

    >>> from ndgrad.export import Dim
    >>> batch = Dim("batch", min=2, max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', min=2, max=64), 2*batch + 1)
    """

    AUTO: ClassVar[_DimHint] = _DimHint(_HintKind.AUTO)
    DYNAMIC: ClassVar[_DimHint] = _DimHint(_HintKind.DYNAMIC)
    STATIC: ClassVar[_DimHint] = _DimHint(_HintKind.STATIC)

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, sys.maxsize if max is None else max
        if high <= low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={low}, max={high} [nd-arguments]")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name} [nd-arguments]")
        self.__name__ = name
        self.min, self.max = low, high
        #: The size is `factor * root + offset`.
        self.root: Dim = self
        self.factor, self.offset = 1, 0

    def _derive(self, factor: int, offset: int) -> Dim:
        made = object.__new__(Dim)
        made.root, made.factor, made.offset = self.root, factor, offset
        if factor <= 0:
            raise NotImplementedError(f"a size derived from {self.__name__} must grow with it [nd-arguments]")
        made.min = factor * self.root.min + offset
        made.max = sys.maxsize if self.root.max == sys.maxsize else factor * self.root.max + offset
        scaled = self.root.__name__ if factor == 1 else f"{factor}*{self.root.__name__}"
        made.__name__ = scaled if not offset else f"{scaled} {'+' if offset > 0 else '-'} {abs(offset)}"
        return made

    def __add__(self, other: int) -> Dim:
        return self._derive(self.factor, self.offset + _as_int(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derive(self.factor, self.offset - _as_int(other))

    def __mul__(self, other: int) -> Dim:
        number = _as_int(other)
        return self._derive(self.factor * number, self.offset * number)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        bound = "" if self.max == sys.maxsize else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{bound})"


def _as_int(other: Any) -> int:
    if type(other) is not int:
        raise NotImplementedError(
            f"Attempted to derive a dimension from {other!r}. Only integers are supported. [nd-type]"
        )
    return other


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return several sizes with the same bounds.

    Args:
        names: names of the sizes.
        min: smallest size. The default is 0.
        max: largest size. The default is no limit.

    >>> from ndgrad.export import dims
    >>> dims("height", "width")
    (Dim('height', min=0), Dim('width', min=0))
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


class ShapesCollection:
    """Open sizes given per tensor, instead of by the structure of the arguments.

    >>> import ndgrad
    >>> from ndgrad.export import Dim, ShapesCollection
    >>> x = ndgrad.ones(4, 3)
    >>> shapes = ShapesCollection()
    >>> shapes[x] = {0: Dim("batch")}
    >>> shapes.dynamic_shapes(None, (x,))
    ({0: Dim('batch', min=0)},)
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        self._shapes[id(t)] = t, shape

    def __getitem__(self, t: Any) -> Any:
        return self._shapes[id(t)][1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
        """Return the specification in the structure of the arguments.

        Args:
            m: accepted as in torch; has no effect, because the structure is that of the arguments.
            args: arguments of the call.
            kwargs: keyword arguments of the call.
        """

        def find(tree: Any) -> Any:
            if isinstance(tree, Variable):
                return self._shapes.get(id(tree), (None, None))[1]
            if isinstance(tree, Mapping):
                return {key: find(value) for key, value in tree.items()}
            return type(tree)([find(value) for value in tree]) if isinstance(tree, (tuple, list)) else None

        named = find(dict(kwargs or {}))
        return (*find(tuple(args)), *named.values())


@dataclass
class Symbol:
    """An open size of a program, with its bounds and the size of the example."""

    name: str
    min: int
    max: int
    example: int
    #: True if the size may become fixed: its owner asked for AUTO.
    is_auto: bool = False


@dataclass(frozen=True)
class OpenSize:
    """Size number `dim` of a leaf: `factor * symbol + offset`."""

    leaf: int
    dim: int
    symbol: str
    factor: int = 1
    offset: int = 0


def assign_sizes(spec: Any, named: dict[str, Any], leaves: list[Any]) -> tuple[dict[str, Symbol], list[OpenSize]]:
    """Return the symbols and open sizes of arguments by name; `leaves` are the leaves of the arguments in order."""
    if spec is None:
        return {}, []
    if isinstance(spec, ShapesCollection):
        spec = spec.dynamic_shapes(None, tuple(named.values()))
    if not isinstance(spec, Mapping):
        if len(spec) != len(named):
            raise ValueError(
                f"dynamic_shapes has {len(spec)} entries for {len(named)} arguments. Give one for each: a dict, a "
                "tuple, or None. [nd-arguments]"
            )
        spec = dict(zip(named, spec, strict=True))
    if unknown := set(spec) - set(named):
        raise ValueError(
            f"dynamic_shapes names {', '.join(sorted(unknown))}, and the arguments are {', '.join(named)}. Name "
            "arguments of the call. [nd-arguments]"
        )
    symbols: dict[str, Symbol] = {}
    sizes: list[OpenSize] = []
    numbers = {id(leaf): i for i, leaf in enumerate(leaves)}
    for name, tree in named.items():
        for tensor, own in _pair(spec.get(name), tree, name):
            entries = own.items() if isinstance(own, Mapping) else enumerate(own)
            for dim, size in entries:
                _add_size(symbols, sizes, numbers[id(tensor)], int(dim) % max(tensor.dim(), 1), size, tensor, name)
    return symbols, sizes


def _pair(spec: Any, tree: Any, where: str) -> Iterator[tuple[Any, Any]]:
    """Yield the tensors of an argument with their specifications."""
    if spec is None:
        return
    if isinstance(tree, Variable):
        if not isinstance(spec, (Mapping, tuple, list)):
            raise ValueError(
                f"dynamic_shapes of {where} is {spec!r}. Give a dict of dimensions, or one entry per dimension. "
                "[nd-arguments]"
            )
        yield tree, spec
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _pair(spec.get(key) if isinstance(spec, Mapping) else None, value, f"{where}[{key!r}]")
    elif isinstance(tree, (tuple, list)):
        if len(spec) != len(tree):
            raise ValueError(
                f"dynamic_shapes of {where} has {len(spec)} entries for {len(tree)} values. [nd-arguments]"
            )
        for i, (own, value) in enumerate(zip(spec, tree, strict=True)):
            yield from _pair(own, value, f"{where}[{i}]")


def _add_size(
    symbols: dict[str, Symbol], sizes: list[OpenSize], leaf: int, dim: int, size: Any, tensor: Any, where: str
) -> None:
    found = tensor.shape[dim]
    if size is None or isinstance(size, int) or (isinstance(size, _DimHint) and size.type is _HintKind.STATIC):
        if isinstance(size, int) and size != found:
            raise ValueError(f"{where}: dimension {dim} is {found}, and dynamic_shapes says {size}. [nd-shape]")
        return
    if isinstance(size, _DimHint):
        name = f"s{len(symbols)}"
        low, high = size.min or 0, sys.maxsize if size.max is None else size.max
        symbols[name] = Symbol(name, low, high, found, size.type is _HintKind.AUTO)
        sizes.append(OpenSize(leaf, dim, name))
        return
    if not isinstance(size, Dim):
        raise ValueError(f"{where}: dimension {dim} is given as {size!r}. Give a Dim, an int or None. [nd-type]")
    root, rest = size.root, found - size.offset
    value, remainder = divmod(rest, size.factor)
    if remainder or not root.min <= value <= root.max:
        raise ValueError(
            f"{where}: dimension {dim} of the example is {found}, which is no value of {size!r} with {root!r}. Choose "
            "another example, or other bounds. [nd-shape]"
        )
    known = symbols.setdefault(root.__name__, Symbol(root.__name__, root.min, root.max, value))
    if known.example != value:
        raise ValueError(
            f"{where}: dimension {dim} makes {root.__name__} = {value}, and another argument makes it {known.example}. "
            "Use two names, or other examples. [nd-shape]"
        )
    sizes.append(OpenSize(leaf, dim, root.__name__, size.factor, size.offset))
