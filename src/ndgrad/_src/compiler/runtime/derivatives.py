"""Derivatives of compiled calls that their backward programs do not cover.

Note [Derivatives of a compiled call]
The backward program covers the usual case: every result has a gradient, and the gradients are not differentiated.
Otherwise the function is traced once more as a `derivative`. The available gradients are further arguments, and the
gradients of the inputs are recorded results. A derivative is a specialization with a backward of its own, so this works
to any order. Each order equals the graph that eager code would record, including custom functions, no_grad and detach
inside the function. Tracing has no side effects (see Note [Captured tensors] and
ndgrad._src.compiler.capture.environment), so the function's writes are not done twice. A gradient may need values
although the function does not, so the derivative may not be traceable. The function itself then runs once more,
eagerly, if it has no side effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.number_tape import NumberTape
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.runtime.result_analysis import analyse_results
from ndgrad._src.compiler.runtime.results import NEW
from ndgrad._src.compiler.runtime.trace_result import TraceResult
from ndgrad._src.compiler.runtime.traced_function import Outcome, Source, TracedFunction
from ndgrad._src.compiler.runtime.tracing import all_leaves
from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import requires_grad
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.foundations.pytree import LEAF


@dataclass(frozen=True, kw_only=True)
class TracedGradients(TracedFunction):
    """The gradients of the inputs of a compiled function, as a function of these inputs and of some result gradients."""

    has_effects: ClassVar[bool] = False

    original: TracedFunction
    #: The trace of the original function.
    trace: TraceResult
    #: For each result with a history: True if its gradient is given.
    given: tuple[bool, ...]

    @classmethod
    def from_original(cls, traced: TracedFunction, trace: TraceResult, given: tuple[bool, ...]) -> TracedGradients:
        """Return the gradients of a traced function."""
        return cls(
            traced.function,
            f"{traced.name}_gradients",
            traced.environment,
            traced.slots,
            traced.arguments,
            trace.outcomes,
            original=traced,
            trace=trace,
            given=given,
        )

    def run_eagerly(self, tensors: Sequence[Any]) -> list[Any]:
        count = len(self.trace.sources)
        reason = "those of its gradients cannot be"
        return run_for_gradients(self.original, self.trace, self.given, tensors[:count], tensors[count:], reason)

    def run_traced(self, tracer: Tracer, tensors: Sequence[Any], drawn: Sequence[Any] = ()) -> Outcome:
        traced, trace = self.original, self.trace
        with observing(tracer):
            for t in tensors:
                tracer.capture(t, payload_of(t))
        count = len(trace.sources)
        inputs, cotangents = tensors[:count], tensors[count:]
        drawn = [t for t, (kind, _) in zip(inputs, trace.sources, strict=True) if kind == "draw"]
        outer = scope()
        try:
            restore(outer.recording(trace.grad_enabled))
            outcome = traced.run_traced(tracer, inputs, drawn)
        finally:
            restore(outer)
            del outer
        with observing(tracer):
            leaves = all_leaves(tracer, outcome.leaves, outcome.effects)
            memories = [o._array.memory for o in tracer.inputs[:count]]
            _, roots = analyse_results(tracer, leaves, inputs, memories, traced.known_objects(), traced.has_effects)
            roots = [r for r, is_given in zip(roots, self.given, strict=True) if is_given]
            gradients = _recorded_gradients(roots, inputs, cotangents)
        return Outcome(gradients, LEAF, [])

    # The slots belong to the original function.

    def number_tape(self, tensors: Sequence[Any]) -> NumberTape:
        pairs = zip(tensors, self.trace.sources, strict=False)
        given = {self.slots.inputs[which]: t for t, (kind, which) in pairs if kind == "number"}
        return NumberTape(self.slots.outcomes, given, dict(self.slots.expressions))

    def note_break(self, tape: NumberTape, broken: GraphBreak) -> None:
        broken.is_cured = False

    def note_end(self, tape: NumberTape) -> None:
        """Do nothing."""

    def set_numbers(self, sources: Sequence[Source], tensors: Sequence[Any]) -> AbstractContextManager[bool]:
        return nullcontext(True)


def _recorded_gradients(roots: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """Return the gradients of inputs, with a history; None for inputs without one."""
    wanted = [i for i, t in enumerate(inputs) if requires_grad(t)]
    found = grad(roots, [inputs[i] for i in wanted], cotangents, create_graph=True, allow_unused=True)
    gradients: list[Any] = [None] * len(inputs)
    for i, g in zip(wanted, found, strict=True):
        gradients[i] = g
    return gradients


def current_inputs(sources: Sequence[Source], tensors: Sequence[Any]) -> list[Any]:
    """Return the inputs of an earlier call, with captured tensors as they are now."""
    return [which[0] if kind == "environment" else t for (kind, which), t in zip(sources, tensors, strict=True)]


@contextmanager
def as_traced(traced: TracedFunction, trace: TraceResult) -> Iterator[None]:
    """Context in which a function is as it was when it was traced, because its derivatives are found from it. The
    environment is restored for the duration. Raise if that is not possible.
    """
    reads_gradients = any(kind == "grad" for kind, _ in trace.sources)
    reason = "it reads gradients" if reads_gradients else traced.environment.check()
    if reason is None:
        yield
        return
    with traced.environment.as_traced():
        if reads_gradients or (reason := traced.environment.check()) is not None:
            raise RuntimeError(
                f"{traced.name}: derivatives of the gradients of a compiled call are traced when they are "
                f"first asked for, and {reason}. Ask for them before changing what the function uses, "
                "or call the function itself instead of the compiled one. [nd-compile-again]"
            )
        yield


def run_for_gradients(
    traced: TracedFunction,
    trace: TraceResult,
    given: tuple[bool, ...],
    tensors: Sequence[Any],
    cotangents: Sequence[Any],
    reason: str,
) -> list[Any]:
    """Return the gradients of the inputs by running the function itself. `reason` says why they cannot be traced."""
    inputs = current_inputs(trace.sources, tensors)
    is_replaced = any(a._array is not t._array for a, t in zip(inputs, tensors, strict=True) if a is not t)
    results = trace.results
    numbers = [n for n, new in enumerate(results.new) if new.differentiable]
    places = {leaf.number: i for i, leaf in enumerate(results.leaves) if leaf.kind == NEW and not leaf.path}
    can_run = not (trace.effects or trace.writes or trace.tape.draws) and places.keys() >= {*numbers}
    with traced.set_numbers(trace.sources, tensors) as is_known:
        if not (is_known and can_run) or is_replaced:
            raise RuntimeError(
                f"{traced.name}: the derivatives of the gradients of a compiled call cannot be traced, since {reason}; "
                "and the function writes, draws random numbers, uses numbers that change or returns views, or a tensor that "
                "it reaches has been replaced, so it is not run again. Ask for them from the function itself instead of the "
                "compiled one. [nd-compile-again]"
            )
        outer = scope()
        try:
            restore(outer.recording(True))
            with as_traced(traced, trace):
                leaves = traced.run_eagerly(inputs)
            roots = [leaves[places[n]] for n, is_given in zip(numbers, given, strict=True) if is_given]
            return _recorded_gradients(roots, inputs, cotangents)
        finally:
            restore(outer)
            del outer
