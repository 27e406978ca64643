"""Arrays put together of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.passes.piecewise import assemble_parts
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import arrays_for, assert_same, becomes, traced

ZEROS = np.array([-0.0, 0.0, 1.0, -1.0])


def test_a_sum_of_parts_is_made_at_once() -> None:
    becomes(
        assemble_parts,
        """program p(%0: float64[4], %1: float64[4], %2: float64[4])
  %3: float64[6] = embed(%0, shape=(6,), index=(slice(0, 4, 1),))
  %4: float64[6] = embed(%1, shape=(6,), index=(slice(1, 5, 1),))
  %5: float64[6] = embed(%2, shape=(6,), index=(slice(2, 6, 1),))
  %6: float64[6] = add(%3, %4)
  %7: float64[6] = add(%6, %5)
  return %7
""",
        """program p(%0: float64[4], %1: float64[4], %2: float64[4])
  %3: float64[6] = pieces(%0, %1, %2, shape=(6,), index=((slice(0, 4, 1),), (slice(1, 5, 1),), (slice(2, 6, 1),)), common=(slice(2, 4, 1),))
  return %3
""",
    )


def test_zeros_have_the_signs_of_the_sum() -> None:
    program = parse_program(
        """program p(%0: float64[4], %1: float64[4], %2: float64[4])
  %3: float64[6] = embed(%0, shape=(6,), index=(slice(0, 4, 1),))
  %4: float64[6] = embed(%1, shape=(6,), index=(slice(1, 5, 1),))
  %5: float64[6] = embed(%2, shape=(6,), index=(slice(2, 6, 1),))
  %6: float64[6] = add(%3, %4)
  %7: float64[6] = add(%5, %6)
  return %7
"""
    )
    other = assemble_parts(program)
    assert [i.op.name for i in other.instructions][-1] == "pieces"
    random = np.random.default_rng(0)
    for _ in range(50):
        assert_same(program, other, [random.choice(ZEROS, 4) for _ in range(3)])


def test_a_part_added_to_a_whole() -> None:
    becomes(
        assemble_parts,
        """program p(%0: float64[2,3], %1: float64[3])
  %2: float64[2,3] = embed(%1, shape=(2, 3), index=(1, slice(0, 3, 1)))
  %3: float64[2,3] = add(%0, %2)
  return %3
""",
        "program p(%0: float64[2,3], %1: float64[3])\n"
        "  %2: float64[2,3] = pieces(%0, %1, shape=(2, 3), index=((slice(0, 2, 1), slice(0, 3, 1)), (1, slice(0, 3, 1))), "
        "common=(slice(1, 2, 1), slice(0, 3, 1)))\n"
        "  return %2\n",
    )


def test_rows_are_stacked_and_ranges_joined() -> None:
    becomes(
        assemble_parts,
        """program p(%0: float64[3], %1: float64[3], %2: float64[2])
  %3: float64[4,3] = embed(%0, shape=(4, 3), index=(2, slice(0, 3, 1)))
  %4: float64[4,3] = embed(%1, shape=(4, 3), index=(1, slice(0, 3, 1)))
  %5: float64[4,3] = add(%3, %4)
  %6: float64[5] = embed(%2, shape=(5,), index=(slice(0, 2, 1),))
  %7: float64[5] = embed(%0, shape=(5,), index=(slice(2, 5, 1),))
  %8: float64[5] = add(%6, %7)
  return %5, %8
""",
        """program p(%0: float64[3], %1: float64[3], %2: float64[2])
  %3: float64[2,3] = stack(%1, %0, dim=0)
  %4: float64[4,3] = embed(%3, shape=(4, 3), index=(slice(1, 3, 1), slice(0, 3, 1)))
  %5: float64[4,3] = add(%4, 0.0)
  %6: float64[5] = cat(%2, %0, dim=0)
  %7: float64[5] = add(%6, 0.0)
  return %5, %7
