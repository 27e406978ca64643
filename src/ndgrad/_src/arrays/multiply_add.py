"""x * factor + term with a single rounding, by NumPy: the fused multiply-add of processors.

torch's kernels are compiled with it, so its random numbers have these bits. In single precision the product is exact in
double precision. In double precision the sum is made of exact parts (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", 2008): its low part is rounded to odd, so that the last addition rounds as if the sum were
exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Elements per step, so that the temporary arrays stay in the cache.
_CHUNK = 8192
#: 2^27 + 1 splits a number into halves whose products are exact (Veltkamp).
_SPLIT = 134217729.0
#: Larger numbers are not split, because the product with `_SPLIT` could overflow.
_LARGE = 1e290


def multiply_add(x: Payload, factor: Payload, term: Payload) -> Payload:
    """Return `x * factor + term` for an array of float32 or float64."""
    if x.dtype.itemsize == 4:
        factor, term = np.float32(factor), np.float32(term)
        if factor == 1:
            return x + term
        return (np.multiply(x, factor, dtype=np.float64) + term).astype(np.float32)
    if factor == 1:
        return x + term
    if term == 0 or not abs(factor) < _LARGE or not abs(term) < _LARGE:
        return x * factor + term
    if x.size <= _CHUNK:
        return _fused(x, float(factor), float(term))
    flat, made = x.reshape(-1), np.empty(x.shape)
    out = made.reshape(-1)
    for start in range(0, x.size, _CHUNK):
        out[start : start + _CHUNK] = _fused(flat[start : start + _CHUNK], float(factor), float(term))
    return made


def _fused(x: Payload, factor: float, term: float) -> Payload:
    high, low = _product(x, factor)
    first, rest = _sum(term, low)
    result, other = _sum(high, first)
    return result + _sum_to_odd(rest, other)


def _product(x: Payload, factor: float) -> tuple[Any, Any]:
    """Return the rounded product and its error."""
    scaled = x * _SPLIT
    upper = scaled - (scaled - x)
    lower = x - upper
    big = factor * _SPLIT
    top = big - (big - factor)
    bottom = factor - top
    product = x * factor
    return product, lower * bottom - (((product - upper * top) - lower * top) - upper * bottom)


def _sum(a: Payload, b: Payload) -> tuple[Any, Any]:
    """Return the rounded sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _sum_to_odd(a: Payload, b: Payload) -> Payload:
    """Return a + b rounded to odd: if it is not exact, the neighbour whose last bit is one."""
    total, error = _sum(a, b)
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where((error != 0) & (bits & 1 == 0), bits + step, bits).view(np.float64)
