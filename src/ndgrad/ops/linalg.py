"""The family of linear algebra: importing this fills the table with all of it."""

from __future__ import annotations

import importlib
import pkgutil

from ndgrad import ops
from ndgrad.ops.product import matmul

# temporary while the family is being written: import what exists
for _name in ("decomposition", "determinant", "distance", "matrix", "matrix_function", "product", "solve"):
    if any(m.name == _name for m in pkgutil.iter_modules(ops.__path__)):
        importlib.import_module(f"ndgrad.ops.{_name}")

__all__ = ["matmul"]
