"""Transport of batches from a worker: large arrays through shared memory, the rest through a pipe.

A batch is pickled with separate buffers for its arrays (protocol 5). Small ones are sent along. Above SHARED bytes they
are written to a file in memory, which the receiver maps and unlinks; its pages are then the arrays of the batch,
without a copy. Systems without such files (other than Linux) send everything through the pipe.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.variable import Variable, requires_grad, wrap
from ndgrad._src.tensor.tensor_class import Tensor

#: Number of bytes from which arrays go through shared memory.
SHARED = 1 << 16
PLACE = Path("/dev/shm")
_ALIGNED = 64


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Variable) or obj.__class__ not in TENSOR_TYPES or isinstance(obj._array, Variable):
            return NotImplemented
        wants = requires_grad(obj)
        if obj._node is not None and wants:
            raise RuntimeError(
                f"a batch holds a tensor of shape {tuple(obj.shape)} that was computed from one that requires grad, "
                "and graphs do not leave a process. Use detach() in the dataset or the collate_fn. [nd-pickle]"
            )
        return _receive, (obj.tensor_type.is_numpy_type, obj._array, wants)


def _receive(is_array: bool, array: Any, wants: bool) -> Any:
    """Return a Tensor or an Array over memory without other owners."""
    tensor_class: type[Any] = Tensor
    if is_array:
        from ndgrad.numpy._array import Array  # already loaded by the sender, and not needed otherwise

        tensor_class = Array
    made = wrap(tensor_class, array)
    return made.requires_grad_() if wants else made


def has_shared_memory() -> bool:
    return PLACE.is_dir() and os.access(PLACE, os.W_OK)


def pack(value: Any, prefix: str | None) -> tuple[Any, ...]:
    """Return the message for a value; `prefix` begins the names of files in shared memory, None for none at all."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    raw = [b.raw() for b in buffers]
    if prefix is None or sum(r.nbytes for r in raw) < SHARED:
        return stream.getvalue(), [bytes(r) for r in raw]
    starts, end = [], 0
    for r in raw:
        starts.append(end)
        end += -(-r.nbytes // _ALIGNED) * _ALIGNED
    handle, path = tempfile.mkstemp(prefix=prefix, dir=PLACE)
    try:
        os.ftruncate(handle, end)
        with mmap.mmap(handle, end) as memory:
            for start, r in zip(starts, raw, strict=True):
                memory[start : start + r.nbytes] = r
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(handle)
    return stream.getvalue(), path, [(start, r.nbytes) for start, r in zip(starts, raw, strict=True)]


def unpack(message: tuple[Any, ...]) -> Any:
    """Return the value of a message."""
    if len(message) == 2:
        stream, raw = message
        return pickle.loads(stream, buffers=[bytearray(r) for r in raw])
    stream, path, places = message
    handle = os.open(path, os.O_RDWR)
    try:
        memory = memoryview(mmap.mmap(handle, os.fstat(handle).st_size))
    finally:
        os.close(handle)
        os.unlink(path)
    return pickle.loads(stream, buffers=[memory[start : start + size] for start, size in places])


def forget(message: tuple[Any, ...]) -> None:
    """Free a message without reading it."""
    if len(message) == 3:
        Path(message[1]).unlink(missing_ok=True)


def sweep(prefix: str) -> None:
    """Remove the files that workers have left behind."""
    for path in PLACE.glob(f"{prefix}*"):
        path.unlink(missing_ok=True)
