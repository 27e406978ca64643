"""Neural networks: modules, the functions they are made of, initial values, and what training needs around them."""

from __future__ import annotations

from ndgrad.nn import functional, init, modules, parameter, utils
from ndgrad.nn.modules import *  # noqa: F403
from ndgrad.nn.modules import __all__ as _modules
from ndgrad.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "modules", "parameter", "utils",
    *_modules,
]  # fmt: skip
