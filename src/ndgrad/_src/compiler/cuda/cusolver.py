"""Factorisations of one matrix by cuSOLVER, and triangular systems by cuBLAS, called by ctypes.

CuPy's functions copy, check and look up handles in Python, and refuse to be recorded in a CUDA graph. Here a call
passes addresses. cuSOLVER counts columns first, so a row-major matrix is its transpose.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from pathlib import Path
from typing import Any

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda import launch

_int, _pointer = ctypes.c_int, ctypes.c_void_p
#: cuSOLVER's letters of dtypes, and its numbers of triangles and orders.
_LETTERS = {"f": "S", "d": "D"}
LOWER, UPPER, PLAIN, TRANSPOSED = 0, 1, 0, 1
_SIGNATURES = {
    "potrf_bufferSize": [_pointer, _int, _int, _pointer, _int, _pointer],
    "potrf": [_pointer, _int, _int, _pointer, _int, _pointer, _int, _pointer],
    "getrf_bufferSize": [_pointer, _int, _int, _pointer, _int, _pointer],
    "getrf": [_pointer, _int, _int, _pointer, _int, _pointer, _pointer, _pointer],
    "getrs": [_pointer, _int, _int, _int, _pointer, _int, _pointer, _pointer, _int, _pointer],
}
#: Maximum number of handles of a thread.
_MOST = 16


@functools.lru_cache(maxsize=1)
def functions() -> Any:
    """Return the library that CuPy has loaded; None if it cannot be found."""
    try:
        library.device_library.cuda.device.get_cusolver_handle()
        found = re.search(r"\S*libcusolver\.so\S*", Path("/proc/self/maps").read_text())
        made = None if found is None else ctypes.CDLL(found[0])
        if made is not None:
            for letter in _LETTERS.values():
                for name, arguments in _SIGNATURES.items():
                    getattr(made, f"cusolverDn{letter}{name}").argtypes = arguments
            made.cusolverDnSetStream.argtypes = [_pointer, _pointer]
            made.cusolverDnDestroy.argtypes = [_pointer]
    except (OSError, AttributeError):
        return None
    return made


class Handle:
    """cuSOLVER on one stream."""

    def __init__(self, found: Any, stream: int) -> None:
        self._functions = found
        made = _pointer()
        _succeed(found.cusolverDnCreate(ctypes.byref(made)))
        self._address = made.value
        _succeed(found.cusolverDnSetStream(self._address, stream))

    def work_size(self, name: str, char: str, *words: Any) -> int:
        """Return the elements of memory that a function works in."""
        size = _int()
        run = getattr(self._functions, f"cusolverDn{_LETTERS[char]}{name}_bufferSize")
        _succeed(run(self._address, *words, ctypes.byref(size)))
        return max(size.value, 1)

    def run(self, name: str, char: str, *words: Any) -> None:
        """Call a function."""
        _succeed(getattr(self._functions, f"cusolverDn{_LETTERS[char]}{name}")(self._address, *words))

    def __del__(self) -> None:
        if getattr(self, "_address", None) is not None:
            self._functions.cusolverDnDestroy(self._address)


def _succeed(status: int) -> None:
    if status:
        raise RuntimeError(f"cuSOLVER answers with status {status}. Check that the GPU has memory left. [nd-gpu]")


class _Here(threading.local):
    def __init__(self) -> None:
        self.handles: dict[tuple[int, int], Handle] = {}


_here = _Here()


def handle(device: int) -> Handle | None:
    """Return the handle of this thread and the current stream; None if the library cannot be found."""
    stream = library.device_library.cuda.get_current_stream().ptr
    made = _here.handles.get((device, stream))
    if made is None:
        found = functions()
        if found is None:
            return None
        if len(_here.handles) >= _MOST:
            _here.handles.clear()
        made = _here.handles[device, stream] = Handle(found, stream)
    return made


def is_in_use() -> bool:
    """True if this thread has used a handle."""
    return bool(_here.handles)


_sizes: dict[Any, int] = {}


def run_with_memory(solver: Handle, name: str, char: str, device: int, sizes: tuple[int, ...], *words: Any) -> None:
    """Call a factorisation with memory to work in. `words` are its arguments before and behind that memory."""
    before, behind = words
    key = (name, char, device, sizes)
    size = _sizes.get(key)
    if size is None:
        size = _sizes[key] = solver.work_size(name, char, *before)
    memory = launch.allocate(size * (8 if char == "d" else 4))
    solver.run(name, char, *before, memory.ptr, *([size] if name == "potrf" else []), *behind)
