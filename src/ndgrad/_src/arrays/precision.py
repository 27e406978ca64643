"""Properties of dtypes: whether a dtype is floating, its limits, and the dtype in which it is computed.

NumPy answers such questions only for its own dtypes. bfloat16 comes from ml_dtypes and has the kind "V" in NumPy:
`kind == "f"`, `np.issubdtype(..., np.floating)`, `np.finfo` and `np.result_type` do not know it, and a Python float
combined with it gives float32. So all code uses this file. No other dtype of kind "V" ever gets into a tensor (entry
points check `is_number`), so the letters below suffice where a call would cost too much.

Note [Half precision]
A kernel computes float16 and bfloat16 in float32 and rounds once, at the end, as torch does. Otherwise a sum of many
halves would lose most of its digits, and a rule such as 1 - y * y all of them near 1. Three places implement this, so
that formulas need not:
  the forward function of an op gets its halves as float32 (`run_in_single`), unless it only moves values, is a single
      ufunc, whose loops do the same, or declares that it handles halves (`halves=True` in its block);
  rules get all saved values, and the gradients or tangents, as float32 (`widen`);
  the engine, or the jvp, rounds their results to the dtype of the value to which they belong, after undoing
      broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.arrays import library

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Kinds of dtypes: floats, floats and complex numbers, everything that tensors hold.
FLOATING = "fV"
INEXACT = "fcV"
NUMBERS = "biufcV"
#: Letters of the two-byte floats: float16, bfloat16.
HALF = "eE"

#: Names of the one-byte floats, and letters of all floats of less than four bytes.
FLOAT8 = frozenset(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"))
NARROW = HALF + "45GCW"

FLOAT32 = np.dtype(np.float32)
_NUMBERS = (bool, int, float, complex)


def is_number(dtype: np.dtype[Any]) -> bool:
    """True if tensors may hold the dtype: booleans, integers, floats, complex numbers, and bfloat16."""
    return (dtype.kind in "biufc" and dtype.isbuiltin != 2) or dtype.name == "bfloat16" or dtype.name in FLOAT8


def is_floating(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in FLOATING


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """True if the dtype is floating or complex, so that a tensor of it can have a derivative."""
    return dtype.kind in INEXACT


def is_half(dtype: np.dtype[Any]) -> bool:
    return dtype.char in HALF


def is_float8(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 1 and dtype.kind in FLOATING


def refuse_float8(dtype: np.dtype[Any]) -> NoReturn:
    """Refuse to compute with one-byte floats: they are stored, cast, compared and moved only."""
    raise NotImplementedError(
        f"the op is not implemented for '{dtype.name.capitalize()}'. Convert the tensor, x.float(), and cast the "
        "result. [nd-dtype]"
    )


def convert(array: Payload, dtype: np.dtype[Any]) -> Payload:
    """Return an array as another dtype. One-byte floats are rounded as in torch: float8_e4m3fn stays finite, and
    float8_e8m0fnu drops the sign.
    """
    if not is_float8(dtype) or not isinstance(array, (np.ndarray, np.generic)) or array.dtype == dtype:
        return array.astype(dtype)
    values = np.asarray(array).astype(FLOAT32)
    with np.errstate(all="ignore"):
        if dtype.name == "float8_e4m3fn":
            values = np.where(np.isnan(values), values, np.clip(values, -448, 448))
            return values.astype(dtype)
        if dtype.name == "float8_e8m0fnu":
            size = np.abs(values)
            return np.where(size == 0, np.float32(2.0**-127), size).astype(dtype)
        out = values.astype(dtype)
        if dtype.name == "float8_e5m2":
            out = np.where(np.isnan(values), np.uint8(127), out.view(np.uint8)).view(dtype)
    return out


def computing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which a kernel computes: float32 for halves, else the dtype itself."""
    if is_float8(dtype):
        refuse_float8(dtype)
    return FLOAT32 if dtype.char in HALF else dtype


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real part."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype whose parts hold the dtype; complex64 for halves."""
    return np.result_type(computing_dtype(dtype), np.complex64)


