"""Share work between the rounds of two loops: a later loop reads results that an earlier one computes too.

A round of a backward loop begins with the carry and the row that the forward round had, and recomputes that round as
far as its derivative needs it:

    forward     c = add(c, sin(mul(w, c)))            backward   g = add(g, mul(w, mul(g, cos(mul(w, row of all c)))))

Round t of the later loop corresponds to round a + b t of the earlier one, as shown by the rows that it reads of the
earlier results. Inputs of both bodies are the same values if they are the same rows or the same invariants. So are the
results of the same ops on the same values. The rest of the later body reads them as rows that the earlier loop now
stores: the values autograd would have saved. Only views, single additions and products of available values are
recomputed. Loops inside a body are excluded, so that checkpoints keep their purpose.

Exact.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.basic_index import places
from ndgrad._src.compiler.passes.cse import key_of
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.loop_parts import LoopParts
from ndgrad._src.compiler.program.compiler_ops import loop
from ndgrad._src.compiler.program.partition import is_view
from ndgrad._src.compiler.program.program import Instruction, Program, Unhashable, Value, with_values


def share_rounds(program: Program) -> Program:
    """Return the program with loops that share the common work of their rounds."""
    if not any(i.op is loop for i in program.instructions):
        return program
    parts = {i: LoopParts(_with_inner(i)) for i in program.instructions if i.op is loop}
    defined = program.definitions()
    later: list[LoopParts] = []
    for loop_ in parts.values():
        loop_.rows = {v: _rows_of_source(defined, *row) for v, row in loop_.rows.items()}
        for earlier in later:
            if earlier.count == loop_.count:
                _share(earlier, loop_)
        later.append(loop_)
    instructions = [parts[i].rebuild() if i in parts else i for i in program.instructions]
    return remove_dead_code(Program(program.inputs, program.outputs, instructions, program.constants, program.name))


def _with_inner(instruction: Instruction) -> Instruction:
    """Return the loop, with the loops inside its body rewritten."""
    body = share_rounds(instruction.settings["body"])
    settings = {**instruction.settings, "body": body}
    return Instruction(instruction.op, instruction.arguments, settings, instruction.results, instruction.where)


def _rows_of_source(defined: dict[Value, Instruction], array: Value, first: int, step: int) -> tuple[Value, int, int]:
    """Return rows of a part of an array, or of a reversed array, as rows of the whole."""
    while True:
        made = defined.get(array)
        if made is None or made.op.name != "getitem":
            return array, first, step
        (source,) = made.arguments
        index = places(made.settings["index"], source.shape)
        if index is None or None in made.settings["index"] or isinstance(index[0], int):
            return array, first, step
        if any(item != (0, n, 1) for item, n in zip(index[1:], source.shape[1:], strict=True)):
            return array, first, step
        start, _, by = index[0]
        array, first, step = source, start + by * first, by * step


def _share(earlier: LoopParts, later: LoopParts) -> None:
    """Let a loop read results of an earlier one with as many rounds."""
    stored = {result: v for v, result in earlier.stacks}
    orders = {(first, step) for array, first, step in later.rows.values() if array in stored}
    for first, step in sorted(orders):
        if (first, step) in ((0, 1), (later.count - 1, -1)):
            _share_in_order(earlier, later, first, step)


def _share_in_order(earlier: LoopParts, later: LoopParts, first: int, step: int) -> None:
    same = _same_inputs(earlier, later, first, step)
    known: dict[Hashable, Instruction] = {}
    for instruction in earlier.body:
        key = _key(instruction)
        if key is not None:
            known.setdefault(key, instruction)
    twice: set[Instruction] = set()
    for instruction in later.body:
        if not all(v in same for v in instruction.values()):
            continue
        key = _key(with_values(instruction, same))
        found = None if key is None else known.get(key)
        if found is not None:
            twice.add(instruction)
            same.update(zip(instruction.results, found.results, strict=True))
    stacks = dict(earlier.stacks)
    for v in _frontier(later, twice):
        mine = same[v]
        if mine not in stacks:
            stacks[mine] = Value((earlier.count, *mine.shape), mine.dtype)
            earlier.stacks.append((mine, stacks[mine]))
        later.rows[v] = stacks[mine], first, step
    later.body = [i for i in later.body if not any(v in later.rows for v in i.results)]


def _same_inputs(earlier: LoopParts, later: LoopParts, first: int, step: int) -> dict[Value, Value]:
    """Return the inputs and constants of the later body that equal values of the earlier one in round first + step * t.
    """
    stored = {result: v for v, result in earlier.stacks}
    # Row a + b k in round k of the earlier loop is row a + b (first + step t) in round t of the later one.
    rows = {(array, a + b * first, b * step): v for v, (array, a, b) in earlier.rows.items()}
    same: dict[Value, Value] = {}
    for v, (array, a, b) in later.rows.items():
        if array in stored and (a, b) == (first, step):
            same[v] = stored[array]
        elif (array, a, b) in rows:
            same[v] = rows[array, a, b]
    fixed = {a: v for v, a in earlier.fixed.items()}
    same.update({v: fixed[a] for v, a in later.fixed.items() if a in fixed})
    constants = {_bits(a): v for v, a in earlier.constants.items()}
    same.update({v: constants[_bits(a)] for v, a in later.constants.items() if _bits(a) in constants})
    return same


def _bits(array: Any) -> Hashable:
    array = np.asarray(array)
    return array.shape, array.dtype, array.tobytes()


def _key(instruction: Instruction) -> Hashable | None:
    try:
        return None if instruction.op is loop else key_of(instruction)
    except Unhashable:
        return None


def _frontier(later: LoopParts, twice: set[Instruction]) -> list[Value]:
    """Return the values computed twice that the rest of the body should read as rows."""
    outputs = [*[n for n, _ in later.next.values()], *[v for v, _ in (*later.last, *later.stacks)]]
    inputs = {*later.starts, *later.fixed, *later.rows, *later.constants}
    made = later.definitions()
    found: dict[Value, None] = {}
    stack = [v for i in later.body if i not in twice for v in i.values()] + outputs
    seen: set[Value] = set()
    while stack:
        v = stack.pop()
        if v in seen or v in inputs:
            continue
        seen.add(v)
        instruction = made[v]
        if instruction not in twice:
            continue
        at_hand = instruction.op.elementwise and instruction.op.cost == 1 and all(a in inputs for a in instruction.values())
        if is_view(instruction) or at_hand or instruction.op.name == "expand":
            stack += instruction.values()
        else:
            found[v] = None
    # An instruction with several results needs all of them, because it is not run.
    return [v for i in later.body if i in twice and any(v in found for v in i.results) for v in i.results]
