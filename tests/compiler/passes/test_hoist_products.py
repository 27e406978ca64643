"""Products of all rounds of a loop at once."""

from __future__ import annotations

from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.hoist_products import hoisting
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import arrays_for, assert_same, becomes, traced


def test_products_of_rows_are_one_before_the_loop() -> None:
    becomes(
        hoisting,
        """program p(%0: float64[4,2,3], %1: float64[3,5], %2: float64[2,5])
  %3: float64[2,5] = loop(%2, %1, %0, count=4, carried=1, invariant=1, reads=((3, -1),), last=0)
    program body(%0: float64[2,5], %1: float64[3,5], %2: float64[2,3])
      %3: float64[2,5] = matmul(%2, %1)
      %4: float64[2,5] = mul(%0, %3)
      return %4
  return %3
""",
        """program p(%0: float64[4,2,3], %1: float64[3,5], %2: float64[2,5])
  %3: float64[8,3] = reshape(%0, shape=(8, 3))
  %4: float64[8,5] = matmul(%3, %1)
  %5: float64[4,2,5] = reshape(%4, shape=(4, 2, 5))
  %6: float64[2,5] = loop(%2, %5, count=4, carried=1, invariant=0, reads=((3, -1),), last=0)
    program body(%0: float64[2,5], %1: float64[2,5])
      %2: float64[2,5] = mul(%0, %1)
      return %2
  return %6
""",
    )


def test_sums_of_products_are_one_product_after_the_loop() -> None:
    becomes(
        hoisting,
        """program p(%0: float64[4,2,3], %1: float64[4,2,5], %2: float64[3,5], %3: float64[5])
  %4: float64[3,5], %5: float64[5] = loop(%2, %3, %0, %1, count=4, carried=2, invariant=0, reads=((3, -1), (0, 1)), last=0)
    program body(%0: float64[3,5], %1: float64[5], %2: float64[2,3], %3: float64[2,5])
      %4: float64[2,5] = neg(%3)
      %5: float64[3,2] = permute(%2, dims=(1, 0))
      %6: float64[3,5] = matmul(%5, %4)
      %7: float64[3,5] = add(%0, %6)
      %8: float64[5] = sum(%4, dim=(0,), keepdim=False, dtype=None)
      %9: float64[5] = add(%1, %8)
      return %7, %9
  return %4, %5
""",
        """program p(%0: float64[4,2,3], %1: float64[4,2,5], %2: float64[3,5], %3: float64[5])
  %4: float64[4,2,5] = loop(%1, count=4, carried=0, invariant=0, reads=((0, 1),), last=0)
    program body(%0: float64[2,5])
      %1: float64[2,5] = neg(%0)
      return %1
  %5: float64[4,2,3] = getitem(%0, index=(slice(3, None, -1), slice(0, 2, 1), slice(0, 3, 1)))
  %6: float64[8,3] = reshape(%5, shape=(8, 3))
  %7: float64[3,8] = permute(%6, dims=(1, 0))
  %8: float64[8,5] = reshape(%4, shape=(8, 5))
  %9: float64[3,5] = matmul(%7, %8)
  %10: float64[3,5] = add(%2, %9)
  %11: float64[8,5] = reshape(%4, shape=(8, 5))
  %12: float64[5] = sum(%11, dim=(0,), keepdim=False, dtype=None)
  %13: float64[5] = add(%3, %12)
  return %10, %13
""",
    )


def test_a_sum_that_a_round_reads_stays() -> None:
    text = """program p(%0: float64[4,2,3], %1: float64[3,3])
  %2: float64[3,3] = loop(%1, %0, count=4, carried=1, invariant=0, reads=((0, 1),), last=0)
    program body(%0: float64[3,3], %1: float64[2,3])
      %2: float64[2,3] = matmul(%1, %0)
      %3: float64[3,2] = permute(%1, dims=(1, 0))
      %4: float64[3,3] = matmul(%3, %2)
      %5: float64[3,3] = add(%0, %4)
      return %5
  return %2
"""
    becomes(hoisting, text, text)


def test_a_recurrent_network_keeps_only_the_products_that_depend_on_the_round_before() -> None:
    def network(x: Any, h: Any, w: Any, u: Any, b: Any) -> Any:
        out = []
        for t in range(30):
            h = ndgrad.tanh(x[t] @ w + h @ u + b)
            out.append(h)
        return ndgrad.stack(out)

    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s) for s in ((30, 4, 3), (4, 5), (3, 5), (5, 5), (5,))]
    program = traced(network, arrays)
    loops = roll_loops(simplify_program(program))
    other = simplify_program(hoisting(loops))
    bodies = [i.settings["body"] for i in other.instructions if i.op.name == "loop"]
    products = [[i.op.name for i in body.instructions].count("matmul") for body in bodies]
    assert products == [1, 1]
    assert_same(program, other, arrays_for(program, arrays), ulps=64)
    assert str(parse_program(str(other))) == str(other)
