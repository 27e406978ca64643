"""Creation of Arrays, with NumPy's signatures. New Arrays are differentiable memory: `u = zeros(n); u[i] = f(x)` keeps
the graph.

Numbers become Arrays. Strings, dates, records and objects have no derivatives, so for them the functions return NumPy's
own arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ndgrad._src.arrays.precision import is_floating, is_inexact, is_number
from ndgrad._src.core.borrowed_memory import Lent
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.layout import is_view_of
from ndgrad._src.core.plain_arrays import check_plain
from ndgrad._src.core.variable import Variable, meta_of, np_dtype
from ndgrad._src.foundations import docstrings
from ndgrad._src.ops import arithmetic, exponential, join, rounding
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.storage import sample_of, shared_storage
from ndgrad.numpy._array import as_no_numbers, reshape_as_numpy, to_array
from ndgrad.numpy.coercion import (
    as_array,
    as_arrays,
    broadcast,
    constant,
    holds_tensors,
    inexact,
    move_axis,
    on_device,
    operands,
    plain,
    with_dtype,
)
from ndgrad.numpy.elementwise import i0
from ndgrad.numpy.grids import indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Device, Dtype, Shape
    from ndgrad.numpy._array import Array

__all__ = [
    "arange", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "bartlett",
    "blackman", "empty", "empty_like", "eye", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter",
    "fromregex", "fromstring", "full", "full_like", "genfromtxt", "geomspace", "hamming", "hanning", "identity",
    "kaiser", "linspace", "load", "loadtxt", "logspace", "ones", "ones_like", "require", "tri", "zeros", "zeros_like",
]  # fmt: skip


#: NumPy without its stubs, which require literals and accept fewer kinds of arguments.
numpy: Any = np

R = TypeVar("R")


def _as_new_array(values: NDArray[Any], device: Device = None) -> Any:
    """Return a new NumPy array as an Array, if it holds numbers."""
    return on_device(_as_array_index(constant(values)), device) if is_number(values.dtype) else values


def _as_array_index(t: Array) -> Array:
    """Mark a 0-d Array of one integer as created by the user. Computed ones are scalars, as in NumPy."""
    if not t.ndim and np_dtype(t).kind in "iu":
        meta_of(t).indexes_as_array = True
    return t


# ----- from data ------------------------------------------------------------------------------------------------------


def array(
    object: ArrayLike, dtype: Dtype = None, *, copy: bool | None = True, order: str = "K", subok: bool = False,
    ndmin: int = 0, ndmax: int = 0,
) -> Array:  # fmt: skip
    """Create an Array from numbers, nested sequences of numbers, or nested sequences that contain tensors, whose graph
    is kept.

    Args:
        object: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None takes the one that NumPy infers from the values.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.
        ndmin: smallest number of dimensions. Missing ones are added in front, with size 1.
        ndmax: accepted only as 0, because larger values ask NumPy for arrays of objects.

    Raises:
        NotImplementedError: if `ndmax` is not 0.

    >>> import ndgrad.numpy as np
    >>> x = np.array(2.0).requires_grad_()
    >>> y = np.array([x, x * x, 1.0])
    >>> y.sum().backward()
    >>> x.grad
    array(5.)
    """
    if ndmax:
        raise NotImplementedError(
            f"array(): ndmax={ndmax} makes arrays of objects, which have no derivative. Leave it out. [nd-unsupported]"
        )
    if isinstance(object, Variable):
        made = to_array(object).astype(np_dtype(object) if dtype is None else dtype, order, copy=copy is True)
        if isinstance(made, np.ndarray):  # objects or text
            return made if made.ndim >= ndmin else made.reshape((1,) * (ndmin - made.ndim) + made.shape)
        if copy is False and not is_view_of(made, object):
            raise _unable(object, dtype)
    elif isinstance(object, (list, tuple)) and holds_tensors(object):
        if dtype is not None and np.dtype(dtype).kind == "O":
            return _objects(object)
        made = with_dtype(as_array(object), dtype)
    else:
        made = _convert_plain(object, dtype, copy, order)
    while made.ndim < ndmin:
        made = made[None]
    return made


def _objects(items: Any) -> Any:
    """Return nested sequences as an array of objects, in which Arrays keep their history: their elements if all parts
    have one shape, else the parts themselves.
    """
    parts = [
        _objects(item) if isinstance(item, (list, tuple)) else as_no_numbers(to_array(item), np.dtype("O"))
        if isinstance(item, Variable) and item.ndim else item
        for item in items
    ]  # fmt: skip
    shapes = {np.shape(part) if isinstance(part, np.ndarray) else () for part in parts}
    same = len(shapes) == 1
    made = np.empty((len(parts), *(next(iter(shapes)) if same else ())), "O")
    for i, (part, item) in enumerate(zip(parts, items, strict=True)):
        made[i] = part if same else item
    return made


def _unable(object: Variable, dtype: Dtype) -> ValueError:
    return ValueError(
        f"Unable to avoid copy while creating an array of {dtype} from {np_dtype(object)} as requested (copy=False). "
        "[nd-copy]"
    )


def _convert_plain(object: Any, dtype: Dtype, copy: bool | None, order: str | None) -> Array:
    if isinstance(object, np.ndarray):
        if is_number(object.dtype):
            object = check_plain(object)
        elif object.dtype.kind == "O" and dtype is None and any(isinstance(item, Variable) for item in object.flat):
            check_plain(object)
    elif _shares_memory(object):
        object = np.asarray(object)
    try:
        made = numpy.array(object, dtype=dtype, copy=copy, order=order)
    except ValueError:
        # An object whose `__array__` returns an Array.
        inner = object.__array__() if hasattr(type(object), "__array__") else None
        if not isinstance(inner, Variable):
            raise
        return array(inner, dtype, copy=copy, order=order or "K")
    if isinstance(object, np.ndarray) and is_number(made.dtype) and np.may_share_memory(made, object):
        t = constant(made)
        t._storage = shared_storage(object, Lent)
        return _as_array_index(t)
    return _as_new_array(made if made.dtype.isnative else made.astype(made.dtype.newbyteorder("=")))


def _shares_memory(object: object) -> bool:
    return isinstance(object, memoryview)


def asarray(
    a: ArrayLike, dtype: Dtype = None, order: str | None = None, *, device: Device = None, copy: bool | None = None
) -> Array:
    """Return the data as an Array, over the same memory if no copy is needed.

    Args:
        a: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        device: device of the result.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

    >>> import ndgrad.numpy as np
    >>> np.asarray([1.0, 2.0])
    array([1., 2.])
    """
    made = array(a, dtype, copy=copy, order=order or "K")
    return made if device is None else on_device(made, device)


def asanyarray(
    a: ArrayLike, dtype: Dtype = None, order: str | None = None, *, device: Device = None, copy: bool | None = None
) -> Array:
    """Same as `asarray`. NumPy's function keeps subclasses of ndarray, this one returns an Array.

    Args:
        a: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        device: device of the result.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

    >>> import ndgrad.numpy as np
    >>> np.asanyarray([1, 2])
    array([1, 2])
    """
    return asarray(a, dtype, order, device=device, copy=copy)


def ascontiguousarray(a: ArrayLike, dtype: Dtype = None) -> Array:
    """Return an Array of at least one dimension in C order.

    Args:
        a: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.

    >>> import ndgrad.numpy as np
    >>> np.ascontiguousarray(np.zeros((3, 2)).T).strides
    (24, 8)
    """
    t = asarray(a, dtype, "C")
    return reshape_as_numpy(t, (1,)) if t.ndim == 0 else t


def asfortranarray(a: ArrayLike, dtype: Dtype = None) -> Array:
    """Return an Array of at least one dimension in Fortran order.

    Args:
        a: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.

    >>> import ndgrad.numpy as np
    >>> np.asfortranarray(np.zeros((3, 2))).strides
    (8, 24)
    """
    t = asarray(a, dtype, "F")
    return reshape_as_numpy(t, (1,)) if t.ndim == 0 else t


def require(a: ArrayLike, dtype: Dtype = None, requirements: str | Sequence[str] | None = None) -> Array:
    """Return an Array with a dtype and a memory layout.

    Args:
        a: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.
        requirements: one word or several: `"C"` or `"F"` for the memory order, `"A"` (aligned, which holds always),
            `"W"` (writable) and `"O"` (owner of its memory).

    >>> import ndgrad.numpy as np
    >>> np.require([1, 2], float, "C")
    array([1., 2.])
    """
    wanted = {str(r).upper()[0] for r in ([requirements] if isinstance(requirements, str) else requirements or [])}
    t = (
        asfortranarray(a, dtype)
        if "F" in wanted
        else ascontiguousarray(a, dtype)
        if "C" in wanted
        else asarray(a, dtype)
    )
    if isinstance(t, Variable) and (
        ("W" in wanted and not np.asarray(plain(t)).flags.writeable)
        or ("O" in wanted and np.asarray(plain(t)).base is not None)
    ):
        return t.copy("A")
    return t


def asarray_chkfinite(a: ArrayLike, dtype: Dtype = None, order: str | None = None) -> Array:
    """Same as `asarray`; raise ValueError if an element is NaN or infinite.

    Args:
        a: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).

    >>> import ndgrad.numpy as np
    >>> np.asarray_chkfinite([1.0, 2.0])
    array([1., 2.])
    """
    t = asarray(a, dtype, order)
    if is_inexact(np.dtype(t.dtype)) and not np.isfinite(plain(t)).all():
        raise ValueError("array must not contain infs or NaNs [nd-values]")
    return t


def from_dlpack(x: object, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """An Array over the memory of another library's array.

    Args:
        x: array of any library with `__dlpack__`.
        device: device of the result.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

    >>> import ndgrad.numpy as np
    >>> np.from_dlpack(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    # rarely needed
    from ndgrad._src.tensor.functions.dlpack import from_dlpack as tensor_from_dlpack

    return to_array(tensor_from_dlpack(x, device=device, copy=copy))


def _wrap_reader(name: str, sentence: str, example: str, parameters: dict[str, str]) -> Callable[..., Array]:
    """Return NumPy's function that reads external data, with an Array as result. `parameters` describes those that most
    calls give."""
    theirs = getattr(np, name)

    def function(*args: Any, **options: Any) -> Any:
        return as_arrays(theirs(*args, **options))

    function.__name__ = function.__qualname__ = name
    described = {**parameters, "args, options": "arguments of NumPy's function, by position or by name."}
    function.__doc__ = docstrings.compose(sentence, described, f">>> import ndgrad.numpy as np\n{example}")
    return function


_PATH, _DTYPE = "path or open file.", "dtype of the result. A structured one gives NumPy's own array."
_TABLE = {
    "fname": "path, open file, or iterable of lines.",
    "dtype": _DTYPE,
    "comments": "text with which comments start.",
    "delimiter": "text between columns. None means whitespace.",
}
_FILE = '>>> open("x.txt", "w").write("1 2")\n3\n'
frombuffer = _wrap_reader(
    "frombuffer",
    "An Array over the bytes of a buffer.",
    ">>> np.frombuffer(bytes([1, 2]), np.uint8)\narray([1, 2], dtype=uint8)",
    {
        "buffer": "object with the buffer protocol. The result shares its memory.",
        "dtype": _DTYPE,
        "count": "number of elements to read. -1 reads all.",
        "offset": "number of bytes to skip.",
    },
)
fromfile = _wrap_reader(
    "fromfile",
    "An Array of the numbers in a file, as bytes or as text.",
    _FILE + '>>> np.fromfile("x.txt", sep=" ")\narray([1., 2.])',
    {
        "file": _PATH,
        "dtype": _DTYPE,
        "count": "number of elements to read. -1 reads all.",
        "sep": "text between numbers. The empty string means binary data.",
        "offset": "number of bytes of a binary file to skip.",
    },
)
fromregex = _wrap_reader(
    "fromregex",
    "The groups of a pattern in a text file: records, which are NumPy's own array.",
    _FILE + """>>> np.fromregex("x.txt", r"(\\d) (\\d)", [("a", int), ("b", int)])["b"]\narray([2])""",
    {
        "file": _PATH,
        "regexp": "regular expression with a group for each field.",
        "dtype": "structured dtype.",
        "encoding": "encoding of the file.",
    },
)
fromstring = _wrap_reader(
    "fromstring",
    "An Array of the numbers in a text.",
    '>>> np.fromstring("1 2", sep=" ")\narray([1., 2.])',
    {
        "string": "text with the numbers.",
        "dtype": _DTYPE,
        "count": "number of elements to read. -1 reads all.",
        "sep": "text between numbers.",
    },
)
genfromtxt = _wrap_reader(
    "genfromtxt",
    "An Array of a table in a text file, in which values may be missing.",
    _FILE + '>>> np.genfromtxt("x.txt")\narray([1., 2.])',
    {
        **_TABLE,
        "skip_header": "number of lines to skip.",
        "usecols": "columns to read. None reads all.",
        "filling_values": "values in place of missing ones. None means NaN.",
    },
)
load = _wrap_reader(
    "load",
    "The content of a file of NumPy's format, as an Array. A file of several arrays is NumPy's own object.",
    '>>> np.save("x.npy", np.arange(2))\n>>> np.load("x.npy")\narray([0, 1])',
    {
        "file": _PATH,
        "mmap_mode": 'mode in which the file becomes the memory of the array, such as `"r"`. None reads it.',
        "allow_pickle": "whether objects may be unpickled, which can run any code.",
    },
)
loadtxt = _wrap_reader(
    "loadtxt",
    "An Array of a table in a text file.",
    _FILE + '>>> np.loadtxt("x.txt")\narray([1., 2.])',
    {**_TABLE, "skiprows": "number of lines to skip.", "usecols": "columns to read. None reads all."},
)


def fromiter(iter: Iterable[ArrayLike], dtype: Dtype, count: int = -1) -> Array:
    """Return a one-dimensional Array of the items of an iterator; tensors keep their graph.

    Args:
        iter: iterable of numbers, or of arrays of one shape.
        dtype: dtype of the result.
        count: number of items to read. -1 reads all.

    Raises:
        ValueError: if the iterable has fewer than `count` items.

    >>> import ndgrad.numpy as np
    >>> np.fromiter((i * i for i in range(4)), float)
    array([0., 1., 4., 9.])
    """
    items: list[Any] = [item for _, item in zip(range(count), iter)] if count >= 0 else list(iter)
    if len(items) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items. [nd-data]")
    return array(items, dtype) if items else zeros(0, dtype)


def fromfunction(function: Callable[..., R], shape: Shape, *, dtype: Dtype = float, **kwargs: Any) -> R:
    """Call a function with the coordinates of a grid.

    Args:
        function: function of one array of coordinates for each axis.
        shape: shape of the grid.
        dtype: dtype of the coordinates.
        **kwargs: keyword arguments passed on to `function`.

    Returns:
        The result of the one call of `function`, unchanged.

    >>> import ndgrad.numpy as np
    >>> np.fromfunction(lambda i, j: 10 * i + j, (2, 2))
    array([[ 0.,  1.],
           [10., 11.]])
    """
    return function(*indices(shape if isinstance(shape, Sequence) else (shape,), dtype), **kwargs)


# ----- constants ------------------------------------------------------------------------------------------------------


def zeros(shape: Shape, dtype: Dtype = float, order: str = "C", *, device: Device = None) -> Array:
    """An Array of zeros, into which differentiable values can be written.

    Args:
        shape: shape of the result, or a length.
        dtype: dtype of the result.
        order: memory order of the result: `"C"` or `"F"`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> x = np.array(3.0).requires_grad_()
    >>> u = np.zeros(2)
    >>> u[1] = x * x
    >>> u.sum().backward()
    >>> x.grad
    array(6.)
    """
    return _as_new_array(numpy.zeros(_shape(shape), dtype, order), device)


def ones(shape: Shape, dtype: Dtype = None, order: str = "C", *, device: Device = None) -> Array:
    """An Array of ones.

    Args:
        shape: shape of the result, or a length.
        dtype: dtype of the result. None means float64.
        order: memory order of the result: `"C"` or `"F"`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.ones((2, 2))
    array([[1., 1.],
           [1., 1.]])
    """
    return _as_new_array(numpy.ones(_shape(shape), dtype, order), device)


def empty(shape: Shape, dtype: Dtype = float, order: str = "C", *, device: Device = None) -> Array:
    """An Array with uninitialised memory.

    Args:
        shape: shape of the result, or a length.
        dtype: dtype of the result.
        order: memory order of the result: `"C"` or `"F"`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.empty((2, 3)).shape
    (2, 3)
    """
    return _as_new_array(numpy.empty(_shape(shape), dtype, order), device)


def _shape(shape: Any) -> Any:
    """Return sizes as ints; 0-d Arrays count as ints."""
    if isinstance(shape, Variable):
        return operator.index(shape) if shape.ndim == 0 else tuple(shape.tolist())
    return tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else shape


def full(shape: Shape, fill_value: ArrayLike, dtype: Dtype = None, order: str = "C", *, device: Device = None) -> Array:
    """An Array filled with one value, whose graph is kept.

    Args:
        shape: shape of the result, or a length.
        fill_value: value of every element, or an array that broadcasts to the shape.
        dtype: dtype of the result. None takes that of `fill_value`.
        order: memory order of the result: `"C"` or `"F"`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.full(3, 7.0)
    array([7., 7., 7.])
    """
    if isinstance(fill_value, Variable) or (isinstance(fill_value, (list, tuple)) and holds_tensors(fill_value)):
        value = as_array(fill_value)
        made = empty(shape, np_dtype(value) if dtype is None else dtype, order)
        made[...] = value
        return on_device(made, device)
    return _as_new_array(numpy.full(_shape(shape), fill_value, dtype, order), device)


def _pattern(a: ArrayLike) -> Any:
    """An array of NumPy's with the shape, the dtype and the memory order of an argument."""
    return sample_of(a) if isinstance(a, Variable) else plain(a)


def zeros_like(
    a: ArrayLike, dtype: Dtype = None, order: str = "K", subok: bool = True, shape: Shape | None = None, *,
    device: Device = None,
) -> Array:  # fmt: skip
    """Zeros with the shape, the dtype and the memory order of an array.

    Args:
        a: array whose shape, dtype and memory order are taken.
        dtype: dtype of the result. None takes that of `a`.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.
        shape: shape of the result. None takes that of `a`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.zeros_like(np.array([1, 2]))
    array([0, 0])
    """
    return _as_new_array(numpy.zeros_like(_pattern(a), dtype, order, False, _shape(shape)), device)


def ones_like(
    a: ArrayLike, dtype: Dtype = None, order: str = "K", subok: bool = True, shape: Shape | None = None, *,
    device: Device = None,
) -> Array:  # fmt: skip
    """Ones with the shape, the dtype and the memory order of an array.

    Args:
        a: array whose shape, dtype and memory order are taken.
        dtype: dtype of the result. None takes that of `a`.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.
        shape: shape of the result. None takes that of `a`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.ones_like(np.array([1.5, 2.5]))
    array([1., 1.])
    """
    return _as_new_array(numpy.ones_like(_pattern(a), dtype, order, False, _shape(shape)), device)


def empty_like(
    prototype: ArrayLike, /, dtype: Dtype = None, order: str = "K", subok: bool = True, shape: Shape | None = None, *,
    device: Device = None,
) -> Array:  # fmt: skip
    """An Array like another one, with uninitialised memory.

    Args:
        prototype: array whose shape, dtype and memory order are taken.
        dtype: dtype of the result. None takes that of `prototype`.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.
        shape: shape of the result. None takes that of `prototype`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.empty_like(np.ones((2, 3))).shape
    (2, 3)
    """
    return _as_new_array(numpy.empty_like(_pattern(prototype), dtype, order, False, _shape(shape)), device)


def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: Dtype = None, order: str = "K", subok: bool = True,
    shape: Shape | None = None, *, device: Device = None,
) -> Array:  # fmt: skip
    """An Array like another one, filled with one value, whose graph is kept.

    Args:
        a: array whose shape, dtype and memory order are taken.
        fill_value: value of every element, or an array that broadcasts to the shape.
        dtype: dtype of the result. None takes that of `a`.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.
        shape: shape of the result. None takes that of `a`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.full_like(np.array([1, 2]), 5)
    array([5, 5])
    """
    made = empty_like(a, dtype, order, shape=shape)
    made[...] = fill_value
    return on_device(made, device)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Dtype = float, order: str = "C", *, device: Device = None
) -> Array:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N: number of rows.
        M: number of columns. None means as many as rows.
        k: number of the diagonal with ones: 0 for the main one, positive above it, negative below it.
        dtype: dtype of the result.
        order: memory order of the result: `"C"` or `"F"`.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.eye(2, 3, k=1)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    return _as_new_array(
        numpy.eye(operator.index(N), None if M is None else operator.index(M), k, dtype, order), device
    )


