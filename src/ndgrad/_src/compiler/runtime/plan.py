"""Plan of a compiled call: the programs of its forward and backward pass, made from a trace."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.lower.float_errors import has_silent, reads_parts, reporting_ops
from ndgrad._src.compiler.lower.in_place import Writes
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.program.partition import split
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.runtime.backend import Later, Runner, runs_on_numpy
from ndgrad._src.compiler.runtime.joint_program import JointProgram
from ndgrad._src.compiler.runtime.trace_result import TracedProgram, TraceResult

#: Number of bytes written into inputs from which on a copy is avoided.
LARGE_WRITE = 1 << 16


@dataclass(frozen=True)
class CodeOptions:
    """Options of the generated code."""

    #: True if sums and products keep the order of the function.
    strict: bool = False
    #: Largest number of threads.
    threads: int | None = None
    #: Sizes that vary between calls and share machine code (see ndgrad._src.compiler.lower.templates).
    sizes: Sizes | None = None

    def runner(self, program: Program, writes: Writes | None = None, later: Later | None = None) -> Runner:
        """Return a runner of a program."""
        return Runner(program, self.strict, self.threads, self.sizes, writes, later)


@dataclass(frozen=True)
class OutputLayout:
    """Positions among the outputs of a forward program: results first, then these, and last the saved values."""

    #: First written input, first condition, first check of a device, first saved value.
    writes: int
    conditions: int
    later: int
    saved: int


@dataclass(frozen=True)
class Plan:
    """The programs of a traced function, and facts about their values."""

    options: CodeOptions
    #: Forward and backward in one program, before the split.
    program: Program
    forward: Program
    backward: Program
    run_forward: Runner
    run_backward: Runner
    #: Forward and backward as one program to run, for a function with one scalar result (see
    #: ndgrad._src.compiler.runtime.joint_program).
    whole: JointProgram | None
    layout: OutputLayout
    #: Source of each value that backward takes: (True, number of an input) or (False, position among the saved values).
    kept_from: list[tuple[bool, int]]
    #: For each result: True if the program returns memory of an input, of a constant or of another result.
    copied: list[bool]
    #: True if the program itself may write inputs.
    writes_itself: bool
    #: The trace, if the program misses some of its floating-point errors.
    unseen_errors: Program | None

    @functools.cached_property
    def run_without_writes(self) -> Runner:
        """Runner of the forward program that does not write inputs."""
        return self.options.runner(self.forward)


def make_plan(trace: TraceResult, traced: TracedProgram, options: CodeOptions) -> Plan:
    """Return the plan of a traced function. The program of the trace is changed."""
    joint = traced.joint
    gradients = [g for g in joint.gradients if g is not None]
    program = _optimise(joint.program, [*joint.values, *gradients], trace, options)
    values, gradients = program.outputs[: len(joint.values)], program.outputs[len(joint.values) :]
    halves = split(program, values, joint.cotangents, gradients, {program.inputs[i] for i in trace.writes})
    position = {v: i for i, v in enumerate(program.inputs)}
    made = [v for v in halves.kept if v not in position]
    kept_from = [(True, position[v]) if v in position else (False, made.index(v)) for v in halves.kept]
    if trace.has_graph and any(is_input and n in trace.writes for is_input, n in kept_from):
        # Eager code raises in this case, by the version of the memory.
        raise GraphBreak("backward needs a tensor that the function overwrites")
    unseen = None if _sees_all_errors(traced, halves.forward, trace, options) else traced.trace
    forward, backward = halves.forward, halves.backward
    forward.outputs = [*values, *made]
    layout = _layout(trace)
    writes_itself = _may_write_inputs(trace, values[layout.writes : layout.conditions])
    later = {layout.later + k: error for k, error in enumerate(trace.later)}
    return Plan(
        options=options,
        program=program,
        forward=forward,
        backward=backward,
        run_forward=options.runner(forward, _writes(trace, layout) if writes_itself else None, later),
        run_backward=options.runner(backward),
        whole=_make_whole(program, joint.cotangents, gradients, options, later),
        layout=layout,
        kept_from=kept_from,
        copied=_find_copied(forward, values),
        writes_itself=writes_itself,
        unseen_errors=unseen,
    )


def _optimise(program: Program, outputs: list[Value], trace: TraceResult, options: CodeOptions) -> Program:
    """Return the program with these outputs after the passes. Loops are built before the split, so that a value saved
    for the backward of a round is a row of an array.
    """
    program.outputs = outputs
    program.check()
    program = simplify_program(program)
    if trace.place is CPU and not runs_on_numpy(options.strict):  # replay and devices would wait between rounds
        program = roll_loops(program)
    return program


def _layout(trace: TraceResult) -> OutputLayout:
    writes = len(trace.results.values)
    conditions = writes + len(trace.writes)
    later = conditions + len(trace.outcomes)
    return OutputLayout(writes, conditions, later, later + len(trace.later) + trace.unread)


def _writes(trace: TraceResult, layout: OutputLayout) -> Writes:
    return Writes(
        {layout.writes + k: i for k, i in enumerate(trace.writes)},
        {layout.conditions + k: outcome for k, outcome in enumerate(trace.outcomes)},
    )


def _may_write_inputs(trace: TraceResult, written: Sequence[Value]) -> bool:
    """True if the program itself may write inputs. It may not if a graph keeps their old values, nor if a copy is
    cheaper than the check of the inputs that must come first.
    """
    return (
        bool(trace.writes)
        and not trace.may_fail_late
        and not trace.has_graph
        and (trace.needs_python or bool(trace.metadata.gradients_asked) or sum(v.nbytes for v in written) > LARGE_WRITE)
    )


def _find_copied(forward: Program, values: Sequence[Value]) -> list[bool]:
    shared = [*forward.inputs, *forward.constants]
    return [v in shared or v in values[:i] for i, v in enumerate(values)]


def _sees_all_errors(traced: TracedProgram, forward: Program, trace: TraceResult, options: CodeOptions) -> bool:
    """True if the program sees all floating-point errors of the trace. It does not if an op sets no bits in native code,
    or if passes have dropped or replaced an op.
    """
    if traced.trace is None:
        return True
    is_native = trace.place is CPU and not runs_on_numpy(options.strict)
    if is_native and (has_silent(forward) or reads_parts(forward)):
        return False
    return not traced.reporting - reporting_ops(forward)


def _make_whole(
    program: Program, cotangents: list[Value], gradients: list[Value], options: CodeOptions, later: Later
) -> JointProgram | None:
    """Return forward and backward in one program; None unless the function has one real result without dimensions."""
    if options.strict or not gradients or len(cotangents) != 1:
        return None
    (cotangent,) = cotangents
    if cotangent.shape or cotangent.dtype.kind != "f":
        return None
    return JointProgram(program, cotangent, options.threads, options.sizes, later)
