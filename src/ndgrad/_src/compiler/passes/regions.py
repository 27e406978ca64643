"""Rewrite arrays assembled from overlapping parts as arrays of disjoint parts.

    pieces(a, b, index=(0:38, 1:39))   ->   assembled(a[0:1] + 0., a[1:38] + b[0:37], b[37:38] + 0., index=(0:1, 1:38, 38:39))
    slice_scatter(x, y, index=1:39)    ->   assembled(x[0:1], y, x[39:40], index=(0:1, 1:39, 39:40))

A NumPy program writes into its buffers, and the gradients of its reads are sums of shifted parts. If parts overlap,
order matters: the array is a chain of steps, each waiting for the one before. This pass cuts the array into *regions*
that are each covered by the same parts. Every region is then an elementwise formula. Its kernel writes the region in
place, and nothing is written twice.

Regions are found dimension by dimension. The positions covered by the same parts form runs of a constant step. In each
run, only those parts cut the next dimension.

A part of every third element and a part of all elements give as many regions as there are elements. If there are too
many regions, parts are added in *layers* of disjoint parts:

    pieces(a, b, index=(0:300, 0:300:3))   ->   overlaid(s, s[0:300:3] + b, index=(0:300:3,)) with s = a + 0.

Exact, either way: at each place the same numbers are added in the same order (see `pieces` for zeros). For native code
alone; NumPy would need one call for each region. Arrays of many layers are left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.native.ir import TYPES
from ndgrad._src.compiler.passes.basic_index import (
    Place,
    Range,
    are_disjoint,
    is_whole,
    places,
    positions,
    relative_to,
    shape_of,
    to_setting,
)
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Instruction, Program, Value

#: Maximum number of regions; more are not worth a kernel each.
_REGIONS = 64
#: Maximum number of layers, since each passes through the whole array, and of parts that are compared in pairs.
_LAYERS, _PARTS = 8, 512

_rules = Rules()

Index = tuple[Range, ...]


def _is_native(dtype: np.dtype[Any]) -> bool:
    return dtype.name in TYPES and dtype.isnative


class _Cutting(Walk):
    """A walk that knows the dtypes of kernels."""

    is_type: Callable[[np.dtype[Any]], bool]


def split_into_regions(program: Program, is_type: Callable[[np.dtype[Any]], bool] = _is_native) -> Program:
    """Return the program with overlapping parts as disjoint ones, if kernels support their dtypes."""
    if not any(i.op.name in _rules.by_name for i in program.instructions):
        return program
    walk = _Cutting(program, _rules)
    walk.is_type = is_type
    return walk.run()


@_rules.rule("pieces")
def _pieces(walk: Walk, instruction: Instruction) -> Rewritten:
    result, settings = instruction.result, instruction.settings
    parts = _parts(walk, instruction.arguments, settings["index"], result)
    if parts is None:
        return None
    starts_at_zero = result.dtype.kind == "f" or result.dtype.char in "eE"
    cut = regions([index for _, index in parts], result.shape)
    if cut is None:
        return _sum_in_layers(walk, instruction, parts, starts_at_zero)
    found: list[tuple[Value, Index]] = []
    for region, numbers in cut:
        if not numbers:
            continue
        terms = [_take(walk, *parts[k], region) for k in numbers]
        if starts_at_zero and (len(numbers) < len(parts) or settings["common"] is None):
            terms[0] = walk.emit("add", terms[0], 0.0)
        total = terms[0]
        for term in terms[1:]:
            total = walk.emit("add", total, term)
        found.append((total, region))
    return _assembled(walk, instruction, found) if found else None


def _sum_in_layers(
    walk: Walk, instruction: Instruction, parts: list[tuple[Value, Index]], starts_at_zero: bool
) -> Rewritten:
    """Sum parts in layers. Each part is added to the sum of the overlapping parts before it; disjoint parts are added
    at once.
    """
    layers = _layers([index for _, index in parts])
    common = instruction.settings["common"]
    if layers is None:
        return None
    if starts_at_zero and common is not None:  # places covered by all parts start at -0., the others at 0.
        at = places(common, instruction.result.shape)
        assert at is not None
        number = walk.full(-0.0, Value(shape_of(at), instruction.result.dtype))
        total = _emit_assembly(walk, instruction, "assembled", [number], [common])
    else:
        first = [parts[k] for k in layers.pop(0)]
        values = [walk.emit("add", part, 0.0) for part, _ in first] if starts_at_zero else [part for part, _ in first]
        total = _emit_assembly(walk, instruction, "assembled", values, [to_setting(index) for _, index in first])
    for layer in layers:
        sums = [walk.emit("add", _part_of(walk, total, parts[k][1]), parts[k][0]) for k in layer]
        if is_whole(parts[layer[0]][1], total.shape):
            total = sums[0]
        else:
            total = _emit_assembly(walk, instruction, "overlaid", [total, *sums], [to_setting(parts[k][1]) for k in layer])
    return total


def _layers(indices: Sequence[Index]) -> list[list[int]] | None:
    """Group the numbers of indices in layers. Each index follows all earlier ones that overlap it. None if there are
    too many.
    """
    if len(indices) > _PARTS:
        return None
    depths: list[int] = []
    for index in indices:
        below = [depth for depth, other in zip(depths, indices, strict=False) if not are_disjoint(index, other)]
        depths.append(1 + max(below, default=-1))
        if depths[-1] >= _LAYERS:
            return None
    return [[k for k, depth in enumerate(depths) if depth == layer] for layer in range(1 + max(depths))]


@_rules.rule("overlaid", "slice_scatter")
def _overlaid(walk: Walk, instruction: Instruction) -> Rewritten:
    result, index = instruction.result, instruction.settings["index"]
    everything = tuple([slice(0, n, 1) for n in result.shape])
    parts = _parts(
        walk, instruction.arguments, (everything, *(index if instruction.op.name == "overlaid" else (index,))), result
    )
    cut = None if parts is None else regions([index for _, index in parts], result.shape, last_alone=True)
    if parts is None or cut is None:
        return None
    return _assembled(
        walk, instruction, [(_take(walk, *parts[numbers[-1]], region), region) for region, numbers in cut]
    )


def _parts(
    walk: Walk, arguments: Sequence[Any], index: Sequence[Any], result: Value
) -> list[tuple[Value, Index]] | None:
    """Return the parts with their places, a range in every dimension; None if kernels cannot write there."""
    assert isinstance(walk, _Cutting)
    if not walk.is_type(result.dtype) or not result.size:
        return None
    found: list[tuple[Value, Index]] = []
    for value, given in zip(arguments, index, strict=True):
        at = None if None in given else places(given, result.shape)
        if at is None or value.__class__ is not Value or value.dtype != result.dtype or value.shape != shape_of(at):
            return None
        ranges = tuple([(place, 1, 1) if isinstance(place, int) else place for place in at])
        found.append((walk.reshaped(value, shape_of(ranges)), ranges))
    return found


def _take(walk: Walk, part: Value, index: Index, region: Index) -> Value:
    """Return the elements of a part in a region."""
    inner = relative_to(region, index)
    assert inner is not None
    return _part_of(walk, part, inner)


def _part_of(walk: Walk, value: Value, index: tuple[Place, ...]) -> Value:
    return value if is_whole(index, value.shape) else walk.emit("getitem", value, index=to_setting(index))


def _assembled(walk: Walk, instruction: Instruction, parts: list[tuple[Value, Index]]) -> Value:
    return _emit_assembly(walk, instruction, "assembled", [v for v, _ in parts], [to_setting(index) for _, index in parts])


def _emit_assembly(
    walk: Walk, instruction: Instruction, name: str, values: Sequence[Value], index: Sequence[tuple[Any, ...]]
) -> Value:
    """Return an array like an instruction's result, assembled from values by an op of the compiler."""
    result = instruction.result
    made = Value(result.shape, result.dtype)
    settings = {"index": tuple(index)} if name == "overlaid" else {"shape": result.shape, "index": tuple(index)}
    walk.append(Instruction(op_named(name), tuple(values), settings, (made,), instruction.where))
    return made


