"""For people's own tests: assert_close and make_tensor as in torch, and check_op for those who add an op."""

from __future__ import annotations

from typing import Any

from ndgrad.shadowing import prefer_functions

_HOMES = {"Sample": "check_op", "assert_allclose": "assert_close", "assert_close": "assert_close", "check_op": "check_op"}
_HOMES["make_tensor"] = "make_tensor"
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ndgrad.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ndgrad.testing.{home}"), name)
    globals()[name] = value
    return value


prefer_functions(__name__, "assert_close", "check_op", "make_tensor")
