"""Rows that a body finds by a counter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.counters import read_counted_rows
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad.func import fori_loop
from tests.compiler.traced import arrays_for, assert_same, becomes, traced


def test_rows_by_a_counter_are_rows_that_the_loop_reads() -> None:
    becomes(
        read_counted_rows,
        """program p(%0: float64[3], %1: float64[9,3])
  constant %2: int64[4] = [0, 1, 2, 3]
  %3: float64[3] = loop(%0, %1, %2, count=4, carried=1, invariant=1, reads=((3, -1),), last=0)
    program body(%0: float64[3], %1: float64[9,3], %2: int64[])
      %3: int64[] = mul(%2, 2)
      %4: int64[] = add(%3, 1)
      %5: float64[3] = index(%1, %4)
      %6: float64[3] = mul(%0, %5)
      return %6
  return %3
""",
        """program p(%0: float64[3], %1: float64[9,3])
  %2: float64[3] = loop(%0, %1, count=4, carried=1, invariant=0, reads=((7, -2),), last=0)
    program body(%0: float64[3], %1: float64[3])
      %2: float64[3] = mul(%0, %1)
      return %2
  return %2
""",
    )


def test_sums_of_rows_at_a_counter_are_made_after_the_loop() -> None:
    becomes(
        read_counted_rows,
        """program p(%0: float64[3], %1: float64[6,3])
  constant %2: int64[4] = [1, 2, 3, 4]
  %3: float64[3], %4: float64[6,3] = loop(%0, %1, %2, count=4, carried=2, invariant=0, reads=((0, 1),), last=0)
    program body(%0: float64[3], %1: float64[6,3], %2: int64[])
      %3: float64[3] = sin(%0)
      %4: float64[6,3] = index_add_zeros(%3, %2, shape=(6, 3))
      %5: float64[6,3] = add(%1, %4)
      return %3, %5
  return %3, %4
""",
        """program p(%0: float64[3], %1: float64[6,3])
  %2: float64[3], %3: float64[4,3] = loop(%0, count=4, carried=1, invariant=0, reads=(), last=0)
    program body(%0: float64[3])
      %1: float64[3] = sin(%0)
      return %1, %1
  %4: float64[6,3] = embed(%3, shape=(6, 3), index=(slice(1, 5, 1), slice(0, 3, 1)))
  %5: float64[6,3] = add(%1, %4)
  return %2, %5
""",
    )


@pytest.mark.parametrize("numbers", [[0, 1, 3, 4], [0, 0, 0, 0], [3, 4, 5, 6], [-1, 0, 1, 2]])
def test_other_numbers_stay_indices(numbers: list[int]) -> None:
    """No steps; one row again and again, of which nothing is said about its sums; too far; from both ends."""
    text = f"""program p(%0: float64[2], %1: float64[6,2], %2: float64[6,2])
  constant %3: int64[4] = {numbers}
  %4: float64[2], %5: float64[6,2] = loop(%0, %2, %1, %3, count=4, carried=2, invariant=1, reads=((0, 1),), last=0)
    program body(%0: float64[2], %1: float64[6,2], %2: float64[6,2], %3: int64[])
      %4: float64[2] = index(%2, %3)
      %5: float64[2] = mul(%0, %4)
      %6: float64[6,2] = index_add_zeros(%5, %3, shape=(6, 2))
      %7: float64[6,2] = add(%1, %6)
      return %5, %7
  return %4, %5
"""
    from ndgrad._src.compiler.program.text import parse_program

    found = str(read_counted_rows(parse_program(text)))
    assert "index_add_zeros" in found
    assert ("index(%" in found) is (numbers != [0, 0, 0, 0])


def test_a_loop_over_a_counter_has_no_indices_forward_or_backward() -> None:
    def f(x: Any, w: Any) -> Any:
        return fori_loop(0, 4, lambda i, c: ndgrad.sin(c * x[i + 1]) + x[-1 - i] * w, w).sum()

    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in ((5, 3), (3,))]
    before = simplify_program(traced(f, arrays))
    after = roll_loops(before)
    assert_same(before, after, arrays_for(after, arrays), ulps=4)
    assert "index" in str(before)
    assert "index(" not in str(after)
    assert "index_add_zeros" not in str(after)
