"""Values that nodes hold for backward: names, shapes and bytes, for pictures, profiles and memory debugging.

Nothing is unpacked for this: it would run the user's hooks, and values that were overwritten or freed
would raise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.core.node import Node
from ndgrad._src.core.saved import RuleNode
from ndgrad._src.core.saved_access import shown_names, slot
from ndgrad._src.core.stored_tensors import FREED, Packed
from ndgrad._src.core.variable import Variable, innermost_array
from ndgrad._src.core.view import CopySlices
from ndgrad._src.engine.graph import walk
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._typing import Payload


class Held(NamedTuple):
    """One value that a node keeps. `memory` identifies shared memory. The size of a packed value is that of the pack
    hook's result, as far as it is known."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    nbytes: int
    memory: int
    state: str = "here"  # alternatives: "packed", "freed"


def holdings(node: Node) -> tuple[Held, ...]:
    """Return the values that a node keeps from the forward.

    >>> import ndgrad
    >>> x = ndgrad.ones(3, requires_grad=True)
    >>> [(held.name, held.shape, held.nbytes) for held in holdings(x.exp().grad_fn)]
    [('result', (3,), 12)]
    """
    if isinstance(node, RuleNode):
        return tuple(_rule_holdings(node))
    if isinstance(node, CopySlices):
        return () if node.inner is None else holdings(node.inner)
    saved = node.__dict__.get("_saved", ()) if hasattr(node, "__dict__") else ()
    if saved is FREED:
        return (_describe_freed("saved"),)
    kept = [_describe(f"{s.kind} {number}", s.tensor) for number, s in enumerate(saved) if s is not None]
    notes = node.__dict__.get("_notes", {}) if hasattr(node, "__dict__") else {}
    kept += [
        _describe(f"ctx.{name}", value) for name, value in notes.items() if isinstance(value, (Variable, np.ndarray))
    ]
    return tuple(kept)


def _rule_holdings(node: Any) -> Iterable[Held]:
    shown: dict[str, str] = {}
    for name, own in shown_names(node).items():
        shown.setdefault(own, name)  # torch's name comes first
    for own in [name for name in node.op.args if name in node.plan.arrays] + node.plan.outs:
        value = slot(node, own)
        if value.__class__ is tuple:
            for position, part in enumerate(value):
                if _has_memory(part):
                    yield _describe(f"{shown[own]}[{position}]", part)
        elif _has_memory(value):
            yield _describe(shown[own], value)


def _has_memory(value: Payload) -> bool:
    return isinstance(value, (Variable, Packed)) or hasattr(value, "nbytes")


def _describe_freed(name: str) -> Held:
    return Held(name, (), None, 0, 0, "freed")


def _describe(name: str, value: Payload) -> Held:
    if value is FREED:
        return _describe_freed(name)
    if isinstance(value, Packed):
        if value.checksum is not None:
            return _describe(name, value.packed)
        inside = value.packed
        array = innermost_array(inside) if isinstance(inside, Variable) else inside
        shape = value.shape if value.shape is not None else tuple(getattr(array, "shape", ()))
        return Held(
            name, shape, getattr(array, "dtype", None), int(getattr(array, "nbytes", 0)), memory_key(array), "packed"
        )
    array = innermost_array(value) if isinstance(value, Variable) else value
    return Held(name, tuple(array.shape), array.dtype, int(array.nbytes), memory_key(array))


def owner(array: Payload) -> Any:
    """Return the owner of an array's memory: the array itself, unless it is a view."""
    base = getattr(array, "base", None)
    while isinstance(base, np.ndarray) or (base is not None and hasattr(base, "__cuda_array_interface__")):
        array, base = base, base.base
    return array


def memory_key(array: Payload) -> int:
    """Return a number shared by arrays over the same memory."""
    return id(owner(array))


@set_module("ndgrad.autograd.graph")
def saved_bytes(*roots: Any) -> int:
    """Count the bytes that the graph behind tensors, gradient edges or nodes keeps for backward; shared memory
    counts once.

    Args:
        *roots: tensors, gradient edges or nodes.

    >>> import ndgrad
    >>> x = ndgrad.ones(1000, requires_grad=True)
    >>> y = x * x * x
    >>> ndgrad.autograd.graph.saved_bytes(y)
    8000
    """
    return bytes_held(walk(*roots))


def bytes_held(nodes: Iterable[Node]) -> int:
    """Count the bytes that nodes keep together."""
    return unique_bytes(held for node in nodes for held in holdings(node))


def unique_bytes(values: Iterable[Held]) -> int:
    """Count the bytes of values; shared memory counts once."""
    sizes: dict[int, int] = {}
    for held in values:
        sizes[held.memory] = max(sizes.get(held.memory, 0), held.nbytes)
    return sum(sizes.values())
