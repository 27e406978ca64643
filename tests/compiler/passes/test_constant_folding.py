"""Constants: numbers everywhere, and what is computed of constants alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.broadcast import broadcasting
from ndgrad._src.compiler.passes.constant_folding import folding, splat_constants
from ndgrad._src.compiler.passes.rewrite import Rules
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import becomes


def fold(program: Any) -> Any:
    return Rules(folding, broadcasting)(splat_constants(program))


def test_an_array_of_one_number_is_the_number() -> None:
    becomes(
        fold,
        """program p(%0: float64[3])
  constant %1: float64[3] = [2.0, 2.0, 2.0]
  %2: float64[3] = mul(%0, %1)
  return %2
""",
        """program p(%0: float64[3])
  %1: float64[3] = mul(%0, 2.0)
  return %1
""",
    )


def test_zeros_of_both_signs_are_not_one_number() -> None:
    text = """program p(%0: float64[2])
  constant %1: float64[2] = [0.0, -0.0]
  %2: float64[2] = mul(%0, %1)
  return %2
"""
    becomes(fold, text, text)


def test_what_is_computed_of_constants_is_one() -> None:
    becomes(
        fold,
        """program p(%0: float64[2])
  constant %1: float64[2] = [1.0, 2.0]
  %2: float64[2] = exp(%1)
  %3: float64[2] = mul(%2, 0.0)
  %4: float64[2] = cos(%3)
  %5: float64[2] = add(%0, %4)
  return %5
""",
        """program p(%0: float64[2])
  %1: float64[2] = add(%0, 1.0)
  return %1
""",
    )


def test_zeros_in_the_shape_of_a_value_do_not_need_it() -> None:
    becomes(
        fold,
        """program p(%0: float64[2], %1: float64[2])
  %2: float64[2] = exp(%0)
  %3: float64[2] = zeros_like(%2)
  %4: float64[2] = fill(%2, value=3)
  %5: float64[2] = sub(%1, %3)
  return %5, %4
""",
        """program p(%0: float64[2], %1: float64[2])
  constant %2: float64[] = 3.0
  %3: float64[2] = expand(%2, shape=(2,))
  %4: float64[2] = sub(%1, 0.0)
  return %4, %3
""",
    )


def test_what_warns_or_is_large_is_computed_when_the_program_runs() -> None:
    text = """program p(%0: float64[2])
  constant %1: float64[2] = [0.0, 1.0]
  %2: float64[2] = log(%1)
  return %2
"""
    becomes(fold, text, text)
    large = """program p(%0: float64[2])
  constant %1: float64[5000] = <40000 bytes>
  %2: float64[5000] = exp(%1)
  return %2
"""
    program = parse_program(large, [np.arange(5000.0)])
    assert str(fold(program)) == str(program)


def test_expanded_values_are_broadcast_by_the_ops_themselves() -> None:
    becomes(
        broadcasting,
        """program p(%0: float64[2,3], %1: float64[3], %2: float64[])
  %3: float64[2,3] = expand(%1, shape=(2, 3))
  %4: float64[2,3] = expand(%2, shape=(2, 3))
  %5: float64[2,3] = mul(%0, %3)
  %6: float64[2,3] = maximum(%5, %4)
  %7: float64[2,3] = mul(%3, %4)
  %8: float64[2,3] = exp(%3)
  return %6, %7, %8
""",
        """program p(%0: float64[2,3], %1: float64[3], %2: float64[])
  %3: float64[2,3] = expand(%1, shape=(2, 3))
  %4: float64[2,3] = mul(%0, %1)
  %5: float64[2,3] = maximum(%4, %2)
  %6: float64[3] = mul(%1, %2)
  %7: float64[2,3] = expand(%6, shape=(2, 3))
  %8: float64[2,3] = exp(%3)
  return %5, %7, %8
""",
    )


def test_values_that_have_the_shape_only_together_stay_expanded() -> None:
    becomes(
        broadcasting,
        """program p(%0: float64[2], %1: float64[], %2: float64[])
  %3: float64[2,1] = reshape(%0, shape=(2, 1))
  %4: float64[1,3] = expand(%1, shape=(1, 3))
  %5: float64[1,3] = expand(%2, shape=(1, 3))
  %6: bool[2,3] = gt(%3, %4)
  %7: float64[2,3] = where(%6, %3, %4)
  %8: float64[2,3] = atan2(%3, %4)
  %9: float64[1,3] = atan2(%4, %5)
  return %7, %8, %9
""",
        """program p(%0: float64[2], %1: float64[], %2: float64[])
  %3: float64[2,1] = reshape(%0, shape=(2, 1))
  %4: float64[1,3] = expand(%1, shape=(1, 3))
  %5: bool[2,1] = gt(%3, %1)
  %6: bool[2,3] = expand(%5, shape=(2, 3))
  %7: float64[2,3] = where(%6, %3, %1)
  %8: float64[2,3] = atan2(%3, %4)
  %9: float64[1,3] = atan2(%4, %2)
  return %7, %8, %9
""",
    )


def test_a_number_of_another_dtype_stays_an_array() -> None:
    text = """program p(%0: float32[2])
  constant %1: float64[] = 0.1
  %2: float64[2] = mul(%0, %1)
  return %2
"""
    becomes(broadcasting, text, text)
