"""torch's private `torch._vmap_internals`: the older vmap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ndgrad.func import vmap as _new

__all__ = ["vmap"]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """Call `ndgrad.func.vmap`, with a deprecation warning."""
    warnings.warn(
        "Please use ndgrad.func.vmap instead of ndgrad._vmap_internals.vmap.", FutureWarning, stacklevel=2
    )
    return _new(func, in_dims, out_dims)


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Any:
    """Call vmap without the warning; with `allow_none_pass_through`, results that are None stay None."""
    if not allow_none_pass_through:
        return _new(func, in_dims, out_dims)

    def run(*args: Any) -> Any:
        present: list[bool] = []

        def without_none(*batched: Any) -> Any:
            out = func(*batched)
            results = out if isinstance(out, (tuple, list)) else (out,)
            present[:] = [r is not None for r in results]
            return tuple(r for r in results if r is not None)

        found = iter(_new(without_none, in_dims, out_dims)(*args))
        return tuple(next(found) if there else None for there in present)

    return run
