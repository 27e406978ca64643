"""Linear algebra of one matrix on a device by cuSOLVER and cuBLAS (see ndgrad._src.compiler.cuda.cusolver).

Smaller matrices, and stacks of them, are the subject of ndgrad._src.compiler.cuda.small_matrices. A factorisation
reports a matrix that is singular, or not positive definite, in memory of the host. The call waits for it, and leaves
such a matrix to CuPy, which raises the error. A recorded call cannot wait: the device notes the fault, as it notes an
index out of bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.compiler.cuda import cublas, cusolver, launch
from ndgrad._src.compiler.cuda.copies import copy_into, copy_of, in_order
from ndgrad._src.compiler.cuda.cusolver import LOWER, PLAIN, TRANSPOSED, UPPER
from ndgrad._src.compiler.cuda.elementwise import THREADS
from ndgrad._src.compiler.cuda.index_faults import NOTE, notes
from ndgrad._src.compiler.cuda.small_matrices import LARGEST_ORDER, flag_of_thread
from ndgrad._src.ops.matrix import LinAlgError

_TYPES = {"f": "float", "d": "double"}
#: Largest order of a matrix: its elements are counted with 32 bits.
_MOST = 1 << 15
_INDEX = np.dtype(np.int32)

_HEAD = f"""{NOTE}
struct Arguments {{ long long n; T* x; T* out; T* more; const int* info; const int* pivots; volatile long long* failed; Note note; }};
/* Report the status of a factorisation. */
__device__ inline void report(const Arguments& a) {{
    if (blockIdx.x || threadIdx.x || !*a.info) return;
    if (a.note.call) leave(a.note, *a.info);
    else *a.failed = *a.info;
}}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
"""
_SOURCES = {
    # The transposed lower triangle of x, with zeros in the rest.
    "triangle": """
    __shared__ T tile[32][33];
    report(a);
    const long long n = a.n, tiles = (n + 31) / 32, down = blockIdx.x / tiles * 32, across = blockIdx.x % tiles * 32;
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (int k = y; k < 32; k += 8)
        if (across + k < n && down + x < n) tile[k][x] = a.x[(across + k) * n + down + x];
    __syncthreads();
    for (int k = y; k < 32; k += 8) {
        const long long i = down + k, j = across + x;
        if (i < n && j < n) a.out[i * n + j] = j <= i ? tile[x][k] : T(0);
    }
}
""",
    # The determinant from an LU factorisation, or its sign and the logarithm of its size.
    "determinant": """
    if (threadIdx.x) return;
    T sign = 1, total = a.more ? 0 : 1;
    for (long long i = 0; i < a.n; ++i) {
        const T v = a.x[i * (a.n + 1)];
        if (a.pivots[i] != i + 1) sign = -sign;
        if (a.more) { total += log(fabs(v)); sign = v != v ? v : v == 0 ? T(0) : v < 0 ? -sign : sign; }
        else total *= v;
    }
    if (*a.info > 0) { sign = 0; total = a.more ? -__int_as_float(0x7f800000) : T(0); }
    if (a.more) { *a.out = sign; *a.more = total; } else *a.out = sign * total;
}
""",
    # The identity matrix.
    "identity": """
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < a.n * a.n) a.out[i] = i % (a.n + 1) ? T(0) : T(1);
}
""",
    # The status alone, and x times a number on the device, if there is one.
    "report": """
    report(a);
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (a.more && i < a.n * a.n) a.out[i] = a.x[i] * *a.more;
}
""",
}


@functools.lru_cache(maxsize=32)
def _kernel(name: str, char: str, device: int) -> launch.Kernel:
    code = f"typedef {_TYPES[char]} T; enum {{ THREADS = {THREADS} }};\n{_HEAD}{_SOURCES[name]}"
    return launch.Kernel(code, "10q")


class _Status:
    """The status of a factorisation: its number on the device, and the words of a kernel that reports it."""

    def __init__(self, device: int, error: Callable[[int], Exception]) -> None:
        self.info = launch.new((), _INDEX)
        self._is_recorded = graph_recording.active is not None
        self._here = None if self._is_recorded else flag_of_thread()
        if self._here is None:
            self.words: tuple[int, ...] = (0, *notes(device).words(error))
        else:
            self._here.flag[0] = 0
            self.words = (self._here.address, 0, 0, 0)

    def is_good(self) -> bool:
        """Wait for the report; a recorded one is left to the device."""
        if self._here is None:
            return True
        library.device_library.cuda.get_current_stream().synchronize()
        return not self._here.flag[0]


def _start(name: str, x: Any, out: Any, more: Any, status: _Status | None, pivots: Any = None, blocks: int = 1) -> None:
    addresses = [0 if a is None else a.data.ptr for a in (x, out, more, None if status is None else status.info, pivots)]
    given = x if x is not None else out
    words = (0, 0, 0, 0) if status is None else status.words
    _kernel(name, given.dtype.char, given.data.device_id)(blocks, THREADS, given.shape[0], *addresses, *words)


def _elements(n: int) -> int:
    return -(-n * n // THREADS)


def _solver(*arrays: Any) -> cusolver.Handle | None:
    """Return the handle if these matrices are supported, the first of which is square; else None."""
    a = arrays[0]
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not LARGEST_ORDER < a.shape[0] <= _MOST or a.dtype.char not in _TYPES:
        return None
    if any(x.__class__ is not a.__class__ or x.dtype != a.dtype or x.ndim != 2 or not x.size for x in arrays):
        return None
    return cusolver.handle(a.data.device_id)


def _singular(name: str) -> Callable[[int], Exception]:
    return lambda order: LinAlgError(
        f"{name}: a matrix is singular: pivot {order} is zero. The error comes late, because the call was recorded in a CUDA "
        "graph. [nd-singular]"
    )


def _indefinite(order: int) -> Exception:
    return LinAlgError(
        f"cholesky: a matrix is not positive definite: its leading minor of order {order} is not. The error comes late, "
        "because the call was recorded in a CUDA graph. [nd-singular]"
    )


# ----- factors --------------------------------------------------------------------------------------------------------


def cholesky(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the Cholesky factor of one matrix; None if it is left to CuPy."""
    x = operands[0]
    solver = _solver(x)
    work = None if solver is None else copy_of(x.T)
    if solver is None or work is None:
        return None
    n, char, device = x.shape[0], x.dtype.char, x.data.device_id
    status, out = _Status(device, _indefinite), launch.new(x.shape, x.dtype)
    words = (LOWER, n, work.data.ptr, n)
    cusolver.run_with_memory(solver, "potrf", char, device, (n,), words, (status.info.data.ptr,))
    _start("triangle", work, out, None, status, blocks=(-(-n // 32)) ** 2)
    return out if status.is_good() else None


class _Factors:
    """The LU factorisation of the transpose of a matrix."""

    def __init__(self, solver: cusolver.Handle, x: Any, name: str) -> None:
        self.solver, self.name = solver, name
        self.work = copy_of(x)
        self.n, self.char, self.device = x.shape[0], x.dtype.char, x.data.device_id
        self.pivots = launch.new((self.n,), _INDEX)
        self.status = _Status(self.device, _singular(name))
        at = self.work.data.ptr
        words, behind = (self.n, self.n, at, self.n), (self.pivots.data.ptr, self.status.info.data.ptr)
        cusolver.run_with_memory(solver, "getrf", self.char, self.device, (self.n,), words, behind)

    def solve(self, order: int, b: Any) -> None:
        """Solve a system in place; b holds one right-hand side in each row. PLAIN is a system with the transpose."""
        done = launch.new((), _INDEX)
        words = order, self.n, len(b), self.work.data.ptr, self.n, self.pivots.data.ptr, b.data.ptr, self.n, done.data.ptr
        self.solver.run("getrs", self.char, *words)

    def is_good(self) -> bool:
        """True if no pivot is zero."""
        _start("report", self.work, None, None, self.status)
        return self.status.is_good()

    def inverse(self, order: int) -> Any:
        """Return the inverse (PLAIN) or its transpose."""
        out = launch.new(self.work.shape, self.work.dtype)
        _start("identity", None, out, None, None, blocks=_elements(self.n))
        self.solve(order, out)
        return out


def inv(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the inverse of one matrix; None if it is left to CuPy."""
    solver = _solver(operands[0])
    if solver is None:
        return None
    factors = _Factors(solver, operands[0], "inv")
    out = factors.inverse(PLAIN)
    return out if factors.is_good() else None


def solve(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the solution of a @ x = b for one matrix; None if it is left to CuPy."""
    a, b = operands
    solver = _solver(a, b)
    if solver is None or b.shape[0] != a.shape[0]:
        return None
    factors, columns = _Factors(solver, a, "solve"), copy_of(b.T)
    if columns is None:
        return None
    factors.solve(TRANSPOSED, columns)
    return in_order(columns.T) if factors.is_good() else None


def det(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the determinant of one matrix; None if it is left to CuPy."""
    x = operands[0]
    solver = _solver(x)
    if solver is None or graph_recording.active is not None:
        return None
    return _determinant(_Factors(solver, x, "det"))


def _determinant(factors: _Factors) -> Any:
    out = launch.new((), factors.work.dtype)
    _start("determinant", factors.work, out, None, factors.status, factors.pivots)
    return out


def slogdet(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the sign and the logarithm of the size of a determinant; None if they are left to CuPy."""
    x = operands[0]
    solver = _solver(x)
    if solver is None or graph_recording.active is not None:
        return None
    factors = _Factors(solver, x, "slogdet")
    sign, total = launch.new((), x.dtype), launch.new((), x.dtype)
    _start("determinant", factors.work, sign, total, factors.status, factors.pivots)
    return sign, total


def cofactor(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the cofactors of one regular matrix; None if they are left to CuPy."""
    solver = _solver(operands[0])
    if solver is None or graph_recording.active is not None:
        return None
    factors = _Factors(solver, operands[0], "det")
    out, scale = factors.inverse(TRANSPOSED), _determinant(factors)
    _start("report", out, out, scale, factors.status, blocks=_elements(factors.n))
    return out if factors.status.is_good() else None


# ----- triangular systems ---------------------------------------------------------------------------------------------


def solve_triangular(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the solution for one triangular matrix; None if it is left to CuPy."""
    a, b = operands
    if a.ndim != 2 or b.ndim != 2 or a.dtype != b.dtype or a.dtype.char not in _TYPES or not (a.size and b.size):
        return None
    if a.shape[0] != a.shape[1] or b.shape[0] != a.shape[0]:
        return None
    handle = cublas.handle(a.data.device_id)
    item, upper = a.dtype.itemsize, bool(settings["upper"])
    is_column_major = a.strides[0] == item and a.strides[1] >= item * len(a)
    if not is_column_major:
        a = in_order(a)
    out = launch.new(b.shape, b.dtype)
    if not copy_into(out, b):
        return None
    # In row-major order the equation is X' A' = B', with the unknown on the left.
    triangle = UPPER if upper == is_column_major else LOWER
    step = a.strides[1] // item if is_column_major else len(a)
    handle.trsm(
        a.dtype.char, triangle, TRANSPOSED if is_column_major else PLAIN, int(settings["unitriangular"]), b.shape[1], len(a),
        a.data.ptr, step, out.data.ptr, b.shape[1],
    )  # fmt: skip
    return out
