"""Products of matrices and of stacks of them by cuBLAS, called directly: CuPy has no stacks of bfloat16, none whose results
are of another dtype than their operands, and takes longer to call. Halves are added up in single precision, and
results may stay in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.arrays import library
from ndgrad.compiler.cuda import launch
from ndgrad.compiler.cuda.columns import add_along
from ndgrad.compiler.cuda.copies import in_order

#: cuBLAS's numbers of dtypes, by their characters; and of the precisions that sums are taken in.
_TYPES = {"f": 0, "d": 1, "e": 2, "E": 14}
_IN_SINGLE, _IN_DOUBLE = 68, 70
_BY_DEFAULT = -1
_ONE: dict[str, Any] = {"f": np.ones((), np.float32), "d": np.ones((), np.float64)}
_ZERO: dict[str, Any] = {"f": np.zeros((), np.float32), "d": np.zeros((), np.float64)}


def multiply(a: Any, b: Any, out: Any) -> None:
    """out[i] = a[i] @ b[i]: stacks (N, m, k), (N, k, n) and (N, m, n). The matrices of the last lie without gaps, of
    each of the others the rows or the columns lie side by side."""
    from cupy_backends.cuda.libs import cublas  # only where CuPy is

    (count, m, k), n = a.shape, b.shape[2]
    single = out.dtype.char if a.dtype.char != "d" else "d"
    computed = "d" if single == "d" else "f"
    a_order, a_step = _laid_out(a)
    b_order, b_step = _laid_out(b)
    item = a.dtype.itemsize
    # cuBLAS thinks in columns: to it all matrices are transposed, and (a b)' = b' a'
    cublas.gemmStridedBatchedEx(
        library.device_library.cuda.device.get_cublas_handle(), b_order, a_order, n, m, k, _ONE[computed].ctypes.data,
        b.data.ptr, _TYPES[b.dtype.char], b_step, b.strides[0] // item,
        a.data.ptr, _TYPES[a.dtype.char], a_step, a.strides[0] // item,
        _ZERO[computed].ctypes.data, out.data.ptr, _TYPES[out.dtype.char], n, out.strides[0] // out.dtype.itemsize, count,
        _IN_DOUBLE if computed == "d" else _IN_SINGLE, _BY_DEFAULT,
    )  # fmt: skip


def takes(a: Any) -> bool:
    """Whether the rows or the columns of each matrix of a stack lie side by side."""
    item = a.dtype.itemsize
    return a.dtype.char in _TYPES and (_is_order(a, 2, 1, item) or _is_order(a, 1, 2, item))


def _is_order(a: Any, inner: int, outer: int, item: int) -> bool:
    """Whether dimension `inner` has steps of one, and `outer` steps at least as long as a line."""
    close = a.strides[inner] == item or a.shape[inner] == 1
    apart = a.strides[outer] >= item * a.shape[inner] or a.shape[outer] == 1
    return bool(close and apart and a.strides[outer] % item == 0)


def _laid_out(a: Any) -> tuple[int, int]:
    """cuBLAS's word for how the matrices of a stack lie (as they are, or transposed), and the step between lines."""
    item, (_, rows, columns) = a.dtype.itemsize, a.shape
    if _is_order(a, 2, 1, item):
        return 0, max(a.strides[1] // item, columns) if rows > 1 else columns
    return 1, max(a.strides[2] // item, rows) if columns > 1 else rows


# ----- ops ------------------------------------------------------------------------------------------------------------


def product(a: Any, b: Any) -> Any:
    """The product of two matrices; None if it is for CuPy."""
    if a.dtype != b.dtype or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not (a.size and b.size):
        return None
    a, b = a[None], b[None]
    if not (takes(a) and takes(b)):
        return None
    out = launch.new((a.shape[1], b.shape[2]), a.dtype)
    multiply(a, b, out[None])
    return out


def linear(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """x w' + b with the bias added in place; None if it is for CuPy."""
    x, w, b = operands
    rows = x if x.ndim == 2 else in_order(x).reshape(-1, x.shape[-1]) if x.size else x
    out = product(rows, w.T)
    if out is None or (b is not None and not add_along(out, b, 1)):
        return None
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], len(w))


def matmul(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Products of matrices and of stacks of them; None if it is for CuPy."""
    x, y = operands
    if y.ndim == 2 and x.ndim >= 2:
        rows = x if x.ndim == 2 else in_order(x).reshape(-1, x.shape[-1]) if x.size else x
        out = product(rows, y)
        return out if out is None or x.ndim == 2 else out.reshape(*x.shape[:-1], y.shape[1])
    lead = x.shape[:-2]
    if x.ndim < 3 or y.shape[:-2] != lead or x.dtype != y.dtype or x.shape[-1] != y.shape[-2] or not (x.size and y.size):
        return None
    a, b = _stack(x), _stack(y)
    if a is None or b is None:
        return None
    out = launch.new((*lead, x.shape[-2], y.shape[-1]), x.dtype)
    multiply(a, b, out.reshape(len(a), *out.shape[-2:]))
    return out


def _stack(x: Any) -> Any:
    """(N, rows, columns) of which cuBLAS takes each matrix; None if there are no such numbers."""
    if x.dtype.char not in _TYPES:
        return None
    x = x if x.ndim == 3 else x.reshape(-1, *x.shape[-2:])
    return x if takes(x) else in_order(x)
