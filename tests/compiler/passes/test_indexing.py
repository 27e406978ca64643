"""Reading and writing by index: the text before and after, and the same arrays. an index outside is seen by a check."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.compiler.passes.decompose import decompose
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import run


def program(line: str, *inputs: str) -> str:
    return f"program f({', '.join(inputs)})\n  {line}\n  return %{len(inputs)}\n"


#: An instruction, and the one that stands for it; what computes its places comes before.
CASES = {
    "rows of a table": (
        program("%2: float64[5,4] = embedding(%0, %1)", "%0: float64[3,4]", "%1: int64[5]"),
        "float64[5,4] = take_slices(%0, %1, dim=0)",
    ),
    "two indices, as one into both dimensions": (
        program("%3: float64[5] = index(%0, %1, %2)", "%0: float64[3,4]", "%1: int64[5]", "%2: int64[5]"),
        "float64[5] = take_slices(%21, %20, dim=0)",
    ),
    "the transpose, which adds": (
        program("%2: float64[3,4] = index_add_zeros(%0, %1, shape=(3, 4))", "%0: float64[5,4]", "%1: int64[5]"),
        "float64[3,4] = add_slices(%0, %9, dim=0, length=3)",
    ),
    "writes": (
        program("%3: float64[3,4] = index_put(%0, %1, %2, accumulate=False)", "%0: float64[3,4]", "%1: float64[5,4]", "%2: int64[5]"),
        "float64[3,4] = put_slices(%0, %1, %10, dim=0, adds=False)",
    ),
    "elements along a dimension, of the array as a line": (
        program("%2: float64[2,4] = gather(%0, %1, dim=0)", "%0: float64[3,4]", "%1: int64[2,4]"),
        "float64[2,4] = take_slices(%3, %10, dim=0)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_reads_and_writes_are_of_slices(case: str) -> None:
    before, line = CASES[case]
    whole = parse_program(before)
    found, checks = decompose(whole)
    assert line in str(found), found
    assert whole.instructions[0].op.name not in {i.op.name for i in found.instructions}
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 3, v.shape) if v.dtype.kind == "i" else rng.standard_normal(v.shape) for v in whole.inputs]
    np.testing.assert_array_equal(run(whole, arrays)[0], run(found, arrays)[0])
    checked = Program(found.inputs, list(checks), found.instructions, found.constants)
    assert not any(run(checked, arrays))
    for k, value in enumerate(whole.inputs):
        if value.dtype.kind == "i":
            wrong = [np.array(a) for a in arrays]
            wrong[k].flat[1] = 7
            assert any(run(checked, wrong))


def test_the_whole_text_of_a_read_by_two_indices() -> None:
    found, _ = decompose(parse_program(CASES["two indices, as one into both dimensions"][0]))
    assert str(found) == (
        "program f(%0: float64[3,4], %1: int64[5], %2: int64[5])\n"
        "  %3: bool[5] = lt(%1, -3)\n"
        "  %4: bool[5] = ge(%1, 3)\n"
        "  %5: bool[5] = logical_or(%3, %4)\n"
        "  %6: float64[5] = cast(%5, dtype=float64)\n"
        "  %7: float64[] = sum_all(%6, dtype=None)\n"
        "  %8: bool[5] = lt(%1, 0)\n"
        "  %9: int64[5] = add(%1, 3)\n"
        "  %10: int64[5] = where(%8, %9, %1)\n"
        "  %11: bool[5] = lt(%2, -4)\n"
        "  %12: bool[5] = ge(%2, 4)\n"
        "  %13: bool[5] = logical_or(%11, %12)\n"
        "  %14: float64[5] = cast(%13, dtype=float64)\n"
        "  %15: float64[] = sum_all(%14, dtype=None)\n"
        "  %16: bool[5] = lt(%2, 0)\n"
        "  %17: int64[5] = add(%2, 4)\n"
        "  %18: int64[5] = where(%16, %17, %2)\n"
        "  %19: int64[5] = mul(%10, 4)\n"
        "  %20: int64[5] = add(%19, %18)\n"
        "  %21: float64[12] = reshape(%0, shape=(12,))\n"
        "  %22: float64[5] = take_slices(%21, %20, dim=0)\n"
        "  return %22\n"
    )
