"""A call of a compiled function that needs Python only at its end: guards, fresh memory and the program in one native
call.

After its first call, a specialisation becomes a row of a builtin (ndgrad._src.compiler.native.calls). The guards of the
row are sufficient for "same as last time": the modes, the structure of the arguments, their tensors and values, and
everything that the function reaches (ndgrad._src.compiler.runtime.state_guards). If they hold, the program runs and its
arrays are returned together with the input tensors. Python then makes tensors and a node from them
(`Specialisation.finished`). If the guards fail, the call takes the general Python path, which defines its meaning.

Numbers of slots are inputs of a program (ndgrad._src.compiler.capture.number_slots). If no backward pass will need
them, as after an optimizer's step, Python reads them before the guards and writes them into arrays of the row
(`refresh`). Otherwise the row guards them by value, and its inputs are those of the call from which the row was made.

A program that writes only fresh memory may run before Python compares the slots that are left to it
(`Snapshot.left_over`): useless results are dropped. If it writes inputs, as an optimizer's step does, Python compares
first (`refresh`), and guards check that they may be written (`Writable`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.compiler.capture.branch_conditions import Mispredicted
from ndgrad._src.compiler.capture.environment import get_facts
from ndgrad._src.compiler.lower import float_errors
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.native import layout
from ndgrad._src.compiler.native.calls import Guard, Guarded, Output, Same
from ndgrad._src.compiler.native.calls import Specialisation as Row
from ndgrad._src.compiler.native.guards import Equal, Is, Keys, Length, Place
from ndgrad._src.compiler.native.leaf_gradients import hand_out
from ndgrad._src.compiler.native.memory_guards import Items, Names
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.native.tensor_guards import Distinct, Outside, Writable
from ndgrad._src.compiler.runtime.node import CompiledFunctionBackward, node_of_call
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.compiler.runtime.state_guards import Snapshot, tensor_guard
from ndgrad._src.core import modes
from ndgrad._src.core.variable import AccumulateGrad, Meta, Variable, wrap
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.pytree import LEAF, tree_flatten
from ndgrad._src.tensor.tensor_class import Tensor

#: Largest number of rows made for a specialisation because objects were replaced.
MOST_ROWS = 16

def can_be_native() -> bool:
    """True if there is native code and it may read Python's objects here."""
    return available() and layout.problem() is None


class NativeCall:
    """A specialisation as a row of a builtin, and the Python part after the native part of a call."""

    def __init__(self, made: Specialisation, numbers: Sequence[Any]) -> None:
        assert made.ran is not None
        self.specialisation = made
        #: True if other numbers are written into the inputs of the row.
        self.numbers_vary = has_fresh_numbers(made)
        self.snapshot = Snapshot(made.environment, self.numbers_vary)
        self.inputs = len(made.sources)
        program, self.at_once = made.ran
        assert isinstance(program, NativeProgram)
        self.program = program
        #: True if the program writes inputs.
        self.is_in_place = bool(program.in_place.inputs)
        #: True if Python has work before the guards. "ready" in `state` tells the guards that it is done for this call.
        self.compares_first = self.is_in_place and bool(self.snapshot.left_over)
        self.refreshes = self.numbers_vary or self.compares_first
        self.state = {"ready": not self.refreshes}
        #: True if the fresh memory is the result of the program without changes.
        self.is_direct = program.gives_fresh
        #: Graph edges to leaves that the function captures. These leaves live as long anyway, so the next node finds
        #: the same edges.
        self.edges: tuple[Any, ...] = ()
        self._given = sum(kind == "argument" for kind, _ in made.sources)
        self._keeps_edges = made.is_plain and bool(made.outputs) and made.result_spec is LEAF
        #: Call counter for calls with one scalar result that has its gradients with it.
        self._whole = made.whole if self._is_number_with_gradients() else None
        #: Warning filters, if a call that may report an error depends on them.
        self.filters = tuple(warnings.filters) if made.reports else None
        #: True if calls should run another program from now on.
        self.is_stale = False
        self.row: Row | None = None
        #: Numbers that the guards are for, and their tensors.
        self.numbers = numbers
        self.number_tensors = [wrap(Tensor, array) for array in made.number_arrays(self.numbers)]

    def refresh(self) -> None:
        """Write the numbers of slots into the inputs of the row, if slots hold nothing else that is new. Compare the
        slots that are left to Python.
        """
        self.state["ready"] = False
        if self.numbers_vary:
            found = None if self.specialisation.environment.has_new_values() else self.specialisation.slots.numbers(())
            if found is None:
                return
            for t, number in zip(self.number_tensors, found, strict=True):
                t._array[...] = number
        self.state["ready"] = not self.compares_first or self.snapshot.rest_is_the_same()

    def has_other_filters(self) -> bool:
        """True if the row depends on warning filters that have changed, or should depend on them."""
        return self.filters != (tuple(warnings.filters) if self.specialisation.reports else None)

    def _is_number_with_gradients(self) -> bool:
        """True if a call only has to make a tensor and its node at the end."""
        made = self.specialisation
        return (
            self.at_once
            and self.is_direct
            and self._keeps_edges
            and not self.snapshot.left_over
            and len(made.results.values) == len(made.outputs) == 1
        )

    def __call__(self, found: tuple[Any, ...]) -> Any:
        """Return the result of a call from the outputs of native code."""
        if self._whole is not None and self._whole.counts_on():
            number = 1 + self.inputs
            tensors = found[1:number]
            result = wrap(self.specialisation.results.new[0].face, found[number])
            result._node = node = node_of_call(self.specialisation, tensors, self.specialisation.outputs, found[number + 1 :], True)
            if node.next[self._given :] != self.edges:
                self._keep_edges(node)
            return result
        return self._finished(found)

    def _finished(self, found: tuple[Any, ...]) -> Any:
        made = self.specialisation
        if self.snapshot.left_over and not self.compares_first and not self.snapshot.rest_is_the_same():
            raise Mispredicted
        if made.computes_at_once() is not self.at_once:
            self.is_stale = True
        end = 1 + self.inputs
        inputs = found[1:end]
        fresh: Sequence[Any] = found[end:]
        is_written = False
        if self.is_in_place:
            made.warn_of_bits(self.program)
        try:
            if not self.is_direct:
                fresh = self.program.collected([t._array for t in inputs], fresh)
            is_written = not made.is_plain
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
        bool(made.slots.slots)
        and all(slot.slots is not None for slot in made.slots.slots)
        and (not made.outputs or made.is_freed)
    )


