"""Changing what a tensor is made of: dtype, device, memory order; and taking its values out to NumPy and Python."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ndgrad import devices, dtypes
from ndgrad.api.tensor_checks import channels_last_order, handed_out
from ndgrad.api.tensor_types import type_name, type_of
from ndgrad.arrays.placement import device_of, moved
from ndgrad.autograd.dispatch import on_device
from ndgrad.autograd.modes import process
from ndgrad.autograd.stake import stake_of
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.autograd.versions import storage_of
from ndgrad.ops import cast as ops
from ndgrad.storage import announce, batch_dims, memory_of

__all__ = ["clone", "is_conj", "is_neg", "resolve_conj", "resolve_neg"]
METHODS = (
    "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "clone", "cpu", "cuda", "double", "float", "half", "int",
    "is_conj", "is_neg", "item", "long", "numpy", "resolve_conj", "resolve_neg", "short", "to", "tolist", "type", "type_as",
)  # fmt: skip


# ----- values out ----------------------------------------------------------------------------------------------------


def item(self: Any) -> Any:
    """The one element as a Python number."""
    array = self._array
    if array.__class__ is np.ndarray and array.size == 1 and (self._meta is None or not self._meta.batch_level):
        return array.item() if not process.busy else handed_out(self, "item", array.item())
    if batch_dims(self):
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. Its value differs from one sample to the next. Keep it "
            "a tensor, "
            "or do this outside of vmap."
        )
    if self.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {self.numel()} elements cannot be converted to Scalar (shape {tuple(self.shape)}). Index or "
            "reduce it first, "
            "or use tolist()."
        )
    return handed_out(self, "item", memory_of(self).item())


def tolist(self: Any) -> Any:
    """The values as nested Python lists; of a 0-d tensor, the number."""
    if batch_dims(self):
        raise RuntimeError(
            "vmap: tolist() of a batched tensor: its values differ from one sample to the next. Do it outside of vmap."
        )
    return handed_out(self, "tolist", memory_of(self).tolist())


def numpy(self: Any, *, force: Any = False) -> Any:
    """The values as a NumPy array over the same memory.

    With `force`, a tensor that requires grad or lies on a GPU is detached and copied as need be.
    """
    if batch_dims(self):
        raise RuntimeError(
            "vmap: a batched tensor cannot become a NumPy array: it would lose its batch. Do it outside of vmap."
        )
    if not force and (lost := stake_of(self)) is not None:
        raise RuntimeError(
            f"Can't call numpy() on Tensor that {lost} (shape {tuple(self.shape)}): the derivative would be lost. Use "
            "tensor.detach().numpy() instead, or ndgrad.numpy, whose functions record."
        )
    array = memory_of(self)
    if not isinstance(array, np.ndarray):
        where = device_of(array)
        if not force or where.type == "meta":
            raise TypeError(
                f"can't convert {where} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
                "first."
            )
        return moved(array, devices.device("cpu"))
    if not isinstance(self._array, Variable):
        announce(array, storage_of(self))
    return handed_out(self, "numpy", array.view())


# ----- dtype and device ----------------------------------------------------------------------------------------------


def to(self: Any, *args: Any, **options: Any) -> Any:
    """This tensor with another dtype or on another device; the tensor itself if nothing changes and `copy` is not set.

    Forms: to(dtype), to(device), to(device, dtype), to(other), each with non_blocking and copy.
    """
    if len(args) == 1 and not options and args[0].__class__ is dtypes.dtype:
        return self if self.dtype is args[0] else ops.cast(self, dtype=args[0].numpy)
    dtype, device, copy, order = _read_to(args, options)
    return converted(self, dtype, device, copy, order)


def converted(t: Any, dtype: Any, device: Any, copy: Any, order: Any) -> Any:
    wanted = None if dtype is None else dtypes.as_numpy_dtype(dtype)
    here = t.device
    where = here if device is None else devices.device(device)
    moves = where is not here and not (where.type == here.type and where.index is None)
    changes = wanted is not None and np_dtype(t) != wanted
    out = t
    if moves:
        out = on_device(out, where, here)
    if changes:
        out = ops.cast(out, dtype=wanted)
    if order is not None and order is not devices.preserve_format and not out.is_contiguous(order):
        return _ordered(out, order)
    return ops.cast(out, dtype=np_dtype(t)) if out is t and copy else out


def _read_to(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The dtype, device, copy and memory format that the many forms of `to` mean."""
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
            f"to() got too many positional arguments: {args}. It takes a dtype, a device, or a tensor, then non_blocking and "
            "copy."
        )
    flags = dict(zip(("non_blocking", "copy"), rest))
    for name, value in options.items():
        if name not in ("dtype", "device", "non_blocking", "copy", "memory_format"):
            raise TypeError(
                f"to() got an unexpected keyword argument {name!r}. It takes dtype, device, non_blocking, copy and "
                "memory_format."
            )
        flags[name] = value
    dtype, device = flags.get("dtype", dtype), flags.get("device", device)
    return dtype, device, flags.get("copy", False), flags.get("memory_format")


