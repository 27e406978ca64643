"""Functions on arrays from kernels on blocks.

A kernel takes one-dimensional float64 blocks and returns one. The other parts of a ufunc (broadcasting, casting, the
dtype of the result, scalars, empty arrays) are implemented here once, block by block, so that temporaries never leave
the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndgrad._src.arrays.precision import result_dtype

Block: TypeAlias = NDArray[np.float64]
Kernel: TypeAlias = Callable[..., Block]
Coefficients: TypeAlias = tuple[float, ...]

# 16384 doubles are 128 KiB: the few live arrays of a polynomial share a second-level cache, and the cost per call is
# negligible. This was the fastest of 2048, 4096, 8192, 16384 and 65536 for erf.
BLOCK = 16384


def apply_kernel(name: str, kernel: Kernel, *arguments: ArrayLike) -> NDArray[Any]:
    """Apply a kernel of 1-d float64 blocks as a ufunc: with broadcasting and casting, keeping the dtype."""
    # Python numbers stay as they are here, so that they do not widen a float32 array (NEP 50).
    operands = [value if isinstance(value, (int, float)) else np.asarray(value) for value in arguments]
    dtype = result_dtype(*operands)
    if dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    if dtype.kind != "V" and not np.can_cast(dtype, np.float64):
        raise TypeError(
            f"{name} got {dtype} input; without SciPy it is computed in float64, from real types up to it. "
            f'Convert the input with .astype(numpy.float64), or install SciPy: pip install scipy. [nd-dtype]'
        )
    access: list[Any] = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    blocks = np.nditer(
        [*(np.asarray(value) for value in operands), None],
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=access,
        op_dtypes=[np.dtype(np.float64)] * len(operands) + [dtype],
        casting="same_kind",
        buffersize=BLOCK,
    )
    # Poles, overflow to infinity and NaN are valid results here, as for SciPy's ufuncs, and raise no warning.
    with blocks, np.errstate(all="ignore"):
        for *block, output in blocks:
            output[...] = kernel(*block)
        result: NDArray[Any] = blocks.operands[-1]
    return result[()] if result.ndim == 0 else result


def split(mask: NDArray[np.bool_], inside: Kernel, outside: Kernel, *blocks: Block) -> Block:
    """Return inside(*blocks) where the mask is true and outside(*blocks) elsewhere, each computed only for its own
    part.
    """
    count = np.count_nonzero(mask)
    if count == mask.size:
        return inside(*blocks)
    if count == 0:
        return outside(*blocks)
    result = np.empty(mask.shape)
    for where, kernel in ((np.flatnonzero(mask), inside), (np.flatnonzero(~mask), outside)):
        result[where] = kernel(*(block[where] for block in blocks))
    return result


def polynomial(coefficients: Sequence[float], x: Block) -> Block:
    """Evaluate a polynomial by Horner's rule in place, with one temporary for any degree."""
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


def quotient(numerator: Coefficients, denominator: Coefficients, x: Block) -> Block:
    value = polynomial(numerator, x)
    value /= polynomial(denominator, x)
    return value
