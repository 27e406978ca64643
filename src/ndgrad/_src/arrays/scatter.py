"""Adding (or otherwise combining) values at indexed positions, with every repetition counted.

The constraint: `numpy.add.at` is fast only for one-dimensional targets (about 1.5 ns an element, against 9 for rows).
So everything here is first converted to flat keys. Compared with it, sorting the keys and `add.reduceat` were slower at
every size, and `bincount` was no faster and works in float64 only. For wide rows two things help:
* two neighbouring reals are added as one complex number, which halves the keys;
* with SciPy installed, large sums are a product with a sparse matrix of ones, which adds whole rows (5 times faster).
All methods add in the order of the keys and are reproducible to the bit. They also agree with each other to the bit,
except a large `index_add_` into a nonzero target, which adds finished sums.

Note [Repeated keys on a GPU]
A GPU writes all keys at once. So sums are added in no particular order. ndgrad's kernels check indices, and read,
write or combine elements in one launch (ndgrad._src.compiler.cuda.indexed). Otherwise, operations missing in CuPy's
`at` are composed of supported ones. A written value is first replaced by the last value for its position, so that the
order of writes does not matter.
"""

from __future__ import annotations

import functools
import importlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import determinism, device_faults, graph_recording, native_kernels
from ndgrad._src.arrays.addresses import bounds
from ndgrad._src.arrays.device_kernels import check_later, kernels, wrap_later
from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.meta import MetaArray, zeros_on_same_device
from ndgrad._src.arrays.precision import is_floating

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: Number of elements from which SciPy's product is so much faster that its import (once, some 50 ms) pays off.
_LARGE = 1 << 16
_UNSIGNED = {numpy.dtype("i8"): numpy.dtype("u8"), numpy.dtype("i4"): numpy.dtype("u4")}
_PAIRS = {numpy.dtype("f4"): numpy.dtype("c8"), numpy.dtype("f8"): numpy.dtype("c16")}


# ----- keys ----------------------------------------------------------------------------------------------------------


def find_out_of_bounds(np: Library, index: Payload, size: int, *, wrap: bool) -> int | None:
    """Return an index outside [0, size), or [-size, size) with `wrap`; None if there is none."""
    if not index.size or isinstance(index, MetaArray):
        return None
    unsigned = _UNSIGNED.get(index.dtype)
    if unsigned is not None and not wrap and np is numpy and index.ndim:
        # One pass: as an unsigned number, a negative index is large.
        if numpy.maximum.reduce(index.view(unsigned), axis=None) < size:
            return None
    low, high = int(index.min()), int(index.max())
    if high >= size:
        return high
    return low if low < (-size if wrap else 0) else None


def check_range(
    np: Library,
    name: str,
    index: Payload,
    size: int,
    dim: int,
    error: type[Exception] = IndexError,
    later: bool = False,
) -> None:
    """Raise if an index is outside [0, size), as torch does in all functions with an index along a dimension.

    Reads, and writes into fresh memory, may let a GPU detect it `later` (ndgrad._src.arrays.device_faults).
    """
    make_error = no_such_index(name, size, dim, error)
    if later and check_later(index, 0, size, make_error):
        return
    found = find_out_of_bounds(np, index, size, wrap=False)
    if found is not None:
        raise make_error(found)


def no_such_index(
    name: str, size: int, dim: int, error: type[Exception] = IndexError
) -> Callable[[int], Exception]:
    """Return a function that makes the error for an index outside [0, size)."""

    def make_error(found: int) -> Exception:
        negative = " Negative ones count from the end in x[...] and take_along_dim() only." if found < 0 else ""
        return error(
            f"{name}(): index {found} is out of bounds for dimension {dim} with size {size}. Indices run from 0 "
            f"to {size - 1}.{negative} [nd-index]"
        )

    return make_error


def no_such_element(size: int, dim: int) -> Callable[[int], Exception]:
    """Return a function that makes the error for an index outside [-size, size)."""

    def make_error(found: int) -> Exception:
        return IndexError(
            f"index {found} is out of bounds for dimension {dim} with size {size}. "
            f"Indices run from {-size} to {size - 1}. [nd-index]"
        )

    return make_error


