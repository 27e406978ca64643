"""What makes a program shorter, one idea per file; each takes a program and gives another of the same meaning.

A pass is exact, unless its file says that it reassociates sums.
"""

from __future__ import annotations

from ndgrad.compiler.passes.dead import without_dead
from ndgrad.compiler.program import Program


def simplified(program: Program) -> Program:
    """A program after all passes that do not ask how it will run."""
    return without_dead(program)
