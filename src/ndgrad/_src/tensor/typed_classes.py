"""torch's typed tensor classes: `FloatTensor(2, 3)`, `isinstance(t, LongTensor)`, `t.type()`.

These are old names for `Tensor` with a dtype. Tensors are instances of them only for `isinstance`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ndgrad._src.arrays import dtypes
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations import package_name
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.tensor.functions.data import construct
from ndgrad._src.tensor.tensor_class import Tensor

_NAMES = {
    "BoolTensor": dtypes.bool_,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
    "ComplexFloatTensor": dtypes.complex64,
    "ComplexDoubleTensor": dtypes.complex128,
    "UInt16Tensor": dtypes.uint16,
    "UInt32Tensor": dtypes.uint32,
    "UInt64Tensor": dtypes.uint64,
}
_NAME_OF = {d: name for name, d in _NAMES.items() if d is not dtypes.bfloat16}


class TypedTensorType(type):
    """Metaclass of typed tensor classes: calling such a class makes a plain `Tensor` of its dtype."""

    dtype: dtypes.dtype

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return construct(Tensor, args, options, cls.dtype.numpy, typed=True)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Variable) and bool(cls.dtype == np_dtype(instance))


class _Typed(metaclass=TypedTensorType):
    dtype: ClassVar[dtypes.dtype]


def _make(name: str, dtype: dtypes.dtype) -> Any:
    doc = f"Tensors of dtype {dtype!r}; {name}(2, 3) is uninitialised, {name}([1, 2]) holds data."
    return TypedTensorType(name, (_Typed,), {"dtype": dtype, "__module__": "ndgrad", "__doc__": doc})


#: Class name -> class.
CLASSES: dict[str, Any] = {name: _make(name, dtype) for name, dtype in _NAMES.items()}


def type_name(t: Any) -> str:
    """Return the result of `t.type()`."""
    dtype = dtypes.as_dtype(np_dtype(t))
    name = "BFloat16Tensor" if dtype is dtypes.bfloat16 else _NAME_OF[dtype]
    where = t.device.type
    return f"{package_name.package}.{name}" if where == "cpu" else f"{package_name.package}.{where}.{name}"


def type_of(wanted: Any) -> dtypes.dtype:
    """Return the dtype meant by `t.type(wanted)`: a typed class, its name, or a dtype."""
    if isinstance(wanted, TypedTensorType):
        return wanted.dtype
    if isinstance(wanted, str):
        library, _, name = wanted.rpartition(".")
        if name in _NAMES and library in ("", "ndgrad", "torch"):
            return _NAMES[name]
    try:
        return dtypes.as_dtype(wanted)
    except TypeError as error:
        raise ValueError(
            f"invalid type: {wanted!r}. Give a dtype or a name such as 'ndgrad.FloatTensor'. [nd-dtype]"
        ) from error


@set_module("ndgrad")
def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a typed class. Prefer `set_default_dtype`.

    Args:
        t: typed class such as `ndgrad.DoubleTensor`, or its name.

    >>> import ndgrad
    >>> before = ndgrad.get_default_dtype()
    >>> ndgrad.set_default_tensor_type(ndgrad.FloatTensor)
    >>> ndgrad.ones(1).dtype
    ndgrad.float32
    >>> ndgrad.set_default_dtype(before)
    """
    dtypes.set_default_dtype(type_of(t))
