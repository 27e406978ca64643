"""The table's ops under `ndgrad.ops.aten`, for programs that use torch's names of ops, as in dispatch modes and
checkpoint policies.

`ndgrad.ops.aten.mul.Tensor`, `ndgrad.ops.aten.mul.default` and `ndgrad.ops.aten.mul` are one op here, which has no
overloads; a trailing underscore gives the in-place form. Torch's names for products of matrices all mean the op
`matmul`. A name that is no op of the table is the public function or method of that name, if there is one.

Calls take torch's form, with settings by position or by name, as well as the form of the table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ndgrad._src.core.op_observers import in_place_form
from ndgrad._src.ops.vocabulary import find

_SAME = {"mm": "matmul", "bmm": "matmul", "mv": "matmul", "dot": "matmul", "_to_copy": "cast", "view": "reshape"}
#: Names of torch's kernels with the arguments of a public function.
_PUBLIC = {"_to_copy": "to", "_unsafe_view": "reshape", "_pin_memory": "pin_memory", "alias": "view_as_self"}


class Packet:
    """All overloads of an op, which are the same here."""

    def __init__(self, op: Any, function: Callable[..., Any] | None = None) -> None:
        self.op = op
        self.name = self.__name__ = op.name
        self._function = function

    def __call__(self, *args: Any, **settings: Any) -> Any:
        # In torch's form: several names, with functions of their own, may mean one op.
        if self._function is not None and not self.op._fits(args, settings):
            return self._function(*args, **settings)
        return self.op(*args, **settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.op

    def __eq__(self, other: object) -> bool:
        return other is self.op or (isinstance(other, Packet) and other.op is self.op)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<ops of {self.name}>"


class FunctionPacket:
    """A function under the name of an op that the table composes from others. Its overloads are the same object."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = self.__name__ = name
        self._function = function

    def __call__(self, *args: Any, **settings: Any) -> Any:
        return self._function(*args, **settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __repr__(self) -> str:
        return f"<ops of {self.name}>"


_functions: dict[str, FunctionPacket] = {}


def _find_function(name: str) -> Callable[..., Any] | None:
    """Return the public function or method with the arguments of torch's op, or None."""
    import ndgrad  # the public names, which this file must not load

    name = _PUBLIC.get(name, name)
    if name == "view_as_self":
        return lambda self: self.view(self.shape)
    group, _, rest = name.partition("_")
    places = [(ndgrad, name), (ndgrad.Tensor, name), (ndgrad.nn.functional, name)]
    if group in ("linalg", "special", "fft"):
        places.append((getattr(ndgrad, group), f"{group}_{rest}" if group == "fft" else rest))
        places.append((getattr(ndgrad, group), rest))
    for home, own in places:
        found = getattr(home, own, None)
        if callable(found):
            return found  # type: ignore[no-any-return]  # any public function
    return None


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    own = _SAME.get(name, name)
    if own.endswith("_"):
        return Packet(in_place_form(find(own[:-1])))
    kernels = importlib.import_module("ndgrad.ops.aten_kernels")  # rarely needed
    function = vars(kernels).get(name) or _find_function(name)
    try:
        op = find(own)
    except AttributeError:
        if function is None:
            raise
        return _functions.setdefault(name, FunctionPacket(name, function))
    if op.torch_form is None and own not in ("matmul",):
        op.torch_form = function
    return Packet(op, function)
