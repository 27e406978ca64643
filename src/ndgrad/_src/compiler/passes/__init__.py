"""Passes that shorten a program, one idea per file. Each takes a program and returns another of the same meaning.

    rewrite              rules, applied in one walk through a program
    views                one form for each kind of view
    part_reads           parts read back from the array they were written to
    write_histories      the writes that formed a part of an array, for `part_reads`
    simplify             arithmetic without effect
    broadcast            broadcasting instead of expanded values
    constant_folding     constants
    cse                  common subexpressions
    dead_code            results that are never read
    piecewise            arrays assembled from parts in one step
    regions              overlapping parts as disjoint regions
    loops                repeated blocks as loops: reroll finds them; periods: repetitions in a list
    loop_building        inputs and outputs of such loops; loop_parts: a loop in pieces
    hoist_products       the products of all rounds of a loop at once
    shared_rounds        common work of the rounds of two loops, once
    counters             rows that a loop body finds by a counter, as rows
    select_branches      short branches as selections
    schedule             views next to the instructions that use them
    decompose            composite ops in terms of simpler ones; terms: values with operators, for bodies and rules
    indexing             reading and adding by index, likewise; expansion: run-time checks for it
    contraction          einsum and similar ops as matrix products
    half_precision       pairs of casts, for devices
    attention            the gradients of attention as one op, for devices
    transposed_products  products that leave transposed, for native code
    neighbour_slices     slices of cheap values, recomputed at their readers
    complex_parts        complex numbers as pairs of real ones, with complex_walk, complex_formulas,
                         complex_functions and complex_products

A pass is exact, unless its file says that it reassociates sums.
"""

from __future__ import annotations

from ndgrad._src.compiler.passes.broadcast import broadcasting
from ndgrad._src.compiler.passes.constant_folding import folding, splat_constants
from ndgrad._src.compiler.passes.cse import merge_repeated
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.part_reads import read_parts
from ndgrad._src.compiler.passes.piecewise import assemble_parts
from ndgrad._src.compiler.passes.rewrite import Rules
from ndgrad._src.compiler.passes.simplify import no_arithmetic
from ndgrad._src.compiler.passes.views import canonical_views
from ndgrad._src.compiler.program.program import Program

#: The rules of every program.
RULES = Rules(canonical_views, read_parts, folding, no_arithmetic, broadcasting)

#: Maximum number of walks of the rules through a program. Few programs change in a second walk.
_WALKS = 4


def simplify_program(program: Program) -> Program:
    """Return a program after all passes that do not depend on the backend."""
    # Values that all rounds of a loop read are merged before the rules look at them.
    program = remove_dead_code(merge_repeated(splat_constants(program)))
    for _ in range(_WALKS):
        walked = RULES(program)
        if walked.instructions == program.instructions:  # no rule changed anything
            program = walked
            break
        before = len(program.instructions)
        program = remove_dead_code(merge_repeated(walked))
        if len(program.instructions) == before:
            break
    return remove_dead_code(assemble_parts(program))
