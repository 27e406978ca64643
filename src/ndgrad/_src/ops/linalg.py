"""All families of linear algebra. Importing this module adds them to the table."""

from __future__ import annotations

from ndgrad._src.ops import decomposition, determinant, distance, matrix, matrix_function, product, solve
from ndgrad._src.ops.product import matmul

__all__ = ["decomposition", "determinant", "distance", "matmul", "matrix", "matrix_function", "product", "solve"]
