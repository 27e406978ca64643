"""Devices, layouts and memory formats, as named singletons.

The constraint that shaped this file: these objects are names only. Making `device('cuda')` imports no GPU library and
needs no GPU; allocating there does. Equal devices are the same object, so the tensor layer may compare them with `is`.
"""

from __future__ import annotations

import operator
import re
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex, TypeAlias

from ndgrad._src.foundations import package_name
from ndgrad._src.foundations.public_path import set_module

__all__ = [
    "DeviceLike",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "device",
    "get_default_device",
    "jagged",
    "layout",
    "memory_format",
    "preserve_format",
    "set_default_device",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]

DeviceLike: TypeAlias = "device | str | int"


# ----- devices ----------------------------------------------------------------------------------------------

_TYPES = ("cpu", "cuda", "meta")
#: Kinds of torch's devices that are never available here: such a device can be named, and an allocation there raises.
_UNAVAILABLE = ("mps", "xpu", "hpu", "mtia", "xla", "ipu", "vulkan", "privateuseone")
_PATTERN = re.compile(rf"({'|'.join((*_TYPES, *_UNAVAILABLE))})(?::(0|[1-9][0-9]*))?")


class device:
    """The place where a tensor's data is stored: `device('cpu')`, `device('cuda', 0)`, `device('cuda:1')`.

    Tensors on `device('meta')` have a shape and a dtype, but no data. As a context manager, a device becomes the
    default device of the current thread or task.

    >>> device("cuda:1")
    device(type='cuda', index=1)
    >>> with device("meta"):
    ...     get_default_device()
    device(type='meta')
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = ("__weakref__", "index", "type")

    if TYPE_CHECKING:  # `typing.get_type_hints` reads them in `ndgrad`, where `int` is a dtype
        type: str
        index: int | None

    def __new__(cls, type: DeviceLike, index: SupportsIndex | None = None) -> device:  # noqa: PYI034  (one class)
        if index is None:
            try:
                return _interned[type]
            except (KeyError, TypeError):
                pass
        name, number = _parse(type, index)
        key = name if number is None else f"{name}:{number}"
        found = _interned.get(key)
        if found is None:
            made = object.__new__(device)
            object.__setattr__(made, "type", name)
            object.__setattr__(made, "index", number)
            # setdefault() is atomic: if two threads make the same device, both get one object.
            found = _interned.setdefault(key, made)
            _interned[found] = found
        return found

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{self!r} cannot be changed: its {name!r} was assigned to. Make another device instead. [nd-immutable]"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{self!r} cannot be changed: its {name!r} was deleted. Make another device instead. [nd-immutable]"
        )

    def __enter__(self) -> Self:
        _defaults.set((*_defaults.get(), self))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        stack = _defaults.get()
        if len(stack) == 1 or stack[-1] is not self:
            raise RuntimeError(
                f"{self!r} was left as default device by a thread or task that had not entered it last: the "
                f"devices open here are {list(map(str, stack[1:]))}. Enter and leave it with one `with`. "
                "[nd-call-order]"
            )
        _defaults.set(stack[:-1])

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str(self),)


# Maps each spelling to its device. Devices are keys too, so device(d) is one lookup.
_interned: dict[Any, device] = {}


def _parse(type: object, index: SupportsIndex | None) -> tuple[str, int | None]:
    if isinstance(type, device):
        if index is None:
            return type.type, type.index
        raise RuntimeError(
            f"device() got {type!r} and an index, {index!r}. Pass device({type.type!r}, {index!r}). [nd-device]"
        )
    if isinstance(type, int) and not isinstance(type, bool) and index is None:
        return _parse("cuda", type)  # a bare number counts accelerators, as in torch
    if not isinstance(type, str):
        raise TypeError(
            f"device() cannot read {type!r}, of type {type.__class__.__name__}. "
            "Pass a string such as 'cpu' or 'cuda:0', a device, or the number of a GPU. [nd-device]"
        )
    match = _PATTERN.fullmatch(type)
    if match is None:
        raise RuntimeError(
            f"device() cannot read the string {type!r}. "
            f"Write one of {', '.join(_TYPES)}, with the device's number after a colon if need be: 'cuda:0'. "
            "[nd-device]"
        )
    name, number = match.groups()
    if index is None:
        return name, None if number is None else int(number)
    if number is not None:
        raise RuntimeError(
            f"device() got two indices, one in {type!r} and also {index!r}. Pass device({type!r}) alone. "
            "[nd-device]"
        )
    try:
        index = operator.index(index)
    except TypeError:
        raise TypeError(
            f"device() got the index {index!r}, which is not an integer. Pass an int or None. [nd-device]"
        ) from None
    if index < 0:
        raise RuntimeError(f"device() got the negative index {index}. Devices are counted from 0. [nd-device]")
    return name, index


# Stack of default devices: the one set by set_default_device() first, the innermost `with device(...)` last. A context
# variable keeps asyncio tasks separate too, and reads twice as fast as a thread-local.
_defaults: ContextVar[tuple[device, ...]] = ContextVar("ndgrad_default_devices", default=(device("cpu"),))


@set_module("ndgrad")
def get_default_device() -> device:
    """Return the device on which factory functions make tensors by default.

    >>> import ndgrad
    >>> ndgrad.get_default_device()
    device(type='cpu')
    """
    return _defaults.get()[-1]


@set_module("ndgrad")
def set_default_device(d: DeviceLike | None) -> None:
    """Set the default device of this thread; None selects the CPU.

    Open `with device(...)` blocks take precedence, so the new default takes effect after they end.

    Args:
        d: device on which new tensors are made.

    >>> set_default_device("cuda:0")
    >>> get_default_device()
    device(type='cuda', index=0)
    >>> set_default_device(None)
    """
    _defaults.set((device("cpu" if d is None else d), *_defaults.get()[1:]))


# ----- layouts and memory formats ---------------------------------------------------------------------------


class _Named:
    """A named constant. Pickling and copying return the same object."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{package_name.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(_Named):
    """The storage scheme of a tensor's elements: `strided`, or one of the sparse and jagged layouts.

    >>> import ndgrad
    >>> ndgrad.zeros(2).layout is ndgrad.strided
    True
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = ()


class memory_format(_Named):
    """The order of a strided tensor's dimensions in memory.

    >>> import ndgrad
    >>> x = ndgrad.zeros(1, 2, 3, 4).to(memory_format=ndgrad.channels_last)
    >>> x.stride(), x.is_contiguous(memory_format=ndgrad.channels_last)
    ((24, 1, 8, 2), True)
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")

contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
