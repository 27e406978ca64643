"""Making Arrays, with NumPy's signatures. What is made here is differentiable memory: `u = zeros(n); u[i] = f(x)` keeps the graph.

Numbers become Arrays. Strings, dates, records and objects have no derivatives, so for them NumPy's own array is made.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ndgrad.arrays.precision import is_floating, is_inexact, is_number
from ndgrad.autograd.layout import is_view_of
from ndgrad.autograd.lent import Lent
from ndgrad.autograd.stake import at_stake
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.numpy._array import reshaped, to_array
from ndgrad.numpy.coercion import (
    as_array,
    as_arrays,
    broadcast,
    checked,
    constant,
    holds_tensors,
    inexact,
    moved,
    operands,
    plain,
    with_dtype,
)
from ndgrad.numpy.elementwise import i0
from ndgrad.numpy.grids import indices
from ndgrad.ops import arithmetic, join
from ndgrad.ops import shape as shape_ops
from ndgrad.storage import sample_of, shared_storage

__all__ = [
    "arange", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "bartlett", "blackman",
    "empty", "empty_like", "eye", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromregex", "fromstring",
    "full", "full_like", "genfromtxt", "geomspace", "hamming", "hanning", "identity", "kaiser", "linspace", "load", "loadtxt",
    "logspace", "ones", "ones_like", "require", "tri", "zeros", "zeros_like",
]  # fmt: skip


def _made(values: Any) -> Any:
    """A new NumPy array as an Array, if it holds numbers."""
    return constant(values) if is_number(values.dtype) else values


# ----- from data ---------------------------------------------------------------------------------------------------------


def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = "K", subok: bool = False, ndmin: int = 0, ndmax: int = 0
) -> Any:
    """An Array of numbers, of nested sequences of numbers, or of nested sequences that hold tensors, whose graph is kept.

    >>> import ndgrad.numpy as np
    >>> x = np.array(2.0).requires_grad_()
    >>> y = np.array([x, x * x, 1.0])
    >>> y.sum().backward()
    >>> x.grad
    array(5.)
    """
    if isinstance(object, Variable):
        made = to_array(object).astype(np_dtype(object) if dtype is None else dtype, order, copy=copy is True)
        if isinstance(made, np.ndarray):  # objects or text
            return made if made.ndim >= ndmin else made.reshape((1,) * (ndmin - made.ndim) + made.shape)
        if copy is False and not is_view_of(made, object):
            raise _unable(object, dtype)
    elif isinstance(object, (list, tuple)) and holds_tensors(object):
        made = with_dtype(as_array(object), dtype)
    else:
        made = _from_plain(object, dtype, copy, order)
    while made.ndim < ndmin:
        made = made[None]
    return made


def _unable(object: Any, dtype: Any) -> ValueError:
    return ValueError(f"Unable to avoid copy while creating an array of {dtype} from {np_dtype(object)} as requested (copy=False).")


def _from_plain(object: Any, dtype: Any, copy: bool | None, order: Any) -> Any:
    if isinstance(object, np.ndarray):
        if is_number(object.dtype):
            object = checked(object)
        elif object.dtype.kind == "O" and dtype is None and any(isinstance(item, Variable) for item in object.flat):
            checked(object)
    elif _shares_memory(object):
        object = np.asarray(object)
    made = np.array(object, dtype=dtype, copy=copy, order=order)
    if isinstance(object, np.ndarray) and is_number(made.dtype) and np.may_share_memory(made, object):
        t = constant(made)
        t._storage = shared_storage(object, Lent)
        return t
    return _made(made if made.dtype.isnative else made.astype(made.dtype.newbyteorder("=")))


def _shares_memory(object: Any) -> bool:
    return isinstance(object, memoryview)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None) -> Any:
    """As `array`, without a copy where none is needed."""
    return array(a, dtype, copy=copy, order=order or "K")


def asanyarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None) -> Any:
    return asarray(a, dtype, order, copy=copy)


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    t = asarray(a, dtype, "C")
    return reshaped(t, (1,)) if t.ndim == 0 else t


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    t = asarray(a, dtype, "F")
    return reshaped(t, (1,)) if t.ndim == 0 else t


def require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    wanted = {str(r).upper()[0] for r in ([requirements] if isinstance(requirements, str) else requirements or [])}
    t = asfortranarray(a, dtype) if "F" in wanted else ascontiguousarray(a, dtype) if "C" in wanted else asarray(a, dtype)
    if isinstance(t, Variable) and (
        ("W" in wanted and not np.asarray(plain(t)).flags.writeable) or ("O" in wanted and np.asarray(plain(t)).base is not None)
    ):
        return t.copy("A")
    return t


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    t = asarray(a, dtype, order)
    if is_inexact(np.dtype(t.dtype)) and not np.isfinite(plain(t)).all():
        raise ValueError("array must not contain infs or NaNs")
    return t


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An Array over the memory of another library's array."""
    from ndgrad.api.dlpack import from_dlpack as tensor_from_dlpack

    return to_array(tensor_from_dlpack(x, device=device, copy=copy))


