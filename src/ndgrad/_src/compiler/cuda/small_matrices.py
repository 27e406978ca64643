"""Linear algebra of small matrices on a device: one warp for each matrix of a stack, in shared memory.

Elimination chooses the largest element of a column as pivot, as LAPACK does. A warp notes a matrix that is singular, or
not positive definite, in memory of the host. The call waits for it, as it would for the status of a library, and leaves
such a stack to CuPy, which raises the error. A recorded call cannot wait: the device notes the fault, as it notes an
index out of bounds. Determinants and triangular systems need no such check.

Each lane holds a row during elimination, and a column of the right-hand side during substitution.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.elementwise import LARGEST
from ndgrad._src.compiler.cuda.index_faults import NOTE, notes
from ndgrad._src.ops.matrix import LinAlgError

#: The largest order of a matrix, and the most bytes of shared memory of a block.
LARGEST_ORDER, _SHARED = 32, 40 << 10
_TYPES = {"f": "float", "d": "double"}

_SOURCE = NOTE + """
struct Operand { const T* at; long long each, row, column; };
struct Arguments { long long count; Operand a, b; T* out; T* more; volatile long long* failed; long long columns, upper, unit;
                   Note note; };
__device__ inline void fail(const Arguments& a, long long matrix) {
    if (a.note.call) leave(a.note, matrix);
    else *a.failed = 1;
}
#define A(i, j) a_[(i) * (N + 1) + (j)]
#define B(i, j) b_[(i) * 33 + (j)]

__device__ inline void load(T* a_, const Operand from, long long matrix, int lane) {
    for (int e = lane; e < N * N; e += 32) {
        const int i = e / N, j = e % N;
        A(i, j) = from.at[matrix * from.each + i * from.row + j * from.column];
    }
    __syncwarp();
}

/* Factor P A = L U in place. The pivots' rows, the sign of P, and true if no pivot is zero. */
__device__ inline bool factor(T* a_, int* pivots, T& sign, int lane) {
    bool regular = true;
    sign = 1;
    for (int k = 0; k < N; ++k) {
        const T own = lane >= k && lane < N ? fabs(A(lane, k)) : T(-1);
        T best = own != own ? T(__int_as_float(0x7f800000)) : own;
        int row = lane;
        for (int d = 16; d; d >>= 1) {
            const T other = __shfl_xor_sync(0xffffffff, best, d);
            const int there = __shfl_xor_sync(0xffffffff, row, d);
            if (other > best || (other == best && there < row)) { best = other; row = there; }
        }
        if (lane == 0) pivots[k] = row;
        if (row != k) {
            sign = -sign;
            if (lane < N) { const T x = A(k, lane); A(k, lane) = A(row, lane); A(row, lane) = x; }
        }
        __syncwarp();
        const T pivot = A(k, k);
        regular = regular && pivot != 0;
        if (lane > k && lane < N) {
            const T factor = pivot == 0 ? T(0) : A(lane, k) / pivot;
            A(lane, k) = factor;
            for (int j = k + 1; j < N; ++j) A(lane, j) -= factor * A(k, j);
        }
        __syncwarp();
    }
    return regular;
}

/* Solve P^-1 L U x = b for the column of a lane. */
__device__ inline void substitute(const T* a_, T* b_, const int* pivots, int lane) {
    for (int k = 0; k < N; ++k) { const T x = B(k, lane); B(k, lane) = B(pivots[k], lane); B(pivots[k], lane) = x; }
    for (int i = 1; i < N; ++i) {
        T x = B(i, lane);
        for (int j = 0; j < i; ++j) x -= A(i, j) * B(j, lane);
        B(i, lane) = x;
    }
    for (int i = N - 1; i >= 0; --i) {
        T x = B(i, lane);
        for (int j = i + 1; j < N; ++j) x -= A(i, j) * B(j, lane);
        B(i, lane) = x / A(i, i);
    }
}

