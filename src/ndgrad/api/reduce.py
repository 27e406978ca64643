"""Reductions under torch's names."""

from __future__ import annotations

from typing import Any

from ndgrad.api.arguments import as_dims, both_worlds
from ndgrad.ops import reduce as ops

__all__ = ["sum"]
METHODS = ("sum",)


@both_worlds
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over `dim` (all dimensions by default)."""
    if dtype is not None:
        input = input.to(dtype)
    return ops.sum(input, dim=as_dims(dim, input.ndim), keepdim=keepdim)
