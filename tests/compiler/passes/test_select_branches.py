"""Short branches without a branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.passes.select_branches import select_short_branches
from ndgrad._src.compiler.program.text import parse_program
from ndgrad.func import cond, grad, scan
from tests.compiler.traced import becomes

BRANCH = """program p(%0: bool[], %1: {dtype}[3])
  %2: {dtype}[3] = branch(%0, %1)
    program on_true(%0: {dtype}[3])
      constant %1: {dtype}[] = 2
      %2: {dtype}[3] = {op}(%0, %1)
      return %2
    program on_false(%0: {dtype}[3])
      return %0
  return %2
"""


def test_both_sides_are_computed_and_one_is_selected() -> None:
    becomes(
        select_short_branches,
        BRANCH.format(dtype="float64", op="pow"),
        """program p(%0: bool[], %1: float64[3])
  constant %2: float64[] = 2
  %3: float64[3] = where(%0, %1, 1.0)
  %4: float64[3] = pow(%3, %2)
  %5: float64[3] = where(%0, %4, %1)
  return %5
""",
    )


def test_what_must_not_run_for_nothing_stays_a_branch() -> None:
    for dtype, op in (("int64", "floor_divide"), ("int64", "remainder")):
        program = parse_program(BRANCH.format(dtype=dtype, op=op))
        assert "branch" in str(select_short_branches(program))
    assert "branch" not in str(select_short_branches(parse_program(BRANCH.format(dtype="int64", op="mul"))))
    large = BRANCH.format(dtype="float64", op="pow").replace("[3]", "[5000]")
    assert "branch" in str(select_short_branches(parse_program(large)))


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
def test_a_loop_with_a_short_branch_inside_is_native() -> None:
    def f(x: Any, rows: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return cond(row.sum() > 0, lambda c: (c * c + 1).log() * row, lambda c: c / row.abs().sqrt(), c), None

        return scan(step, x, rows)[0].sum()

    rng = np.random.default_rng(0)
    x, rows = (ndgrad.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((3,), (6, 3)))
    compiled = ndgrad.compile(f, fullgraph=True)
    found, expected = (ndgrad.autograd.grad(g(x, rows), (x, rows)) for g in (compiled, f))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    ways = ndgrad.compiler.explain(compiled, x, rows).control_flow
    assert len(ways) == 2
    assert all("6 rounds: native" in way for way in ways)
    zero = ndgrad.tensor([[0.0, -1.0, 1.0]])  # the side that is not taken divides by zero, or would in its derivative
    one = ndgrad.tensor([1.0, 2.0, 3.0])
    g = lambda x: scan(lambda c, r: (cond(r[0] > 0, lambda c: c / r[0], lambda c: c * 2, c), None), x, zero)[0].sum()
    np.testing.assert_array_equal(ndgrad.compile(grad(g), fullgraph=True)(one).numpy(), [2.0, 2.0, 2.0])