def native_call(
    made: Specialisation, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool, disabled: ContextVar[bool]
) -> NativeCall | None:
    """Return the row for calls like this one, which has just run by its program; None if they need Python first."""
    program = None if made.ran is None else made.ran[0]
    if not can_be_native() or not isinstance(program, NativeProgram) or not program.is_native:
        return None
    if made.needs_python or made.tape.draws:
        return None
    try:
        arguments = _Arguments(args, kwargs)
    except _NotSimple:
        return None
    numbers = made.slots.previous_numbers(tree_flatten((args, kwargs))[0])
    if numbers is None:
        return None
    call = NativeCall(made, numbers)
    guards = [*_mode_guards(recording, disabled), *arguments.guards, *call.snapshot.guards]
    if call.refreshes:
        guards.append(Is(Place(object=call.state).item("ready"), True))
    inputs = _input_guards(made, arguments, call.number_tensors)
    if inputs is None:
        return None
    if call.filters is not None:
        filters: Any = warnings.filters
        guards += [Names(vars(warnings), ("filters",), (filters,)), Items(filters, call.filters)]
    if call.is_in_place:
        places = {v: n for n, v in enumerate(program.program.inputs)}
        written = tuple([places[v] for v in program.in_place.inputs.values()])
        idle = Length(Place(object=modes.process).slot(modes.Process, "busy"), 0, set)  # no observer of writes
        guards += [idle]
        inputs.append(Writable(call.inputs, written))
    given: list[Output] = [Same(call), *[Guarded(i) for i in range(call.inputs)]]
    call.row = program.row(len(args), [*guards, *inputs], tuple(kwargs), given)
    CompiledFunctionBackward.hand_out = hand_out(CompiledFunctionBackward)
    return call


# ----- guards ---------------------------------------------------------------------------------------------------------


#: Arguments that are compared by value, not by identity.
_BY_CONTENT = (complex, slice, np.generic, np.ndarray, int, float, str, bytes)


class _NotSimple(Exception):
    """Arguments that native code does not look into."""


