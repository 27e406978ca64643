"""Calls and results as bytes: a pickle, followed by the memory of its arrays.

Tensors are replaced by numbers in the pickle. Their arrays follow the pickle as they lie in memory. If a context is
open, their place in the graph is recorded (`ndgrad.distributed.remote.contexts`). Outside a context a tensor arrives as
a constant. Unpickling runs code: the ranks of a job trust each other.
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
    """A value to send: a pickle, additional buffers, and graph information of its tensors."""

    text: bytes
    buffers: tuple[Any, ...]
    recorded: Recorded | None = None
    #: Number of tensor buffers, which come first.
    tensors: int = 0


class _Pickler(pickle.Pickler):
    """A pickler that takes the tensors out of a pickle."""

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
        return len(self.tensors) - 1, array.dtype, array.shape, obj.tensor_type is not Tensor


def pack(value: Any, rank: int, peer: int, *, record: bool = True, copy: bool = True) -> Packed:
    """Pack a value for another rank. Without `copy` its memory is sent in place and must not be written until it has
    left.
    """
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
    """An unpickler that builds the tensors over the received memory."""

    def __init__(self, packed: Packed) -> None:
        super().__init__(io.BytesIO(packed.text), buffers=iter(packed.buffers[packed.tensors :]))
        self.tensors: dict[int, Any] = {}
        self._buffers = packed.buffers

    def persistent_load(self, pid: Any) -> Any:
        number, dtype, shape, is_numpy_type = pid
        if number not in self.tensors:
            array = self._buffers[number].view(dtype).reshape(shape)
            self.tensors[number] = wrap(_numpy_tensor_type() if is_numpy_type else Tensor, array)
        return self.tensors[number]


def _numpy_tensor_type() -> type[Any]:
    from ndgrad.numpy import Array  # few programs use both tensor types

    return Array


def unpack(packed: Packed, peer: int) -> Any:
    """Return the value sent by a rank. Tensors that share memory there have separate memory here."""
    reader = _Unpickler(packed)
    value = reader.load()
    if packed.recorded is not None:
        record_receiving(packed.recorded, peer, [reader.tensors[i] for i in range(packed.tensors)])
    return value


# ----- errors ---------------------------------------------------------------------------------------------------------


def packed_error(error: BaseException, rank: int) -> bytes:
    """Pack an exception for another rank: itself if it can be pickled, and its traceback as text."""
    told = "".join(traceback.format_exception(error)).rstrip()
    try:
        text = pickle.dumps((rank, error, told))
        pickle.loads(text)  # some exceptions can be pickled but not unpickled
    except Exception:
        text = pickle.dumps((rank, None, told))
    return text


def unpacked_error(text: bytes, doing: str) -> BaseException:
    """Return the exception of another rank, of its own class, with its origin."""
    rank, error, told = pickle.loads(text)
    if not isinstance(error, Exception):
        error = DistBackendError(f"{doing} failed on rank {rank}: {told.splitlines()[-1]} [nd-peer]")
    error.add_note(f"This happened on rank {rank}, in {doing}:\n{told}")
    return error
