"""Conversions of dtype, device and memory order, and from tensors to NumPy arrays and Python values."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.placement import device_of, move_to
from ndgrad._src.core.detach_checks import stake_of
from ndgrad._src.core.modes import process
from ndgrad._src.core.record import move_to_device
from ndgrad._src.core.subclass import is_wrapper, scalar_of
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.core.versions import storage_of
from ndgrad._src.debug.scipy_calls import advice
from ndgrad._src.foundations import devices
from ndgrad._src.ops import cast as ops
from ndgrad._src.ops.arithmetic import neg
from ndgrad._src.tensor.checks import channels_last_order, hand_out
from ndgrad._src.tensor.storage import announce, batch_dims, is_lazy, mark_lazy, memory_of
from ndgrad._src.tensor.typed_classes import type_name, type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Device, Dtype, MemoryFormat, Tensor

__all__ = ["_neg_view", "clone", "is_conj", "is_neg", "resolve_conj", "resolve_neg"]
METHODS = (
    "_neg_view", "bfloat16", "bool", "byte", "cdouble", "cfloat", "chalf", "char", "clone", "cpu", "cuda", "double",
    "float", "half", "int", "is_conj", "is_neg", "item", "long", "numpy", "resolve_conj", "resolve_neg", "short", "to",
    "tolist", "type",
    "type_as",
)  # fmt: skip


# ----- values out ----------------------------------------------------------------------------------------------------


# A complex tensor gives a complex number. The annotation leaves it out, as torch's does, so that programs may compare
# numbers and pass them on as floats.
def item(self: Tensor) -> builtins.int | builtins.float | builtins.bool:
    """Return the only element as a Python number.

    >>> import ndgrad
    >>> ndgrad.tensor([2.5]).item()
    2.5
    """
    array = self._array
    if array.__class__ is np.ndarray and array.size == 1 and (self._meta is None or not self._meta.batch_level):
        return array.item() if not process.busy else hand_out(self, "item", array.item())
    if self.own_dispatch:
        number: Any = scalar_of(self)
        return number
    if batch_dims(self):
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. Its value differs from one sample to the next. "
            "Keep it a tensor, or do this outside of vmap. [nd-vmap-value]"
        )
    if self.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {self.numel()} elements cannot be converted to Scalar (shape {tuple(self.shape)}). Index "
            "or reduce it first, or use tolist(). [nd-one-value]"
        )
    return hand_out(self, "item", memory_of(self).item())


def tolist(self: Tensor) -> Any:
    """Return the values as nested Python lists; for a 0-d tensor, the number.

    >>> import ndgrad
    >>> ndgrad.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    if batch_dims(self):
        raise RuntimeError(
            "vmap: tolist() of a batched tensor: its values differ from one sample to the next. Do it outside of vmap. "
            "[nd-vmap-value]"
        )
    if is_wrapper(self):
        raise RuntimeError(
            f".tolist() is not supported for tensor subclasses, got {builtins.type(self).__name__}, which has no "
            "memory of its own. Call it on the tensor inside. [nd-unsupported]"
        )
    return hand_out(self, "tolist", memory_of(self).tolist())


