"""Specialisation: a function traced for one kind of arguments, with its programs and the code that calls them.

    inputs      the tensors among the arguments, then the captured tensors (read anew at each call), and the random
                numbers that the function draws
    forward     inputs -> new memory of the results, values written into inputs, values saved for backward
    backward    saved values and gradients of the results -> gradients of the inputs
    effects     other side effects of the function: gradients of leaves, tensors that it puts in the place of others

Note [Derivatives of a compiled call]
The backward program covers the usual case: every result has a gradient, and the gradients are not differentiated.
Otherwise the function is traced once more as a `derivative`. The available gradients are further arguments, and the
gradients of the inputs are recorded results. A derivative is a specialisation with a backward of its own, so this works
to any order. Each order equals the graph that eager code would record, including custom functions, no_grad and detach
inside the function. Tracing has no side effects (see Note [Captured tensors] and
ndgrad._src.compiler.capture.environment), so the function's writes are not done twice. A gradient may need values
although the function does not, so the derivative may not be traceable. The function itself then runs once more,
eagerly, if it has no side effects.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from ndgrad._src.arrays.addresses import bounds
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.placement import CPU, move_to
from ndgrad._src.compiler.capture.branch_conditions import FailedLate, Mispredicted
from ndgrad._src.compiler.capture.captured_tensors import payload_of, use_proxies
from ndgrad._src.compiler.capture.deferred_calls import DeferredCall, deferring
from ndgrad._src.compiler.capture.environment import Environment, get_facts
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.leaf_order import order_of_leaves
from ndgrad._src.compiler.capture.loop_gradients import Joint, joint_program
from ndgrad._src.compiler.capture.number_slots import NumberSlots, SeenNumbers
from ndgrad._src.compiler.capture.number_tape import DTYPES, NumberTape
from ndgrad._src.compiler.capture.patched_functions import patching
from ndgrad._src.compiler.capture.random_draws import restore_states
from ndgrad._src.compiler.capture.side_effects import forbid_side_effects, refuse_float_errors
from ndgrad._src.compiler.capture.slot_effects import Effect, EffectFinder, original_of
from ndgrad._src.compiler.capture.tensor_metadata import attributes_of, watch_attributes
from ndgrad._src.compiler.capture.tensor_replay import run_on_tensors
from ndgrad._src.compiler.capture.trace_watch import TraceEnd, TraceWatch, load_filter
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.capture.user_lines import line_of
from ndgrad._src.compiler.lower.float_errors import (
    FloatFlags,
    bits_to_look_for,
    filter_version,
    has_silent,
    reads_parts,
    reported,
    reporting_ops,
    shows_all,
    unread_checks,
    warn_of,
)
from ndgrad._src.compiler.lower.in_place import Writes
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.native.calls import is_available
from ndgrad._src.compiler.native.phases import Times, compiling, phase
from ndgrad._src.compiler.passes import roll_loops, simplify_program
from ndgrad._src.compiler.program.partition import split
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.runtime.backend import Runner, runs_on_numpy
from ndgrad._src.compiler.runtime.joint_program import JointProgram
from ndgrad._src.compiler.runtime.node import gradient_giver, in_own_memory, node_of_call
from ndgrad._src.compiler.runtime.results import NEW, Results, prepare_numbers
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import Modes, modes, process, restore, scope, thread
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import AccumulateGrad, Variable, requires_grad, wrap
from ndgrad._src.core.versions import InferenceStorage, storage_of
from ndgrad._src.core.view import DEFAULT
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.foundations.pytree import LEAF, TreeSpec, tree_flatten, tree_unflatten
from ndgrad._src.ops.fill import copy
from ndgrad._src.tensor.tensor_class import Tensor

#: Number of traces that may discover a fact which the next trace needs.
MOST_TRACES = 8
#: Number of bytes written into inputs from which on a copy is avoided.
LARGE_WRITE = 1 << 16


class Specialisation:
    """A traced function, callable with arguments of the kind it was traced with."""

    #: True if calls write into inputs.
    has_effects = True
    #: Given outcomes of branch conditions, if known.
    given_outcomes: list[bool] | None = None
    #: Bits of the floating-point status that calls look at, and bits found by calls that then ran eagerly (see
    #: ndgrad._src.compiler.lower.float_errors).
    looks_for = flags = 0
    #: True if a call has reported errors, and the version of the warning filters at that time.
    has_reported = False
    filters: int | None = None
    #: The unoptimised trace, kept if the program misses some floating-point errors; and whether it has run once.
    whole_trace: Program | None = None
    was_checked = False
    #: Program of the last call, and whether it computed gradients as well.
    ran: tuple[Any, bool] | None = None
    #: Numbers of slots that the program received in the last call.
    last_numbers: Sequence[Any] = ()

    def __init__(
        self,
        function: Callable[..., Any],
        flat: Sequence[Any],
        spec: TreeSpec,
        name: str,
        environment: Environment,
        strict: bool = False,
        threads: int | None = None,
        sizes: Sizes | None = None,
        slots: NumberSlots | None = None,
    ) -> None:
        self.function = function
        #: Slots whose numbers are inputs of the program.
        self.slots = NumberSlots(SeenNumbers(), environment, []) if slots is None else slots
        if environment.may_ask_for_types:
            self.slots.drop_all()
        #: True if sums and products keep the order of the function.
        self.strict = strict
        self.threads = threads
        self.sizes = sizes
        self.spec = spec
        self.name = name
        self.environment = environment
        tensor_places = [i for i, leaf in enumerate(flat) if isinstance(leaf, Variable)]
        first = {id(flat[place]): place for place in reversed(tensor_places)}
        #: Positions of the tensors among the leaves of the arguments, each tensor once; and for each position the
        #: number of its tensor.
        self.places = sorted(first.values())
        self.numbers = {place: self.places.index(first[id(flat[place])]) for place in tensor_places}
        #: All other leaves.
        self.plain = [None if i in self.numbers else leaf for i, leaf in enumerate(flat)]
        #: Derivatives, by flags for the results with a gradient and for the gradients that require grad.
        self._derivatives: dict[tuple[tuple[bool, ...], tuple[bool, ...]], Specialisation | GraphBreak] = {}
        arguments = [flat[place] for place in self.places]
        #: Facts about the tensors among the arguments before a call.
        self.argument_facts = [get_facts(t) for t in arguments]
        #: Entry in the environment of each tensor among the arguments, if the function also captures it; else None.
        self.known = [environment.find_entry(t) for t in arguments]
        #: Times of tracing and of the passes.
        self.times = Times()
        with compiling(self.times, name, "trace"):
            self._trace(arguments)

    # ----- tracing ----------------------------------------------------------------------------------------------------

    def _trace(self, arguments: list[Any]) -> None:
        with _without_collections():
            for _ in range(MOST_TRACES + len(self.slots.slots)):
                try:
                    self._trace_once(arguments)
                except GraphBreak as broken:
                    if not broken.is_cured:
                        raise
                else:
                    return
            self._trace_once(arguments)

    def _trace_once(self, arguments: list[Any]) -> None:
        by_identity = {id(t): i for i, t in enumerate(arguments)}
        gradients: dict[int, int] = {}
        #: Origin of each input of the program: ("argument", n), ("environment", entry), ("grad", input), ("draw", n) or
        #: ("number", n).
        self.sources: list[tuple[str, Any]] = []

        def admits(t: Any) -> str | None:
            entry = self.environment.find_entry(t)
            if id(t) in by_identity:
                self.sources.append(("argument", by_identity[id(t)]))
            elif entry is not None:
                self.sources.append(("environment", entry))
            elif id(t) in gradients:
                self.sources.append(("grad", gradients[id(t)]))
            elif id(t) in tracer.drawn_tensors:
                self.sources.append(("draw", len(tracer.drawn_tensors) - 1))
            elif (number := tracer.numbers.number_of(t)) is not None:
                self.sources.append(("number", number))
            else:
                return (
                    "a tensor is used that is neither an argument nor found in closures, globals, "
                    "attributes and containers"
                )
            meta = t._meta
            if meta is not None and meta.grad is not None:
                gradients.setdefault(id(meta.grad), len(self.sources) - 1)
            return None

        tracer = Tracer(self.name, admits, self.environment.generator_state)
        tracer.reads_numbers = not self.environment.may_ask_for_types
        tracer.outcomes = self.given_outcomes
        tracer.note_attribute = self._note_attribute  # type: ignore[method-assign]
        tracer.watch = self.environment.watch
        self.grad_enabled = thread.grad_enabled
        tape = tracer.numbers = self._number_tape(arguments)
        try:
            self._trace_with(tracer, arguments)
        except GraphBreak as broken:
            self._break_numbers(tape, broken)
            raise
        finally:
            self.slots.release()
        if tape.has_failed and self.slots:
            self.slots.drop_all()
            caught = GraphBreak("the function catches an error of arithmetic with numbers that change")
            caught.is_cured = True
            raise caught
        self._end_numbers(tape)
        self.tape = tracer.draws.tape
        #: Required facts about the gradients among the inputs.
        self.gradient_facts = [
            get_facts(o.source) if kind == "grad" else None
            for (kind, _), o in zip(self.sources, tracer.inputs, strict=True)
        ]
        tracer.end()

    def _note_attribute(self, t: Any, name: str) -> None:
        """Guard that a captured tensor has no attribute of a name. Other tensors have no such guard."""
        if not self.environment.capture_attributes(t, attributes_of(t)):
            raise GraphBreak(f"the function asks for the attribute {name!r} of an argument")

    def _number_tape(self, arguments: list[Any]) -> NumberTape:
        """Return the tape for the numbers of a trace."""
        return NumberTape()

    def _break_numbers(self, tape: NumberTape, broken: GraphBreak) -> None:
        """Update the number slots after a trace that ended with a break: slots that are needed by value, and conditions
        that lead to the break.
        """
        if tape.needed or self.slots.looked_at:
            self.slots.need(tape.needed)
        if not broken.is_cured:
            self.slots.end(tape)

    def _end_numbers(self, tape: NumberTape) -> None:
        """Update the number slots after a complete trace."""
        self.slots.end(tape)

    def _trace_with(self, tracer: Tracer, arguments: list[Any]) -> None:
        functions = self.slots.functions if tracer.reads_numbers else ()
        with (
            tracing(tracer, self.environment),
            watch_attributes(arguments, self.environment),
            deferring(),
            patching(functions),
        ):
            self.environment.note_caches()
            if tracer.reads_numbers:
                self.slots.install(tracer, tracer.numbers, self.plain)
            else:
                for cache in self.environment.caches:
                    self.environment.refuse_cache(cache)
            returned, effects = self._outcome(tracer, arguments)
            left = self._changed_identities(tracer)
            with observing(tracer):
                self._finish(tracer, returned, effects)
            if left != self._changed_identities(tracer):
                raise GraphBreak("a backward function or hook inside changes something outside")

    def _changed_identities(self, tracer: Tracer) -> list[Any]:
        """Return the changed slots with the identities of their current contents."""
        return [
            *[
                (slots, number, id(now) if number >= 0 or type(now) is not list else [*map(id, now)])
                for slots, number, now in self.environment.find_changes()
            ],
            *[[*map(id, made.new_items())] for made in self.slots.stand_ins],
            len(tracer.deferred),
        ]

    def _outcome(self, tracer: Tracer, arguments: list[Any]) -> tuple[list[Any], list[tuple[Effect, list[Any]]]]:
        """Run the function; return the leaves of its result, and its side effects."""
        tracer.draws.given = [t for t, (kind, _) in zip(arguments, self.sources, strict=False) if kind == "draw"]
        with observing(tracer):
            for t in arguments:
                tracer.capture(t, payload_of(t))
            before = _fields(modes())
            returned = self._returned(arguments)
            if _fields(modes()) != before:
                raise GraphBreak("the function leaves a mode changed, such as grad mode")
        tracer.draws.end()
        return returned, self._effects(tracer)

    def _returned(self, arguments: list[Any]) -> list[Any]:
        """Run the function and return the leaves of its result."""
        args, kwargs = given = self._make_arguments(arguments)
        before, _ = tree_flatten(given)
        with refuse_float_errors():
            result = self.function(*args, **kwargs)
        reached = self.environment.reached_ids
        returned, self.result_spec = tree_flatten(result, lambda t: type(t) in (list, dict) and id(t) in reached)
        self._result = result
        after, spec = tree_flatten(given)
        if spec != self.spec or any(a is not b for a, b in zip(before, after, strict=True)):
            raise GraphBreak("a container among the arguments is changed")
        return returned

    def known_objects(self) -> set[int]:
        """Return the identities of the function's arguments and of all objects that it reaches."""
        return {*self.environment.reached_ids, *map(id, self.plain)}

    def _make_arguments(self, tensors: Sequence[Any]) -> Any:
        """Return the arguments of a call, with the given tensors in place of its own, and placeholders for numbers."""
        placeholders: Any = self.slots.arguments if current_tracer.get() is not None else self.slots.given
        return tree_unflatten(
            [
                tensors[self.numbers[i]] if i in self.numbers else placeholders.get(i, leaf)
                for i, leaf in enumerate(self.plain)
            ],
            self.spec,
        )

    def _effects(self, tracer: Tracer) -> list[tuple[Effect, list[Any]]]:
        """Return the side effects of the function, each with its leaves. The caller restores the environment."""
        self.environment.check_caches()
        finder = EffectFinder(self.environment, self._result)
        del self._result
        for slots, number, now in self.environment.find_changes():
            finder.note(slots, number, now)
        for made in self.slots.stand_ins:
            finder.add_growth(made.slots, made.new_items())
        for function, given in tracer.deferred:
            finder.add_call(function, given, DeferredCall)
        found = finder.found
        self.slots.note_effects(found)
        for number, captured in enumerate(tracer.inputs):
            reason = captured.change()
            if reason is not None:
                raise GraphBreak(reason)
            if captured._meta.stored_grad is not captured.grad_before:
                found.append((Effect(None, number), [captured._meta.stored_grad]))
        return found

    def _finish(self, tracer: Tracer, returned: list[Any], effects: list[tuple[Effect, list[Any]]]) -> None:
        tracer.check_lent()
        leaves = _all_leaves(tracer, returned, effects)
        inputs = [o.source for o in tracer.inputs]
        memories = [o._array.memory for o in tracer.inputs]
        self.effects = [effect for effect, _ in effects]
        #: See Note [Order of results].
        self.lies_as_eager = self.has_effects
        self.results = Results(tracer, leaves, inputs, memories, self.known_objects(), self.lies_as_eager)
        self.may_fail_late = tracer.numbers.may_fail_late
        self.writes = [i for i, memory in enumerate(memories) if memory.written and self.has_effects]
        #: Number of writes by eager code to each written input, and the op of the last write.
        self.writers = [_writer_of(tracer.inputs[i]._storage) for i in self.writes]
        self._check_writes(inputs)
        roots = self.results.roots
        wanted = [i for i, t in enumerate(inputs) if requires_grad(t)] if roots else []
        values = [
            *self.results.values,
            *[memories[i].value for i in self.writes],
            *[value for value, _ in tracer.conditions],
            *[value for value, _ in tracer.later],
        ]
        values += self._note_unread(tracer, values)
        self.send_order = order_of_leaves(roots, inputs, wanted)
        joint = self._joint(tracer, values, roots, wanted)
        self._note_metadata(tracer)
        self.outcomes = [outcome for _, outcome in tracer.conditions]
        #: Conditions that the function tested, with the outcomes for which this program is valid.
        self.decided = tracer.decided
        #: Exceptions to raise if a device finds that a check fails.
        self.later = [error for _, error in tracer.later]
        #: Device of the program.
        self.place = next((o._array.stands_on for o in tracer.inputs if o._array.stands_on is not CPU), CPU)
        #: Shapes and dtypes of the results with a history.
        self.outputs: list[Any] = [(t._array.shape, t._array.dtype) for t in roots]
        #: True if a call only makes and returns new tensors.
        self.is_plain = self.results.is_made and not (self.writes or self.outcomes or self.effects or self.unread)
        #: Inputs that get a gradient.
        self.gradients_of = [i for i, g in zip(wanted, joint.gradients, strict=False) if g is not None]
        self.all_have_gradients = self.gradients_of == [*range(len(inputs))]
        self.results.forget_trace()
        tracer.calls.end()  # only the compiler's own code runs from here on
        with phase("passes"):
            self._split(joint.program, joint.values, joint.cotangents, [g for g in joint.gradients if g is not None])

    def _note_unread(self, tracer: Tracer, values: list[Value]) -> list[Value]:
        """Return unread values that are computed because eager code reports errors in them. Keep the trace, to look for
        errors that the program does not see.
        """
        found: list[Value] = []
        if self.has_effects and all(o._array.stands_on is CPU for o in tracer.inputs):
            traced = tracer.program
            found = unread_checks(traced, values, tracer.of_passes)
            outputs, constants = [*values, *found], dict(traced.constants)
            self.whole_trace = Program([*traced.inputs], outputs, [*traced.instructions], constants, traced.name)
            self.reporting = reporting_ops(self.whole_trace, tracer.of_passes)
        #: Number of such values.
        self.unread = len(found)
        return found

    def _note_metadata(self, tracer: Tracer) -> None:
        """Record which metadata of its inputs the function inspects."""
        #: Inputs whose gradient the function reads or sets, and whether they have one.
        self.gradients_asked = [
            (i, o.grad_before is not None) for i, o in enumerate(tracer.inputs) if o._meta.asked and not o.is_result
        ]
        #: Inputs whose `is_leaf` the function reads, and its value.
        self.leaves_asked = [(i, o.before[0] is None) for i, o in enumerate(tracer.inputs) if o.leaf_asked]

    def _joint(self, tracer: Tracer, values: list[Value], roots: Sequence[Any], wanted: Sequence[int]) -> Joint:
        """Return the program of the values and of the gradients of inputs."""
        #: True if a backward pass inside the function has freed the graph of the results.
        self.is_freed = False
        on_device = any(o._array.stands_on is not CPU for o in tracer.inputs)
        plain = on_device or runs_on_numpy(self.strict)
        looped = None if plain else joint_program(tracer, values, roots, wanted)
        if looped is not None:
            return looped
        given = [tracer.input(t._array) for t in roots]
        gradients = self._gradients(tracer, roots, [tracer.inputs[i].source for i in wanted], given)
        return Joint(
            tracer.program,
            values,
            [p.memory.value for p in given],
            [None if g is None else tracer.value_of(g._array) for g in gradients],
        )

    def _gradients(
        self, tracer: Tracer, roots: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the gradients of inputs, given those of the results."""
        if not inputs:
            return ()
        cotangents = [wrap(t.face, payload) for t, payload in zip(roots, given, strict=True)]
        try:
            found: Sequence[Any] = grad(roots, inputs, cotangents, allow_unused=True)
        except RuntimeError as error:
            if str(error).endswith("[nd-overwritten]"):
                raise GraphBreak("backward needs a tensor that the function overwrites") from None
            if tracer.broken is not None or not str(error).endswith("[nd-freed-graph]"):
                raise  # an error of the function's own backward is raised as in eager code
            self.is_freed = True
            return ()
        return found

    def _check_writes(self, inputs: Sequence[Any]) -> None:
        """Raise if another input shares the memory of a written input, because it would change, too."""
        if self.writes and _share([payload_of(t) for t in inputs], self.writes):
            raise GraphBreak("an input is written that shares memory with another")

    def _split(self, program: Program, values: list[Value], cotangents: list[Value], gradients: list[Value]) -> None:
        program.outputs = [*values, *gradients]
        program.check()
        #: Forward and backward in one program. Loops are built before the split, so a value saved for the backward of a
        #: round is a row of an array.
        self.program = simplify_program(program)
        if self.place is CPU and not runs_on_numpy(self.strict):  # replay and devices would wait between rounds
            self.program = roll_loops(self.program)
        values, gradients = self.program.outputs[: len(values)], self.program.outputs[len(values) :]
        halves = split(self.program, values, cotangents, gradients, {self.program.inputs[i] for i in self.writes})
        self._drop_trace(halves.forward)
        position = {v: i for i, v in enumerate(self.program.inputs)}
        made = [v for v in halves.kept if v not in position]
        #: Source of each value that backward takes: (True, number of an input) or (False, position among the values
        #: that forward saves).
        self.kept_from = [(True, position[v]) if v in position else (False, made.index(v)) for v in halves.kept]
        self._check_kept()
        halves.forward.outputs = [*values, *made]
        self.forward, self.backward = halves.forward, halves.backward
        #: For each result: True if the program returns memory of an input, of a constant or of another result.
        shared = [*self.forward.inputs, *self.forward.constants]
        self.copied = [v in shared or v in values[:i] for i, v in enumerate(values)]
        first = len(self.results.values)
        conditions = first + len(self.writes)
        written = sum(v.nbytes for v in values[first:conditions])
        #: True if the program itself may write inputs. It may not if a graph keeps their old values, nor if a copy is
        #: cheaper than the check of the inputs that must come first.
        self.writes_itself = (
            bool(self.writes)
            and not self.may_fail_late
            and (not self.outputs or self.is_freed)
            and (self.needs_python or bool(self.gradients_asked) or written > LARGE_WRITE)
        )
        writes = Writes(
            {first + k: i for k, i in enumerate(self.writes)},
            {conditions + k: outcome for k, outcome in enumerate(self.outcomes)},
        )
        later = {conditions + len(self.outcomes) + k: error for k, error in enumerate(self.later)}
        self.run_forward = Runner(
            self.forward, self.strict, self.threads, self.sizes, writes if self.writes_itself else None, later
        )
        self.run_backward = Runner(self.backward, self.strict, self.threads, self.sizes)
        scalar = (
            not self.strict
            and len(cotangents) == 1
            and not cotangents[0].shape
            and cotangents[0].dtype.kind == "f"
            and bool(gradients)
        )
        #: Forward and backward in one program, for a function with one scalar (see
        #: ndgrad._src.compiler.runtime.joint_program).
        self.whole = JointProgram(self.program, cotangents[0], self.threads, self.sizes, later) if scalar else None

    def _drop_trace(self, forward: Program) -> None:
        """Drop the trace if the program sees all of its floating-point errors. It does not if an op sets no bits in
        native code, or if passes have dropped or replaced an op.
        """
        if self.whole_trace is not None:
            is_native = self.place is CPU and not runs_on_numpy(self.strict)
            if not (is_native and (has_silent(forward) or reads_parts(forward))) and not self.reporting - reporting_ops(forward):
                self.whole_trace = None

    def _check_kept(self) -> None:
        """Raise if backward needs an input that the function writes. Eager code raises in that case, by the version of
        the memory.
        """
        if self.outputs and not self.is_freed and any(is_input and n in self.writes for is_input, n in self.kept_from):
            raise GraphBreak("backward needs a tensor that the function overwrites")

    @property
    def needs_python(self) -> bool:
        """True if a call draws numbers or replaces objects, so that it cannot start in native code."""
        return any(effect.slots is not None for effect in self.effects) or any(kind == "draw" for kind, _ in self.sources)

    # ----- calling ----------------------------------------------------------------------------------------------------

    def mismatch(self, flat: Sequence[Any]) -> str | None:
        """Return the reason why a call with arguments of this kind needs another trace; None if it does not."""
        reason = self.environment.check()
        if reason is not None:
            return reason
        for place, entry in zip(self.places, self.known, strict=True):
            if self.environment.find_entry(flat[place]) is not entry:
                return "an argument is, or is no longer, one of the tensors that the function reaches otherwise"
        if self.slots and (reason := self.slots.mismatch(flat)) is not None:
            return reason
        return self._other_metadata(flat) if self.gradients_asked or self.leaves_asked else None

    def changes_place(self, reason: str) -> bool:
        """True if calls change the slot that the reason for another trace starts with."""
        return any(
            effect.slots is not None and reason.startswith(effect.slots.label(effect.number) if effect.number >= 0 else effect.slots.what)
            for effect in self.effects
        )

    def _other_metadata(self, flat: Sequence[Any]) -> str | None:
        """Return the reason why the gradients or histories of these arguments need another trace; None if they do not.
        """
        numbers = [None] * sum(kind == "number" for kind, _ in self.sources)
        inputs = self._inputs([flat[place] for place in self.places], [None] * len(self.tape.draws), numbers)
        for number, is_leaf in self.leaves_asked:
            if (inputs[number]._node is None) is not is_leaf:
                return "a tensor is, or is no longer, a leaf"
        for number, has_one in self.gradients_asked:
            g = None if inputs[number]._meta is None else inputs[number]._meta.grad
            if (g is not None) is not has_one:
                return "a tensor has, or has no longer, a gradient"
        for t, known in zip(inputs, self.gradient_facts, strict=True):
            if known is not None and get_facts(t) != known:
                return "a gradient is of another kind"
        return None

    def inputs_of(self, flat: Sequence[Any]) -> list[Any]:
        """Return the tensors that are the program's inputs in a call with these leaves. Random numbers are drawn."""
        numbers: list[Any] = []
        if self.slots:
            found = self.slots.numbers(flat)
            if found is None:
                raise Mispredicted  # another thread has changed the numbers
            self.last_numbers = found
            numbers = [wrap(Tensor, array) for array in self.number_arrays(found)]
        draws = [wrap(Tensor, array) for array in self.tape.take()]
        return self._inputs([flat[place] for place in self.places], draws, numbers)

    @staticmethod
    def number_arrays(numbers: Sequence[Any]) -> list[Any]:
        """Return Python numbers as input arrays of a program."""
        return [np.array(number, DTYPES[number.__class__]) for number in numbers]

    def _inputs(self, arguments: Sequence[Any], draws: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return the tensors that are the program's inputs, for these arguments, random numbers and numbers of slots.
        """
        found: list[Any] = []
        for kind, which in self.sources:
            if kind == "argument":
                found.append(arguments[which])
            elif kind == "environment":
                found.append(which[0])
            elif kind == "grad":
                found.append(found[which].grad)
            elif kind == "number":
                found.append(numbers[which])
            else:
                found.append(draws[which])
        return found

    def __call__(self, flat: Sequence[Any]) -> Any:
        states = self.tape.states()
        inputs = self.inputs_of(flat)
        if self.writes and self._are_entangled(inputs):
            restore_states(states)
            args, kwargs = tree_unflatten(list(flat), self.spec)
            return self.function(*args, **kwargs)
        if self.has_reported and not self.has_same_filters():  # Python then also forgets the warnings it has shown.
            self.flags, self.was_checked, self.has_reported = 0, False, False
        self.looks_for = bits_to_look_for(self.flags)
        try:
            if self.whole_trace is not None and self.looks_for and not (self.was_checked and not shows_all()):
                self._check_silent(inputs)
            leaves = self.run(inputs)
        except FloatFlags as found:
            self.flags |= found.bits
            self.has_reported, self.filters = True, filter_version()
            restore_states(states)
            args, kwargs = tree_unflatten(list(flat), self.spec)
            return self.function(*args, **kwargs)
        except FailedLate:
            restore_states(states)
            args, kwargs = tree_unflatten(list(flat), self.spec)
            return self.function(*args, **kwargs)
        except Mispredicted:
            restore_states(states)
            raise
        except Exception:  # nothing has been written, so eager code can raise the error
            restore_states(states)
            if self.outcomes:
                raise Mispredicted from None
            args, kwargs = tree_unflatten(list(flat), self.spec)
            return self.function(*args, **kwargs)
        return self._returned_by_call(inputs, leaves)

    @property
    def reports(self) -> bool:
        """True if warning filters decide whether a call runs eagerly, or by which program."""
        return self.whole_trace is not None or bool(self.flags) or self.writes_itself

    def _check_silent(self, inputs: Sequence[Any]) -> None:
        """Raise if NumPy reports errors that the program does not see. The values are thrown away."""
        assert self.whole_trace is not None
        self.was_checked = True
        with reported() as found, contextlib.suppress(Exception):  # the call itself raises
            Replay(self.whole_trace)(list(map(_array_of, inputs)))
        if found[0] & self.looks_for:
            raise FloatFlags(0)

    def _are_entangled(self, inputs: Sequence[Any]) -> bool:
        """True if a write to an input also changes another input, or the history of its base."""
        return _share(list(map(_array_of, inputs)), self.writes) or any(_has_base(inputs[i]) for i in self.writes)

    def _returned_by_call(self, inputs: Sequence[Any], leaves: list[Any]) -> Any:
        """Apply the side effects of a call and return its result."""
        count = place = len(leaves) - sum([effect.leaves for effect in self.effects])
        for effect in self.effects:
            effect.apply(inputs, leaves[place : place + effect.leaves], self.environment)
            place += effect.leaves
        return tree_unflatten(leaves[:count], self.result_spec)

    def computes_at_once(self) -> bool:
        """True if the next call should compute gradients as well. Asked once per call."""
        return self.whole is not None and not self.is_freed and self.whole.pays()

    def run(self, inputs: list[Any]) -> list[Any]:
        """Run the program: return the leaves of the results and write the written inputs."""
        arrays = list(map(_array_of, inputs))
        at_once = self.computes_at_once()
        runner = self.whole.runner if at_once and self.whole is not None else self.run_forward
        if self.writes_itself and self.looks_for and shows_all():
            runner = self._run_apart  # a call that finds an error runs eagerly, so no write may come first
        elif self.writes_itself:
            for i in self.writes:
                if not _may_be_written(inputs[i], arrays[i]):
                    arrays[i] = arrays[i].copy()  # `write` then raises the error
        program = runner.executable
        if isinstance(program, NativeProgram):
            program.look_for(self.looks_for)
        if self.place is CPU and not isinstance(program, NativeProgram):
            with reported() as flags:  # an eager call has already issued NumPy's warnings
                found = runner(arrays)
            if flags[0] & self.looks_for:
                raise FloatFlags(flags[0])
        else:
            found = runner(arrays)
        self.ran = program, at_once
        if self.writes_itself:
            self.warn_of_bits(program)
        for i, array in enumerate(found[: len(self.results.values)]):
            # NumPy keeps the order of arguments, although passes have removed copies in another order.
            if array.__class__ is np.ndarray and (array.base is not None or self.copied[i] or not array.flags.c_contiguous):
                found[i] = array.copy()
        if at_once and self.place is CPU and not isinstance(program, NativeProgram):
            first = len(found) - len(self.gradients_of)
            found[first:] = map(in_own_memory, found[first:])
        if self.place is not CPU:
            for i, new in enumerate(self.results.new):
                found[i] = move_to(found[i], new.place)
        return self._leaves(inputs, found, at_once)

    @functools.cached_property
    def _run_apart(self) -> Runner:
        """Runner of the forward program that does not write inputs."""
        return Runner(self.forward, self.strict, self.threads, self.sizes)

    def has_same_filters(self) -> bool:
        """True if the warning filters have certainly not changed since a call has reported errors."""
        return self.filters is not None and self.filters == filter_version()

    def warn_of_bits(self, program: Any) -> None:
        """Warn of errors that a program met while it wrote inputs. An eager call can no longer report them."""
        bits = program.take_bits() if isinstance(program, NativeProgram) else 0
        if bits:
            self.flags |= bits
            self.has_reported, self.filters = True, filter_version()
            warn_of(bits, self.name)

    def finished(self, inputs: Sequence[Any], found: Sequence[Any], at_once: bool, are_apart: bool) -> Any:
        """Return the result of a call from the arrays of its program, each in memory of its own. `are_apart` is True if
        no two inputs share memory.
        """
        if not self.is_plain:
            if self.writes and not are_apart and self._are_entangled(inputs):
                raise Mispredicted
            return self._returned_by_call(inputs, self._leaves(inputs, found, at_once))
        made = self._make_tensors(inputs, found, len(self.results.values), at_once)
        return made[0] if self.result_spec is LEAF else tree_unflatten(made, self.result_spec)

    def _leaves(self, inputs: Sequence[Any], found: Sequence[Any], at_once: bool) -> list[Any]:
        """Return the leaves of the results from the arrays of a program."""
        new, written = len(self.results.values), len(self.results.values) + len(self.writes)
        checked = written + len(self.outcomes)
        rest = checked + len(self.later) + self.unread
        if self.outcomes and any(bool(a) is not b for a, b in zip(found[written:checked], self.outcomes, strict=True)):
            raise Mispredicted
        try:
            numbers = self.results.numbers(inputs, found)
        except Exception:
            raise FailedLate from None  # nothing has been written
        made = self._make_tensors(inputs, found, rest, at_once)
        if self.writes:
            outer = scope()
            try:
                restore(outer.recording(False))
                for i, value, (count, writer) in zip(self.writes, found[new:written], self.writers, strict=True):
                    t = inputs[i]
                    if value is t._array:  # written by the program itself
                        pass
                    elif self.place is not CPU and value.__class__ is np.ndarray and _may_be_written(t, t._array):
                        t._array[...] = value
                    else:
                        write(copy, t, (wrap(t.face, value),), {})
                        count -= 1
                    storage = t._storage or storage_of(t)
                    for _ in range(count):
                        storage.bump(writer)
                    storage.version.writer = writer
            finally:
                restore(outer)
                del outer
        return self.results.assemble(inputs, made, numbers)

    def _make_tensors(self, inputs: Sequence[Any], found: Sequence[Any], rest: int, at_once: bool) -> list[Any]:
        """Return the tensors over new memory, with their history. The saved values of backward start at index `rest`.
        """
        if not self.outputs:
            return self.results.wrap_arrays(found, None)
        node = node_of_call(self, inputs, self.outputs, None if self.is_freed else found[rest:], at_once)
        made = self.results.wrap_arrays(found, node)
        if not at_once and not self.is_freed:
            node.watch(made, found)
        return made

    def give_gradients(self, made: tuple[Any, ...], ends: tuple[Any, ...]) -> bool:
        """Set the `.grad` of the leaves at the ends of the graph from the gradients that a call has made; False if that
        is the engine's task. The first call replaces this method by a function for such leaves.
        """
        leaves = [end.variable for end in ends if end.__class__ is AccumulateGrad]
        count = len(self.gradients_of)
        if len(leaves) != count or sum(end is not None for end in ends) != count or not is_available():
            return False
        values = self.program.outputs[len(self.program.outputs) - count :]
        give: Any = gradient_giver([*zip(self.gradients_of, values, strict=True)], leaves)
        self.give_gradients = give  # type: ignore[method-assign]
        return False

    def on_tensors(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the leaves of the results for inputs inside transforms, computed op by op in the active modes. Nothing
        is written.
        """
        made = run_on_tensors(self.forward, inputs, self.forward.outputs[: len(self.results.values)])
        return self.results.assemble(inputs, self.results.permute_back(made), self.results.numbers(inputs, [t._array for t in made]))

    def derivative(self, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any]) -> Specialisation:
        """Return a specialisation that computes the gradients of the inputs from the inputs and the gradients of some
        results (see Note [Derivatives of a compiled call]). `tensors` and `cotangents` are examples of its arguments.
        """
        kind = given, tuple([requires_grad(c) for c in cotangents])
        found = self._derivatives.get(kind)
        if found is None:
            with self._as_traced():
                try:
                    found = self._derivatives[kind] = Derivative(self, given, tensors, cotangents)
                except GraphBreak as broken:
                    found = self._derivatives[kind] = broken.bare()
        if isinstance(found, GraphBreak):
            raise found.again()
        return found

    @contextmanager
    def _as_traced(self) -> Iterator[None]:
        """Context in which the function is as it was when it was traced, because its derivatives are found from it. The
        environment is restored for the duration. Raise if that is not possible.
        """
        reason = "it reads gradients" if any(kind == "grad" for kind, _ in self.sources) else self.environment.check()
        if reason is None:
            yield
            return
        with self.environment.as_traced():
            if any(kind == "grad" for kind, _ in self.sources) or (reason := self.environment.check()) is not None:
                raise RuntimeError(
                    f"{self.name}: derivatives of the gradients of a compiled call are traced when they are "
                    f"first asked for, and {reason}. Ask for them before changing what the function uses, "
                    "or call the function itself instead of the compiled one. [nd-compile-again]"
                )
            yield

    def gradients_again(
        self, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the result of `derivative` for these arguments. If it cannot be traced, the function itself runs."""
        try:
            found = self.derivative(given, tensors, cotangents)
        except GraphBreak as broken:
            return self._gradients_by_function(given, tensors, cotangents, broken.reason)
        return found.run([*tensors, *cotangents])

    def _gradients_by_function(
        self, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any], reason: str
    ) -> list[Any]:
        sources = [*zip(self.sources, tensors, strict=True)]
        inputs = [which[0] if kind == "environment" else t for (kind, which), t in sources]
        is_replaced = any(kind == "environment" and which[0]._array is not t._array for (kind, which), t in sources)
        numbers = [n for n, new in enumerate(self.results.new) if new.differentiable]
        places = {leaf.number: i for i, leaf in enumerate(self.results.leaves) if leaf.kind == NEW and not leaf.path}
        can_run = not (self.effects or self.writes or self.tape.draws) and places.keys() >= {*numbers}
        with self._set_numbers(tensors) as is_known:
            if is_known and can_run and not is_replaced:
                return self._run_for_gradients(given, inputs, numbers, places, cotangents)
            raise RuntimeError(
                f"{self.name}: the derivatives of the gradients of a compiled call cannot be traced, since {reason}; "
                "and the function writes, draws random numbers, uses numbers that change or returns views, or a tensor that "
                "it reaches has been replaced, so it is not run again. Ask for them from the function itself instead of the "
                "compiled one. [nd-compile-again]"
            )

    def _set_numbers(self, tensors: Sequence[Any]) -> AbstractContextManager[bool]:
        """Context in which slots hold the numbers of a call with these inputs; see `NumberSlots.set_numbers`."""
        numbers = {which: t._array.item() for t, (kind, which) in zip(tensors, self.sources, strict=True) if kind == "number"}
        return self.slots.set_numbers([numbers[i] for i in range(len(numbers))])

    def _run_for_gradients(
        self, given: tuple[bool, ...], inputs: list[Any], numbers: list[int], places: dict[int, int], cotangents: Sequence[Any]
    ) -> list[Any]:
        """Return the gradients by running the function itself on these inputs."""
        outer = scope()
        try:
            restore(outer.recording(True))
            with self._as_traced():
                leaves = self._run_eagerly(inputs)
            roots = [leaves[places[n]] for n, is_given in zip(numbers, given, strict=True) if is_given]
            wanted = [i for i, t in enumerate(inputs) if requires_grad(t)]
            found = grad(roots, [inputs[i] for i in wanted], cotangents, create_graph=True, allow_unused=True)
        finally:
            restore(outer)
            del outer
        gradients: list[Any] = [None] * len(inputs)
        for i, g in zip(wanted, found, strict=True):
            gradients[i] = g
        return gradients

    def _run_eagerly(self, inputs: list[Any]) -> list[Any]:
        """Return the leaves of the results by running the function itself."""
        return self._returned(inputs)


class Derivative(Specialisation):
    """The gradients of the inputs of another specialisation, as a function of its inputs and of some result gradients.
    """

    has_effects = False

    def __init__(
        self, parent: Specialisation, given: tuple[bool, ...], tensors: Sequence[Any], cotangents: Sequence[Any]
    ) -> None:
        self.parent = parent
        self.given = given
        self.given_outcomes = parent.outcomes
        self.strict, self.threads, self.sizes = parent.strict, parent.threads, parent.sizes
        self.slots = parent.slots
        self.name = f"{parent.name}_gradients"
        self.environment = parent.environment
        self._derivatives = {}
        self.plain = parent.plain
        own = [
            which[0] if kind == "environment" else t for (kind, which), t in zip(parent.sources, tensors, strict=True)
        ]
        outer = scope()
        try:  # the derivative is independent of a transform that requests it
            restore(outer.with_changes(levels=(), dual_stack=(), dual_levels=0, grad_enabled=True))
            self.times = Times()
            with compiling(self.times, self.name, "trace"):
                self._trace([*own, *cotangents])
        finally:
            restore(outer)
            del outer

    def _returned(self, arguments: list[Any]) -> list[Any]:
        return self.parent._returned(arguments)

    def _number_tape(self, arguments: list[Any]) -> NumberTape:
        given = {
            self.slots.inputs[which]: t
            for t, (kind, which) in zip(arguments, self.parent.sources, strict=False)
            if kind == "number"
        }
        return NumberTape(self.slots.outcomes, given, dict(self.slots.expressions))

    def _break_numbers(self, tape: NumberTape, broken: GraphBreak) -> None:
        broken.is_cured = False  # the slots belong to the parent function

    def _end_numbers(self, tape: NumberTape) -> None:
        """Do nothing: the guards belong to the parent function."""

    def _set_numbers(self, tensors: Sequence[Any]) -> AbstractContextManager[bool]:
        return nullcontext(True)  # the slots belong to the parent function

    def _run_eagerly(self, inputs: list[Any]) -> list[Any]:
        count = len(self.parent.sources)
        reason = "those of its gradients cannot be"
        return self.parent._gradients_by_function(self.given, inputs[:count], inputs[count:], reason)

    def _outcome(self, tracer: Tracer, arguments: list[Any]) -> tuple[list[Any], list[tuple[Effect, list[Any]]]]:
        with observing(tracer):
            for t in arguments:
                tracer.capture(t, payload_of(t))
        count = len(self.parent.sources)
        inputs, cotangents = arguments[:count], arguments[count:]
        outer = scope()
        try:
            restore(outer.recording(self.parent.grad_enabled))
            returned, effects = self.parent._outcome(tracer, inputs)
        finally:
            restore(outer)
            del outer
        with observing(tracer):
            leaves = _all_leaves(tracer, returned, effects)
            memories = [o._array.memory for o in tracer.inputs[:count]]
            found = Results(tracer, leaves, inputs, memories, self.parent.known_objects(), self.parent.lies_as_eager)
            roots = [r for r, given in zip(found.roots, self.given, strict=True) if given]
            wanted = [i for i, t in enumerate(inputs) if requires_grad(t)]
            gradients = grad(roots, [inputs[i] for i in wanted], cotangents, create_graph=True, allow_unused=True)
        of_inputs: list[Any] = [None] * count
        for i, g in zip(wanted, gradients, strict=True):
            of_inputs[i] = g
        return of_inputs, []


def _all_leaves(tracer: Tracer, returned: Sequence[Any], effects: Sequence[tuple[Effect, list[Any]]]) -> list[Any]:
    """Return the leaves of the function's result and of its effects. Numbers that they depend on become inputs."""
    leaves = [original_of(t) for t in (*returned, *[t for _, of_effect in effects for t in of_effect])]
    if not tracer.is_plain and any(captured.has_hooks for captured in tracer.inputs):
        raise GraphBreak("a backward pass runs inside, and a tensor from outside has hooks")
    if any(isinstance(t, Variable) and requires_grad(t) for _, of_effect in effects for t in of_effect):
        raise GraphBreak("a tensor that has a history is kept outside of the function")
    prepare_numbers(tracer, leaves)
    return leaves


@contextmanager
def _without_collections() -> Iterator[None]:
    """Context without garbage collections: a trace has many objects, all needed until it ends."""
    collects = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def tracing(tracer: Tracer, environment: Environment) -> Iterator[None]:
    """Context that traces a function. Its side effects are undone, and its exceptions become graph breaks."""
    load_filter()
    token = current_tracer.set(tracer)
    try:
        with _without_collections(), use_proxies(), forbid_side_effects():  # excludes the collector's callbacks
            try:
                with TraceWatch(environment) as tracer.calls:
                    yield
            finally:
                tracer.draws.undo()
                environment.restore()
        environment.capture_late_names(tracer.calls.library_names)
    except GraphBreak as broken:
        tracer.broken = tracer.broken or broken
    except TraceEnd:
        assert tracer.broken is not None
    except Exception as error:
        tracer.broken = tracer.broken or GraphBreak(
            f"{type(error).__name__} while it was traced: {str(error)[:300]}", line_of(error)
        )
    finally:
        current_tracer.reset(token)
    if tracer.broken is not None:
        tracer.broken.depends_on_values = bool(tracer.conditions)
        raise tracer.broken


def _fields(found: Modes) -> list[Any]:
    """Return the modes in force as a list that can be compared."""
    return [getattr(found, name) for name in Modes.__slots__ if not name.startswith("_")]


def _array_of(t: Any) -> Any:
    """Return the array of a tensor: a device's, or NumPy's."""
    array = t._array
    return array if is_on_device(array) else np.asarray(array)


def _may_be_written(t: Any, array: Any) -> bool:
    """True if a program may write the memory of a tensor directly: no observer is active, and the old values are not
    kept.
    """
    storage = t._storage
    return (
        array is t._array
        and not isinstance(array, np.generic)
        and bool(array.flags.c_contiguous if is_on_device(array) else array.flags.carray)
        and not process.busy
        and storage.__class__ is not InferenceStorage
        and (storage is None or not storage.keeps)
    )


def _writer_of(storage: Any) -> tuple[int, str | None]:
    """Return the number of writes to the memory of an input in a trace, and the op of the last write."""
    return (1, "copy_") if storage is None else (max(storage.version.number, 1), storage.version.writer)


def _has_base(t: Any) -> bool:
    """True if a tensor is a view whose writes autograd refuses or records in the history of the base."""
    info = None if t._meta is None else t._meta.view
    return info is not None and (info.creation != DEFAULT or requires_grad(t) or requires_grad(info.base))


def _share(arrays: Sequence[Any], written: Sequence[int]) -> bool:
    """True if a written array may share memory with another. Two arrays that own their memory do not."""
    own = [a.base is None and a.flags.owndata for a in arrays]
    if all(own):
        return len({*map(id, arrays)}) != len(arrays)
    pairs = [
        (i, j)
        for i in written
        for j in range(len(arrays))
        if i != j and not (own[i] and own[j] and arrays[i] is not arrays[j])
    ]
    return any(_may_overlap(arrays[i], arrays[j]) for i, j in pairs)


def _may_overlap(a: Any, b: Any) -> bool:
    if not is_on_device(a) and not is_on_device(b):
        return bool(np.may_share_memory(a, b))
    if a.__class__ is not b.__class__:
        return False
    (first, end), (other, other_end) = bounds(a), bounds(b)
    return first < other_end and other < end
