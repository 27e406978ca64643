"""Repeated blocks of a simplified program as loops. Exact: each round computes what its block did."""

from __future__ import annotations

from ndgrad._src.compiler.passes import RULES
from ndgrad._src.compiler.passes.counters import read_counted_rows
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.reroll import find_loops
from ndgrad._src.compiler.passes.shared_rounds import share_rounds
from ndgrad._src.compiler.program.program import Program


def roll_loops(program: Program) -> Program:
    """Return a simplified program with its repeated blocks as loops."""
    found = read_counted_rows(find_loops(program))
    return share_rounds(found if found is program else remove_dead_code(RULES(found)))