def wrap_negative(np: Library, index: Payload, size: int, dim: int = 0, later: bool = False) -> Payload:
    """Return the index as non-negative machine integers. Negative ones count from the end; `later` as in
    `check_range`.
    """
    make_error = no_such_element(size, dim)
    wrapped = wrap_later(index, size, make_error) if later else None
    if wrapped is not None:
        return wrapped
    if not later or not check_later(index, -size, size, make_error):
        found = find_out_of_bounds(np, index, size, wrap=True)
        if found is not None:
            raise make_error(found)
    index = index.astype(np.intp, copy=False)
    if isinstance(index, MetaArray):
        return index
    if np is numpy and not (index.size and index.min() < 0):  # on a GPU this check would wait for the device
        return index
    return np.where(index < 0, index + size, index)


def keys_of_arrays(np: Library, indices: tuple[Any, ...], shape: tuple[int, ...]) -> Payload:
    """Return index arrays into leading dimensions of sizes `shape` as one array of flat keys."""
    if np is numpy and len(indices) > 1:
        try:
            return np.ravel_multi_index(indices, shape[: len(indices)])
        except (ValueError, TypeError):
            pass  # negative indices are wrapped below, and indices out of bounds raise there
    keys: Any = 0
    for dim, (index, size) in enumerate(zip(indices, shape, strict=False)):
        index = wrap_negative(np, np.asarray(index), size, dim)
        keys = index if dim == 0 else keys * size + index
    return keys


def keys_along(np: Library, index: Payload, shape: tuple[int, ...], dim: int) -> Payload:
    """Return flat keys into an array of `shape` for an index along `dim`. Other dimensions keep their positions
    (`gather`).
    """
    keys = index.astype(np.intp, copy=False)
    offsets: Any = 0
    stride = 1
    for d in range(len(shape) - 1, -1, -1):
        if d == dim:
            keys = keys * stride if stride != 1 else keys
        elif index.shape[d] > 1:
            offsets = offsets + (np.arange(index.shape[d]) * stride).reshape((-1,) + (1,) * (len(shape) - d - 1))
        stride *= shape[d]
    return keys + offsets


# ----- a device's kernels ---------------------------------------------------------------------------------------------

#: Makes the exception for an index out of bounds.
_Error = Callable[[int], Exception]


class _Checks(threading.local):
    """True in a thread whose writes go into the memory of a tensor, which must not change if an index is wrong."""

    at_once = False


_checks = _Checks()


@contextmanager
def check_at_once() -> Iterator[None]:
    """Wait for the checks of indices before anything is written."""
    before, _checks.at_once = _checks.at_once, True
    try:
        yield
    finally:
        _checks.at_once = before


def _settle_checks(
    np: Library, indices: tuple[Any, ...], lows: tuple[int, ...], highs: tuple[int, ...], errors: Payload
) -> Any:
    """Return the errors for a kernel: None if the indices have been checked here, because a check must not wait."""
    if errors is None or not _checks.at_once or graph_recording.active is not None:
        return errors
    for index, low, high, error in zip(indices, lows, highs, errors, strict=True):
        if not check_later(index, low, high, error):
            found = find_out_of_bounds(np, index, high, wrap=low < 0)
            if found is not None:
                raise error(found)
    device_faults.settle()
    return None


def _moves(array: Payload) -> Any:
    """Return the kernels for indexed elements of an array on a device; None without them."""
    found = kernels() if is_on_device(array) else None
    return None if found is None else found.indexed


def _as_part(how: str, target: Payload, values: Payload) -> tuple[str, Any]:
    """Return the action and the values for a kernel: a number fills, arrays have the target's dtype."""
    if not is_on_device(values):
        return ("fill" if how == "write" else ""), values
    if values.dtype != target.dtype:
        return how, values.astype(target.dtype)
    (first, end), (other, other_end) = bounds(values), bounds(target)
    return how, values.copy() if first < other_end and other < end else values  # elements move in no fixed order


