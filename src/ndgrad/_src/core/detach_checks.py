"""Check whether a derivative would be lost if plain values replaced a tensor: the check of every exit from the graph.

An exit (`numpy()`, `float()`, `out=ndarray`, a random draw with a tensor's parameters, ...) returns plain values. It
drops a derivative in three cases: the tensor requires grad and is being recorded; it carries a tangent of an open
forward level; or it belongs to an open transform. In the third case its payload is another tensor, to which the same
check applies. For a batch, the values of all samples would be lost.

`requires_grad` alone is not sufficient: in forward mode nothing requires grad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.variable import Variable, innermost_array, requires_grad
from ndgrad._src.core.view import tangents_of

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload

#: Results of `stake_of` in reverse mode and in forward mode.
REQUIRES_GRAD = "requires grad"
TANGENT = "carries a tangent of forward mode"
#: Result of `stake_of` for a tensor with one value per sample.
BATCHED = "is batched by vmap"


#: Classes of numbers whose tensors are made when they are needed. All have a derivative in reverse mode.
ALWAYS_AT_STAKE: set[type] = set()


def stake_of(t: object) -> str | None:
    """Return what the plain values of a tensor would lose, as a predicate for error texts; None if nothing."""
    if t.__class__ in ALWAYS_AT_STAKE and thread.grad_enabled:
        return REQUIRES_GRAD
    while isinstance(t, Variable):
        if thread.grad_enabled and requires_grad(t):
            return REQUIRES_GRAD
        meta = t._meta
        if meta is not None:
            if meta.batch_level:
                return BATCHED
            if process.open and thread.forward_grad_enabled and tangents_of(t):
                return TANGENT
        t = t._array
    return None


def first_at_stake(*values: Any) -> Variable | None:
    """Return the first tensor in `values` (or nested in lists, tuples, dicts) with a derivative to lose, or None."""
    for v in values:
        if isinstance(v, Variable):
            if stake_of(v) is not None:
                return v
        elif isinstance(v, (list, tuple, dict)):
            found = first_at_stake(*(v.values() if isinstance(v, dict) else v))
            if found is not None:
                return found
    return None


def at_stake(*values: Any) -> bool:
    """True if a derivative would be lost if plain values replaced the tensors among `values`."""
    return first_at_stake(*values) is not None


def refuse_loss_in_lent(name: str, target: Variable, values: tuple[Any, ...]) -> None:
    """Raise if a value with a derivative is written to a constant Array over the memory of a plain ndarray.

    The ndarray would receive the value without the derivative, and code that reads it there would lose it silently. The
    argument of a transform is not a constant and may be written. For tensors from from_numpy, torch's users expect it.
    """
    if getattr(target._storage, "known", False):
        return
    lost = first_at_stake(*values) if target.is_numpy_type and stake_of(target) is None else None
    if lost is not None:
        raise RuntimeError(
            f"{name}: what is written {stake_of(lost)} (shape {tuple(lost.shape)}), and the Array that it "
            f"is written to (shape {tuple(target.shape)}) lies in the memory of a plain numpy.ndarray, "
            "of which asarray() makes no copy: read there, the value would have lost its derivative. "
            "Make the Array by array(), which copies, or detach() what is written. [nd-drops-gradient]"
        )


def as_number(function: str, argument: str, value: Payload) -> Any:
    """Return the value of an argument without a derivative (a slope, an order, a bound); a tensor gives its element.

    torch refuses tensors that require grad here, and so do we: a tensor among the settings of an op would silently
    leave the graph.
    """
    if not isinstance(value, Variable):
        return value
    lost, array = stake_of(value), innermost_array(value)
    if lost is not None or array.size != 1:
        if lost is BATCHED:
            raise RuntimeError(
                "vmap: It looks like you're calling .item() on a Tensor: argument "
                f"{argument!r} of {function}() must be one number, but differs from one sample to the next (shape "
                f"{tuple(value.shape)}). Compute with the tensor instead, or call {function}() outside of vmap. "
                "[nd-vmap-value]"
            )
        what = f"a tensor of shape {tuple(value.shape)}" + ("" if lost is None else f" that {lost}")
        raise TypeError(
            f"{function}(): argument {argument!r} must be a number, not {what}: "
            "no derivative passes through it here. Detach the tensor if its value is meant, or write the function with "
            "tensor operations in which it takes part. [nd-no-derivative]"
        )
    return array.item()


def with_numbers(op: Op, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a call of `op`, with tensors converted to numbers for numeric settings."""
    tensors = [name for name in op.number_settings if isinstance(settings.get(name), Variable)]
    return (
        settings
        if not tensors
        else {**settings, **{name: as_number(op.name, name, settings[name]) for name in tensors}}
    )
