"""For people's own tests: assert_close and make_tensor as in torch, and check_op for those who add an op."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ndgrad.shadowing import prefer_functions

if TYPE_CHECKING:
    from ndgrad.testing.assert_close import assert_allclose, assert_close
    from ndgrad.testing.check_op import Sample, check_op
    from ndgrad.testing.make_tensor import make_tensor
else:
    _HOMES = {
        "Sample": "check_op", "assert_allclose": "assert_close", "assert_close": "assert_close", "check_op": "check_op",
        "make_tensor": "make_tensor",
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'ndgrad.testing' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"ndgrad.testing.{home}"), name)
        globals()[name] = value
        return value


__all__ = ["Sample", "assert_allclose", "assert_close", "check_op", "make_tensor"]

prefer_functions(__name__, "assert_close", "check_op", "make_tensor")
