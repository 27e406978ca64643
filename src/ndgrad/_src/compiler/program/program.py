"""A program: the ops of a traced function as a list, each value defined once.

    program(x: float64[3], w: float64[3])
      a: float64[3] = mul(x, w)
      b: float64[] = sum(a, dim=(0,), keepdim=False)
      return b

It is what the tracer writes, what every pass takes and gives, and what runs: on NumPy as it stands
(`ndgrad._src.compiler.program.replay`), or as native code. There are no writes in it and no views: an op of the table that would
show its argument's memory gives a value like any other, and whether that is a copy is decided when memory is planned.
Forward and backward of a function stand in one program.

The ops are those of the table (`ndgrad._src.ops.table`), so a program has their meaning, and the compiler's own, which
stand for several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(eq=False, slots=True)
class Value:
    """An array that a program computes or is given. Two values are the same only if they are one object."""

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


#: An argument of an instruction: a value, or what is written down as it is (a number, None, an index).
Argument = Any


@dataclass(eq=False, slots=True)
class Instruction:
    """One op: its arguments, its settings, what it defines, and the line of the user's that asked for it."""

    op: Any
    arguments: tuple[Argument, ...]
    settings: dict[str, Any]
    results: tuple[Value, ...]
    where: str | None = None

    @property
    def result(self) -> Value:
        """The value of an op that has one."""
        (only,) = self.results
        return only

    def values(self) -> Iterator[Value]:
        """The values among the arguments."""
        return (a for a in self.arguments if a.__class__ is Value)


@dataclass(eq=False, slots=True)
class Program:
    """Inputs, constants, instructions in an order in which they can run, and outputs."""

    inputs: list[Value]
    outputs: list[Value]
    instructions: list[Instruction] = field(default_factory=list)
    #: Arrays that stand in the program itself, made while it was traced.
    constants: dict[Value, Any] = field(default_factory=dict)
    name: str = "program"

    def definitions(self) -> dict[Value, Instruction]:
        """The instruction that defines each value; inputs and constants have none."""
        return {value: instruction for instruction in self.instructions for value in instruction.results}

    def users(self) -> dict[Value, list[Instruction]]:
        """The instructions that read each value, once for each time that they do."""
        found: dict[Value, list[Instruction]] = {}
        for instruction in self.instructions:
            for value in instruction.values():
                found.setdefault(value, []).append(instruction)
        return found

    def last_uses(self) -> dict[Value, int]:
        """The position of the last instruction that reads each value; an output is needed to the end."""
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
        from ndgrad._src.compiler.program.text import print_program  # which is only for people

        return print_program(self)


def rewritten(
    program: Program, rewrite: Callable[[Instruction], Sequence[Instruction] | None], replaced: dict[Value, Value]
) -> Program:
    """The program with each instruction replaced by what `rewrite` gives for it (None: kept), and values by those in
    `replaced`, to which `rewrite` may add while it goes."""

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
    """The same instruction on the values that stand for some; itself if they are none of its own."""
    for a in instruction.arguments:
        if a.__class__ is Value and a in replaced:
            new = tuple([replaced.get(a, a) if a.__class__ is Value else a for a in instruction.arguments])
            return Instruction(instruction.op, new, instruction.settings, instruction.results, instruction.where)
    return instruction


def with_arguments(instruction: Instruction, arguments: Iterable[Argument]) -> Instruction:
    """The same instruction on other arguments; itself if they are the same."""
    new = tuple(arguments)
    if all(a is b for a, b in zip(new, instruction.arguments, strict=True)):
        return instruction
    return Instruction(instruction.op, new, instruction.settings, instruction.results, instruction.where)


# ----- settings as keys -----------------------------------------------------------------------------------------------


class Unhashable(Exception):
    """A setting that cannot be compared: its instruction stays."""


def frozen(setting: Any) -> Hashable:
    """A setting, or an argument that is no value, as something that is equal only to what means the same: 1,
    1.0 and True are three."""
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
        return setting.__class__, repr(setting)  # 0.0 and -0.0 are two, and nan is one
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
    """Settings as a key; None for those that cannot be one."""
    try:
        return tuple([(k, s.__class__, frozen(s) if s.__class__ is tuple else s) for k, s in settings.items()])
    except Unhashable:
        return None
