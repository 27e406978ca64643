"""torch's `out=`: the values of a result are written into a given tensor, without history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.detach_checks import TANGENT, first_at_stake, stake_of
from ndgrad._src.core.dispatch import dispatch
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.core.versions import is_inference, storage_of
from ndgrad._src.ops.fill import copy

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op


def write_out(op: Op, args: tuple[Any, ...], settings: dict[str, Any], out: Variable) -> Variable:
    """Run `op(..., out=out)`: write the result into `out`, which is resized if its shape differs, as in torch."""
    refuse_out(op.name, args, out)
    return copy_into(op.name, out, dispatch(op, args, settings))


def refuse_out(name: str, *arguments: Any) -> None:
    """Raise if an argument of a call with torch's `out=`, which writes only values, carries a derivative."""
    t = first_at_stake(*arguments)
    if t is None:
        return
    kind, what = RuntimeError, f"{name}(): functions with out=... arguments don't support automatic differentiation"
    if (lost := stake_of(t)) == TANGENT:
        kind = NotImplementedError
        what = f"Trying to use forward AD with {name}_out that does not support it because it is an out= function"
    raise kind(
        f"{what}, but one of the arguments {lost} (shape {tuple(t.shape)}). Call it without out=, or on a detached "
        "tensor. [nd-out]"
    )


def copy_into(name: str, out: Variable, result: Variable) -> Variable:
    """Copy a result into the tensor given as `out=`, and return it."""
    if not isinstance(out, Variable):
        raise TypeError(f"{name}(): out= must be a tensor, not {type(out).__name__}. [nd-out]")
    have, want = np_dtype(result), np_dtype(out)
    if not np.can_cast(have, want, "same_kind"):
        raise RuntimeError(
            f"{name}(): result type {have} can't be cast to the desired output type {want} of out=. "
            "Give an out= of a dtype that holds the result. [nd-out]"
        )
    if out.run_op is not None:  # the class keeps its values elsewhere, and writes them itself
        return _copy_by_class(name, out, result)
    if tuple(out.shape) != tuple(result.shape):
        out._array = library_of(out._array).empty(tuple(result.shape), want)
    outside = scope()
    try:
        restore(outside.recording(False))
        write(copy, out, (result,), {})
    finally:
        restore(outside)
        del outside
    if not is_inference(out):
        storage_of(out).version.writer = f"{name}(out=)"
    return out


def _copy_by_class(name: str, out: Variable, result: Variable) -> Variable:
    if tuple(out.shape) != tuple(result.shape):
        raise RuntimeError(
            f"{name}(): the result is of shape {tuple(result.shape)}, and out= is a {type(out).__name__} of shape "
            f"{tuple(out.shape)}, which cannot be resized. Give an out= of the result's shape. [nd-out]"
        )
    outside = scope()
    try:
        restore(outside.recording(False))
        return out.take_whole(result)
    finally:
        restore(outside)
        del outside
