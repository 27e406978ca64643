"""A function to trace: its arguments, its environment and its number slots.

`Arguments` holds the structure of the arguments of a call. `TracedFunction` runs the function on tensors, once under a
tracer and sometimes eagerly, and collects its results and side effects. The gradients of a compiled call are traced as a
function, too (ndgrad._src.compiler.runtime.derivatives).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.deferred_calls import DeferredCall
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.loop_source import installing
from ndgrad._src.compiler.capture.number_slots import NumberSlots
from ndgrad._src.compiler.capture.number_tape import NumberTape
from ndgrad._src.compiler.capture.side_effects import refuse_float_errors
from ndgrad._src.compiler.capture.slot_effects import Effect, EffectFinder
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.core.modes import Modes, modes
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import TreeSpec, tree_flatten, tree_unflatten

#: Origin of an input of a program: ("argument", n), ("environment", entry), ("grad", input), ("draw", n) or ("number", n).
Source = tuple[str, Any]
#: Side effects, each with the leaves of its value.
Effects = list[tuple[Effect, list[Any]]]


@dataclass(frozen=True)
class Arguments:
    """Structure of the arguments of a traced function, and the leaves that are no tensors."""

    spec: TreeSpec
    #: Positions of the tensors among the leaves, each tensor once; and for each position the number of its tensor.
    places: list[int]
    numbers: dict[int, int]
    #: All other leaves, None for tensors.
    plain: list[Any]
    #: Facts about the tensors before a call.
    facts: list[tuple[Any, ...]]
    #: Entry in the environment of each tensor, if the function also captures it; else None.
    known: list[list[Any] | None]

    @classmethod
    def from_leaves(cls, flat: Sequence[Any], spec: TreeSpec, environment: Environment) -> Arguments:
        """Return the structure of the arguments with these leaves."""
        tensor_places = [i for i, leaf in enumerate(flat) if isinstance(leaf, Variable)]
        first = {id(flat[place]): place for place in reversed(tensor_places)}
        places = sorted(first.values())
        numbers = {place: places.index(first[id(flat[place])]) for place in tensor_places}
        tensors = [flat[place] for place in places]
        return cls(
            spec,
            places,
            numbers,
            [None if i in numbers else leaf for i, leaf in enumerate(flat)],
            [get_facts(t) for t in tensors],
            [environment.find_entry(t) for t in tensors],
        )

    def tensors_of(self, flat: Sequence[Any]) -> list[Any]:
        """Return the tensors among the leaves of a call."""
        return [flat[place] for place in self.places]

    def unflatten(self, tensors: Sequence[Any], numbers: Mapping[int, Any]) -> Any:
        """Return arguments with these tensors, and with other numbers at some leaves."""
        leaves = enumerate(self.plain)
        return tree_unflatten(
            [tensors[self.numbers[i]] if i in self.numbers else numbers.get(i, leaf) for i, leaf in leaves], self.spec
        )


class Outcome(NamedTuple):
    """Result of running a function under a tracer: the leaves of its result, their structure, its side effects."""

    leaves: list[Any]
    spec: TreeSpec
    effects: Effects


@dataclass(frozen=True)
class TracedFunction:
    """A function to trace, with its environment, its arguments and the known outcomes of conditions."""

    function: Callable[..., Any]
    name: str
    environment: Environment
    #: Slots whose numbers are inputs of the program.
    slots: NumberSlots
    arguments: Arguments
    #: Outcomes of branch conditions, if they are known.
    given_outcomes: list[bool] | None = None

    #: True if calls write into inputs.
    has_effects: ClassVar[bool] = True

    def run(self, tensors: Sequence[Any]) -> tuple[list[Any], TreeSpec, Any]:
        """Run the function on these tensors. Return the leaves of its result, their structure, and the result."""
        placeholders: Mapping[int, Any] = self.slots.arguments if current_tracer.get() is not None else self.slots.given
        args, kwargs = given = self.arguments.unflatten(tensors, placeholders)
        before, _ = tree_flatten(given)
        rewritten = self.environment.loops.codes if current_tracer.get() is not None else ()
        reached = self.environment.reached
        with refuse_float_errors(), installing(rewritten, reached.codes, [*reached.seen.values()]):
            result = self.function(*args, **kwargs)
        known = self.environment.reached_ids
        returned, result_spec = tree_flatten(result, lambda t: type(t) in (list, dict) and id(t) in known)
        after, spec = tree_flatten(given)
        if spec != self.arguments.spec or any(a is not b for a, b in zip(before, after, strict=True)):
            raise GraphBreak("a container among the arguments is changed")
        return returned, result_spec, result

    def run_eagerly(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the leaves of the result, without a tracer."""
        return self.run(tensors)[0]

    def run_traced(self, tracer: Tracer, tensors: Sequence[Any], drawn: Sequence[Any] = ()) -> Outcome:
        """Run the function under a tracer. `drawn` are the random numbers of an earlier call, if they are to be used."""
        tracer.draws.given = list(drawn)
        with observing(tracer):
            for t in tensors:
                tracer.capture(t, payload_of(t))
            before = _fields(modes())
            returned, spec, result = self.run(tensors)
            if _fields(modes()) != before:
                raise GraphBreak("the function leaves a mode changed, such as grad mode")
        tracer.draws.end()
        return Outcome(returned, spec, self._find_effects(tracer, result))

    def _find_effects(self, tracer: Tracer, result: Any) -> Effects:
        """Return the side effects of the function, each with its leaves. The caller restores the environment."""
        self.environment.check_caches()
        finder = EffectFinder(self.environment, result)
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

    def known_objects(self) -> set[int]:
        """Return the identities of the function's arguments and of all objects that it reaches."""
        return {*self.environment.reached_ids, *map(id, self.arguments.plain)}

    # ----- numbers in slots -------------------------------------------------------------------------------------------

    def number_tape(self, tensors: Sequence[Any]) -> NumberTape:
        """Return the tape for the numbers of a trace with these arguments."""
        return NumberTape()

    def note_break(self, tape: NumberTape, broken: GraphBreak) -> None:
        """Update the number slots after a trace that ended with a break: slots that are needed by value, and conditions
        that lead to the break.
        """
        if tape.needed or self.slots.looked_at:
            self.slots.need(tape.needed)
        if not broken.is_cured:
            self.slots.end(tape)

    def note_end(self, tape: NumberTape) -> None:
        """Update the number slots after a complete trace."""
        self.slots.end(tape)

    def set_numbers(self, sources: Sequence[Source], tensors: Sequence[Any]) -> AbstractContextManager[bool]:
        """Context in which slots hold the numbers of a call with these inputs; see `NumberSlots.set_numbers`."""
        numbers = {which: t._array.item() for t, (kind, which) in zip(tensors, sources, strict=True) if kind == "number"}
        return self.slots.set_numbers([numbers[i] for i in range(len(numbers))])


def _fields(found: Modes) -> list[Any]:
    """Return the modes in force as a list that can be compared."""
    return [getattr(found, name) for name in Modes.__slots__ if not name.startswith("_")]