def identity(n: int, dtype: Dtype = None) -> Array:
    """The identity matrix.

    Args:
        n: number of rows and columns.
        dtype: dtype of the result. None means float64.

    >>> import ndgrad.numpy as np
    >>> np.identity(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return constant(np.identity(operator.index(n), dtype))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Dtype = float) -> Array:
    """Ones on and below a diagonal, zeros above it.

    Args:
        N: number of rows.
        M: number of columns. None means as many as rows.
        k: number of the last diagonal with ones: 0 for the main one, positive above it, negative below it.
        dtype: dtype of the result.

    >>> import ndgrad.numpy as np
    >>> np.tri(2, 3)
    array([[1., 0., 0.],
           [1., 1., 0.]])
    """
    return constant(np.tri(operator.index(N), None if M is None else operator.index(M), k, dtype))


# ----- ranges ---------------------------------------------------------------------------------------------------------


def arange(*args: ArrayLike, dtype: Dtype = None, device: Device = None, **named: ArrayLike) -> Array:
    """Evenly spaced numbers, excluding the stop; differentiable in the start and in the step.

    Args:
        *args: `stop`, or `start, stop`, or `start, stop, step`, as in NumPy.
        dtype: dtype of the result. None takes the common one of the arguments.
        device: device of the result.
        **named: `start`, `stop` and `step` by name. The defaults of `start` and `step` are 0 and 1.

    >>> import ndgrad.numpy as np
    >>> np.arange(1, 7, 2)
    array([1, 3, 5])
    """
    given = [named.get(name, default) for name, default in (("start", 0), ("stop", None), ("step", 1))]
    if len(args) == 1 and given[1] is None:
        given[1] = args[0]
    else:
        given[: len(args)] = args
    start, stop, step = given  # type: Any, Any, Any
    if stop is None:
        start, stop = 0, start
    if not any(isinstance(v, Variable) for v in given):
        return _as_new_array(np.arange(start, stop, step, dtype=dtype), device)
    values = np.arange(*plain((start, stop, step)), dtype=dtype)
    if not at_stake(start, step):
        return _as_new_array(values, device)
    return on_device(with_dtype(start + step * constant(np.arange(len(values))), values.dtype), device)


@overload
def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: Literal[False] = False,
    dtype: Dtype = None, axis: int = 0, *, device: Device = None,
) -> Array: ...  # fmt: skip
@overload
def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, *, retstep: Literal[True],
    dtype: Dtype = None, axis: int = 0, device: Device = None,
) -> tuple[Array, Array]: ...  # fmt: skip
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Dtype = None,
    axis: int = 0,
    *,
    device: Device = None,
) -> Any:
    """Evenly spaced numbers between two ends, differentiable in both.

    Args:
        start: first value, or an array of first values.
        stop: last value, or the end that is left out if `endpoint` is False.
        num: number of values.
        endpoint: whether `stop` is the last value.
        retstep: whether the distance of neighbours is returned, too.
        dtype: dtype of the result. None means floating point. Integers are rounded down.
        axis: axis of the result along which the values lie, if the ends are arrays.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.linspace(0.0, 1.0, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    count = operator.index(num)
    if not isinstance(start, Variable) and not isinstance(stop, Variable):
        # The stubs require a literal retstep.
        made = np.linspace(start, stop, count, endpoint, retstep, dtype, axis)  # type: ignore[call-overload]
        return (_as_new_array(made[0], device), made[1]) if retstep else _as_new_array(made, device)
    if count < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative. [nd-range]")
    first, last = (inexact(t) for t in operands(start, stop))
    shape = np.broadcast_shapes(first.shape, last.shape)
    intervals = count - 1 if endpoint else count
    step = (last - first) / max(intervals, 1)
    steps = constant(np.arange(count, dtype=float).reshape((count, *(1,) * len(shape))))
    made = broadcast(first + steps * step, (count, *shape))
    if endpoint and count > 1:
        made = join.cat(
            made[:-1], broadcast(last, (1, *shape)) if last.ndim else shape_ops.reshape(last, shape=(1,)), dim=0
        )
    if dtype is not None and np.dtype(dtype).kind in "iu":
        made = rounding.floor(made)
    made = on_device(with_dtype(made, dtype), device)
    if axis not in (0, -made.ndim):
        made = move_axis(made, 0, axis)
    return (made, step if intervals > 0 else constant(np.asarray(np.nan))) if retstep else made


def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: Dtype = None, axis: int = 0,
) -> Array:  # fmt: skip
    """Powers of a base with evenly spaced exponents; differentiable in the ends and in the base.

    Args:
        start: exponent of the first value.
        stop: exponent of the last value, or the end that is left out if `endpoint` is False.
        num: number of values.
        endpoint: whether `base ** stop` is the last value.
        base: base of the powers.
        dtype: dtype of the result. None means floating point.
        axis: axis of the result along which the values lie, if the ends are arrays.

    >>> import ndgrad.numpy as np
    >>> np.logspace(0, 2, 3)
    array([  1.,  10., 100.])
    """
    if not any(isinstance(v, Variable) for v in (start, stop, base)):
        return constant(numpy.logspace(start, stop, num, endpoint, base, dtype, axis))
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    bottom = as_array(base)
    bottom = shape_ops.reshape(bottom, shape=(*bottom.shape[:axis], 1, *bottom.shape[axis:])) if bottom.ndim else bottom
    return with_dtype(arithmetic.pow(inexact(bottom), exponents), dtype)


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: Dtype = None, axis: int = 0
) -> Array:
    """Numbers with a constant ratio between neighbours; differentiable in the ends.

    Args:
        start: first value, not 0.
        stop: last value, not 0, or the end that is left out if `endpoint` is False.
        num: number of values.
        endpoint: whether `stop` is the last value.
        dtype: dtype of the result. None means floating point.
        axis: axis of the result along which the values lie, if the ends are arrays.

    Raises:
        ValueError: if an end is 0, or if real ends that are tensors have different signs.

    >>> import ndgrad.numpy as np
    >>> np.geomspace(1.0, 8.0, 4)
    array([1., 2., 4., 8.])
    """
    if not any(isinstance(v, Variable) for v in (start, stop)):
        return constant(numpy.geomspace(start, stop, num, endpoint, dtype, axis))
    first, last = (inexact(t) for t in operands(start, stop))
    if (np.asarray(plain(first)) == 0).any() or (np.asarray(plain(last)) == 0).any():
        raise ValueError("Geometric sequence cannot include zero [nd-values]")
    sign: float | Array = 1.0
    if is_floating(np_dtype(first)):
        negative = (np.asarray(plain(first)) < 0) & (np.asarray(plain(last)) < 0)
        if not negative.any() and ((np.asarray(plain(first)) < 0) | (np.asarray(plain(last)) < 0)).any():
            raise ValueError(
                "geomspace() between numbers of different signs goes through the complex plane. Make the ends complex. "
                "[nd-complex]"
            )
        sign = constant(np.where(negative, -1.0, 1.0)) if negative.any() else 1.0
    made = (
        exponential.exp(linspace(exponential.log(first * sign), exponential.log(last * sign), num, endpoint, axis=axis))
        * sign
    )
    return with_dtype(made, dtype)


