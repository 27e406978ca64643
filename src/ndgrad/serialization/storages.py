"""Tensors over the memory in a file: each memory is read when a tensor first refers to it, and then shared."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.addresses import window
from ndgrad._src.core.variable import meta_of, wrap
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage, shared_storage
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.serialization.locations import MapLocation, place_storage
from ndgrad.serialization.names import IS_ARRAY, STORAGE_OF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Device

_DIMS = (tuple, list, Size)


class Memories:
    """The memory of a file: `read(key, dtype, count)` returns the bytes, `byteorder` is their order."""

    def __init__(
        self, read: Callable[[str, str | None, object], NDArray[np.uint8]], byteorder: str, map_location: MapLocation
    ) -> None:
        self.read, self.swapped, self.map_location = read, byteorder != sys.byteorder, map_location
        self.found: dict[str, tuple[UntypedStorage, Device]] = {}
        self.storages: dict[tuple[str, str | None], UntypedStorage | TypedStorage] = {}
        self.device_of: dict[int, Device] = {}  # devices of the storages above, by identity
        # Memory in which a conjugation or sign change that torch had deferred is carried out, by source and kind.
        self.resolved: dict[tuple[int, str, bool, bool], NDArray[np.uint8]] = {}

    def fetch(self, identity: object) -> UntypedStorage | TypedStorage:
        """Return the storage that a persistent id names."""
        if type(identity) is not tuple or len(identity) < 4 or identity[0] != "storage" or type(identity[2]) is not str:
            raise pickle.UnpicklingError(
                "something in the file stands where memory should be named. The file is damaged. [nd-file-damaged]"
            )
        _, storage, key, where = identity[:4]
        name = storage if isinstance(storage, str) else None
        if (name is not None and name not in STORAGE_OF) or type(where) is not str:
            raise pickle.UnpicklingError(
                f"memory in the file is of type {name!r} on {where!r}, which do not exist. The file is damaged. "
                "[nd-file-damaged]"
            )
        if key not in self.found:
            raw = self.read(key, name, identity[4] if len(identity) > 4 else None)
            if self.swapped and name is not None and raw.size:
                raw = swap_bytes(raw, name)
            self.found[key] = place_storage(self.map_location, UntypedStorage(raw), where)
        untyped, device = self.found[key]
        if (key, name) not in self.storages:
            made = untyped if name is None else TypedStorage(untyped, name)
            self.storages[key, name] = made
            self.device_of[id(made)] = device
        return self.storages[key, name]

    def tensor(
        self,
        memory: object,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: object = False,
        hooks: object = None,
        *rest: Any,
    ) -> Tensor:
        """Implement torch's _rebuild_tensor in its second and third version: after the hooks, the third has a dtype,
        and either may have a dict of flags.
        """
        dims = (*size, *stride) if type(size) in _DIMS and type(stride) in _DIMS else (None,)
        if (
            not isinstance(memory, (UntypedStorage, TypedStorage))
            or not all(type(n) is int for n in (offset, *dims))
            or type(requires_grad) is not bool
        ):
            given = ", ".join(type(value).__name__ for value in (memory, offset, size, stride, requires_grad))
            raise pickle.UnpicklingError(
                f"a tensor in the file has {given} for its memory, offset, size, stride and requires_grad. "
                "The file is damaged. [nd-file-damaged]"
            )
        typed = memory.dtype.name if isinstance(memory, TypedStorage) else None
        name = rest[0].name if rest and isinstance(rest[0], dtypes.dtype) else typed
        flags = rest[-1] if rest and isinstance(rest[-1], dict) else {}
        if name is None:
            raise pickle.UnpicklingError("a tensor in the file has no dtype. The file is damaged. [nd-file-damaged]")
        untyped = memory.untyped() if isinstance(memory, TypedStorage) else memory
        raw = self._resolve_flags(untyped._bytes, name, flags.get("conj") is True, flags.get("neg") is True)
        try:
            array = window(raw, dtypes.as_numpy_dtype(name), offset, tuple(size), tuple(stride))
        except (RuntimeError, ValueError) as error:
            raise pickle.UnpicklingError(
                f"a tensor in the file does not fit its memory: {error} The file is damaged. [nd-file-damaged]"
            ) from None
        made = wrap(array_class() if flags.get(IS_ARRAY) is True else Tensor, array)
        made._storage = shared_storage(array)  # a write through one of several tensors is visible to all
        device = self.device_of.get(id(memory))
        if device is not None:
            made = made.to(device)
        return requiring(made, requires_grad)

    def _resolve_flags(self, raw: NDArray[np.uint8], name: str, conj: bool, neg: bool) -> NDArray[np.uint8]:
        """Return memory with torch's deferred operations carried out on all of it: so tensors that shared it still do,
        and a tensor that repeats its elements needs no more memory. Tensors without the flag keep the original memory.
        """
        if not (conj or neg):
            return raw
        dtype = dtypes.as_numpy_dtype(name)
        if (conj and dtype.kind != "c") or dtype.kind in "bu":
            what = "conjugated" if conj else "negated"
            raise pickle.UnpicklingError(
                f"a tensor of {name} in the file is to be {what}. The file is damaged. [nd-file-damaged]"
            )
        key = (id(raw), name, conj, neg)
        if key not in self.resolved:
            values = raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)
            values = np.conjugate(values) if conj else values
            self.resolved[key] = (np.negative(values) if neg else values).view(np.uint8)
        return self.resolved[key]


def swap_bytes(raw: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """Return memory of a machine with the other byte order."""
    dtype = dtypes.as_numpy_dtype(name)
    words = np.dtype(f"u{dtype.itemsize // (2 if dtype.kind == 'c' else 1)}")  # bfloat16 cannot swap its bytes
    if raw.size % words.itemsize:
        raise pickle.UnpicklingError(
            f"memory of {name} in the file has {raw.size} bytes. The file is damaged. [nd-file-damaged]"
        )
    return raw.view(words).byteswap().view(np.uint8)


def array_class() -> type[Tensor]:
    from ndgrad.numpy._array import Array  # avoids an import cycle

    return Array


def requiring(made: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        if not (made.dtype.is_floating_point or made.dtype.is_complex):
            raise pickle.UnpicklingError(
                f"a tensor of {made.dtype} in the file requires a gradient. The file is damaged. [nd-file-damaged]"
            )
        meta_of(made).requires_grad = True
    return made
