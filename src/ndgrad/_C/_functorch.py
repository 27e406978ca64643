"""`torch._C._functorch`: inspection of tensors inside transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import modes
from ndgrad._src.core.variable import Variable, meta_of
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.interpreters.levels import level_number
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


_refuse_absent(__name__)
