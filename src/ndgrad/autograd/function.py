"""`torch.autograd.function`: custom functions."""

from __future__ import annotations

from ndgrad._src.custom_functions.function import (  # noqa: F401  # torch programs import these private names
    BackwardCFunction,
    Context,
    DelayedError,
    Function,
    FunctionCtx,
    FunctionMeta,
    InplaceFunction,
    _is_setup_context_defined,
    _SingleLevelFunction,
    once_differentiable,
)
from ndgrad._src.custom_functions.nested_function import NestedIOFunction

__all__ = [
    "BackwardCFunction",
    "Context",
    "DelayedError",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
