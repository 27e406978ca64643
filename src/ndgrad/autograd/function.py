"""`torch.autograd.function`: custom functions."""

from __future__ import annotations

from ndgrad._src.custom_functions.function import (
    BackwardCFunction as BackwardCFunction,
)
from ndgrad._src.custom_functions.function import (
    Context as Context,
)
from ndgrad._src.custom_functions.function import (
    DelayedError as DelayedError,
)
from ndgrad._src.custom_functions.function import (
    Function as Function,
)
from ndgrad._src.custom_functions.function import (
    FunctionCtx as FunctionCtx,
)
from ndgrad._src.custom_functions.function import (
    FunctionMeta as FunctionMeta,
)
from ndgrad._src.custom_functions.function import (
    InplaceFunction as InplaceFunction,
)
from ndgrad._src.custom_functions.function import (
    NestedIOFunction as NestedIOFunction,
)
from ndgrad._src.custom_functions.function import (
    once_differentiable as once_differentiable,
)

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
