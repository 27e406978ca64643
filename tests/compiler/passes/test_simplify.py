"""Arithmetic that does nothing, and what only looks like it."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.compiler.passes.simplify import no_arithmetic
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import assert_same, becomes

SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 5e-324, -1e308])


@pytest.mark.parametrize("line", ["mul(%0, 1)", "mul(1.0, %0)", "div(%0, 1)", "sub(%0, 0)", "sub(%0, 0.0)", "add(%0, -0.0)", "pow(%0, 1)"])
def test_it_does_nothing(line: str) -> None:
    head = "program p(%0: float64[9])\n"
    text = f"{head}  %1: float64[9] = {line}\n  return %1\n"
    becomes(no_arithmetic, text, f"{head}  return %0\n")
    assert_same(parse_program(text), parse_program(f"{head}  return %0\n"), [SPECIAL])


@pytest.mark.parametrize(
    "line", ["add(%0, 0.0)", "add(%0, 0)", "sub(%0, -0.0)", "mul(%0, 0.0)", "sub(0.0, %0)", "mul(%0, -1.0)", "div(1.0, %0)", "sub(%0, %0)"]
)
def test_it_does_something(line: str) -> None:
    text = f"program p(%0: float64[9])\n  %1: float64[9] = {line}\n  return %1\n"
    becomes(no_arithmetic, text, text)


def test_a_product_of_complex_numbers_with_one_stays() -> None:
    text = "program p(%0: complex128[2])\n  %1: complex128[2] = mul(%0, 1.0)\n  return %1\n"
    becomes(no_arithmetic, text, text)


def test_what_changes_the_dtype_stays() -> None:
    text = "program p(%0: int64[2])\n  %1: float64[2] = mul(%0, 1.0)\n  return %1\n"
    becomes(no_arithmetic, text, text)


def test_zero_added_to_integers_is_nothing() -> None:
    head = "program p(%0: int64[2])\n"
    becomes(no_arithmetic, f"{head}  %1: int64[2] = add(%0, 0)\n  return %1\n", f"{head}  return %0\n")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["neg(%0)", "neg(%2)"], "return %0"),
        (["neg(%1)", "add(%0, %2)"], "sub(%0, %1)"),
        (["neg(%1)", "add(%2, %0)"], "sub(%0, %1)"),
        (["neg(%1)", "sub(%0, %2)"], "add(%0, %1)"),
        (["neg(%0)", "mul(%2, 2.0)"], "mul(%0, -2.0)"),
        (["neg(%0)", "div(2.0, %2)"], "div(-2.0, %0)"),
        (["square(%0)", "mul(%2, 1)"], "mul(%0, %0)"),
        (["pow(%0, 2)", "mul(%2, 1)"], "mul(%0, %0)"),
        (["keep(%0, %1)", "keep(%2, %1)"], "keep(%0, %1)"),
    ],
)
def test_signs_and_squares(lines: list[str], expected: str) -> None:
    head = "program p(%0: float64[9], %1: float64[9])\n"
    before = head + "".join(f"  %{k}: float64[9] = {line}\n" for k, line in enumerate(lines, 2)) + f"  return %{len(lines) + 1}\n"
    after = head + (f"  {expected}\n" if expected.startswith("return") else f"  %2: float64[9] = {expected}\n  return %2\n")
    becomes(no_arithmetic, before, after)
    every = np.repeat(SPECIAL, 9), np.tile(SPECIAL, 9)
    wide = before.replace("[9]", "[81]"), after.replace("[9]", "[81]")
    assert_same(*map(parse_program, wide), every)


def test_two_negative_factors_are_none() -> None:
    becomes(
        no_arithmetic,
        """program p(%0: float64[3], %1: float64[3])
  %2: float64[3] = neg(%0)
  %3: float64[3] = mul(%2, %1)
  %4: float64[3] = neg(%3)
  return %4
""",
        """program p(%0: float64[3], %1: float64[3])
  %2: float64[3] = mul(%0, %1)
  return %2
""",
    )


def test_masks_that_are_constant() -> None:
    becomes(
        no_arithmetic,
        """program p(%0: float64[3])
  constant %1: bool[3] = [True, True, True]
  constant %2: bool[3] = [False, False, False]
  constant %3: bool[3] = [False, True, False]
  %4: float64[3] = keep(%0, %1)
  %5: float64[3] = keep(%0, %2)
  %6: float64[3] = keep(%0, %3)
  return %4, %5, %6
""",
        """program p(%0: float64[3])
  constant %1: bool[3] = [False, True, False]
  constant %2: float64[] = 0.0
  %3: float64[3] = expand(%2, shape=(3,))
  %4: float64[3] = keep(%0, %1)
  return %0, %3, %4
""",
    )
