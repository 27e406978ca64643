"""Products of matrices and of stacks of them by cuBLAS, called directly.

CuPy has no stacks of bfloat16, none whose results have another dtype than their operands, and takes longer to call.
Halves are added in single precision, and results may stay in it. The parameters of a call depend only on shapes,
strides and dtypes. They are determined once for each kind, with cuBLASLt's algorithm if it has one.
"""

from __future__ import annotations

import threading
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import gpu_switches, library
from ndgrad._src.compiler.cuda import cublas_lt, launch
from ndgrad._src.compiler.cuda.columns import add_along
from ndgrad._src.compiler.cuda.copies import in_order, reshape
from ndgrad._src.compiler.cuda.cublas import handle
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.ops.product import plan_of

#: cuBLAS's numbers of dtypes, by their characters, and of the precisions of sums.
_TYPES = {"f": 0, "d": 1, "e": 2, "E": 14}
_IN_SINGLE, _IN_TENSOR_FLOAT, _IN_DOUBLE = 68, 77, 70
_BY_DEFAULT = -1
#: One and zero, in single and in double precision.
_NUMBERS: list[Any] = [np.array([1, 0], np.float32), np.array([1, 0], np.float64)]
_ONE, _ZERO = ([a.ctypes.data + i * a.itemsize for a in _NUMBERS] for i in (0, 1))

#: Maximum number of kinds of products that a thread remembers.
_MOST = 4096


