"""Describe values that are assembled from others, as places in the memory of the result.

    stack, cat, embed, assembled    disjoint parts, and zeros elsewhere
    overlaid, slice_scatter         parts that are written over an array, in their order
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.compiler.lower.memory_places import Place, whole
from ndgrad._src.compiler.program.program import Instruction, Value


class Parts(NamedTuple):
    """An assembled value: its parts and their places, True if they cover all of it, and True if later ones overwrite
    earlier ones.
    """

    values: list[tuple[Value, Place]]
    covers: bool
    in_order: bool = False


def part_of(value: Value, index: tuple[Any, ...]) -> Place | None:
    """Return the part of a value in memory that a basic index names. A single element is a view, too."""
    full = index if Ellipsis in index else (*index, ...)
    return whole(value).apply_view(lambda a: a[full])


def parts_of(instruction: Instruction, is_type: Callable[[np.dtype[Any]], bool]) -> Parts | None:
    """Return the parts from which an instruction assembles its result; None for other ops."""
    if (
        instruction.op.movement not in ("place", "join", "overwrite")
        or not is_type(instruction.result.dtype)
        or not instruction.result.size
    ):
        return None
    result = instruction.result
    if any(a.__class__ is not Value or a.dtype != result.dtype for a in instruction.arguments):
        return None
    all_of_it = whole(result)
    found: list[tuple[Value, Place]] = []
    for value, index in _indices(instruction):
        place = part_of(result, index)
        if place is None or place.shape != value.shape or not value.size:
            return None
        found.append((value, place))
    if instruction.op.movement == "overwrite":
        return Parts([(next(iter(instruction.values())), all_of_it), *found], True, in_order=True)
    return Parts(found, sum(value.size for value, _ in found) == result.size)


def _indices(instruction: Instruction) -> list[tuple[Value, tuple[Any, ...]]]:
    """Return the values that an instruction assembles, and the index of each."""
    name, settings, values = instruction.op.name, instruction.settings, list(instruction.values())
    before = (slice(None),) * settings.get("dim", 0)
    match name:
        case "assembled":
            return list(zip(values, settings["index"], strict=True))
        case "overlaid":
            return list(zip(values[1:], settings["index"], strict=True))
        case "slice_scatter":
            return [(values[1], settings["index"])]
        case "stack":
            return [(v, (*before, k)) for k, v in enumerate(values)]
        case "cat":
            ends = list(accumulate([v.shape[settings["dim"]] for v in values], initial=0))
            return [
                (v, (*before, slice(start, stop)))
                for v, start, stop in zip(values, ends, ends[1:], strict=False)
                if v.size
            ]
        case "select_backward":
            return [(values[0], (*before, settings["index"]))]
        case "slice_backward":
            return [(values[0], (*before, slice(settings["start"], settings["stop"], settings["step"])))]
        case _:
            return [(values[0], settings["index"])]
