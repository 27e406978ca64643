"""A loop in pieces, for passes that change it and put it together again."""

from __future__ import annotations

from typing import Any

from ndgrad._src.compiler.program.compiler_ops import loop
from ndgrad._src.compiler.program.program import Instruction, Program, Value


class LoopParts:
    """A loop in pieces: arguments keyed by the body's inputs, results keyed by its outputs."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        settings = instruction.settings
        body: Program = settings["body"]
        carried, invariant, last = (settings[k] for k in ("carried", "invariant", "last"))
        self.count: int = settings["count"]
        self.body = list(body.instructions)
        self.constants = dict(body.constants)
        self.name = body.name
        given = list(zip(body.inputs, instruction.arguments, strict=True))
        #: input of the body -> its initial value, its invariant, or (array whose row it is, first, step)
        self.starts: dict[Value, Value] = dict(given[:carried])
        self.fixed: dict[Value, Value] = dict(given[carried : carried + invariant])
        self.rows: dict[Value, tuple[Value, int, int]] = {
            v: (a, *read) for (v, a), read in zip(given[carried + invariant :], settings["reads"], strict=True)
        }
        made = list(zip(body.outputs, instruction.results, strict=True))
        #: input of the body -> (output for the next round, the loop's result)
        self.next: dict[Value, tuple[Value, Value]] = dict(zip(self.starts, made[:carried], strict=True))
        #: values of the body whose last value, or whose values of all rounds, are results of the loop
        self.last = made[carried : carried + last]
        self.stacks = made[carried + last :]

    def made(self) -> dict[Value, Instruction]:
        """Return the instruction of the body that defines each value."""
        return {v: i for i in self.body for v in i.results}

    def uses(self) -> dict[Value, int]:
        """Return how often each value is read, in the body and as its output."""
        uses: dict[Value, int] = {}
        read = [v for i in self.body for v in i.values()]
        for v in [*read, *[n for n, _ in self.next.values()], *[v for v, _ in (*self.last, *self.stacks)]]:
            uses[v] = uses.get(v, 0) + 1
        return uses

    def without(self, used: set[Value]) -> None:
        """Drop all other results, and values that are carried only for their own sake."""
        self.last = [(v, result) for v, result in self.last if result in used]
        self.stacks = [(v, result) for v, result in self.stacks if result in used]
        alive = {begin for begin, (_, result) in self.next.items() if result in used}
        while True:
            outputs = [
                *[n for b, (n, _) in self.next.items() if b in alive],
                *[v for v, _ in (*self.last, *self.stacks)],
            ]
            read = {v for i in needed_for(self.body, outputs) for v in i.values()} | set(outputs)
            more = {begin for begin in self.next if begin in read} - alive
            if not more:
                break
            alive |= more
        self.starts = {v: a for v, a in self.starts.items() if v in alive}
        self.next = {v: n for v, n in self.next.items() if v in alive}

    def rebuilt(self) -> Instruction:
        """Return the loop, without instructions that its results do not depend on."""
        outputs = [*[n for n, _ in self.next.values()], *[v for v, _ in (*self.last, *self.stacks)]]
        instructions = needed_for(self.body, outputs)
        used = {v for i in instructions for v in i.values()} | set(outputs)
        fixed = {v: a for v, a in self.fixed.items() if v in used}
        rows = {v: r for v, r in self.rows.items() if v in used}
        constants = {v: a for v, a in self.constants.items() if v in used}
        body = Program([*self.starts, *fixed, *rows], outputs, instructions, constants, self.name)
        settings: dict[str, Any] = {
            "body": body,
            "count": self.count,
            "carried": len(self.starts),
            "invariant": len(fixed),
            "reads": tuple([(first, step) for _, first, step in rows.values()]),
            "last": len(self.last),
        }
        arguments = (*self.starts.values(), *fixed.values(), *[array for array, _, _ in rows.values()])
        results = (*[r for _, r in self.next.values()], *[r for _, r in (*self.last, *self.stacks)])
        return Instruction(loop, arguments, settings, results, self.instruction.where)


def needed_for(instructions: list[Instruction], outputs: list[Value]) -> list[Instruction]:
    """Return the instructions that values depend on."""
    needed, kept = set(outputs), []
    for instruction in reversed(instructions):
        if any(v in needed for v in instruction.results):
            kept.append(instruction)
            needed.update(instruction.values())
    return kept[::-1]
