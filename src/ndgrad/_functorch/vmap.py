"""`torch._functorch.vmap`: vmap, and functions on which containers of tensors build their own.

`vmap` flattens containers by their registration as pytrees. It does not call these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad import Tensor
from ndgrad._C._functorch import _add_batch_dim, _remove_batch_dim
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.func import chunk_vmap, vmap
from ndgrad.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_map_, tree_unflatten

__all__ = [
    "Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_get_name", "_maybe_remove_batch_dim",
    "_remove_batch_dim", "chunk_vmap", "tree_flatten", "tree_map_", "tree_unflatten", "vmap",
]  # fmt: skip


def _get_name(func: Callable[..., Any]) -> str:
    """Return the name of a function in messages."""
    return str(getattr(func, "__name__", None) or repr(func))


def _maybe_remove_batch_dim(name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: Any) -> Any:
    """Return an output of a function without the batch of a vmap, or unchanged if `out_dim` is None."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. "
            "Return it by other means, or make a tensor of it. [nd-transform-result]"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


_refuse_absent(__name__)
