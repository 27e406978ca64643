"""`torch.autograd.function`: custom functions."""

from __future__ import annotations

from ndgrad._src.custom_functions.function import (
    BackwardCFunction,
    Context,
    DelayedError,
    Function,
    FunctionCtx,
    FunctionMeta,
    InplaceFunction,
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
