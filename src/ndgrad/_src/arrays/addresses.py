"""The memory of an array: its owner, its address, and arrays over bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Payload


def owner_of(array: Payload) -> Payload:
    """Return the array that owns the memory of `array`."""
    while True:
        base = array.base
        while hasattr(base, "_array"):  # the base of np.asarray(t) by __array_interface__ is the tensor itself
            base = base._array
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # numpy.lib.stride_tricks puts an object of its own between the two
            if not isinstance(base, np.ndarray) or not _contains(base, array):
                return array
        array = base


def _contains(owner: Payload, array: Payload) -> bool:
    """True if the memory of an array lies in that of another one."""
    (start, end), (first, last) = bounds(owner), bounds(array)
    return start <= first and last <= end


def pointer(array: Payload) -> int:
    """Return the address of an array's first element, or 0 if it has no memory."""
    if array.size == 0 or (getattr(array, "is_meta", False) and not getattr(array, "is_traced", False)):
        return 0
    if isinstance(array, np.ndarray):
        found: int = array.__array_interface__["data"][0]
        return found
    return int(array.data.ptr)


def bounds(array: Payload) -> tuple[int, int]:
    """Return the addresses of an array's first byte and of the byte after its last one."""
    start = end = pointer(array)
    if not array.size:
        return start, start
    for n, step in zip(array.shape, array.strides):
        if step < 0:
            start += (n - 1) * step
        else:
            end += (n - 1) * step
    return start, end + array.itemsize


def _in_memory_order(owner: Payload) -> Payload:
    if owner.flags.c_contiguous:
        return owner
    return owner.transpose(sorted(range(owner.ndim), key=lambda d: -owner.strides[d]))


def is_dense(owner: Payload) -> bool:
    """True if an array fills the memory from its first to its last byte, so that `flat_bytes` accepts it."""
    return bool(_in_memory_order(owner).flags.c_contiguous)


def flat_bytes(owner: Payload) -> Payload:
    """Return an owner's memory, in memory order, as a writable one-dimensional array of bytes."""
    dense = _in_memory_order(owner)
    if not dense.flags.c_contiguous:
        raise RuntimeError(
            f"the memory under an array of shape {owner.shape} with strides {owner.strides} has gaps that belong to "
            "other arrays, so it has no storage object. Copy it first: clone(memory_format=contiguous_format). "
            "[nd-strides]"
        )
    return dense.reshape(-1).view(np.uint8)


def window(
    memory: Payload, dtype: np.dtype[Any], offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> NDArray[Any]:
    """Return a strided array over bytes. `offset` and `stride` count elements. Raise if it would reach outside."""
    item = np.dtype(dtype).itemsize
    if any(n < 0 for n in size) or any(s < 0 for s in stride) or offset < 0 or len(size) != len(stride):
        raise RuntimeError(
            f"sizes, strides and the offset must be non-negative, with one stride per size: got size {tuple(size)}, "
            f"stride {tuple(stride)}, storage_offset {offset}. [nd-strides]"
        )
    last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if 0 not in size else -1
    if (last + 1) * item > memory.nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {item} "
            f"requiring a storage size of {(last + 1) * item} are out of bounds for storage of size {memory.nbytes}. "
            "Give sizes and strides that stay inside it. [nd-strides]"
        )
    if 0 in size:
        return np.empty(size, dtype)
    return np.ndarray(size, dtype, buffer=memory, offset=offset * item, strides=tuple(s * item for s in stride))


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous tensor."""
    step, out = 1, []
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))
