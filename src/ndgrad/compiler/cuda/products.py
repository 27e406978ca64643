"""Products of matrices and of stacks of them by cuBLAS, called directly: CuPy has no stacks of bfloat16, none whose results
are of another dtype than their operands, and takes longer to call. Halves are added up in single precision, and
results may stay in it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ndgrad.compiler.cuda import launch
from ndgrad.compiler.cuda.columns import add_along
from ndgrad.compiler.cuda.copies import in_order
from ndgrad.compiler.cuda.cublas import handle

#: cuBLAS's numbers of dtypes, by their characters; and of the precisions that sums are taken in.
_TYPES = {"f": 0, "d": 1, "e": 2, "E": 14}
_IN_SINGLE, _IN_TENSOR_FLOAT, _IN_DOUBLE = 68, 77, 70
_BY_DEFAULT = -1
#: Where one and zero lie, in single and in double precision.
_NUMBERS: list[Any] = [np.array([1, 0], np.float32), np.array([1, 0], np.float64)]
_ONE, _ZERO = ([a.ctypes.data + i * a.itemsize for a in _NUMBERS] for i in (0, 1))

#: How a product of arrays of these shapes, strides and dtypes is asked for; None if cuBLAS does not take them.
_asked: dict[Any, tuple[Any, ...] | None] = {}
#: Kinds of products that are remembered.
_MOST = 4096


def product(a: Any, b: Any) -> Any:
    """The product of two matrices; None if it is for CuPy."""
    key = (a.shape, a.strides, a.dtype.char, b.shape, b.strides, b.dtype.char)
    asked: Any = _asked.get(key, 0)
    if asked == 0:
        if len(_asked) >= _MOST:
            _asked.clear()
        asked = _asked[key] = _ask(a, b)
    if asked is None:
        return None
    shape, dtype, head, one, kind, a_step, b_step, zero, single = asked
    out = launch.new(shape, dtype)
    # cuBLAS thinks in columns: to it all matrices are transposed, and (a b)' = b' a'
    handle(a.data.device_id).gemm(
        *head, one, b.data.ptr, kind, b_step, a.data.ptr, kind,
        a_step, zero, out.data.ptr, kind, shape[1], _precision(single), _BY_DEFAULT,
    )  # fmt: skip
    return out


def _ask(a: Any, b: Any) -> tuple[Any, ...] | None:
    if a.dtype != b.dtype or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not (a.size and b.size):
        return None
    if not (takes(a) and takes(b)):
        return None
    (m, k), n = a.shape, b.shape[1]
    a_order, a_step = _laid_out(a)
    b_order, b_step = _laid_out(b)
    double = a.dtype.char == "d"
    head = b_order, a_order, n, m, k
    return (m, n), a.dtype, head, _ONE[double], _TYPES[a.dtype.char], a_step, b_step, _ZERO[double], a.dtype.char


def multiply(a: Any, b: Any, out: Any) -> None:
    """out[i] = a[i] @ b[i]: stacks (N, m, k), (N, k, n) and (N, m, n). The matrices of the last lie without gaps, of
    each of the others the rows or the columns lie side by side."""
    (count, m, k), n = a.shape, b.shape[2]
    a_order, a_step = _laid_out(a)
    b_order, b_step = _laid_out(b)
    item, double = a.dtype.itemsize, a.dtype.char == "d"
    handle(a.data.device_id).stacks(
        b_order, a_order, n, m, k, _ONE[double],
        b.data.ptr, _TYPES[b.dtype.char], b_step, b.strides[0] // item,
        a.data.ptr, _TYPES[a.dtype.char], a_step, a.strides[0] // item,
        _ZERO[double], out.data.ptr, _TYPES[out.dtype.char], n, out.strides[0] // out.dtype.itemsize, count,
        _precision(a.dtype.char), _BY_DEFAULT,
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def _switches() -> Any:
    from ndgrad.backends import cuda  # which is for users, and imports much

    return cuda.matmul


def _precision(char: str) -> int:
    """In which precision sums are taken; with `ndgrad.backends.cuda.matmul.allow_tf32` operands of single precision are
    rounded to ten bits for the tensor cores."""
    if char == "d":
        return _IN_DOUBLE
    return _IN_TENSOR_FLOAT if char == "f" and _switches().allow_tf32 else _IN_SINGLE


def takes(a: Any) -> bool:
    """Whether the rows or the columns of each matrix lie side by side."""
    item = a.dtype.itemsize
    return a.dtype.char in _TYPES and (_is_order(a, -1, -2, item) or _is_order(a, -2, -1, item))


def _is_order(a: Any, inner: int, outer: int, item: int) -> bool:
    """Whether dimension `inner` has steps of one, and `outer` steps at least as long as a line."""
    close = a.strides[inner] == item or a.shape[inner] == 1
    apart = a.strides[outer] >= item * a.shape[inner] or a.shape[outer] == 1
    return bool(close and apart and a.strides[outer] % item == 0)


def _laid_out(a: Any) -> tuple[int, int]:
    """cuBLAS's word for how matrices lie (as they are, or transposed), and the step between lines."""
    item, (rows, columns) = a.dtype.itemsize, a.shape[-2:]
    if _is_order(a, -1, -2, item):
        return 0, max(a.strides[-2] // item, columns) if rows > 1 else columns
    return 1, max(a.strides[-1] // item, rows) if columns > 1 else rows


# ----- ops ------------------------------------------------------------------------------------------------------------


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
