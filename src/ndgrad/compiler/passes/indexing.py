"""Reading and adding by index in terms of two ops that have kernels: slices that an index names, read or added to.

    embedding(x, i)           ->   take_slices(x, i)
    x[i, j]                   ->   take_slices(x with both dimensions as one, i * n + j)
    gather(x, i, dim)         ->   take_slices(x as a line, the place of each element there)

and their transposes in terms of `add_slices`. Places are computed by elementwise ops on integers. That they lie inside
is checked (expansion.py). Sums may be added in another order, so this reassociates; each place is added to in the
order of the index, as NumPy does it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ndgrad.compiler.passes.expansion import Expansion, is_plain
from ndgrad.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad.compiler.program import Instruction, Value

indexing = Rules()
rule = indexing.rule

_INTEGER = np.dtype(np.int64)


def _is_index(value: Any) -> bool:
    return value.__class__ is Value and value.dtype.kind in "iu" and value.dtype != np.uint64 and value.size > 0


def _checked(walk: Walk, index: Value, length: int, wraps: bool) -> Value:
    """An index as int64 that is not negative, once its range is checked; where it `wraps`, negative
    numbers count from the end."""
    assert isinstance(walk, Expansion)
    walk.check_range(index, -length if wraps else 0, length)
    index = index if index.dtype == _INTEGER else walk.emit("cast", index, dtype=_INTEGER)
    if not wraps:
        return index
    return walk.emit("where", walk.emit("lt", index, 0), walk.emit("add", index, length), index)


def _keys(walk: Walk, indices: tuple[Value, ...], shape: tuple[int, ...]) -> Value:
    """Indices into leading dimensions as one index into all of them together."""
    found: Value | None = None
    for index, length in zip(indices, shape, strict=False):
        here = _checked(walk, index, length, True)
        found = here if found is None else walk.emit("add", walk.emit("mul", found, length), here)
    assert found is not None
    return found


# ----- slices ---------------------------------------------------------------------------------------------------------


@rule("embedding", "rows", "index_select")
def _slices(walk: Walk, instruction: Instruction) -> Rewritten:
    x, index = instruction.arguments
    dim = instruction.settings.get("dim", 0)
    if x.__class__ is not Value or not x.size or not _is_index(index):
        return None
    return walk.emit("take_slices", x, _checked(walk, index, x.shape[dim], instruction.op.name == "rows"), dim=dim)


@rule("index_select_backward")
def _slices_backward(walk: Walk, instruction: Instruction) -> Rewritten:
    g, index = instruction.arguments
    dim, length = instruction.settings["dim"], instruction.settings["length"]
    if not is_plain(g) or not _is_index(index) or not length:
        return None
    return walk.emit("add_slices", g, _checked(walk, index, length, True), dim=dim, length=length)


@rule("index")
def _index(walk: Walk, instruction: Instruction) -> Rewritten:
    x, *indices = instruction.arguments
    if x.__class__ is not Value or not x.size or not all(_is_index(i) for i in indices):
        return None
    keys = _keys(walk, tuple(indices), x.shape)
    count = len(indices)
    return walk.emit("take_slices", walk.reshaped(x, (prod(x.shape[:count]), *x.shape[count:])), keys, dim=0)


@rule("index_add_zeros")
def _index_add_zeros(walk: Walk, instruction: Instruction) -> Rewritten:
    g, *indices = instruction.arguments
    shape = tuple(instruction.settings["shape"])
    count = len(indices)
    if not is_plain(g) or not all(_is_index(i) for i in indices) or not prod(shape):
        return None
    keys, rest = _keys(walk, tuple(indices), shape), shape[count:]
    if g.shape != (*keys.shape, *rest):
        return None
    out = walk.emit("add_slices", g, keys, dim=0, length=prod(shape[:count]))
    return walk.reshaped(out, shape)


@rule("take")
def _take(walk: Walk, instruction: Instruction) -> Rewritten:
    x, index = instruction.arguments
    if x.__class__ is not Value or not x.size or not _is_index(index):
        return None
    return walk.emit("take_slices", walk.reshaped(x, (x.size,)), _checked(walk, index, x.size, True), dim=0)


# ----- elements along a dimension -------------------------------------------------------------------------------------


def _places(walk: Walk, index: Value, shape: tuple[int, ...], dim: int) -> Value:
    """Where in an array of a shape, seen as a line, the elements are that an index along a dimension names."""
    found = walk.emit("mul", _checked(walk, index, shape[dim], False), prod(shape[dim + 1 :]))
    for d, n in enumerate(index.shape):
        step = prod(shape[d + 1 :])
        if d != dim and n > 1:
            along = (np.arange(n) * step).reshape([-1 if k == d else 1 for k in range(index.ndim)])
            found = walk.emit("add", found, walk.constant(along, _INTEGER))
    return found


def gathered(walk: Walk, instruction: Instruction) -> Rewritten:
    """The elements of an array that an index along a dimension names."""
    x, index = instruction.arguments
    dim = instruction.settings["dim"]
    if x.__class__ is not Value or not x.size or not _is_index(index) or index.ndim != x.ndim:
        return None
    return walk.emit("take_slices", walk.reshaped(x, (x.size,)), _places(walk, index, x.shape, dim), dim=0)


def added_to_gathered(walk: Walk, instruction: Instruction) -> Rewritten:
    """Its transpose."""
    g, index = instruction.arguments
    dim, shape = instruction.settings["dim"], tuple(instruction.settings["shape"])
    if not is_plain(g) or not _is_index(index) or g.shape != index.shape or index.ndim != len(shape) or not prod(shape):
        return None
    return walk.reshaped(walk.emit("add_slices", g, _places(walk, index, shape, dim), dim=0, length=prod(shape)), shape)
