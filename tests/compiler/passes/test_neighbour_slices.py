"""Slices of cheap values, computed where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.lower.pointwise import cost_alone
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.neighbour_slices import recompute_neighbours
from ndgrad._src.compiler.program.program import Program
from tests.compiler.traced import assert_same, becomes, run, traced


def recompute(program: Program) -> Program:
    return recompute_neighbours(program, cost_alone)


def test_differences_of_neighbours_compute_both() -> None:
    becomes(
        recompute,
        """program p(%0: float64[50000], %1: float64[])
  %2: float64[50000] = mul(%0, %1)
  %3: float64[49999] = getitem(%2, index=(slice(1, 50000, 1),))
  %4: float64[49999] = getitem(%2, index=(slice(0, 49999, 1),))
  %5: float64[49999] = sub(%3, %4)
  return %5
""",
        """program p(%0: float64[50000], %1: float64[])
  %2: float64[49999] = getitem(%0, index=(slice(1, 50000, 1),))
  %3: float64[49999] = getitem(%0, index=(slice(0, 49999, 1),))
  %4: float64[49999] = mul(%2, %1)
  %5: float64[49999] = mul(%3, %1)
  %6: float64[49999] = sub(%4, %5)
  return %6
""",
    )


@pytest.mark.parametrize(
    ("size", "op", "slices", "result"),
    [
        (100, "neg(%0)", ("1, 100", "0, 99"), "%3"),  # small
        (50000, "exp(%0)", ("1, 50000", "0, 49999"), "%3"),  # dear
        (50000, "neg(%0)", ("0, 25000", "25000, 50000"), "%3"),  # two halves
        (50000, "neg(%0)", ("1, 50000", "0, 49999"), "%1"),  # needed in memory
    ],
)
def test_other_values_stay_in_memory(size: int, op: str, slices: tuple[str, str], result: str) -> None:
    first, second = slices
    length = next(int(b) - int(a) for a, b in (s.split(", ") for s in slices))
    text = f"""program p(%0: float64[{size}])
  %1: float64[{size}] = {op}
  %2: float64[{length}] = getitem(%1, index=(slice({first}, 1),))
  %4: float64[{length}] = getitem(%1, index=(slice({second}, 1),))
  %3: float64[{length}] = sub(%2, %4)
  return %3, {result}
"""
    becomes(recompute, text, text)


def stencil(x: Any, y: Any) -> Any:
    """Second differences in both dimensions, of products with a row: slices of slices, broadcast arguments."""
    flow = x * y - x
    flux = (flow[:, 1:] - flow[:, :-1]) / (y[1:] + 2.0)
    return flux[1:-1, 1:] - flux[1:-1, :-1] + (flow[2:] - flow[:-2])[:, 1:-1] * 0.5


def test_stencils_are_the_same_to_the_last_bit() -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((200, 300)), random.uniform(0, 1, 300)]
    before = simplify_program(traced(stencil, arrays, gradients=False))
    after = recompute(before)
    assert max(v.nbytes for i in before.instructions if i.op.name != "getitem" for v in i.results) == 200 * 300 * 8
    assert sum(i.op.name == "getitem" for i in after.instructions) != sum(i.op.name == "getitem" for i in before.instructions)
    assert_same(before, after, arrays)
    eager = stencil(*[ndgrad.tensor(a) for a in arrays])
    assert (run(after, arrays)[0] == eager.numpy()).all()


def test_a_compiled_jacobian_of_neighbours_is_one_large_kernel() -> None:
    pytest.importorskip("llvmlite", reason="native code needs llvmlite")
    from ndgrad._src.compiler.lower.grouping import Kernel
    from ndgrad._src.compiler.lower.native_program import NativeProgram

    x = ndgrad.tensor(np.random.default_rng(1).standard_normal(400))

    def residual(x: Any) -> Any:
        flow = x.tanh() * x
        flux = (flow[1:] - flow[:-1]) / (x[1:] ** 2 + 2.0)
        return flux[1:] - flux[:-1]

    def jacobian(x: Any) -> Any:
        return ndgrad.func.jacfwd(residual)(x).contiguous()  # else the program gives it transposed, as it lies

    program = NativeProgram(simplify_program(traced(jacobian, [x.numpy()], gradients=False)))
    found, *_ = program([x.numpy()])  # values that nothing reads are computed for their warnings
    np.testing.assert_allclose(found, jacobian(x).numpy(), rtol=1e-13, atol=1e-14)
    assert sum(isinstance(step, Kernel) and step.size > 100_000 for step in program.groups.steps) == 1
