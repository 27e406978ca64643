"""Inspection of arrays, and arrays as text and files: results without gradients.

NumPy computes them from the plain values. A traced function has no values; there ops compute some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ndgrad._src.arrays.precision import result_dtype
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations import docstrings
from ndgrad._src.ops import comparison, reduce
from ndgrad._src.tensor.storage import is_open
from ndgrad.numpy.coercion import as_array, as_arrays, constant, plain, values_of
from ndgrad.numpy.elementwise import isclose

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Dtype

__all__ = [
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str", "can_cast", "common_type",
    "iscomplexobj", "isfortran", "isrealobj", "may_share_memory", "min_scalar_type", "ndim", "packbits", "result_type",
    "save", "savetxt", "savez", "savez_compressed", "shape", "shares_memory", "size", "unpackbits",
]  # fmt: skip


R = TypeVar("R")


#: Descriptions of the parameters of NumPy's functions, some of which only some versions take.
_PARAMETERS = {
    "a": "array of numbers.",
    "a1": "first array.",
    "a2": "second array.",
    "allow_pickle": "whether arrays of objects may be pickled.",
    "args": "arrays, which get the names `arr_0`, `arr_1` and so on.",
    "arr": "array of numbers.",
    "atol": "absolute tolerance.",
    "b": "second array, to which the relative tolerance refers.",
    "comments": "text in front of the header and of the footer.",
    "delimiter": "text between columns.",
    "edgeitems": "number of elements shown at each end of an axis that is cut short.",
    "encoding": "encoding of the file.",
    "equal_nan": "whether NaN equals NaN.",
    "file": "path or open file. NumPy appends the suffix to a path without one.",
    "fix_imports": "accepted by versions of NumPy that name modules of Python 2 in pickles.",
    "floatmode": 'use of `precision`: `"fixed"`, `"unique"`, `"maxprec"` or `"maxprec_equal"`.',
    "fmt": "format of a number, or of each column, as for the operator `%`.",
    "fname": "path or open file. The suffix `.gz` compresses the file.",
    "footer": "text behind the numbers.",
    "formatter": "dict from kinds of dtypes to functions that format one element.",
    "header": "text in front of the numbers.",
    "kwds": "arrays, which get the names of the keywords.",
    "legacy": "version of NumPy whose format is printed.",
    "max_line_width": "number of characters at which lines are broken. None means NumPy's print option.",
    "newline": "text between lines.",
    "precision": "number of decimals. None means NumPy's print option.",
    "prefix": "text in front of the result, whose length counts for the first line.",
    "rtol": "relative tolerance.",
    "separator": "text between elements.",
    "sign": 'sign of positive numbers: `"-"` for none, `"+"`, or `" "`.',
    "suffix": "text behind the result, whose length counts for the last line.",
    "suppress_small": "whether numbers close to zero are printed as zero. None means NumPy's print option.",
    "threshold": "number of elements above which the middle of each axis is left out.",
    "X": "line or matrix.",
}


def _wrap_inspection(
    name: str, result: type[R], sentence: str, example: str, by_ops: Callable[..., Any] | None = None
) -> Callable[..., R]:
    """Return NumPy's function on plain values; arrays in its result become Arrays. `by_ops` is used if values are
    unknown.

    The signature is NumPy's own, so the function must be one that NumPy writes in Python.
    """
    theirs = getattr(np, name)

    def function(*args: Any, **options: Any) -> Any:
        if by_ops is not None and any(map(is_open, (*args, *options.values()))):
            return by_ops(*args, **options)
        return as_arrays(theirs(*plain(args), **plain(options)))

    function.__name__ = function.__qualname__ = name
    # Functions accept attributes.
    function.__signature__ = signature(theirs).replace(return_annotation=result)  # type: ignore[attr-defined]
    described = {p: _PARAMETERS.get(p, "as in NumPy's function.") for p in signature(theirs).parameters}
    function.__doc__ = docstrings.compose(sentence, described, f">>> import ndgrad.numpy as np\n{example}")
    return function


def _all(answers: Array) -> bool:
    return bool(reduce.all(answers, dim=tuple(range(answers.ndim)), keepdim=False))


def _all_close(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return _all(isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    x, y = as_array(a1), as_array(a2)
    if tuple(x.shape) != tuple(y.shape):
        return False
    same = comparison.eq(x, y)
    return _all(comparison.logical_or(same, comparison.logical_and(x != x, y != y)) if equal_nan else same)


def _equivalent(a1: Any, a2: Any) -> bool:
    x, y = as_array(a1), as_array(a2)
    try:
        np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    except ValueError:
        return False
    return _all(comparison.eq(x, y))


allclose = _wrap_inspection(
    "allclose",
    bool,
    "True if two arrays are equal within `atol + rtol * abs(b)`.",
    ">>> np.allclose(np.array([1.0]), [1.0 + 1e-9])\nTrue",
    _all_close,
)
array_equal = _wrap_inspection(
    "array_equal",
    bool,
    "True if two arrays have one shape and equal elements.",
    ">>> np.array_equal(np.array([1, 2]), [1, 2])\nTrue",
    _equal,
)
array_equiv = _wrap_inspection(
    "array_equiv",
    bool,
    "True if two arrays are equal after broadcasting.",
    ">>> np.array_equiv(np.array([1, 1]), 1)\nTrue",
    _equivalent,
)
array2string = _wrap_inspection(
    "array2string",
    str,
    "The elements as text, with NumPy's options.",
    ">>> np.array2string(np.array([1.0, 2.0]), precision=1)\n'[1. 2.]'",
)
array_repr = _wrap_inspection(
    "array_repr",
    str,
    "The text of `repr`, with NumPy's options.",
    ">>> np.array_repr(np.array([1, 2]))\n'array([1, 2])'",
)
array_str = _wrap_inspection(
    "array_str", str, "The text of `print`, with NumPy's options.", ">>> np.array_str(np.array([1, 2]))\n'[1 2]'"
)
isfortran = _wrap_inspection(
    "isfortran",
    bool,
    "True if an array lies in memory in Fortran order and not in C order.",
    ">>> np.isfortran(np.ones((2, 3)).T)\nTrue",
)
save = _wrap_inspection(
    "save", NoneType, "Write an array into a file of NumPy's format.",
    '>>> np.save("x.npy", np.arange(2))\n>>> np.load("x.npy")\narray([0, 1])',
)  # fmt: skip
savetxt = _wrap_inspection(
    "savetxt", NoneType, "Write an array into a text file.",
    '>>> np.savetxt("x.txt", np.arange(2))\n>>> np.loadtxt("x.txt")\narray([0., 1.])',
)  # fmt: skip
savez = _wrap_inspection(
    "savez", NoneType, "Write several arrays into one file of NumPy's format.",
    '>>> np.savez("x.npz", a=np.arange(2))\n>>> np.load("x.npz")["a"]\narray([0, 1])',
)  # fmt: skip
savez_compressed = _wrap_inspection(
    "savez_compressed", NoneType, "Write several arrays into one compressed file of NumPy's format.",
    '>>> np.savez_compressed("x.npz", a=np.arange(2))\n>>> np.load("x.npz")["a"]\narray([0, 1])',
)  # fmt: skip


# NumPy implements the next two in C, without a signature before version 2.4. They have their own here.
def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: int = 0) -> bool:
    """True if the memory of two arrays may overlap; by default only its bounds are compared.

    Args:
        a, b: arrays to compare.
        max_work: effort of the exact answer, as in NumPy. 0 compares only the bounds of the memory.

    >>> import ndgrad.numpy as np
    >>> x = np.arange(4)
    >>> np.may_share_memory(x[::2], x[1::2])
    True
    """
    return np.may_share_memory(plain(a), plain(b), max_work)  # type: ignore[arg-type]  # the stubs want a literal


def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: int = -1) -> bool:
    """True if two arrays have an element in common.

    Args:
        a, b: arrays to compare.
        max_work: number of steps after which NumPy gives up with an error. -1 means no limit.

    >>> import ndgrad.numpy as np
    >>> x = np.arange(4)
    >>> np.shares_memory(x[::2], x[1::2])
    False
    """
    return np.shares_memory(plain(a), plain(b), max_work)  # type: ignore[arg-type]  # the stubs want a literal


def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: Literal["big", "little"] = "big") -> Array:
    """Pack booleans into the bits of bytes.

    Args:
        a: array of integers or bool. Numbers other than 0 count as 1.
        axis: axis along which eight elements become one byte. None packs the flattened array.
        bitorder: `"big"` if the first element is the highest bit, `"little"` if it is the lowest.

    >>> import ndgrad.numpy as np
    >>> np.packbits(np.array([True, False, True]))
    array([160], dtype=uint8)
    """
    return constant(np.packbits(values_of(a), axis, bitorder))


def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: Literal["big", "little"] = "big"
) -> Array:
    """The bits of bytes.

    Args:
        a: array of dtype uint8.
        axis: axis along which a byte becomes eight elements. None unpacks the flattened array.
        count: number of elements of the result along the axis, as in NumPy. None means all.
        bitorder: `"big"` if the highest bit comes first, `"little"` if the lowest one does.

    >>> import ndgrad.numpy as np
    >>> np.unpackbits(np.array([160], np.uint8))
    array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)
    """
    return constant(np.unpackbits(values_of(a), axis, count, bitorder))


# ----- shapes and dtypes, which do not need values (inside vmap there are none) ---------------------------------------


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The number of elements along each axis.

    Args:
        a: array, or nested sequences of numbers.

    >>> import ndgrad.numpy as np
    >>> np.shape(np.zeros((2, 3)))
    (2, 3)
    """
    return tuple(a.shape) if isinstance(a, Variable) else np.shape(plain(a))


