"""Forward parts from the write to the read.

    getitem(embed(x, i), j)              ->  a part of x where j lies within i, zeros where it lies outside
    getitem(slice_scatter(x, y, i), j)   ->  a part of y, or of x
    getitem(add(x, embed(y, i)), j)      ->  a part of x, with a part of y or 0. added (see ndgrad._src.compiler.passes.write_histories)
    getitem(cat(x, y, ...), j)           ->  a part of one of them; stack likewise
    stack(x[3], x[4], x[5], y)           ->  x[3:6], followed by y
    stack(x, x, x)                       ->  x, broadcast
    slice_scatter(slice_scatter(x, y, i), z, j)  ->  slice_scatter(x, z, j) if i lies within j

An element is computed as before or not at all, so this is exact. It runs after `canonical_views`, which brings indices
into one form.
"""

from __future__ import annotations

from ndgrad._src.compiler.passes.basic_index import Place, is_setting, is_whole, relative_to
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.passes.views import read_part, to_places
from ndgrad._src.compiler.program.program import Argument, Instruction, Value

read_parts = Rules()
rule = read_parts.rule


@rule("getitem")
def _read_part(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    if not is_setting(instruction.settings["index"], x.shape):
        return None
    index = to_places(instruction.settings["index"], x.shape)
    made = walk.definition(x)
    if made is None:
        return None
    match made.op.name:
        case "embed" | "slice_scatter" | "add":
            return walk.histories.find_part(x, index)
        case "cat":
            return _read_concatenation(walk, made, index)
        case "stack":
            dim = made.settings["dim"]
            at = index[dim]
            if isinstance(at, int):
                return read_part(walk, made.arguments[at], index[:dim] + index[dim + 1 :])
    return None


def _typed(walk: Walk, y: Argument, index: tuple[Place, ...], result: Value) -> Rewritten:
    """Return a part of the written value or number, in the dtype of the target."""
    if y.__class__ is not Value:
        return walk.full(y, result) if isinstance(y, (bool, int, float)) else None
    found = read_part(walk, y, index)
    return found if found.dtype == result.dtype else walk.emit("cast", found, dtype=result.dtype)


def _read_concatenation(walk: Walk, made: Instruction, index: tuple[Place, ...]) -> Rewritten:
    dim = made.settings["dim"]
    at = index[dim]
    numbers = (at, at) if isinstance(at, int) else (at[0], at[0] + (at[1] - 1) * at[2])
    if not isinstance(at, int) and at[1] == 0:
        return None
    low = 0
    for part in made.arguments:
        high = low + part.shape[dim]
        if low <= min(numbers) and max(numbers) < high:
            moved: Place = at - low if isinstance(at, int) else (at[0] - low, at[1], at[2])
            found = read_part(walk, part, (*index[:dim], moved, *index[dim + 1 :]))
            return found if found.dtype == made.result.dtype else walk.emit("cast", found, dtype=made.result.dtype)
        low = high
    return None


@rule("slice_scatter")
def _overwritten(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    index = instruction.settings["index"]
    if not is_setting(index, x.shape):
        return None
    place = to_places(index, x.shape)
    if is_whole(place, x.shape):
        return _typed(walk, y, tuple([(0, n, 1) for n in x.shape]), instruction.result)
    made = walk.made_by(x, "slice_scatter")
    if (
        made is not None
        and is_setting(made.settings["index"], x.shape)
        and relative_to(to_places(made.settings["index"], x.shape), place)
    ):
        return walk.emit("slice_scatter", made.arguments[0], y, index=index)
    return None


@rule("stack")
def _stack_of_rows(walk: Walk, instruction: Instruction) -> Rewritten:
    """Read consecutive rows of one array at once."""
    rows = [_row(walk, a) for a in instruction.arguments]
    found: list[tuple[Value, int, int, int]] = []  # (array, first row, step, count)
    begin = 0
    while begin < len(rows):
        first = rows[begin]
        step, end = 1, begin + 1
        while end < len(rows) and instruction.arguments[end] is instruction.arguments[begin]:
            first, end = None, end + 1
        if first is not None and end < len(rows) and _follows(rows[end], first, None):
            step = rows[end][1] - first[1]  # type: ignore[index]
            while end < len(rows) and _follows(rows[end], first, step * (end - begin)):
                end += 1
        found.append((*(first or (instruction.arguments[begin], -1)), step, end - begin))
        begin = end
    if len(found) > max(1, len(rows) // 4):
        return None
    parts = []
    for array, at, step, count in found:
        if at < 0:
            row = walk.reshaped(array, (1, *array.shape))
            parts.append(row if count == 1 else walk.emit("expand", row, shape=(count, *array.shape)))
        else:
            parts.append(read_part(walk, array, ((at, count, step), *[(0, n, 1) for n in array.shape[1:]])))
    joined = parts[0] if len(parts) == 1 else walk.emit("cat", *parts, dim=0)
    dim = instruction.settings["dim"]
    return walk.emit("permute", joined, dims=(*range(1, dim + 1), 0, *range(dim + 1, joined.ndim))) if dim else joined


def _row(walk: Walk, value: Value) -> tuple[Value, int] | None:
    """Return the array of which a value is a row, and the row's number."""
    made = walk.made_by(value, "getitem")
    if made is None:
        return None
    (x,) = made.arguments
    if not is_setting(made.settings["index"], x.shape):
        return None
    at, *rest = to_places(made.settings["index"], x.shape)
    return (x, at) if isinstance(at, int) and is_whole(tuple(rest), x.shape[1:]) else None


def _follows(row: tuple[Value, int] | None, first: tuple[Value, int], distance: int | None) -> bool:
    if row is None or row[0] is not first[0]:
        return False
    return abs(row[1] - first[1]) == 1 if distance is None else row[1] - first[1] == distance
