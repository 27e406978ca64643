"""Products that leave a program transposed: before and after."""

from __future__ import annotations

import tests.op_programs  # noqa: F401  # which loads all ops
from ndgrad._src.compiler.passes.transposed_products import transpose_products
from tests.compiler.traced import becomes


def test_a_product_is_computed_in_the_order_in_which_it_leaves() -> None:
    becomes(
        transpose_products,
        """program p(%0: float64[2,3,4], %1: float64[2,4,5])
  %2: float64[2,3,5] = matmul(%0, %1)
  %3: float64[2,5,3] = permute(%2, dims=(0, 2, 1))
  return %3
""",
        """program p(%0: float64[2,3,4], %1: float64[2,4,5])
  %2: float64[2,4,3] = permute(%0, dims=(0, 2, 1))
  %3: float64[2,5,4] = permute(%1, dims=(0, 2, 1))
  %4: float64[2,5,3] = matmul(%3, %2)
  return %4
""",
    )


def test_so_are_sums_of_products_and_transposes_of_operands_cancel() -> None:
    becomes(
        transpose_products,
        """program p(%0: float64[4,3], %1: float64[4,5], %2: float64[3,5])
  %3: float64[3,4] = permute(%0, dims=(1, 0))
  %4: float64[3,5] = matmul(%3, %1)
  %5: float64[3,3] = matmul(%3, %0)
  %6: float64[3,5] = matmul(%5, %2)
  %7: float64[3,5] = add(%4, %6)
  %8: float64[5,3] = permute(%7, dims=(1, 0))
  return %8
""",
        """program p(%0: float64[4,3], %1: float64[4,5], %2: float64[3,5])
  %3: float64[3,4] = permute(%0, dims=(1, 0))
  %4: float64[3,3] = matmul(%3, %0)
  %5: float64[5,4] = permute(%1, dims=(1, 0))
  %6: float64[5,3] = matmul(%5, %0)
  %7: float64[3,3] = permute(%4, dims=(1, 0))
  %8: float64[5,3] = permute(%2, dims=(1, 0))
  %9: float64[5,3] = matmul(%8, %7)
  %10: float64[5,3] = add(%6, %9)
  return %10
""",
    )


def test_what_somebody_else_reads_or_other_orders_stay() -> None:
    for text in (
        """program p(%0: float64[3,4], %1: float64[4,5])
  %2: float64[3,5] = matmul(%0, %1)
  %3: float64[5,3] = permute(%2, dims=(1, 0))
  %4: float64[3,5] = exp(%2)
  return %3, %4
""",
        """program p(%0: float64[3,4], %1: float64[4,5])
  %2: float64[3,5] = matmul(%0, %1)
  %3: float64[5,3] = permute(%2, dims=(1, 0))
  return %2, %3
""",
        """program p(%0: float64[2,3,4], %1: float64[2,4,5])
  %2: float64[2,3,5] = matmul(%0, %1)
  %3: float64[3,2,5] = permute(%2, dims=(1, 0, 2))
  return %3
""",
    ):
        becomes(transpose_products, text, text)
