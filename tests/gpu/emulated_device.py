"""The stand-in with kernels that run: the text of each kernel is compiled by the C++ compiler, and runs on the memory of the stand-in.

So an eager op runs as on a GPU, with the host's part of a launch, the packing of arguments and the kernel's own text; products of
cuBLAS and transforms of cuFFT are NumPy's. Kernels with instructions of tensor cores are left out.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types

import ml_dtypes
import numpy
import scipy.linalg

from tests.compiler.cuda import emulator
from tests.gpu import counted_launches, stand_in

#: cuBLAS's numbers of dtypes.
DTYPES = {0: numpy.float32, 1: numpy.float64, 2: numpy.float16, 14: ml_dtypes.bfloat16}
FFT = {"CUFFT_C2C": "FF", "CUFFT_Z2Z": "DD", "CUFFT_R2C": "fF", "CUFFT_D2Z": "dD", "CUFFT_C2R": "Ff", "CUFFT_Z2D": "Dd"}
#: Functions of compiled modules, by their address (a number).
functions: list = [None]


class Module:
    """Compiled code."""

    def __init__(self, code, options=()):
        self._code, self._library = code, None

    def get_function(self, name):
        if self._library is None:
            self._library = emulator.Functions(self._code)._library
        functions.append(getattr(self._library, name))
        return types.SimpleNamespace(kernel=types.SimpleNamespace(ptr=len(functions) - 1))


def launch(address, blocks, _y, _z, threads, _v, _w, _shared, _stream, table, _extra):
    counted_launches.COUNTS["kernel"] += 1
    argument = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[0]
    functions[address](ctypes.c_uint(blocks), ctypes.c_uint(threads), ctypes.c_void_p(argument))


def array_at(address, shape, strides, dtype):
    """Array over memory, with strides in elements."""
    dtype = numpy.dtype(dtype)
    size = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory = (ctypes.c_ubyte * (size * dtype.itemsize)).from_address(address)
    return numpy.ndarray(shape, dtype, memory, 0, [s * dtype.itemsize for s in strides])


def number_at(address, double):
    return (ctypes.c_double if double else ctypes.c_float).from_address(address).value


def multiply(ta, tb, m, n, k, alpha, a, a_type, lda, a_step, b, b_type, ldb, b_step, beta, c, c_type, ldc, c_step, count):
    counted_launches.COUNTS["product"] += 1
    double = c_type == 1
    for i in range(count):
        x = array_at(a + i * a_step * numpy.dtype(DTYPES[a_type]).itemsize, *(((k, m) if ta else (m, k)), (1, lda)), DTYPES[a_type])
        y = array_at(b + i * b_step * numpy.dtype(DTYPES[b_type]).itemsize, *(((n, k) if tb else (k, n)), (1, ldb)), DTYPES[b_type])
        z = array_at(c + i * c_step * numpy.dtype(DTYPES[c_type]).itemsize, (m, n), (1, ldc), DTYPES[c_type])
        wide = numpy.float64 if double else numpy.float32
        x, y = x.astype(wide), y.astype(wide)
        made = number_at(alpha, double) * ((x.T if ta else x) @ (y.T if tb else y))
        old = number_at(beta, double)
        z[...] = made if not old else made + old * z.astype(wide)


def gemm(_handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, _compute, _algorithm):
    multiply(ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type, ldc, 0, 1)


def stacks(
    _handle, ta, tb, m, n, k, alpha, a, a_type, lda, sa, b, b_type, ldb, sb, beta, c, c_type, ldc, sc, count, _compute, _algorithm
):
    multiply(ta, tb, m, n, k, alpha, a, a_type, lda, sa, b, b_type, ldb, sb, beta, c, c_type, ldc, sc, count)


class PlanNd:
    """A plan of cuFFT for contiguous blocks."""

    def __init__(self, shape, inembed, istride, idist, onembed, ostride, odist, fft_type, batch, order, last_axis, last_size):
        assert inembed is None
        assert onembed is None
        self.sizes, self.kind, self.batch = tuple(shape), FFT[fft_type], batch

    def fft(self, a, out, direction):
        given, made = numpy.ascontiguousarray(a._bare).reshape(-1), out._bare.reshape(-1)
        half = (*self.sizes[:-1], self.sizes[-1] // 2 + 1)
        dims = tuple(range(1, 1 + len(self.sizes)))
        if self.kind[0] in "fd":
            found = numpy.fft.rfftn(given.reshape(self.batch, *self.sizes), axes=dims)
        elif self.kind[1] in "fd":
            found = numpy.fft.irfftn(given.reshape(self.batch, *half), self.sizes, axes=dims, norm="forward")
            a._bare[...] = numpy.nan  # cuFFT may write over the operand
        else:
            run = numpy.fft.fftn if direction < 0 else numpy.fft.ifftn
            found = run(given.reshape(self.batch, *self.sizes), axes=dims, norm="backward" if direction < 0 else "forward")
        made[...] = found.reshape(-1)


def solve_triangular(_handle, side, triangle, order, unit, rows, columns, _one, a, a_step, b, b_step, dtype):
    """X op(A) = B in place, for matrices by columns."""
    assert side == 1
    counted_launches.COUNTS["trsm"] += 1
    matrix = array_at(a, (columns, columns), (1, a_step), dtype)
    given = array_at(b, (rows, columns), (1, b_step), dtype)
    used = numpy.triu(matrix) if triangle else numpy.tril(matrix)
    used = used.T if order else used
    if unit:
        used = used - numpy.diag(numpy.diag(used)) + numpy.eye(columns, dtype=dtype)
    given[...] = numpy.linalg.solve(used.T, given.T).T


class Solver:
    """cuSOLVER's functions for one matrix, by LAPACK."""

    def __getattr__(self, name):
        letter, kind = name.removeprefix("cusolverDn")[:1], name.removeprefix("cusolverDn")[1:]
        dtype = numpy.float64 if letter == "D" else numpy.float32
        if kind.endswith("_bufferSize"):
            return lambda *words: setattr(words[-1]._obj, "value", 7) or 0
        return lambda *words: getattr(self, f"_{kind}")(dtype, *words) or 0

    def cusolverDnCreate(self, made):
        made._obj.value = 1

    def cusolverDnSetStream(self, handle, stream):
        return 0

    def cusolverDnDestroy(self, handle):
        return 0

    def _potrf(self, dtype, _handle, triangle, n, a, step, _work, _size, info):
        counted_launches.COUNTS["potrf"] += 1
        matrix = array_at(a, (n, n), (1, step), dtype)
        factor = scipy.linalg.lapack.dpotrf if dtype is numpy.float64 else scipy.linalg.lapack.spotrf
        made, found = factor(matrix, lower=not triangle, clean=0)
        matrix[...] = made
        array_at(info, (1,), (1,), numpy.int32)[0] = found

    def _getrf(self, dtype, _handle, m, n, a, step, _work, pivots, info):
        counted_launches.COUNTS["getrf"] += 1
        matrix = array_at(a, (m, n), (1, step), dtype)
        made, order, found = (scipy.linalg.lapack.dgetrf if dtype is numpy.float64 else scipy.linalg.lapack.sgetrf)(matrix)
        matrix[...] = made
        array_at(pivots, (n,), (1,), numpy.int32)[...] = order + 1
        array_at(info, (1,), (1,), numpy.int32)[0] = found

    def _getrs(self, dtype, _handle, order, n, count, a, step, pivots, b, b_step, info):
        counted_launches.COUNTS["getrs"] += 1
        matrix, found = array_at(a, (n, n), (1, step), dtype), array_at(b, (n, count), (1, b_step), dtype)
        rows = array_at(pivots, (n,), (1,), numpy.int32) - 1
        run = scipy.linalg.lapack.dgetrs if dtype is numpy.float64 else scipy.linalg.lapack.sgetrs
        found[...] = run(matrix, rows, found, trans=order)[0]


