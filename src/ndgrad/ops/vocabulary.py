"""What rules compute with: the table's ops, on raw arrays or on tensors.

A rule that names `ops` is handed one of these. `RawOps(numpy).sum` is the forward function of op `sum`, so an ordinary
backward runs without wrappers; `TensorOps().sum` is the op itself, so the same rule records a graph. Names are looked up
once and kept on the instance.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from ndgrad import ops
from ndgrad.ops.table import Op, table


def find(name: str) -> Op:
    """The op of a name. Families are loaded when first used, so a name that is unknown yet may come from one of them."""
    if name not in table:
        load_all()
    found = table.get(name)
    if found is None:
        raise AttributeError(f"no op {name!r} in the table")
    return found


def load_all() -> None:
    """Import every file of ops, so that the table is complete."""
    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"ndgrad.ops.{module.name}")


class RawOps:
    """The ops' forward functions over one array library."""

    raw = True

    def __init__(self, library: Any) -> None:
        self.np = library

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = find(name)
        bound = found.forward_for(self.np)
        setattr(self, name, bound)
        return bound


class TensorOps:
    """The ops themselves."""

    raw = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = find(name)
        eager = found.eager
        setattr(self, name, eager)
        return eager


class PlainOps:
    """The ops on tensors of which it is known that no mode and no level concerns them."""

    raw = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        plain = find(name).plain
        setattr(self, name, plain)
        return plain


tensor_ops = TensorOps()
plain_ops = PlainOps()
_raw: dict[Any, RawOps] = {}


def raw_ops(library: Any) -> RawOps:
    made = _raw.get(library)
    if made is None:
        made = _raw[library] = RawOps(library)
    return made


def forget(name: str) -> None:
    """Drop what is kept of an op that has been taken out of the table."""
    for kept in (tensor_ops, plain_ops, *_raw.values()):
        vars(kept).pop(name, None)
