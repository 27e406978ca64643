"""Questions about element types: is it a float, what are its limits, what is it computed in.

NumPy answers them for its own types only. bfloat16 comes from ml_dtypes and is to NumPy a type of kind "V": `kind ==
"f"`, `np.issubdtype(..., np.floating)`, `np.finfo` and `np.result_type` know nothing of it, and a Python float beside
it makes float32. So dtypes are asked about here. No other type of kind "V" ever gets into a tensor (`is_number` is what
the doors ask), which is why the letters below are enough where a call would cost too much.

Note [Half precision]
A kernel computes float16 and bfloat16 in float32, and rounds once, at the end; so does torch. A sum of many
halves would lose most of its digits otherwise, and a rule such as 1 - y * y all of them near 1. Three places see
to it, and formulas need not:
    the forward function of an op gets its halves as float32 (`in_single`), except where it moves values about, is a
        single ufunc, whose loops do the same, or says itself what it does (`halves=True` in its block);
    rules get everything that was saved, and the gradients or tangents, as float32 (`widened`);
    the engine, or the jvp, rounds what they return to the dtype of the value that it belongs to, after undoing
        broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: Kinds of dtype: floats, floats and complex numbers, everything that tensors hold.
FLOATING = "fV"
INEXACT = "fcV"
NUMBERS = "biufcV"
#: Codes of the floats of two bytes: float16, bfloat16.
HALF = "eE"

FLOAT32 = np.dtype(np.float32)
_NUMBERS = (bool, int, float, complex)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether tensors may hold the type: booleans, integers, floats and complex numbers; of the types that
    extend NumPy, bfloat16."""
    return (dtype.kind in "biufc" and dtype.isbuiltin != 2) or dtype.name == "bfloat16"


def is_floating(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in FLOATING


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Whether the type is floating or complex: whether a tensor of it can have a derivative."""
    return dtype.kind in INEXACT


def is_half(dtype: np.dtype[Any]) -> bool:
    return dtype.char in HALF


def computing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that a kernel computes in: float32 for halves, else the type itself."""
    return FLOAT32 if dtype.char in HALF else dtype


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the real part."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex type whose parts hold the type; complex64 for halves."""
    return np.result_type(computing_dtype(dtype), np.complex64)


def fits(have: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether values of one type may be written as another: NumPy's "same kind"."""
    if have.kind == "V" or want.kind == "V":
        return have.kind != "c" and (want.kind in INEXACT or have == want)
    return np.can_cast(have, want, "same_kind")


def finfo(dtype: Any) -> Any:
    """The limits of a floating-point type; of the parts, for a complex one."""
    dtype = np.dtype(dtype)
    if dtype.kind != "V":
        return np.finfo(dtype)
    import ml_dtypes  # there is such a dtype, so it is there

    return ml_dtypes.finfo(dtype)


def result_dtype(*operands: Any) -> np.dtype[Any]:
    """`np.result_type` of arrays, dtypes and Python numbers, which are weak beside bfloat16 too."""
    if not any(_is_bfloat16(o) for o in operands):
        return np.result_type(*operands)
    strong = [o for o in operands if not isinstance(o, _NUMBERS)]
    try:
        found = np.result_type(*strong)
    except TypeError:  # with wider integers or float16
        found = np.result_type(*(FLOAT32 if _is_bfloat16(o) else o for o in strong))
    return complex_dtype(found) if any(o.__class__ is complex for o in operands) else found


def _is_bfloat16(operand: Any) -> bool:
    dtype = operand if isinstance(operand, np.dtype) else getattr(operand, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "V"


# ----- computing in single precision: Note [Half precision] -----------------------------------------------------------


def half_of(arrays: Any, elementwise: bool) -> Any:
    """The dtype to which float32 results that were computed from `arrays` are rounded: that of the halves, if they
    are all of one type and promotion of the arrays would not give float32; else None. Integers take part in
    promotion if the op is elementwise; else they are indices. Of double precision a result in single did not come by
    promotion: it follows a half."""
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


def in_single(forward: Callable[..., Any], arrays: Any, settings: dict[str, Any], elementwise: bool = False) -> Any:
    """Run a forward function with halves as float32, and round what is float32 then."""
    target = None if settings.get("dtype") is not None else half_of(arrays, elementwise)
    out = forward(*[widened(a) for a in arrays], **settings)
    if isinstance(out, (tuple, list)):
        return type(out)([rounded(o, target) for o in out])
    return rounded(out, target)


def widened(a: Any) -> Any:
    """An array of halves as float32; anything else as it is."""
    dtype = getattr(a, "dtype", None)
    return a.astype(FLOAT32) if dtype is not None and dtype.char in HALF else a


def rounded(a: Any, dtype: Any) -> Any:
    """A float32 array as halves of type `dtype`; anything else, or without such a type, as it is."""
    return a.astype(dtype) if dtype is not None and a.dtype == FLOAT32 else a
