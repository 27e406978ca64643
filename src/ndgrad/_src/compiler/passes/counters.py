"""Let a loop read rows directly that its body finds by a counter.

    in each round    y = index(x, i), i = 3, 5, 7, ...            ->   y is row 3 + 2 t of x
    in each round    s = add(s, index_add_zeros(g, i, shape))     ->   after the loop, s + all g at these rows

`fori_loop(0, n, lambda i, c: f(c, x[i]), c)` and its gradients have this form. The values of a counter are known if it
is a row of a constant, or computed from such rows. If they form an arithmetic sequence, so do the rows that it reads.

The first rewrite is exact. The second adds each row once, instead of adding zeros repeatedly. It is exact except for
the sign of zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.basic_index import Place, written
from ndgrad._src.compiler.passes.loop_parts import LoopParts
from ndgrad._src.compiler.program.compiler_ops import loop, op_named
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of


def counted_rows(program: Program) -> Program:
    """Return the program whose loops read such rows."""
    if not any(i.op is loop for i in program.instructions):
        return program
    out: list[Instruction] = []
    for instruction in program.instructions:
        out += _changed(program, instruction) if instruction.op is loop else [instruction]
    return Program(program.inputs, program.outputs, out, program.constants, program.name)


def _changed(program: Program, instruction: Instruction) -> list[Instruction]:
    """Rewrite a loop, and return the instructions after it."""
    parts = LoopParts(instruction)
    body = Program([], [n for n, _ in parts.next.values()], parts.body, parts.constants)
    parts.body = counted_rows(body).instructions  # loops inside the body
    counters = _counters(program, parts)
    if not counters:
        return [parts.rebuilt()]
    found: list[Instruction] = []
    for row in parts.body:
        if row.op.name == "index" and len(row.arguments) == 2 and row.arguments[0] in parts.fixed:
            x, i = row.arguments
            steps = _steps(counters.get(i), x.shape[0])
            if steps is not None:
                parts.rows[row.result] = parts.fixed[x], *steps
    parts.body = [i for i in parts.body if not any(v in parts.rows for v in i.results)]
    for begin in list(parts.starts):
        found += _sum_after(parts, begin, counters)
    return [parts.rebuilt(), *found]


def _counters(program: Program, parts: LoopParts) -> dict[Value, Any]:
    """Return the integers of the body whose values in all rounds are known, with these values."""
    found: dict[Value, Any] = {}
    for v, (array, first, step) in parts.rows.items():
        known = program.constants.get(array)
        if known is not None and not v.shape and v.dtype.kind in "iu":
            found[v] = np.asarray(known)[first + step * np.arange(parts.count)]
    if not found:
        return found
    for instruction in parts.body:
        if instruction.op.elementwise and len(instruction.results) == 1 and not instruction.result.shape:
            v = instruction.result
            if v.dtype.kind in "iu" and all(a in found or not isinstance(a, Value) for a in instruction.arguments):
                arrays = [found[a] if isinstance(a, Value) else a for a in instruction.arguments]
                found[v] = np.asarray(forward_of(instruction.op)(*arrays, **instruction.settings))
    return found


def _steps(numbers: Any, size: int) -> tuple[int, int] | None:
    """Return the first number and the step of an arithmetic sequence; None for other numbers."""
    if numbers is None or not ((numbers >= 0).all() or (numbers < 0).all()):
        return None
    numbers = numbers.astype(np.int64)
    numbers = np.where(numbers < 0, numbers + size, numbers)
    first = int(numbers[0])
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    if (numbers != first + step * np.arange(len(numbers))).any() or numbers.min() < 0 or numbers.max() >= size:
        return None
    return first, step


def _sum_after(parts: LoopParts, begin: Value, counters: dict[Value, Any]) -> list[Instruction]:
    """Move a carried sum of rows at distinct places out of the body. Return the code that computes it after the loop.
    """
    made, uses = parts.made(), parts.uses()
    following, result = parts.next[begin]
    terms = _terms(following, made, uses) if uses.get(begin) == 1 else []
    if begin not in terms:
        return []
    places: list[tuple[Value, tuple[Place, ...]]] = []
    for v in terms:
        if v is not begin:
            term = made.get(v)
            if term is None or term.op.name != "index_add_zeros" or len(term.arguments) != 2:
                return []
            g, i = term.arguments
            steps = _steps(counters.get(i), begin.shape[0])
            if (
                steps is None
                or (steps[1] == 0 and parts.count > 1)
                or g.shape != begin.shape[1:]
                or g.dtype != begin.dtype
            ):
                return []
            places.append((g, ((steps[0], parts.count, steps[1]), *[(0, n, 1) for n in g.shape])))
    total = parts.starts.pop(begin)
    del parts.next[begin]
    found: list[Instruction] = []
    for g, index in places:
        stack, whole = Value((parts.count, *g.shape), g.dtype), Value(result.shape, result.dtype)
        parts.stacks.append((g, stack))
        settings = {"shape": begin.shape, "index": written(index)}
        found.append(Instruction(op_named("embed"), (stack,), settings, (whole,), parts.instruction.where))
        following = result if len(found) == 2 * len(places) - 1 else Value(result.shape, result.dtype)
        found.append(Instruction(op_named("add"), (total, whole), {}, (following,), parts.instruction.where))
        total = following
    return found


def _terms(v: Value, made: dict[Value, Instruction], uses: dict[Value, int]) -> list[Value]:
    """Return the terms of a sum that is read once, as are all its partial sums."""
    found: list[Value] = []
    stack = [v]
    while stack:
        v = stack.pop()
        addition = made.get(v)
        is_sum = addition is not None and addition.op.name == "add" and uses[v] == 1
        arguments = addition.arguments if addition is not None and is_sum else ()
        if arguments and all(isinstance(a, Value) and a.shape == v.shape and a.dtype == v.dtype for a in arguments):
            stack += reversed(arguments)
        else:
            found.append(v)
    return found
