"""Ops on a device: ndgrad's own kernels if available, CuPy's functions otherwise.

An elementwise op, and its rule, is a formula (_src.ops.formulas) compiled to one kernel; CuPy would launch one
kernel per step. NDGRAD_DEVICE_KERNELS=0 leaves everything to CuPy. If a kernel cannot be compiled, a warning names
the op, and CuPy computes it from then on.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numpy import dtype as as_dtype

from ndgrad._src.arrays import library
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import FLOAT32, half_of, round_to
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.kernel_error import KernelError

_unknown = object()
_found: Any = _unknown
#: Number of open blocks without kernels.
_suppressed = 0


@contextmanager
def without_kernels() -> Iterator[None]:
    """Leave everything to CuPy inside the block."""
    global _suppressed
    _suppressed += 1
    try:
        yield
    finally:
        _suppressed -= 1


def warn_of(name: str, error: KernelError) -> None:
    """Warn that CuPy computes an op because its kernel could not be compiled."""
    warnings.warn(f"{name}: {error} CuPy computes it instead.", RuntimeWarning, stacklevel=3)


def _attempt(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a kernel; None, with a warning, if it could not be compiled."""
    try:
        return function(*arguments)
    except KernelError as error:
        warn_of(name, error)
        return None


def kernels() -> Any:
    """Return the kernels, or None if there are none."""
    global _found
    if _suppressed:
        return None
    if _found is _unknown:
        wish = os.environ.get("NDGRAD_DEVICE_KERNELS", "1")
        if wish not in ("0", "1"):
            raise ValueError(
                f"NDGRAD_DEVICE_KERNELS is {wish!r}, but can only be 1 (use kernels of ndgrad's own on a GPU) or 0 "
                "(CuPy's alone). [nd-environment]"
            )
        _found = registry.eager_kernels.device_kernels() if wish == "1" else None
    return _found


def check_later(index: Any, low: int, high: int, error: Callable[[int], Exception]) -> bool:
    """Let the device check for an index outside of [low, high). Return False if it cannot, so that the host must
    check.
    """
    found = kernels() if is_on_device(index) else None
    return found is not None and bool(found.check(index, low, high, error))


def wrap_later(index: Any, size: int, error: Callable[[int], Exception]) -> Any:
    """Return indices in [-size, size) on a device as indices from the start; None if it cannot check them itself."""
    found = kernels() if is_on_device(index) else None
    return None if found is None else found.wrap_index(index, size, error)


def rows_later(table: Any, index: Any, error: Callable[[int], Exception]) -> Any:
    """Return the rows of a table on a device, which checks the indices itself; None if it cannot."""
    found = kernels() if is_on_device(table) and is_on_device(index) else None
    return None if found is None else found.rows(table, index, error)


def targets_later(index: Any, classes: int, ignored: int, error: Callable[[int], Exception]) -> Any:
    """Return class numbers on a device without the ignored ones, and a mask of those that count; None if it cannot.

    The device checks the numbers itself.
    """
    found = kernels() if is_on_device(index) else None
    return None if found is None else found.targets(index, classes, ignored, error)


def scalar_one(like: Any, dtype: Any) -> Any:
    """Return a new 0-d array that holds 1, on the device of an array; None if there is no kernel for it."""
    found = kernels() if is_on_device(like) else None
    return None if found is None else _attempt("ones", found.scalar_one, dtype, like.data.device_id)


def make_filled(np: Any, shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """Return an array of a library, full of one number."""
    found = kernels() if np is library.device_library else None
    out = None
    if found is not None and value.__class__ in (bool, int, float):
        out = _attempt("full", found.make_filled, tuple(shape), value, as_dtype(dtype))
    if out is not None:
        return out
    is_zero = value.__class__ in (bool, int) and not value  # unlike -0.0
    return np.zeros(shape, dtype) if is_zero else np.full(shape, value, dtype)


def make_alike(x: Any, value: Any) -> Any:
    """Return a new array like a contiguous one on the current device, full of one number.

    The result is None for other arrays, and if there is no kernel.
    """
    found = kernels() if x._c_contiguous else None
    if found is None or x.data.device_id != library.device_library.cuda.runtime.getDevice():
        return None
    return _attempt("full", found.make_filled, x.shape, value, x.dtype)


def copy_array(np: Any, x: Any) -> Any:
    """Return a contiguous copy of an array of a library."""
    found = kernels() if is_on_device(x) else None
    out = None if found is None else _attempt("copy", found.copy_of, x)
    return np.array(x, order="C") if out is None else out


def copy_to(to: Any, given: Any) -> None:
    """Assign to[...] = given."""
    found = kernels() if is_on_device(to) and is_on_device(given) else None
    if found is None or not _attempt("copy", found.copy_into, to, given):
        to[...] = given


def cast_array(x: Any, dtype: Any) -> Any:
    """Return an array in another dtype."""
    found = kernels() if is_on_device(x) else None
    out = None if found is None else _attempt("cast", found.cast, (x,), {"dtype": dtype})
    return x.astype(dtype) if out is None else out


library.device_cast = cast_array


def add_into(to: Any, given: Any) -> None:
    """Compute to += given."""
    found = kernels()
    if found is None or not _attempt("add", found.copy_into, to, given, True):
        to += given


def blend_into(targets: Any, given: Any, factors: Any, share: float) -> bool:
    """Move two arrays on a device towards others by one kernel (to += share (factor given - to)), each of which may be
    None. Return False if nothing was done.
    """
    found = kernels() if is_on_device(given[0]) else None
    return found is not None and bool(_attempt("batch_norm", found.blend_into, targets, given, factors, share))


def write_elementwise(op: Any, array: Any, others: Any) -> bool:
    """Write op(array, *others) over an array on a device by one kernel. Return False if nothing was done."""
    write = None if kernels() is None else _writer_of(op)
    return write is not None and bool(_attempt(op.name, write, array, others))


@functools.lru_cache(maxsize=1024)
def _writer_of(op: Any) -> Any:
    """Return the function that writes an op over its first operand on a device; None if there is none."""
    own = kernels().forward_of(library.device_library, op) if op.elementwise and not op.settings else None
    return getattr(own, "write", None)


def device_forward(op: Any, np: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the forward function of an op for a device's library. `forward` is its CuPy version."""
    found = kernels()
    if found is None and not op.rounds_numbers:
        return forward
    own, rounds = None if found is None else found.forward_of(np, op), op.rounds_numbers
    rejected = False

    def run(*arrays: Any, **settings: Any) -> Any:
        nonlocal rejected
        try:
            if own is not None and not rejected:
                out = own(arrays, settings)
                if out is not None:
                    return out
            out = forward(*arrays, **settings)
        except KernelError as error:
            rejected = True
            warn_of(op.name, error)
            with without_kernels():
                out = forward(*arrays, **settings)
        if rounds and out.dtype is FLOAT32:
            out = round_to(out, half_of(arrays, True))  # NumPy promotes bfloat16 with a Python number to float32
        return out

    directly = getattr(own, "directly", None)
    # The kernel of a power depends on its exponent.
    return run if directly is None or op.settings or op.name == "pow" else directly(run)

