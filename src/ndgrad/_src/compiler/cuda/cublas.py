"""Products by cuBLAS, called by ctypes. CuPy's wrappers set the stream at each call, and refuse calls while a graph is
recorded.

There is a handle for each thread and stream, with its own workspace, so that a recorded graph does not depend on
allocations by cuBLAS.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np

from ndgrad._src.arrays import library

#: Bytes of a handle's workspace, as NVIDIA recommends for Hopper.
WORKSPACE = 32 << 20
#: Maximum number of handles of a thread.
_MOST = 16
_int, _long, _pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_GEMM: list[Any] = [
    _pointer, _int, _int, _int, _int, _int, _pointer, _pointer, _int, _int, _pointer, _int, _int, _pointer, _pointer, _int,
    _int, _int, _int,
]  # fmt: skip
_STACKS: list[Any] = [
    _pointer, _int, _int, _int, _int, _int, _pointer, _pointer, _int, _int, _long, _pointer, _int, _int, _long, _pointer,
    _pointer, _int, _int, _long, _int, _int, _int,
]  # fmt: skip
_TRSM: list[Any] = [_pointer, _int, _int, _int, _int, _int, _int, _pointer, _pointer, _int, _pointer, _int]
_LETTERS = {"f": "s", "d": "d"}
_ONES: dict[str, np.ndarray[Any, Any]] = {"f": np.ones(1, np.float32), "d": np.ones(1, np.float64)}


@functools.lru_cache(maxsize=1)
def functions() -> Any:
    """Return the library that CuPy has loaded; None if it cannot be found."""
    library.device_library.cuda.device.get_cublas_handle()
    try:
        found = re.search(r"\S*libcublas\.so\S*", Path("/proc/self/maps").read_text())
        made = None if found is None else ctypes.CDLL(found[0])
    except OSError:
        return None
    if made is not None:
        made.cublasGemmEx.argtypes, made.cublasGemmStridedBatchedEx.argtypes = _GEMM, _STACKS
        made.cublasSetStream_v2.argtypes = [_pointer, _pointer]
        made.cublasSetWorkspace_v2.argtypes = [_pointer, _pointer, ctypes.c_size_t]
        made.cublasDestroy_v2.argtypes = [_pointer]
        made.cublasStrsm_v2.argtypes = made.cublasDtrsm_v2.argtypes = _TRSM
    return made


class Handle:
    """cuBLAS on one stream, with the functions that `products` calls."""

    def __init__(self, functions: Any, stream: int) -> None:
        self._functions = functions
        self.stream = stream
        made = _pointer()
        _succeed(functions.cublasCreate_v2(ctypes.byref(made)))
        self._address = made.value
        self._workspace = library.device_library.cuda.alloc(WORKSPACE)
        #: workspace address, shared per stream
        self.workspace: int = self._workspace.ptr
        _succeed(functions.cublasSetStream_v2(self._address, stream))
        _succeed(functions.cublasSetWorkspace_v2(self._address, self._workspace.ptr, WORKSPACE))

    def gemm(self, *words: Any) -> None:
        """Call cublasGemmEx."""
        status = self._functions.cublasGemmEx(self._address, *words)
        if status:
            _succeed(status)

    def stacks(self, *words: Any) -> None:
        """Call cublasGemmStridedBatchedEx."""
        status = self._functions.cublasGemmStridedBatchedEx(self._address, *words)
        if status:
            _succeed(status)

    def trsm(self, char: str, triangle: int, order: int, unit: int, rows: int, columns: int, *words: int) -> None:
        """Call cublasStrsm or cublasDtrsm with the matrix on the right. `words` are its address and step, and those of the
        right-hand sides.
        """
        run = self._functions.cublasDtrsm_v2 if char == "d" else self._functions.cublasStrsm_v2
        _succeed(run(self._address, 1, triangle, order, unit, rows, columns, _ONES[char].ctypes.data, *words))

    def __del__(self) -> None:
        if getattr(self, "_address", None) is not None:
            self._functions.cublasDestroy_v2(self._address)


def _succeed(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLAS answers with status {status}. Check that the GPU has memory left. [nd-gpu]")


class _OfCuPy:
    """The same functions through CuPy, if the library itself cannot be found."""

    #: no workspace for cuBLASLt, which cannot be found either
    workspace = stream = 0

    def __init__(self) -> None:
        from cupy_backends.cuda.libs import cublas  # needs CuPy

        self._functions = cublas

    def gemm(self, *words: Any) -> None:
        self._functions.gemmEx(library.device_library.cuda.device.get_cublas_handle(), *words)

    def trsm(self, char: str, triangle: int, order: int, unit: int, rows: int, columns: int, *words: int) -> None:
        run, here = getattr(self._functions, f"{_LETTERS[char]}trsm"), library.device_library.cuda.device.get_cublas_handle()
        run(here, 1, triangle, order, unit, rows, columns, _ONES[char].ctypes.data, *words)

    def stacks(self, *words: Any) -> None:
        self._functions.gemmStridedBatchedEx(library.device_library.cuda.device.get_cublas_handle(), *words)


class _Here(threading.local):
    def __init__(self) -> None:
        self.handles: dict[tuple[int, int], Any] = {}


_here = _Here()


def handle(device: int) -> Any:
    """Return the handle of this thread and the current stream."""
    stream = library.device_library.cuda.get_current_stream().ptr
    found = _here.handles.get((device, stream))
    if found is None:
        if len(_here.handles) >= _MOST:
            _here.handles.clear()
        found_there = functions()
        made = _OfCuPy() if found_there is None else Handle(found_there, stream)
        found = _here.handles[device, stream] = made
    return found
