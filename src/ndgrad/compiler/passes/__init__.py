"""What makes a program shorter, one idea per file; each takes a program and gives another of the same meaning.

    rewrite      how rules go through a program
    views        one form for each kind of view                        parts       parts read back from where they were put
    clean        arithmetic that does nothing                          broadcast   expanded values as they were
    fold         constants                                             cse         the same once
    dead         what nobody reads

A pass is exact, unless its file says that it reassociates sums.
"""

from __future__ import annotations

from ndgrad.compiler.passes.broadcast import broadcasting
from ndgrad.compiler.passes.clean import no_arithmetic
from ndgrad.compiler.passes.cse import without_repetition
from ndgrad.compiler.passes.dead import without_dead
from ndgrad.compiler.passes.fold import folding, splat_constants
from ndgrad.compiler.passes.parts import read_parts
from ndgrad.compiler.passes.rewrite import Rules
from ndgrad.compiler.passes.views import canonical_views
from ndgrad.compiler.program import Program

_RULES = Rules(canonical_views, read_parts, folding, no_arithmetic, broadcasting)

#: How often the rules walk through a program at most: what one walk leaves to the next is rare.
_WALKS = 4


def simplified(program: Program) -> Program:
    """A program after all passes that do not ask how it will run."""
    program = without_dead(splat_constants(program))
    for _ in range(_WALKS):
        before = len(program.instructions)
        program = without_dead(without_repetition(_RULES(program)))
        if len(program.instructions) == before:
            break
    return program