def move_along(
    how: str,
    target: Payload,
    index: Payload,
    values: Payload,
    dim: int,
    error: _Error | None = None,
    distinct: bool = False,
) -> bool:
    """Write ("write") or combine (by the ufunc of that name) values at an index along `dim` on a device, in place.

    Return False if there is no kernel for it, and nothing was done. With `error`, the device checks the index.
    """
    found = _moves(target)
    if found is None:
        return False
    how, part = _as_part(how, target, values)
    if not how or not is_on_device(index):
        return False
    errors = None if error is None else (error,)
    errors = _settle_checks(library_of(target), (index,), (0,), (target.shape[dim],), errors)
    return bool(found.move_along(how, target, part, index, dim, None if errors is None else error, distinct=distinct))


def move_slices(
    how: str, target: Payload, index: Payload, values: Payload, dim: int, error: _Error | None = None
) -> bool:
    """Do the same for whole slices along `dim`, selected by a 1-d index."""
    found = _moves(target)
    if found is None:
        return False
    how, part = _as_part(how, target, values)
    if not how or not is_on_device(index):
        return False
    errors = None if error is None else (error,)
    errors = _settle_checks(library_of(target), (index,), (0,), (target.shape[dim],), errors)
    return bool(found.of_slices(how, target, part, index, dim, None if errors is None else error))


def move_at(how: str, target: Payload, indices: tuple[Any, ...], values: Payload, checks: bool) -> bool:
    """Do the same at index arrays into leading dimensions, whose negative numbers count from the end."""
    found = _moves(target)
    if found is None:
        return False
    how, part = _as_part(how, target, values)
    if not how or not all(map(is_on_device, indices)):
        return False
    sizes = target.shape[: len(indices)]
    errors = [no_such_element(n, d) for d, n in enumerate(sizes)] if checks else None
    errors = _settle_checks(library_of(target), indices, tuple([-n for n in sizes]), sizes, errors)
    return bool(found.at_arrays(how, target, part, indices, errors))


def read_at(np: Library, x: Payload, indices: tuple[Any, ...]) -> Payload | None:
    """Return x[indices] for index arrays on a device, which checks them; None if there is no kernel for it."""
    found = _moves(x)
    if found is None or not indices or not all(map(is_on_device, indices)) or len(indices) > x.ndim:
        return None
    lead = numpy.broadcast_shapes(*[i.shape for i in indices])
    out = np.empty((*lead, *x.shape[len(indices) :]), x.dtype)
    errors = [no_such_element(n, d) for d, n in enumerate(x.shape[: len(indices)])]
    return out if found.at_arrays("read", x, out, indices, errors) else None


def read_kept_at(np: Library, x: Payload, indices: tuple[Any, ...]) -> Payload | None:
    """Return x[indices] with zeros for positions that occur again later; None if there is no kernel for it."""
    found = _moves(x)
    if found is None or not indices or not all(map(is_on_device, indices)) or len(indices) > x.ndim:
        return None
    lead = numpy.broadcast_shapes(*[i.shape for i in indices])
    out = np.empty((*lead, *x.shape[len(indices) :]), x.dtype)
    return out if found.at_arrays("read kept", x, out, indices, None) else None


def read_kept_along(np: Library, x: Payload, index: Payload, dim: int) -> Payload | None:
    """Return the same for an index of x's rank along one dimension."""
    found = _moves(x)
    if found is None or not is_on_device(index) or index.ndim != x.ndim:
        return None
    out = np.empty(index.shape, x.dtype)
    return out if found.move_along("read kept", x, out, index, dim, None) else None


def find_overwritten_at(np: Library, indices: tuple[Any, ...], shape: tuple[int, ...]) -> Payload:
    """Return the same for index arrays into dimensions of sizes `shape`."""
    found = _moves(indices[0])
    lost = None if found is None else found.lost_at_arrays(indices, shape)
    if lost is not None:
        return lost
    lead = np.broadcast_shapes(*(np.shape(i) for i in indices))
    return find_overwritten(np, np.broadcast_to(keys_of_arrays(np, indices, shape), lead), math.prod(shape))


