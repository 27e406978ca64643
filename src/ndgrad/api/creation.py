"""Factories: tensors of a given shape and content.

Every factory takes dtype, device, layout and requires_grad, and `out=` where torch's does. Two things are decided in one
place for all of them: the default dtype, and what is noted on a tensor that is made in inference mode or inside a
transform (`fresh`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad import devices, dtypes
from ndgrad._tensor import Tensor
from ndgrad.api.arguments import as_shape
from ndgrad.api.data import fresh, place
from ndgrad.api.tensor_checks import channels_last_order
from ndgrad.arrays.addresses import window
from ndgrad.arrays.placement import CPU, library_for, moved
from ndgrad.autograd.call_watchers import FACTORY, watched
from ndgrad.autograd.inplace import copy_into
from ndgrad.autograd.modes import process, thread
from ndgrad.autograd.saved import lift
from ndgrad.autograd.stake import as_number, at_stake
from ndgrad.autograd.variable import Variable, meta_of, np_dtype, wrap
from ndgrad.storage import batch_dims, memory_of

__all__ = [
    "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full", "full_like", "linspace", "logspace",
    "ones", "ones_like", "range", "zeros", "zeros_like",
]  # fmt: skip
METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")

_builtin_range = range


def shape_of(size: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, ...]:
    """The shape that a factory was asked for: separate ints, one sequence, or size=."""
    if "size" in options:
        if size:
            raise TypeError(f"the shape was given twice, as {size} and as size={options['size']}. Give it once.")
        size = (options.pop("size"),)
    elif not size:
        raise TypeError('missing the argument "size". Give sizes, or () for a tensor without dimensions.')
    shape = as_shape(size)
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}. Sizes are non-negative.")
    return shape


def directly() -> bool:
    """Whether a factory without options may make its array and be done: the default device is the CPU, no mode is active."""
    return not process.busy and devices.get_default_device() is CPU


class Options:
    """The keyword arguments that all factories share, read and checked."""

    __slots__ = ("device", "dtype", "face", "out", "requires_grad")

    def __init__(self, name: str, given: dict[str, Any], like: Any = None) -> None:
        self.face = Tensor if like is None else like.face
        self.out = given.pop("out", None)
        dtype = given.pop("dtype", None)
        if dtype is None and self.out is not None:
            dtype = self.out.dtype
        self.dtype = dtypes.as_numpy_dtype(dtype) if dtype is not None else None if like is None else np_dtype(like)
        device = given.pop("device", None)
        self.device = place(device) if device is not None or like is None else like.device
        self.requires_grad = given.pop("requires_grad", False)
        layout = given.pop("layout", None)
        if layout not in (None, devices.strided):
            raise RuntimeError(f"{name}() was asked for the layout {layout!r}, and makes dense tensors. Leave layout out.")
        for ignored in ("pin_memory", "names"):
            given.pop(ignored, None)
        if given:
            raise TypeError(
                f"{name}() got an unexpected keyword argument {min(given)!r}. It takes dtype, device, layout, requires_grad "
                "and, "
                "where torch's does, out."
            )

    def tensor(self, name: str, array: Any) -> Any:
        """The result over `array`, which lies on the CPU or on the wanted device already."""
        if process.busy and thread.watchers:
            return watched(FACTORY, name, None, (), lambda: self._tensor(name, array))
        return self._tensor(name, array)

    def _tensor(self, name: str, array: Any) -> Any:
        array = moved(array, self.device)
        if thread.observers:
            from ndgrad.autograd.op_observers import observed_factory  # loaded once there is an observer

            array = observed_factory(name, array)
        made = fresh(array, self.requires_grad, self.face)
        return made if self.out is None else copy_into(name, self.out, made)

    def filled(self, name: str, shape: tuple[int, ...], value: Any, default: np.dtype[Any] | None = None) -> Any:
        """A tensor full of one value; None leaves the memory as it is."""
        if process.busy and thread.watchers:
            return watched(FACTORY, name, None, (), lambda: self._filled(name, shape, value, default))
        return self._filled(name, shape, value, default)

    def _filled(self, name: str, shape: tuple[int, ...], value: Any, default: np.dtype[Any] | None) -> Any:
        dtype = self.dtype or default or dtypes.get_default_dtype().numpy
        library = library_for(self.device)
        if value is None:
            array = library.empty(shape, dtype)
        elif value is False:
            array = library.zeros(shape, dtype)
        else:
            array = library.full(shape, value, dtype)
        return self._tensor(name, array)


# ----- one value everywhere ------------------------------------------------------------------------------------------


def zeros(*size: Any, **options: Any) -> Any:
    """A tensor of zeros: zeros(2, 3), zeros((2, 3))."""
    shape = shape_of(size, options)
    if not options and directly():
        return wrap(Tensor, np.zeros(shape, dtypes.get_default_dtype().numpy))
    return Options("zeros", options).filled("zeros", shape, False)


def ones(*size: Any, **options: Any) -> Any:
    """A tensor of ones."""
    shape = shape_of(size, options)
    if not options and directly():
        return wrap(Tensor, np.ones(shape, dtypes.get_default_dtype().numpy))
    return Options("ones", options).filled("ones", shape, 1)


def empty(*size: Any, memory_format: Any = None, **options: Any) -> Any:
    """A tensor whose values are whatever the memory held."""
    shape = shape_of(size, options)
    given = Options("empty", options)
    if memory_format in (None, devices.contiguous_format):
        return given.filled("empty", shape, None)
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("empty", _ordered_empty(shape, dtype, _order(memory_format, len(shape)), given.device))


def full(size: Any, fill_value: Any, **options: Any) -> Any:
    """A tensor full of one value, whose type decides the dtype."""
    shape = shape_of((size,), options)
    value, default = _number(fill_value)
    return Options("full", options).filled("full", shape, _as_full(value), default)


def _number(value: Any) -> tuple[Any, np.dtype[Any]]:
    """A number (or the element of a 0-d tensor) and the dtype it stands for."""
    if isinstance(value, Variable):
        return as_number("full", "fill_value", value), np_dtype(value)
    if isinstance(value, np.generic) and not isinstance(value, (float, complex)):
        return value.item(), value.dtype
    if not isinstance(value, (bool, int, float, complex)) and not hasattr(value, "item"):
        raise TypeError(f"the fill value must be a number, and is {value!r} ({type(value).__name__}). Pass a number or a tensor "
            "of one element.")
    return value, dtypes.result_type(value if type(value) in (bool, int, float, complex) else value.item()).numpy


def _as_full(value: Any) -> Any:
    return value if value else False  # zeros come cheaper


# ----- like another --------------------------------------------------------------------------------------------------


def _like(name: str, t: Any, value: Any, memory_format: Any, options: dict[str, Any]) -> Any:
    array = t._array
    if not options and not process.busy and memory_format is None and array.__class__ is np.ndarray and array.flags.c_contiguous:
        if value is None:
            return wrap(t.face, np.empty(array.shape, array.dtype))
        return wrap(t.face, np.full(array.shape, value, array.dtype) if value else np.zeros(array.shape, array.dtype))
    given = Options(name, options, like=t)
    shape = tuple(t.shape)
    if batch_dims(t):
        return _each_sample(t, lambda like, batch: _like(name, like, value, None, {"dtype": given.dtype}))
    if memory_format in (None, devices.preserve_format):
        order = _memory_order(memory_of(t))
    else:
        order = _order(memory_format, len(shape))
    if order == tuple(_builtin_range(len(shape))):
        return given.filled(name, shape, value)
    array = _ordered_empty(shape, given.dtype, order, given.device)
    if value is not None:
        array[...] = value
    return given.tensor(name, array)


def _each_sample(t: Any, make: Callable[[Any, tuple[int, ...]], Any]) -> Any:
    """What `make(like, batch)` makes for each sample of a batched tensor, so that each may be written.

    The levels are gone down one by one; a vmap adds its batch in front of the shape, a grad level only wraps.
    """
    from ndgrad.func.batching import batch_tensor  # loaded once a transform is open
    from ndgrad.func.levels import below, find_level, level_number  # loaded once a transform is open

    if thread.captures is not None:
        t = thread.captures.one(t)
    level = find_level(level_number(t))
    with below(level):
        inner = make(lift(t._array, t.face), () if level.size is None else (level.size,))
    made = inner if level.kind != "vmap" else batch_tensor(level, inner)
    meta_of(made).born = thread.levels[-1].number
    return made


def _memory_order(array: Any) -> tuple[int, ...]:
    """The dimensions, outermost in memory first; the natural order where expanded ones leave it open."""
    natural = tuple(_builtin_range(array.ndim))
    if array.flags.c_contiguous or not isinstance(array, np.ndarray):
        return natural
    if any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape)):
        return natural
    return tuple(sorted(natural, key=lambda d: (-abs(array.strides[d]), d)))


def _order(memory_format: Any, ndim: int) -> tuple[int, ...]:
    order = channels_last_order(memory_format, ndim)
    if order is None:
        raise RuntimeError(
            f"required rank 4 tensor to use channels_last format (5 for channels_last_3d), and got {ndim} dimensions."
        )
    return order


def _ordered_empty(shape: tuple[int, ...], dtype: Any, order: tuple[int, ...], where: devices.device) -> Any:
    library = library_for(where)
    back = sorted(_builtin_range(len(order)), key=order.__getitem__)
    return library.empty(tuple(shape[d] for d in order), dtype).transpose(back)


def zeros_like(input: Any, *, memory_format: Any = None, **options: Any) -> Any:
    """Zeros with the shape, dtype and device of another tensor."""
    return _like("zeros_like", input, 0, memory_format, options)


def ones_like(input: Any, *, memory_format: Any = None, **options: Any) -> Any:
    """Ones with the shape, dtype and device of another tensor."""
    return _like("ones_like", input, 1, memory_format, options)


def empty_like(input: Any, *, memory_format: Any = None, **options: Any) -> Any:
    """Uninitialised memory with the shape, dtype and device of another tensor."""
    return _like("empty_like", input, None, memory_format, options)


def full_like(input: Any, fill_value: Any, *, memory_format: Any = None, **options: Any) -> Any:
    """One value everywhere, with the shape, dtype and device of another tensor."""
    return _like("full_like", input, _number(fill_value)[0], memory_format, options)


def _new(name: str, t: Any, size: tuple[Any, ...], value: Any, options: dict[str, Any]) -> Any:
    shape = shape_of(size, options)
    given = Options(name, options, like=t)
    if batch_dims(t):
        return _each_sample(t, lambda like, batch: _new(name, like, ((*batch, *shape),), value, {"dtype": given.dtype}))
    return given.filled(name, shape, value)


def new_zeros(self: Any, *size: Any, **options: Any) -> Any:
    """Zeros with this tensor's dtype and device."""
    return _new("new_zeros", self, size, 0, options)


