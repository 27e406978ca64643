"""Let elementwise ops broadcast, instead of giving them expanded values.

    mul(x, expand(s, shape))                ->  mul(x, s)              the shape of the result must stay
    mul(expand(s, shape), expand(t, shape)) ->  expand(mul(s, t), shape)
    mul(x, c)  with a constant number c     ->  mul(x, 2.0)            if the result has the dtype of x

Exact: an element of the result is computed from the same elements. An op whose operands are all expanded moves before
the expansion only if NumPy computes it identically for one number and for many: arithmetic, comparisons, signs, square
roots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Argument, Instruction, Value

broadcasting = Rules()


@broadcasting.rule("cast", "keep", where=lambda op: op.elementwise)
def _drop_expansions(walk: Walk, instruction: Instruction) -> Rewritten:
    if instruction.op.name == "pow":  # NumPy computes a power by a number differently from a power by an array
        return None
    if all(walk.made_by(a, "expand") is None for a in instruction.arguments):
        return None
    shape = instruction.result.shape
    sources: list[Argument] = [_source(walk, a) for a in instruction.arguments]
    if _broadcast(sources) == shape:
        return walk.emit(instruction.op, *sources, **instruction.settings)
    if instruction.op.rounds_once or instruction.op.compares:
        return walk.emit("expand", walk.emit(instruction.op, *sources, **instruction.settings), shape=shape)
    # Strip as many expansions as the result shape allows. If no other argument has that shape, one stays expanded, or
    # several that give it together.
    expanded = [i for i, (s, a) in enumerate(zip(sources, instruction.arguments, strict=True)) if s is not a]
    for i in sorted(expanded, key=lambda i: instruction.arguments[i].shape != shape):
        sources[i] = instruction.arguments[i]
        if _broadcast(sources) == shape:
            break
    if all(s is a for s, a in zip(sources, instruction.arguments, strict=True)):
        return None
    return walk.emit(instruction.op, *sources, **instruction.settings)


def _broadcast(arguments: list[Argument]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[a.shape for a in arguments if a.__class__ is Value])


def _source(walk: Walk, argument: Argument) -> Argument:
    made = walk.made_by(argument, "expand")
    return argument if made is None else made.arguments[0]


@broadcasting.rule("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
def _number(walk: Walk, instruction: Instruction) -> Rewritten:
    """Replace a constant of the other argument's dtype by the Python number, because NumPy treats both alike."""
    x, y = instruction.arguments
    if x.__class__ is not Value or y.__class__ is not Value or x.dtype != y.dtype:
        return None
    if _is_plain(walk, y):
        return walk.emit(instruction.op, x, walk.constants[y].item())
    return walk.emit(instruction.op, walk.constants[x].item(), y) if _is_plain(walk, x) else None


def _is_plain(walk: Walk, value: Value) -> bool:
    constant: Any = walk.constants.get(value)
    return constant is not None and not constant.shape and value.dtype.kind in "fi" and value.dtype.itemsize >= 4