def ndim(a: ArrayLike) -> int:
    """The number of axes.

    Args:
        a: array, or nested sequences of numbers.

    >>> import ndgrad.numpy as np
    >>> np.ndim(np.zeros((2, 3)))
    2
    """
    return len(shape(a))


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, in total or along axes.

    Args:
        a: array, or nested sequences of numbers.
        axis: axis or axes whose elements are counted. None means all.

    >>> import ndgrad.numpy as np
    >>> np.size(np.zeros((2, 3)), 1)
    3
    """
    return int(np.size(np.broadcast_to(np.empty((), bool), shape(a)), axis))


def _as_dtype(x: Any) -> Any:
    return np_dtype(x) if isinstance(x, Variable) else x


def result_type(*arrays_and_dtypes: ArrayLike | Dtype) -> np.dtype[Any]:
    """The dtype that NumPy's promotion gives arrays, dtypes and numbers together.

    Args:
        *arrays_and_dtypes: arrays, dtypes and numbers.

    >>> import ndgrad.numpy as np
    >>> np.result_type(np.zeros(1, np.float32), np.int8)
    dtype('float32')
    """
    return result_dtype(*(_as_dtype(x) for x in arrays_and_dtypes))


def can_cast(from_: ArrayLike | Dtype, to: Dtype, casting: str = "safe") -> bool:
    """True if a dtype can be cast to another one under a casting rule.

    Args:
        from_: dtype or array.
        to: dtype.
        casting: rule that limits conversions of the dtype: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.

    >>> import ndgrad.numpy as np
    >>> np.can_cast(np.float64, np.float32)
    False
    """
    return np.can_cast(_as_dtype(from_), to, casting)  # type: ignore[arg-type]  # the stubs want a literal


def common_type(*arrays: ArrayLike) -> type[Any]:
    """The floating-point type that arrays have in common.

    Args:
        *arrays: arrays of numbers.

    >>> import ndgrad.numpy as np
    >>> np.common_type(np.zeros(1, np.float32), np.arange(2))
    <class 'numpy.float64'>
    """
    return np.common_type(*(np.empty(0, np_dtype(a)) if isinstance(a, Variable) else a for a in arrays))


def min_scalar_type(a: ArrayLike, /) -> np.dtype[Any]:
    """The smallest dtype that holds a number; for an array its dtype.

    Args:
        a: number or array.

    >>> import ndgrad.numpy as np
    >>> np.min_scalar_type(300)
    dtype('uint16')
    """
    return np.min_scalar_type(plain(a)) if ndim(a) == 0 else _as_dtype(a)


def iscomplexobj(x: ArrayLike) -> bool:
    """True if an array has a complex dtype, for any values.

    Args:
        x: array or number.

    >>> import ndgrad.numpy as np
    >>> np.iscomplexobj(np.array([1.0 + 0.0j]))
    True
    """
    return np_dtype(x).kind == "c" if isinstance(x, Variable) else np.iscomplexobj(x)


def isrealobj(x: ArrayLike) -> bool:
    """True if an array has a real dtype.

    Args:
        x: array or number.

    >>> import ndgrad.numpy as np
    >>> np.isrealobj(np.array([1.0]))
    True
    """
    return not iscomplexobj(x)