# ----- regions --------------------------------------------------------------------------------------------------------


def regions(
    indices: Sequence[Index], shape: tuple[int, ...], last_alone: bool = False
) -> list[tuple[Index, tuple[int, ...]]] | None:
    """Return the regions that cover an array, and the numbers of the parts that cover each.

    With `last_alone`, only the last part of each region is needed. None if there are too many.
    """
    found: list[tuple[Index, tuple[int, ...]]] = []
    for region in _cut_regions((), tuple(range(len(indices))), indices, shape, last_alone):
        found.append(region)
        if len(found) > _REGIONS:
            return None
    return found


def _cut_regions(
    begun: Index, active: tuple[int, ...], indices: Sequence[Index], shape: tuple[int, ...], last_alone: bool
) -> Iterator[tuple[Index, tuple[int, ...]]]:
    """Yield the regions that begin with some places, covered by the parts that are active so far."""
    dim = len(begun)
    rest = shape[dim:]
    if last_alone:  # parts below a later part that covers everything are irrelevant
        over = [k for k, number in enumerate(active) if _is_full(indices[number][dim:], rest)]
        active = active[over[-1] :] if over else active
    if all(_is_full(indices[k][dim:], rest) for k in active):
        yield (*begun, *[(0, n, 1) for n in rest]), active
        return
    kinds = np.zeros(shape[dim], np.int64)  # a bit for each part that covers a position
    for number, k in enumerate(active):
        if number % 30 == 29:
            # renumber, so that the bits suffice: there are no more kinds than positions
            kinds = np.unique(kinds, return_inverse=True)[1]
        start, count, step = indices[k][dim]
        kinds *= 2
        kinds[start + step * np.arange(count)] += 1
    for run in _runs(kinds):
        still = tuple([k for k in active if run[0] in positions(indices[k][dim])])
        yield from _cut_regions((*begun, run), still, indices, shape, last_alone)


def _is_full(index: Index, shape: tuple[int, ...]) -> bool:
    return all(count == n for (_, count, _), n in zip(index, shape, strict=True))


def _runs(kinds: Any) -> Iterator[Range]:
    """Return runs of positions of a constant step that are of one kind."""
    for kind in np.unique(kinds):
        found = np.flatnonzero(kinds == kind)
        steps = np.diff(found)
        begin = 0
        while begin < len(found):
            uneven = np.flatnonzero(steps[begin:] != steps[begin : begin + 1])
            count = 1 + int(uneven[0]) if len(uneven) else len(found) - begin
            if count == 2 and len(uneven) and steps[begin] != 1:
                count = 1  # an accidental pair, far apart
            yield int(found[begin]), count, int(steps[begin]) if count > 1 else 1
            begin += count
