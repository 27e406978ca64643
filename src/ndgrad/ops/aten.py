"""The table's ops under `ndgrad.ops.aten`, for programs that use torch's names of ops, as in dispatch modes and
checkpoint policies.

`ndgrad.ops.aten.mul.Tensor`, `ndgrad.ops.aten.mul.default` and `ndgrad.ops.aten.mul` are one op here, which has no
overloads; a trailing underscore gives the in-place form. Torch's names for products of matrices all mean the op
`matmul`.
"""

from __future__ import annotations

from typing import Any

from ndgrad._src.core.op_observers import in_place_form
from ndgrad._src.ops.vocabulary import find

_SAME = {"mm": "matmul", "bmm": "matmul", "mv": "matmul", "dot": "matmul", "_to_copy": "cast", "view": "reshape"}


class Packet:
    """All overloads of an op, which are the same here."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.name = self.__name__ = op.name

    def __call__(self, *args: Any, **settings: Any) -> Any:
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


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    own = _SAME.get(name, name)
    if own.endswith("_"):
        return Packet(in_place_form(find(own[:-1])))
    return Packet(find(own))
