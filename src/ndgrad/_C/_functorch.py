"""`torch._C._functorch`: inspection of tensors inside transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import modes
from ndgrad._src.core.variable import Variable, meta_of
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.interpreters.batching import BatchLevel, batch_tensor
from ndgrad._src.interpreters.levels import level_number
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.unwrap import debug_unwrap

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def is_functorch_wrapped_tensor(t: Any) -> bool:
    """True if a tensor belongs to a transform."""
    return level_number(t) != 0


def is_batchedtensor(t: Any) -> bool:
    """True if the innermost transform of a tensor is a vmap."""
    number = level_number(t)
    return number != 0 and isinstance(t, Variable) and meta_of(t).batch_level == number


def is_gradtrackingtensor(t: Any) -> bool:
    """True if the innermost transform of a tensor is a grad, vjp or jvp."""
    return is_functorch_wrapped_tensor(t) and not is_batchedtensor(t)


def is_functionaltensor(t: Any) -> bool:
    """Return False: functionalize leaves no trace in tensors here."""
    return False


is_legacy_batchedtensor = is_functionaltensor


def maybe_get_level(t: Any) -> int:
    """Return the depth of a tensor's transform among the open ones, counted from 1; -1 for a plain tensor."""
    number = level_number(t)
    depths = {level.number: depth for depth, level in enumerate(modes().levels, start=1)}
    return depths.get(number, -1)


def maybe_get_bdim(t: Any) -> int:
    """Return the batch dimension of the tensor under a tensor of a vmap, always the first; -1 for others."""
    return 0 if is_batchedtensor(t) else -1


def get_unwrapped(t: Tensor) -> Tensor:
    """Return the tensor under a tensor of a transform."""
    if not is_functorch_wrapped_tensor(t):
        raise RuntimeError("No wrapped tensor: get_unwrapped takes a tensor of a transform. [nd-in-transform]")
    return debug_unwrap(t, recurse=False)


def maybe_current_level() -> int | None:
    """Return the number of open transforms; None if there is none."""
    return len(modes().levels) or None


def current_level() -> int:
    """Return the number of open transforms; there must be one."""
    depth = maybe_current_level()
    if depth is None:
        raise RuntimeError("current_level: no transform is open. [nd-in-transform]")
    return depth


def _add_batch_dim(t: Tensor, in_dim: int, level: int) -> Tensor:
    """Return the tensor of an open vmap over dimension `in_dim` of a tensor. Transforms are counted from 1."""
    return batch_tensor(_find_vmap(level), t.movedim(in_dim, 0))


def _remove_batch_dim(t: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return the tensor under one of an open vmap, with the batch at dimension `out_dim`. Others are expanded."""
    number = _find_vmap(level).number
    payload = t._array if level_number(t) == number else tensor_ops.expand(t, shape=(batch_size, *t.shape))
    return payload.movedim(0, out_dim)


def _find_vmap(level: int) -> BatchLevel:
    levels = modes().levels
    found = levels[level - 1] if 0 < level <= len(levels) else None
    if not isinstance(found, BatchLevel):
        raise RuntimeError(f"transform {level} is not an open vmap: {len(levels)} are open. [nd-in-transform]")
    return found


_refuse_absent(__name__)
