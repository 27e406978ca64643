"""Adding (or otherwise combining) values at places that integer arrays name, every repetition counted.

The constraint: `numpy.add.at` is quick only for one-dimensional targets (about 1.5 ns an element, against 9 for rows).
So everything here is brought to flat keys first. Measured against it, sorting the keys and `add.reduceat` lost at every
size, and `bincount` was no better and works in float64 alone. For wide rows two things help:
  * two neighbouring reals are added as one complex number, which halves the keys;
  * with SciPy installed, large sums are a product with a sparse matrix of ones, which adds
    whole rows (5 times quicker).
All ways add in the order of the keys and repeat to the bit. (They agree to the bit among each other too, but for a
large `index_add_` into what is not zero, which adds finished sums.)

Note [Repeated keys on a GPU]
There all keys are written at once. So sums are added in no particular order; what CuPy's `at` does not know is made
of what it knows; and a value that is put is first replaced by the last one for its place, so that it does not
matter which write comes last.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import determinism
from ndgrad._src.arrays.device_kernels import check_later
from ndgrad._src.arrays.host_fallback import on_host
from ndgrad._src.arrays.meta import MetaArray, zeros_beside
from ndgrad._src.arrays.precision import is_floating

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: From how many elements on SciPy's product is quicker by enough to pay its import (once, some 50 ms) in the long run.
_LARGE = 1 << 16
_UNSIGNED = {numpy.dtype("i8"): numpy.dtype("u8"), numpy.dtype("i4"): numpy.dtype("u4")}
_PAIRS = {numpy.dtype("f4"): numpy.dtype("c8"), numpy.dtype("f8"): numpy.dtype("c16")}


# ----- keys ----------------------------------------------------------------------------------------------------------


def out_of_bounds(np: Library, index: Payload, size: int, *, wrap: bool) -> int | None:
    """An index outside [0, size), or [-size, size) with `wrap`; None if there is none."""
    if not index.size or isinstance(index, MetaArray):
        return None
    unsigned = _UNSIGNED.get(index.dtype)
    if unsigned is not None and not wrap and np is numpy and index.ndim:
        # one pass: seen as unsigned, a negative number is a large one
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
    """Raise if an index lies outside [0, size): what torch asks of all functions that take an
    index along a dimension. What reads, or writes into memory of its own, may let a GPU find it `later`
    (ndgrad._src.arrays.device_faults)."""
    made = no_such_index(name, size, dim, error)
    if later and check_later(index, 0, size, made):
        return
    found = out_of_bounds(np, index, size, wrap=False)
    if found is not None:
        raise made(found)


def no_such_index(
    name: str, size: int, dim: int, error: type[Exception] = IndexError
) -> Callable[[int], Exception]:
    """The error for an index that lies outside [0, size)."""

    def made(found: int) -> Exception:
        return error(
            f"{name}(): index {found} is out of bounds for dimension {dim} with size {size}. Indices run from 0 "
            f"to {size - 1} here; where negative ones should count from the end, use x[...] or take_along_dim()."
        )

    return made


def wrapped(np: Library, index: Payload, size: int, dim: int = 0, later: bool = False) -> Payload:
    """The index as non-negative machine integers, negative ones counted from the end; `later` as in `check_range`."""

    def made(found: int) -> Exception:
        return IndexError(
            f"index {found} is out of bounds for dimension {dim} with size {size}. "
            f"Indices run from {-size} to {size - 1}. [nd-index]"
        )

    if not later or not check_later(index, -size, size, made):
        found = out_of_bounds(np, index, size, wrap=True)
        if found is not None:
            raise made(found)
    index = index.astype(np.intp, copy=False)
    if isinstance(index, MetaArray):
        return index
    if np is numpy and not (index.size and index.min() < 0):  # a GPU would have to be waited for
        return index
    return np.where(index < 0, index + size, index)


def keys_of_arrays(np: Library, indices: tuple[Any, ...], shape: tuple[int, ...]) -> Payload:
    """Index arrays into leading dimensions of sizes `shape` as one array of flat keys."""
    if np is numpy and len(indices) > 1:
        try:
            return np.ravel_multi_index(indices, shape[: len(indices)])
        except (ValueError, TypeError):
            pass  # negative ones are counted from the end below, and what is out of bounds is named
    keys: Any = 0
    for dim, (index, size) in enumerate(zip(indices, shape, strict=False)):
        index = wrapped(np, np.asarray(index), size, dim)
        keys = index if dim == 0 else keys * size + index
    return keys


def keys_along(np: Library, index: Payload, shape: tuple[int, ...], dim: int) -> Payload:
    """Flat keys into an array of `shape` for an index along `dim` whose other dimensions stand for
    themselves (`gather`)."""
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


def overwritten(np: Library, keys: Any, size: int) -> Payload:
    """Which of the flat keys below `size` come again later, so that what is put there does not stay."""
    flat = keys.reshape(-1)
    return (_last_of_equals(np, flat, size) != np.arange(flat.size)).reshape(keys.shape)


def _last_of_equals(np: Library, keys: Any, size: int) -> Payload:
    """For each of the flat keys below `size`, where the last that equals it stands."""
    number = np.arange(keys.size)
    if np is numpy:
        last = np.empty(size, np.intp)
        last[keys] = number
    else:
        last = np.zeros(size, np.intp)
        np.maximum.at(last, keys, number)
    return last[keys]


def settled(np: Library, indices: tuple[Any, ...], shape: tuple[int, ...], values: Payload) -> Payload:
    """The values for target[indices] = values, where the indices have one dimension: see Note
    [Repeated keys on a GPU]."""
    keys = keys_of_arrays(np, indices, shape)
    if not keys.ndim or not getattr(values, "ndim", 0):
        return values
    values = np.broadcast_to(values, (keys.size, *shape[len(indices) :]))
    return values[_last_of_equals(np, keys, math.prod(shape[: len(indices)]))]


def one_index_per_slice(index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """The 1-d index that a full index along `dim` was expanded from (`i[:, None].expand(...)`), None if it was not."""
    if index.ndim > 1 and 0 not in index.strides and index.size != index.shape[dim]:
        return None
    for d, (n, stride) in enumerate(zip(index.shape, index.strides, strict=True)):
        if d != dim and (n != shape[d] or (stride != 0 and n != 1)):
            return None
    return index[tuple(slice(None) if d == dim else 0 for d in range(index.ndim))] if 0 not in index.shape else None


# ----- combining -----------------------------------------------------------------------------------------------------


def add_at(np: Library, target: Payload, index: Payload, values: Payload) -> None:
    """numpy.add.at, for any dtype."""
    if np is numpy:
        np.add.at(target, index, values)
    elif determinism.demand != "no" and target.dtype.kind in "fc":
        target[...] = on_host(np, _added)(target, values, *(index if isinstance(index, tuple) else (index,)))
    elif target.dtype.char in _ADDED:
        np.add.at(target, index, values)
    elif target.dtype.kind == "c":
        np.add.at(target.real, index, values.real)
        np.add.at(target.imag, index, values.imag)
    else:
        wide = target.astype(np.int64)
        np.add.at(wide, index, values)
        target[...] = wide


#: What CuPy's add.at takes, by dtype character.
_ADDED = frozenset("efdiIlLqQ")


def _combine_at(np: Library, name: str, target: Payload, keys: Any, values: Payload) -> None:
    """ufunc.at on a flat target, for any dtype."""
    if np is numpy:
        getattr(np, name).at(target, keys, values)
    elif name == "add":
        add_at(np, target, keys, values)
    elif name == "multiply":
        target[...] = on_host(np, _multiplied)(target, keys, values)
    elif is_floating(target.dtype):
        # CuPy's loses NaN and rounds float64 to float32
        sign = 1 if name == "maximum" else -1
        order = _ordered(np, target * sign)
        np.maximum.at(order, keys, _ordered(np, values * sign))
        target[...] = _in_order(order).view(np.float64) * sign
    else:
        wide = target.astype(np.uint64 if target.dtype.kind == "u" else np.int64)
        getattr(np, name).at(wide, keys, values.astype(wide.dtype))
        target[...] = wide


def _added(target: Any, values: Any, *index: Any) -> Any:
    numpy.add.at(target, index, values)
    return target


def _multiplied(target: Any, keys: Any, values: Any) -> Any:
    numpy.multiply.at(target, keys, values)
    return target


def _ordered(np: Library, x: Payload) -> Payload:
    """Integers in the order of some floats, NaN above all."""
    return _in_order(np.where(x != x, np.nan, x).astype(np.float64).view(np.int64))


def _in_order(bits: Any) -> Any:
    """The bits of floats from integers in their order, or back: those of a negative number count backwards."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


