"""Rewriting a program by rules, in one walk.

A rule looks at one instruction, whose arguments are rewritten already, and says what stands for its results instead:

    @rule("neg")
    def _twice(walk, instruction):
        inner = walk.made_by(instruction.arguments[0], "neg")
        return None if inner is None else inner.arguments[0]

None means that the rule has nothing to say. What a rule emits on its way is rewritten too, so one walk from the
inputs to the outputs goes through a whole chain. That a value is replaced only by one of the same shape and dtype is
checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.write_histories import Histories
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value, with_values

#: Instead of a name: every elementwise op.
ELEMENTWISE = "elementwise"

#: Rules that emit what other rules look at, one inside the other, at most. The next walk goes on from there.
DEEPEST = 50

#: What a rule gives: None, the value of an op with one result, or the values of one with several.
Rewritten = Value | tuple[Value, ...] | None
Rule = Callable[["Walk", Instruction], Rewritten]

_NONE: list[Rule] = []

_ARITHMETIC = frozenset(["add", "sub", "mul", "div"])
_TELLING = frozenset(["neg", "expand"])


class Rules:
    """Rules of one pass, by the names of the ops that they look at. The pass itself: a call walks through a program."""

    def __init__(self, *others: Rules) -> None:
        self.by_name: dict[str, list[Rule]] = {}
        for other in others:
            for name, rules in other.by_name.items():
                self.by_name.setdefault(name, []).extend(rules)

    def rule(self, *names: str) -> Callable[[Rule], Rule]:
        """Add the decorated rule for ops of these names."""

        def add(function: Rule) -> Rule:
            for name in names:
                self.by_name.setdefault(name, []).append(function)
            return function

        return add

    def __call__(self, program: Program) -> Program:
        return Walk(program, self).run()


class Walk:
    """A walk through a program: the program that has become of it so far."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self._program = program
        self._rules = rules.by_name
        self.instructions: list[Instruction] = []
        self.constants = dict(program.constants)
        self._defined: dict[Value, Instruction] = {}
        self._replaced: dict[Value, Value] = {}
        self.where: str | None = None
        #: how parts of arrays came about
        self.histories = Histories(self)
        self._depth = 0

    def run(self, replaced: dict[Value, Value] | None = None) -> Program:
        """The program that has become of it; `replaced` are values for which others stand from the start."""
        if replaced is not None:
            self._replaced.update(replaced)
        replaced = self._replaced
        for instruction in self._program.instructions:
            self.where = instruction.where
            if replaced:
                instruction = with_values(instruction, replaced)
            results = self._add(instruction)
            if results is instruction.results:  # as nearly always
                continue
            for old, new in zip(instruction.results, results, strict=True):
                if old is not new:
                    if old.shape != new.shape or old.dtype != new.dtype:
                        raise AssertionError(
                            f"a rule for {instruction.op.name} gives {new.dtype}{new.shape} in the place "
                            f"of {old.dtype}{old.shape} [nd-bug]"
                        )
                    replaced[old] = new
        program = self._program
        outputs = [replaced.get(v, v) for v in program.outputs]
        return Program(program.inputs, outputs, self.instructions, self.constants, program.name)

    def _add(self, instruction: Instruction) -> tuple[Value, ...]:
        op = instruction.op
        if op.name in _ARITHMETIC and self._is_ordinary(instruction):
            return self.append(instruction)
        rules = self._rules.get(op.name, _NONE)
        for rule in rules if not op.elementwise else [*rules, *self._rules.get(ELEMENTWISE, _NONE)]:
            found = rule(self, instruction)
            if found is not None:
                return (found,) if found.__class__ is Value else found  # type: ignore[return-value]
        return self.append(instruction)

    def append(self, instruction: Instruction) -> tuple[Value, ...]:
        """Add an instruction that no rule shall look at."""
        self.instructions.append(instruction)
        for value in instruction.results:
            self._defined[value] = instruction
        return instruction.results

    def _is_ordinary(self, instruction: Instruction) -> bool:
        """Whether arguments are none of those that rules for arithmetic look for: 0 and 1, constants, negated and
        expanded values. Long programs are arithmetic for the most part."""
        for argument in instruction.arguments:
            if argument.__class__ is float:
                if argument == 0 or argument == 1:
                    return False
                continue
            if argument.__class__ is not Value or argument in self.constants:
                return False
            made = self._defined.get(argument)
            if made is not None and made.op.name in _TELLING:
                return False
        return True

    # ----- what rules ask ---------------------------------------------------------------------------------------------

    def definition(self, argument: Argument) -> Instruction | None:
        """The instruction that makes a value; None for inputs, constants and what is no value."""
        return self._defined.get(argument) if argument.__class__ is Value else None

    def made_by(self, argument: Argument, *names: str) -> Instruction | None:
        """The same, if its op has one of these names."""
        made = self.definition(argument)
        return made if made is not None and made.op.name in names else None

    def number(self, argument: Argument) -> int | float | complex | bool | None:
        """The number that an argument is everywhere: written as it is, a constant without dimensions, or
        one that was expanded."""
        if argument.__class__ is not Value:
            return argument if isinstance(argument, (int, float, complex)) else None
        made = self._defined.get(argument)
        if made is not None and made.op.name == "expand":
            argument = made.arguments[0]
        constant = self.constants.get(argument)
        if constant is None or constant.shape:
            return None
        found: int | float | complex | bool = constant.item()
        return found

    # ----- what rules make --------------------------------------------------------------------------------------------

    def emit(self, op: Any, *arguments: Argument, **settings: Any) -> Value:
        """The value of an op with one result, by its name or itself; rules look at it, too."""
        if isinstance(op, str):
            op = op_named(op)
        _, types = infer(op, arguments, settings)
        results = tuple([Value(shape, dtype) for shape, dtype in types])
        instruction = Instruction(op, arguments, settings, results, self.where)
        self._depth += 1
        try:
            (found,) = self._add(instruction) if self._depth <= DEEPEST else self.append(instruction)
        finally:
            self._depth -= 1
        return found

    def constant(self, number: Any, dtype: np.dtype[Any]) -> Value:
        """A constant of the program, without dimensions if it is a number."""
        array = np.asarray(number, dtype)
        value = Value(array.shape, array.dtype)
        self.constants[value] = array
        return value

    def full(self, number: Any, like: Value) -> Value:
        """One number in the shape and dtype of a value."""
        value = self.constant(number, like.dtype)
        return self.emit("expand", value, shape=like.shape) if like.shape else value

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        return value if value.shape == shape else self.emit("reshape", value, shape=shape)