def new_ones(self: Any, *size: Any, **options: Any) -> Any:
    """Ones with this tensor's dtype and device."""
    return _new("new_ones", self, size, 1, options)


def new_empty(self: Any, *size: Any, **options: Any) -> Any:
    """Uninitialised memory with this tensor's dtype and device."""
    return _new("new_empty", self, size, None, options)


def new_full(self: Any, size: Any, fill_value: Any, **options: Any) -> Any:
    """One value everywhere, with this tensor's dtype and device."""
    return _new("new_full", self, (size,), _number(fill_value)[0], options)


def new_empty_strided(self: Any, size: Any, stride: Any, **options: Any) -> Any:
    """Uninitialised memory with given strides, and this tensor's dtype and device."""
    size, stride = as_shape((size,)), as_shape((stride,))
    if batch_dims(self):
        step = _extent(size, stride)
        return _each_sample(
            self, lambda like, batch: new_empty_strided(like, (*batch, *size), (*(step for _ in batch), *stride), **options)
        )
    return _strided("new_empty_strided", size, stride, Options("new_empty_strided", options, like=self))


# ----- given strides ---------------------------------------------------------------------------------------------------


def empty_strided(size: Any, stride: Any, **options: Any) -> Any:
    """Uninitialised memory seen with given strides, which count elements."""
    return _strided("empty_strided", size, stride, Options("empty_strided", options))


