"""Calls and results as bytes: a pickle, and beside it the memory of the arrays in it.

Tensors leave the pickle by number: their arrays travel as they lie in memory, after the pickle, and their place in the
graph is recorded where a context is open (`ndgrad.distributed.remote.contexts`). Outside a context a tensor arrives
as a constant. A pickle runs code when it is read: the ranks of a job trust each other.
"""

from __future__ import annotations

import io
import pickle
import traceback
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.core.grad_mode import is_grad_enabled
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.errors import DistBackendError
from ndgrad.distributed.remote.contexts import Recorded, record_receiving, record_sending


class Packed(NamedTuple):
    """A value on its way: a pickle, what else memory it needs, and what is recorded of its tensors."""

    text: bytes
    buffers: tuple[Any, ...]
    recorded: Recorded | None = None
    #: how many of the buffers are those of tensors, which come first
    tensors: int = 0


class _Pickler(pickle.Pickler):
    """Takes the tensors out of a pickle."""

    def __init__(self, file: io.BytesIO, beside: list[Any]) -> None:
        super().__init__(file, 5, buffer_callback=lambda b: beside.append(b.raw()))
        self.tensors: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Variable):
            return None
        if not isinstance(obj._array, (np.ndarray, np.generic)) or obj._array.dtype.hasobject:
            if obj.requires_grad:
                raise TypeError(
                    f"a {type(obj).__name__} of shape {tuple(obj.shape)} that requires grad cannot be sent to another "
                    f"rank: it is no dense tensor in the memory of the host ({type(obj._array).__name__}). Send "
                    "x.cpu(), x.to_dense(), or the local tensor of a DTensor. [nd-pickle]"
                )
            return None
        self.tensors.append(obj)
        array = obj._array
        return len(self.tensors) - 1, array.dtype, array.shape, obj.face is not Tensor


def pack(value: Any, rank: int, peer: int, *, record: bool = True, copy: bool = True) -> Packed:
    """A value for another rank. Without `copy` its memory is sent as it is: nobody may write it until it has left."""
    file, beside = io.BytesIO(), list[Any]()
    pickler = _Pickler(file, beside)
    pickler.dump(value)
    arrays: list[Any] = [_bytes_of(t._array, copy) for t in pickler.tensors]
    arrays += [np.frombuffer(bytes(b) if copy else b, np.uint8) for b in beside]
    recorded = record_sending(rank, peer, pickler.tensors) if record and is_grad_enabled() else None
    return Packed(file.getvalue(), tuple(arrays), recorded, len(pickler.tensors))


def _bytes_of(array: Any, copy: bool) -> Any:
    block = np.array(array, copy=True, order="C") if copy else np.ascontiguousarray(array)
    return block.reshape(-1).view(np.uint8)


class _Unpickler(pickle.Unpickler):
    """Puts the tensors of a pickle over the memory that came with it."""

    def __init__(self, packed: Packed) -> None:
        super().__init__(io.BytesIO(packed.text), buffers=iter(packed.buffers[packed.tensors :]))
        self.tensors: dict[int, Any] = {}
        self._buffers = packed.buffers

    def persistent_load(self, pid: Any) -> Any:
        number, dtype, shape, on_numpy_face = pid
        if number not in self.tensors:
            array = self._buffers[number].view(dtype).reshape(shape)
            self.tensors[number] = wrap(_numpy_face() if on_numpy_face else Tensor, array)
        return self.tensors[number]


def _numpy_face() -> type[Any]:
    from ndgrad.numpy import Array  # few programs have both faces

    return Array


def unpack(packed: Packed, peer: int) -> Any:
    """The value that a rank has sent. Its tensors over one memory there have memories of their own here."""
    reader = _Unpickler(packed)
    value = reader.load()
    if packed.recorded is not None:
        record_receiving(packed.recorded, peer, [reader.tensors[i] for i in range(packed.tensors)])
    return value


# ----- errors ---------------------------------------------------------------------------------------------------------


def packed_error(error: BaseException, rank: int) -> bytes:
    """An exception for another rank: itself where it can be pickled, and its traceback in words."""
    told = "".join(traceback.format_exception(error)).rstrip()
    try:
        text = pickle.dumps((rank, error, told))
        pickle.loads(text)  # many can be written that cannot be read
    except Exception:
        text = pickle.dumps((rank, None, told))
    return text


def unpacked_error(text: bytes, doing: str) -> BaseException:
    """The exception of another rank, of its own class, with where it came from."""
    rank, error, told = pickle.loads(text)
    if not isinstance(error, Exception):
        error = DistBackendError(f"{doing} failed on rank {rank}: {told.splitlines()[-1]} [nd-peer]")
    error.add_note(f"This happened on rank {rank}, in {doing}:\n{told}")
    return error
