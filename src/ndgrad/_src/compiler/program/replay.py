"""Run a program on NumPy, op by op.

A compiled function runs in this way without llvmlite, and native programs run ops without a kernel in this way. The
meaning is that of the op table. Only NumPy's part of the eager cost remains: no dispatch, no nodes, no wrappers. A
value is dropped after its last use.

Note [Written out]
The first call goes through the list of ops. From the second on (for long programs, after some more), a program is a
Python function that calls them one after another, with its values in local variables:

    def run(given):
        v0, = given
        v1 = f0(v0, c0); del v0
        v2 = f1(v1); del v1
        return [v2]

The loop over a list costs as much as a small op. If an op fails, the program runs once more by the list, which is
possible because ops have no side effects. The list knows the failing op and handles the failure as eager code does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import FLOAT32, HALF, half_of, round_to
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.core.op_errors import after_failure

#: Largest number of instructions for which a function is compiled, and number of instructions that delay this by
#: another call: compiling costs as much as some twenty calls save.
_LONGEST, _PER_RUN = 20000, 500


class Replay:
    """A program as a list of calls on a list of slots, or as a function (Note [Written out])."""

    def __init__(self, program: Program) -> None:
        self._program = program
        slots: dict[Value, int] = {}
        for value in (*program.inputs, *program.constants):
            slots[value] = len(slots)
        self._constants = list(program.constants.values())
        last = program.last_uses()
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any, tuple[int, ...]]] = []
        for i, instruction in enumerate(program.instructions):
            arguments = tuple([(slots[a],) if a.__class__ is Value else a for a in instruction.arguments])
            for value in instruction.results:
                slots[value] = len(slots)
            results: Any = tuple([slots[v] for v in instruction.results])
            dead = tuple([slots[v] for v in {*instruction.values(), *instruction.results} if last[v] == i])
            self._calls.append(
                (
                    forward_of(instruction.op),
                    arguments,
                    instruction.settings,
                    results if instruction.op.outputs != 1 else results[0],
                    dead,
                )
            )
        self._outputs = [slots[v] for v in program.outputs]
        self._count = len(slots)
        self._runs = 0
        self._function: Callable[[Sequence[Any]], list[Any]] | None = None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arrays."""
        if self._function is None:
            self._runs += 1
            if self._runs != 2 + len(self._calls) // _PER_RUN or len(self._calls) > _LONGEST:
                return self.one_by_one(inputs)
            self._function = written_out(self._program)
        try:
            return self._function(inputs)
        except Exception:  # the list knows the failing op
            found = self.one_by_one(inputs)
            self._function = None  # NumPy will refuse this op again
            return found

    def one_by_one(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs by the list of calls."""
        values: list[Any] = [*inputs, *self._constants]
        values += [None] * (self._count - len(values))
        for forward, arguments, settings, results, dead in self._calls:
            out = forward(*[values[a[0]] if a.__class__ is tuple and len(a) == 1 else a for a in arguments], **settings)
            if results.__class__ is int:
                values[results] = out
            else:
                for slot, part in zip(results, out, strict=True):
                    values[slot] = part
            for slot in dead:
                values[slot] = None
        return [values[slot] for slot in self._outputs]


def written_out(program: Program) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a program as a Python function (Note [Written out])."""
    scope: dict[str, Any] = {}

    def bind(thing: Any) -> str:
        """Bind an object to a new name in the generated function and return the name."""
        name = f"c{len(scope)}"
        scope[name] = thing
        return name

    names = {value: bind(array) for value, array in program.constants.items()}
    names |= {value: f"v{number}" for number, value in enumerate(program.inputs)}
    lines = [f"    {''.join([f'{names[v]}, ' for v in program.inputs])} = given"] if program.inputs else []
    last = program.last_uses()
    for number, instruction in enumerate(program.instructions):
        names |= {value: f"v{len(names) + k}" for k, value in enumerate(instruction.results)}
        given = [names[a] if a.__class__ is Value else bind(_make_fast(a, instruction)) for a in instruction.arguments]
        given += [f"{name}={bind(setting)}" for name, setting in instruction.settings.items()]
        out = "".join([f"{names[v]}, " for v in instruction.results])
        out = out if instruction.op.outputs != 1 else out.removesuffix(", ")
        has_halves = any(v.dtype.char in HALF for v in instruction.values())
        forward = forward_of(instruction.op) if has_halves else instruction.op.forward_for(np)
        lines.append(f"    {out} = {bind(forward)}({', '.join(given)})")
        seen = {*instruction.values(), *instruction.results} - program.constants.keys()
        dead = [v for v in seen if last[v] == number]
        lines += [f"    del {', '.join(names[v] for v in dead)}"] if dead else []
    lines.append(f"    return [{', '.join([names[v] for v in program.outputs])}]")
    exec(compile("def run(given):\n" + "\n".join(lines), f"<ndgrad generated {program.name} on NumPy>", "exec"), scope)
    found: Callable[[Sequence[Any]], list[Any]] = scope["run"]
    return found


def _make_fast(argument: Any, instruction: Instruction) -> Any:
    """Return a number in NumPy's fastest form: an array, if the other operand is one
    (ndgrad._src.arrays.scalar_operands).
    """
    result, values = instruction.results[0], list(instruction.values())
    is_number = argument.__class__ is float and instruction.op.is_arithmetic and not instruction.settings
    if is_number and result.dtype.char in "fd" and all(v.dtype == result.dtype and v.ndim for v in values):
        if abs(argument) < np.finfo(result.dtype).max:
            return np.array(argument, result.dtype)
    return argument


def forward_of(op: Any) -> Callable[..., Any]:
    """Return an op's function of arrays, with the eager handling of errors and of widened results."""
    forward = op.forward_for(np)

    def run(*arrays: Any, **settings: Any) -> Any:
        try:
            out = forward(*arrays, **settings)
        except (NotImplementedError, TypeError, ValueError) as error:
            return after_failure(op, arrays, settings, error)
        if op.rounds_numbers and out.dtype is FLOAT32:
            out = round_to(out, half_of(list(arrays), True))
        return out

    return run