class _Asked(NamedTuple):
    """The parameters of a kind of product."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bytes: int
    #: by cuBLASLt; None if it has no algorithm
    by_plan: cublas_lt.Product | None
    #: cuBLAS's arguments before the address of b, between those of b and a, and after that
    head: tuple[Any, ...]
    middle: tuple[Any, ...]
    tail: tuple[Any, ...]
    columns: int
    char: str


class _Here(threading.local):
    """The kinds of products known to a thread."""

    def __init__(self) -> None:
        self.asked: dict[Any, _Asked | None] = {}


_here = _Here()
_unknown: Any = object()


def product(a: Any, b: Any, bias: Any = None, b_transposed: bool = False, a_transposed: bool = False) -> Any:
    """Return the product of rows (..., k) with a matrix (k, n), and a bias added to each row; None if it is left to
    CuPy.

    All leading dimensions of `a` are merged. `b_transposed`: b is (n, k). `a_transposed`: all leading dimensions of
    both are summed over.
    """
    a_at, b_at = a.data, b.data
    device, char = a_at.device_id, a.dtype.char
    tensor_float = char == "f" and gpu_switches.matmul.allow_tf32
    key = (
        a.shape, a.strides, b.shape, b.strides, char, b.dtype.char, b_transposed, a_transposed, bias is None, tensor_float,
        device,
    )  # fmt: skip
    asked = _here.asked.get(key, _unknown)
    if asked is _unknown:
        make_room(_here.asked, _MOST)
        asked = _here.asked[key] = _ask(a, b, bias is not None, b_transposed, a_transposed)
    if asked is None:
        return None
    here = handle(device)
    memory = launch.allocate(asked.bytes)
    out = launch.array(asked.shape, asked.dtype, memory)
    a_at, b_at, to = a_at.ptr, b_at.ptr, memory.ptr
    shift = 0 if bias is None else bias.data.ptr
    if asked.by_plan is not None and not (a_at | b_at | shift) % cublas_lt.ALIGNMENT:
        asked.by_plan(a_at, b_at, to, shift, here.workspace, here.stream)
        return out
    here.gemm(*asked.head, b_at, *asked.middle, a_at, *asked.tail, to, _TYPES[char], asked.columns, _precision(char), _BY_DEFAULT)
    return out if bias is None or add_along(out, bias, out.ndim - 1) else None


class _Lies(NamedTuple):
    """A matrix: its sizes, True if columns are contiguous instead of rows, and the step between lines."""

    sizes: tuple[int, int]
    order: int
    step: int

    @classmethod
    def from_array(cls, x: Any, transposed: bool) -> _Lies | None:
        """Merge all leading dimensions; None if they have no common step, or cuBLAS does not support it."""
        item = x.dtype.itemsize
        if x.ndim == 2:
            rows, (outer, inner) = x.shape[0], x.strides
        elif x.ndim and x._c_contiguous:
            rows, outer, inner = prod(x.shape[:-1]), x.shape[-1] * item, item
        else:
            return None
        shape, strides = (rows, x.shape[-1]), (outer, inner)
        if transposed:
            shape, strides = shape[::-1], strides[::-1]
        for order, (inside, outside) in enumerate(((1, 0), (0, 1))):
            if _is_order(shape, strides, inside, outside, item):
                lines, width = shape[outside], shape[inside]
                return cls(shape, order, max(strides[outside] // item, width) if lines > 1 else width)
        return None


def _ask(a: Any, b: Any, with_bias: bool, b_transposed: bool, a_transposed: bool) -> _Asked | None:
    if a.dtype != b.dtype or a.dtype.char not in _TYPES or not (a.size and b.size):
        return None
    left, right = _Lies.from_array(a, a_transposed), _Lies.from_array(b, b_transposed)
    if left is None or right is None or left.sizes[1] != right.sizes[0] or (b.ndim != 2 and not a_transposed):
        return None
    (m, k), n, char = left.sizes, right.sizes[1], a.dtype.char
    double, type = char == "d", _TYPES[char]
    one, zero = _ONE[double], _ZERO[double]
    plan = None
    if cublas_lt.functions() is not None:
        try:
            plan = cublas_lt.Product(
                a.data.device_id, type, _precision(char), int(double), (m, n, k), left[1:], right[1:], (one, zero), with_bias
            )
        except (LookupError, RuntimeError):
            plan = None  # cuBLAS has one, or raises the error
    head = (right.order, left.order, n, m, k, one)
    return _Asked(
        (m, n) if a_transposed else (*a.shape[:-1], n), a.dtype, m * n * a.dtype.itemsize, plan, head, (type, right.step),
        (type, left.step, zero), n, char,
    )  # fmt: skip


def multiply(a: Any, b: Any, out: Any, a_transposed: bool = False, b_transposed: bool = False) -> None:
    """Compute out[i] = a[i] @ b[i] for stacks (N, m, k), (N, k, n) and (N, m, n), the first two possibly transposed.

    The matrices of `out` have no gaps; the others have contiguous rows or columns.
    """
    count, m, n = out.shape
    k = a.shape[1] if a_transposed else a.shape[2]
    a_order, a_step = _laid_out(a)
    b_order, b_step = _laid_out(b)
    a_order, b_order = a_order ^ a_transposed, b_order ^ b_transposed
    item, double = a.dtype.itemsize, a.dtype.char == "d"
    handle(a.data.device_id).stacks(
        b_order, a_order, n, m, k, _ONE[double],
        b.data.ptr, _TYPES[b.dtype.char], b_step, b.strides[0] // item,
        a.data.ptr, _TYPES[a.dtype.char], a_step, a.strides[0] // item,
        _ZERO[double], out.data.ptr, _TYPES[out.dtype.char], n, out.strides[0] // out.dtype.itemsize, count,
        _precision(a.dtype.char), _BY_DEFAULT,
    )  # fmt: skip


def _precision(char: str) -> int:
    """Return the precision of sums.

    With `ndgrad.backends.cuda.matmul.allow_tf32`, operands of single precision are rounded to ten bits for the tensor
    cores.
    """
    if char == "d":
        return _IN_DOUBLE
    return _IN_TENSOR_FLOAT if char == "f" and gpu_switches.matmul.allow_tf32 else _IN_SINGLE


def takes(a: Any) -> bool:
    """True if the rows or the columns of each matrix are contiguous."""
    item, shape, strides = a.dtype.itemsize, a.shape, a.strides
    return a.dtype.char in _TYPES and (
        _is_order(shape, strides, -1, -2, item) or _is_order(shape, strides, -2, -1, item)
    )


def _is_order(shape: tuple[int, ...], strides: tuple[int, ...], inner: int, outer: int, item: int) -> bool:
    """True if dimension `inner` has steps of one, and `outer` steps at least as long as a line."""
    close = strides[inner] == item or shape[inner] == 1
    apart = strides[outer] >= item * shape[inner] or shape[outer] == 1
    return close and apart and strides[outer] % item == 0


def _laid_out(a: Any) -> tuple[int, int]:
    """Return cuBLAS's layout of matrices (plain, or transposed), and the step between lines."""
    item, (rows, columns) = a.dtype.itemsize, a.shape[-2:]
    if _is_order(a.shape, a.strides, -1, -2, item):
        return 0, max(a.strides[-2] // item, columns) if rows > 1 else columns
    return 1, max(a.strides[-1] // item, rows) if columns > 1 else rows


# ----- ops ------------------------------------------------------------------------------------------------------------


def linear(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return x w' + b; None if it is left to CuPy."""
    x, w, b = operands
    if b is not None and (b.dtype != x.dtype or not b._c_contiguous):
        return None
    return product(_rows(x), w, b, b_transposed=True)


def _rows(x: Any) -> Any:
    """Return an array whose leading dimensions can be merged."""
    return x if x.ndim <= 2 or x._c_contiguous or not x.size else in_order(x)


def summed_product(a: Any, b: Any) -> Any:
    """Return a' b, for a (..., m) and b (..., n), the gradient of a weight; None if it is left to CuPy."""
    return product(_rows(a), _rows(b), a_transposed=True)


def matmul(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return products of matrices and of stacks of them; None if it is left to CuPy."""
    x, y = operands
    if y.ndim == 2 and x.ndim >= 2:
        return product(_rows(x), y)
    if x.ndim == 0 or y.ndim == 0:
        return None
    if x.ndim == 1 or y.ndim == 1:
        return _with_vectors(x, y)
    return _stacks(x, y)


def _with_vectors(x: Any, y: Any) -> Any:
    """Return a product of which an operand is a vector: it is a matrix of one row, or of one column."""
    left = x.reshape(1, len(x)) if x.ndim == 1 else x
    right = y.reshape(len(y), 1) if y.ndim == 1 else y
    out = matmul((left, right), {})
    if out is None:
        return None
    shape = out.shape[:-1] if y.ndim == 1 else out.shape
    return launch.shaped(out, (*shape[:-2], *shape[-1:]) if x.ndim == 1 and y.ndim > 1 else shape[:-1] if x.ndim == 1 else shape)


def _stacks(x: Any, y: Any) -> Any:
    """Return the products of stacks of matrices with equal leading dimensions, or of one matrix with those of a stack."""
    lead = x.shape[:-2] or y.shape[:-2]
    if x.dtype != y.dtype or x.shape[-1] != y.shape[-2] or not (x.size and y.size):
        return None
    if any(a.ndim > 2 and a.shape[:-2] != lead for a in (x, y)):
        return None
    count = prod(lead)
    a, b = _stack(x, count), _stack(y, count)
    if a is None or b is None:
        return None
    out = launch.new((*lead, x.shape[-2], y.shape[-1]), x.dtype)
    multiply(a, b, out.reshape(count, *out.shape[-2:]))
    return out


def contract(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a contraction of two arrays as one product of (stacks of) matrices; None if it is left to CuPy."""
    (x, y), plan = operands, plan_of(settings["subscripts"])
    if x.dtype != y.dtype or x.dtype.char not in _TYPES or not (x.size and y.size):
        return None
    if plan.turned is not None:
        return contract((y, x), {"subscripts": plan.turned})
    if plan.elementwise:
        return None
    x, y = x.transpose(plan.x_order), y.transpose(plan.y_order)
    s, k = plan.shared, plan.x_contracted
    lead, x_own, y_own = x.shape[:s], x.shape[s : s + plan.x_own], y.shape[s + k :]
    size = prod(x.shape[s + plan.x_own :])
    left = _merge_dims(x, (*lead, prod(x_own), size))
    right = _merge_dims(y, (*lead, size, prod(y_own)))
    out = matmul((left, right), {})
    return None if out is None else launch.shaped(out, (*lead, *x_own, *y_own)).transpose(plan.order)


def _merge_dims(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array in a shape with merged dimensions: a view if strides allow it, else a copy."""
    out = reshape((x,), {"shape": shape})
    return x.reshape(shape) if out is None else out


def _stack(x: Any, count: int) -> Any:
    """Return (N, rows, columns) whose matrices cuBLAS supports; None if there are no such numbers."""
    if x.dtype.char not in _TYPES:
        return None
    if x.ndim == 2:  # the same matrix for all
        x = x if takes(x) else in_order(x)
        return library.device_library.ndarray((count, *x.shape), x.dtype, x.data, (0, *x.strides))
    x = x if x.ndim == 3 else x.reshape(-1, *x.shape[-2:])
    return x if takes(x) else in_order(x)
