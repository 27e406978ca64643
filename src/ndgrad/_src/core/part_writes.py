"""Writes of a part of an array, `x[index] = value`, in one step: the commonest write of a NumPy program.

Note [Direct part writes]
`write` in `inplace` makes a node of `copy` for the part, a path of view ops to it, and a `CopySlices` around both. A
loop that fills a buffer spends most of its time there. A direct write has the same effects and the same results. Its
node keeps the index, from which the node of `copy` and the path are made when other code asks for them. It has these
conditions:

  * no mode is in force, or one grad transform over plain arrays, to whose graph the target belongs already;
  * the target is a dense NumPy array that is neither a leaf nor a view, has no hooks, and owns its memory;
  * the value is a tensor of the same class and dtype, or a Python number;
  * the index consists of ints and slices, and selects a part, not the whole.

`tests/core/test_part_writes.py` compares both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.exact_zeros import takes_exact_zeros
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.node import GENERAL, RULE, Edge, make_node, sizes
from ndgrad._src.core.record import node_of
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.variable import edge
from ndgrad._src.core.versions import Storage, storage_of
from ndgrad._src.core.view import CopySlices
from ndgrad._src.ops.fill import copy
from ndgrad._src.ops.index import getitem

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._src.core.variable import Meta, Variable
    from ndgrad._typing import Payload, Vocabulary

_BIRTH = frozenset(("made_in",))
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_NUMBERS = frozenset((float, int))
_WRITTEN = object()
_NO_SOURCE = (None, None)


class PartWrite(CopySlices):
    """History of an array after a direct write. `index` is None after release."""

    __slots__ = ("index",)
    index: Any

    def apply(self, grads: Payload, ops: Vocabulary, keep: bool = True) -> tuple[Any, ...]:
        index = self.index
        if index is None:
            raise freed_error(self)
        if not ops.owns:
            grads = grads.copy()
        part = grads[index]
        if part.__class__ is np.ndarray or ops.np is not np:
            part = part.copy()
        grads[index] = 0
        if not keep:
            self.index = None
        base, value = self.next
        return (None if base is None else grads, None if value is None else part)

    def release(self) -> None:
        self.index = None

    def name(self) -> str:
        return CopySlices.__name__

    def __getattr__(self, name: str) -> Any:
        """Make the fields of a general write on first use."""
        if name == "order":
            return None
        if name == "path":
            return (None, getitem, {"index": self.index}, 0)
        if name == "inner":
            return self._make_inner()
        raise AttributeError(name)

    def _make_inner(self) -> Node | None:
        if self.index is None:
            return None
        part = np.broadcast_to(np.empty((), self.dtype), self.shape)[(*self.index, ...)]
        made: Node = node_of(copy, {}, {}, self.next, part, self.level)
        made.seq = self.seq
        return made


def write_part(target: Variable, index: Any, value: Payload) -> bool:
    """Set `target[index] = value` if the conditions of Note [Direct part writes] hold; else return False without an
    effect."""
    level = _open_level(target) if process.busy else 0
    if level is None or process.dispatching or not (target._meta is None or (level and _is_bare(target._meta))):
        return False
    array, e_base = target._array, target._node
    if array.__class__ is not np.ndarray or array.dtype not in _FLOATS or not array.flags.carray:
        return False
    storage = target._storage or storage_of(target)
    items = index if index.__class__ is tuple else (index,)
    if storage.__class__ is not Storage or not _is_part(items, array):
        return False
    if e_base is not None and e_base.level != level:
        return False
    source, e_value = value, None
    if value.__class__ not in _NUMBERS:
        source, e_value = _source_of(value, target, items, level)
        if source is None:
            return e_value is _WRITTEN
    if storage.keeps and storage.is_held():
        storage.store_before_write(array, items)
    try:
        array[items] = source
    except (IndexError, ValueError):
        return False  # the general write raises
    storage.bump("copy_")
    if e_value is not None or e_base is not None:
        node = make_node(PartWrite, (e_base, e_value), array.shape, array.dtype)
        node.index = items
        node.level = level
        node.route = GENERAL if array.size >= sizes.small_read or takes_exact_zeros(e_base) else RULE
        target._node = node
    return True


def _open_level(target: Variable) -> int | None:
    """Return the number of the only open transform, if it is a grad level over plain arrays, no other mode is in force,
    and `target` belongs to its graph; else None."""
    state = modes()
    if len(process.open) != 1 or len(state.levels) != 1 or not state.only_transforms():
        return None
    level: Any = state.levels[0]
    if level.kind != "grad" or not (level.pure and level.grad_enabled_before and state.grad_enabled):
        return None
    if state.dual_levels or state.captures is not None or target._node is None:
        return None
    number: int = level.number
    return number if target._node.level == number else None


def _is_bare(meta: Meta) -> bool:
    """True if metadata says no more than where a tensor was made."""
    if meta.view is not None or meta.batch_level or meta.tangents or meta.requires_grad or meta.output_nr:
        return False
    return meta.__dict__.keys() <= _BIRTH


def _is_part(items: tuple[Any, ...], array: np.ndarray[Any, Any]) -> bool:
    """True if an index of ints and slices selects a part of an array: not all of it."""
    if len(items) > array.ndim or array.size < 2:
        return False
    is_part = False
    for item in items:
        if item.__class__ is int:
            is_part = True
        elif item.__class__ is not slice:
            return False
        elif item.start is not None or item.stop is not None or item.step is not None:
            if not all(bound is None or bound.__class__ is int for bound in (item.start, item.stop, item.step)):
                return False
            is_part = True
    return is_part


def _source_of(value: Payload, target: Variable, items: tuple[Any, ...], level: int) -> tuple[Any, Any]:
    """Return the array of a tensor that may be written without a conversion, and its edge.

    The array is None if there is no such array, or no write is needed. Then the edge is `_WRITTEN` in the second case.
    """
    kind, like = value.__class__, target.__class__
    if kind is not like and (kind not in TENSOR_TYPES or TENSOR_TYPES[kind] is not TENSOR_TYPES[like]):
        return _NO_SOURCE
    source, dtype, meta = value._array, target._array.dtype, value._meta
    if source.__class__ is np.ndarray:
        if source.dtype is not dtype or (source.ndim and source.shape[0] == 1):
            return _NO_SOURCE
    elif source.__class__ is not dtype.type:
        return _NO_SOURCE
    if meta is None:
        e_value = value._node
    elif _is_own_part(value, target, items):
        return None, _WRITTEN
    elif meta.batch_level or meta.tangents or meta.level not in (0, level):
        return _NO_SOURCE
    else:
        e_value = edge(value)
    if e_value is not None and (e_value.__class__ is Edge or e_value.level != level):
        return _NO_SOURCE
    return source, e_value


def _is_own_part(value: Variable, target: Variable, items: tuple[Any, ...]) -> bool:
    """True if the value is the part itself, as after `x[1:] += y`. Its write has been recorded, and NumPy's arrays
    show no versions."""
    meta = value._meta
    if meta is None or meta.view is None or not target.is_numpy_type or meta.view.base is not target:
        return False
    before, op, settings, _ = meta.view.path
    return before is None and op is getitem and settings["index"] == items
