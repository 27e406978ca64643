"""A program: the ops of a traced function as a list in which each value is defined once.

    program(x: float64[3], w: float64[3])
      a: float64[3] = mul(x, w)
      b: float64[] = sum(a, dim=(0,), keepdim=False)
      return b

The tracer writes a program, and every pass takes one and returns one. It runs on NumPy as it is
(`ndgrad._src.compiler.program.replay`), or as native code. A program has no writes and no views. A view op of the table
returns a value like any other op, and memory planning decides whether that value is a copy. Forward and backward of a
function are in one program.

The ops are those of the table (`ndgrad._src.ops.table`), with the same meaning, and the compiler's own ops, which
combine several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(eq=False, slots=True)
class Value:
    """An array that a program computes or takes. Two values are equal only if they are the same object."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        n = 1
        for k in self.shape:
            n *= k
        return n

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)


#: An argument of an instruction: a value, or a literal (a number, None, an index).
Argument = Any


@dataclass(eq=False, slots=True)
class Instruction:
    """One op with its arguments, settings and results, and the source line of the user."""

    op: Any
    arguments: tuple[Argument, ...]
    settings: dict[str, Any]
    results: tuple[Value, ...]
    where: str | None = None

    @property
    def result(self) -> Value:
        """The result of an op with one result."""
        (only,) = self.results
        return only

    def values(self) -> Iterator[Value]:
        """Return the values among the arguments."""
        return (a for a in self.arguments if a.__class__ is Value)


@dataclass(eq=False, slots=True)
class Program:
    """Inputs, constants, instructions in an order in which they can run, and outputs."""

    inputs: list[Value]
    outputs: list[Value]
    instructions: list[Instruction] = field(default_factory=list)
    #: Arrays stored in the program, made while it was traced.
    constants: dict[Value, Any] = field(default_factory=dict)
    name: str = "program"

    def definitions(self) -> dict[Value, Instruction]:
        """Return the instruction that defines each value. Inputs and constants have none."""
        return {value: instruction for instruction in self.instructions for value in instruction.results}

    def users(self) -> dict[Value, list[Instruction]]:
        """Return the instructions that read each value, once for each read."""
        found: dict[Value, list[Instruction]] = {}
        for instruction in self.instructions:
            for value in instruction.values():
                found.setdefault(value, []).append(instruction)
        return found

    def last_uses(self) -> dict[Value, int]:
        """Return the position of the last instruction that reads each value. An output is needed until the end."""
        found = {
            value: i
            for i, instruction in enumerate(self.instructions)
            for value in (*instruction.results, *instruction.values())
        }
        found.update(dict.fromkeys(self.outputs, len(self.instructions)))
        return found

    def check(self) -> None:
        """Raise if a value is used before it is defined, or defined twice."""
        known = {*self.inputs, *self.constants}
        if len(known) != len(self.inputs) + len(self.constants):
            raise ValueError(f"{self.name}: an input is given twice, or is a constant too. [nd-compiler]")
        for instruction in self.instructions:
            for value in instruction.values():
                if value not in known:
                    raise ValueError(
                        f"{self.name}: {instruction.op.name} reads a value that nothing before it defines. "
                        "[nd-compiler]"
                    )
            for setting in instruction.settings.values():
                if isinstance(setting, Program):
                    setting.check()
            for value in instruction.results:
                if value in known:
                    raise ValueError(
                        f"{self.name}: {instruction.op.name} defines a value that is there already. [nd-compiler]"
                    )
                known.add(value)
        missing = [value for value in self.outputs if value not in known]
        if missing:
            raise ValueError(f"{self.name}: {len(missing)} of its outputs are not defined. [nd-compiler]")

    def __str__(self) -> str:
        from ndgrad._src.compiler.program.printing import print_program  # needed for printing only

        return print_program(self)


def rewritten(
    program: Program, rewrite: Callable[[Instruction], Sequence[Instruction] | None], replaced: dict[Value, Value]
) -> Program:
    """Return the program with each instruction replaced by the result of `rewrite` (None: kept), and values by those in
    `replaced`. `rewrite` may add to `replaced`.
    """

    def current(value: Argument) -> Argument:
        while value.__class__ is Value and value in replaced:
            value = replaced[value]
        return value

    instructions: list[Instruction] = []
    for instruction in program.instructions:
        instruction = with_arguments(instruction, [current(a) for a in instruction.arguments])
        new = rewrite(instruction)
        if new is None:
            instructions.append(instruction)
        else:
            instructions.extend(with_arguments(n, [current(a) for a in n.arguments]) for n in new)
    return Program(
        program.inputs, [current(v) for v in program.outputs], instructions, dict(program.constants), program.name
    )


def with_values(instruction: Instruction, replaced: dict[Value, Value]) -> Instruction:
    """Return the instruction with replaced values; the same object if it uses none of them."""
    for a in instruction.arguments:
        if a.__class__ is Value and a in replaced:
            new = tuple([replaced.get(a, a) if a.__class__ is Value else a for a in instruction.arguments])
            return Instruction(instruction.op, new, instruction.settings, instruction.results, instruction.where)
    return instruction


def with_arguments(instruction: Instruction, arguments: Iterable[Argument]) -> Instruction:
    """Return the instruction with other arguments; the same object if they are equal."""
    new = tuple(arguments)
    if all(a is b for a, b in zip(new, instruction.arguments, strict=True)):
        return instruction
    return Instruction(instruction.op, new, instruction.settings, instruction.results, instruction.where)


# ----- settings as keys -----------------------------------------------------------------------------------------------


class Unhashable(Exception):
    """A setting that cannot be compared. Passes keep its instruction."""


def frozen(setting: Any) -> Hashable:
    """Return a hashable form of a setting or a literal argument. Forms are equal only if the meaning is: 1, 1.0 and
    True have three forms.
    """
    kind = setting.__class__
    if kind is int or kind is str:
        return kind, setting
    if kind is tuple:
        return kind, *[frozen(item) for item in setting]
    if setting is None or isinstance(setting, (str, bool)) or setting is Ellipsis:
        return setting.__class__, setting
    if isinstance(setting, int):
        return int, setting
    if isinstance(setting, (float, complex)):
        return setting.__class__, repr(setting)  # 0.0 and -0.0 differ, and nan equals itself
    if isinstance(setting, (tuple, list)):
        return setting.__class__, *map(frozen, setting)
    if isinstance(setting, slice):
        return slice, frozen(setting.start), frozen(setting.stop), frozen(setting.step)
    if isinstance(setting, np.dtype):
        return setting
    if isinstance(setting, np.generic):
        return setting.dtype, setting.tobytes()
    try:
        hash(setting)
    except TypeError:
        raise Unhashable from None
    return setting


def settings_key(settings: dict[str, Any]) -> Hashable | None:
    """Return settings as a key; None if one of them cannot be hashed."""
    try:
        return tuple([(k, s.__class__, frozen(s) if s.__class__ is tuple else s) for k, s in settings.items()])
    except Unhashable:
        return None