def find_overwritten(np: Library, keys: Payload, size: int) -> Payload:
    """Return a mask of the flat keys below `size` that occur again later, so that their values are overwritten."""
    flat = keys.reshape(-1)
    return (_last_of_equals(np, flat, size) != np.arange(flat.size)).reshape(keys.shape)


def find_overwritten_along(np: Library, index: Payload, shape: tuple[int, ...], dim: int) -> Payload:
    """Return a mask of the elements of an index along `dim` of an array whose position occurs again later.

    Kernels write the number of each element along `dim` at its position, and read back the last number. On a device
    one kernel does both.
    """
    on_device = _moves(index)
    lost = None if on_device is None else on_device.lost_along(index, shape, dim)
    if lost is not None:
        return lost
    if index.__class__ is numpy.ndarray and index.size >= native_kernels.SMALLEST and index.shape[dim] < 1 << 31:
        line = numpy.arange(index.shape[dim], dtype=numpy.int32).reshape((-1,) + (1,) * (index.ndim - dim - 1))
        number = numpy.ascontiguousarray(numpy.broadcast_to(line, index.shape))
        last = numpy.empty(shape, numpy.int32)
        if native_kernels.move_by_index("write", dim, last, number, index):
            found = numpy.empty(index.shape, numpy.int32)
            if native_kernels.move_by_index("read", dim, last, found, index):
                return found != number
    return find_overwritten(np, keys_along(np, index, shape, dim), math.prod(shape))


def _last_of_equals(np: Library, keys: Payload, size: int) -> Payload:
    """Return, for each of the flat keys below `size`, the position of the last equal key."""
    number = np.arange(keys.size)
    if np is numpy:
        last = np.empty(size, np.intp)
        last[keys] = number
    else:
        last = np.zeros(size, np.intp)
        np.maximum.at(last, keys, number)
    return last[keys]


def keep_last_values(np: Library, indices: tuple[Any, ...], shape: tuple[int, ...], values: Payload) -> Payload:
    """Return the values for target[indices] = values, for indices of one dimension; see Note [Repeated keys on a
    GPU].
    """
    keys = keys_of_arrays(np, indices, shape)
    if not keys.ndim or not getattr(values, "ndim", 0):
        return values
    values = np.broadcast_to(values, (keys.size, *shape[len(indices) :]))
    return values[_last_of_equals(np, keys, math.prod(shape[: len(indices)]))]


def one_index_per_slice(index: Payload, shape: tuple[int, ...], dim: int) -> Payload:
    """Return the 1-d index from which a full index along `dim` was expanded (`i[:, None].expand(...)`), or None."""
    if index.ndim > 1 and 0 not in index.strides and index.size != index.shape[dim]:
        return None
    for d, (n, stride) in enumerate(zip(index.shape, index.strides, strict=True)):
        if d != dim and (n != shape[d] or (stride != 0 and n != 1)):
            return None
    return index[tuple(slice(None) if d == dim else 0 for d in range(index.ndim))] if 0 not in index.shape else None


#: Rows of so many elements are copied whole, which is faster than a kernel for single elements.
_WIDE = 16


def read_along(x: Payload, index: Payload, dim: int, error: _Error | None = None) -> Payload | None:
    """Return the elements of x at an index along `dim` by a kernel; None if there is none for these arrays.

    Arrays on the host are large. With `error`, a device checks the index later.
    """
    found = _moves(x)
    if found is not None and is_on_device(index):
        out = library_of(x).empty(index.shape, x.dtype)
        return out if found.move_along("read", x, out, index, dim, error) else None
    if x.__class__ is not numpy.ndarray or index.size < native_kernels.SMALLEST:
        return None
    out = numpy.empty(index.shape, x.dtype)
    return out if native_kernels.move_by_index("read", dim, x, out, index) else None


