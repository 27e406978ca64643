"""Specialization: a function traced for one kind of arguments, and the calls that run its programs.

    inputs      the tensors among the arguments, then the captured tensors (read anew at each call), and the random
                numbers that the function draws
    forward     inputs -> new memory of the results, values written into inputs, values saved for backward
    backward    saved values and gradients of the results -> gradients of the inputs
    effects     other side effects of the function: gradients of leaves, replaced tensors

It is made in three steps, each with a result that does not change any more:

    TracedFunction      the function, its arguments and its environment (ndgrad._src.compiler.runtime.traced_function)
    TraceResult         facts found by the trace                        (ndgrad._src.compiler.runtime.tracing)
    Plan                the programs                                    (ndgrad._src.compiler.runtime.plan)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.placement import CPU, move_to
from ndgrad._src.compiler.capture.branch_conditions import FailedLate, Mispredicted
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.number_slots import NumberSlots
from ndgrad._src.compiler.capture.number_tape import DTYPES
from ndgrad._src.compiler.capture.random_draws import restore_states
from ndgrad._src.compiler.capture.tensor_replay import run_on_tensors
from ndgrad._src.compiler.lower.float_errors import FloatFlags, reported, shows_all
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.native.calls import is_available
from ndgrad._src.compiler.native.phases import Times, compiling, phase
from ndgrad._src.compiler.runtime.backend import Runner
from ndgrad._src.compiler.runtime.derivatives import TracedGradients, as_traced, current_inputs, run_for_gradients
from ndgrad._src.compiler.runtime.float_reports import FloatReports
from ndgrad._src.compiler.runtime.input_memory import are_entangled, array_of, may_be_written
from ndgrad._src.compiler.runtime.node import gradient_giver, in_own_memory, node_of_call
from ndgrad._src.compiler.runtime.plan import CodeOptions, Plan, make_plan
from ndgrad._src.compiler.runtime.trace_result import TracedProgram, TraceResult
from ndgrad._src.compiler.runtime.traced_function import Arguments, TracedFunction
from ndgrad._src.compiler.runtime.tracing import break_by, trace_function, without_collections
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.variable import AccumulateGrad, requires_grad, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations.pytree import LEAF, TreeSpec, tree_unflatten
from ndgrad._src.ops.fill import copy
from ndgrad._src.tensor.tensor_class import Tensor

#: Kind of a derivative: flags for the results with a gradient, and for the gradients that require grad.
_Kind = tuple[tuple[bool, ...], tuple[bool, ...]]


def specialise(
    function: Callable[..., Any],
    flat: Sequence[Any],
    spec: TreeSpec,
    name: str,
    environment: Environment,
    slots: NumberSlots,
    options: CodeOptions,
) -> Specialisation:
    """Trace a function for arguments with these leaves, and make its programs."""
    if environment.reached.may_ask_for_types:
        slots.drop_all()
    arguments = Arguments.from_leaves(flat, spec, environment)
    traced = TracedFunction(function, name, environment, slots, arguments)
    return Specialisation(traced, arguments.tensors_of(flat), options)


def _make_plan(trace: TraceResult, program: TracedProgram, options: CodeOptions) -> Plan:
    """Return the plan of a traced function. Errors of the passes are graph breaks, so that the function runs eagerly."""
    try:
        with phase("passes"):
            return make_plan(trace, program, options)
    except Exception as error:
        broken = error if isinstance(error, GraphBreak) else break_by(error)
        broken.depends_on_values = bool(trace.outcomes)
        raise broken from None


class Specialisation:
    """A traced function, callable with arguments of the kind it was traced with."""

    def __init__(self, traced: TracedFunction, arguments: Sequence[Any], options: CodeOptions) -> None:
        self.traced = traced
        self.options = options
        #: Times of tracing and of the passes.
        self.times = Times()
        with compiling(self.times, traced.name, "trace"), without_collections():
            self.trace, program = trace_function(traced, arguments, options.strict)
            self.plan = _make_plan(self.trace, program, options)
        self.float_reports = FloatReports(traced.name, self.plan.unseen_errors)
        #: Program of the last call, and whether it computed gradients as well.
        self.ran: tuple[Any, bool] | None = None
        #: Numbers of slots that the program received in the last call.
        self.last_numbers: Sequence[Any] = ()
        self._derivatives: dict[_Kind, Specialisation | GraphBreak] = {}

    # ----- guards -----------------------------------------------------------------------------------------------------

    def mismatch(self, flat: Sequence[Any]) -> str | None:
        """Return the reason why a call with arguments of this kind needs another trace; None if it does not."""
        traced, metadata = self.traced, self.trace.metadata
        environment, arguments = traced.environment, traced.arguments
        reason = environment.check()
        if reason is not None:
            return reason
        for place, entry in zip(arguments.places, arguments.known, strict=True):
            if environment.find_entry(flat[place]) is not entry:
                return "an argument is, or is no longer, one of the tensors that the function reaches otherwise"
        if traced.slots and (reason := traced.slots.mismatch(flat)) is not None:
            return reason
        if not (metadata.gradients_asked or metadata.leaves_asked):
            return None
        numbers = [None] * sum(kind == "number" for kind, _ in self.trace.sources)
        draws = [None] * len(self.trace.tape.draws)
        return metadata.mismatch(self.trace.gather_inputs(arguments.tensors_of(flat), draws, numbers))

    def changes_place(self, reason: str) -> bool:
        """True if calls change the slot that the reason for another trace starts with."""
        return any(
            effect.slots is not None and reason.startswith(effect.slots.label(effect.number) if effect.number >= 0 else effect.slots.what)
            for effect in self.trace.effects
        )

    @property
    def reports(self) -> bool:
        """True if warning filters decide whether a call runs eagerly, or by which program."""
        return self.plan.unseen_errors is not None or bool(self.float_reports.flags) or self.plan.writes_itself

    # ----- calling ----------------------------------------------------------------------------------------------------

    def inputs_of(self, flat: Sequence[Any]) -> list[Any]:
        """Return the tensors that are the program's inputs in a call with these leaves. Random numbers are drawn."""
        traced = self.traced
        numbers: list[Any] = []
        if traced.slots:
            found = traced.slots.numbers(flat)
            if found is None:
                raise Mispredicted  # another thread has changed the numbers
            self.last_numbers = found
            numbers = [wrap(Tensor, array) for array in self.number_arrays(found)]
        draws = [wrap(Tensor, array) for array in self.trace.tape.take()]
        return self.trace.gather_inputs(traced.arguments.tensors_of(flat), draws, numbers)

    @staticmethod
    def number_arrays(numbers: Sequence[Any]) -> list[Any]:
        """Return Python numbers as input arrays of a program."""
        return [np.array(number, DTYPES[number.__class__]) for number in numbers]

    def __call__(self, flat: Sequence[Any]) -> Any:
        trace = self.trace
        states = trace.tape.states()
        inputs = self.inputs_of(flat)
        if trace.writes and are_entangled(inputs, trace.writes):
            return self._call_eagerly(flat, states)
        try:
            self.float_reports.begin_call(inputs)
            leaves = self.run(inputs)
        except FloatFlags as found:
            self.float_reports.note(found.bits)
            return self._call_eagerly(flat, states)
        except FailedLate:
            return self._call_eagerly(flat, states)
        except Mispredicted:
            restore_states(states)
            raise
        except Exception:  # nothing has been written, so eager code can raise the error
            if trace.outcomes:
                restore_states(states)
                raise Mispredicted from None
            return self._call_eagerly(flat, states)
        return self._returned_by_call(inputs, leaves)

    def _call_eagerly(self, flat: Sequence[Any], states: Any) -> Any:
        """Return the result of the function itself, with the random numbers from before the call."""
        restore_states(states)
        args, kwargs = tree_unflatten(list(flat), self.traced.arguments.spec)
        return self.traced.function(*args, **kwargs)

    def _returned_by_call(self, inputs: Sequence[Any], leaves: list[Any]) -> Any:
        """Apply the side effects of a call and return its result."""
        effects = self.trace.effects
        count = place = len(leaves) - sum([effect.leaves for effect in effects])
        for effect in effects:
            effect.apply(inputs, leaves[place : place + effect.leaves], self.traced.environment)
            place += effect.leaves
        return tree_unflatten(leaves[:count], self.trace.result_spec)

    def computes_at_once(self) -> bool:
        """True if the next call should compute gradients as well. Asked once per call."""
        whole = self.plan.whole
        return whole is not None and not self.trace.is_freed and whole.pays()

    def run(self, inputs: list[Any]) -> list[Any]:
        """Run the program: return the leaves of the results and write the written inputs."""
        plan, trace = self.plan, self.trace
        arrays = list(map(array_of, inputs))
        at_once = self.computes_at_once()
        runner = self._choose_runner(inputs, arrays, at_once)
        program = runner.executable
        found = self._run_program(runner, program, arrays)
        self.ran = program, at_once
        if plan.writes_itself and isinstance(program, NativeProgram) and (bits := program.take_bits()):
            self.float_reports.warn_of_bits(bits, (*found, *[arrays[i] for i in trace.writes]))
        for i, array in enumerate(found[: len(trace.results.values)]):
            # NumPy keeps the order of arguments, although passes have removed copies in another order.
            if array.__class__ is np.ndarray and (array.base is not None or plan.copied[i] or not array.flags.c_contiguous):
                found[i] = array.copy()
        if at_once and trace.place is CPU and not isinstance(program, NativeProgram):
            first = len(found) - len(trace.gradients_of)
            found[first:] = map(in_own_memory, found[first:])
        if trace.place is not CPU:
            for i, new in enumerate(trace.results.new):
                found[i] = move_to(found[i], new.place)
        return self._leaves(inputs, found, at_once)

    def _choose_runner(self, inputs: Sequence[Any], arrays: list[Any], at_once: bool) -> Runner:
        """Return the runner of a call. Arrays that its program must not write are copied."""
        plan = self.plan
        if plan.writes_itself and self.float_reports.looks_for and shows_all():
            return plan.run_without_writes  # a call that finds an error runs eagerly, so no write may come first
        if plan.writes_itself:
            for i in self.trace.writes:
                if not may_be_written(inputs[i], arrays[i]):
                    arrays[i] = arrays[i].copy()  # `write` then raises the error
        return plan.whole.runner if at_once and plan.whole is not None else plan.run_forward

    def _run_program(self, runner: Runner, program: Any, arrays: list[Any]) -> Any:
        """Run a program. Raise if it meets floating-point errors that the call looks for."""
        looks_for = self.float_reports.looks_for
        if isinstance(program, NativeProgram):
            program.look_for(looks_for)
        elif self.trace.place is CPU:
            with reported() as flags:  # an eager call has already issued NumPy's warnings
                found = runner(arrays)
            if flags[0] & looks_for:
                raise FloatFlags(flags[0])
            return found
        return runner(arrays)

    def finished(self, inputs: Sequence[Any], found: Sequence[Any], at_once: bool, are_apart: bool) -> Any:
        """Return the result of a call from the arrays of its program, each in memory of its own. `are_apart` is True if
        no two inputs share memory.
        """
        trace = self.trace
        if not trace.is_plain:
            if trace.writes and not are_apart and are_entangled(inputs, trace.writes):
                raise Mispredicted
            return self._returned_by_call(inputs, self._leaves(inputs, found, at_once))
        made = self._make_tensors(inputs, found, len(trace.results.values), at_once)
        return made[0] if trace.result_spec is LEAF else tree_unflatten(made, trace.result_spec)

    def _leaves(self, inputs: Sequence[Any], found: Sequence[Any], at_once: bool) -> list[Any]:
        """Return the leaves of the results from the arrays of a program, and write the written inputs."""
        trace, layout = self.trace, self.plan.layout
        outcomes = found[layout.conditions : layout.later]
        if trace.outcomes and any(bool(a) is not b for a, b in zip(outcomes, trace.outcomes, strict=True)):
            raise Mispredicted
        try:
            numbers = trace.results.numbers(inputs, found)
        except Exception:
            raise FailedLate from None  # nothing has been written
        made = self._make_tensors(inputs, found, layout.saved, at_once)
        if trace.writes:
            self._write_inputs(inputs, found[layout.writes : layout.conditions])
        return trace.results.assemble(inputs, made, numbers)

    def _write_inputs(self, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        trace = self.trace
        outer = scope()
        try:
            restore(outer.recording(False))
            for i, value, (count, writer) in zip(trace.writes, values, trace.writers, strict=True):
                t = inputs[i]
                if value is t._array:  # written by the program itself
                    pass
                elif trace.place is not CPU and value.__class__ is np.ndarray and may_be_written(t, t._array):
                    t._array[...] = value
                else:
                    write(copy, t, (wrap(t.tensor_type, value),), {})
                    count -= 1
                storage = t._storage or storage_of(t)
                for _ in range(count):
                    storage.bump(writer)
                storage.version.writer = writer
        finally:
            restore(outer)
            del outer

    def _make_tensors(self, inputs: Sequence[Any], found: Sequence[Any], rest: int, at_once: bool) -> list[Any]:
        """Return the tensors over new memory, with their history. The saved values of backward start at index `rest`.
        """
        trace = self.trace
        if not trace.outputs:
            return trace.results.wrap_arrays(found, None)
        node = node_of_call(self, inputs, trace.outputs, None if trace.is_freed else found[rest:], at_once)
        made = trace.results.wrap_arrays(found, node)
        if not at_once and not trace.is_freed:
            node.watch(made, found)
        return made

    def give_gradients(self, made: tuple[Any, ...], ends: tuple[Any, ...]) -> bool:
        """Set the `.grad` of the leaves at the ends of the graph from the gradients that a call has made; False if that
        is the engine's task. The first call replaces this method by a function for such leaves.
        """
        leaves = [end.variable for end in ends if end.__class__ is AccumulateGrad]
        count = len(self.trace.gradients_of)
        if len(leaves) != count or sum(end is not None for end in ends) != count or not is_available():
            return False
        outputs = self.plan.program.outputs
        values = outputs[len(outputs) - count :]
        give: Any = gradient_giver([*zip(self.trace.gradients_of, values, strict=True)], leaves)
        self.give_gradients = give  # type: ignore[method-assign]
        return False

    def on_tensors(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the leaves of the results for inputs inside transforms, computed op by op in the active modes. Nothing
        is written.
        """
        results, forward = self.trace.results, self.plan.forward
        made = run_on_tensors(forward, inputs, forward.outputs[: len(results.values)])
        return results.assemble(inputs, results.permute_back(made), results.numbers(inputs, [t._array for t in made]))

    # ----- derivatives ------------------------------------------------------------------------------------------------

    def derivative(self, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any]) -> Specialisation:
        """Return a specialization that computes the gradients of the inputs from the inputs and the gradients of some
        results (see Note [Derivatives of a compiled call]). `tensors` and `cotangents` are examples of its arguments.
        """
        kind = given, tuple([requires_grad(c) for c in cotangents])
        found = self._derivatives.get(kind)
        if found is None:
            with as_traced(self.traced, self.trace):
                try:
                    found = self._derivatives[kind] = self._make_derivative(given, tensors, cotangents)
                except GraphBreak as broken:
                    found = self._derivatives[kind] = broken.bare()
        if isinstance(found, GraphBreak):
            raise found.again()
        return found

    def _make_derivative(
        self, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any]
    ) -> Specialisation:
        traced = TracedGradients.from_original(self.traced, self.trace, given)
        arguments = [*current_inputs(self.trace.sources, tensors), *cotangents]
        outer = scope()
        try:  # the derivative is independent of a transform that requests it
            restore(outer.with_changes(levels=(), dual_stack=(), dual_levels=0, grad_enabled=True))
            return Specialisation(traced, arguments, self.options)
        finally:
            restore(outer)
            del outer

    def gradients_again(
        self, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the result of `derivative` for these arguments. If it cannot be traced, the function itself runs."""
        try:
            found = self.derivative(given, tensors, cotangents)
        except GraphBreak as broken:
            return run_for_gradients(self.traced, self.trace, given, tensors, cotangents, broken.reason)
        return found.run([*tensors, *cotangents])