def numpy(self: Tensor, *, force: builtins.bool = False) -> NDArray[Any]:
    """Return the values as a NumPy array over the same memory.

    Args:
        self: tensor of any dtype.
        force: whether a tensor that requires grad or is on a GPU is detached and copied if necessary, instead of an
            error.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    if batch_dims(self):
        raise RuntimeError(
            "vmap: a batched tensor cannot become a NumPy array: it would lose its batch. Do it outside of vmap. "
            "[nd-vmap-value]"
        )
    if not force and (lost := stake_of(self)) is not None:
        raise RuntimeError(
            f"Can't call numpy() on Tensor that {lost}. Use tensor.detach().numpy() instead, or ndgrad.numpy, whose "
            f"functions record: the derivative of the tensor (shape {tuple(self.shape)}) would be lost.{advice()} "
            "[nd-drops-gradient]"
        )
    if is_wrapper(self):
        raise RuntimeError(
            f".numpy() is not supported for tensor subclasses: {builtins.type(self).__name__} has no memory of its "
            "own. Call it on the tensor inside. [nd-unsupported]"
        )
    array = memory_of(self)
    if not isinstance(array, np.ndarray):
        where = device_of(array)
        if not force or where.type == "meta":
            raise TypeError(
                f"can't convert {where} device type tensor to numpy. Use Tensor.cpu() "
                "to copy the tensor to host memory first. [nd-host]"
            )
        return move_to(array, devices.device("cpu"))
    if not isinstance(self._array, Variable):
        announce(array, storage_of(self))
    return hand_out(self, "numpy", array.view())


# ----- dtype and device ----------------------------------------------------------------------------------------------


@overload
def to(
    self: Tensor,
    dtype: Dtype,
    non_blocking: builtins.bool = ...,
    copy: builtins.bool = ...,
    *,
    memory_format: MemoryFormat = ...,
) -> Tensor: ...
@overload
def to(
    self: Tensor,
    device: Device = ...,
    dtype: Dtype = ...,
    non_blocking: builtins.bool = ...,
    copy: builtins.bool = ...,
    *,
    memory_format: MemoryFormat = ...,
) -> Tensor: ...
@overload
def to(
    self: Tensor,
    other: Tensor,
    non_blocking: builtins.bool = ...,
    copy: builtins.bool = ...,
    *,
    memory_format: MemoryFormat = ...,
) -> Tensor: ...
def to(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """Convert the tensor to another dtype or device. Return it unchanged if nothing changes and `copy` is not set.

    Args:
        self: tensor of any dtype.
        *args: a dtype; a device; a device and a dtype; or a tensor with both. `non_blocking` and `copy` may follow.
        **options: `dtype` and `device` by name; `copy`, whether a copy is made in any case; `non_blocking`, whether a
            copy between the CPU and a GPU may go on after the call; `memory_format`, the memory layout of the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.5, 2.5])
    >>> x.to(ndgrad.int64), x.to("meta").device.type
    (tensor([1, 2]), 'meta')
    """
    if len(args) == 1 and not options and args[0].__class__ is dtypes.dtype:
        return self if self.dtype is args[0] else ops.cast(self, dtype=args[0].numpy)
    dtype, device, copy, order, non_blocking = _read_to(args, options)
    return convert_tensor(self, dtype, device, copy, order, non_blocking)


def convert_tensor(
    t: Tensor,
    dtype: Dtype,
    device: Device,
    copy: builtins.bool,
    order: MemoryFormat,
    non_blocking: builtins.bool = False,
) -> Tensor:
    """Convert `t` to this dtype, device and memory order; None keeps the current one."""
    wanted = None if dtype is None else dtypes.as_numpy_dtype(dtype)
    here = t.device
    where = here if device is None else devices.device(device)
    moves = where is not here and not (where.type == here.type and where.index is None)
    changes = wanted is not None and np_dtype(t) != wanted
    out = t
    if moves:
        out = move_to_device(out, where, here, non_blocking)
    if changes:
        out = ops.cast(out, dtype=wanted)
    if order is not None and order is not devices.preserve_format and not out.is_contiguous(order):
        return _clone_ordered(out, order)
    return ops.cast(out, dtype=np_dtype(t)) if out is t and copy else out


def _read_to(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any, Any, Any, builtins.bool]:
    """Return dtype, device, copy, memory format and non_blocking from the many forms of arguments of `to`."""
    dtype = device = None
    rest = list(args)
    if rest and isinstance(rest[0], Variable):
        other = rest.pop(0)
        dtype, device = other.dtype, other.device
    elif "other" in options:
        other = options.pop("other")
        dtype, device = other.dtype, other.device
    elif rest and (rest[0] is None or _is_device(rest[0])):
        device = rest.pop(0)
        if rest and not isinstance(rest[0], builtins.bool):
            dtype = rest.pop(0)
    elif rest:
        dtype = rest.pop(0)
        if isinstance(dtype, str):
            _check_name(dtype)
    if len(rest) > 2:
        raise TypeError(
            f"to() got too many positional arguments: {args}. It takes a dtype, a device, or a tensor, "
            "then non_blocking and copy. [nd-arguments]"
        )
    flags = dict(zip(("non_blocking", "copy"), rest))
    for name, value in options.items():
        if name not in ("dtype", "device", "non_blocking", "copy", "memory_format"):
            raise TypeError(
                f"to() got an unexpected keyword argument {name!r}. "
                "It takes dtype, device, non_blocking, copy and memory_format. [nd-arguments]"
            )
        flags[name] = value
    dtype, device = flags.get("dtype", dtype), flags.get("device", device)
    waits_not = builtins.bool(flags.get("non_blocking", False))
    return dtype, device, flags.get("copy", False), flags.get("memory_format"), waits_not


def _check_name(name: str) -> None:
    try:
        dtypes.as_numpy_dtype(name)
    except TypeError:
        raise RuntimeError(
            f"to() cannot read {name!r}, which names neither a device nor a dtype. Write a device such as 'cpu', "
            "'cuda:0' or 'meta', or a dtype such as ndgrad.float32. [nd-device]"
        ) from None


def _is_device(value: object) -> builtins.bool:
    if isinstance(value, str):
        return value.partition(":")[0] in ("cpu", "cuda", "meta")
    return isinstance(value, devices.device) or (
        isinstance(value, builtins.int) and not isinstance(value, builtins.bool)
    )


def half(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.float16`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).half()
    tensor([0.0000, 2.5000], dtype=ndgrad.float16)
    """
    return convert_tensor(self, dtypes.float16, None, False, memory_format)


