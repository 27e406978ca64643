"""The functions of torch's private `torch._utils` that libraries call."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.dtypes import dtype as _dtype
from ndgrad._src.core.variable import Variable as _Variable
from ndgrad._src.foundations import devices as _devices
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.creation import empty as _empty
from ndgrad._src.tensor.functions.join import cat as _cat
from ndgrad.nn.parameter import Parameter as _Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["ExceptionWrapper"]


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """Return the elements of tensors as one vector."""
    return _cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return views of a vector in the shapes of tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """Return a tensor over a storage."""
    made: Tensor = _empty((0,), dtype=storage.dtype, device=storage.device)
    return made.set_(getattr(storage, "_untyped_storage", storage), storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int], requires_grad: bool,
    backward_hooks: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor over a storage, as files describe it."""
    if metadata:
        raise RuntimeError(f"_rebuild_tensor_v2: the file marks a tensor by {metadata!r}, which has no meaning here. "
                           "[nd-file-kind]")  # fmt: skip
    made = _rebuild_tensor(storage, storage_offset, size, stride)
    made.requires_grad = requires_grad
    made._backward_hooks = backward_hooks
    return made


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> _Parameter:
    """Return a parameter over a tensor, as files describe it."""
    made = _Parameter(data, requires_grad)
    made._backward_hooks = backward_hooks
    return made


def _element_size(dtype: _dtype) -> int:
    """Return the size of an element in bytes."""
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """Return "cuda" if a GPU can be used."""
    from ndgrad import cuda  # not every program asks

    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:
    """Return the module of a kind of device, such as `ndgrad.cuda`."""
    import ndgrad  # some devices have modules that are loaded on first use

    found = getattr(ndgrad, device_type, None) if isinstance(device_type, str) else None
    if not isinstance(found, ModuleType):
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'. Use "
            "'cpu' or 'cuda'. [nd-device]"
        )
    return found


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the number of a device; -1 for the CPU if it is allowed."""
    if isinstance(device, int):
        return device
    place = _devices.device(device) if isinstance(device, (str, _devices.device)) else None
    if place is not None and place.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"Expected a non cpu device, but got: {device}. [nd-device]")
    if place is None or place.index is None:
        if not optional:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got:{device}. [nd-device]"
            )
        return 0
    return place.index


class ExceptionWrapper:
    """An exception as text, which can be sent to another process."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = exc_info or sys.exc_info()
        self.exc_type: Any = kind
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self) -> None:
        """Raise an exception of the same class with the text."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(f"{message} [nd-worker]") from None
        raise error


def is_tensor_like(value: Any) -> bool:
    """True for tensors."""
    return isinstance(value, _Variable)


_refuse_absent(__name__)
