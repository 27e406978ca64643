"""Common subexpressions."""

from __future__ import annotations

from ndgrad._src.compiler.passes.cse import merge_repeated
from tests.compiler.traced import becomes


def test_the_same_is_computed_once() -> None:
    becomes(
        merge_repeated,
        """program p(%0: float64[4,3], %1: float64[4,3])
  constant %2: float64[2] = [1.0, 2.0]
  constant %3: float64[2] = [1.0, 2.0]
  %4: float64[4,3] = mul(%0, %1)
  %5: float64[4,3] = mul(%1, %0)
  %6: float64[4,3] = add(%4, %5)
  %7: float64[3] = getitem(%6, index=(slice(1, 2, 1), slice(0, 3, 1)))
  %8: float64[3] = getitem(%6, index=(slice(1, 2, 1), slice(0, 3, 1)))
  %9: float64[2] = add(%2, %3)
  return %7, %8, %9
""".replace("float64[3] = getitem", "float64[1,3] = getitem"),
        """program p(%0: float64[4,3], %1: float64[4,3])
  constant %2: float64[2] = [1.0, 2.0]
  %3: float64[4,3] = mul(%0, %1)
  %4: float64[4,3] = add(%3, %3)
  %5: float64[1,3] = getitem(%4, index=(slice(1, 2, 1), slice(0, 3, 1)))
  %6: float64[2] = add(%2, %2)
  return %5, %5, %6
""",
    )


def test_what_only_looks_the_same_stays() -> None:
    text = """program p(%0: float64[2], %1: float64[2])
  %2: float64[2] = sub(%0, %1)
  %3: float64[2] = sub(%1, %0)
  %4: float64[2] = add(%0, 0.0)
  %5: float64[2] = add(%0, -0.0)
  %6: float64[2] = pow(%0, 1)
  %7: float64[2] = pow(%0, 1.0)
  %8: float64[] = sum(%0, dim=(0,), keepdim=False, dtype=None)
  %9: float64[1] = sum(%0, dim=(0,), keepdim=True, dtype=None)
  return %2, %3, %4, %5, %6, %7, %8, %9
"""
    becomes(merge_repeated, text, text)


def test_several_results_are_one_computation() -> None:
    becomes(
        merge_repeated,
        """program p(%0: float64[4])
  %1: float64[2], %2: float64[2] = split(%0, split_size=2, dim=0)
  %3: float64[2], %4: float64[2] = split(%0, split_size=2, dim=0)
  %5: float64[2] = add(%1, %4)
  return %5
""",
        """program p(%0: float64[4])
  %1: float64[2], %2: float64[2] = split(%0, split_size=2, dim=0)
  %3: float64[2] = add(%1, %2)
  return %3
""",
    )
