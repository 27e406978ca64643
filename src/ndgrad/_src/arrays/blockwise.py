"""Functions of many elementwise steps on a large array: one native kernel, or cache-sized blocks on several threads.

Each NumPy call passes the whole array through memory. A function of ten calls does so ten times, with a temporary each.
On blocks that fit into the cache the temporaries never leave it: two to four times faster for a million float64
numbers, and the peak memory is that of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels, threads
from ndgrad._src.arrays.precision import is_inexact

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

# Bytes of a block. In smaller blocks the interpreter is the bottleneck, even more so if two threads share it; in larger
# ones it is the memory.
_SMALLEST, _LARGEST = 256 << 10, 1 << 20


def blockwise(kernel: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make `function(np, x, **settings)`, elementwise and keeping x's dtype, run natively or in blocks if x is large.

    `kernel` is the name of the native kernel, if there is one. Small arrays, scalars, arrays with gaps and arrays of
    other libraries are passed to the function directly.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(np: Library, x: Payload, **settings: Any) -> Payload:
            if x.size < native_kernels.SMALLEST:
                return function(np, x, **settings) if settings else function(np, x)
            kernels = native_kernels.kernels_for(x) if kernel is not None else None
            if kernels is not None:
                return kernels.elementwise(kernel, x, **settings)
            if x.nbytes < 2 * _SMALLEST or x.__class__ is not numpy.ndarray or not is_inexact(x.dtype):
                return function(np, x, **settings)
            flags = x.flags
            if not (flags.c_contiguous or flags.f_contiguous):
                return function(np, x, **settings)
            out = numpy.empty_like(x)  # same memory order as x, so that both flatten in the same way
            source, target = x.ravel(order="K"), out.ravel(order="K")
            length = min(max(x.nbytes // threads.max_threads, _SMALLEST), _LARGEST) // x.itemsize

            def worker(starts: Iterator[int]) -> None:
                for start in starts:
                    target[start : start + length] = function(np, source[start : start + length], **settings)

            threads.share(range(0, x.size, length), worker, threads=threads.max_threads)
            return out

        return run

    return decorate
