"""Split the program of a function and its gradients into two programs, and choose the values that the first saves.

The forward program computes the function's results. The backward program computes values that only gradients need.
Between them is a cut: the saved values. Values behind the cut are recomputed in the backward program, in the same
kernels, in registers.

Note [Keep or compute again]
Inputs exist anyway and cost nothing to keep. A view or an elementwise op can be recomputed from its arguments.
Recomputing matrix products, reductions and ops without a kernel is too expensive. So the task is to choose values that
separate the ops that cannot be recomputed from the gradients, with the fewest bytes. That is a minimum cut of a graph
in which each value is an edge as wide as its bytes (`ndgrad._src.compiler.program.min_cut`).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from ndgrad._src.compiler.program.min_cut import INFINITE, FlowGraph
from ndgrad._src.compiler.program.program import Instruction, Program, Value


class Halves(NamedTuple):
    """Forward: inputs -> results, then kept values. Backward: kept values, then cotangents -> gradients."""

    forward: Program
    backward: Program
    #: Values that backward takes from forward, including inputs of the function.
    kept: list[Value]


def is_view(instruction: Instruction) -> bool:
    """True if an instruction costs nothing because its result is a view of its argument."""
    op = instruction.op
    return bool(op.view or op.shares_storage or (op.name == "conj" and instruction.result.dtype.kind != "c"))


def is_cheap(instruction: Instruction) -> bool:
    """True if an instruction may be recomputed."""
    op = instruction.op
    return bool(is_view(instruction) or op.elementwise or op.movement in ("copy", "fill", "place", "pad"))


def split(
    program: Program,
    results: list[Value],
    cotangents: list[Value],
    gradients: list[Value],
    overwritten: AbstractSet[Value] = frozenset(),
) -> Halves:
    """Split a program with outputs `results` and `gradients`. The inputs `cotangents` are the gradients of the results.
    The inputs `overwritten` hold other values by the time of backward, so nothing is recomputed from them.
    """
    defined = program.definitions()
    behind = _find_dependents(program, set(cotangents))
    needed = _find_needed(defined, gradients)
    wanted = {v for i in needed if i in behind for v in i.values()} | {
        v for v in gradients if v not in defined or defined[v] not in behind
    }
    wanted = {
        v
        for v in wanted
        if v not in cotangents and v not in program.constants and (v not in defined or defined[v] not in behind)
    }
    kept = _find_cut(program, defined, wanted, cotangents, overwritten=overwritten)
    again = _find_needed(defined, [*gradients], stop=set(kept))
    order = {v: i for i, v in enumerate([*program.inputs, *[v for n in program.instructions for v in n.results]])}
    kept.sort(key=order.__getitem__)
    forward = _find_needed(defined, [*results, *kept])
    first = Program(
        [v for v in program.inputs if v not in set(cotangents)],
        [*results, *kept],
        [i for i in program.instructions if i in forward],
        program.constants,
        f"{program.name}_forward",
    )
    second = Program(
        [*kept, *cotangents],
        gradients,
        [i for i in program.instructions if i in again],
        program.constants,
        f"{program.name}_backward",
    )
    return Halves(_drop_unused_constants(first), _drop_unused_constants(second), kept)


def least_kept(
    program: Program, wanted: set[Value], free: set[Value], there: set[Value], also: set[Value]
) -> list[Value]:
    """Return the values to keep so that `wanted` can be computed, with the fewest bytes. Inputs and values in `free`
    cost nothing, values in `there` almost nothing, and values in `also` slightly more.
    """
    prices = dict.fromkeys(there, 2) | dict.fromkeys(also, 3)
    return _find_cut(program, program.definitions(), wanted, [], free, prices)


def _find_cut(
    program: Program,
    defined: dict[Value, Instruction],
    wanted: set[Value],
    cotangents: list[Value],
    free: AbstractSet[Value] = frozenset(),
    prices: Mapping[Value, int] = MappingProxyType({}),
    overwritten: AbstractSet[Value] = frozenset(),
) -> list[Value]:
    """Return the values to keep so that the values that gradients read can be computed."""
    lost = set(overwritten)  # with views of them
    for instruction in program.instructions if lost else ():
        if is_view(instruction) and not lost.isdisjoint(instruction.values()):
            lost.update(instruction.results)
    inputs = (set(program.inputs) - set(cotangents)) | free
    kept = [v for v in wanted if v in inputs]
    graph = FlowGraph()
    source, sink = graph.add_node(), graph.add_node()
    ends: dict[Value, tuple[int, int]] = {}
    stack = [v for v in wanted if v not in inputs]
    for v in stack:
        ends[v] = graph.add_node(), graph.add_node()
        graph.add_edge(ends[v][1], sink, INFINITE)
    entered: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in entered:
            continue
        entered.add(value)
        begin, end = ends[value]
        instruction = defined[value]
        # A view is never kept, because it shares the memory of another value.
        graph.add_edge(begin, end, INFINITE if is_view(instruction) else prices.get(value, 1 + value.nbytes))
        if not is_cheap(instruction) or (not is_view(instruction) and not lost.isdisjoint(instruction.values())):
            graph.add_edge(source, begin, INFINITE)
            continue
        for v in instruction.values():
            if v in inputs or v in program.constants:
                continue
            if v not in ends:
                ends[v] = graph.add_node(), graph.add_node()
            graph.add_edge(ends[v][1], begin, INFINITE)
            stack.append(v)
    reached = graph.find_cut(source, sink)
    kept += [v for v in entered if ends[v][0] in reached and ends[v][1] not in reached]
    # Recomputed instructions read inputs.
    again = _find_needed(defined, [v for v in wanted if v not in inputs], stop=set(kept))
    return [*dict.fromkeys([*kept, *[v for i in again for v in i.values() if v in inputs]])]


def _find_needed(
    defined: dict[Value, Instruction], outputs: list[Value], stop: set[Value] | frozenset[Value] = frozenset()
) -> set[Instruction]:
    """Return the instructions that values depend on, down to the values in `stop`."""
    found: set[Instruction] = set()
    stack = [defined[v] for v in outputs if v in defined and v not in stop]
    while stack:
        instruction = stack.pop()
        if instruction not in found:
            found.add(instruction)
            stack += [defined[v] for v in instruction.values() if v in defined and v not in stop]
    return found


def _find_dependents(program: Program, start: set[Value]) -> set[Instruction]:
    """Return the instructions that depend on values."""
    values, found = set(start), set()
    for instruction in program.instructions:
        if any(v in values for v in instruction.values()):
            found.add(instruction)
            values.update(instruction.results)
    return found


def _drop_unused_constants(program: Program) -> Program:
    used = {v for i in program.instructions for v in i.values()} | set(program.outputs)
    program.constants = {value: array for value, array in program.constants.items() if value in used}
    return program