def bfloat16(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.bfloat16`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).bfloat16()
    tensor([0.0000, 2.5000], dtype=ndgrad.bfloat16)
    """
    return convert_tensor(self, dtypes.bfloat16, None, False, memory_format)


def float(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.float32`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).float()
    tensor([0.0000, 2.5000])
    """
    return convert_tensor(self, dtypes.float32, None, False, memory_format)


def double(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.float64`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).double()
    tensor([0.0000, 2.5000], dtype=ndgrad.float64)
    """
    return convert_tensor(self, dtypes.float64, None, False, memory_format)


def cfloat(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.complex64`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).cfloat()
    tensor([0.0000+0.j, 2.5000+0.j])
    """
    return convert_tensor(self, dtypes.complex64, None, False, memory_format)


def cdouble(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.complex128`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).cdouble()
    tensor([0.0000+0.j, 2.5000+0.j], dtype=ndgrad.complex128)
    """
    return convert_tensor(self, dtypes.complex128, None, False, memory_format)


def chalf(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """Raise: torch converts to complex32 (two halves), a dtype that NumPy lacks.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result.

    Raises:
        NotImplementedError: always.

    >>> import ndgrad
    >>> ndgrad.ones(2).chalf()
    Traceback (most recent call last):
    ...
    NotImplementedError: chalf(): there is no complex32 ...
    """
    raise NotImplementedError(
        f"chalf(): there is no complex32 for a tensor of {dtypes.as_dtype(np_dtype(self))!r} and shape "
        f"{tuple(self.shape)}: NumPy has no complex "
        "numbers of two halves. Use cfloat(), which takes twice the memory. [nd-dtype]"
    )


def char(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.int8`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).char()
    tensor([0, 2], dtype=ndgrad.int8)
    """
    return convert_tensor(self, dtypes.int8, None, False, memory_format)


def byte(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.uint8`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).byte()
    tensor([0, 2], dtype=ndgrad.uint8)
    """
    return convert_tensor(self, dtypes.uint8, None, False, memory_format)


def short(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.int16`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).short()
    tensor([0, 2], dtype=ndgrad.int16)
    """
    return convert_tensor(self, dtypes.int16, None, False, memory_format)


def int(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.int32`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).int()
    tensor([0, 2], dtype=ndgrad.int32)
    """
    return convert_tensor(self, dtypes.int32, None, False, memory_format)


