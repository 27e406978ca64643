"""Tracing of a function: run it once under a tracer, undo its side effects, and find out what its calls need.

    trace_function      trace a function, again while traces discover facts that the next one needs
    tracing             context in which side effects are undone and exceptions become graph breaks
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.captured_tensors import payload_of, use_proxies
from ndgrad._src.compiler.capture.deferred_calls import deferring
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.graph_break import GraphBreak, Unreached, current_tracer
from ndgrad._src.compiler.capture.leaf_order import order_of_leaves
from ndgrad._src.compiler.capture.loop_calls import rewrite_loops
from ndgrad._src.compiler.capture.loop_gradients import Joint, joint_program
from ndgrad._src.compiler.capture.loop_rounds import LoopRefused
from ndgrad._src.compiler.capture.loop_source import LoopLog
from ndgrad._src.compiler.capture.number_tape import NumberTape
from ndgrad._src.compiler.capture.patched_functions import patching
from ndgrad._src.compiler.capture.side_effects import forbid_side_effects
from ndgrad._src.compiler.capture.slot_effects import original_of
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.capture.tensor_metadata import attributes_of, watch_attributes
from ndgrad._src.compiler.capture.trace_watch import TraceEnd, TraceWatch, load_filter
from ndgrad._src.compiler.capture.traced_arrays import Memory
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.capture.user_lines import line_of
from ndgrad._src.compiler.lower.float_errors import reporting_ops, unread_checks
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.runtime.backend import runs_on_numpy
from ndgrad._src.compiler.runtime.input_memory import share_memory
from ndgrad._src.compiler.runtime.result_analysis import analyse_results, prepare_numbers
from ndgrad._src.compiler.runtime.trace_result import InputMetadata, TracedProgram, TraceResult
from ndgrad._src.compiler.runtime.traced_function import Effects, Outcome, Source, TracedFunction
from ndgrad._src.core.modes import thread
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import Variable, requires_grad, wrap
from ndgrad._src.engine.backward_api import grad

#: Number of traces that may discover a fact which the next trace needs.
MOST_TRACES = 8


def trace_function(
    traced: TracedFunction, arguments: Sequence[Any], strict: bool
) -> tuple[TraceResult, TracedProgram]:
    """Trace a function with these tensors as arguments. Return the facts that its calls need, and its ops. `strict` is
    True if the program will run on NumPy.
    """
    loops = traced.environment.loops
    left = MOST_TRACES + len(traced.slots.slots)
    refusals = 0
    while True:
        known = len(loops.refused)
        try:
            return _trace_once(traced, arguments, strict)
        except LoopRefused as refused:
            refusals += 1
            if refusals > MOST_TRACES or len(loops.refused) == known:
                loops.is_off = refused.reason
        except GraphBreak as broken:
            if not broken.is_cured or not left:
                raise
            left -= 1


def _may_be_caused_by_loops(broken: GraphBreak, loops: LoopLog) -> bool:
    """True if loops that were rolled up may have caused a graph break. The next trace takes them round by round."""
    if isinstance(broken, Unreached) or broken.is_passing or broken.is_cured:
        return isinstance(broken, LoopRefused)  # another environment, call or trace avoids the others
    return loops.blame(broken.reason)


def _trace_once(traced: TracedFunction, arguments: Sequence[Any], strict: bool) -> tuple[TraceResult, TracedProgram]:
    environment, slots = traced.environment, traced.slots
    tape = traced.number_tape(arguments)
    sources = _Sources(environment, arguments, tape)
    tracer = Tracer(traced.name, sources.admit, environment.reached.generator_state)
    sources.drawn_tensors = tracer.drawn_tensors  # not the tracer, which refers to `sources`
    tracer.numbers = tape
    tracer.reads_numbers = not environment.reached.may_ask_for_types
    tracer.outcomes = traced.given_outcomes
    tracer.note_attribute = sources.note_attribute  # type: ignore[method-assign]
    tracer.watch = environment.watch
    tracer.loops = environment.loops
    environment.loops.begin(rewrite_loops(environment.reached))
    try:
        found, program = _run(traced, tracer, arguments, sources.found, strict)
    except GraphBreak as broken:
        if _may_be_caused_by_loops(broken, environment.loops):
            raise LoopRefused(broken.reason, broken.where) from None
        traced.note_break(tape, broken)
        raise
    finally:
        slots.release()
    if tape.has_failed and slots:
        slots.drop_all()
        caught = GraphBreak("the function catches an error of arithmetic with numbers that change")
        caught.is_cured = True
        raise caught
    traced.note_end(tape)
    facts = [
        get_facts(o.source) if kind == "grad" else None
        for (kind, _), o in zip(sources.found, tracer.inputs, strict=True)
    ]
    tracer.end()
    return dataclasses.replace(found, metadata=dataclasses.replace(found.metadata, gradient_facts=facts)), program


class _Sources:
    """Origins of the inputs of a program, in the order in which a trace meets them."""

    #: Input tensors of random draws, by identity.
    drawn_tensors: dict[int, Any]

    def __init__(self, environment: Environment, arguments: Sequence[Any], tape: NumberTape) -> None:
        self._environment = environment
        self._tape = tape
        self._arguments = {id(t): i for i, t in enumerate(arguments)}
        #: Inputs by the identity of their gradient.
        self._gradients: dict[int, int] = {}
        self.found: list[Source] = []

    def admit(self, t: Any) -> str | None:
        """Make a tensor an input. Return the reason if its origin is not known."""
        source = self._source_of(t)
        if source is None:
            return "a tensor is used that is neither an argument nor found in closures, globals, attributes and containers"
        self.found.append(source)
        meta = t._meta
        if meta is not None and meta.grad is not None:
            self._gradients.setdefault(id(meta.grad), len(self.found) - 1)
        return None

    def _source_of(self, t: Any) -> Source | None:
        if id(t) in self._arguments:
            return "argument", self._arguments[id(t)]
        entry = self._environment.find_entry(t)
        if entry is not None:
            return "environment", entry
        if id(t) in self._gradients:
            return "grad", self._gradients[id(t)]
        if id(t) in self.drawn_tensors:
            return "draw", len(self.drawn_tensors) - 1
        number = self._tape.number_of(t)
        return None if number is None else ("number", number)

    def note_attribute(self, t: Any, name: str) -> None:
        """Guard that a captured tensor has no attribute of a name. Other tensors have no such guard."""
        if not self._environment.reached.capture_tensor_attributes(t, attributes_of(t)):
            raise GraphBreak(f"the function asks for the attribute {name!r} of an argument")


# ----- contexts -------------------------------------------------------------------------------------------------------


@contextmanager
def without_collections() -> Iterator[None]:
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
    handled = sys.exception()
    token = current_tracer.set(tracer)
    try:
        with without_collections(), use_proxies(), forbid_side_effects():  # excludes the collector's callbacks
            try:
                with TraceWatch(environment.reached) as tracer.calls:
                    yield
            except BaseException as error:
                finish_frames((error, tracer.broken), handled)
                raise
            finally:
                tracer.draws.undo()
                environment.restore()
        environment.reached.capture_late_names(tracer.calls.library_names)
    except GraphBreak as broken:
        tracer.broken = tracer.broken or broken
    except TraceEnd:
        assert tracer.broken is not None
    except Exception as error:
        tracer.broken = tracer.broken or break_by(error)
    finally:
        current_tracer.reset(token)
    if tracer.broken is not None:
        tracer.broken.depends_on_values = bool(tracer.conditions)
        raise tracer.broken


def finish_frames(errors: Sequence[BaseException | None], handled: BaseException | None) -> None:
    """Release the local variables of the frames that exceptions have left, and collect the garbage of the trace. The
    frames of `handled` belong to the caller, which was handling that exception when the trace began.

    An abandoned trace may leave suspended generators, such as an entered context manager in an ExitStack, and objects
    with finalizers. They end as soon as their last reference goes. Their `finally` blocks and finalizers must run
    before the side effects of the trace are undone; afterwards they would change the restored state.
    """
    left = [error for error in errors if error is not None]
    seen = {id(handled)}
    while left:
        error = left.pop()
        if id(error) not in seen:
            seen.add(id(error))
            traceback.clear_frames(error.__traceback__)  # frames that still run are skipped
            left += [other for other in (error.__context__, error.__cause__) if other is not None]
    del left
    gc.collect(0)  # no collection has run since the trace began: all of its objects are in the youngest generation


def break_by(error: Exception) -> GraphBreak:
    """Return a graph break for an exception."""
    return GraphBreak(f"{type(error).__name__} while it was traced: {str(error)[:300]}", line_of(error))


def _run(
    traced: TracedFunction, tracer: Tracer, arguments: Sequence[Any], sources: list[Source], strict: bool
) -> tuple[TraceResult, TracedProgram]:
    """Run the function under the tracer and analyse its results."""
    functions = traced.slots.functions if tracer.reads_numbers else ()
    with tracing(tracer, traced.environment), watch_attributes(arguments, traced.environment), deferring(), patching(functions):
        try:
            return _run_traced(traced, tracer, arguments, sources, strict)
        except BaseException:
            traced.slots.release()  # objects of the trace must end before `tracing` undoes its side effects
            raise


def _run_traced(
    traced: TracedFunction, tracer: Tracer, arguments: Sequence[Any], sources: list[Source], strict: bool
) -> tuple[TraceResult, TracedProgram]:
    """Run the function and analyse its results. A separate frame, so that `finish_frames` releases the results."""
    environment, slots = traced.environment, traced.slots
    environment.note_caches()
    if tracer.reads_numbers:
        slots.install(tracer, tracer.numbers, traced.arguments.plain)
    else:
        for cache in environment.reached.caches:
            environment.reached.opaque.refuse_cache(cache)
    outcome = traced.run_traced(tracer, arguments)
    left = _changed_identities(traced, tracer)
    with observing(tracer):
        found = _analyse(traced, tracer, outcome, sources, strict)
    if left != _changed_identities(traced, tracer):
        raise GraphBreak("a backward function or hook inside changes something outside")
    return found


def _changed_identities(traced: TracedFunction, tracer: Tracer) -> list[Any]:
    """Return the changed slots with the identities of their current contents."""
    return [
        *[
            (slots, number, id(now) if number >= 0 or type(now) is not list else [*map(id, now)])
            for slots, number, now in traced.environment.find_changes()
        ],
        *[[*map(id, made.new_items())] for made in traced.slots.stand_ins],
        len(tracer.deferred),
    ]


# ----- analysis -------------------------------------------------------------------------------------------------------


def _analyse(
    traced: TracedFunction, tracer: Tracer, outcome: Outcome, sources: list[Source], strict: bool
) -> tuple[TraceResult, TracedProgram]:
    """Return the result and the ops of a trace whose function has returned."""
    tracer.check_lent()
    leaves = all_leaves(tracer, outcome.leaves, outcome.effects)
    inputs = [o.source for o in tracer.inputs]
    memories = [o._array.memory for o in tracer.inputs]
    results, roots = analyse_results(tracer, leaves, inputs, memories, traced.known_objects(), traced.has_effects)
    writes = _find_writes(memories, inputs) if traced.has_effects else []
    wanted = [i for i, t in enumerate(inputs) if requires_grad(t)] if roots else []
    values, checked = _find_values(traced, tracer, results.values, [memories[i].value for i in writes])
    # The gradients run rules and hooks, so these are read before.
    writers = [_writer_of(tracer.inputs[i]._storage) for i in writes]
    may_fail_late = tracer.numbers.may_fail_late
    send_order = order_of_leaves(roots, inputs, wanted)
    joint, is_freed = _make_joint(tracer, values, roots, wanted, strict)
    found = TraceResult(
        sources=sources,
        metadata=_find_metadata(tracer),
        tape=tracer.draws.tape,
        grad_enabled=thread.grad_enabled,
        results=results,
        result_spec=outcome.spec,
        effects=[effect for effect, _ in outcome.effects],
        writes=writes,
        writers=writers,
        outputs=[(t._array.shape, t._array.dtype) for t in roots],
        gradients_of=[i for i, g in zip(wanted, joint.gradients, strict=False) if g is not None],
        send_order=send_order,
        is_freed=is_freed,
        outcomes=[is_true for _, is_true in tracer.conditions],
        decided=tracer.decided,
        later=[error for _, error in tracer.later],
        unread=checked.unread,
        may_fail_late=may_fail_late,
        place=next((o._array.stands_on for o in tracer.inputs if o._array.stands_on is not CPU), CPU),
    )
    tracer.calls.end()  # only the compiler's own code runs from here on
    return found, TracedProgram(joint, checked.trace, checked.reporting)


def _find_writes(memories: Sequence[Memory], inputs: Sequence[Any]) -> list[int]:
    """Return the inputs that the function writes."""
    writes = [i for i, memory in enumerate(memories) if memory.written]
    if writes and share_memory([payload_of(t) for t in inputs], writes):
        raise GraphBreak("an input is written that shares memory with another")
    return writes


class _Checked(NamedTuple):
    """The trace to check for floating-point errors, with the elements that its reporting ops read and return."""

    trace: Program | None
    reporting: Counter[str]
    #: Number of unread values that are computed for the check.
    unread: int


def _find_values(
    traced: TracedFunction, tracer: Tracer, results: Sequence[Value], written: Sequence[Value]
) -> tuple[list[Value], _Checked]:
    """Return the values that a program computes: results, written inputs, conditions, checks, and unread values in which
    eager code reports errors.
    """
    values = [*results, *written]
    values += [value for value, _ in (*tracer.conditions, *tracer.later)]
    if not traced.has_effects or any(o._array.stands_on is not CPU for o in tracer.inputs):
        return values, _Checked(None, Counter(), 0)
    unread = unread_checks(tracer.program, values, tracer.of_passes)
    values += unread
    trace = copy_program(tracer.program, values)
    return values, _Checked(trace, reporting_ops(trace, tracer.of_passes), len(unread))


def all_leaves(tracer: Tracer, returned: Sequence[Any], effects: Effects) -> list[Any]:
    """Return the leaves of the function's result and of its effects. Numbers that they depend on become inputs."""
    leaves = [original_of(t) for t in (*returned, *[t for _, of_effect in effects for t in of_effect])]
    if not tracer.is_plain and any(captured.has_hooks for captured in tracer.inputs):
        raise GraphBreak("a backward pass runs inside, and a tensor from outside has hooks")
    if any(isinstance(t, Variable) and requires_grad(t) for _, of_effect in effects for t in of_effect):
        raise GraphBreak("a tensor that has a history is kept outside of the function")
    prepare_numbers(tracer, leaves)
    return leaves


