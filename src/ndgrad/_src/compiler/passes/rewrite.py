"""Rewrite a program by rules, in one walk.

A rule looks at one instruction, whose arguments are already rewritten, and returns replacements of its results:

    @rule("neg")
    def _twice(walk, instruction):
        inner = walk.made_by(instruction.arguments[0], "neg")
        return None if inner is None else inner.arguments[0]

None means that the rule does not apply. `@rule(where=lambda op: op.elementwise)` is a rule for all ops with a fact. It
is tried after the rules for names. Instructions that a rule emits are rewritten too, so one walk from the inputs
to the outputs handles a whole chain. The walk checks that a replacement has the same shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.write_histories import Histories
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value, with_values

#: Maximum depth of rules that apply to instructions emitted by rules. The next walk continues from there.
DEEPEST = 50

#: Result of a rule: None, the value of an op with one result, or the values of one with several.
Rewritten = Value | tuple[Value, ...] | None
Rule = Callable[["Walk", Instruction], Rewritten]


class Rules:
    """Rules of one pass, by the names of their ops or by a fact. Calling the object runs the pass on a program."""

    def __init__(self, *others: Rules) -> None:
        self.by_name: dict[str, list[Rule]] = {}
        self._by_fact: list[tuple[Callable[[Any], bool], Rule]] = []
        self._found: dict[Any, list[Rule]] = {}
        for other in others:
            self._by_fact += other._by_fact
            for name, rules in other.by_name.items():
                self.by_name.setdefault(name, []).extend(rules)

    def rule(self, *names: str, where: Callable[[Any], bool] | None = None) -> Callable[[Rule], Rule]:
        """Add the decorated rule for ops of these names, and for ops that satisfy a condition."""

        def add(function: Rule) -> Rule:
            self._found.clear()
            for name in names:
                self.by_name.setdefault(name, []).append(function)
            if where is not None:
                self._by_fact.append((where, function))
            return function

        return add

    def rules_of(self, op: Any) -> list[Rule]:
        """Return the rules for an op, in the order in which they are tried."""
        found = self._found.get(op)
        if found is None:
            by_fact = [rule for condition, rule in self._by_fact if condition(op)]
            found = self._found[op] = [*self.by_name.get(op.name, ()), *by_fact]
        return found

    def __call__(self, program: Program) -> Program:
        return Walk(program, self).run()


class Walk:
    """A walk through a program, with the new program so far."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self._program = program
        self._rules = rules
        self.instructions: list[Instruction] = []
        self.constants = dict(program.constants)
        self._defined: dict[Value, Instruction] = {}
        self._replaced: dict[Value, Value] = {}
        self.where: str | None = None
        #: writes that formed parts of arrays
        self.histories = Histories(self)
        self._depth = 0

    def run(self, replaced: dict[Value, Value] | None = None) -> Program:
        """Return the new program; `replaced` maps values to initial replacements."""
        if replaced is not None:
            self._replaced.update(replaced)
        replaced = self._replaced
        for instruction in self._program.instructions:
            self.where = instruction.where
            if replaced:
                instruction = with_values(instruction, replaced)
            results = self._add(instruction)
            if results is instruction.results:  # the usual case
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
        if op.is_arithmetic and self._is_ordinary(instruction):
            return self.append(instruction)
        for rule in self._rules.rules_of(op):
            found = rule(self, instruction)
            if found is not None:
                return (found,) if found.__class__ is Value else found  # type: ignore[return-value]
        return self.append(instruction)

    def append(self, instruction: Instruction) -> tuple[Value, ...]:
        """Add an instruction without applying rules to it."""
        self.instructions.append(instruction)
        for value in instruction.results:
            self._defined[value] = instruction
        return instruction.results

    def _is_ordinary(self, instruction: Instruction) -> bool:
        """True if no argument is of interest to the arithmetic rules: 0 and 1, constants, negated and expanded values.

        Long programs consist mostly of such arithmetic.
        """
        for argument in instruction.arguments:
            if argument.__class__ is float:
                if argument == 0 or argument == 1:
                    return False
                continue
            if argument.__class__ is not Value or argument in self.constants:
                return False
            made = self._defined.get(argument)
            if made is not None and made.op.name in ("neg", "expand"):
                return False
        return True

    # ----- queries for rules ------------------------------------------------------------------------------------------

    def definition(self, argument: Argument) -> Instruction | None:
        """Return the instruction that defines a value; None for inputs, constants and non-values."""
        return self._defined.get(argument) if argument.__class__ is Value else None

    def made_by(self, argument: Argument, *names: str) -> Instruction | None:
        """Return the instruction that defines a value if its op has one of these names, else None."""
        made = self.definition(argument)
        return made if made is not None and made.op.name in names else None

    def number(self, argument: Argument) -> int | float | complex | bool | None:
        """Return the number that an argument is everywhere: a number, a constant without dimensions, or an expanded
        one.
        """
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

    # ----- results of rules -------------------------------------------------------------------------------------------

    def emit(self, op: Any, *arguments: Argument, **settings: Any) -> Value:
        """Emit an op with one result, given by name or itself, and return its value. Rules apply to it."""
        (found,) = self.emit_all(op_named(op) if isinstance(op, str) else op, *arguments, **settings)
        return found

    def emit_all(self, op: Any, *arguments: Argument, **settings: Any) -> tuple[Value, ...]:
        """Emit an op, and return its values. Rules apply to it."""
        _, types = infer(op, arguments, settings)
        results = tuple([Value(shape, dtype) for shape, dtype in types])
        instruction = Instruction(op, arguments, settings, results, self.where)
        self._depth += 1
        try:
            return self._add(instruction) if self._depth <= DEEPEST else self.append(instruction)
        finally:
            self._depth -= 1

    def constant(self, number: Any, dtype: np.dtype[Any]) -> Value:
        """Return a constant of the program, without dimensions if it is a number."""
        array = np.asarray(number, dtype)
        value = Value(array.shape, array.dtype)
        self.constants[value] = array
        return value

    def full(self, number: Any, like: Value) -> Value:
        """Return one number in the shape and dtype of a value."""
        value = self.constant(number, like.dtype)
        return self.emit("expand", value, shape=like.shape) if like.shape else value

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        return value if value.shape == shape else self.emit("reshape", value, shape=shape)
