"""Native kernels for eager ops: their availability, and the arrays for which they are used.

If `llvmlite` is installed, ops that take several passes on NumPy run as one native loop on the pool's threads
(_src.compiler.kernels). An op asks here, in its function of arrays, and continues with NumPy if the answer is None:

    kernels = native.kernels_for(x)
    if kernels is not None:
        return kernels.softmax(x)

Note [When kernels are used]
The choice depends only on the op, the dtypes, the layout and the size, never on time or on earlier calls. So a program
gives the same bits in every run on a machine. Arrays must be NumPy's, contiguous, of float32 or float64, and have at
least `SMALLEST` elements. Below that NumPy is as fast, and a small program does not wait for the import of llvmlite
(0.1 s) and for linking (a few ms from the disk cache; 20 to 100 ms for compiling). Kernels are compiled on first use,
and cached in the process and on disk.

Results differ from NumPy's in the last digits: sums use another order with error compensation, and functions such as
exp are within two units in the last place. Native code gives no floating-point warnings. NDGRAD_EAGER_KERNELS=0 keeps
ops on NumPy.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from ndgrad._src.arrays import device_kernels
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.kernel_error import KernelError

#: Number of elements from which kernels are used.
SMALLEST = 8192
#: Shorter rows are left to NumPy.
_SHORT = 16

_DTYPES = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))
_unknown = object()
_found: Any = _unknown


def kernels() -> Any:
    """Return the kernels, or None if there are none."""
    return _find() if _found is _unknown else _found


def has_kernels(dtype: Any) -> bool:
    """True if kernels take arrays of a dtype."""
    return dtype in _DTYPES


def step_kernels(x: Any) -> Any:
    """Return the kernels that run a formula over many arrays like `x`, or None."""
    return device_kernels.kernels() if is_on_device(x) else kernels()


def is_large(x: Any) -> bool:
    """True if an array has enough elements for kernels; always true on a device."""
    return x.__class__ is not numpy.ndarray or x.size >= SMALLEST


def is_any_large(arrays: Sequence[Any]) -> bool:
    """True if one of the arrays, some of which may be None, is large."""
    return any(x is not None and is_large(x) for x in arrays)


def kernels_for(x: Any, *others: Any) -> Any:
    """Return the kernels if they should be used for these arrays, else None. The first array decides by its size."""
    if x.size < SMALLEST or _found is None or x.__class__ is not numpy.ndarray:
        return None
    dtype = x.dtype
    if dtype not in _DTYPES or not is_dense(x):
        return None
    for y in others:
        if y.__class__ is not numpy.ndarray or y.dtype != dtype or not is_dense(y):
            return None
    return kernels()


def _are_dense(arrays: Sequence[Any]) -> bool:
    """True if kernels take these arrays: not empty, of one dtype, without gaps."""
    dtype = arrays[0].dtype
    if dtype not in _DTYPES:
        return False
    for x in arrays:
        if x.__class__ is not numpy.ndarray or x.dtype != dtype or not x.size or not is_dense(x):
            return False
    return True


def is_dense(x: Any) -> bool:
    """True if an array has the memory layout that kernels need: without gaps, in order, and aligned."""
    flags = x.flags
    if x.__class__ is not numpy.ndarray:
        return bool(flags.c_contiguous)
    return flags.carray or (flags.c_contiguous and flags.aligned)  # carray is False for read-only arrays


def dense(x: Any, dtype: Any = None) -> Any:
    """Return an array in the layout that kernels need: itself, or a copy."""
    if is_on_device(x):
        on_device = device_kernels.kernels() if dtype is None or x.dtype == dtype else None
        return library_of(x).ascontiguousarray(x, dtype) if on_device is None else on_device.in_order(x)
    return x if is_dense(x) and (dtype is None or x.dtype == dtype) else numpy.array(x, dtype, order="C")


def kernels_for_lines(dim: int, x: Any, *others: Any) -> Any:
    """Return the kernels for work along one dimension, which must be the last one and not short."""
    if x.size < SMALLEST or dim != x.ndim - 1 or x.shape[dim] < _SHORT:
        return None
    return kernels_for(x, *others)


def kernels_for_scan(dim: int, x: Any, *others: Any) -> Any:
    """Return the kernels for a scan along any dimension of at least two elements."""
    return kernels_for(x, *others) if x.size >= SMALLEST and x.shape[dim] > 1 else None


def move_by_index(how: str, dim: int, whole: Any, part: Any, index: Any) -> bool:
    """Read `part` from an array by an index along a dimension, or "write" or "add" it. Return False if this fails.

    Nothing is done without a kernel, and if an index is outside of the array.
    """
    if part.size < SMALLEST or _found is None or whole.__class__ is not numpy.ndarray or not is_dense(whole):
        return False
    if index.__class__ is not numpy.ndarray or index.dtype != numpy.int64 or index.shape != part.shape:
        return False
    if part.__class__ is not numpy.ndarray or part.dtype != whole.dtype or not is_dense(part):
        return False
    if whole.dtype not in _DTYPES if how == "add" else whole.itemsize not in (1, 2, 4, 8) or whole.dtype.hasobject:
        return False
    shape = (*whole.shape[:dim], part.shape[dim], *whole.shape[dim + 1 :])
    if shape != part.shape or not index.flags.aligned or (found := kernels()) is None:
        return False
    # Native code does not check bounds. As an unsigned number, a negative index is large.
    different = index[tuple([slice(None) if step else 0 for step in index.strides])] if 0 in index.strides else index
    if numpy.maximum.reduce(different.view(numpy.uint64), axis=None) >= whole.shape[dim]:
        return False
    found.move_by_index(how, dim, whole, part, index)
    return True


def row_kernels(x: Any, *others: Any, small: bool = False) -> Any:
    """Return the kernels of softmax, cross entropy and normalisation, which also exist for arrays on a device.

    With `small`, arrays may have any size.
    """
    if is_on_device(x):
        on_device = device_kernels.kernels()
        return None if on_device is None else on_device.rows_for(x, *others)
    if small:
        return kernels() if _are_dense((x, *others)) else None
    return kernels_for(x, *others)


def row_kernels_along(dim: int, x: Any, *others: Any) -> Any:
    """Return the row kernels for work along one dimension, which must be the last one."""
    if is_on_device(x):
        return row_kernels(x, *others) if dim == x.ndim - 1 else None
    return kernels_for_lines(dim, x, *others)


def run_fused(function: Any, arrays: Sequence[Any], settings: Mapping[str, Any], small: bool = False) -> Any:
    """Return the result of a body or rule of an op by one kernel; None if there is no kernel for these arrays.

    The arrays are dense, of one floating dtype, and large or on a device. With `small` they may have any size. An array
    may be None.
    """
    if _found is not None:
        try:
            shapes = [a if a is None else a.shape for a in arrays]
            call, results = _calls[function, arrays[0].dtype.char, *shapes, *settings.values()]
        except (KeyError, TypeError):  # an unknown call, or a setting without a hash
            pass
        else:
            out = call(*arrays) if None not in shapes else call(*[a for a in arrays if a is not None])
            if out is not None:
                return out[0] if results is None else out if results is ALL else _place(out, results)
    given = [a for a in arrays if a is not None]
    if is_on_device(given[0]):
        on_device = device_kernels.kernels()
        if on_device is None or on_device.rows_for(*given) is None:
            return None
    elif not (small or any(a.size >= SMALLEST for a in given)) or not _are_dense(given) or kernels() is None:
        return None
    if function in _rejected:
        return None
    try:
        return registry.eager_kernels.run_fused(function, arrays, settings)
    except KernelError as error:
        _rejected.add(function)
        device_kernels.warn_of(getattr(function, "name", "a rule"), error)
        return None


#: Builtins of the kernels of earlier calls, with the results of the function (`remember_call`). A builtin returns None
#: for arrays of other dtypes, shapes or layouts.
_calls: dict[Any, tuple[Callable[..., Any], tuple[bool, ...] | None]] = {}
#: The results of a function, all of which are arrays.
ALL: tuple[bool, ...] = ()
#: Maximum number of builtins.
_MOST = 4096


def remember_call(
    function: Any,
    arrays: Sequence[Any],
    settings: Mapping[str, Any],
    results: tuple[bool, ...] | None,
    call: Callable[..., Any],
) -> None:
    """Let `run_fused` use a builtin for calls with arrays like these.

    `results` is None for a single result, else true for each result that is not None.
    """
    make_room(_calls, _MOST)
    shapes = [a if a is None else a.shape for a in arrays]
    kinds = ALL if results is not None and all(results) else results
    _calls[function, arrays[0].dtype.char, *shapes, *settings.values()] = call, kinds


def _place(found: tuple[Any, ...], results: tuple[bool, ...]) -> tuple[Any, ...]:
    """Return results with None in the places of those that a function does not have."""
    waiting = iter(found)
    return tuple([next(waiting) if is_given else None for is_given in results])


#: Bodies and rules whose kernels a device could not compile.
_rejected: set[Any] = set()


def run_sampling(what: str, arrays: Sequence[Any], mode: str, padding_mode: str, align_corners: bool) -> Any:
    """Return "values" or the "gradient" of `grid_sample` by one kernel; None if there is no kernel for these arrays."""
    x = arrays[0]
    if x.dtype not in _DTYPES or any(a.dtype != x.dtype or not a.size for a in arrays) or x.size >= 1 << 31:
        return None
    if align_corners and padding_mode == "reflection" and 1 in x.shape[2:]:
        return None  # a period of length zero
    if (device_kernels.kernels() if is_on_device(x) else kernels()) is None or getattr(x, "is_meta", False):
        return None
    how = (mode, padding_mode, bool(align_corners))
    return registry.eager_kernels.run_sampling(what, [dense(a) for a in arrays], how)


def window_kernels(x: Any, *others: Any) -> Any:
    """Return the kernels of convolution and pooling on a device if they take these arrays, else None."""
    on_device = device_kernels.kernels() if is_on_device(x) else None
    return None if on_device is None else on_device.windows_for(x, *others)


def add_along(x: Any, b: Any, dim: int) -> bool:
    """Add a vector to an array on a device along one dimension, in place. Return False if nothing was done."""
    on_device = device_kernels.kernels()
    return on_device is not None and bool(on_device.add_along(x, b, dim))


def summed_product(a: Any, b: Any) -> Any:
    """Return a' b over all leading dimensions of arrays on a device; None if there is no kernel for it."""
    on_device = device_kernels.kernels()
    return None if on_device is None else on_device.summed_product(a, b)