def _by_numpy(name: str) -> Any:
    """A function that reads data from elsewhere: NumPy's, with an Array as result."""
    theirs = getattr(np, name)

    def function(*args: Any, **options: Any) -> Any:
        return as_arrays(theirs(*args, **options))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name}, with an Array as its result."
    return function


frombuffer, fromfile, fromregex, fromstring = (_by_numpy(n) for n in ("frombuffer", "fromfile", "fromregex", "fromstring"))
genfromtxt, load, loadtxt = (_by_numpy(n) for n in ("genfromtxt", "load", "loadtxt"))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Any:
    """A line of what an iterator gives; tensors keep their graph."""
    items = [item for _, item in zip(range(count), iter)] if count >= 0 else list(iter)
    if len(items) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
    return array(items, dtype) if items else zeros(0, dtype)


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    return function(*indices(shape, dtype), **kwargs)


# ----- constants -------------------------------------------------------------------------------------------------------------


def zeros(shape: Any, dtype: Any = float, order: Any = "C", *, device: Any = None) -> Any:
    return _made(np.zeros(_shape(shape), dtype, order))


def ones(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    return _made(np.ones(_shape(shape), dtype, order))


def empty(shape: Any, dtype: Any = float, order: Any = "C", *, device: Any = None) -> Any:
    return _made(np.empty(_shape(shape), dtype, order))


def _shape(shape: Any) -> Any:
    """Sizes may be 0-d Arrays, which count as ints."""
    if isinstance(shape, Variable):
        return operator.index(shape) if shape.ndim == 0 else tuple(shape.tolist())
    return tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else shape


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    """An Array filled with one value, whose graph is kept."""
    if isinstance(fill_value, Variable) or (isinstance(fill_value, (list, tuple)) and holds_tensors(fill_value)):
        value = as_array(fill_value)
        made = empty(shape, np_dtype(value) if dtype is None else dtype, order)
        made[...] = value
        return made
    return _made(np.full(_shape(shape), fill_value, dtype, order))


def _pattern(a: Any) -> Any:
    """An array of NumPy's with the shape, the dtype and the memory order of an argument."""
    return sample_of(a) if isinstance(a, Variable) else plain(a)


def zeros_like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return _made(np.zeros_like(_pattern(a), dtype, order, False, _shape(shape)))


def ones_like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return _made(np.ones_like(_pattern(a), dtype, order, False, _shape(shape)))


def empty_like(prototype: Any, /, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    return _made(np.empty_like(_pattern(prototype), dtype, order, False, _shape(shape)))


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    made = empty_like(a, dtype, order, shape=shape)
    made[...] = fill_value
    return made


def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: Any = "C", *, device: Any = None) -> Any:
    return constant(np.eye(operator.index(N), None if M is None else operator.index(M), k, dtype, order))


def identity(n: Any, dtype: Any = None) -> Any:
    return constant(np.identity(operator.index(n), dtype))


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Any:
    return constant(np.tri(operator.index(N), None if M is None else operator.index(M), k, dtype))


# ----- ranges ------------------------------------------------------------------------------------------------------------------


def arange(*args: Any, dtype: Any = None, device: Any = None, **named: Any) -> Any:
    """Evenly spaced numbers; differentiable in the start and in the step."""
    given = [named.get(name, default) for name, default in (("start", 0), ("stop", None), ("step", 1))]
    if len(args) == 1 and given[1] is None:
        given[1] = args[0]
    else:
        given[: len(args)] = args
    start, stop, step = given  # type: Any, Any, Any
    if stop is None:
        start, stop = 0, start
    if not any(isinstance(v, Variable) for v in given):
        return _made(np.arange(start, stop, step, dtype=dtype))
    values = np.arange(*plain((start, stop, step)), dtype=dtype)
    if not at_stake(start, step):
        return constant(values)
    return with_dtype(start + step * constant(np.arange(len(values))), values.dtype)


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Evenly spaced numbers between two ends, in which they are differentiable."""
    count = operator.index(num)
    if not isinstance(start, Variable) and not isinstance(stop, Variable):
        made = np.linspace(start, stop, count, endpoint, retstep, dtype, axis)  # type: ignore[call-overload]  # the stubs want a literal retstep
        return (constant(made[0]), made[1]) if retstep else constant(made)
    if count < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    first, last = (inexact(t) for t in operands(start, stop))
    shape = np.broadcast_shapes(first.shape, last.shape)
    intervals = count - 1 if endpoint else count
    step = (last - first) / max(intervals, 1)
    steps = constant(np.arange(count, dtype=float).reshape((count, *(1,) * len(shape))))
    made = broadcast(first + steps * step, (count, *shape))
    if endpoint and count > 1:
        made = join.cat(made[:-1], broadcast(last, (1, *shape)) if last.ndim else shape_ops.reshape(last, shape=(1,)), dim=0)
    if dtype is not None and np.dtype(dtype).kind in "iu":
        made = np.floor(made)
    made = with_dtype(made, dtype)
    if axis not in (0, -made.ndim):
        made = moved(made, 0, axis)
    return (made, step if intervals > 0 else constant(np.asarray(np.nan))) if retstep else made


def logspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    """Powers of a base with evenly spaced exponents; differentiable in the ends and in the base."""
    if not any(isinstance(v, Variable) for v in (start, stop, base)):
        return constant(np.logspace(start, stop, num, endpoint, base, dtype, axis))
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    bottom = as_array(base)
    bottom = shape_ops.reshape(bottom, shape=(*bottom.shape[:axis], 1, *bottom.shape[axis:])) if bottom.ndim else bottom
    return with_dtype(arithmetic.pow(inexact(bottom), exponents), dtype)


def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Numbers whose neighbours have one ratio; differentiable in the ends."""
    if not any(isinstance(v, Variable) for v in (start, stop)):
        return constant(np.geomspace(start, stop, num, endpoint, dtype, axis))
    first, last = (inexact(t) for t in operands(start, stop))
    if (np.asarray(plain(first)) == 0).any() or (np.asarray(plain(last)) == 0).any():
        raise ValueError("Geometric sequence cannot include zero")
    sign = 1.0
    if is_floating(np_dtype(first)):
        negative = (np.asarray(plain(first)) < 0) & (np.asarray(plain(last)) < 0)
        if not negative.any() and ((np.asarray(plain(first)) < 0) | (np.asarray(plain(last)) < 0)).any():
            raise ValueError("geomspace() between numbers of different signs goes through the complex plane. Make the ends complex.")
        sign = constant(np.where(negative, -1.0, 1.0)) if negative.any() else 1.0
    made = np.exp(linspace(np.log(first * sign), np.log(last * sign), num, endpoint, axis=axis)) * sign
    return with_dtype(made, dtype)


# ----- windows -------------------------------------------------------------------------------------------------------------------


def bartlett(M: int) -> Any:
    return constant(np.bartlett(M))


def blackman(M: int) -> Any:
    return constant(np.blackman(M))


def hamming(M: int) -> Any:
    return constant(np.hamming(M))


def hanning(M: int) -> Any:
    return constant(np.hanning(M))


def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window; differentiable in beta."""
    if not isinstance(beta, Variable):
        return constant(np.kaiser(M, beta))

    if M <= 1:
        return ones(max(M, 0)) + 0.0 * to_array(beta)
    # one minus a square, so that the ends, where the root has no slope, are exactly zero and are put in as such
    middle = (M - 1) / 2.0
    root = np.sqrt(np.clip(1.0 - ((np.arange(M) - middle) / middle) ** 2, 0.0, None))
    return i0(to_array(beta) * constant(root)) / i0(to_array(beta))
