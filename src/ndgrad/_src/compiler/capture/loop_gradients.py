"""Gradients of a function whose trace is a loop: find the loop first, then differentiate it.

A Python loop of a thousand rounds is a trace of a thousand blocks, and so is its backward pass. The general path runs
the backward pass on the trace and finds the loops in both afterwards. If the forward blocks alone can be rolled up, it
is faster to do that first:

    trace -> passes -> loops -> the program with its loops, run on tensors -> its backward pass

A loop is then one function with a backward pass of its own (ndgrad._src.compiler.capture.control_flow), whose body is
traced once. The parts of a parameter that rounds read are read before the loop. So the gradients of all rounds are
summed in the loop and written to the parameter's gradient once.

This reassociates sums: the contributions of a round to one gradient are summed in that round first.

Note [The graph is the program]
Ops are traced below autograd, so a trace does not know what was recorded. Under `no_grad`, in custom functions or
behind a `detach`, values flow and gradients do not. The derivative of a program is the derivative of the function only
if every op on a path from the inputs to the results was recorded, with all of its edges. A count checks this: the nodes
of the graph and their edges, by op, must match the instructions of the trace and their arguments on such paths. A node
belongs to an instruction on such a path, and an edge to an argument on it, so equal counts mean that all have one.
Nodes with hooks, nodes that do not belong to ops of the table, and writes are left to the general path.

Note [No gradient is not a gradient of zero]
A backward pass does not visit values without a gradient. A backward loop has one body for all rounds, so a carried or
stored value without a gradient gets a zero gradient there; and zero times an infinite slope is nan. A zero added to
another gradient is harmless. So each value that a loop carries or stores must have a gradient in every round of its
own. It comes from the values of all rounds that the program reads, or from the carry that is read after the loop, which
must continue from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.arrays.precision import INEXACT
from ndgrad._src.compiler.capture.captured_tensors import CapturedTensorBackward, payload_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.tensor_replay import run_on_tensors
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.native.phases import phase
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.loop_parts import LoopParts
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.passes.reroll import LEAST_ROUNDS
from ndgrad._src.compiler.program.compiler_ops import loop
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.core.node import Edge
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import AccumulateGrad, wrap
from ndgrad._src.engine.backward_api import grad

#: Smallest number of instructions for this path.
_LONG = 400


class Joint:
    """A program of results and gradients: its outputs in two parts, and the inputs that are gradients of results."""

    def __init__(
        self, program: Program, values: list[Value], cotangents: list[Value], gradients: list[Value | None]
    ) -> None:
        self.program = program
        self.values = values
        self.cotangents = cotangents
        #: Gradients in the order of the requested inputs; None if an input has none.
        self.gradients = gradients


def joint_program(
    tracer: Tracer, values: Sequence[Value], roots: Sequence[Any], wanted: Sequence[int]
) -> Joint | None:
    """Return the program of `values` and of the gradients of the inputs `wanted`, given the gradients of `roots`
    (tensors of the trace among the values). Return None if the trace is no loop, or if its graph is not the program.
    """
    if not wanted or not tracer.is_plain or len(tracer.program.instructions) < _LONG:
        return None
    ends = [tracer.value_of(t._array) for t in roots]
    if not set(ends) <= set(values) or not _graph_is_program(tracer, roots, ends, wanted):
        return None
    numbers = [values.index(v) for v in ends]
    with phase("passes"):
        forward = _roll_loops(tracer.program, values, numbers, wanted)
    return None if forward is None else _differentiate(tracer, forward, numbers, wanted)


def _roll_loops(
    traced: Program, values: Sequence[Value], ends: Sequence[int], wanted: Sequence[int]
) -> Program | None:
    """Return the program of `values` with its loops; None if loops do not make it much shorter, or if a loop has no
    gradient in some rounds. `ends` are the outputs that gradients come from.
    """
    forward = roll_loops(
        simplify_program(Program(traced.inputs, list(values), traced.instructions, traced.constants, traced.name))
    )
    if len(forward.instructions) * LEAST_ROUNDS > len(traced.instructions) or _has_inner_loops(forward):
        return None
    flowing = _find_flowing(forward, {forward.inputs[i] for i in wanted})
    return None if _find_reached(forward, flowing, {forward.outputs[i] for i in ends}) is None else forward


def _differentiate(tracer: Tracer, forward: Program, ends: Sequence[int], wanted: Sequence[int]) -> Joint | None:
    """Run a program on the tensors of a trace and differentiate it in a second trace; None if that breaks."""
    again = Tracer(forward.name)
    token = current_tracer.set(again)
    try:
        with observing(again):
            sources = [o.source for o in tracer.inputs]
            for t in sources:
                again.capture(t, payload_of(t))
            made = run_on_tensors(forward, sources, forward.outputs)
            if [(tuple(t.shape), t._array.dtype) for t in made] != [(v.shape, v.dtype) for v in forward.outputs]:
                return None  # same ops, but tensors of another class
            tops = [made[i] for i in ends]
            given = [again.input(t._array) for t in tops]
            cotangents = [wrap(t.tensor_type, payload) for t, payload in zip(tops, given, strict=True)]
            found = grad(tops, [sources[i] for i in wanted], cotangents, allow_unused=True)
            return Joint(
                again.program,
                [again.argument(t._array) for t in made],
                [p.memory.value for p in given],
                [None if g is None else again.value_of(g._array) for g in found],
            )
    except GraphBreak:
        return None
    finally:
        current_tracer.reset(token)


def _graph_is_program(tracer: Tracer, roots: Sequence[Any], ends: Sequence[Value], wanted: Sequence[int]) -> bool:
    """See Note [The graph is the program]."""
    recorded = _count_nodes(tracer, roots, wanted)
    inputs = [tracer.program.inputs[i] for i in wanted]
    return recorded is not None and recorded == _count_instructions(tracer.program, ends, inputs)


#: Counts for an op: nodes or instructions, and edges or arguments.
_Counts = dict[Any, list[int]]


def _count_nodes(tracer: Tracer, roots: Sequence[Any], wanted: Sequence[int]) -> _Counts | None:
    """Count the nodes and edges of each op between the roots and the wanted inputs. Return None if the graph has a node
    that the rules of the table do not cover.
    """
    leaves = {id(tracer.inputs[i].source) for i in wanted}
    outside = {id(tracer.inputs[i]._node) for i in wanted}
    found: _Counts = {}
    of_class: dict[type[Any], list[int]] = {}  # cache: a graph has many nodes of few classes
    stack = [t._node for t in roots]
    seen = set(stack)
    while stack:
        node = stack.pop()
        counts = of_class.get(node.__class__)
        if counts is None:
            if isinstance(node, AccumulateGrad):
                if id(node.variable) not in leaves or node.extra is not None:
                    return None
                continue
            if isinstance(node, CapturedTensorBackward):
                if id(node) not in outside or node.extra is not None:
                    return None
                continue
            op = getattr(node, "op", None)
            if op is None or node.__class__ is not op.node_class:
                return None
            counts = of_class[node.__class__] = found[op] = [0, 0]
        if node.extra is not None:
            return None
        counts[0] += 1
        for e in node.next:
            if e is None:
                continue
            counts[1] += 1
            following = e.node if e.__class__ is Edge else e
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return found


def _count_instructions(program: Program, ends: Sequence[Value], inputs: Sequence[Value]) -> _Counts:
    """Count the instructions of each op, and their arguments, on paths from inputs to ends along which a gradient would
    flow if all ops were recorded.
    """
    flowing = set(inputs)
    on_way: list[tuple[Instruction, list[Value]]] = []
    for instruction in program.instructions:
        # The source of a detached value counts as well. It has no node, so the counts then differ.
        sources = [v for v in _differentiable_arguments(instruction) if v in flowing]
        if sources:
            discrete = instruction.op.discrete_outputs
            for number, v in enumerate(instruction.results):
                if v.dtype.kind in INEXACT and number not in discrete:
                    flowing.add(v)
            on_way.append((instruction, sources))
    found: _Counts = {}
    needed = set(ends)
    for instruction, sources in reversed(on_way):
        if not needed.isdisjoint(instruction.results):
            counts = found.get(instruction.op)
            if counts is None:
                counts = found[instruction.op] = [0, 0]
            counts[0] += 1
            counts[1] += len(sources)
            needed.update(sources)
    return found


def _differentiable_arguments(instruction: Instruction) -> list[Value]:
    """Return the values among the arguments through which a gradient may flow."""
    op, arguments = instruction.op, instruction.arguments
    if not getattr(op, "differentiable", False):
        return [a for a in arguments if a.__class__ is Value]
    return [a for i in op.differentiable_positions(len(arguments)) if (a := arguments[i]).__class__ is Value]


# ----- loops ----------------------------------------------------------------------------------------------------------


def _has_inner_loops(program: Program) -> bool:
    """True if there are loops in loops. The backward pass of the outer loop would run the inner ones again (as for
    checkpoints); the general path stores their results.
    """
    bodies = [i.settings["body"] for i in program.instructions if i.op is loop]
    return any(i.op is loop for body in bodies for i in body.instructions)


def _find_flowing(program: Program, sources: set[Value]) -> set[Value]:
    """Return the values that depend on `sources` so that gradients flow."""
    found = set(sources)
    for instruction in program.instructions:
        if instruction.op is loop:
            parts = LoopParts(instruction)
            inside = _find_flowing_inside(parts, found)
            made = [*parts.next.values(), *parts.last, *parts.stacks]
            found.update(result for v, result in made if v in inside)
        elif any(v in found for v in _differentiable_arguments(instruction)):
            found.update(v for v in instruction.results if v.dtype.kind in INEXACT)
    return found


def _find_flowing_inside(parts: LoopParts, around: set[Value]) -> set[Value]:
    """Return the same for the body of a loop, in any round."""
    body = Program([], [], parts.body)
    sources = {v for v, a in (*parts.starts.items(), *parts.fixed.items()) if a in around}
    sources |= {v for v, (array, _, _) in parts.rows.items() if array in around}
    while True:
        found = _find_flowing(body, sources)
        more = {begin for begin, (following, _) in parts.next.items() if following in found} - sources
        if not more:
            return found
        sources |= more


def _find_reached(program: Program, flowing: set[Value], ends: set[Value]) -> set[Value] | None:
    """Return the values that get a gradient from `ends`; None if a loop has a gradient in some rounds only (see Note
    [No gradient is not a gradient of zero]).
    """
    found = ends & flowing
    #: Values of which only a part gets a gradient.
    parted: set[Value] = set()
    for instruction in reversed(program.instructions):
        if not any(v in found for v in instruction.results):
            continue
        if instruction.op is loop:
            more = _find_reached_through(LoopParts(instruction), flowing, found, parted)
            if more is None:
                return None
            found |= more
            continue
        sources = [v for v in _differentiable_arguments(instruction) if v in flowing]
        found.update(sources)
        if instruction.op.name == "getitem" and instruction.result.shape != sources[0].shape:
            parted.update(sources)
    return found


def _find_reached_through(
    parts: LoopParts, flowing: set[Value], reached: set[Value], parted: set[Value]
) -> set[Value] | None:
    """Return the inputs of a loop that get a gradient; None if they differ between rounds."""
    inside = _find_flowing_inside(parts, flowing)
    moving = {begin: following for begin, (following, _) in parts.next.items() if begin in inside}
    kept = {begin: following for begin, following in moving.items() if parts.next[begin][1] in reached - parted}
    stored = {v: result for v, result in parts.stacks if result in reached}
    ends = {*kept.values(), *[v for v, result in stored.items() if result not in parted]}
    found = _find_reached(Program([], [], parts.body), inside, ends & inside)
    if found is None or not found.issuperset(kept):
        return None
    if not found.issuperset([*moving.values(), *stored, *[v for v, result in parts.last if result in reached]]):
        return None
    around = {a for v, a in (*parts.starts.items(), *parts.fixed.items()) if v in found}
    return around | {array for v, (array, _, _) in parts.rows.items() if v in found}