def fits(have: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """True if values of one dtype may be written as another (NumPy's "same kind")."""
    if have.kind == "V" or want.kind == "V":
        return have.kind != "c" and (want.kind in INEXACT or have == want)
    return np.can_cast(have, want, "same_kind")


def finfo(dtype: Any) -> Any:
    """Return the limits of a floating-point dtype; for a complex one, of its parts."""
    dtype = np.dtype(dtype)
    if dtype.kind != "V" and dtype.isbuiltin != 2:
        return np.finfo(dtype)
    import ml_dtypes  # installed, because the dtype exists

    return ml_dtypes.finfo(dtype)


def result_dtype(*operands: Any) -> np.dtype[Any]:
    """Return `np.result_type` of arrays, dtypes and Python numbers, which are weak for bfloat16 too."""
    if not any(_is_bfloat16(o) for o in operands):
        return np.result_type(*operands)
    strong = [o for o in operands if not isinstance(o, _NUMBERS)]
    try:
        found = np.result_type(*strong)
    except TypeError:  # bfloat16 with wider integers or float16
        found = np.result_type(*(FLOAT32 if _is_bfloat16(o) else o for o in strong))
    return complex_dtype(found) if any(o.__class__ is complex for o in operands) else found


def _is_bfloat16(operand: Payload) -> bool:
    dtype = operand if isinstance(operand, np.dtype) else getattr(operand, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "V"


# ----- computing in single precision: Note [Half precision] -----------------------------------------------------------


def half_of(arrays: Any, elementwise: bool) -> Any:
    """Return the dtype to which float32 results computed from `arrays` are rounded, or None.

    It is that of the halves, if they all have one dtype and promotion of the arrays would not give float32. Integers
    take part in promotion if the op is elementwise; otherwise they are indices. If there is double precision, a
    single-precision result did not come from promotion, so it follows a half.
    """
    found = None
    for a in arrays:
        dtype = getattr(a, "dtype", None)
        if dtype is None:
            continue
        if dtype.char in HALF:
            if found is not None and found != dtype:
                return None
            found = dtype
        elif dtype == FLOAT32 or (elementwise and dtype.kind in "iu" and dtype.itemsize == 2):
            return None
    return found


def has_half(arrays: Any) -> bool:
    for a in arrays:
        dtype = getattr(a, "dtype", None)
        if dtype is not None and dtype.char in HALF:
            return True
    return False


def has_narrow(arrays: Any) -> bool:
    """True if an array is of half precision, or of one-byte floats."""
    return any(getattr(getattr(a, "dtype", None), "char", " ") in NARROW for a in arrays)


def run_in_single(forward: Callable[..., Any], arrays: Any, settings: dict[str, Any], elementwise: bool = False) -> Any:
    """Run a forward function with halves as float32, and round its float32 results; one-byte floats are refused."""
    for a in arrays:
        dtype = getattr(a, "dtype", None)
        if dtype is not None and is_float8(dtype):
            refuse_float8(dtype)
    target = None if settings.get("dtype") is not None else half_of(arrays, elementwise)
    out = forward(*[widen(a) for a in arrays], **settings)
    if isinstance(out, (tuple, list)):
        return type(out)([round_to(o, target) for o in out])
    return round_to(out, target)


def run_moving(forward: Callable[..., Any], arrays: Any, settings: dict[str, Any], elementwise: bool = False) -> Any:
    """Same as `run_in_single` for an op that moves values: one-byte floats pass unchanged."""
    if any(getattr(a, "dtype", None) is not None and is_float8(a.dtype) for a in arrays):
        return forward(*arrays, **settings)
    return run_in_single(forward, arrays, settings, elementwise)


def widen(a: Payload) -> Payload:
    """Return an array of halves as float32; other values unchanged."""
    dtype = getattr(a, "dtype", None)
    return _cast(a, FLOAT32) if dtype is not None and dtype.char in HALF else a


def _cast(a: Payload, dtype: Any) -> Payload:
    """Return an array in another dtype, on a device by a kernel, which takes less time than CuPy's method."""
    if library.device_cast is None or not library.is_on_device(a):
        return a.astype(dtype)
    return library.device_cast(a, dtype)


def round_to(a: Payload, dtype: Any) -> Payload:
    """Return a float32 array as halves of type `dtype`. Other values, or all values if `dtype` is None, stay
    unchanged.
    """
    return _cast(a, dtype) if dtype is not None and a.dtype == FLOAT32 else a