def _check_name(name: str) -> None:
    try:
        dtypes.as_numpy_dtype(name)
    except TypeError:
        raise RuntimeError(
            f"to() cannot read {name!r}, which names neither a device nor a dtype. Write a device such as 'cpu', 'cuda:0' or "
            "'meta', or a dtype such as ndgrad.float32."
        ) from None


def _is_device(value: Any) -> Any:
    if isinstance(value, str):
        return value.partition(":")[0] in ("cpu", "cuda", "meta")
    return isinstance(value, devices.device) or (isinstance(value, builtins.int) and not isinstance(value, builtins.bool))


def _caster(name: str, dtype: dtypes.dtype) -> Any:
    def method(self: Any, memory_format: Any = devices.preserve_format) -> Any:
        return converted(self, dtype, None, False, memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"This tensor as {dtype!r}."
    return method


half = _caster("half", dtypes.float16)
bfloat16 = _caster("bfloat16", dtypes.bfloat16)
float = _caster("float", dtypes.float32)
double = _caster("double", dtypes.float64)
cfloat = _caster("cfloat", dtypes.complex64)
cdouble = _caster("cdouble", dtypes.complex128)
char = _caster("char", dtypes.int8)
byte = _caster("byte", dtypes.uint8)
short = _caster("short", dtypes.int16)
int = _caster("int", dtypes.int32)
long = _caster("long", dtypes.int64)
bool = _caster("bool", dtypes.bool_)


def cpu(self: Any, memory_format: Any = devices.preserve_format) -> Any:
    """This tensor in the CPU's memory."""
    return converted(self, None, "cpu", False, memory_format)


def cuda(self: Any, device: Any = None, non_blocking: Any = False, memory_format: Any = devices.preserve_format) -> Any:
    """This tensor on a GPU (the first, unless told otherwise)."""
    return converted(self, None, "cuda" if device is None else device, False, memory_format)


def type(self: Any, dtype: Any = None, non_blocking: Any = False) -> Any:
    """The name of the tensor's type, such as 'ndgrad.DoubleTensor'; or, with `dtype`, the tensor converted to it."""
    if dtype is None:
        return type_name(self)
    return converted(self, type_of(dtype), None, False, None)


def type_as(self: Any, other: Any) -> Any:
    """This tensor with the dtype and on the device of another."""
    return converted(self, other.dtype, other.device, False, None)


# ----- copies and memory order -----------------------------------------------------------------------------------------


def clone(input: Any, *, memory_format: Any = devices.preserve_format) -> Any:
    """A copy inside the graph."""
    if memory_format is devices.preserve_format:
        return ops.clone(input)
    return _ordered(input, memory_format)


def _ordered(t: Any, wanted: Any) -> Any:
    order = channels_last_order(wanted, t.ndim)
    if order is None:
        raise RuntimeError(
            f"required rank {4 if wanted is devices.channels_last else 5} tensor to use {wanted!r}, and got {t.ndim} "
            "dimensions."
        )
    return ops.clone_ordered(t, order=order)


# ndgrad has no lazy conjugates and signs: these say so to code that asks.


def is_conj(input: Any) -> Any:
    """Whether a conjugation is still to be carried out: never."""
    return False


def is_neg(input: Any) -> Any:
    """Whether a negation is still to be carried out: never."""
    return False


def resolve_conj(input: Any) -> Any:
    """The tensor itself; of a conjugate, which may not be written in place, a copy that may."""
    return input if np_dtype(input).kind != "c" or getattr(memory_of(input).flags, "writeable", True) else ops.clone(input)


def resolve_neg(input: Any) -> Any:
    """The tensor itself, which never has a pending negation."""
    return input

