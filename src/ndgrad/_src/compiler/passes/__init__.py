"""What makes a program shorter, one idea per file; each takes a program and gives another of the same meaning.

    rewrite      how rules go through a program
    views        one form for each kind of view                        parts       parts read back from where they were put
    histories    how parts of arrays came about, for `parts`
    clean        arithmetic that does nothing                          broadcast   expanded values as they were
    fold         constants                                             cse         the same once
    piecewise    arrays put together of parts, at once                 dead        what nobody reads
    reroll       repeated blocks as loops                              periods     where a list repeats itself
    hoist        products of all rounds of a loop at once              loop_building   what goes into loops, and what comes out
    rounds       what rounds of two loops have in common, once         loop_parts  loops in pieces
    counters     rows that a body finds by a counter, as rows          select      short branches as selections
    order        views where they are used                             decompose   composite ops in terms of simpler ones
    indexing     reading and adding by index, likewise                 expansion   what has to be checked for it
    halves       casts to and fro, for devices                         attention   its gradients as one op, for devices
    turned       products that leave transposed, for native code       neighbours  slices of cheap values, computed where they are read
    contraction  einsum and its like as matrix products                by_parts    complex numbers as pairs of real ones:
    complex_walk, complex_formulas, complex_functions, complex_products    what that consists of

A pass is exact, unless its file says that it reassociates sums.
"""

from __future__ import annotations

from ndgrad._src.compiler.passes.broadcast import broadcasting
from ndgrad._src.compiler.passes.constant_folding import folding, splat_constants
from ndgrad._src.compiler.passes.counters import counted_rows
from ndgrad._src.compiler.passes.cse import without_repetition
from ndgrad._src.compiler.passes.dead_code import without_dead
from ndgrad._src.compiler.passes.part_reads import read_parts
from ndgrad._src.compiler.passes.piecewise import put_together
from ndgrad._src.compiler.passes.reroll import rolled
from ndgrad._src.compiler.passes.rewrite import Rules
from ndgrad._src.compiler.passes.shared_rounds import shared_rounds
from ndgrad._src.compiler.passes.simplify import no_arithmetic
from ndgrad._src.compiler.passes.views import canonical_views
from ndgrad._src.compiler.program.program import Program

_RULES = Rules(canonical_views, read_parts, folding, no_arithmetic, broadcasting)

#: How often the rules walk through a program at most: what one walk leaves to the next is rare.
_WALKS = 4


def simplified(program: Program) -> Program:
    """A program after all passes that do not ask how it will run."""
    # what all rounds of a loop read alike is read once, before rules look at it
    program = without_dead(without_repetition(splat_constants(program)))
    for _ in range(_WALKS):
        walked = _RULES(program)
        if walked.instructions == program.instructions:  # the same objects: no rule had anything to say
            program = walked
            break
        before = len(program.instructions)
        program = without_dead(without_repetition(walked))
        if len(program.instructions) == before:
            break
    return without_dead(put_together(program))


def with_loops(program: Program) -> Program:
    """A simplified program with its repeated blocks as loops."""
    found = counted_rows(rolled(program))
    return shared_rounds(found if found is program else without_dead(_RULES(found)))
