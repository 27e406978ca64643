"""Python's arithmetic with numbers that are not known when a function is traced, written down to be repeated in each call.

Note [Numbers of a call]
Two kinds of Python numbers are unknown in a trace. Some come from *slots*: attributes, items, closure variables, globals
and arguments whose number changes between calls. Others are *read* of tensors by `.item()`. A placeholder
(ndgrad._src.compiler.capture.number_placeholders) stands for such a number, and each operation on placeholders is an entry of the tape of the
trace: a Python function with its arguments.

A number that depends on slots alone is *early*. A call computes it by the same Python functions before the program runs,
so it equals eager code to the last bit, for integers of any size and for the functions of `math`. If an op on tensors takes
it, it is an input of the program: an array of float64 or int64 without dimensions. A comparison of early numbers is a
guard: its outcome is known in the trace, and a call whose outcomes differ belongs to another trace. No program runs in vain.

A number that depends on tensors is *late*. If an op on tensors takes it, or a condition, its arithmetic becomes ops of the
program. If it is returned or stored, the program gives the numbers that were read, and Python computes the rest after the
program has run, and before anything is written. So `total += loss.item()` is Python's own sum.

Code that needs the number itself (a size, an index, a text, a key, a function of C) cannot take a placeholder. The slots
behind an early number are then *needed by value*: the function is traced anew with the numbers in these slots, and guards
compare them. A late number ends the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.variable import wrap
from ndgrad._src.tensor.tensor_class import Tensor

#: Integers up to here are the same as floats, and the sum of two of them is one of int64.
EXACT = 2**53

#: The dtypes of numbers that are inputs of a program.
DTYPES: dict[type, np.dtype[Any]] = {float: np.dtype(np.float64), int: np.dtype(np.int64)}


class At(NamedTuple):
    """An argument of an operation that is a number of the tape."""

    place: int


class Operation(NamedTuple):
    """One entry of the tape: a number of a slot (`function` is None), a number that is read (READ), or what a function
    gives."""

    function: Any
    arguments: tuple[Any, ...]
    #: the class of the result, where a call has to check it; else None
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
        """Where the trace repeats another one, `outcomes`: how conditions on early numbers come out, by expression, `given`: the tensors of
        numbers that are inputs, by expression, and `expressions`: those of the other tape."""
        #: a number for each expression, by its function and the expressions of its arguments
        self.expressions: dict[Any, int] = {} if expressions is None else expressions
        self._expression_at: list[int] = []
        self.operations: list[Operation] = []
        #: the number at each place in the call that is traced; None for late numbers
        self.known: list[Any] = []
        #: conditions on early numbers, and how they came out
        self.conditions: list[tuple[int, bool]] = []
        self._outcomes = outcomes
        self._given = given
        #: numbers that the program takes, by expression: their places and tensors, in the order of the program's inputs
        self.inputs: dict[int, tuple[int, Any]] = {}
        self._numbers: dict[int, int] = {}
        #: slots whose number is needed by value
        self.needed: set[int] = set()
        #: whether an operation has failed with the numbers at hand
        self.has_failed = False
        #: whether Python's part after the program may raise
        self.may_fail_late = False

    # ----- writing it -------------------------------------------------------------------------------------------------

    def slot(self, number: int, known: Any) -> int:
        """The place of the number in a slot."""
        return self._add(Operation(None, (number,)), known)

    def read(self, value: Any) -> int:
        """The place of a number that a value of the program holds."""
        return self._add(Operation(READ, (value,)), None)

    def operate(self, function: Any, arguments: tuple[Any, ...], kind: type | None, known: Any) -> int:
        """The place of what a function gives; with a `kind`, calls check the class of the result."""
        return self._add(Operation(function, arguments, kind), known)

    def _add(self, operation: Operation, known: Any) -> int:
        self.operations.append(operation)
        self.known.append(known)
        if operation.function is READ:
            key: Any = READ, id(operation.arguments[0])
        else:
            # 1, 1.0 and True are equal, and so are 0.0 and -0.0
            arguments = [
                self._expression_at[a.place] if a.__class__ is At else (a.__class__, repr(a)) for a in operation.arguments
            ]
            key = operation.function, *arguments
        self._expression_at.append(self.expressions.setdefault(key, len(self.expressions)))
        return len(self.operations) - 1

    def decide(self, place: int, outcome: bool) -> bool:
        """Follow a condition on early numbers; its outcome."""
        if self._outcomes is not None:
            found = self._outcomes.get(self._expression_at[place])
            if found is None:
                raise GraphBreak("its gradients depend on other conditions on numbers than the call")
            outcome = found
        self.conditions.append((place, outcome))
        return outcome

    def refuse(self, place: int, reason: str) -> NoReturn:
        """End the trace; in the next one the number is itself in its slots, if it comes from slots."""
        broken = GraphBreak(reason)
        if self.known[place] is not None:
            self.needed |= self.slots_of(place)
            broken.is_cured = True
        raise broken

    def outcomes(self) -> dict[int, bool]:
        """The outcomes of conditions on early numbers, by expression."""
        return {self._expression_at[place]: outcome for place, outcome in self.conditions}

    def has_tensor(self, place: int) -> bool:
        """True if an early number can be an input. Where another trace is repeated, that had to be one there."""
        return self._given is None or self._expression_at[place] in self._given

    def tensor(self, place: int) -> Any:
        """The tensor of an early number, which is an input of the program."""
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
        """The places of the numbers in slots, as far as a program takes them."""
        return [
            place
            for place, operation in enumerate(self.operations)
            if operation.function is None and not (self.known[place].__class__ is int and abs(self.known[place]) > EXACT)
        ]

    def number_of(self, t: Any) -> int | None:
        """Which of the numbers that are inputs a tensor holds; None if it holds none of them."""
        return self._numbers.get(id(t))

    def slots_of(self, place: int) -> set[int]:
        """The slots that a number depends on."""
        found: set[int] = set()
        for operation in (self.operations[p] for p in self._reached([place])):
            if operation.function is None:
                found.add(operation.arguments[0])
        return found

    def _reached(self, places: Iterable[int], stops: Callable[[int], bool] = lambda place: False) -> list[int]:
        """The places that others depend on, and these, in order; not those behind a place that stops."""
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

    # ----- repeating it -----------------------------------------------------------------------------------------------

    def early_function(self) -> Early:
        """A function of the numbers in slots: the numbers that the program takes, None if a condition comes out
        otherwise."""
        writer = _Writer("slots")
        outcomes: dict[int, list[bool]] = {}
        for place, outcome in self.conditions:
            outcomes.setdefault(place, []).append(outcome)
        inputs = [place for place, _ in self.inputs.values()]
        for place in self._reached([*outcomes, *inputs]):
            operation = self.operations[place]
            if operation.function is None:
                writer.lines.append(f"n{place} = slots[{operation.arguments[0]}]")
            else:
                writer.operate(place, operation, "return None")
            for outcome in outcomes.get(place, ()):
                writer.lines.append(f"if n{place} is not {outcome}: return None")
            if place in inputs:
                writer.lines.append(f"if n{place}.__class__ is int and not {-EXACT} <= n{place} <= {EXACT}: return None")
        made: Early = writer.function(f"[{', '.join(f'n{place}' for place in inputs)}]")
        return made

    def late_function(self, wanted: Sequence[int]) -> LateNumbers:
        """Python's part after the program: the numbers at some places, from early numbers and from those that were read."""
        order = self._reached(wanted, lambda place: self.known[place] is not None)
        given = [p for p in order if self.known[p] is not None]
        reads = [p for p in order if self.operations[p].function is READ]
        writer = _Writer("early, read")
        writer.lines += [f"n{place} = early[{i}]" for i, place in enumerate(given)]
        writer.lines += [f"n{place} = read[{i}]" for i, place in enumerate(reads)]
        for place in order:
            if place not in given and place not in reads:
                writer.operate(place, self.operations[place], "raise TypeError")
        compute = writer.function(f"[{', '.join(f'n{place}' for place in wanted)}]")
        return LateNumbers(given, [self.operations[p].arguments[0] for p in reads], compute)


