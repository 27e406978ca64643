"""Python arithmetic with numbers that are unknown during a trace, recorded for repetition in each call.

Note [Numbers of a call]
Two kinds of Python numbers are unknown in a trace. Some come from *slots*: attributes, items, closure variables,
globals and arguments whose number changes between calls. Others are *read* from tensors by `.item()`. A placeholder
(ndgrad._src.compiler.capture.number_placeholders) stands for such a number. Each operation on placeholders is an entry
of the tape of the trace: a Python function with its arguments.

A number that depends on slots alone is *early*. A call computes it by the same Python functions before the program
runs, so it equals eager code to the last bit, for integers of any size and for the functions of `math`. If an op on
tensors takes it, it is an input of the program: an array of float64 or int64 without dimensions. A comparison of early
numbers is a guard: its outcome is known in the trace, and a call with other outcomes belongs to another trace. No
program runs in vain.

A number that depends on tensors is *late*. If an op on tensors or a condition takes it, its arithmetic becomes ops of
the program. If it is returned or stored, the program returns the numbers that were read. Python computes the rest after
the program has run and before anything is written. So `total += loss.item()` is Python's own sum.

Code that needs the number itself (a size, an index, a text, a key, a C function) cannot take a placeholder. The slots
behind an early number are then *needed by value*: the function is traced again with the numbers in these slots, and
guards compare them. A late number ends the trace.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.variable import wrap
from ndgrad._src.tensor.tensor_class import Tensor

#: Integers up to this size are exact as floats, and the sum of two of them fits in int64.
EXACT = 2**53

#: Dtypes of numbers that are inputs of a program.
DTYPES: dict[type, np.dtype[Any]] = {float: np.dtype(np.float64), int: np.dtype(np.int64)}


class At(NamedTuple):
    """An argument of an operation that is a number of the tape."""

    place: int


class Operation(NamedTuple):
    """One entry of the tape: a number of a slot (`function` is None), a number that is read (READ), or the result of a
    function.
    """

    function: Any
    arguments: tuple[Any, ...]
    #: Class of the result if a call has to check it, else None.
    kind: type | None = None


READ: Any = object()

Early = Callable[[Sequence[Any]], list[Any] | None]


class NumberTape:
    """The numbers of one trace (see Note [Numbers of a call])."""

    def __init__(
        self,
        outcomes: dict[int, bool] | None = None,
        given: dict[int, Any] | None = None,
        expressions: dict[Any, int] | None = None,
    ) -> None:
        """Create a tape. A trace that repeats another one passes the data of that trace by expression: the `outcomes`
        of its conditions on early numbers, the tensors of its inputs (`given`), and its `expressions`.
        """
        #: Number of each expression, by its function and the expressions of its arguments.
        self.expressions: dict[Any, int] = {} if expressions is None else expressions
        self._expression_at: list[int] = []
        self.operations: list[Operation] = []
        #: Number at each place in the traced call; None for late numbers.
        self.known: list[Any] = []
        #: Conditions on early numbers, with their outcomes.
        self.conditions: list[tuple[int, bool]] = []
        self._outcomes = outcomes
        self._given = given
        #: Numbers that the program takes, by expression: their places and tensors, in the order of the program's
        #: inputs.
        self.inputs: dict[int, tuple[int, Any]] = {}
        self._numbers: dict[int, int] = {}
        #: Slots whose number is needed by value.
        self.needed: set[int] = set()
        #: True if an operation has failed with the current numbers.
        self.has_failed = False
        #: True if Python's part after the program may raise.
        self.may_fail_late = False

    # ----- recording --------------------------------------------------------------------------------------------------

    def add_slot(self, number: int, known: Any) -> int:
        """Add the number in a slot and return its place."""
        return self._add(Operation(None, (number,)), known)

    def add_read(self, value: Any) -> int:
        """Add a number that a value of the program holds and return its place."""
        return self._add(Operation(READ, (value,)), None)

    def operate(self, function: Any, arguments: tuple[Any, ...], kind: type | None, known: Any) -> int:
        """Add the result of a function and return its place. With a `kind`, calls check the class of the result."""
        return self._add(Operation(function, arguments, kind), known)

    def _add(self, operation: Operation, known: Any) -> int:
        self.operations.append(operation)
        self.known.append(known)
        if operation.function is READ:
            key: Any = READ, id(operation.arguments[0])
        else:
            # The keys keep apart 1, 1.0 and True, and also 0.0 and -0.0, which are equal.
            arguments = [
                self._expression_at[a.place] if a.__class__ is At else (a.__class__, repr(a)) for a in operation.arguments
            ]
            key = operation.function, *arguments
        self._expression_at.append(self.expressions.setdefault(key, len(self.expressions)))
        return len(self.operations) - 1

    def decide(self, place: int, outcome: bool) -> bool:
        """Follow a condition on early numbers and return its outcome."""
        if self._outcomes is not None:
            found = self._outcomes.get(self._expression_at[place])
            if found is None:
                raise GraphBreak("its gradients depend on other conditions on numbers than the call")
            outcome = found
        self.conditions.append((place, outcome))
        return outcome

    def refuse(self, place: int, reason: str) -> NoReturn:
        """End the trace. If the number comes from slots, the next trace uses it by value."""
        broken = GraphBreak(reason)
        if self.known[place] is not None:
            self.needed |= self.slots_of(place)
            broken.is_cured = True
        raise broken

    def outcomes(self) -> dict[int, bool]:
        """Return the outcomes of conditions on early numbers, by expression."""
        return {self._expression_at[place]: outcome for place, outcome in self.conditions}

    def has_tensor(self, place: int) -> bool:
        """True if an early number can be an input. In a repeated trace it must have been one in the first trace."""
        return self._given is None or self._expression_at[place] in self._given

    def tensor(self, place: int) -> Any:
        """Return the tensor of an early number, which is an input of the program."""
        expression = self._expression_at[place]
        found = self.inputs.get(expression)
        if found is None:
            known = self.known[place]
            if known.__class__ is int and abs(known) > EXACT:
                self.refuse(place, f"{known} takes part in a program, which has integers up to 2**53")
            if not self.has_tensor(place):
                raise GraphBreak("the function uses other numbers than in the call whose derivative is taken")
            t = tensor_of(known) if self._given is None else self._given[expression]
            self._numbers[id(t)] = len(self.inputs)
            self.inputs[expression] = found = place, t
        return found[1]

    def slot_places(self) -> list[int]:
        """Return the places of the numbers in slots that a program can take."""
        return [
            place
            for place, operation in enumerate(self.operations)
            if operation.function is None and not (self.known[place].__class__ is int and abs(self.known[place]) > EXACT)
        ]

    def number_of(self, t: Any) -> int | None:
        """Return the number of the input that a tensor stands for; None if it stands for none."""
        return self._numbers.get(id(t))

    def slots_of(self, place: int) -> set[int]:
        """Return the slots that a number depends on."""
        found: set[int] = set()
        for operation in (self.operations[p] for p in self._find_dependencies([place])):
            if operation.function is None:
                found.add(operation.arguments[0])
        return found

    def _find_dependencies(self, places: Iterable[int], stops: Callable[[int], bool] = lambda place: False) -> list[int]:
        """Return places and the places that they depend on, in order; nothing behind a place that stops."""
        found: set[int] = set()
        pending = list(places)
        while pending:
            place = pending.pop()
            if place in found:
                continue
            found.add(place)
            if not stops(place):
                pending += [a.place for a in self.operations[place].arguments if a.__class__ is At]
        return sorted(found)

    # ----- replaying --------------------------------------------------------------------------------------------------

    def make_early_function(self) -> Early:
        """Return a function from the numbers in slots to the numbers that the program takes, or None if a condition has
        another outcome.
        """
        writer = _Writer("slots")
        outcomes: dict[int, list[bool]] = {}
        for place, outcome in self.conditions:
            outcomes.setdefault(place, []).append(outcome)
        inputs = [place for place, _ in self.inputs.values()]
        for place in self._find_dependencies([*outcomes, *inputs]):
            operation = self.operations[place]
            if operation.function is None:
                writer.lines.append(f"n{place} = slots[{operation.arguments[0]}]")
            else:
                writer.operate(place, operation, "return None")
            for outcome in outcomes.get(place, ()):
                writer.lines.append(f"if n{place} is not {outcome}: return None")
            if place in inputs:
                writer.lines.append(f"if n{place}.__class__ is int and not {-EXACT} <= n{place} <= {EXACT}: return None")
        made: Early = writer.compile(f"[{', '.join(f'n{place}' for place in inputs)}]")
        return made

    def make_late_function(self, wanted: Sequence[int]) -> LateNumbers:
        """Return Python's part after the program: the numbers at some places, from early numbers and numbers that were
        read.
        """
        order = self._find_dependencies(wanted, lambda place: self.known[place] is not None)
        given = [p for p in order if self.known[p] is not None]
        reads = [p for p in order if self.operations[p].function is READ]
        writer = _Writer("early, read")
        writer.lines += [f"n{place} = early[{i}]" for i, place in enumerate(given)]
        writer.lines += [f"n{place} = read[{i}]" for i, place in enumerate(reads)]
        for place in order:
            if place not in given and place not in reads:
                writer.operate(place, self.operations[place], "raise TypeError")
        compute = writer.compile(f"[{', '.join(f'n{place}' for place in wanted)}]")
        return LateNumbers(given, [self.operations[p].arguments[0] for p in reads], compute)


class LateNumbers(NamedTuple):
    """Python's part after a program: the places of early numbers and the values that it takes, and the function of
    their numbers.
    """

    early: list[int]
    reads: list[Any]
    compute: Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class _Writer:
    """The lines of a function that repeats operations."""

    def __init__(self, parameters: str) -> None:
        self.parameters = parameters
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def _bind(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def operate(self, place: int, operation: Operation, otherwise: str) -> None:
        """Write a line for an operation, and a check of the class of its result."""
        arguments = [f"n{a.place}" if a.__class__ is At else self._bind(a) for a in operation.arguments]
        self.lines.append(f"n{place} = {self._bind(operation.function)}({', '.join(arguments)})")
        if operation.kind is not None:
            self.lines.append(f"if n{place}.__class__ is not {self._bind(operation.kind)}: {otherwise}")

    def compile(self, result: str) -> Any:
        """Compile the lines to a function."""
        text = "\n    ".join([f"def run({self.parameters}):", *self.lines, f"return {result}"])
        space: dict[str, Any] = dict(self.names)
        exec(builtins.compile(text, "<ndgrad generated numbers>", "exec"), space)  # only names, numbers, indices
        return space["run"]


def tensor_of(number: Any) -> Any:
    """Return a tensor without dimensions that holds a Python number. It is made outside of the active trace."""
    here = scope()
    try:
        restore(here.with_changes(observers=()))
        return wrap(Tensor, np.array(number, DTYPES[number.__class__]))
    finally:
        restore(here)
        del here


def slot_expression(expressions: dict[Any, int], slot: int) -> int | None:
    """Return the expression of the number in a slot, among those of a tape."""
    return expressions.get((None, (int, repr(slot))))