""",
    )


def test_what_is_written_over_and_over() -> None:
    becomes(
        assemble_parts,
        """program p(%0: float64[5], %1: float64[2], %2: float64[2])
  %3: float64[5] = slice_scatter(%0, %1, index=(slice(0, 2, 1),))
  %4: float64[5] = slice_scatter(%3, %2, index=(slice(1, 3, 1),))
  return %4
""",
        """program p(%0: float64[5], %1: float64[2], %2: float64[2])
  %3: float64[5] = overlaid(%0, %1, %2, index=((slice(0, 2, 1),), (slice(1, 3, 1),)))
  return %3
""",
    )


def test_what_is_written_everywhere_needs_nothing_below() -> None:
    becomes(
        assemble_parts,
        """program p(%0: float64[2,3], %1: float64[3], %2: float64[3])
  %3: float64[2,3] = slice_scatter(%0, %1, index=(1, slice(0, 3, 1)))
  %4: float64[2,3] = slice_scatter(%3, %2, index=(0, slice(0, 3, 1)))
  return %4
""",
        """program p(%0: float64[2,3], %1: float64[3], %2: float64[3])
  %3: float64[2,3] = stack(%2, %1, dim=0)
  return %3
""",
    )


def test_a_link_that_is_read_twice_stays() -> None:
    text = """program p(%0: float64[5], %1: float64[2], %2: float64[2])
  %3: float64[5] = slice_scatter(%0, %1, index=(slice(0, 2, 1),))
  %4: float64[5] = slice_scatter(%3, %2, index=(slice(1, 3, 1),))
  return %3, %4
"""
    becomes(assemble_parts, text, text)


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_parts_are_the_same(seed: int) -> None:
    draw = np.random.default_rng(seed)
    cuts = [tuple(sorted(draw.integers(0, 7, 2))) for _ in range(6)]

    def function(x: Any) -> Any:
        found = 0.0
        for a, b in cuts:
            found = found + (x[a : b + 1] * (a - 2.0)).sum() + x[b] * x[a]
        y = x.clone()
        for a, b in cuts:
            y[a : b + 1] = x[a] * 2
        return found * y

    arrays = [draw.choice(ZEROS, 8)]
    program = traced(function, arrays)
    assert_same(program, simplify_program(program), arrays_for(program, arrays))


# ----- parts that come again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("read", "most"),
    [
        (lambda w: (w[0], w[1]), 2),  # all of it
        (lambda w: (w[0], w[3]), 2),
        (lambda w: (w[2], w[2]), 0),  # one place
        (lambda w: (w[:2].sum(0), w[1:3].prod(0)), 4),  # places that meet
        (lambda w: (w.sum(0), w[1]), 4),
    ],
    ids=["rows", "apart", "one", "meeting", "whole"],
)
def test_parts_that_come_again_are_added_up_before_they_are_put_together(read: Any, most: int, dtype: Any) -> None:
    rounds = 40

    def f(w: Any, x: Any) -> Any:
        for _ in range(rounds):
            a, b = read(w)
            x = ndgrad.sin(x * a) + b
        return x

    random = np.random.default_rng(3)
    arrays = [random.standard_normal((4, 3)).astype(dtype), random.standard_normal(3).astype(dtype)]
    program = traced(f, arrays)
    short = simplify_program(program)
    assert_same(program, short, arrays_for(program, arrays))
    assert max([len(i.arguments) for i in short.instructions if i.op.name == "pieces"], default=0) <= most
    loops = [i for i in roll_loops(short).instructions if i.op.name == "loop"]
    assert len(loops) == 2
    assert_same(program, roll_loops(short), arrays_for(program, arrays))


def test_negative_zeros_of_parts_that_come_again() -> None:
    """Zeros are added beside each part, so a place that not all parts cover is never -0."""

    def f(w: Any) -> Any:
        return ndgrad.stack([w[k % 3] * -0.0 for k in range(9)])

    arrays = [np.ones((3, 2))]
    program = traced(f, arrays)
    assert_same(program, simplify_program(program), arrays_for(program, arrays))