def take_along(np: Library, x: Payload, index: Payload, dim: int) -> Payload:
    """Return the elements of x at a valid index along `dim`, with x's sizes or smaller ones in other dimensions."""
    single = one_index_per_slice(index, x.shape, dim)
    if single is not None:
        return take_slices(np, x, single, dim)
    if x.flags.c_contiguous:
        return x.reshape(-1).take(keys_along(np, index, x.shape, dim))
    within = tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))
    return np.take_along_axis(x[within], index, axis=dim)


def read_slices(
    np: Library, x: Payload, index: Payload, dim: int, error: _Error | None = None
) -> Payload | None:
    """Return the slices of an x on a device at a 1-d index; None if there is no kernel for it. `error` as above."""
    found = _moves(x)
    if found is None or not is_on_device(index) or index.ndim != 1:
        return None
    out = np.empty((*x.shape[:dim], index.size, *x.shape[dim + 1 :]), x.dtype)
    return out if found.of_slices("read", x, out, index, dim, error) else None


def take_slices(np: Library, x: Payload, index: Payload, dim: int) -> Payload:
    """Return the slices of x along `dim` at a 1-d index."""
    if np is not numpy and (there := read_slices(np, x, index, dim)) is not None:
        return there
    is_plain = x.__class__ is numpy.ndarray and index.__class__ is numpy.ndarray and index.ndim == 1
    if is_plain and math.prod(x.shape[dim + 1 :]) < _WIDE:
        found = read_along(x, _expand_index(index, x.shape, dim), dim)
        if found is not None:
            return found
    return x.take(index, axis=dim)


def _expand_index(index: Payload, shape: tuple[int, ...], dim: int) -> Payload:
    """Return a 1-d index along `dim` as a view with the sizes of `shape` in the other dimensions."""
    behind = len(shape) - dim - 1
    return numpy.broadcast_to(index.reshape(-1, *(1,) * behind), (*shape[:dim], index.size, *shape[dim + 1 :]))


# ----- combining -----------------------------------------------------------------------------------------------------


def add_at(np: Library, target: Payload, index: Payload, values: Payload) -> None:
    """Run numpy.add.at, for any dtype."""
    if np is numpy:
        np.add.at(target, index, values)
    elif determinism.demand != "no" and target.dtype.kind in "fc":
        keys = index if isinstance(index, tuple) else (index,)
        target[...] = wrap_for_host(np, _add, "a sum in a fixed order")(target, values, *keys)
    elif target.dtype.char in _ADDED:
        np.add.at(target, index, values)
    elif target.dtype.kind == "c":
        np.add.at(target.real, index, values.real)
        np.add.at(target.imag, index, values.imag)
    else:
        wide = target.astype(np.int64)
        np.add.at(wide, index, values)
        target[...] = wide


#: Dtype letters that CuPy's add.at takes.
_ADDED = frozenset("efdiIlLqQ")


def _combine_at(np: Library, name: str, target: Payload, keys: Payload, values: Payload) -> None:
    """Run ufunc.at on a flat target, for any dtype."""
    if np is numpy:
        getattr(np, name).at(target, keys, values)
    elif name == "add":
        add_at(np, target, keys, values)
    elif name == "multiply":
        target[...] = wrap_for_host(np, _multiply, "a product at repeated indices")(target, keys, values)
    elif is_floating(target.dtype):
        # CuPy's version loses NaN and rounds float64 to float32.
        sign = 1 if name == "maximum" else -1
        order = _to_ordered(np, target * sign)
        np.maximum.at(order, keys, _to_ordered(np, values * sign))
        target[...] = _flip_negative(order).view(np.float64) * sign
    else:
        wide = target.astype(np.uint64 if target.dtype.kind == "u" else np.int64)
        getattr(np, name).at(wide, keys, values.astype(wide.dtype))
        target[...] = wide


def _add(target: Payload, values: Payload, *index: Any) -> Payload:
    numpy.add.at(target, index, values)
    return target


def _multiply(target: Payload, keys: Payload, values: Payload) -> Payload:
    numpy.multiply.at(target, keys, values)
    return target


