"""Products of two matrices for eager calls, by the kernels of compiled programs.

A call looks up the division of the product by sizes and strides, fills in addresses and starts the pool, in some two
microseconds.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels.arrays import ProductSizes, available, code, keep_scratch, product_sizes
from ndgrad._src.compiler.native import pool
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import TYPES
from ndgrad._src.foundations.bounded_tables import make_room

Array = NDArray[Any]


class _Launch(NamedTuple):
    """A product of given sizes and strides."""

    address: int
    #: The words before and between the addresses of the operands.
    sizes: tuple[int, int, int]
    steps: tuple[int, int, int, int, int]
    division: ProductSizes
    threads: int
    #: Bytes from the buffer of one worker to the next.
    buffer_step: int


_launches: dict[Any, _Launch | None] = {}
#: Maximum number of launches that are kept.
_MOST = 4096
_WORDS, _AHEAD_WORDS = struct.Struct("16q").pack, struct.Struct("6q").pack


def multiply(a: Array, b: Array) -> Array | None:
    """Return the product of matrices of one floating dtype with any strides; None if there are no kernels for them."""
    key = a.dtype.char, a.shape, b.shape, a.strides, b.strides, allowed.max_threads
    try:
        launch = _launches[key]
    except KeyError:
        make_room(_launches, _MOST)
        launch = _launches[key] = _make_launch(a, b)
    if launch is None:
        return None
    m, n, _ = launch.sizes
    out = np.empty((m, n), a.dtype)
    at_a, at_b, at_out = address_reader()(a, b, out)
    division, (ra, ca, rb, cb, rc) = launch.division, launch.steps
    packed = 0
    run = pool.pool()._run
    if division.ahead:
        packed = keep_scratch("packed", division.ahead)
        words = _AHEAD_WORDS(n, launch.sizes[2], at_b, rb, cb, packed)
        run(_ahead_address(a.dtype), words, division.ahead_chunks, allowed.max_threads)
    buffer = keep_scratch("buffer", launch.threads * launch.buffer_step)
    words = _WORDS(*launch.sizes, at_a, ra, ca, at_b, rb, cb, at_out, rc, 0, 0, packed, buffer, launch.buffer_step)
    run(launch.address, words, division.chunks, launch.threads)
    return out


def _make_launch(a: Array, b: Array) -> _Launch | None:
    if not available(a.dtype, ("product",)):
        return None
    (m, k), n, size = a.shape, b.shape[1], a.itemsize
    strides = (*a.strides, *b.strides)
    if any(s % size for s in strides):
        return None
    element = TYPES[a.dtype.name]
    division = product_sizes(element, m, n, k, allowed.max_threads > 1)
    threads = 1 if division.chunks == 1 else max(1, min(division.chunks, allowed.max_threads))
    ra, ca, rb, cb = (s // size for s in strides)
    address = code("product", element).address("product_work")
    return _Launch(address, (m, n, k), (ra, ca, rb, cb, n), division, threads, -(-division.buffer // 128) * 128)


def _ahead_address(dtype: np.dtype[Any]) -> int:
    return code("product", TYPES[dtype.name]).address("product_ahead_pack_work")
