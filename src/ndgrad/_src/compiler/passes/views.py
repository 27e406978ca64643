"""Bring each kind of view into one form, and remove views that show everything.

    transpose, t                               ->  permute
    squeeze, unsqueeze, unsafe_view            ->  reshape
    select, slice, element, split, unbind, flip  ->  getitem, with a number or a whole slice for each dimension
    select_backward, slice_backward            ->  embed, likewise
    alias, detach, clone, conj of real numbers ->  nothing: a program has no memory that could be shared

A view of a view of the same kind is one view. All of this is exact: no element is computed. At most the memory layout
in NumPy changes, and so the order in which a later sum adds the elements.
"""

from __future__ import annotations

import math

import numpy as np

from ndgrad._src.compiler.passes.basic_index import Place, compose, is_setting, is_whole, places, shape_of, to_setting
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Value

canonical_views = Rules()
rule = canonical_views.rule


@rule("alias", "detach", "clone", "clone_ordered", "contiguous")
def _same(walk: Walk, instruction: Instruction) -> Rewritten:
    return instruction.arguments[0]


@rule("conj", "real")
def _drop_conj_of_real(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    return x if x.dtype.kind != "c" else None


@rule("conj")
def _conj_of_conj(walk: Walk, instruction: Instruction) -> Rewritten:
    inner = walk.made_by(instruction.arguments[0], "conj")
    return None if inner is None else inner.arguments[0]


@rule("cast")
def _cast(walk: Walk, instruction: Instruction) -> Rewritten:
    """Remove a cast to the value's own dtype, and a cast to a wider dtype and back."""
    (x,) = instruction.arguments
    dtype = instruction.result.dtype
    if x.dtype == dtype:
        return x
    inner = walk.made_by(x, "cast")
    if inner is not None:
        (source,) = inner.arguments
        if source.dtype == dtype and np.can_cast(dtype, x.dtype, "safe"):
            return source
    return None


@rule("copy")
def _copy(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return the result of a write: the source, in the dtype and shape of the target."""
    _, y = instruction.arguments
    result = instruction.result
    if y.__class__ is not Value:
        return walk.full(y, result) if isinstance(y, (bool, int, float)) else None
    if y.dtype != result.dtype:
        y = walk.emit("cast", y, dtype=result.dtype)
    return y if y.shape == result.shape else walk.emit("expand", y, shape=result.shape)


# ----- new sizes ------------------------------------------------------------------------------------------------------


@rule("squeeze", "squeeze_dim", "squeeze_dims", "unsqueeze", "unsafe_view")
def _as_reshape(walk: Walk, instruction: Instruction) -> Rewritten:
    return walk.emit("reshape", instruction.arguments[0], shape=instruction.result.shape)


@rule("reshape")
def _reshape(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    shape = instruction.result.shape
    if x.shape == shape:
        return x
    inner = walk.made_by(x, "reshape")
    if inner is not None:
        return walk.reshaped(inner.arguments[0], shape)
    inner = walk.made_by(x, "expand")
    if inner is not None and inner.arguments[0].size == 1:
        return walk.emit("expand", inner.arguments[0], shape=shape)
    if tuple(instruction.settings["shape"]) != shape:  # a size was left to be inferred
        return walk.emit("reshape", x, shape=shape)
    return None


@rule("reshape")
def _reshape_of_sum(walk: Walk, instruction: Instruction) -> Rewritten:
    """Drop the dimensions in the sum itself if it kept them and a reshape removes them."""
    shape = instruction.result.shape
    inner = walk.made_by(instruction.arguments[0], "sum")
    if inner is None or not inner.settings.get("keepdim"):
        return None
    (x,) = inner.arguments
    dims = inner.settings["dim"]
    if shape != tuple([n for d, n in enumerate(x.shape) if d not in dims]):
        return None
    return walk.emit("sum", x, **{**inner.settings, "keepdim": False})


@rule("expand")
def _expand(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    shape = instruction.result.shape
    if x.size == math.prod(shape):
        return walk.reshaped(x, shape)
    inner = walk.made_by(x, "expand")
    if inner is not None:
        return walk.emit("expand", inner.arguments[0], shape=shape)
    if x.size == 1 and x.shape:
        return walk.emit("expand", walk.emit("reshape", x, shape=()), shape=shape)
    return None


# ----- new order of dimensions ----------------------------------------------------------------------------------------


@rule("transpose")
def _transpose(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    dims = list(range(x.ndim))
    a, b = instruction.settings["dim0"], instruction.settings["dim1"]
    if a != b:
        dims[a], dims[b] = dims[b], dims[a]
    return walk.emit("permute", x, dims=tuple(dims))


@rule("t")
def _t(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    return walk.emit("permute", x, dims=tuple(range(x.ndim))[::-1])


@rule("permute")
def _permute(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    dims = instruction.settings["dims"]
    shape = instruction.result.shape
    moved = [d for d in dims if x.shape[d] != 1]
    if moved == sorted(moved):  # only dimensions of size one change places
        return walk.reshaped(x, shape)
    inner = walk.made_by(x, "permute")
    if inner is not None:
        before = inner.settings["dims"]
        return walk.emit("permute", inner.arguments[0], dims=tuple([before[d] for d in dims]))
    inner = walk.made_by(x, "expand")
    if inner is not None and inner.arguments[0].size == 1:
        return walk.emit("expand", inner.arguments[0], shape=shape)
    return None


# ----- parts ----------------------------------------------------------------------------------------------------------


def read_part(walk: Walk, x: Value, index: tuple[Place, ...]) -> Value:
    """Return the part of a value that an index shows."""
    return x if is_whole(index, x.shape) else walk.emit("getitem", x, index=to_setting(index))


def index_along(x: Value, dim: int, place: Place) -> tuple[Place, ...]:
    """Return the index of a place in one dimension, and of everything in the others."""
    return tuple([place if d == dim else (0, n, 1) for d, n in enumerate(x.shape)])


@rule("getitem", "element")
def _getitem(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    index = places(instruction.settings["index"], x.shape)
    if index is None:
        return None
    if instruction.op.name == "element" or not is_setting(instruction.settings["index"], x.shape):
        return walk.reshaped(read_part(walk, x, index), instruction.result.shape)
    if is_whole(index, x.shape):
        return x
    inner = walk.made_by(x, "getitem")
    if inner is not None:
        source = inner.arguments[0]
        return read_part(walk, source, compose(to_places(inner.settings["index"], source.shape), index))
    inner = walk.made_by(x, "expand")
    if inner is not None and inner.arguments[0].size == 1:
        return walk.emit("expand", inner.arguments[0], shape=instruction.result.shape)
    return None


def to_places(index: tuple[int | slice, ...], shape: tuple[int, ...]) -> tuple[Place, ...]:
    """Return the places of an index in the form of this pass."""
    found = places(index, shape)
    assert found is not None
    return found


@rule("select")
def _select(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    dim, at = instruction.settings["dim"], int(instruction.settings["index"])
    return read_part(walk, x, index_along(x, dim, at + x.shape[dim] if at < 0 else at))


@rule("slice")
def _slice(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    return read_part(walk, x, _sliced(x.shape, **instruction.settings))


@rule("flip")
def _flip(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    dims = [d % x.ndim for d in instruction.settings["dims"]] if x.ndim else []
    if not x.size:
        return None
    return read_part(walk, x, tuple([(n - 1, n, -1) if d in dims and n > 1 else (0, n, 1) for d, n in enumerate(x.shape)]))


def _sliced(shape: tuple[int, ...], dim: int, start: int, stop: int, step: int) -> tuple[Place, ...]:
    return to_places((slice(None),) * dim + (slice(start, stop, step),), shape)


@rule("split", "split_with_sizes", "unbind")
def _split(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    dim = instruction.settings["dim"]
    if instruction.op.name == "unbind":
        return tuple([read_part(walk, x, index_along(x, dim, at)) for at in range(x.shape[dim])])
    found, start = [], 0
    for part in instruction.results:
        count = part.shape[dim]
        found.append(read_part(walk, x, index_along(x, dim, (start, count, 1) if count else (0, 0, 1))))
        start += count
    return tuple(found)


@rule("select_backward", "slice_backward", "embed")
def _embed(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    settings = instruction.settings
    shape = tuple(settings["shape"])
    match instruction.op.name:
        case "select_backward":
            at = int(settings["index"])
            index = index_along(instruction.result, settings["dim"], at + shape[settings["dim"]] if at < 0 else at)
        case "slice_backward":
            index = _sliced(shape, settings["dim"], settings["start"], settings["stop"], settings["step"])
        case _:
            found = places(settings["index"], shape)
            if found is None:
                return None
            index = found
            if is_setting(settings["index"], shape):
                return x if is_whole(index, shape) and x.shape == shape else None
    part = shape_of(index)
    if x.size != math.prod(part):  # NumPy broadcasts the written value
        return None
    x = walk.reshaped(x, part)
    return x if is_whole(index, shape) else walk.emit("embed", x, shape=shape, index=to_setting(index))


@rule("slice_scatter")
def _slice_scatter(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    index = places(instruction.settings["index"], x.shape)
    if index is None or is_setting(instruction.settings["index"], x.shape):
        return None
    if y.__class__ is Value:
        part = shape_of(index)
        if y.size == math.prod(part):
            y = walk.reshaped(y, part)
        elif None in instruction.settings["index"]:  # NumPy broadcasts the written value
            return None
        else:
            y = walk.emit("expand", y, shape=part)
    return walk.emit("slice_scatter", x, y, index=to_setting(index))