def fill_memory(memory, value, size):
    ctypes.memset(memory.ptr, value, size)
    counted_launches.COUNTS["memset"] += 1


def copy_memory(to, given, size, kind=None, stream=None):
    ctypes.memmove(to, given, size)
    counted_launches.COUNTS["memcpy"] += 1


def allocate_pinned(size):
    """Memory of the host that kernels can write."""
    made = type("Pinned", (ctypes.c_ubyte * size,), {})()
    made.ptr = ctypes.addressof(made)
    return made


def install() -> None:
    """Let CuPy be the stand-in, with kernels that run."""
    counted_launches.install()
    cupy = sys.modules["cupy"]
    cupy.RawModule = Module
    sys.modules["cupy_backends.cuda.api.driver"].launchKernel = launch
    cublas = sys.modules["cupy_backends.cuda.libs"].cublas
    cublas.gemmEx, cublas.gemmStridedBatchedEx = gemm, stacks
    cublas.strsm, cublas.dtrsm = (functools.partial(solve_triangular, dtype=t) for t in (numpy.float32, numpy.float64))
    from ndgrad._src.compiler.cuda import cusolver

    solver = Solver()
    cusolver.functions = lambda: solver
    stand_in.Pointer.memset_async = fill_memory
    counted_launches.Memory.memset_async = fill_memory
    cupy.cuda.runtime.memcpyAsync = copy_memory
    cupy.cuda.alloc_pinned_memory = allocate_pinned
    namespace = types.ModuleType("cupy.cuda")
    namespace.__dict__.update(vars(cupy.cuda))
    cupy.cuda = sys.modules["cupy.cuda"] = namespace
    namespace.cufft = sys.modules["cupy.cuda.cufft"] = types.ModuleType("cupy.cuda.cufft")
    namespace.cufft.PlanNd = PlanNd
    for name in FFT:
        setattr(namespace.cufft, name, name)
