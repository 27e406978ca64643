"""torch's ops under `ndgrad.ops.aten`, for programs that use torch's names: modes, checkpoint policies, graphs.

An op of the table is one object for all overloads: `aten.mul.Tensor` and `aten.mul.default` are the same. A reduction
over all elements is an op of its own, `aten.sum.default`. A trailing underscore gives the in-place form. Names that are
no ops of the table are functions of tensors (`ndgrad.ops.aten_functions`). Both take torch's positional and keyword
arguments.
"""

from __future__ import annotations

import functools
from typing import Any

from ndgrad._src.core.op_observers import InPlaceForm, in_place_form
from ndgrad._src.ops.table import Op, table
from ndgrad._src.ops.vocabulary import find

_SAME = {"mm": "matmul", "bmm": "matmul", "mv": "matmul", "dot": "matmul", "_to_copy": "cast", "view": "reshape"}


def _call_in_torch_form(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    from ndgrad.ops.aten_functions import call_in_torch_form  # the namespaces of all functions are layers above

    return call_in_torch_form(op, args, settings)


Op.torch_form = staticmethod(_call_in_torch_form)


class Packet:
    """All overloads of an op of the table, which are the same object; a full reduction is another one."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.name = self.__name__ = op.name
        self.whole = table.get(f"{op.name}_all")

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if self.whole is not None:  # torch's defaults are those of the overload
            return _call_in_torch_form(self.op, args, settings)
        return self.op(*args, **settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.op if self.whole is None or name != "default" else self.whole

    def overloads(self) -> list[str]:
        """Return the names of the overloads that differ."""
        return ["default"] if self.whole is None else ["default", "dim"]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packet):
            return other.op is self.op
        return other is self.op or (self.whole is not None and other is self.whole)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<ops of {self.name}>"


class FunctionOverload:
    """A function under the name of an op of torch; all overloads are one object."""

    def __init__(self, name: str, function: Any) -> None:
        self._function = function
        self.__name__ = self.name = name
        self.__doc__ = getattr(function, "__doc__", None)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if "self" in kwargs:
            args = (kwargs.pop("self"), *args)
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> FunctionOverload:
        if name.startswith("_") or name in ("dispatch_rules", "present_call"):
            raise AttributeError(name)
        return self  # its packet, too

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> Any:
        return _find_function, (self.name,)

    def __deepcopy__(self, memo: Any) -> FunctionOverload:
        return self


@functools.cache
def _find_function(name: str) -> FunctionOverload:
    from ndgrad.ops.aten_functions import find_function  # the namespaces of all functions are layers above the table

    found = find_function(name)
    if found is None:
        raise AttributeError(f"module 'ndgrad.ops.aten' has no attribute {name!r}: ndgrad has no such op [nd-absent]")
    return FunctionOverload(name, found)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    own = _SAME.get(name, name)
    try:
        return packet_of(in_place_form(find(own[:-1])) if own.endswith("_") else find(own))
    except AttributeError:
        return _find_function(name)


def packet_of(op: Op | InPlaceForm) -> Packet:
    """Return the overloads that an op is one of, the same object each time."""
    whole = op.name.endswith("_all") and table.get(op.name.removesuffix("_all"))
    return _make_packet(whole or op)


_make_packet = functools.cache(Packet)

# Dispatches of programs for torch compare `func.overloadpacket` with `torch.ops.aten.mul`.
for _kind in (Op, InPlaceForm):
    for _name in ("overloadpacket", "_overloadpacket"):
        setattr(_kind, _name, property(packet_of))
