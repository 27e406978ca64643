"""Data types, which are NumPy's own, and functions on them."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import finfo as limits_of
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad.numpy import inspection
from ndgrad.numpy.coercion import as_array, on_device

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Device, Dtype

__all__ = [
    "astype", "bool", "can_cast", "complex128", "complex64", "finfo", "float32", "float64", "iinfo", "int16", "int32",
    "int64", "int8", "isdtype", "result_type", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip

bool = np.bool
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float32, float64 = np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128

#: Kind -> the names of the standard's types of that kind.
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


def dtype_of(type: Any) -> np.dtype[Any]:
    """Return the dtype of a dtype or an array."""
    return (
        np_dtype(type) if isinstance(type, Variable) else type.dtype if isinstance(type, np.ndarray) else np.dtype(type)
    )


# ----- conversion -----------------------------------------------------------------------------------------------------


def astype(x: ArrayLike, dtype: Dtype, /, *, copy: builtins.bool = True, device: Device = None) -> Array:
    """Return the elements in another data type. Use `real` or `imag` to turn complex numbers into real ones.

    Args:
        x: array to convert.
        dtype: dtype of the result.
        copy: whether the result is a copy even if the dtype is already right.
        device: device of the result.

    Raises:
        TypeError: if complex numbers should become real.

    >>> import ndgrad.array_api as xp
    >>> xp.astype(xp.asarray([1.5, 2.5]), xp.int64)
    array([1, 2])
    """
    t = as_array(x)
    wanted = np.dtype(dtype)
    if np_dtype(t).kind == "c" and wanted.kind not in "cb":
        raise TypeError(
            f"astype(): {np_dtype(t)} cannot become {wanted}, since one part would be dropped. "
            "Say which: real(x) or imag(x). [nd-type]"
        )
    return on_device(t.astype(wanted, copy=copy), device)


# ----- questions ------------------------------------------------------------------------------------------------------


def can_cast(from_: ArrayLike | Dtype, to: Dtype, /) -> builtins.bool:
    """True if type promotion leads from one data type to the other.

    Args:
        from_: array or dtype.
        to: dtype.

    >>> import ndgrad.array_api as xp
    >>> xp.can_cast(xp.float32, xp.float64)
    True
    """
    return inspection.can_cast(from_, to)


def result_type(*arrays_and_dtypes: ArrayLike | Dtype) -> np.dtype[Any]:
    """The data type of an expression of arrays, data types and Python numbers, where Python numbers do not influence
    the kind.

    Args:
        *arrays_and_dtypes: arrays, dtypes and Python numbers, at least one.

    >>> import ndgrad.array_api as xp
    >>> xp.result_type(xp.asarray([1.0], dtype=xp.float32), 2.0)
    dtype('float32')
    """
    if not arrays_and_dtypes:
        raise ValueError("result_type(): no array and no data type was given. Give at least one. [nd-too-few]")
    return inspection.result_type(*arrays_and_dtypes)


def isdtype(dtype: Dtype, kind: Dtype | tuple[Dtype, ...]) -> builtins.bool:
    """True if a data type is one of the given types or of the given kinds.

    Args:
        dtype: dtype to test.
        kind: dtype, or one of the words `"bool"`, `"signed integer"`, `"unsigned integer"`, `"integral"`, `"real
            floating"`, `"complex floating"` and `"numeric"`, or a tuple of these.

    Raises:
        ValueError: if a word is no kind of dtypes.

    >>> import ndgrad.array_api as xp
    >>> xp.isdtype(xp.float64, "real floating")
    True
    """
    given = kind if isinstance(kind, tuple) else (kind,)
    return any(_is_of(np.dtype(dtype), k) for k in given)


#: NumPy's letters of the kinds. Half precision belongs to "real floating", as the standard allows.
_LETTERS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
            "complex floating": "c", "numeric": "iufc"}  # fmt: skip


def _is_of(dtype: np.dtype[Any], kind: Dtype) -> builtins.bool:
    if not isinstance(kind, str):
        return dtype == np.dtype(kind)
    if kind not in _LETTERS:
        raise ValueError(
            f"isdtype(): {kind!r} is no kind of data type. Choose from {', '.join(map(repr, _LETTERS))}. [nd-option]"
        )
    return ("f" if is_floating(dtype) else dtype.kind) in _LETTERS[kind]


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating-point type, as Python floats.

    >>> import ndgrad.array_api as xp
    >>> xp.finfo(xp.float32).bits
    32
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer type.

    >>> import ndgrad.array_api as xp
    >>> xp.iinfo(xp.uint8).min
    0
    """

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def finfo(type: ArrayLike | Dtype, /) -> FloatInfo:
    """The limits of a floating-point type; for a complex one, those of its parts.

    Args:
        type: array or dtype.

    >>> import ndgrad.array_api as xp
    >>> xp.finfo(xp.float64).eps
    2.220446049250313e-16
    """
    found = limits_of(dtype_of(type))
    limits = (float(found.eps), float(found.max), float(found.min), float(found.smallest_normal))
    return FloatInfo(int(found.bits), *limits, dtype=np.dtype(found.dtype))


def iinfo(type: ArrayLike | Dtype, /) -> IntegerInfo:
    """The limits of an integer type.

    Args:
        type: array or dtype.

    >>> import ndgrad.array_api as xp
    >>> xp.iinfo(xp.int8).max
    127
    """
    found = np.iinfo(dtype_of(type))
    return IntegerInfo(int(found.bits), int(found.max), int(found.min), np.dtype(found.dtype))