def add_arrays(np: Library, target: Payload, indices: tuple[Any, ...], values: Payload) -> Payload:
    """target[indices] += values, in place, where the arrays `indices` index leading dimensions and may repeat."""
    count = len(indices)
    if np is not numpy or target.ndim == count == 1:
        add_at(np, target, indices, values)
        return target
    if count == 1:
        keys = indices[0]
    else:
        keys = _of_shape(
            np, keys_of_arrays(np, indices, target.shape), np.broadcast_shapes(*(i.shape for i in indices))
        )
    values = _of_shape(np, values, (*keys.shape, *target.shape[count:]))
    if not target.flags.c_contiguous and 8 * values.size < target.size:  # a copy of the target would cost more
        np.add.at(target, indices, values)
        return target
    try:
        return _whole(np, target, functools.partial(_add_keyed, keys, values, count))
    except IndexError:
        keys_of_arrays(np, indices, target.shape)  # says it in terms of the index
        raise


def _of_shape(np: Library, values: Payload, shape: tuple[int, ...]) -> Payload:
    """Values broadcast to a shape that most have already."""
    return values if numpy.shape(values) == shape else np.broadcast_to(values, shape)


def add_slices(np: Library, target: Payload, index: Payload, values: Payload, dim: int) -> Payload:
    """target[:, ..., index[i]] += values[:, ..., i] along `dim`, in place."""
    moved = target if dim == 0 else np.moveaxis(target, dim, 0)
    add_arrays(np, moved, (index,), values if dim == 0 else np.moveaxis(values, dim, 0))
    return target