# ----- windows --------------------------------------------------------------------------------------------------------


def bartlett(M: int) -> Array:
    """The Bartlett window: a triangle with zeros at its ends.

    Args:
        M: number of points. A number below 1 gives an empty window.

    >>> import ndgrad.numpy as np
    >>> np.bartlett(5)
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return constant(np.bartlett(M))


def blackman(M: int) -> Array:
    """The Blackman window.

    Args:
        M: number of points. A number below 1 gives an empty window.

    >>> import ndgrad.numpy as np
    >>> np.blackman(5).round(2) + 0.0
    array([0.  , 0.34, 1.  , 0.34, 0.  ])
    """
    return constant(np.blackman(M))


def hamming(M: int) -> Array:
    """The Hamming window.

    Args:
        M: number of points. A number below 1 gives an empty window.

    >>> import ndgrad.numpy as np
    >>> np.hamming(5).round(2)
    array([0.08, 0.54, 1.  , 0.54, 0.08])
    """
    return constant(np.hamming(M))


def hanning(M: int) -> Array:
    """The Hann window.

    Args:
        M: number of points. A number below 1 gives an empty window.

    >>> import ndgrad.numpy as np
    >>> np.hanning(5)
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return constant(np.hanning(M))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window; differentiable in beta.

    Args:
        M: number of points. A number below 1 gives an empty window.
        beta: shape of the window. Larger values make it narrower; 0 gives a rectangle.

    >>> import ndgrad.numpy as np
    >>> np.kaiser(3, 0.0)
    array([1., 1., 1.])
    """
    if not isinstance(beta, Variable):
        return constant(numpy.kaiser(M, beta))

    if M <= 1:
        return ones(max(M, 0)) + 0.0 * to_array(beta)
    # This is one minus a square. At the ends the root has no slope, so exact zeros are inserted there.
    middle = (M - 1) / 2.0
    root = np.sqrt(np.clip(1.0 - ((np.arange(M) - middle) / middle) ** 2, 0.0, None))
    return i0(to_array(beta) * constant(root)) / i0(to_array(beta))
