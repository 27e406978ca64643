"""DLPack: memory shared with other libraries' arrays, without a copy.

The rule: memory crosses, graphs do not. A tensor that requires grad is refused while grad mode is on, since the other
library would compute with values that nothing differentiates; `detach()` says that this is meant. What comes in is a
constant. Writes by the other library are seen in the values, but nobody is told of them: a saved value that is
overwritten so goes unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.detach_checks import stake_of
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import devices
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.tensor.storage import batch_dims, memory_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Device, Payload, Tensor

__all__ = ["from_dlpack"]
METHODS = ()

#: DLPack's numbers of kinds of devices.
_CPU, _CUDA = 1, 2


def _memory(t: Variable) -> Payload:
    """The array to share, once it is clear that nothing is lost."""
    if batch_dims(t):
        raise BufferError(
            "a tensor inside vmap cannot be exported: its memory holds the whole batch. Do it outside of vmap. "
            "[nd-vmap-refused]"
        )
    if (lost := stake_of(t)) is not None:
        raise BufferError(
            f"Can't export tensors that require gradient or carry a tangent: this one (shape {tuple(t.shape)}) {lost}. "
            "DLPack shares memory, and the other library's results would have no graph. Use tensor.detach() "
            "if no derivative is meant to pass. [nd-drops-gradient]"
        )
    if t.device.type == "meta":
        raise BufferError("a tensor on the meta device has no memory to export. Make it on a real device. [nd-meta]")
    return memory_of(t)


def dlpack_device(t: Variable) -> tuple[int, int]:
    """DLPack's numbers for where a tensor lies: the kind of device, and which one."""
    where = t.device
    return (_CUDA, where.index or 0) if where.type == "cuda" else (_CPU, 0)


def to_capsule(
    t: Variable,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """What `__dlpack__` returns: the array library makes it."""
    array = _memory(t)
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return array.__dlpack__(**given)
    except TypeError:
        # before NumPy 2.1 and CuPy 14 there was only `stream`
        if copy or (dl_device is not None and tuple(dl_device) != dlpack_device(t)):
            raise BufferError(
                f"the installed {library_of(array).__name__} shares memory by DLPack only as it lies. "
                "Copy the tensor with clone() first. [nd-unsupported]"
            ) from None
        return array.__dlpack__(**({} if stream is None else {"stream": stream}))


class _Carrier:
    """A bare capsule, as libraries passed it around before they agreed on `__dlpack__`."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def from_dlpack(ext_tensor: Any, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """A constant tensor over the memory of another library's array (or of a DLPack capsule); writes are seen by both.

    >>> import ndgrad
    >>> import numpy as np
    >>> a = np.arange(3.0)
    >>> t = ndgrad.from_dlpack(a)
    >>> t += 1
    >>> a
    array([1., 2., 3.])
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Carrier(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            f"from_dlpack(): a {type(ext_tensor).__name__} has no __dlpack__ method. "
            "Pass an array of a library that knows DLPack, or use as_tensor(). [nd-foreign-array]"
        )
    kind, _ = ext_tensor.__dlpack_device__()
    if kind == _CUDA:
        import cupy  # type: ignore[import-not-found, unused-ignore]  # whoever has memory on a GPU has it

        made = as_tensor(cupy.from_dlpack(ext_tensor), device=device or "cuda")
    elif kind == _CPU:
        made = as_tensor(_from_cpu(ext_tensor), device=device or devices.device("cpu"))
    else:
        raise BufferError(
            f"from_dlpack(): memory on a device of DLPack's kind {kind} cannot be read. "
            "Move the array to the CPU or to CUDA first. [nd-device]"
        )
    dtypes.as_dtype(made._array.dtype)
    return made.clone() if copy else made


def _from_cpu(ext_tensor: Any) -> NDArray[Any]:
    if isinstance(ext_tensor, np.ndarray):
        return ext_tensor
    try:
        return _writable(np.from_dlpack(ext_tensor))
    except (RuntimeError, BufferError) as error:
        raise BufferError(
            f"from_dlpack(): the memory of a {type(ext_tensor).__module__}.{type(ext_tensor).__name__} cannot be "
            f"shared: {error}. Pass a copy in a dtype that NumPy has. [nd-foreign-array]"
        ) from error


class _Shared:
    """The memory of an array, for another array that may be written."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # which keeps the memory alive
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Before NumPy 2.1 what came by DLPack could not be written, because DLPack did not say yet who may."""
    old = tuple(int(n) for n in np.__version__.split(".")[:2]) < (2, 1)
    return np.asarray(_Shared(array)) if old and not array.flags.writeable else array
