"""Ops on a device: kernels of our own where there are any, CuPy's functions elsewhere.

An elementwise op, and the rule of one, is a formula (_src.arrays.formulas), of which one kernel is made: CuPy would
start one per step. NDGRAD_DEVICE_KERNELS=0 leaves all to CuPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import FLOAT32, half_of, rounded
from ndgrad._src.foundations import registry

_unknown = object()
_found: Any = _unknown


def kernels() -> Any:
    """The kernels, None if there are none."""
    global _found
    if _found is _unknown:
        wish = os.environ.get("NDGRAD_DEVICE_KERNELS", "1")
        if wish not in ("0", "1"):
            raise ValueError(
                f"NDGRAD_DEVICE_KERNELS is {wish!r}, and can be 1 (use kernels of ndgrad's own on a GPU) or 0 "
                "(CuPy's alone). [nd-environment]"
            )
        _found = registry.eager_kernels.device_kernels() if wish == "1" else None
    return _found


def check_later(index: Any, low: int, high: int, error: Callable[[int], Exception]) -> bool:
    """Have a device look for an index outside of [low, high); False if it cannot, and the host must."""
    found = kernels() if is_on_device(index) else None
    return found is not None and bool(found.check(index, low, high, error))


def rows_later(table: Any, index: Any, error: Callable[[int], Exception]) -> Any:
    """The rows of a table on a device, whose indices it checks itself; None if it cannot."""
    found = kernels() if is_on_device(table) and is_on_device(index) else None
    return None if found is None else found.rows(table, index, error)


def targets_later(index: Any, classes: int, ignored: int, error: Callable[[int], Exception]) -> Any:
    """Class numbers on a device, which checks them itself, without those that are ignored, and which count; None if it
    cannot."""
    found = kernels() if is_on_device(index) else None
    return None if found is None else found.targets(index, classes, ignored, error)


def scalar_one(like: Any, dtype: Any) -> Any:
    """A new array without dimensions that holds 1, beside an array on a device; None if there is no kernel for it."""
    found = kernels() if is_on_device(like) else None
    return None if found is None else found.scalar_one(dtype, like.data.device_id)


def copy_to(to: Any, given: Any) -> None:
    """to[...] = given."""
    found = kernels() if is_on_device(to) and is_on_device(given) else None
    if found is None or not found.copy_into(to, given):
        to[...] = given


def in_dtype(x: Any, dtype: Any) -> Any:
    """An array in another dtype."""
    found = kernels() if is_on_device(x) else None
    out = None if found is None else found.cast((x,), {"dtype": dtype})
    return x.astype(dtype) if out is None else out


def add_into(to: Any, given: Any) -> None:
    """to += given."""
    found = kernels()
    if found is None or not found.copy_into(to, given, adds=True):
        to += given


def device_forward(op: Any, np: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The forward function of an op for arrays of a device's library, of which CuPy's part is given."""
    found = kernels()
    own, rounds = None if found is None else found.forward_of(np, op), op.rounds_numbers
    if own is None and not rounds:
        return forward

    def run(*arrays: Any, **settings: Any) -> Any:
        if own is not None:
            out = own(arrays, settings)
            if out is not None:
                return out
        out = forward(*arrays, **settings)
        if rounds and out.dtype is FLOAT32:
            out = rounded(out, half_of(arrays, True))  # bfloat16 and a Python number make float32 in NumPy's rules
        return out

    directly = getattr(own, "directly", None)
    # what a power is depends on its exponent
    return run if directly is None or op.settings or op.name == "pow" else directly(run)