class LateNumbers(NamedTuple):
    """Python's part after a program: the places of early numbers and the values that it takes, and the function of their
    numbers."""

    early: list[int]
    reads: list[Any]
    compute: Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class _Writer:
    """The lines of a function that repeats operations."""

    def __init__(self, parameters: str) -> None:
        self.parameters = parameters
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def _name(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def operate(self, place: int, operation: Operation, otherwise: str) -> None:
        """Write a line for an operation, and a check of the class of its result."""
        arguments = [f"n{a.place}" if a.__class__ is At else self._name(a) for a in operation.arguments]
        self.lines.append(f"n{place} = {self._name(operation.function)}({', '.join(arguments)})")
        if operation.kind is not None:
            self.lines.append(f"if n{place}.__class__ is not {self._name(operation.kind)}: {otherwise}")

    def function(self, result: str) -> Any:
        """The function of these lines."""
        text = "\n    ".join([f"def run({self.parameters}):", *self.lines, f"return {result}"])
        space: dict[str, Any] = dict(self.names)
        exec(compile(text, "<ndgrad generated numbers>", "exec"), space)  # the lines above: names, numbers and indices
        return space["run"]


def tensor_of(number: Any) -> Any:
    """A tensor without dimensions that holds a Python number. No trace takes it for one that the function makes."""
    here = scope()
    try:
        restore(here.with_changes(observers=()))
        return wrap(Tensor, np.array(number, DTYPES[number.__class__]))
    finally:
        restore(here)
        del here


def slot_expression(expressions: dict[Any, int], slot: int) -> int | None:
    """The expression of the number in a slot, among those of a tape."""
    return expressions.get((None, (int, repr(slot))))
