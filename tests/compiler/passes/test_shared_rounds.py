"""Work that the rounds of two loops have in common runs once."""

from __future__ import annotations

from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.passes.shared_rounds import share_rounds
from ndgrad._src.compiler.program.program import Program
from ndgrad.func import scan
from tests.compiler.traced import arrays_for, assert_same, becomes, traced


def test_a_later_loop_reads_what_an_earlier_one_has_computed() -> None:
    """exp(matmul) of each round is stored. The second loop computes only the cheap sum again, and no matmul."""
    becomes(
        share_rounds,
        """program p(%0: float64[3], %1: float64[3,3], %2: float64[4,3])
  %3: float64[3], %4: float64[4,3] = loop(%0, %1, %2, count=4, carried=1, invariant=1, reads=((0, 1),), last=0)
    program body(%0: float64[3], %1: float64[3,3], %2: float64[3])
      %3: float64[3] = matmul(%1, %0)
      %4: float64[3] = exp(%3)
      %5: float64[3] = add(%0, %2)
      %6: float64[3] = mul(%4, %5)
      return %6, %0
  %5: float64[3] = loop(%3, %1, %4, %2, count=4, carried=1, invariant=1, reads=((3, -1), (3, -1)), last=0)
    program body(%0: float64[3], %1: float64[3,3], %2: float64[3], %3: float64[3])
      %4: float64[3] = matmul(%1, %2)
      %5: float64[3] = exp(%4)
      %6: float64[3] = add(%2, %3)
      %7: float64[3] = mul(%0, %5)
      %8: float64[3] = add(%7, %6)
      return %8
  return %5
""",
        """program p(%0: float64[3], %1: float64[3,3], %2: float64[4,3])
  %3: float64[3], %4: float64[4,3], %5: float64[4,3] = loop(%0, %1, %2, count=4, carried=1, invariant=1, reads=((0, 1),), last=0)
    program body(%0: float64[3], %1: float64[3,3], %2: float64[3])
      %3: float64[3] = matmul(%1, %0)
      %4: float64[3] = exp(%3)
      %5: float64[3] = add(%0, %2)
      %6: float64[3] = mul(%4, %5)
      return %6, %0, %4
  %6: float64[3] = loop(%3, %4, %2, %5, count=4, carried=1, invariant=0, reads=((3, -1), (3, -1), (3, -1)), last=0)
    program body(%0: float64[3], %1: float64[3], %2: float64[3], %3: float64[3])
      %4: float64[3] = add(%1, %2)
      %5: float64[3] = mul(%0, %3)
      %6: float64[3] = add(%5, %4)
      return %6
  return %6
""",
    )


def test_results_that_nobody_reads_are_dropped_with_what_they_need() -> None:
    becomes(
        remove_dead_code,
        """program p(%0: float64[], %1: float64[], %2: float64[5])
  %3: float64[], %4: float64[], %5: float64[5], %6: float64[5] = loop(%0, %1, %2, count=5, carried=2, invariant=0, reads=((0, 1),), last=0)
    program body(%0: float64[], %1: float64[], %2: float64[])
      %3: float64[] = sin(%0)
      %4: float64[] = mul(%1, %2)
      %5: float64[] = exp(%4)
      return %3, %4, %5, %3
  return %6
""",
        """program p(%0: float64[], %1: float64[], %2: float64[5])
  %3: float64[], %4: float64[5] = loop(%0, count=5, carried=1, invariant=0, reads=(), last=0)
    program body(%0: float64[])
      %1: float64[] = sin(%0)
      return %1, %1
  return %4
""",
    )


def test_rows_in_another_order_are_other_rows() -> None:
    """The later loop reads the earlier one's carries from the last to the first, and the rows of x from the first to the last."""
    text = """program p(%0: float64[3], %1: float64[4,3])
  %2: float64[3], %3: float64[4,3] = loop(%0, %1, count=4, carried=1, invariant=0, reads=((0, 1),), last=0)
    program body(%0: float64[3], %1: float64[3])
      %2: float64[3] = exp(%1)
      %3: float64[3] = mul(%0, %2)
      return %3, %0
  %4: float64[3] = loop(%2, %3, %1, count=4, carried=1, invariant=0, reads=((3, -1), (0, 1)), last=0)
    program body(%0: float64[3], %1: float64[3], %2: float64[3])
      %3: float64[3] = exp(%2)
      %4: float64[3] = mul(%1, %3)
      %5: float64[3] = sub(%0, %4)
      return %5
  return %4
"""
    becomes(share_rounds, text, text)


def _loops(program: Program) -> list[Program]:
    return [i.settings["body"] for i in program.instructions if i.op.name == "loop"]


def test_a_backward_loop_computes_nothing_that_the_forward_loop_has() -> None:
    def f(w: Any, x: Any) -> Any:
        return scan(lambda c, row: (ndgrad.tanh(c @ w + row), None), x[0], x)[0].sum()

    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in ((3, 3), (5, 3))]
    before = simplify_program(traced(f, arrays))
    after = roll_loops(before)
    given = arrays_for(after, arrays)
    assert_same(before, after, given)
    forward, backward = _loops(after)
    assert [i.op.name for i in forward.instructions].count("tanh") == 1
    assert "tanh" not in [i.op.name for i in backward.instructions]
    assert "tanh" in [i.op.name for i in _loops(before)[1].instructions]


def test_a_checkpointed_loop_computes_its_rounds_again() -> None:
    def f(w: Any, x: Any) -> Any:
        return scan(lambda c, row: (ndgrad.tanh(c * w + row), None), x[0], x, checkpoint=2)[0].sum()

    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in ((3,), (6, 3))]
    after = roll_loops(simplify_program(traced(f, arrays)))
    forward, backward = _loops(after)
    assert [len(_loops(body)) for body in (forward, backward)] == [1, 2]
    inner = _loops(backward)
    assert ["tanh" in [i.op.name for i in body.instructions] for body in inner] == [True, False]
