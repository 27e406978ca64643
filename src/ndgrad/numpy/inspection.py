"""Questions about arrays, and arrays as text and files: answers that no gradient belongs to.

NumPy gives them itself, from the plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.arrays.precision import result_dtype
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.numpy.coercion import as_arrays, plain

__all__ = [
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str", "can_cast", "common_type",
    "iscomplexobj", "isfortran", "isrealobj", "may_share_memory", "min_scalar_type", "ndim", "packbits", "result_type", "save",
    "savetxt", "savez", "savez_compressed", "shape", "shares_memory", "size", "unpackbits",
]  # fmt: skip


def _asked(name: str) -> Callable[..., Any]:
    """NumPy's function on plain values; arrays in its answer become Arrays."""
    theirs = getattr(np, name)

    def function(*args: Any, **options: Any) -> Any:
        return as_arrays(theirs(*plain(args), **plain(options)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} of the values."
    return function


allclose, array_equal, array_equiv = _asked("allclose"), _asked("array_equal"), _asked("array_equiv")
array2string, array_repr, array_str = _asked("array2string"), _asked("array_repr"), _asked("array_str")
isfortran, may_share_memory, shares_memory = _asked("isfortran"), _asked("may_share_memory"), _asked("shares_memory")
packbits, unpackbits = _asked("packbits"), _asked("unpackbits")
save, savetxt, savez, savez_compressed = (_asked(n) for n in ("save", "savetxt", "savez", "savez_compressed"))


# ----- shapes and dtypes, which do not need values (inside vmap there are none) ---------------------------------------------


def shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape) if isinstance(a, Variable) else np.shape(plain(a))


def ndim(a: Any) -> int:
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    return int(np.size(np.broadcast_to(np.empty((), bool), shape(a)), axis))


def _typed(x: Any) -> Any:
    return np_dtype(x) if isinstance(x, Variable) else x


def result_type(*arrays_and_dtypes: Any) -> Any:
    return result_dtype(*(_typed(x) for x in arrays_and_dtypes))


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_typed(from_), to, casting)


def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(0, np_dtype(a)) if isinstance(a, Variable) else a for a in arrays))


def min_scalar_type(a: Any, /) -> Any:
    return np.min_scalar_type(plain(a)) if ndim(a) == 0 else _typed(a)


def iscomplexobj(x: Any) -> bool:
    return np_dtype(x).kind == "c" if isinstance(x, Variable) else np.iscomplexobj(x)


def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)