def copy_program(program: Program, outputs: Sequence[Value]) -> Program:
    """Return the program so far with these outputs."""
    return Program([*program.inputs], [*outputs], [*program.instructions], dict(program.constants), program.name)


def _find_metadata(tracer: Tracer) -> InputMetadata:
    """Return the metadata of inputs that the function inspects. Facts about gradients are added after the trace."""
    inputs = enumerate(tracer.inputs)
    asked = [(i, o.grad_before is not None) for i, o in inputs if o._meta.asked and not o.is_result]
    return InputMetadata(asked, [(i, o.before[0] is None) for i, o in enumerate(tracer.inputs) if o.leaf_asked], [])


def _writer_of(storage: Any) -> tuple[int, str | None]:
    """Return the number of writes to the memory of an input in a trace, and the op of the last write."""
    return (1, "copy_") if storage is None else (max(storage.version.number, 1), storage.version.writer)


def _make_joint(
    tracer: Tracer, values: list[Value], roots: Sequence[Any], wanted: Sequence[int], strict: bool
) -> tuple[Joint, bool]:
    """Return the program of the values and of the gradients of inputs. The flag is True if a backward pass inside the
    function has freed the graph, so that there are no gradients.
    """
    on_device = any(o._array.stands_on is not CPU for o in tracer.inputs)
    looped = None if on_device or runs_on_numpy(strict) else joint_program(tracer, values, roots, wanted)
    if looped is not None:
        return looped, False
    given = [tracer.input(t._array) for t in roots]
    gradients = _gradients(tracer, roots, [tracer.inputs[i].source for i in wanted], given)
    found = [None if g is None else tracer.value_of(g._array) for g in gradients or ()]
    return Joint(tracer.program, values, [p.memory.value for p in given], found), gradients is None


def _gradients(
    tracer: Tracer, roots: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]
) -> Sequence[Any] | None:
    """Return the gradients of inputs, given those of the results; None if the graph is freed."""
    if not inputs:
        return ()
    cotangents = [wrap(t.tensor_type, payload) for t, payload in zip(roots, given, strict=True)]
    try:
        return grad(roots, inputs, cotangents, allow_unused=True)
    except RuntimeError as error:
        if str(error).endswith("[nd-overwritten]"):
            raise GraphBreak("backward needs a tensor that the function overwrites") from None
        if tracer.broken is not None or not str(error).endswith("[nd-freed-graph]"):
            raise  # an error of the function's own backward is raised as in eager code
        return None
