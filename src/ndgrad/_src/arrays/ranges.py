"""Equally spaced numbers, rounded as in torch: the values of arange, linspace and logspace.

Programs that compare positions with each other, such as interpolation on a grid, depend on the last bit of these
values.

Note [Ranges]
torch's CPU kernels use fused multiply-adds, which round once. linspace counts its first half from the start and its
second half from the end, in the dtype itself; halves are rounded after every operation. logspace does the same in
double precision, without fused multiply-adds. arange fills vectors of 32 bytes: it computes the first element of each
vector from the start, rounds it, and adds multiples of the step to it. The remaining elements at the end are computed
one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays.precision import computing_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Payload

_VECTOR = 32
_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


@np.errstate(all="ignore")
def count_up(start: float, step: float, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return start + i * step, as torch.arange computes it: in double precision, or in single precision for halves."""
    index = np.arange(count, dtype=np.int64)
    if dtype.kind in "iub":
        return (int(start) + index * int(step)).astype(dtype)
    if dtype.kind == "c":
        return (start + index.astype(_DOUBLE) * step).astype(dtype)
    wide = _DOUBLE if computing_dtype(dtype) == dtype else _SINGLE
    width = _VECTOR // dtype.itemsize
    place = index % width
    place[count - count % width :] = 0
    base = _multiply_add(wide.type(step), (index - place).astype(wide), wide.type(start)).astype(dtype)
    return _multiply_add(wide.type(step), place.astype(wide), base.astype(wide)).astype(dtype)


@np.errstate(all="ignore")
def divide_evenly(start: Payload, end: Payload, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return `count` numbers from start to end, as torch.linspace computes them: in the dtype itself."""
    if dtype.kind == "c":
        real = np.empty(0, dtype).real.dtype
        made = np.empty(count, dtype)
        made.real = divide_evenly(complex(start).real, complex(end).real, count, real)
        made.imag = divide_evenly(complex(start).imag, complex(end).imag, count, real)
        return made
    if dtype.kind in "iu":
        return _count_from_ends(int(start), int(end), count, _DOUBLE, _multiply_add).astype(dtype)
    return _count_from_ends(start, end, count, dtype, _multiply_add if dtype.char in "fd" else _multiply_and_add)


@np.errstate(all="ignore")
def raise_to_powers(base: Payload, start: Payload, end: Payload, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return `base` to the powers from start to end, as torch.logspace computes them: in double precision."""
    if dtype.kind == "c":
        powers = divide_evenly(start, end, count, np.dtype(np.complex128))
    else:
        if dtype.kind in "iu":
            start, end = int(start), int(end)
        powers = _count_from_ends(start, end, count, _DOUBLE, _multiply_and_add)
    return np.asarray(np.power(base, powers).astype(dtype))


def _count_from_ends(start: Payload, end: Payload, count: int, dtype: np.dtype[Any], multiply_add: Any) -> NDArray[Any]:
    """Return elements counted from the start in the first half, and from the end in the second half."""
    first, last = dtype.type(start), dtype.type(end)
    if count < 2:
        return np.full(count, first, dtype)
    step = (last - first) / dtype.type(count - 1)
    index = np.arange(count, dtype=np.int64)
    half = count // 2
    return np.concatenate([
        multiply_add(step, index[:half].astype(dtype), first),
        multiply_add(-step, index[: count - half][::-1].astype(dtype), last),
    ])  # fmt: skip


def _multiply_and_add(a: Payload, b: NDArray[Any], c: Payload) -> NDArray[Any]:
    return np.asarray(a * b + c)


def _multiply_add(a: Payload, b: NDArray[Any], c: Payload) -> NDArray[Any]:
    """Return a b + c of numbers of one dtype, rounded once."""
    if b.dtype == _SINGLE:
        # The product is exact in double precision. The sum is rounded to odd there, so that rounding it to single
        # precision equals rounding the exact sum.
        product, addend = np.float64(a) * b.astype(_DOUBLE), np.asarray(c).astype(_DOUBLE)
        total, error = _two_sum(product, addend)
        is_even = total.view(np.int64) % 2 == 0
        odd = np.nextafter(total, np.copysign(np.inf, error))
        return np.where((error != 0) & is_even, odd, total).astype(_SINGLE)
    product = np.asarray(a * b)
    high_a, low_a = _split(np.asarray(a))
    high_b, low_b = _split(b)
    lost = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    total, error = _two_sum(product, np.asarray(c))
    exact = total + (error + lost)
    return np.where(np.isfinite(exact), exact, product + c)


def _two_sum(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sum of two arrays, and its rounding error (Knuth's algorithm)."""
    total = np.asarray(a + b)
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _split(a: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Split a double into a sum of two numbers of 26 bits (Veltkamp's algorithm)."""
    shifted = a * 134217729.0
    high = np.asarray(shifted - (shifted - a))
    return high, a - high
