"""torch's `cuda` namespace: the available GPUs, and the current one.

GPU memory is CuPy's. Without CuPy or a GPU, queries return an answer (no GPU, no memory used), seeding and emptying the
cache do nothing, and functions that need a GPU raise. CuPy is imported with the first request for a device, never
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.device_memory import OutOfMemoryError
from ndgrad._src.arrays.gpus import cupy_with_devices, current, device_number, devices_or_none
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.typed_classes import CLASSES
from ndgrad.cuda import amp, graphs, memory, nvtx, random, streams
from ndgrad.cuda.graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing
from ndgrad.cuda.memory import (
    caching_allocator_enable,
    empty_cache,
    host_memory_stats,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ndgrad.cuda.random import (
    DefaultGenerators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ndgrad.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

if TYPE_CHECKING:
    from ndgrad._src.arrays.generator import Generator
    from ndgrad._typing import Device, Tensor

__all__ = [
    "amp", "BFloat16Tensor", "BoolTensor", "ByteTensor", "caching_allocator_enable", "can_device_access_peer",
    "CharTensor", "CudaError", "CUDAGraph", "current_device", "current_stream", "default_generators", "default_stream",
    "DeferredCudaCallError", "device", "device_count", "device_of", "DoubleTensor", "empty_cache", "Event",
    "ExternalStream", "FloatTensor", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_gencode_flags", "get_rng_state", "get_rng_state_all", "graph", "graph_pool_handle",
    "graphs", "HalfTensor", "has_half", "has_magma", "host_memory_stats", "init", "initial_seed", "IntTensor",
    "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "is_tf32_supported", "LongTensor", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "nvtx", "OutOfMemoryError", "random",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state",
    "set_rng_state_all", "set_stream", "ShortTensor", "Stream", "stream", "StreamContext", "streams", "synchronize",
]  # fmt: skip

#: Generators for random functions on each GPU if none is given.
default_generators: Sequence[Generator] = DefaultGenerators()
has_half, has_magma = True, False

BFloat16Tensor, BoolTensor, ByteTensor = CLASSES["BFloat16Tensor"], CLASSES["BoolTensor"], CLASSES["ByteTensor"]
CharTensor, DoubleTensor, FloatTensor = CLASSES["CharTensor"], CLASSES["DoubleTensor"], CLASSES["FloatTensor"]
HalfTensor, IntTensor, LongTensor = CLASSES["HalfTensor"], CLASSES["IntTensor"], CLASSES["LongTensor"]
ShortTensor = CLASSES["ShortTensor"]


class CudaError(RuntimeError):
    """An error of the GPU."""


class DeferredCudaCallError(Exception):
    """An error of a call that was deferred until a GPU was used; never raised here."""


def is_available() -> bool:
    """True if CuPy is installed and finds a GPU.

    >>> import ndgrad
    >>> device = ndgrad.device("cuda" if ndgrad.cuda.is_available() else "cpu")
    """
    return device_count() > 0


def device_count() -> int:
    """Return the number of GPUs.

    >>> import ndgrad
    >>> ndgrad.cuda.device_count() >= 0
    True
    """
    return devices_or_none()[1]


def is_initialized() -> bool:
    """True if a GPU has been used: CuPy is loaded and has found one."""
    import sys

    return "cupy" in sys.modules and is_available()


def init() -> None:
    """Prepare the use of a GPU, which happens automatically; raise if there is none."""
    cupy_with_devices("cuda.init()")


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True if the GPU computes in bfloat16: all do, since halves are computed in single precision. Without
    `including_emulation`, True if its tensor cores support it.

    Args:
        including_emulation: whether computing in single precision counts.
    """
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def is_tf32_supported() -> bool:
    """True if products of float32 can be rounded to TF32 (`backends.cuda.matmul.allow_tf32`): the GPU's tensor cores
    support it.
    """
    return is_available() and get_device_capability() >= (8, 0)


def current_device() -> int:
    """Return the number of the GPU for new GPU tensors; raise if there is none."""
    return current("cuda.current_device()")


def set_device(device: Device) -> None:
    """Set the GPU for new GPU tensors; a negative number changes nothing.

    Args:
        device: number or name of a GPU.
    """
    if isinstance(device, int) and device < 0:
        return
    cupy_with_devices("cuda.set_device()").cuda.Device(device_number("cuda.set_device()", device)).use()


class device:
    """Block in which new GPU tensors go to a given GPU.

    Args:
        device: number or name of a GPU. None or a negative number changes nothing.
    """

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else None
        self._device = device

    def __enter__(self) -> None:
        self._entered: Any = None
        if self.idx == -1:
            return
        self.idx = device_number("cuda.device()", self._device)
        self._entered = cupy_with_devices("cuda.device()").cuda.Device(self.idx)
        self._entered.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._entered is not None:
            self._entered.__exit__(kind, error, traceback)


class device_of(device):
    """Block in which new GPU tensors go to a tensor's GPU.

    Args:
        obj: tensor. One on the CPU changes nothing.
    """

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.get_device() if obj.device.type == "cuda" else -1)


def get_device_properties(device: Device = None) -> Any:
    """Return the properties of a GPU: name, major, minor, total_memory, multi_processor_count.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    from types import SimpleNamespace

    cupy = cupy_with_devices("cuda.get_device_properties()")
    number = device_number("cuda.get_device_properties()", device)
    told = cupy.cuda.runtime.getDeviceProperties(number)
    name = told["name"]
    return SimpleNamespace(
        name=name.decode() if isinstance(name, bytes) else name,
        major=told["major"],
        minor=told["minor"],
        total_memory=told["totalGlobalMem"],
        multi_processor_count=told["multiProcessorCount"],
    )


def get_device_name(device: Device = None) -> str:
    """Return the name of a GPU; raise if there is none.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    name: str = get_device_properties(device).name
    return name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Return the compute capability of a GPU, major and minor.

    Args:
        device: number or name of a GPU. None means the current one.
    """
    told = get_device_properties(device)
    return told.major, told.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """True if one GPU can read the other's memory.

    Args:
        device: GPU that reads.
        peer_device: GPU whose memory is read.
    """
    cupy = cupy_with_devices("cuda.can_device_access_peer()")
    numbers = [device_number("cuda.can_device_access_peer()", d) for d in (device, peer_device)]
    return bool(cupy.cuda.runtime.deviceCanAccessPeer(*numbers))


def get_arch_list() -> list[str]:
    """Return the architectures of compiled GPU code: CuPy compiles for the GPU it finds."""
    return []


def get_gencode_flags() -> str:
    """Return the compiler's flags for these architectures: none."""
    return ""


def ipc_collect() -> None:
    """Do nothing, since no GPU memory is shared with other processes; raise if there is no GPU."""
    cupy_with_devices("cuda.ipc_collect()")


_refuse_absent(__name__)