class _Arguments:
    """Places of the leaves of the arguments, in the order of a flattened tree, and the guards of all leaves except
    tensors.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.guards: list[Guard] = []
        #: Tensors and their places.
        self.tensors: list[tuple[Any, Place]] = []
        for number, value in enumerate((*args, *kwargs.values())):
            self._enter(Place(argument=number), value)

    def _enter(self, place: Place, value: Any) -> None:
        cls = type(value)
        if isinstance(value, Variable):
            self.tensors.append((value, place))
        elif cls in (list, tuple, dict):
            if len(place.path) == 3:
                raise _NotSimple
            self.guards.append(Length(place, len(value), cls))
            if cls is dict:
                self.guards.append(Keys(place, tuple(value)))
            for key, item in value.items() if cls is dict else enumerate(value):
                self._enter(place.item(key) if cls is dict else place.element(cls, key), item)
        elif cls in (int, float, str, bytes):
            self.guards.append(Equal(place, value))
        elif value is None or value is True or value is False or value is Ellipsis:
            self.guards.append(Is(place, value))
        elif isinstance(value, _BY_CONTENT) or tree_flatten(value)[1] is not LEAF:
            raise _NotSimple
        else:
            self.guards.append(Is(place, value))  # the environment compares its contents


def _mode_guards(recording: bool, disabled: ContextVar[bool]) -> list[Guard]:
    """Return guards for the modes that a call checks, and for the defaults that a trace depends on."""
    scope = Place(context=modes._variable)
    state, process = scope.slot(modes.Scope, "modes"), Place(object=modes.process)
    return [
        Is(scope.slot(modes.Scope, "closed"), False),
        Is(state.slot(modes.Modes, "entered"), 0),
        Is(state.slot(modes.Modes, "grad_enabled"), recording),
        Is(process.slot(modes.Process, "shared"), 0),
        Is(process.slot(modes.Process, "named"), False),
        Is(Place(context=disabled), False),
        Is(Place(context=float_errors.settings), float_errors.default_settings),
        Is(Place(object=vars(dtypes)).item("_default_dtype"), dtypes.get_default_dtype()),
        Is(Place(context=devices._defaults), devices._defaults.get()),
    ]


def _input_guards(made: Specialisation, arguments: _Arguments, numbers: Sequence[Any]) -> list[Guard] | None:
    """Return the guards of tensors. Those of inputs pass them to the program, in its order. `numbers` are the tensors
    of the numbers among the inputs.
    """
    environment, given = made.environment, arguments.tensors
    if len({id(t) for t, _ in given}) != len(given):
        return None  # one tensor in several places
    guards: list[Guard] = []
    from_outside = {id(which[0]) for kind, which in made.sources if kind == "environment"}
    for t, known, _, _ in environment.tensors.values():
        if known is not None and id(t) not in from_outside:
            guards.append(tensor_guard(Place(object=t), known, False))
    reached = tuple(entry[0] for entry in environment.tensors.values())
    distinct = 0
    tensors: list[tuple[Any, Place]] = []
    for (kind, which), of_gradient in zip(made.sources, made.gradient_facts, strict=True):
        if kind == "environment":
            t, place, known = which[0], Place(object=which[0]), which[1]
        elif kind == "number":
            t, place, known = numbers[which], Place(object=numbers[which]), get_facts(numbers[which])
        elif kind == "grad":
            t, known = None, of_gradient
            found = _gradient(*tensors[which])
            if found is None:
                return None
            place = found
        else:
            (t, place), known = given[which], made.argument_facts[which]  # the call may have changed its facts
            distinct += 1
            guards.append(Outside(place, reached) if environment.find_entry(t) is None else Is(place, t))
        tensors.append((t, place))
        if known is None or not _is_contiguous(known):
            return None  # the program needs a copy
        guards.append(tensor_guard(place, known, True))
    if [kind for kind, _ in made.sources[:distinct]] != ["argument"] * distinct or distinct != len(given):
        return None
    for number, has_one in made.gradients_asked:
        found = _gradient(*tensors[number])
        if found is None:
            return None
        guards.append(Is(found, None, wanted=not has_one))
    for number, is_leaf in made.leaves_asked:
        t, place = tensors[number]
        if t is None or place.path:
            return None
        guards.append(Is(place.slot(type(t), "_node"), None, wanted=is_leaf))
    return [*guards, Distinct(distinct)]


def _gradient(t: Any, place: Place) -> Place | None:
    """Return the place of a tensor's gradient if it has ever had one and native code can reach it; else None."""
    if t is None or place.path or t._meta is None or "grad" not in t._meta.__dict__:
        return None
    return place.slot(type(t), "_meta").attributes(Meta).item("grad")


def _is_contiguous(known: tuple[Any, ...]) -> bool:
    """True if a tensor of this kind is in C order."""
    _, shape, dtype, strides, *_ = known
    return bool(np.lib.stride_tricks.as_strided(np.empty((), dtype), shape, strides).flags.c_contiguous)