def zeros_and_add(np: Library, shape: tuple[int, ...], indices: tuple[Any, ...], values: Payload) -> Payload:
    """Zeros of `shape` to which values, already of the indexed places' shape, are added there."""
    if np is numpy and values.size >= _LARGE:
        count = len(indices)
        lead = values.shape[: values.ndim - len(shape) + count]
        rows, flat = math.prod(shape[:count]), values.reshape(math.prod(lead), -1)
        if _by_product(flat):
            keys = np.broadcast_to(keys_of_arrays(np, indices, shape), lead)
            return _product(keys.reshape(-1), flat, rows).reshape(shape)
    return add_arrays(np, zeros_beside(np, values, shape, values.dtype), indices, values)


def combine_along(np: Library, name: str, target: Payload, index: Payload, values: Payload, dim: int) -> Payload:
    """target[..., index, ...] = ufunc(target[..., index, ...], values) along `dim`, in place; `name` is the ufunc's."""
    single = one_index_per_slice(index, target.shape, dim) if name == "add" and dim == 0 and target.ndim > 1 else None
    if single is not None:
        return add_arrays(np, target, (single,), values)
    if np is numpy and not target.flags.c_contiguous and 8 * index.size < target.size:  # likewise
        places = list(np.indices(index.shape, sparse=True))
        places[dim] = index
        getattr(np, name).at(target, tuple(places), values)
        return target
    keys = keys_along(np, index, target.shape, dim).reshape(-1)
    values = _of_shape(np, values, index.shape).astype(target.dtype, copy=False).reshape(-1)
    return _whole(np, target, lambda whole: _combine_at(np, name, whole.reshape(-1), keys, values))


def put_along(np: Library, target: Payload, index: Payload, values: Payload, dim: int) -> Any:
    """target[..., index, ...] = values along `dim`, in place; of several values for one place the last stays."""
    keys = keys_along(np, index, target.shape, dim).reshape(-1)
    values = _of_shape(np, np.asarray(values), index.shape).reshape(-1)
    if np is not numpy:
        values = values[_last_of_equals(np, keys, target.size)]

    def put(whole: Any) -> None:
        whole.reshape(-1)[keys] = values

    return _whole(np, target, put)


def _whole(np: Library, target: Payload, change: Any) -> Payload:
    """Run `change` on memory without gaps: the target's own, or a copy that is then written back."""
    if target.flags.c_contiguous:
        change(target)
    else:
        copy = np.array(target, order="C")
        change(copy)
        target[...] = copy
    return target


def _add_keyed(keys: Any, values: Any, indexed: int, target: Any) -> None:
    """Add values to the parts of the target that flat keys into its `indexed` leading dimensions name."""
    if not values.size:
        return
    width = values.size // keys.size
    keys = keys.reshape(-1).astype(numpy.intp, copy=False)
    values = values.astype(target.dtype, copy=False).reshape(-1, width)
    flat = target.reshape(-1)
    if target.dtype.kind == "c":
        # sums of complex numbers are sums of their parts
        flat, values, width = _parts(flat), _parts(values), 2 * width
    if values.size >= _LARGE:
        rows = math.prod(target.shape[:indexed])
        if rows <= 2 * len(keys) and _by_product(values):
            flat.reshape(rows, width)[...] += _product(wrapped(numpy, keys, rows), values, rows)
            return
    pair = _PAIRS.get(flat.dtype)
    if pair is not None and width % 2 == 0:
        width //= 2
        flat = flat.view(pair)
        values = numpy.ascontiguousarray(values).view(pair)
    if width > 1:
        # a negative key stays right: it counts whole rows from the end
        keys = (keys.reshape(-1, 1) * width + numpy.arange(width)).reshape(-1)
    numpy.add.at(flat, keys, values.reshape(-1))


def _parts(array: Any) -> Any:
    """A complex array as reals, twice as many along the last dimension."""
    return numpy.ascontiguousarray(array).view(array.real.dtype)


# ----- SciPy's sparse product -----------------------------------------------------------------------------------------


def _by_product(values: Any) -> bool:
    """Whether the product is possible and pays. Complex ones are not tried: (1 + 0j) * inf would make a NaN."""
    return values.size >= _LARGE and values.shape[1] >= 4 and values.dtype.char in "fd" and _sparse() is not None


@functools.cache
def _sparse() -> Any:
    try:
        return importlib.import_module("scipy.sparse")
    except ImportError:
        return None


def _product(keys: Any, values: Any, rows: int) -> Any:
    """Sums of the values' rows by key: a matrix with a one per key, in row `key`, times the values."""
    count = len(keys)
    ones = numpy.ones(count, values.dtype)
    matrix = _sparse().csc_matrix((ones, keys, numpy.arange(count + 1)), shape=(rows, count))
    return matrix @ numpy.ascontiguousarray(values)