def attention_kernels(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Return the attention kernels of a device if they take these arrays; None otherwise, and with a mask."""
    on_device = device_kernels.kernels() if mask is None and is_on_device(q) else None
    return None if on_device is None else on_device.attention_for(q, k, v)


def recurrent_kernels(x: Any, *others: Any) -> Any:
    """Return the device kernels for layers of recurrent networks if they take these arrays, else None."""
    on_device = device_kernels.kernels() if is_on_device(x) else None
    return None if on_device is None else on_device.recurrent_for(x, *others)


def class_loss_kernels(x: Any, target: Any, weight: Any) -> Any:
    """Return the kernels for losses of class numbers if they take these arrays, of any size, else None."""
    if x.__class__ is not numpy.ndarray:
        on_device = device_kernels.kernels() if is_on_device(x) else None
        return None if on_device is None else on_device.class_loss_for(x, target, weight)
    if x.ndim != 2 or not x.size or x.dtype not in _DTYPES or not is_dense(x):
        return None
    if target.__class__ is not numpy.ndarray or target.dtype != numpy.int64 or target.shape != x.shape[:1]:
        return None
    if not is_dense(target) or (weight is not None and not _is_class_weight(weight, x)) or kernels() is None:
        return None
    return registry.eager_kernels.class_losses()


def _is_class_weight(weight: Any, x: Any) -> bool:
    if weight.__class__ is not numpy.ndarray or weight.dtype != x.dtype or weight.shape != x.shape[1:]:
        return False
    return is_dense(weight)


def with_kernel(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an elementwise `function(np, x, *others, **settings)` use the named kernel for large arrays of one shape.

    All arrays have one dtype; others may be numbers.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(np: Any, x: Any, *others: Any, **settings: Any) -> Any:
            if x.__class__ is numpy.ndarray and x.size >= SMALLEST and all(_can_combine(y, x) for y in others):
                arrays = [y if y.__class__ is numpy.ndarray else numpy.asarray(y, x.dtype) for y in others]
                kernels = kernels_for(x, *arrays)
                if kernels is not None:
                    return kernels.elementwise(name, x, *arrays, **settings)
            return function(np, x, *others, **settings)

        run.__kwdefaults__ = function.__kwdefaults__
        run.__name__, run.__doc__, run.__wrapped__ = function.__name__, function.__doc__, function  # type: ignore[attr-defined]
        return run

    return decorate


def _can_combine(y: Any, x: Any) -> bool:
    return y.__class__ in (float, int) or (y.__class__ is numpy.ndarray and y.shape == x.shape)


def _find() -> Any:
    global _found
    wish = os.environ.get("NDGRAD_EAGER_KERNELS", "1")
    if wish not in ("0", "1"):
        raise ValueError(
            f"NDGRAD_EAGER_KERNELS is {wish!r}, but can only be 1 (use native kernels if llvmlite is installed) or 0. "
            "[nd-environment]"
        )
    # Native kernels need llvmlite, and serve large arrays only.
    is_possible = wish == "1" and importlib.util.find_spec("llvmlite") is not None
    _found = found = registry.eager_kernels.native_kernels() if is_possible else None
    return found


@contextmanager
def kernels_in_use(wanted: bool) -> Iterator[None]:
    """Run with or without kernels, in all threads, for tests and measurements."""
    global _found
    before = _found
    _found = _unknown if wanted else None
    try:
        yield
    finally:
        _found = before