def _extent(size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """How many elements lie between the first and the last, both included."""
    return 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))


def _strided(name: str, size: Any, stride: Any, given: Options) -> Any:
    size, stride = as_shape((size,)), as_shape((stride,))
    if len(size) != len(stride) or any(n < 0 for n in (*size, *stride)):
        raise RuntimeError(
            f"{name}: size {size} and stride {stride} must be non-negative and of equal length. Give one stride per size."
        )
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    memory = np.empty(_extent(size, stride) * dtype.itemsize, np.uint8)
    return given.tensor(name, window(memory, dtype, 0, size, stride))


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Any:
    """Uninitialised memory whose dimensions lie in the given order, outermost first."""
    given = Options("empty_permuted", options)
    shape, order = as_shape((size,)), as_shape((physical_layout,))
    if sorted(order) != list(_builtin_range(len(shape))):
        raise RuntimeError(f"empty_permuted: {order} does not name each of the {len(shape)} dimensions once.")
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("empty_permuted", _ordered_empty(shape, dtype, order, given.device))


# ----- ranges ----------------------------------------------------------------------------------------------------------


def _bound(name: str, argument: str, value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else as_number(name, argument, value)


def arange(start: Any, end: Any = None, step: Any = 1, **options: Any) -> Any:
    """The numbers from `start` (0) up to, not including, `end`, in steps: arange(end), arange(start, end, step).

    >>> arange(3), arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    if end is None:
        start, end = 0, start
    start, end, step = (_bound("arange", name, v) for name, v in (("start", start), ("end", end), ("step", step)))
    given = Options("arange", options)
    if step == 0:
        raise RuntimeError("arange: step must be nonzero.")
    if not all(map(math.isfinite, (start, end))):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}. The ends must be finite.")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign: from {start} to {end} in steps of {step}."
        )
    whole = all(isinstance(v, int) for v in (start, end, step))
    dtype = given.dtype or (np.dtype(np.int64) if whole else dtypes.get_default_dtype().numpy)
    if dtype.kind == "b":
        raise NotImplementedError("arange: not implemented for bool, which has two values. Compare a range of numbers instead.")
    count = max(0, -(-(end - start) // step) if whole else math.ceil((end - start) / step))
    if count == 0 and start != end:
        count = 1  # the quotient of a tiny interval and a larger step is no more than 0
    return given.tensor("arange", _steps(start, step, count, dtype))


def _steps(start: Any, step: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """start + i * step, rounded once."""
    if dtype.kind in "iub":
        return (int(start) + np.arange(count) * int(step)).astype(dtype)
    return (start + np.arange(count, dtype=np.float64) * step).astype(dtype)


def range(start: Any, end: Any = None, step: Any = 1, **options: Any) -> Any:
    """As `arange`, of floats and including the end. Deprecated in torch; use `arange`."""
    warnings.warn("range is deprecated: it includes its end, unlike Python's. Use arange instead.", UserWarning, stacklevel=2)
    if end is None:
        start, end = 0, start
    start, end, step = (_bound("range", name, v) for name, v in (("start", start), ("end", end), ("step", step)))
    given = Options("range", options)
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"range: from {start} to {end} in steps of {step}: the step is zero or goes the wrong way.")
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("range", _steps(start, step, math.floor((end - start) / step) + 1, dtype))


def _spaced_dtype(start: Any, end: Any, given: Options) -> np.dtype[Any]:
    if isinstance(start, complex) or isinstance(end, complex):
        return given.dtype or dtypes.get_default_complex_dtype().numpy
    return given.dtype or dtypes.get_default_dtype().numpy


def _spaced(name: str, start: Any, end: Any, steps: int, dtype: np.dtype[Any]) -> Any:
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, and is {steps}.")
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return np.linspace(start, end, steps, dtype=wide)


def _between(name: str, start: Any, end: Any, steps: int, given: Options) -> Any:
    """The same numbers from ends of which one is in a graph."""
    dtype = _spaced_dtype(start, end, given)
    way = given.tensor(name, _spaced(name, 0.0, 1.0, steps, dtype).astype(dtype))
    return start * (1.0 - way) + end * way


def linspace(start: Any, end: Any, steps: int, **options: Any) -> Any:
    """`steps` numbers at equal distances from `start` to `end`, both included; differentiable in the two."""
    given = Options("linspace", options)
    if at_stake(start, end):
        return _between("linspace", start, end, steps, given)
    start, end = _bound("linspace", "start", start), _bound("linspace", "end", end)
    dtype = _spaced_dtype(start, end, given)
    values = _spaced("linspace", start, end, steps, dtype)
    return given.tensor("linspace", np.trunc(values).astype(dtype) if dtype.kind in "iu" else values.astype(dtype))


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Any:
    """`base` to the powers that `linspace` gives; differentiable in its ends."""
    given = Options("logspace", options)
    base = as_number("logspace", "base", base)
    if at_stake(start, end):
        return base ** _between("logspace", start, end, steps, given)
    start, end = _bound("logspace", "start", start), _bound("logspace", "end", end)
    dtype = _spaced_dtype(start, end, given)
    return given.tensor("logspace", np.power(base, _spaced("logspace", start, end, steps, dtype)).astype(dtype))


def eye(n: int, m: int | None = None, **options: Any) -> Any:
    """The identity matrix, or n rows and m columns of it."""
    given = Options("eye", options)
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, and are {n} and {m}.")
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("eye", np.eye(n, m, dtype=dtype))


