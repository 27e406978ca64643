"""A call of a compiled function like the last one: guards, fresh memory and the program, with little Python.

After its first call, a specialisation gets a `NativeCall`. Its guards are sufficient for "same as last time". A
generated function (ndgrad._src.compiler.runtime.guard_source) tests the modes, the structure of the arguments, their
tensors and values. A builtin compares everything that the function reaches (ndgrad._src.compiler.runtime.state_guards).
A second builtin checks the arrays of the inputs, allocates memory and runs the program
(ndgrad._src.compiler.native.calls). Python then makes tensors and a node from its arrays (`Specialisation.finished`). If
a guard fails, the call takes the general Python path, which defines its meaning.

Numbers of slots are inputs of a program (ndgrad._src.compiler.capture.number_slots). If no backward pass will need
them, as after an optimizer's step, Python reads them before the guards and writes them into arrays of the call
(`refresh`). Otherwise they are guarded by value, and the inputs are those of the call from which the guards were made.

A program that writes only fresh memory may run before Python compares the slots that are left to it
(`Snapshot.left_over`): useless results are dropped. If it writes inputs, as an optimizer's step does, Python compares
first (`refresh`), and guards check that they may be written.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import is_
from typing import Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.compiler.capture.branch_conditions import Mispredicted
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.lower import float_errors
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.native.calls import Check, Input, is_available, make_comparison
from ndgrad._src.compiler.runtime.guard_source import GuardSource
from ndgrad._src.compiler.runtime.node import node_of_call
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.compiler.runtime.state_guards import Snapshot, is_contiguous, require_facts
from ndgrad._src.core import modes
from ndgrad._src.core.variable import AccumulateGrad, Variable, wrap
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.pytree import LEAF, tree_flatten
from ndgrad._src.tensor.tensor_class import Tensor

#: Largest number of native calls made for a specialisation because objects were replaced.
MOST_CALLS = 16


class NativeCall:
    """The guards of a specialisation, and the Python part after its program has run."""

    def __init__(self, made: Specialisation, numbers: Sequence[Any]) -> None:
        assert made.ran is not None
        trace, traced = made.trace, made.traced
        self.specialisation = made
        #: True if other numbers are written into the inputs of the call.
        self.numbers_vary = has_fresh_numbers(made)
        self.snapshot = Snapshot(traced.environment, self.numbers_vary)
        self.inputs = len(trace.sources)
        program, self.at_once = made.ran
        assert isinstance(program, NativeProgram)
        self.program = program
        #: True if the program writes inputs.
        self.is_in_place = bool(program.in_place.inputs)
        #: True if Python has work before the guards. "ready" in `state` tells the guards that it is done for this call.
        self.compares_first = self.is_in_place and bool(self.snapshot.left_over)
        #: True if earlier calls have reported errors: warnings may be shown again if the filters change.
        self.has_reported = made.float_reports.has_reported
        self.refreshes = self.numbers_vary or self.compares_first or self.has_reported
        self.state = {"ready": not self.refreshes}
        #: True if the fresh memory is the result of the program without changes.
        self.is_direct = program.gives_fresh
        #: Graph edges to leaves that the function captures. These leaves live as long anyway, so the next node finds
        #: the same edges.
        self.edges: tuple[Any, ...] = ()
        self._given = sum(kind == "argument" for kind, _ in trace.sources)
        self._keeps_edges = trace.is_plain and bool(trace.outputs) and trace.result_spec is LEAF
        #: Call counter for calls with one scalar result that has its gradients with it.
        self._whole = made.plan.whole if self._is_number_with_gradients() else None
        self._tensor_type: Any = trace.results.new[0].tensor_type if self._whole is not None else None
        self._outputs = trace.outputs
        #: Warning filters, if a call that may report an error depends on them.
        self.filters = tuple(warnings.filters) if made.reports else None
        #: True if calls should run another program from now on.
        self.is_stale = False
        #: Function of the arguments and keyword arguments that runs the program: (inputs, fresh arrays), or None if a
        #: guard fails.
        self.attempt: Callable[[Any, Any], Any] = _miss
        #: Numbers that the guards are for, and their tensors.
        self.numbers = numbers
        self.number_tensors = [wrap(Tensor, array) for array in made.number_arrays(self.numbers)]

    def refresh(self) -> None:
        """Write the numbers of slots into the inputs of the call, if slots hold nothing else that is new. Compare the
        slots that are left to Python.
        """
        self.state["ready"] = False
        if self.has_reported and not self.specialisation.float_reports.has_same_filters():
            return
        if self.numbers_vary:
            traced = self.specialisation.traced
            found = None if traced.environment.has_new_values() else traced.slots.numbers(())
            if found is None:
                return
            for t, number in zip(self.number_tensors, found, strict=True):
                t._array[...] = number
        self.state["ready"] = not self.compares_first or self.snapshot.rest_is_the_same()

    def has_other_filters(self) -> bool:
        """True if the guards depend on warning filters that have changed, or should depend on them."""
        if self.has_reported is not self.specialisation.float_reports.has_reported:
            return True
        return self.filters != (tuple(warnings.filters) if self.specialisation.reports else None)

    def _is_number_with_gradients(self) -> bool:
        """True if a call only has to make a tensor and its node at the end."""
        trace = self.specialisation.trace
        return (
            self.at_once
            and self.is_direct
            and self._keeps_edges
            and not self.snapshot.left_over
            and len(trace.results.values) == len(trace.outputs) == 1
        )

    def finish(self, inputs: tuple[Any, ...], fresh: tuple[Any, ...]) -> Any:
        """Return the result of a call from its input tensors and the fresh arrays of its program."""
        if self._whole is not None and self._whole.counts_on():
            result = wrap(self._tensor_type, fresh[0])
            result._node = node = node_of_call(self.specialisation, inputs, self._outputs, fresh[1:], True)
            if node.next[self._given :] != self.edges:
                self._keep_edges(node)
            return result
        return self._finish(inputs, fresh)

    def _finish(self, inputs: tuple[Any, ...], fresh: Sequence[Any]) -> Any:
        made = self.specialisation
        if self.snapshot.left_over and not self.compares_first and not self.snapshot.rest_is_the_same():
            raise Mispredicted
        if made.computes_at_once() is not self.at_once:
            self.is_stale = True
        is_written = False
        if self.is_in_place and (bits := self.program.take_bits()):
            written = [inputs[i]._array for i in made.trace.writes]
            self.is_stale |= made.float_reports.warn_of_bits(bits, (*fresh, *written))
        try:
            if not self.is_direct:
                fresh = self.program.collected([t._array for t in inputs], fresh)
            is_written = not made.trace.is_plain
            result = made.finished(inputs, fresh, self.at_once, self.is_in_place)
        except Exception:
            if is_written:
                raise
            raise Mispredicted from None  # the general path will raise the error
        if self._keeps_edges:
            self._keep_edges(result._node)
        return result

    def _keep_edges(self, node: Any) -> None:
        edges = node.next[self._given :]
        if edges != self.edges and all(e is None or isinstance(e, AccumulateGrad) for e in edges):
            self.edges = edges


def has_fresh_numbers(made: Specialisation) -> bool:
    """True if calls may write the numbers of slots into the same arrays, because no graph keeps them."""
    return (
        bool(made.traced.slots.slots)
        and all(slot.slots is not None for slot in made.traced.slots.slots)
        and not made.trace.has_graph
    )


def native_call(
    made: Specialisation, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool, disabled: ContextVar[bool]
) -> NativeCall | None:
    """Return the native form of calls like this one, which has just run by its program; None if they need Python first.
    """
    program = None if made.ran is None else made.ran[0]
    if not is_available() or not isinstance(program, NativeProgram) or not program.is_native:
        return None
    if made.trace.needs_python or made.trace.tape.draws:
        return None
    numbers = made.traced.slots.previous_numbers(tree_flatten((args, kwargs))[0])
    if numbers is None:
        return None
    call = NativeCall(made, numbers)
    try:
        call.attempt = _Guards(call, args, kwargs, recording, disabled).attempt()
    except _NotSimple:
        return None
    return call


def _miss(args: Any, kwargs: Any) -> None:
    return None


# ----- guards ---------------------------------------------------------------------------------------------------------


#: Arguments that are compared by value, not by identity.
_BY_CONTENT = (complex, slice, np.generic, np.ndarray, int, float, str, bytes)
#: Largest number of objects that are compared one by one.
_FEW = 6


class _NotSimple(Exception):
    """A call that the guards do not cover."""


class _Guards:
    """Writer of the guards of one call."""

    def __init__(
        self, call: NativeCall, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool, disabled: ContextVar[bool]
    ) -> None:
        self._call = call
        self._made = call.specialisation
        self._source = GuardSource("args, kwargs")
        #: Tensors among the arguments, and the variables that hold them.
        self._tensors: list[tuple[Any, str]] = []
        self._checks: list[Check] = []
        self._require_modes(recording, disabled)
        self._require_arguments(args, kwargs)
        if call.refreshes:
            self._source.require(f"{self._source.name(call.state)}['ready']")
        self._require_state()

    def attempt(self) -> Callable[[Any, Any], Any]:
        """Return the function that tests the guards and runs the program."""
        source, call = self._source, self._call
        inputs = self._require_inputs()
        written: set[int] = set()
        if call.is_in_place:
            places = {v: n for n, v in enumerate(call.program.program.inputs)}
            written = {places[v] for v in call.program.in_place.inputs.values()}
            source.require(f"not {source.name(modes.process)}.busy")  # no observer of writes
        for number, (t, _) in enumerate(inputs):
            if number in written:
                source.require(f"({t}._storage is None or not {t}._storage.keeps) and {t}._array.base is None")
        arrays = [source.let(f"{t}._array") for t, _ in inputs]
        kinds = [Input(facts[2], tuple(facts[1]), tuple(facts[3]), n in written) for n, (_, facts) in enumerate(inputs)]
        run = source.name(call.program.make_call(kinds, are_apart=call.is_in_place))
        tensors = ", ".join(t for t, _ in inputs)
        comma = "," if inputs else ""
        return source.function(f"{run}({', '.join(arrays)})", f"None if found is None else (({tensors}{comma}), found)")

    def _require_modes(self, recording: bool, disabled: ContextVar[bool]) -> None:
        """Require the modes that a call checks, and the defaults that a trace depends on."""
        source = self._source
        scope = source.let(f"{source.name(modes._variable.get)}()")
        state = source.let(f"{scope}.modes")
        process = source.name(modes.process)
        source.require(f"not ({scope}.closed or {state}.entered or {process}.shared or {process}.named)")
        source.require(f"{state}.grad_enabled is {recording}")
        source.require(f"{source.name(dtypes)}._default_dtype is {source.name(dtypes.get_default_dtype())}")
        self._checks += [
            Check.variable(disabled, False),
            Check.variable(float_errors.settings, float_errors.default_settings),
            Check.variable(devices._defaults, devices._defaults.get()),
        ]

    def _require_state(self) -> None:
        """Require that the objects that the function reaches are the same."""
        checks = [*self._checks, *self._call.snapshot.checks]
        if self._call.filters is not None:
            filters: Any = warnings.filters
            checks += [Check.entry(vars(warnings), "filters", filters), Check.items(filters, self._call.filters)]
        self._source.require(f"{self._source.name(make_comparison(checks))}()")

    def _require_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Require the structure of the arguments, and all leaves except tensors."""
        source = self._source
        names = f"tuple(kwargs) == {source.name(tuple(kwargs))}" if kwargs else "not kwargs"
        source.require(f"len(args) == {len(args)} and {names}")
        for number, value in enumerate(args):
            self._require_value(source.let(f"args[{number}]"), value)
        for key, value in kwargs.items():
            self._require_value(source.let(f"kwargs[{key!r}]"), value)

    def _require_value(self, x: str, value: Any) -> None:
        source, cls = self._source, type(value)
        if isinstance(value, Variable):
            self._tensors.append((value, x))
        elif cls in (list, tuple, dict):
            source.require(f"{x}.__class__ is {cls.__name__} and len({x}) == {len(value)}")
            if cls is dict:
                source.require(f"all(map({source.name(is_)}, {x}, {source.name(tuple(value))}))")
            for key, item in value.items() if cls is dict else enumerate(value):
                self._require_value(source.let(f"{x}[{source.name(key) if cls is dict else key}]"), item)
        elif cls is float and (value != value or value == 0):  # nan is nan, and -0.0 is not 0.0
            source.require(f"{x}.__class__ is float and {x}.hex() == {value.hex()!r}")
        elif cls in (int, float, str, bytes):
            source.require(f"{x}.__class__ is {cls.__name__} and {x} == {source.name(value)}")
        elif isinstance(value, _BY_CONTENT) and not isinstance(value, bool):
            raise _NotSimple
        elif value is None or isinstance(value, bool) or value is Ellipsis or tree_flatten(value)[1] is LEAF:
            source.require(f"{x} is {source.name(value)}")  # the environment compares its contents
        else:
            raise _NotSimple

    def _require_inputs(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Require the tensors of the call. Return the variables of the inputs in the program's order, with facts."""
        source, made, given = self._source, self._made, self._tensors
        environment = made.traced.environment
        kinds = [kind for kind, _ in made.trace.sources]
        if len({id(t) for t, _ in given}) != len(given) or kinds[: len(given)] != ["argument"] * len(given):
            raise _NotSimple  # one tensor in several places, or one that is not used
        from_outside = {id(which[0]) for kind, which in made.trace.sources if kind == "environment"}
        others = [(t, known) for t, known, _, _ in environment.tensors.values() if known is not None and id(t) not in from_outside]
        require_facts(source, [(source.name(t), known) for t, known in others])
        reached = tuple([entry[0] for entry in environment.tensors.values()])
        inputs: list[tuple[str, tuple[Any, ...]]] = []
        for (kind, which), of_gradient in zip(made.trace.sources, made.trace.metadata.gradient_facts, strict=True):
            if kind == "environment":
                x, known = source.name(which[0]), which[1]
            elif kind == "number":
                t = self._call.number_tensors[which]
                x, known = source.name(t), get_facts(t)
            elif kind == "grad":
                x, known = source.let(f"{inputs[which][0]}._meta.grad"), of_gradient
            else:
                (t, x), known = given[which], made.traced.arguments.facts[which]  # the call may have changed its facts
                self._require_place(x, None if environment.find_entry(t) is None else t, reached)
            if known is None or not is_contiguous(known):
                raise _NotSimple  # the program needs a copy
            source.require_tensor(x, known)
            inputs.append((x, known))
        if len(given) <= 3:
            for (_, x), (_, y) in itertools.combinations(given, 2):
                source.require(f"{x} is not {y}")
        else:
            source.require(f"len({{{', '.join(f'id({x})' for _, x in given)}}}) == {len(given)}")
        for number, has_one in made.trace.metadata.gradients_asked:
            meta = f"{inputs[number][0]}._meta"
            source.require(
                f"{meta} is not None and {meta}.grad is not None" if has_one else f"{meta} is None or {meta}.grad is None"
            )
        for number, is_leaf in made.trace.metadata.leaves_asked:
            source.require(f"{inputs[number][0]}._node is {'' if is_leaf else 'not '}None")
        return inputs

    def _require_place(self, x: str, t: Any, reached: tuple[Any, ...]) -> None:
        """Require that an argument is the captured tensor `t`, or none of the captured tensors if that is None."""
        source = self._source
        if t is not None:
            source.require(f"{x} is {source.name(t)}")
        elif len(reached) <= _FEW:
            for other in reached:
                source.require(f"{x} is not {source.name(other)}")
        else:
            source.name(reached)  # an identity is unique while the object lives
            source.require(f"id({x}) not in {source.name(frozenset(map(id, reached)))}")
