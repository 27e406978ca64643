"""Compute results directly in the memory of the input that they are written to.

A program computes into fresh memory, and the writes of a function to its inputs are copied there at the end. Nothing
has changed then if a check of values fails, or an op raises. For the update of parameters that copy is half of the
work. A result may lie in the memory of its input from the beginning, if

* one elementwise kernel computes it, and reads the input, if at all, at the same elements, each before it is written;
* no later step reads the input, and the input itself is no result;
* everything that can fail has been done by then. The results of checks are memory like others, so a call stops before
  the first such kernel if one has failed (`Gate`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ndgrad._src.compiler.lower.steps import Call, Groups, Kernel
from ndgrad._src.compiler.program.program import Program, Value


@dataclass
class Writes:
    """The writes of a function: output number -> input number, and number of a condition among the outputs -> its
    required truth.
    """

    targets: dict[int, int] = field(default_factory=dict)
    conditions: dict[int, bool] = field(default_factory=dict)


class Gate(NamedTuple):
    """A result that must be zero, or nonzero, for a call to continue."""

    value: Value
    is_zero: bool

    def holds(self, array: Any) -> bool:
        """True if the memory of the result satisfies the condition."""
        return (array.item() == 0) is self.is_zero


@dataclass
class InPlace:
    """The inputs whose memory holds results, by result, and the gates with the step that they precede."""

    inputs: dict[Value, Value] = field(default_factory=dict)
    first: int = -1
    gates: list[Gate] = field(default_factory=list)


def written_in_place(
    program: Program,
    groups: Groups,
    writes: Writes,
    checks: int,
    calls_come_first: bool = False,
    known_first: AbstractSet[Value] = frozenset(),
) -> InPlace:
    """Return the results of a program that can be computed in place. Its last outputs are the results of so many
    checks.

    Calls of ops may fail. There must be none, unless with `calls_come_first` they precede all writes, as do values that
    must be `known_first`.
    """
    gates, steps = _gates(program, groups, writes, checks), groups.steps
    calls = [n for n, step in enumerate(steps) if isinstance(step, Call)]
    if gates is None or (calls and not calls_come_first):
        return InPlace()
    touched = [step.touched() for step in steps]
    looked_at = {g.value for g in gates} | known_first
    known = max((n for n, values in enumerate(touched) if values & looked_at), default=-1)
    known = max([known, *calls])
    outputs = Counter(groups.places[v].root for v in program.outputs)
    found, first = InPlace(gates=gates), len(steps)
    for number, position in writes.targets.items():
        place, target = groups.places[program.outputs[number]], program.inputs[position]
        value = place.root
        if outputs[value] != 1 or outputs[target] or not place.is_whole or not _are_alike(value, target):
            continue
        step = _step_of(value, steps)
        if step > known and not any(target in values for values in touched[step + 1 :]):
            if _reads_first(steps[step], value, target):
                found.inputs[value] = target
                first = min(first, step)
    found.first = first if found.inputs else -1
    return found


def _gates(program: Program, groups: Groups, writes: Writes, checks: int) -> list[Gate] | None:
    """Return the gates to check before anything is written; None if that is impossible."""
    count = len(program.outputs)
    must_be_zero = {n: not holds for n, holds in writes.conditions.items()}
    must_be_zero |= dict.fromkeys(range(count - checks, count), True)
    gates = [Gate(groups.places[program.outputs[n]].root, is_zero) for n, is_zero in must_be_zero.items()]
    given = {*program.inputs, *program.constants}
    are_numbers = all(g.value.size == 1 and g.value.dtype.kind in "biuf" and g.value not in given for g in gates)
    return gates if are_numbers else None


def _are_alike(value: Value, target: Value) -> bool:
    return value is not target and value.dtype == target.dtype and value.size == target.size


def _step_of(value: Value, steps: Sequence[Any]) -> int:
    """Return the number of the kernel that stores a value; -1 if there is none."""
    writers = [n for n, step in enumerate(steps) if isinstance(step, Kernel) and value in step.computed]
    if len(writers) != 1:
        return -1
    kernel = steps[writers[0]]
    others = {place.root for step in steps if isinstance(step, Kernel) for _, place in step.puts}
    plain = value in kernel.stores and value not in kernel.targets and value not in kernel.row_values
    return writers[0] if plain and value not in others and kernel.stages == 1 else -1


def _reads_first(kernel: Any, value: Value, target: Value) -> bool:
    """True if a kernel reads a target element by element, each before a value is written there. A read value stays in a
    register.
    """
    numbers = []
    for number, item in enumerate(kernel.items):
        for place in item.reads:
            if place is not None and place.root is target:
                if not place.is_whole or place.shape != kernel.shape:
                    return False
                numbers.append(number)
    return not numbers or numbers[0] <= kernel.items.index(kernel.computed[value])

