"""Make a short program of one that shows a difference, and name the cause by the kinds that are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.programs import minimise as syntax
from tests.programs.world.generate import WS, XS, Part, Program, Step, without_part
from tests.programs.world.kinds import Kind
from tests.programs.world.run import Difference, check

#: Number of programs tried while one is shortened: by its parts, and by its syntax.
MOST_PARTS, MOST_SYNTAX = 120, 250
STORED_NUMBERS = ("y.sum().item()", "float(y.sum())", "y.max().item()", "y.detach().sum()")


@dataclass(frozen=True)
class Finding:
    """A program that differs, and how."""

    seed: int
    program: Program
    difference: Difference

    @property
    def signature(self) -> tuple[str, ...]:
        """The symptom and the kinds that it needs: findings with the same signature count as one cause."""
        return (self.difference.symptom, *self.program.labels)


def same_symptom(a: Difference, b: Difference) -> bool:
    return a.symptom == b.symptom or (a.where == b.where == "error")


def holds(difference: Difference, is_native: bool, may_raise: bool = True) -> Callable[[str], bool]:
    """True for the sources that differ in the same way; unless they may, eager calls raise nothing."""

    def differs(source: str) -> bool:
        try:
            found = check(source, is_native)
        except (Exception, RecursionError):
            return False
        if found.difference is None or found.error or (found.raised and not may_raise):
            return False
        return same_symptom(found.difference, difference)

    return differs


# ----- by parts -------------------------------------------------------------------------------------------------------


def fewer_parts(program: Program) -> Iterator[Program]:
    for number, _ in program.parts:
        yield without_part(program, number)


def fewer_reads(program: Program) -> Iterator[Program]:
    """A part that stores a number of a tensor stores a constant, or is nothing but the reading of that number."""
    for i, (number, part) in enumerate(program.parts):
        for read in STORED_NUMBERS:
            if part.role != "op" and any(read in line for line in part.body):
                constant = replace(part, body=tuple(line.replace(read, "4.5") for line in part.body))
                bare = Part("op", Kind("number that is read"), (read,))
                for shorter in (bare, constant):
                    yield replace(program, parts=(*program.parts[:i], (number, shorter), *program.parts[i + 1 :]))


def fewer_steps(program: Program) -> Iterator[Program]:
    steps = program.steps
    for i in reversed(range(len(steps))):
        kept = list(steps)
        gone = kept.pop(i)
        if gone.changes and i < len(kept):  # its changes still happen, before the next call
            moved = replace(kept[i], changes=(*gone.changes, *kept[i].changes))
            yield replace(program, steps=(*kept[:i], moved, *kept[i + 1 :]))
        if kept:
            yield replace(program, steps=tuple(kept))
    for i, step in enumerate(steps):
        for j in range(len(step.changes)):
            fewer = replace(step, changes=step.changes[:j] + step.changes[j + 1 :])
            yield replace(program, steps=(*steps[:i], fewer, *steps[i + 1 :]))


def plainer(program: Program) -> Iterator[Program]:
    plain = {"is_native": False, "form": "nested", "ending": "return y", "x": XS[0], "w": WS[0], "options": ""}
    for name, value in plain.items():
        if getattr(program, name) != value:
            yield replace(program, **{name: value})  # type: ignore[arg-type]
    for i, step in enumerate(program.steps):
        if step.then:
            yield replace(program, steps=(*program.steps[:i], Step(step.changes), *program.steps[i + 1 :]))
    for i, (number, part) in enumerate(program.parts):
        for shorter in plainer_parts(part):
            yield replace(program, parts=(*program.parts[:i], (number, shorter), *program.parts[i + 1 :]))


def plainer_parts(part: Part) -> Iterator[Part]:
    if part.helper:
        call = re.search(r"look\d+", part.helper)
        assert call is not None
        yield replace(part, helper="", body=tuple(line.replace(f"{call.group()}()", part.kind.get) for line in part.body))
    if len(part.body) > 1:
        for i in range(len(part.body)):
            yield replace(part, body=part.body[:i] + part.body[i + 1 :])
    if part.role != "effect" and part.kind.get:
        for i, line in enumerate(part.body):
            simple = f"y = y * {part.kind.get}"
            if (
                part.kind.sort in ("number", "float", "byte", "tensor")
                and line != simple
                and not part.kind.lines
                and line.startswith("y =")
            ):
                yield replace(part, body=(*part.body[:i], simple, *part.body[i + 1 :]))


def shrink(finding: Finding, is_quick: bool = False) -> Finding:
    """The finding with a program that has only the parts, calls and changes that it needs."""
    program, tries = finding.program, 0
    raises = check(program.source, program.is_native).raised > 0
    edits = (fewer_parts, fewer_reads) if is_quick else (fewer_parts, fewer_reads, fewer_steps, plainer)
    progress = True
    while progress and tries < MOST_PARTS:
        progress = False
        for edit in edits:
            for candidate in edit(program):
                tries += 1
                if tries >= MOST_PARTS:
                    break
                if holds(finding.difference, candidate.is_native, raises)(candidate.source):
                    program, progress = candidate, True
                    break
            if progress:
                break
    found = check(program.source, program.is_native).difference
    if found is None:  # it does not differ each time
        return finding
    labels = replace(program, parts=tuple((n, role_of(part)) for n, part in program.parts))
    return Finding(finding.seed, labels, found)


def role_of(part: Part) -> Part:
    """A part that no longer stores anything is a place that is read."""
    if part.role == "write" and part.kind.put:
        head = part.kind.put.split("$")[0]
        if not any(head in line for line in part.body):
            return replace(part, role="place")
    return part


# ----- by syntax ------------------------------------------------------------------------------------------------------


def shortest(finding: Finding) -> str:
    """A short text of a finding, to be pasted."""
    source = finding.program.source
    raises = check(source, finding.program.is_native).raised > 0
    differs = holds(finding.difference, finding.program.is_native, raises)
    plain = re.sub(r"^(\s*)with change: ", r"\1", source, flags=re.M)
    if differs(plain):
        source = plain
    tries = 0

    def fails(text: str) -> bool:
        nonlocal tries
        tries += 1
        return tries < MOST_SYNTAX and "f = compile(" in text and differs(text)

    try:
        return syntax.minimise(source, fails)
    except (RecursionError, SyntaxError):
        return source


def report(finding: Finding) -> str:
    """The finding as text: its cause, its difference, a program."""
    source = shortest(finding)
    native = " (native code)" if finding.program.is_native else ""
    return f"# {' | '.join(finding.signature)}\n# seed {finding.seed}{native}: {finding.difference.message}\n{source}"
