"""DLPack: memory shared with other libraries' arrays, without a copy.

Memory crosses, graphs do not. A tensor that requires grad is refused while grad mode is on, since the other library
would compute values that are never differentiated; `detach()` states the intention. An imported tensor is a constant.
Writes by the other library show in the values but not in the version counter, so overwriting a saved value goes
unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.detach_checks import stake_of
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.tensor.storage import batch_dims, memory_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Device, Payload, Tensor

__all__ = ["from_dlpack"]
METHODS = ()

#: DLPack's codes for kinds of devices.
_CPU, _CUDA = 1, 2


def _shareable_memory(t: Variable) -> Payload:
    """Return the array to share, after checking that nothing is lost."""
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
    """Return DLPack's codes for the tensor's device: its kind and its number."""
    where = t.device
    return (_CUDA, where.index or 0) if where.type == "cuda" else (_CPU, 0)


def to_capsule(
    t: Variable,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """Return the result of `__dlpack__`, made by the array library."""
    array = _shareable_memory(t)
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return array.__dlpack__(**given)
    except TypeError:
        # NumPy before 2.1 and CuPy before 14 accept only `stream`.
        if copy or (dl_device is not None and tuple(dl_device) != dlpack_device(t)):
            raise BufferError(
                f"the installed {library_of(array).__name__} shares memory by DLPack only as it lies. "
                "Copy the tensor with clone() first. [nd-unsupported]"
            ) from None
        return array.__dlpack__(**({} if stream is None else {"stream": stream}))


class _Carrier:
    """A bare capsule: the form of exchange before `__dlpack__` existed."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


@set_module("ndgrad.utils.dlpack")
def from_dlpack(ext_tensor: Any, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """Return a constant tensor over the memory of another library's array or a DLPack capsule; both see writes.

    Args:
        ext_tensor: array with the method `__dlpack__`, or a DLPack capsule.
        device: device of the result. The default is that of the array.
        copy: True for a copy in any case. Otherwise memory is copied only to another device.

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
        import cupy  # type: ignore[import-not-found, unused-ignore]  # present if there is GPU memory

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
        return _make_writable(np.from_dlpack(ext_tensor))
    except (RuntimeError, BufferError) as error:
        raise BufferError(
            f"from_dlpack(): the memory of a {type(ext_tensor).__module__}.{type(ext_tensor).__name__} cannot be "
            f"shared: {error}. Pass a copy in a dtype that NumPy has. [nd-foreign-array]"
        ) from error


class _Shared:
    """The memory of an array, marked writable for another array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # keeps the memory alive
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def _make_writable(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array writable: before NumPy 2.1 arrays from DLPack were read-only, as DLPack had no flag for it."""
    old = tuple(int(n) for n in np.__version__.split(".")[:2]) < (2, 1)
    return np.asarray(_Shared(array)) if old and not array.flags.writeable else array