#define BEGIN \\
    __shared__ T all_a[WARPS][N * (N + 1)]; \\
    __shared__ T all_b[WARPS][HAS_B ? N * 33 : 1]; \\
    __shared__ int all_pivots[WARPS][N]; \\
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32; \\
    const long long matrix = (long long)blockIdx.x * WARPS + warp; \\
    if (matrix >= a.count) return; \\
    T* const a_ = all_a[warp]; \\
    T* const b_ = all_b[warp]; \\
    int* const pivots = all_pivots[warp]; \\
    load(a_, a.a, matrix, lane);
"""

_BODIES = {
    "inv": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    T sign;
    if (!factor(a_, pivots, sign, lane) && lane == 0) fail(a, matrix);
    if (lane < N) {
        for (int i = 0; i < N; ++i) B(i, lane) = i == lane ? T(1) : T(0);
        substitute(a_, b_, pivots, lane);
    }
    __syncwarp();
    for (int e = lane; e < N * N; e += 32) a.out[matrix * N * N + e] = B(e / N, e % N);
}
""",
    "cofactor": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    T sign;
    if (!factor(a_, pivots, sign, lane) && lane == 0) fail(a, matrix);
    for (int i = 0; i < N; ++i) sign *= A(i, i);
    if (lane < N) {
        for (int i = 0; i < N; ++i) B(i, lane) = i == lane ? T(1) : T(0);
        substitute(a_, b_, pivots, lane);
    }
    __syncwarp();
    for (int e = lane; e < N * N; e += 32) a.out[matrix * N * N + e] = B(e % N, e / N) * sign;
}
""",
    "solve": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    T sign;
    if (!factor(a_, pivots, sign, lane) && lane == 0) fail(a, matrix);
    for (long long c = lane; c < a.columns; c += 32) {
        for (int i = 0; i < N; ++i) B(i, lane) = a.b.at[matrix * a.b.each + i * a.b.row + c * a.b.column];
        substitute(a_, b_, pivots, lane);
        for (int i = 0; i < N; ++i) a.out[(matrix * N + i) * a.columns + c] = B(i, lane);
    }
}
""",
    "solve_triangular": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    for (long long c = lane; c < a.columns; c += 32) {
        for (int i = 0; i < N; ++i) B(i, lane) = a.b.at[matrix * a.b.each + i * a.b.row + c * a.b.column];
        for (int k = 0; k < N; ++k) {
            const int i = a.upper ? N - 1 - k : k;
            T x = B(i, lane);
            if (a.upper) for (int j = i + 1; j < N; ++j) x -= A(i, j) * B(j, lane);
            else for (int j = 0; j < i; ++j) x -= A(i, j) * B(j, lane);
            B(i, lane) = a.unit ? x : x / A(i, i);
        }
        for (int i = 0; i < N; ++i) a.out[(matrix * N + i) * a.columns + c] = B(i, lane);
    }
}
""",
    "det": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    T sign;
    factor(a_, pivots, sign, lane);
    for (int i = 0; i < N; ++i) sign *= A(i, i);
    if (lane == 0) a.out[matrix] = sign;
}
""",
    "slogdet": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    T sign, total = 0;
    factor(a_, pivots, sign, lane);
    for (int i = 0; i < N; ++i) {
        const T x = A(i, i);
        sign = x != x ? x : x == 0 ? T(0) : x < 0 ? -sign : sign;
        total += log(fabs(x));
    }
    if (lane == 0) { a.out[matrix] = sign; a.more[matrix] = total; }
}
""",
    "cholesky": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    for (int k = 0; k < N; ++k) {
        const T pivot = A(k, k);
        if (!(pivot > 0) && lane == 0) fail(a, matrix);
        const T root = sqrt(pivot);
        __syncwarp();
        if (lane >= k && lane < N) A(lane, k) = lane == k ? root : A(lane, k) / root;
        __syncwarp();
        if (lane > k && lane < N) {
            const T factor = A(lane, k);
            for (int j = k + 1; j <= lane; ++j) A(lane, j) -= factor * A(j, k);
        }
        __syncwarp();
    }
    for (int e = lane; e < N * N; e += 32) a.out[matrix * N * N + e] = e % N <= e / N ? A(e / N, e % N) : T(0);
}
""",
    # With L in A and g in B: phi(L^T g), then two systems with L^T, and the symmetric part (ndgrad._src.ops.solve).
    "cholesky_gradient": """
extern "C" __global__ void __launch_bounds__(32 * WARPS) kernel(const Arguments a) {
    BEGIN
    for (int i = 0; i < N; ++i) if (lane < N) B(i, lane) = a.b.at[matrix * a.b.each + i * a.b.row + lane * a.b.column];
    __syncwarp();
    if (lane < N) {
        for (int i = 0; i < N; ++i) {
            T x = 0;
            if (i >= lane) for (int k = i; k < N; ++k) x += A(k, i) * B(k, lane);
            B(i, lane) = i == lane ? x / 2 : x;
        }
        for (int i = N - 1; i >= 0; --i) {
            T x = B(i, lane);
            for (int k = i + 1; k < N; ++k) x -= A(k, i) * B(k, lane);
            B(i, lane) = x / A(i, i);
        }
    }
    __syncwarp();
    if (lane < N) {
        for (int i = N - 1; i >= 0; --i) {
            T x = B(lane, i);
            for (int k = i + 1; k < N; ++k) x -= A(k, i) * B(lane, k);
            B(lane, i) = x / A(i, i);
        }
    }
    __syncwarp();
    for (int e = lane; e < N * N; e += 32) a.out[matrix * N * N + e] = (B(e / N, e % N) + B(e % N, e / N)) / 2;
}
""",
}
_LAYOUT = "18q"


