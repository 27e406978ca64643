"""The sum and the mean of all elements of an array on a device.

One block adds a short array. A long array takes as many blocks as keep the device busy, and another block adds their
sums. Their number depends only on the size, so a result is the same in every run. Halves are added in single precision.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.columns import ALL_SUMS
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.elementwise import BYTES
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Threads of a block; elements that one block adds, and maximum number of blocks.
_THREADS = 512
_SHORT = 1 << 14
_MOST_BLOCKS = 1024

_SOURCE = """
struct Arguments { long long n; R* out; const S* x; double divisor; };
extern "C" __global__ void __launch_bounds__(512) kernel(const Arguments a) {
    typedef Pack<S, WIDTH> Some;
    const long long step = (long long)gridDim.x * 512, first = (long long)blockIdx.x * 512 + threadIdx.x;
    const long long packs = a.n / WIDTH;
    T total = 0;
    for (long long i = first; i < packs; i += step) {
        const Some some = ((const Some*)a.x)[i];
        #pragma unroll
        for (int k = 0; k < WIDTH; ++k) total += wide(some.at[k]);
    }
    for (long long i = packs * WIDTH + first; i < a.n; i += step) total += wide(a.x[i]);
    total = all_sum(total);
    if (threadIdx.x == 0) put(a.out[blockIdx.x], total / T(a.divisor));
}
"""


@functools.lru_cache(maxsize=64)
def _kernel(given: str, result: str, computed: str, width: int, device: int) -> launch.Kernel:
    types = f"typedef {computed} T; typedef {STORED[given]} S; typedef {STORED[result]} R; enum {{ WIDTH = {width} }};"
    return launch.Kernel(PRELUDE + types + ALL_SUMS + _SOURCE, "3qd")


def _total(x: Any, dtype: np.dtype[Any], divisor: float) -> Any:
    given, result, device, n = x.dtype.char, dtype.char, x.data.device_id, x.size
    computed = launch.DOUBLE if "d" in (given, result) else launch.SINGLE
    name = COMPUTED[computed.char]
    width = 1 if x.data.ptr % BYTES else BYTES // x.dtype.itemsize
    out = launch.new((), dtype)
    blocks = 1 if n <= _SHORT else min(_MOST_BLOCKS, -(-n // (_THREADS * width)))
    if blocks == 1:
        _kernel(given, result, name, width, device)(1, _THREADS, n, out.data.ptr, x.data.ptr, divisor)
        return out
    parts = launch.allocate(blocks * computed.itemsize)
    _kernel(given, computed.char, name, width, device)(blocks, _THREADS, n, parts.ptr, x.data.ptr, 1.0)
    _kernel(computed.char, result, name, 1, device)(1, _THREADS, blocks, out.data.ptr, parts.ptr, divisor)
    return out


# ----- ops ------------------------------------------------------------------------------------------------------------


def _result_dtype(x: Any, dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype of the result; None if it is left to CuPy."""
    if not x.size or x.dtype.char not in STORED:
        return None
    wanted: np.dtype[Any] = x.dtype if dtype is None else np.dtype(dtype)
    return wanted if wanted.char in COMPUTED else None


def sum_all(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the sum of all elements; None if it is left to CuPy."""
    dtype = _result_dtype(operands[0], settings.get("dtype"))
    return None if dtype is None else _total(in_order(operands[0]), dtype, 1.0)


def mean_all(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the mean of all elements; None if it is left to CuPy."""
    dtype = _result_dtype(operands[0], settings.get("dtype"))
    return None if dtype is None else _total(in_order(operands[0]), dtype, float(operands[0].size))
