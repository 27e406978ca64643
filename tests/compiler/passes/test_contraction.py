"""Contractions as matrix products: before and after."""

from __future__ import annotations

import pytest

import tests.op_programs  # noqa: F401  # which loads all ops
from ndgrad._src.compiler.passes.contraction import contractions
from tests.compiler.traced import becomes


def test_dimensions_that_are_summed_become_one():
    becomes(
        contractions,
        """program p(%0: float64[2,3,4], %1: float64[4,3,5])
  %2: float64[2,5] = contract(%0, %1, subscripts='ijk,kjl->il')
  return %2
""",
        """program p(%0: float64[2,3,4], %1: float64[4,3,5])
  %2: float64[2,3,4] = permute(%0, dims=(0, 1, 2))
  %3: float64[3,4,5] = permute(%1, dims=(1, 0, 2))
  %4: float64[2,12] = reshape(%2, shape=(2, 12))
  %5: float64[12,5] = reshape(%3, shape=(12, 5))
  %6: float64[2,5] = matmul(%4, %5)
  %7: float64[2,5] = permute(%6, dims=(0, 1))
  return %7
""",
    )


def test_rows_times_rows_are_a_sum():
    becomes(
        contractions,
        """program p(%0: float64[3,4], %1: float64[3,4])
  %2: float64[3] = contract(%0, %1, subscripts='bk,bk->b')
  return %2
""",
        """program p(%0: float64[3,4], %1: float64[3,4])
  %2: float64[3,4] = permute(%0, dims=(0, 1))
  %3: float64[3,4] = permute(%1, dims=(0, 1))
  %4: float64[3,4] = mul(%2, %3)
  %5: float64[3] = sum(%4, dim=(1,), keepdim=False, dtype=None)
  %6: float64[3] = permute(%5, dims=(0,))
  return %6
""",
    )


@pytest.mark.parametrize("dtype", ["int64", "float16"])
def test_other_numbers_stay_as_they_are(dtype: str) -> None:
    text = f"""program p(%0: {dtype}[3,4], %1: {dtype}[4,2])
  %2: {dtype}[3,2] = contract(%0, %1, subscripts='ij,jk->ik')
  return %2
"""
    becomes(contractions, text, text)