def _to_ordered(np: Library, x: Payload) -> Payload:
    """Map floats to integers in the same order, with NaN above all."""
    return _flip_negative(np.where(x != x, np.nan, x).astype(np.float64).view(np.int64))


def _flip_negative(bits: Payload) -> Payload:
    """Convert the bits of floats to integers in their order, or back. The bits of negative numbers count backwards."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


def add_arrays(np: Library, target: Payload, indices: tuple[Any, ...], values: Payload) -> Payload:
    """Compute target[indices] += values in place. The arrays `indices` index leading dimensions and may repeat."""
    if move_at("add", target, indices, values, checks=False):
        return target
    count = len(indices)
    if np is not numpy or target.ndim == count == 1:
        add_at(np, target, indices, values)
        return target
    if count == 1:
        keys = indices[0]
    else:
        keys = _broadcast(
            np, keys_of_arrays(np, indices, target.shape), np.broadcast_shapes(*(i.shape for i in indices))
        )
    values = _broadcast(np, values, (*keys.shape, *target.shape[count:]))
    if not target.flags.c_contiguous and 8 * values.size < target.size:  # a copy of the target would cost more
        np.add.at(target, indices, values)
        return target
    try:
        return _run_contiguous(np, target, functools.partial(_add_keyed, keys, values, count))
    except IndexError:
        keys_of_arrays(np, indices, target.shape)  # raises an error in terms of the index
        raise


def _broadcast(np: Library, values: Payload, shape: tuple[int, ...]) -> Payload:
    """Broadcast values to a shape, which most already have."""
    return values if numpy.shape(values) == shape else np.broadcast_to(values, shape)


def add_slices(np: Library, target: Payload, index: Payload, values: Payload, dim: int) -> Payload:
    """Compute target[:, ..., index[i]] += values[:, ..., i] along `dim`, in place."""
    if move_slices("add", target, index, values, dim):
        return target
    if dim and index.__class__ is numpy.ndarray and index.ndim == 1:
        if _moves_natively("add", target, _expand_index(index, target.shape, dim), values, dim):
            return target
    moved = target if dim == 0 else np.moveaxis(target, dim, 0)
    add_arrays(np, moved, (index,), values if dim == 0 else np.moveaxis(values, dim, 0))
    return target


def zeros_and_add(np: Library, shape: tuple[int, ...], indices: tuple[Any, ...], values: Payload) -> Payload:
    """Return zeros of `shape` with `values` added at `indices`. `values` has the shape of the indexed result."""
    if np is numpy and values.size >= _LARGE:
        count = len(indices)
        lead = values.shape[: values.ndim - len(shape) + count]
        rows, flat = math.prod(shape[:count]), values.reshape(math.prod(lead), -1)
        if _uses_product(flat):
            keys = np.broadcast_to(keys_of_arrays(np, indices, shape), lead)
            return _product(keys.reshape(-1), flat, rows).reshape(shape)
    return add_arrays(np, zeros_on_same_device(np, values, shape, values.dtype), indices, values)


def combine_along(np: Library, name: str, target: Payload, index: Payload, values: Payload, dim: int) -> Payload:
    """Compute target[..., index, ...] = ufunc(target[..., index, ...], values) along `dim`, in place; `name` is the
    ufunc's.
    """
    if move_along(name, target, index, values, dim):
        return target
    single = one_index_per_slice(index, target.shape, dim) if name == "add" and dim == 0 and target.ndim > 1 else None
    if single is not None:
        return add_arrays(np, target, (single,), values)
    if name == "add" and _moves_natively("add", target, index, values, dim):
        return target
    if np is numpy and not target.flags.c_contiguous and 8 * index.size < target.size:  # avoids a copy
        places = list(np.indices(index.shape, sparse=True))
        places[dim] = index
        getattr(np, name).at(target, tuple(places), values)
        return target
    keys = keys_along(np, index, target.shape, dim).reshape(-1)
    values = _broadcast(np, values, index.shape).astype(target.dtype, copy=False).reshape(-1)
    return _run_contiguous(np, target, lambda whole: _combine_at(np, name, whole.reshape(-1), keys, values))


def put_along(
    np: Library, target: Payload, index: Payload, values: Payload, dim: int, distinct: bool = False
) -> Payload:
    """Assign target[..., index, ...] = values along `dim`, in place. If several values have one position, the last is
    kept. With `distinct`, no position occurs twice.
    """
    if move_along("write", target, index, values, dim, distinct=distinct):
        return target
    if _moves_natively("write", target, index, values, dim):
        return target
    keys = keys_along(np, index, target.shape, dim).reshape(-1)
    values = _broadcast(np, np.asarray(values), index.shape).reshape(-1)
    if np is not numpy:
        values = values[_last_of_equals(np, keys, target.size)]

    def assign(whole: Payload) -> None:
        whole.reshape(-1)[keys] = values

    return _run_contiguous(np, target, assign)


def _moves_natively(how: str, target: Payload, index: Payload, values: Payload, dim: int) -> bool:
    """Write or add values at an index along `dim` by a kernel. Return False if nothing was done."""
    if target.__class__ is not numpy.ndarray or index.size < native_kernels.SMALLEST:
        return False
    if numpy.shape(values) != index.shape or not target.flags.writeable:
        return False
    part = native_kernels.dense(values, target.dtype) if values.__class__ is numpy.ndarray else values
    return native_kernels.move_by_index(how, dim, target, part, index)


def _run_contiguous(np: Library, target: Payload, change: Any) -> Payload:
    """Run `change` on memory without gaps: the target's own, or a copy that is then written back."""
    if target.flags.c_contiguous:
        change(target)
    else:
        copy = np.array(target, order="C")
        change(copy)
        target[...] = copy
    return target


