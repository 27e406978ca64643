"""Programs read back from their text: the same text and the same arrays. Programs of every op:
passes/test_simplified.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.program.compiler_ops import OPS
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import left_out, parse_program
from ndgrad._src.ops.table import table
from tests.compiler.traced import arrays_for, assert_same, random_function, traced


def read_back(program: Program) -> Program:
    text = str(program)
    found = parse_program(text, left_out(program))
    assert str(found) == text
    return found


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_are_read_back(seed: int) -> None:
    function, arrays = random_function(seed)
    program = traced(function, arrays)
    for each in (program, simplify_program(program), roll_loops(simplify_program(program))):
        assert_same(each, read_back(each), arrays_for(program, arrays))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8", "uint64", "bool", "bfloat16"])
def test_constants_of_every_dtype_and_special_value(dtype: str) -> None:
    made = ndgrad.bfloat16.numpy if dtype == "bfloat16" else np.dtype(dtype)
    numbers: list[Any] = [0, 1, 1]
    if dtype == "bool":
        numbers = [True, False]
    elif made.kind == "c":
        numbers = [-0.0, np.inf, -np.inf, np.nan, complex(-0.0, -0.0), complex(1e-300, np.inf), complex(np.nan, 1.5), 0.1]
    elif made.kind not in "iu":
        numbers = [-0.0, np.inf, -np.inf, np.nan, 0.1, 1e-40]
    elif dtype == "uint64":
        numbers = [0, 2**64 - 1]
    with np.errstate(all="ignore"):
        array = np.array(numbers).astype(made)
    program = parse_program(f"program f(%0: int64[])\n  constant %1: {dtype}[{array.size}] = <>\n  return %1\n", [array])
    (found,) = read_back(program).constants.values()
    assert found.dtype == made
    assert found.tobytes() == array.tobytes()


def test_loops_in_loops_are_read_back() -> None:
    def function(x: Any, w: Any) -> Any:
        for _ in range(20):
            for _ in range(12):
                x = (x * w).sin()
            x = x + w
        return x.sum()

    arrays = [np.linspace(0, 1, 3), np.linspace(1, 2, 3)]
    program = traced(function, arrays)
    rolled = roll_loops(simplify_program(program))
    assert "loop" in {i.op.name for i in rolled.instructions}
    assert_same(rolled, read_back(rolled), arrays_for(program, arrays))


def test_no_op_of_the_compiler_is_named_like_one_of_the_table() -> None:
    assert not OPS.keys() & table.keys()


@pytest.mark.parametrize("text", ["", "program f(", "program f(%0: float64[2])\n  %1: float64[2] = nosuchop(%0)\n  return %1\n"])
def test_what_is_no_program_is_refused_with_its_line(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_program(text)