def long(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.int64`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).long()
    tensor([0, 2])
    """
    return convert_tensor(self, dtypes.int64, None, False, memory_format)


def bool(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor as `ndgrad.bool`.

    Args:
        self: tensor of any dtype.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 2.5]).bool()
    tensor([False,  True])
    """
    return convert_tensor(self, dtypes.bool_, None, False, memory_format)


def cpu(self: Tensor, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """This tensor in the CPU's memory.

    Args:
        self: tensor on any device.
        memory_format: memory layout of the result. The default is that of this tensor.

    >>> import ndgrad
    >>> ndgrad.ones(2).cpu()
    tensor([1., 1.])
    """
    return convert_tensor(self, None, "cpu", False, memory_format)


def cuda(
    self: Tensor,
    device: Device = None,
    non_blocking: builtins.bool = False,
    memory_format: MemoryFormat = devices.preserve_format,
) -> Tensor:
    """Return this tensor on a GPU. Needs CuPy.

    Args:
        self: tensor on any device.
        device: GPU to use. The default is the first one.
        non_blocking: whether the copy may go on after the call.
        memory_format: memory layout of the result.

    >>> import ndgrad
    >>> ndgrad.ones(2).cuda(1).device  # doctest: +SKIP
    device(type='cuda', index=1)
    """
    return convert_tensor(self, None, "cuda" if device is None else device, False, memory_format, non_blocking)


@overload
def type(self: Tensor, dtype: None = None, non_blocking: builtins.bool = ...) -> str: ...
@overload
def type(
    self: Tensor, dtype: dtypes.dtype | builtins.type[Any] | np.dtype[Any] | str, non_blocking: builtins.bool = ...
) -> Tensor: ...
def type(self: Tensor, dtype: Dtype = None, non_blocking: builtins.bool = False) -> str | Tensor:
    """Return the name of the tensor's type, such as 'ndgrad.DoubleTensor'; with `dtype`, convert the tensor to it.

    Args:
        self: tensor of any dtype.
        dtype: dtype, or name of a tensor type. None asks for the name.
        non_blocking: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0]).type(), ndgrad.tensor([1.0]).type(ndgrad.int32).type()
    ('ndgrad.FloatTensor', 'ndgrad.IntTensor')
    """
    if dtype is None:
        return type_name(self)
    return convert_tensor(self, type_of(dtype), None, False, None)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor with the dtype and on the device of another.

    Args:
        self: tensor of any dtype.
        other: tensor whose dtype and device are taken.

    >>> import ndgrad
    >>> ndgrad.tensor([1.5]).type_as(ndgrad.tensor([1]))
    tensor([1])
    """
    return convert_tensor(self, other.dtype, other.device, False, None)


# ----- copies and memory order ----------------------------------------------------------------------------------------


def clone(input: Tensor, *, memory_format: MemoryFormat = devices.preserve_format) -> Tensor:
    """Return a copy inside the graph: gradients flow through it to the original.

    Args:
        input: input tensor.
        memory_format: memory layout of the copy. The default is that of `input`.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> ndgrad.clone(x).mul_(3.0).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    if memory_format is None or memory_format is devices.preserve_format:
        return ops.clone(input)
    return _clone_ordered(input, memory_format)


def _clone_ordered(t: Tensor, wanted: devices.memory_format) -> Tensor:
    order = channels_last_order(wanted, t.ndim)
    if order is None:
        raise RuntimeError(
            f"required rank {4 if wanted is devices.channels_last else 5} tensor to use {wanted!r}, "
            f"but got {t.ndim} dimensions. [nd-strides]"
        )
    return ops.clone_ordered(t, order=order)


# NumPy's memory has no lazy conjugates and signs. torch's lazy views are computed at once here; they are read-only and
# their storage records the kind.


def is_conj(input: Tensor) -> builtins.bool:
    """True if this is a conjugate by `conj()`, `mH`, `H` or `adjoint()`, or a view of one.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.tensor([1j]).conj().is_conj(), ndgrad.tensor([1j]).conj_physical().is_conj()
    (True, False)
    """
    return is_lazy(input, "conj")


def is_neg(input: Tensor) -> builtins.bool:
    """True if this is the imaginary part of a conjugate (see `is_conj`), or a view of one.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.is_neg(ndgrad.tensor([1j]).conj().imag), ndgrad.is_neg(ndgrad.tensor([1.0]))
    (True, False)
    """
    return is_lazy(input, "neg")


def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor itself, or a writable copy if it is a read-only conjugate.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.resolve_conj(ndgrad.tensor([1j]).conj()).mul_(2)
    tensor([0.-2.j])
    """
    return (
        input if np_dtype(input).kind != "c" or getattr(memory_of(input).flags, "writeable", True) else ops.clone(input)
    )


def resolve_neg(input: Tensor) -> Tensor:
    """Return the tensor itself, or a writable copy if it is the read-only imaginary part of a conjugate.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.resolve_neg(ndgrad.tensor([1j]).conj().imag).mul_(2)
    tensor([-2.])
    """
    return ops.clone(input) if is_lazy(input, "neg") else input


def _neg_view(input: Tensor) -> Tensor:
    """Return the read-only negative that torch uses inside conjugates.

    >>> import ndgrad
    >>> ndgrad._neg_view(ndgrad.tensor([1.0])).is_neg()
    True
    """
    return mark_lazy(neg(input), "" if is_lazy(input, "neg") else "neg")