def _add_keyed(keys: Payload, values: Payload, indexed: int, target: Payload) -> None:
    """Add values to the parts of the target that flat keys into its `indexed` leading dimensions select."""
    if not values.size:
        return
    width = values.size // keys.size
    keys = keys.reshape(-1).astype(numpy.intp, copy=False)
    values = values.astype(target.dtype, copy=False).reshape(-1, width)
    flat = target.reshape(-1)
    if target.dtype.kind == "c":
        # Sums of complex numbers are sums of their parts.
        flat, values, width = _parts(flat), _parts(values), 2 * width
    if values.size >= _LARGE:
        rows = math.prod(target.shape[:indexed])
        if rows <= 2 * len(keys) and _uses_product(values):
            flat.reshape(rows, width)[...] += _product(wrap_negative(numpy, keys, rows), values, rows)
            return
    pair = _PAIRS.get(flat.dtype)
    if pair is not None and width % 2 == 0:
        width //= 2
        flat = flat.view(pair)
        values = numpy.ascontiguousarray(values).view(pair)
    if width > 1:
        # A negative key stays right, because it counts whole rows from the end.
        keys = (keys.reshape(-1, 1) * width + numpy.arange(width)).reshape(-1)
    numpy.add.at(flat, keys, values.reshape(-1))


def _parts(array: Payload) -> Payload:
    """Return a complex array as reals, twice as many along the last dimension."""
    return numpy.ascontiguousarray(array).view(array.real.dtype)


# ----- SciPy's sparse product -----------------------------------------------------------------------------------------


def _uses_product(values: Payload) -> bool:
    """True if the product is possible and faster. Complex values are excluded, because (1 + 0j) * inf would make a
    NaN.
    """
    return values.size >= _LARGE and values.shape[1] >= 4 and values.dtype.char in "fd" and _sparse() is not None


@functools.cache
def _sparse() -> Any:
    try:
        return importlib.import_module("scipy.sparse")
    except ImportError:
        return None


def _product(keys: Payload, values: Payload, rows: int) -> Payload:
    """Return sums of the values' rows by key: the values times a matrix with a one per key, in row `key`."""
    count = len(keys)
    ones = numpy.ones(count, values.dtype)
    matrix = _sparse().csc_matrix((ones, keys, numpy.arange(count + 1)), shape=(rows, count))
    return matrix @ numpy.ascontiguousarray(values)
