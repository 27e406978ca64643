"""Utilities for tests: assert_close and make_tensor as in torch, and check_op for new ops."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndgrad.testing.closeness import assert_allclose, assert_close
    from ndgrad.testing.op_checks import Sample, check_op
    from ndgrad.testing.random_tensors import make_tensor
else:
    _HOMES = {
        "Sample": "op_checks", "assert_allclose": "closeness", "assert_close": "closeness", "check_op": "op_checks",
        "make_tensor": "random_tensors",
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'ndgrad.testing' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"ndgrad.testing.{home}"), name)
        globals()[name] = value
        return value


__all__ = ["Sample", "assert_allclose", "assert_close", "check_op", "make_tensor"]
