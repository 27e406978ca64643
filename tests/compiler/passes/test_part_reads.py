"""Parts that are read back from where they were put."""

from __future__ import annotations

import pytest

from ndgrad._src.compiler.passes.part_reads import read_parts
from ndgrad._src.compiler.passes.rewrite import Rules
from ndgrad._src.compiler.passes.views import canonical_views
from tests.compiler.traced import becomes

both = Rules(canonical_views, read_parts)


@pytest.mark.parametrize(
    ("put", "read", "expected"),
    [
        ("embed(%0, shape=(5, 3), index=(2,))", "getitem(%2, index=(2,))", "%0"),
        ("embed(%0, shape=(5, 3), index=(2,))", "getitem(%2, index=(-3,))", "%0"),
        ("slice_scatter(%1, %0, index=(2,))", "select(%2, dim=0, index=2)", "%0"),
    ],
)
def test_the_same_part_is_what_was_put_there(put: str, read: str, expected: str) -> None:
    text = "program p(%0: float64[3], %1: float64[5,3])\n"
    becomes(both, f"{text}  %2: float64[5,3] = {put}\n  %3: float64[3] = {read}\n  return %3\n", f"{text}  return {expected}\n")


def test_another_part_is_what_was_there_before() -> None:
    becomes(
        both,
        """program p(%0: float64[3], %1: float64[5,3])
  %2: float64[5,3] = slice_scatter(%1, %0, index=(2,))
  %3: float64[2,3] = getitem(%2, index=(slice(3, 5, None),))
  return %3
""",
        """program p(%0: float64[3], %1: float64[5,3])
  %2: float64[2,3] = getitem(%1, index=(slice(3, 5, 1), slice(0, 3, 1)))
  return %2
""",
    )


def test_another_part_of_what_was_embedded_is_zero() -> None:
    becomes(
        both,
        """program p(%0: float64[3])
  %1: float64[5,3] = embed(%0, shape=(5, 3), index=(2,))
  %2: float64[3] = getitem(%1, index=(3,))
  return %2
""",
        """program p(%0: float64[3])
  constant %1: float64[] = 0.0
  %2: float64[3] = expand(%1, shape=(3,))
  return %2
""",
    )


def test_a_part_that_overlaps_stays() -> None:
    text = """program p(%0: float64[2,3], %1: float64[5,3])
  %2: float64[5,3] = slice_scatter(%1, %0, index=(slice(1, 3, 1), slice(0, 3, 1)))
  %3: float64[2,3] = getitem(%2, index=(slice(2, 4, 1), slice(0, 3, 1)))
  return %3
"""
    becomes(both, text, text)


def test_a_part_of_a_part_that_was_put() -> None:
    becomes(
        both,
        """program p(%0: float64[3,2])
  %1: float64[8,2] = embed(%0, shape=(8, 2), index=(slice(1, 6, 2), slice(0, 2, 1)))
  %2: float64[2] = select(%1, dim=0, index=3)
  return %2
""",
        """program p(%0: float64[3,2])
  %1: float64[2] = getitem(%0, index=(1, slice(0, 2, 1)))
  return %1
""",
    )


def test_parts_of_what_was_joined() -> None:
    becomes(
        both,
        """program p(%0: float64[3], %1: float64[3], %2: float64[2])
  %3: float64[2,3] = stack(%0, %1, dim=0)
  %4: float64[3] = select(%3, dim=0, index=1)
  %5: float64[5] = cat(%0, %2, dim=0)
  %6: float64[2] = slice(%5, dim=0, start=3, stop=5, step=1)
  %7: float64[2] = slice(%5, dim=0, start=1, stop=3, step=1)
  return %4, %6, %7
""",
        """program p(%0: float64[3], %1: float64[3], %2: float64[2])
  %3: float64[2] = getitem(%0, index=(slice(1, 3, 1),))
  return %1, %2, %3
""",
    )


def test_what_is_overwritten_is_not_written() -> None:
    becomes(
        both,
        """program p(%0: float64[5], %1: float64[2])
  %2: float64[5] = slice_scatter(%0, 1.0, index=(2,))
  %3: float64[5] = slice_scatter(%2, %1, index=(slice(1, 3, None),))
  return %3
""",
        """program p(%0: float64[5], %1: float64[2])
  %2: float64[5] = slice_scatter(%0, %1, index=(slice(1, 3, 1),))
  return %2
""",
    )


def test_a_write_of_everything_is_what_was_written_in_the_dtype_of_the_target() -> None:
    becomes(
        both,
        """program p(%0: float32[2], %1: float64[2])
  %2: float32[2] = slice_scatter(%0, %1, index=(slice(None, None, None),))
  return %2
""",
        """program p(%0: float32[2], %1: float64[2])
  %2: float32[2] = cast(%1, dtype=float32)
  return %2
""",
    )


def test_a_stack_of_one_value_is_a_broadcast() -> None:
    becomes(
        both,
        """program p(%0: float64[3])
  %1: float64[4,3] = stack(%0, %0, %0, %0, dim=0)
  return %1
""",
        """program p(%0: float64[3])
  %1: float64[1,3] = reshape(%0, shape=(1, 3))
  %2: float64[4,3] = expand(%1, shape=(4, 3))
  return %2
""",
    )
