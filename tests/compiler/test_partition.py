"""Forward and backward as two programs: together they equal the original, and the saved values are minimal."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.program.min_cut import FlowGraph
from ndgrad._src.compiler.program.partition import is_cheap, split
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import arrays_for, random_function, run, traced

# The function is matmul, sin, exp and a product with it; %3 is the gradient of its result.
JOINT = """
program f(%0: float64[4,4], %1: float64[4,4], %2: float64[4,4])
  %3: float64[4,4] = matmul(%0, %1)
  %4: float64[4,4] = sin(%3)
  %5: float64[4,4] = exp(%4)
  %6: float64[4,4] = mul(%2, %5)
  %7: float64[4,4] = cos(%3)
  %8: float64[4,4] = mul(%6, %7)
  %9: float64[4,4] = permute(%0, dims=(1, 0))
  %10: float64[4,4] = matmul(%9, %8)
  return %5, %10
"""


def halves_of(program: Program, results: int, arguments: int) -> tuple[Program, Program, list[Value]]:
    """Split a program whose first outputs are results. The cotangents are the inputs after the arguments."""
    outputs = program.outputs
    found = split(program, outputs[:results], program.inputs[arguments:], outputs[results:])
    return found.forward, found.backward, found.kept


def test_elementwise_values_are_computed_again_of_the_product_that_is_kept() -> None:
    forward, backward, _ = halves_of(parse_program(JOINT), 1, 2)
    assert str(forward) == (
        "program f_forward(%0: float64[4,4], %1: float64[4,4])\n"
        "  %2: float64[4,4] = matmul(%0, %1)\n"
        "  %3: float64[4,4] = sin(%2)\n"
        "  %4: float64[4,4] = exp(%3)\n"
        "  return %4, %0, %2\n"
    )
    assert str(backward) == (
        "program f_backward(%0: float64[4,4], %1: float64[4,4], %2: float64[4,4])\n"
        "  %3: float64[4,4] = sin(%1)\n"
        "  %4: float64[4,4] = exp(%3)\n"
        "  %5: float64[4,4] = mul(%2, %4)\n"
        "  %6: float64[4,4] = cos(%1)\n"
        "  %7: float64[4,4] = mul(%5, %6)\n"
        "  %8: float64[4,4] = permute(%0, dims=(1, 0))\n"
        "  %9: float64[4,4] = matmul(%8, %7)\n"
        "  return %9\n"
    )

# The function writes %0 * 0.5 into %0, and returns its product with %1; %2 is the gradient of that product.
WRITING = """
program f(%0: float64[4,4], %1: float64[4,4], %2: float64[4,4])
  %3: float64[4,4] = permute(%0, dims=(1, 0))
  %4: float64[4,4] = mul(%3, 0.5)
  %5: float64[4,4] = sin(%4)
  %6: float64[4,4] = mul(%5, %1)
  %7: float64[4,4] = mul(%2, %5)
  return %6, %4, %7
"""


def test_nothing_is_computed_again_of_an_overwritten_input() -> None:
    program = parse_program(WRITING)
    first, second = program.inputs[:2]
    for overwritten in (set(), {first}):
        found = split(program, program.outputs[:2], program.inputs[2:], program.outputs[2:], overwritten)
        assert (first in found.kept) is (not overwritten)
        assert second not in found.kept
        given = [np.random.default_rng(i).standard_normal((4, 4)) for i in range(3)]
        results = run(found.forward, given[:2])
        np.testing.assert_array_equal(run(found.backward, [*results[2:], given[2]])[0], run(program, given)[2])


@pytest.mark.parametrize("seed", range(12))
def test_both_halves_are_the_whole_and_no_fewer_bytes_would_do(seed: int) -> None:
    function, arrays = random_function(seed)
    program = simplify_program(traced(function, arrays))
    count = len(program.outputs) - sum(np.asarray(a).dtype.kind in "fc" for a in arrays)
    forward, backward, kept = halves_of(program, count, len(arrays))
    given = arrays_for(program, arrays)
    expected = run(program, given)
    results = run(forward, given[: len(arrays)])
    found = [*results[:count], *run(backward, [*results[count:], *given[len(arrays) :]])]
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
    inputs = set(program.inputs)
    between = [v for v in kept if v not in inputs]
    cheaper = _cheaper(program, between, set(program.inputs[len(arrays) :]), program.outputs[count:])
    assert cheaper is None, [cheaper, between]


def _cheaper(program: Program, kept: list[Value], cotangents: set[Value], gradients: list[Value]) -> list[Value] | None:
    """Return up to two values of the forward program with fewer bytes from which the gradients can also be computed."""
    defined = program.definitions()
    behind = set(cotangents)
    for instruction in program.instructions:
        if any(v in behind for v in instruction.values()):
            behind.update(instruction.results)
    candidates = [v for i in program.instructions for v in i.results if v not in behind]
    limit = sum(1 + v.nbytes for v in kept)
    for size in range(3):
        for chosen in combinations(candidates, size):
            if sum(1 + v.nbytes for v in chosen) < limit and _suffices(set(chosen), defined, behind, gradients, program):
                return list(chosen)
    return None


def _suffices(chosen: set[Value], defined: dict, behind: set[Value], gradients: list[Value], program: Program) -> bool:
    """True if gradients can be computed from inputs and chosen values, with cheap instructions before the cotangents
    are used.
    """
    stack, seen = list(gradients), set()
    while stack:
        value = stack.pop()
        if value in seen or value in chosen or value not in defined:
            continue
        seen.add(value)
        instruction = defined[value]
        if value not in behind and not is_cheap(instruction):
            return False
        stack += instruction.values()
    return True


def test_a_minimum_cut_is_the_least_of_all_cuts() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        n = int(rng.integers(3, 8))
        edges = [(int(a), int(b), int(w)) for a, b, w in zip(*rng.integers(0, n, (2, 14)), rng.integers(1, 9, 14), strict=True) if a != b]
        graph = FlowGraph()
        for _ in range(n):
            graph.add_node()
        for edge in edges:
            graph.add_edge(*edge)
        side = graph.find_cut(0, 1)
        assert 0 in side
        assert 1 not in side
        weights = []
        for bits in range(1 << n):
            if bits & 1 and not bits & 2:
                weights.append(sum(w for a, b, w in edges if bits >> a & 1 and not bits >> b & 1))
        assert sum(w for a, b, w in edges if a in side and b not in side) == min(weights)
