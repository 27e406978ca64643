"""A loop of a program in pieces, which passes change and put together again."""

from __future__ import annotations

from typing import Any

from ndgrad._src.compiler.program.compiler_ops import loop
from ndgrad._src.compiler.program.program import Instruction, Program, Value


class LoopParts:
    """A loop in pieces: arguments beside the body's inputs, results beside its outputs."""

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
        #: input of the body -> what it starts with, what it is, or (of which array it is a row, first, step)
        self.starts: dict[Value, Value] = dict(given[:carried])
        self.fixed: dict[Value, Value] = dict(given[carried : carried + invariant])
        self.rows: dict[Value, tuple[Value, int, int]] = {
            v: (a, *read) for (v, a), read in zip(given[carried + invariant :], settings["reads"], strict=True)
        }
        made = list(zip(body.outputs, instruction.results, strict=True))
        #: input of the body -> the output that follows it, and the loop's result
        self.next: dict[Value, tuple[Value, Value]] = dict(zip(self.starts, made[:carried], strict=True))
        #: values of the body of which the last round's, or every round's, is a result of the loop
        self.last = made[carried : carried + last]
        self.stacks = made[carried + last :]

    def made(self) -> dict[Value, Instruction]:
        """The instruction of the body that defines each value."""
        return {v: i for i in self.body for v in i.results}

    def uses(self) -> dict[Value, int]:
        """How often each value is read, in the body and as its output."""
        uses: dict[Value, int] = {}
        read = [v for i in self.body for v in i.values()]
        for v in [*read, *[n for n, _ in self.next.values()], *[v for v, _ in (*self.last, *self.stacks)]]:
            uses[v] = uses.get(v, 0) + 1
        return uses

    def without(self, used: set[Value]) -> None:
        """Drop results that are not among these, and what is carried only for its own sake."""
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
        """The loop, without what its results do not depend on."""
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
    """The instructions that values depend on."""
    needed, kept = set(outputs), []
    for instruction in reversed(instructions):
        if any(v in needed for v in instruction.results):
            kept.append(instruction)
            needed.update(instruction.values())
    return kept[::-1]
