"""Rewrite reading and writing by index in terms of three ops with kernels, which read, add to, or overwrite indexed
slices.

    embedding(x, i)           ->   take_slices(x, i)
    x[i, j]                   ->   take_slices(x with both dimensions as one, i * n + j)
    gather(x, i, dim)         ->   take_slices(flat x, the flat position of each element)

The transposes use `add_slices`, and writes use `put_slices`. Positions are computed by elementwise ops on integers, and
their range is checked (expansion.py). Sums may be added in another order, so this reassociates. At each place, terms
are added in the order of the index, as in NumPy.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.expansion import Expansion, is_plain
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Value

indexing = Rules()
rule = indexing.rule

_INTEGER = np.dtype(np.int64)


def _is_index(value: Any) -> bool:
    return value.__class__ is Value and value.dtype.kind in "iu" and value.dtype != np.uint64 and value.size > 0


def _checked(walk: Walk, index: Value, length: int, wraps: bool) -> Value:
    """Return an index as nonnegative int64, and add a check of its range. If it `wraps`, negative numbers count from
    the end.
    """
    assert isinstance(walk, Expansion)
    walk.check_range(index, -length if wraps else 0, length)
    index = index if index.dtype == _INTEGER else walk.emit("cast", index, dtype=_INTEGER)
    if not wraps:
        return index
    return walk.emit("where", walk.emit("lt", index, 0), walk.emit("add", index, length), index)


def _keys(walk: Walk, indices: tuple[Value, ...], shape: tuple[int, ...]) -> Value:
    """Combine indices into leading dimensions to one index into the flattened dimensions."""
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


# ----- writes ---------------------------------------------------------------------------------------------------------


def _put(walk: Walk, x: Value, y: Any, keys: Value, dim: int, adds: bool) -> Value | None:
    """Return x with y, which broadcasts, in the slices that keys name; None if there is no kernel for that."""
    if adds and not is_plain(x):
        return None
    shape = (*x.shape[:dim], *keys.shape, *x.shape[dim + 1 :])
    if y.__class__ is not Value:
        y = walk.constant(y, x.dtype)
    if y.dtype != x.dtype or y.ndim > len(shape):
        return None
    if y.shape != shape:
        y = walk.emit("expand", y, shape=shape)
    return walk.emit("put_slices", x, y, keys, dim=dim, adds=adds)


@rule("index_add", "index_copy", "index_fill")
def _put_slices(walk: Walk, instruction: Instruction) -> Rewritten:
    x, index, y = instruction.arguments
    dim = instruction.settings["dim"]
    if x.__class__ is not Value or not x.size or not _is_index(index) or index.ndim != 1:
        return None
    fills = instruction.op.name == "index_fill"
    if y.__class__ is Value and y.shape != (() if fills else (*x.shape[:dim], index.size, *x.shape[dim + 1 :])):
        return None
    return _put(walk, x, y, _checked(walk, index, x.shape[dim], fills), dim, instruction.op.name == "index_add")


@rule("index_put")
def _index_put(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y, *indices = instruction.arguments
    count = len(indices)
    if x.__class__ is not Value or not x.size or not all(_is_index(i) for i in indices):
        return None
    line = walk.reshaped(x, (prod(x.shape[:count]), *x.shape[count:]))
    found = _put(walk, line, y, _keys(walk, tuple(indices), x.shape), 0, instruction.settings["accumulate"])
    return None if found is None else walk.reshaped(found, x.shape)


@rule("scatter", "scatter_add")
def _scatter(walk: Walk, instruction: Instruction) -> Rewritten:
    x, index, y = instruction.arguments
    dim = instruction.settings["dim"]
    if x.__class__ is not Value or not x.size or not _is_index(index) or index.ndim != x.ndim:
        return None
    if y.__class__ is Value and y.shape and y.shape != index.shape:
        return None
    keys = _places(walk, index, x.shape, dim)
    found = _put(walk, walk.reshaped(x, (x.size,)), y, keys, 0, instruction.op.name == "scatter_add")
    return None if found is None else walk.reshaped(found, x.shape)


@rule("overwritten")
def _overwritten(walk: Walk, instruction: Instruction) -> Rewritten:
    indices, shape = instruction.arguments, tuple(instruction.settings["shape"])
    if not all(_is_index(i) for i in indices) or not prod(shape):
        return None
    return _named_again(walk, _keys(walk, tuple(indices), shape), prod(shape))


@rule("overwritten_along")
def _overwritten_along(walk: Walk, instruction: Instruction) -> Rewritten:
    (index,) = instruction.arguments
    dim, shape = instruction.settings["dim"], tuple(instruction.settings["shape"])
    if not _is_index(index) or index.ndim != len(shape) or not prod(shape):
        return None
    return _named_again(walk, _places(walk, index, shape, dim), prod(shape))


def _named_again(walk: Walk, keys: Value, length: int) -> Value:
    """Return a mask of the keys that occur again later: after all keys have written their number, they read another
    one.
    """
    own = walk.constant(np.arange(keys.size).reshape(keys.shape), _INTEGER)
    places = walk.emit("expand", walk.constant(0, _INTEGER), shape=(length,))
    last = walk.emit("put_slices", places, own, keys, dim=0, adds=False)
    return walk.emit("ne", walk.emit("take_slices", last, keys, dim=0), own)


# ----- elements along a dimension -------------------------------------------------------------------------------------


def _places(walk: Walk, index: Value, shape: tuple[int, ...], dim: int) -> Value:
    """Return the flat positions, in an array of a shape, of the elements that an index along a dimension names."""
    found = walk.emit("mul", _checked(walk, index, shape[dim], False), prod(shape[dim + 1 :]))
    for d, n in enumerate(index.shape):
        step = prod(shape[d + 1 :])
        if d != dim and n > 1:
            along = (np.arange(n) * step).reshape([-1 if k == d else 1 for k in range(index.ndim)])
            found = walk.emit("add", found, walk.constant(along, _INTEGER))
    return found


def gathered(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return the elements of an array that an index along a dimension names."""
    x, index = instruction.arguments
    dim = instruction.settings["dim"]
    if x.__class__ is not Value or not x.size or not _is_index(index) or index.ndim != x.ndim:
        return None
    return walk.emit("take_slices", walk.reshaped(x, (x.size,)), _places(walk, index, x.shape, dim), dim=0)


def added_to_gathered(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return the transpose of `gather_along`."""
    g, index = instruction.arguments
    dim, shape = instruction.settings["dim"], tuple(instruction.settings["shape"])
    if not is_plain(g) or not _is_index(index) or g.shape != index.shape or index.ndim != len(shape) or not prod(shape):
        return None
    return walk.reshaped(walk.emit("add_slices", g, _places(walk, index, shape, dim), dim=0, length=prod(shape)), shape)