def _needs_b(name: str) -> bool:
    """True if a kernel keeps columns of a second matrix in shared memory."""
    return "B(" in _BODIES[name]


def source(name: str, char: str, order: int, warps: int) -> str:
    """Return the text of a kernel for matrices of one order."""
    return (
        f"typedef {_TYPES[char]} T; enum {{ N = {order}, WARPS = {warps}, HAS_B = {int(_needs_b(name))} }};\n"
        f"{_SOURCE}{_BODIES[name]}"
    )


@functools.lru_cache(maxsize=256)
def _kernel(name: str, char: str, order: int, device: int) -> tuple[launch.Kernel, int]:
    """Return a kernel and the matrices of a block."""
    size = (order * (order + 1) + (order * 33 if _needs_b(name) else 0)) * (8 if char == "d" else 4)
    warps = max(1, min(8, _SHARED // size))
    return launch.Kernel(source(name, char, order, warps), _LAYOUT), warps


class _Here(threading.local):
    """The flag of a thread, in memory of the host that kernels can write."""

    def __init__(self) -> None:
        self._memory = library.device_library.cuda.alloc_pinned_memory(8)
        self.flag = np.frombuffer(self._memory, np.int64, 1)
        self.address: int = self._memory.ptr


@functools.lru_cache(maxsize=1)
def flag_of_thread() -> _Here:
    """Return the flag of this thread."""
    return _Here()


def _is_small(*arrays: Any) -> bool:
    """True if the kernels support these matrices, the first of which is square."""
    a = arrays[0]
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or not 0 < a.shape[-1] <= LARGEST_ORDER or not 0 < a.size < LARGEST:
        return False
    char = a.dtype.char
    return char in _TYPES and all(x.__class__ is a.__class__ and x.dtype.char == char and x.ndim >= 2 and x.size for x in arrays)


def _operand(x: Any, lead: tuple[int, ...]) -> tuple[Any, tuple[int, ...]] | None:
    """Return an array and the words of an operand: address, and steps of matrices, rows and columns in elements.

    The result is None if the leading dimensions would have to be broadcast, unless there are none.
    """
    item = x.dtype.itemsize
    if x.shape[:-2] != lead:
        if x.ndim > 2:
            return None
        return x, (x.data.ptr, 0, x.strides[0] // item, x.strides[1] // item)
    if x.ndim > 3:
        x = in_order(x)
    each = x.strides[-3] // item if x.ndim > 2 else 0
    each = x.shape[-1] * x.shape[-2] if x.ndim > 3 else each
    return x, (x.data.ptr, each, x.strides[-2] // item, x.strides[-1] // item)


def _run(
    name: str, a: Any, b: Any, out: Any, more: Any = None, columns: int = 0, upper: bool = False, unit: bool = False,
    checks: bool = False,
) -> bool:  # fmt: skip
    """Run a kernel. Return False if it was not run, or if a matrix failed the check."""
    lead = (a if b is None or a.ndim > 2 else b).shape[:-2]
    first = _operand(a, lead)
    second = (None, (0, 0, 0, 0)) if b is None else _operand(b, lead)
    if first is None or second is None:
        return False
    kernel, each = _kernel(name, a.dtype.char, a.shape[-1], a.data.device_id)
    is_recorded = graph_recording.active is not None
    here = flag_of_thread() if checks and not is_recorded else None
    note = notes(a.data.device_id).words(_fault_of(name)) if checks and is_recorded else (0, 0, 0)
    address = 0
    if here is not None:
        here.flag[0] = 0
        address = here.address
    count = prod(lead)
    kernel(
        -(-count // each), 32 * each, count, *first[1], *second[1], out.data.ptr, 0 if more is None else more.data.ptr, address,
        columns, upper, unit, *note,
    )  # fmt: skip
    if here is None:
        return True
    library.device_library.cuda.get_current_stream().synchronize()
    return not here.flag[0]


@functools.lru_cache(maxsize=8)
def _fault_of(name: str) -> Callable[[int], Exception]:
    """Return the function that makes the error for a matrix of a recorded call, by its number in the stack."""
    what = "not positive definite" if name == "cholesky" else "singular"
    return lambda number: LinAlgError(
        f"{name}: matrix {number} of the stack is {what}. The error comes late, because the call was recorded in a CUDA "
        "graph. [nd-singular]"
    )


def _square(name: str, x: Any, checks: bool) -> Any:
    if not _is_small(x):
        return None
    out = launch.new(x.shape, x.dtype)
    return out if _run(name, x, None, out, checks=checks) else None


def inv(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return inverses; None if they are left to CuPy."""
    return _square("inv", operands[0], True)


def cholesky(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return Cholesky factors; None if they are left to CuPy."""
    return _square("cholesky", operands[0], True)


def cofactor(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the cofactors of regular matrices; None if they are left to CuPy."""
    return _square("cofactor", operands[0], True)


def det(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return determinants; None if they are left to CuPy."""
    x = operands[0]
    if not _is_small(x):
        return None
    out = launch.new(x.shape[:-2], x.dtype)
    return out if _run("det", x, None, out) else None


def slogdet(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return signs and logarithms of determinants; None if they are left to CuPy."""
    x = operands[0]
    if not _is_small(x):
        return None
    sign, total = launch.new(x.shape[:-2], x.dtype), launch.new(x.shape[:-2], x.dtype)
    return (sign, total) if _run("slogdet", x, None, sign, total) else None


def _lead(a: Any, b: Any) -> tuple[int, ...] | None:
    """Return the leading dimensions of a system; None if both have some, and they differ."""
    if a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]:
        return None
    return tuple((a if a.ndim > 2 else b).shape[:-2])


def solve(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the solutions of a @ x = b; None if they are left to CuPy."""
    a, b = operands
    if not _is_small(a, b) or b.shape[-2] != a.shape[-1] or (lead := _lead(a, b)) is None:
        return None
    out = launch.new((*lead, *b.shape[-2:]), a.dtype)
    return out if _run("solve", a, b, out, columns=b.shape[-1], checks=True) else None


def solve_triangular(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the solutions for triangular matrices; None if they are left to CuPy."""
    a, b = operands
    if not _is_small(a, b) or b.shape[-2] != a.shape[-1] or (lead := _lead(a, b)) is None:
        return None
    out = launch.new((*lead, *b.shape[-2:]), a.dtype)
    upper, unit = settings["upper"], settings["unitriangular"]
    return out if _run("solve_triangular", a, b, out, columns=b.shape[-1], upper=upper, unit=unit) else None


def cholesky_gradient(factor: Any, g: Any) -> Any:
    """Return the gradient in a matrix from that in its factor; None if it is left to CuPy."""
    if not _is_small(factor, g) or factor.shape != g.shape:
        return None
    out = launch.new(factor.shape, factor.dtype)
    return out if _run("cholesky_gradient", factor, g, out) else None
