"""Queries about tensors as functions: kind, size, type promotion; and the library's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from ndgrad._src.arrays import dtypes, pinned_memory, threads
from ndgrad._src.arrays.dtypes import (
    can_cast,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    result_type,
    set_default_dtype,
)
from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.core.variable import Variable, new, np_dtype
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.functions.data import fresh
from ndgrad._src.tensor.printing import get_printoptions, printoptions, set_printoptions
from ndgrad._src.tensor.storage import is_storage

if TYPE_CHECKING:
    from ndgrad._typing import Device, Tensor

T = TypeVar("T")

__all__ = [
    "_assert", "_is_all_true", "_is_any_true", "can_cast", "detach", "detach_", "dtype", "finfo", "get_default_dtype",
    "get_device", "get_num_interop_threads", "get_num_threads", "get_printoptions", "iinfo", "is_complex",
    "is_floating_point", "is_inference", "is_nonzero", "is_same_size", "is_signed", "is_storage", "is_tensor", "numel",
    "printoptions", "promote_types", "result_type", "set_default_dtype", "set_num_interop_threads", "set_num_threads",
    "set_printoptions", "typename",
]  # fmt: skip
ABOUT_THE_LIBRARY = (
    "is_tensor", "is_storage", "set_printoptions", "set_default_dtype", "get_default_dtype", "finfo", "iinfo",
    "promote_types", "result_type", "can_cast",
)  # fmt: skip

METHODS = (
    "_is_all_true", "_is_any_true", "as_subclass", "dim_order", "is_complex", "is_floating_point",
    "is_nonzero", "is_pinned", "is_same_size", "is_set_to", "is_signed", "pin_memory", "record_stream",
)  # fmt: skip


def _require_tensor(name: str, input: Tensor) -> Tensor:
    if not isinstance(input, Variable):
        raise TypeError(
            f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}. "
            "Wrap it with ndgrad.as_tensor(...). [nd-type]"
        )
    return input


def _assert(condition: object, message: str) -> None:
    """Raise AssertionError with `message` unless the condition holds. `ndgrad.fx` records it as a node of the graph.

    >>> import ndgrad
    >>> ndgrad._assert(ndgrad.ones(2).shape[0] == 2, "two elements")
    """
    assert condition, message


@set_module("ndgrad")
def is_tensor(obj: object) -> TypeGuard[Tensor]:
    """True if `obj` is a tensor.

    Args:
        obj: any object.

    >>> import ndgrad
    >>> ndgrad.is_tensor(ndgrad.ones(2)), ndgrad.is_tensor([1.0, 1.0])
    (True, False)
    """
    return isinstance(obj, Variable)


def is_floating_point(input: Tensor) -> bool:
    """True if the dtype is a real floating-point dtype.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.is_floating_point(ndgrad.ones(2)), ndgrad.tensor([1]).is_floating_point()
    (True, False)
    """
    return dtypes.as_dtype(np_dtype(_require_tensor("is_floating_point", input))).is_floating_point


def is_complex(input: Tensor) -> bool:
    """True if the dtype is complex.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.is_complex(ndgrad.tensor([1j]))
    True
    """
    return np_dtype(_require_tensor("is_complex", input)).kind == "c"


def is_signed(input: Tensor) -> bool:
    """True if the dtype has negative numbers.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).is_signed(), ndgrad.tensor([True]).is_signed()
    (True, False)
    """
    return dtypes.as_dtype(np_dtype(_require_tensor("is_signed", input))).is_signed


def is_nonzero(input: Tensor) -> bool:
    """True if the only element of a tensor is not zero.

    Args:
        input: tensor of one element.

    >>> import ndgrad
    >>> ndgrad.is_nonzero(ndgrad.tensor([2.0]))
    True
    """
    if _require_tensor("is_nonzero", input).numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with shape {tuple(input.shape)} is ambiguous. Use any() or all(). [nd-one-value]"
        )
    return bool(input)


def is_inference(input: Tensor) -> bool:
    """True if the tensor was made in inference mode.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.is_inference(ndgrad.ones(2))
    False
    """
    return _require_tensor("is_inference", input).is_inference()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """True if two tensors have the same shape.

    Args:
        input: first tensor.
        other: second tensor.

    >>> import ndgrad
    >>> ndgrad.is_same_size(ndgrad.ones(2, 3), ndgrad.ones(3, 2))
    False
    """
    return tuple(_require_tensor("is_same_size", input).shape) == tuple(other.shape)


def numel(input: Tensor) -> int:
    """The number of elements.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.numel(ndgrad.ones(2, 3))
    6
    """
    return _require_tensor("numel", input).numel()


def get_device(input: Tensor) -> int:
    """The number of the GPU that holds the tensor, -1 on the CPU.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.get_device(ndgrad.ones(2))
    -1
    """
    return _require_tensor("get_device", input).get_device()


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """True if two tensors refer to the same elements of the same memory with the same strides.

    Args:
        self: first tensor.
        tensor: second tensor.

    >>> import ndgrad
    >>> x = ndgrad.ones(2)
    >>> x.is_set_to(x.detach()), x.is_set_to(x.clone())
    (True, False)
    """
    same_view = (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())
    return same_view and self.dtype == tensor.dtype


def _is_any_true(input: Tensor) -> Tensor:
    """`any()` of a boolean tensor.

    >>> import ndgrad
    >>> ndgrad._is_any_true(ndgrad.tensor([True, False]))
    tensor(True)
    """
    return _require_mask("_is_any_true", input).any()


def _is_all_true(input: Tensor) -> Tensor:
    """`all()` of a boolean tensor.

    >>> import ndgrad
    >>> ndgrad._is_all_true(ndgrad.tensor([True, False]))
    tensor(False)
    """
    return _require_mask("_is_all_true", input).all()


def _require_mask(name: str, input: Tensor) -> Tensor:
    if np_dtype(_require_tensor(name, input)).kind != "b":
        raise RuntimeError(f"{name}: expected a boolean tensor, but got {input.dtype}. Compare first. [nd-dtype]")
    return input


def typename(obj: object) -> str:
    """Return the name of a tensor's type, as `type()` gives it; for other objects, the name of the class.

    Args:
        obj: any object.

    >>> import ndgrad
    >>> ndgrad.typename(ndgrad.tensor([1])), ndgrad.typename([1])
    ('ndgrad.LongTensor', 'list')
    """
    if is_tensor(obj):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def detach(input: Tensor) -> Tensor:
    """Return a tensor with the same memory outside the graph.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.detach(ndgrad.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    return _require_tensor("detach", input).detach()


def detach_(input: Tensor) -> Tensor:
    """Remove a tensor from its graph, in place.

    Args:
        input: tensor to change.

    >>> import ndgrad
    >>> ndgrad.detach_(ndgrad.ones(2, requires_grad=True) * 2)
    tensor([2., 2.])
    """
    return _require_tensor("detach_", input).detach_()


def as_subclass(self: Tensor, cls: type[T]) -> T:
    """Return a view of this tensor, inside the graph, with another tensor class.

    Args:
        self: tensor to view.
        cls: subclass of `ndgrad.Tensor`. Its constructor is not called.

    >>> import ndgrad
    >>> class Mine(ndgrad.Tensor): ...
    >>> type(ndgrad.ones(2).as_subclass(Mine)).__name__
    'Mine'
    """
    if not issubclass(cls, Variable):
        raise TypeError(f"as_subclass: {cls.__name__} is no subclass of Tensor. [nd-type]")
    view = shape_ops.alias(self)
    made = new(cls)
    made._array, made._node, made._storage, made._meta = view._array, view._node, view._storage, view._meta
    return made


def dim_order(self: Tensor) -> tuple[int, ...]:
    """Return the dimensions in memory order, outermost first.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 3).t().dim_order()
    (1, 0)
    """
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


def is_pinned(self: Tensor, device: Device = None) -> bool:
    """True if the memory is page-locked (see `pin_memory`).

    Args:
        self: tensor on any device.
        device: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> ndgrad.ones(2).is_pinned()
    False
    """
    return self.device.type == "cpu" and pinned_memory.is_pinned(self._array)


def pin_memory(self: Tensor, device: Device = None) -> Tensor:
    """Return a copy in page-locked memory, which a GPU can read by itself: `x.to("cuda", non_blocking=True)` then
    returns before the copy is made. Return the tensor itself if its memory is page-locked already, or if there is no
    GPU.

    Args:
        self: tensor on the CPU.
        device: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> x = ndgrad.ones(2)
    >>> x.pin_memory() is x or ndgrad.cuda.is_available()
    True
    """
    if self.device.type != "cpu":
        raise RuntimeError(
            f"cannot pin a tensor on {self.device}: only memory of the CPU can be pinned. Call x.cpu() first. "
            "[nd-device]"
        )
    library, count = devices_or_none()
    if not count or not hasattr(library.cuda, "alloc_pinned_memory") or pinned_memory.is_pinned(self._array):
        return self
    if self.requires_grad:
        raise RuntimeError(
            "pin_memory() of a tensor that requires grad: the copy would have no gradient. Pin data, or x.detach(). "
            "[nd-drops-gradient]"
        )
    return fresh(pinned_memory.pinned_copy(library, self._array))


def record_stream(self: Tensor, stream: Any) -> None:
    """Mark the memory as used by a GPU stream (`ndgrad.cuda.Stream`): it is not reused before the stream finishes
    its current work, even if the tensor is deleted.

    Args:
        self: tensor on a GPU.
        stream: stream that uses the memory.

    >>> import ndgrad
    >>> if ndgrad.cuda.is_available():
    ...     ndgrad.ones(2, device="cuda").record_stream(ndgrad.cuda.current_stream())
    """
    if self.device.type != "cuda":
        raise RuntimeError(
            f"record_stream() of a tensor on {self.device}: only GPUs have streams that use memory. [nd-device]"
        )
    pinned_memory.keep_until_done(stream.stream, self._array)


# ----- threads --------------------------------------------------------------------------------------------------------


def get_num_threads() -> int:
    """Return the maximal number of threads of one kernel.

    >>> import ndgrad
    >>> ndgrad.get_num_threads() >= 1
    True
    """
    return threads.max_threads


def set_num_threads(count: int) -> None:
    """Set the maximal number of threads of one kernel.

    Args:
        count: number of threads, at least 1.

    >>> import ndgrad
    >>> before = ndgrad.get_num_threads()
    >>> ndgrad.set_num_threads(1)
    >>> ndgrad.get_num_threads()
    1
    >>> ndgrad.set_num_threads(before)
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(count).__name__}. [nd-type]")
    if count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, but got {count}. [nd-range]")

    threads.set_max_threads(count)


def get_num_interop_threads() -> int:
    """Return 1: ops run one after another.

    >>> import ndgrad
    >>> ndgrad.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(count: int) -> None:
    """Accepted for compatibility with torch, without effect: ops run one after another.

    Args:
        count: number of threads, at least 1.

    >>> import ndgrad
    >>> ndgrad.set_num_interop_threads(4)
    """
    if count < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, but got {count}. [nd-range]")
