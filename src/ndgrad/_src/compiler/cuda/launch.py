"""Kernels on the device: compiled once per device, and started with little overhead.

A kernel takes one structure of 8-byte words, packed here, and the driver gets its address. A call has no other cost
besides the driver: CuPy's own conversion of arguments takes as long as the launch. CuPy compiles by NVRTC and caches
compiled code on disk.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.arrays import device_kernels, library
from ndgrad._src.compiler.native import cache
from ndgrad._src.foundations.kernel_error import KernelError

#: Offset of the contents of a bytes object.
_CONTENTS = bytes.__basicsize__ - 1
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
#: Bytes of shared memory that a block may use without an explicit request.
_SHARED = 48 << 10
_pointer = struct.Struct("q").pack


class Kernel:
    """A function on one device. It keeps the module of its code alive."""

    __slots__ = ("_launch", "_module", "_shared", "_stream", "address", "grain", "pack")

    def __init__(self, code: str, layout: str, grain: int = 1, name: str = "kernel", shared: int = 0, exactly: str = "") -> None:
        """Compile a kernel.

        `layout`: the words of its argument, for struct; `grain`: the elements of a block; `shared`: additional bytes of
        shared memory of a block; `exactly`: the kind of device ("90a") if the kernel uses instructions that others
        lack.
        """
        from cupy_backends.cuda.api import driver  # needs CuPy

        found = library.device_library
        try:
            if exactly:
                self._module = _module_for(exactly, code)
                self.address: int = self._module.get_function(name).ptr
            else:
                self._module = found.RawModule(code=code, options=("-std=c++17",))
                self.address = self._module.get_function(name).kernel.ptr
            if shared > _SHARED:
                driver.funcSetAttribute(self.address, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        except MemoryError:
            raise
        except Exception as error:  # errors of several classes: of NVRTC, of the driver
            raise KernelError(
                f"a kernel of ndgrad's could not be made for this GPU: {type(error).__name__}: {str(error)[:400]}. Set "
                "NDGRAD_DEVICE_KERNELS=0 to leave all to CuPy, and please report this. [nd-gpu]"
            ) from error
        self.pack = struct.Struct(layout).pack
        self.grain = grain
        self._shared = shared
        self._launch = driver.launchKernel
        self._stream = found.cuda.get_current_stream

    def __call__(self, blocks: int, threads: int, *words: Any) -> None:
        """Start it, on the current stream."""
        argument = self.pack(*words)
        table = _pointer(id(argument) + _CONTENTS)  # the driver copies the argument before it returns
        self._launch(
            self.address, blocks, 1, 1, threads, 1, 1, self._shared, self._stream().ptr, id(table) + _CONTENTS, 0
        )


def _module_for(kind: str, code: str) -> Any:
    """Return a module for one kind of device, which CuPy does not support. It is cached on disk like native code."""
    from cupy_backends.cuda.libs import nvrtc  # needs CuPy

    options = ("-std=c++17", "-ftz=true", f"-arch=sm_{kind}")
    key = cache.key("cuda", str(nvrtc.getVersion()), *options, code)
    made = cache.load(key)
    if made is None:
        program = nvrtc.createProgram(code, "kernel.cu", (), ())
        try:
            nvrtc.compileProgram(program, options)
            made = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            raise KernelError(f"NVRTC says: {nvrtc.getProgramLog(program)[:400]} [nd-gpu]") from error
        finally:
            nvrtc.destroyProgram(program)
        cache.store(key, made)
    module = library.device_library.cuda.function.Module()
    module.load(made)
    return module


@functools.lru_cache(maxsize=16)
def capability(device: int) -> int:
    """Return the instruction set of a device: 90 for 9.0."""
    return int(library.device_library.cuda.Device(device).compute_capability)


@functools.lru_cache(maxsize=1)
def problem() -> str | None:
    """Return the reason why ndgrad's kernels cannot be used here; None if they can."""
    try:
        from cupy_backends.cuda.api import driver
    except ImportError as error:
        return f"CuPy's driver cannot be called: {error}"
    return None if hasattr(driver, "launchKernel") else "CuPy's driver has no launchKernel"


def can_be_made() -> bool:
    """True if ndgrad's kernels can be used in this process, and are enabled (NDGRAD_DEVICE_KERNELS)."""
    return device_kernels.kernels() is not None


@functools.lru_cache(maxsize=1)
def bare_array() -> Callable[[Any], Any] | None:
    """Return a function that makes a CuPy array without calling `_init`; None if its version does not allow it.

    The class itself does both, in Python, and takes twice as long.
    """
    found = library.device_library
    try:
        from cupy._core.core import _ndarray_base

        make: Callable[[Any], Any] = _ndarray_base.__new__
        probe = make(found.ndarray)
        probe._init((2,), SINGLE, found.cuda.alloc(2 * SINGLE.itemsize))
        return make if (probe.shape, probe.dtype, probe.__class__) == ((2,), SINGLE, found.ndarray) else None
    except (ImportError, AttributeError, TypeError):
        return None


def allocate(size: int) -> Any:
    """Return new memory of so many bytes, on the current device."""
    return library.device_library.cuda.alloc(size)


def array(shape: tuple[int, ...], dtype: np.dtype[Any], memory: Any) -> Any:
    """Return an array over memory."""
    make, ndarray = bare_array(), library.device_library.ndarray
    if make is None:
        return ndarray(shape, dtype, memory)
    made = make(ndarray)
    made._init(shape, dtype, memory)
    return made


def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a new, uninitialised array, in half the time of CuPy's function."""
    found, make = library.device_library, bare_array()
    memory = found.cuda.alloc(prod(shape) * dtype.itemsize)
    if make is None:
        return found.ndarray(shape, dtype, memory)
    made = make(found.ndarray)
    made._init(shape, dtype, memory)
    return made


def zeros(count: int, dtype: np.dtype[Any]) -> Any:
    """Return new zeros in one dimension."""
    out = new((count,), dtype)
    out.data.memset_async(0, count * dtype.itemsize)
    return out


def shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array without gaps in another shape, in a third of the time of `reshape`. It does not record its base.
    """
    return array(shape, x.dtype, x.data)


def summed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which elements are added: single precision for halves."""
    return DOUBLE if dtype.char == "d" else SINGLE


class Functions:
    """The functions of one module, each of which takes one structure of addresses."""

    def __init__(self, code: str) -> None:
        from cupy_backends.cuda.api import driver  # needs CuPy

        found = library.device_library
        self._module = found.RawModule(code=code, options=("-std=c++17",))
        self._launch = driver.launchKernel
        self._stream = found.cuda.get_current_stream
        self._known: dict[str, int] = {}

    def start(self, name: str, blocks: int, threads: int, addresses: list[int]) -> None:
        """Start a function on the current stream."""
        function = self._known.get(name)
        if function is None:
            function = self._known[name] = self._module.get_function(name).kernel.ptr
        argument = struct.pack(f"{len(addresses)}q", *addresses)
        table = _pointer(id(argument) + _CONTENTS)  # the driver copies the argument before it returns
        self._launch(function, blocks, 1, 1, threads, 1, 1, 0, self._stream().ptr, id(table) + _CONTENTS, 0)
