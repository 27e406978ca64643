"""Factories: tensors of a given shape and content.

Every factory takes dtype, device, layout and requires_grad, and `out=` if torch's does. Two things are decided in one
place for all of them: the default dtype, and the marks on a tensor made in inference mode or inside a transform
(`fresh`).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.addresses import window
from ndgrad._src.arrays.device_kernels import make_alike, make_filled
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.placement import CPU, library_for, move_to
from ndgrad._src.arrays.ranges import count_up, divide_evenly, raise_to_powers
from ndgrad._src.core.call_watchers import FACTORY, call_watched
from ndgrad._src.core.detach_checks import as_number, at_stake
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.open_levels import birth_level
from ndgrad._src.core.out_argument import copy_into
from ndgrad._src.core.saved import lift
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, wrap
from ndgrad._src.foundations import devices
from ndgrad._src.tensor.arguments import as_shape, warn_user
from ndgrad._src.tensor.checks import channels_last_order
from ndgrad._src.tensor.functions.data import fresh, place
from ndgrad._src.tensor.storage import batch_dims, memory_of
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from typing import Unpack

    from ndgrad._typing import FactoryOptions, MemoryFormat, Number, Payload, Shape, SizedOptions, TensorLike

__all__ = [
    "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full", "full_like", "linspace",
    "logspace", "ones", "ones_like", "range", "zeros", "zeros_like",
]  # fmt: skip
METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")

_builtin_range = builtins.range


def shape_of(size: tuple[Any, ...], options: Any) -> tuple[int, ...]:
    """Return the shape given to a factory: separate ints, one sequence, or size=."""
    if "size" in options:
        if size:
            raise TypeError(
                f"the shape was given twice, as {size} and as size={options['size']}. Give it once. [nd-exclusive]"
            )
        size = (options.pop("size"),)
    elif not size:
        raise TypeError(
            'missing the argument "size". Give sizes, or () for a tensor without dimensions. [nd-arguments]'
        )
    shape = as_shape(size)
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(shape)}. Sizes are non-negative. "
                "[nd-range]"
            )
    return shape


def can_skip_options() -> bool:
    """True if a factory without options may just make its array: the default device is the CPU and no mode is
    active."""
    return not process.busy and devices.get_default_device() is CPU


class Options:
    """Keyword arguments shared by all factories (ndgrad._typing.FactoryOptions), parsed and checked."""

    __slots__ = ("device", "dtype", "tensor_type", "layout", "names", "out", "requires_grad")

    def __init__(self, name: str, given: FactoryOptions | dict[str, Any], like: Tensor | None = None) -> None:
        self.tensor_type = Tensor if like is None else like.tensor_type
        self.out = given.pop("out", None)
        dtype = given.pop("dtype", None)
        if dtype is None and self.out is not None:
            dtype = self.out.dtype
        self.dtype = dtypes.as_numpy_dtype(dtype) if dtype is not None else None if like is None else np_dtype(like)
        device = given.pop("device", None)
        self.device = place(device) if device is not None or like is None else like.device
        self.requires_grad = given.pop("requires_grad", False)
        layout = given.pop("layout", None)
        self.layout = devices.strided if layout is None else layout
        if self.layout is not devices.strided and name not in ("zeros", "empty"):
            raise RuntimeError(
                f"{name}() makes dense tensors, not the layout {layout!r}. Leave layout out, or convert the result "
                "with to_sparse(). [nd-sparse]"
            )
        given.pop("pin_memory", None)
        self.names = given.pop("names", None)
        if given:
            raise TypeError(
                f"{name}() got an unexpected keyword argument {min(given)!r}. It takes dtype, device, layout, "
                "requires_grad and, where torch's does, out. [nd-arguments]"
            )

    def tensor(self, name: str, array: Payload) -> Tensor:
        """Return the result over `array`, which is on the CPU or already on the wanted device."""
        if process.busy and thread.watchers:
            return call_watched(FACTORY, name, None, (), lambda: self._tensor(name, array))
        return self._tensor(name, array)

    def _tensor(self, name: str, array: Payload) -> Tensor:
        array = move_to(array, self.device)
        if thread.observers:
            from ndgrad._src.core.op_observers import observed_factory  # loaded once there is an observer

            array = observed_factory(name, array)
        made = fresh(array, self.requires_grad, self.tensor_type)
        return self.apply_names(made) if self.out is None else copy_into(name, self.out, made)

    def apply_names(self, made: Tensor) -> Tensor:
        """Set the names of a new tensor's dimensions, if names were given."""
        if self.names is not None:
            made.names = self.names
        return made

    def fill(
        self, name: str, shape: tuple[int, ...], value: Number | None, default: np.dtype[Any] | None = None
    ) -> Tensor:
        """Return a tensor full of one value; None leaves the memory uninitialised."""
        if process.busy and thread.watchers:
            return call_watched(FACTORY, name, None, (), lambda: self._fill(name, shape, value, default))
        return self._fill(name, shape, value, default)

    def _fill(self, name: str, shape: tuple[int, ...], value: Number | None, default: np.dtype[Any] | None) -> Tensor:
        dtype = self.dtype or default or dtypes.get_default_dtype().numpy
        if self.layout is not devices.strided:
            from ndgrad._src.tensor.functions.sparse import make_zeros  # loaded with the first sparse tensor

            return make_zeros(shape, self.layout, dtype, self.device, self.requires_grad)
        library = library_for(self.device)
        if value is None:
            array = library.empty(shape, dtype)
        elif library is not np and self.device.type == "cuda":
            array = make_filled(library, shape, value, dtype)
        elif value is False:
            array = library.zeros(shape, dtype)
        else:
            array = library.full(shape, value, dtype)
        return self._tensor(name, array)


# ----- one value everywhere ------------------------------------------------------------------------------------------


def zeros(*sizes: Shape, **options: Unpack[SizedOptions]) -> Tensor:
    """Return a tensor of zeros. Sizes are given one by one or in a tuple.

    Args:
        *sizes: sizes of the dimensions, one by one or in one tuple. `size=` is accepted too.
        **options: `dtype` and `device` of the result, which are the current defaults unless given; `requires_grad`,
            whether autograd records operations on it; `out`, a tensor that receives it; `names` of its dimensions;
            `layout`, strided or sparse. `pin_memory` has no effect.

    >>> import ndgrad
    >>> ndgrad.zeros(2), ndgrad.zeros((2, 0), dtype=ndgrad.int64).shape
    (tensor([0., 0.]), ndgrad.Size([2, 0]))
    """
    shape = shape_of(sizes, options)
    if not options and can_skip_options():
        return wrap(Tensor, np.zeros(shape, dtypes.get_default_dtype().numpy))
    return Options("zeros", options).fill("zeros", shape, False)


def ones(*sizes: Shape, **options: Unpack[SizedOptions]) -> Tensor:
    """Return a tensor of ones. Sizes are given one by one or in a tuple.

    Args:
        *sizes: sizes of the dimensions, one by one or in one tuple. `size=` is accepted too.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.ones(2, requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
    shape = shape_of(sizes, options)
    if not options and can_skip_options():
        return wrap(Tensor, np.ones(shape, dtypes.get_default_dtype().numpy))
    return Options("ones", options).fill("ones", shape, 1)


def empty(*sizes: Shape, memory_format: MemoryFormat = None, **options: Unpack[SizedOptions]) -> Tensor:
    """Return a tensor with uninitialised memory.

    Args:
        *sizes: sizes of the dimensions, one by one or in one tuple. `size=` is accepted too.
        memory_format: memory layout of the result.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.empty(2, 3).shape
    ndgrad.Size([2, 3])
    """
    shape = shape_of(sizes, options)
    given = Options("empty", options)
    if memory_format is None or memory_format is devices.contiguous_format:
        return given.fill("empty", shape, None)
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("empty", _ordered_empty(shape, dtype, _order(memory_format, len(shape)), given.device))


def full(size: Shape, fill_value: TensorLike, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return a tensor full of one value, whose type decides the dtype.

    Args:
        size: shape of the result.
        fill_value: number, or tensor of one element.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.full((2,), 7), ndgrad.full((2,), 7.0)
    (tensor([7, 7]), tensor([7., 7.]))
    """
    shape = shape_of((size,), options)
    value, default = _number(fill_value)
    return Options("full", options).fill("full", shape, _as_full(value), default)


def _number(value: Any) -> tuple[Number, np.dtype[Any]]:
    """Return a number (or the element of a 0-d tensor) and its dtype."""
    if isinstance(value, Variable):
        return as_number("full", "fill_value", value), np_dtype(value)
    if isinstance(value, np.generic) and not isinstance(value, (float, complex)):
        return value.item(), value.dtype
    if not isinstance(value, (bool, int, float, complex)) and not hasattr(value, "item"):
        raise TypeError(
            f"the fill value must be a number, but is {value!r} ({type(value).__name__}). "
            "Pass a number or a tensor of one element. [nd-type]"
        )
    return value, dtypes.result_type(value if type(value) in (bool, int, float, complex) else value.item()).numpy


def _as_full(value: Number) -> Number:
    return value if value else False  # zeros are cheaper to allocate


# ----- like another --------------------------------------------------------------------------------------------------


def _like(
    name: str, t: Tensor, value: Number | None, memory_format: MemoryFormat, options: FactoryOptions | dict[str, Any]
) -> Tensor:
    array = t._array
    if not options and not process.busy and memory_format is None:
        if array.__class__ is np.ndarray and array.flags.c_contiguous:
            if value is None:
                return wrap(t.tensor_type, np.empty(array.shape, array.dtype))
            return wrap(
                t.tensor_type, np.full(array.shape, value, array.dtype) if value else np.zeros(array.shape, array.dtype)
            )
        if value is not None and t.run_op is None and is_on_device(array):
            made = make_alike(array, value)
            if made is not None:
                return wrap(t.tensor_type, made)
    if t.run_op is not None:
        return t.made_alike(lambda local: _like(name, local, value, memory_format, options), keeps_terms=not value)
    given = Options(name, options, like=t)
    shape = tuple(t.shape)
    if batch_dims(t):
        return _each_sample(t, lambda like, batch: _like(name, like, value, None, {"dtype": given.dtype}))
    if memory_format is None or memory_format is devices.preserve_format:
        order = _memory_order(memory_of(t))
    else:
        order = _order(memory_format, len(shape))
    if order == tuple(_builtin_range(len(shape))):
        return given.fill(name, shape, value)
    array = _ordered_empty(shape, given.dtype or np_dtype(t), order, given.device)
    if value is not None:
        array[...] = value
    return given.tensor(name, array)


def _each_sample(t: Tensor, make: Callable[[Tensor, tuple[int, ...]], Tensor]) -> Tensor:
    """Call `make(like, batch)` for all samples of a batched tensor at once, so that each sample may be written.

    It descends the levels one by one: a vmap adds its batch in front of the shape, a grad level only wraps.
    """
    from ndgrad._src.interpreters.batching import batch_tensor  # loaded once a transform is open
    from ndgrad._src.interpreters.levels import below, find_level, level_number  # loaded once a transform is open

    if thread.captures is not None:
        t = thread.captures.one(t)
    level = find_level(level_number(t))
    with below(level):
        inner = make(lift(t._array, t.tensor_type), () if level.size is None else (level.size,))
    made = inner if level.kind != "vmap" else batch_tensor(level, inner)
    meta_of(made).made_in = birth_level()
    return made


def _memory_order(array: Payload) -> tuple[int, ...]:
    """Return the dimensions in memory order, outermost first; expanded dimensions keep their natural order."""
    natural = tuple(_builtin_range(array.ndim))
    is_traced = getattr(array, "is_traced", False)
    if is_traced:
        array.settle()
    if array.flags.c_contiguous or not (is_traced or isinstance(array, np.ndarray)):
        return natural
    if any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape)):
        return natural
    return tuple(sorted(natural, key=lambda d: (-abs(array.strides[d]), d)))


def _order(memory_format: devices.memory_format, ndim: int) -> tuple[int, ...]:
    order = channels_last_order(memory_format, ndim)
    if order is None:
        raise RuntimeError(
            f"required rank 4 tensor to use channels_last format (5 for channels_last_3d), but got {ndim} dimensions. "
            "[nd-strides]"
        )
    return order


def _ordered_empty(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...], where: devices.device
) -> Payload:
    library = library_for(where)
    back = sorted(_builtin_range(len(order)), key=order.__getitem__)
    return library.empty(tuple(shape[d] for d in order), dtype).transpose(back)


def zeros_like(input: Tensor, *, memory_format: MemoryFormat = None, **options: Unpack[FactoryOptions]) -> Tensor:
    """Zeros with the shape, dtype and device of another tensor.

    Args:
        input: tensor whose shape, dtype, device and order in memory are taken.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `dtype`, `device` or `requires_grad` that differ from `input`, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.zeros_like(ndgrad.tensor([1, 2]))
    tensor([0, 0])
    """
    return _like("zeros_like", input, 0, memory_format, options)


def ones_like(input: Tensor, *, memory_format: MemoryFormat = None, **options: Unpack[FactoryOptions]) -> Tensor:
    """Ones with the shape, dtype and device of another tensor.

    Args:
        input: tensor whose shape, dtype, device and order in memory are taken.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `dtype`, `device` or `requires_grad` that differ from `input`, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.ones_like(ndgrad.tensor([1, 2]), dtype=ndgrad.float64)
    tensor([1., 1.], dtype=ndgrad.float64)
    """
    return _like("ones_like", input, 1, memory_format, options)


def empty_like(input: Tensor, *, memory_format: MemoryFormat = None, **options: Unpack[FactoryOptions]) -> Tensor:
    """Uninitialised memory with the shape, dtype and device of another tensor.

    Args:
        input: tensor whose shape, dtype, device and order in memory are taken.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `dtype`, `device` or `requires_grad` that differ from `input`, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.empty_like(ndgrad.tensor([1, 2])).dtype
    ndgrad.int64
    """
    return _like("empty_like", input, None, memory_format, options)


def full_like(
    input: Tensor, fill_value: TensorLike, *, memory_format: MemoryFormat = None, **options: Unpack[FactoryOptions]
) -> Tensor:
    """One value everywhere, with the shape, dtype and device of another tensor.

    Args:
        input: tensor whose shape, dtype, device and order in memory are taken.
        fill_value: number, or tensor of one element.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `dtype`, `device` or `requires_grad` that differ from `input`, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.full_like(ndgrad.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    return _like("full_like", input, _number(fill_value)[0], memory_format, options)


def _new(
    name: str, t: Tensor, size: tuple[Any, ...], value: Number | None, options: FactoryOptions | dict[str, Any]
) -> Tensor:
    shape = shape_of(size, options)
    if t.run_op is not None:
        keeps_terms = value is None  # without values to keep
        return t.made_alike(lambda local, size: _new(name, local, (size,), value, options), shape, keeps_terms)
    given = Options(name, options, like=t)
    if batch_dims(t):
        return _each_sample(t, lambda like, batch: _new(name, like, ((*batch, *shape),), value, {"dtype": given.dtype}))
    return given.fill(name, shape, value)


def new_zeros(self: Tensor, *sizes: Shape, **options: Unpack[SizedOptions]) -> Tensor:
    """Zeros with this tensor's dtype and device.

    Args:
        self: tensor whose dtype and device are taken.
        *sizes: sizes of the dimensions, one by one or in one tuple.
        **options: `dtype`, `device` or `requires_grad` that differ from this tensor, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).new_zeros(3)
    tensor([0, 0, 0])
    """
    return _new("new_zeros", self, sizes, 0, options)


def new_ones(self: Tensor, *sizes: Shape, **options: Unpack[SizedOptions]) -> Tensor:
    """Ones with this tensor's dtype and device.

    Args:
        self: tensor whose dtype and device are taken.
        *sizes: sizes of the dimensions, one by one or in one tuple.
        **options: `dtype`, `device` or `requires_grad` that differ from this tensor, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).new_ones(3)
    tensor([1, 1, 1])
    """
    return _new("new_ones", self, sizes, 1, options)


def new_empty(self: Tensor, *sizes: Shape, **options: Unpack[SizedOptions]) -> Tensor:
    """Uninitialised memory with this tensor's dtype and device.

    Args:
        self: tensor whose dtype and device are taken.
        *sizes: sizes of the dimensions, one by one or in one tuple.
        **options: `dtype`, `device` or `requires_grad` that differ from this tensor, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).new_empty(3).dtype
    ndgrad.int64
    """
    return _new("new_empty", self, sizes, None, options)


def new_full(self: Tensor, size: Shape, fill_value: TensorLike, **options: Unpack[FactoryOptions]) -> Tensor:
    """One value everywhere, with this tensor's dtype and device.

    Args:
        self: tensor whose dtype and device are taken.
        size: shape of the result.
        fill_value: number, or tensor of one element.
        **options: `dtype`, `device` or `requires_grad` that differ from this tensor, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).new_full((3,), 7)
    tensor([7, 7, 7])
    """
    return _new("new_full", self, (size,), _number(fill_value)[0], options)


def new_empty_strided(self: Tensor, size: Shape, stride: Shape, **options: Unpack[FactoryOptions]) -> Tensor:
    """Uninitialised memory with given strides, and this tensor's dtype and device.

    Args:
        self: tensor whose dtype and device are taken.
        size: shape of the result.
        stride: distance of neighbours in each dimension, counted in elements.
        **options: `dtype`, `device` or `requires_grad` that differ from this tensor, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size, stride = as_shape((size,)), as_shape((stride,))
    if self.run_op is not None:
        order = sorted(_builtin_range(len(size)), key=lambda i: -stride[i])
        make: Any = lambda local, shape: _laid_out(local, shape, order, options)
        return self.made_alike(make, size)
    if batch_dims(self):
        step = _extent(size, stride)
        return _each_sample(
            self,
            lambda like, batch: new_empty_strided(like, (*batch, *size), (*(step for _ in batch), *stride), **options),
        )
    return _strided("new_empty_strided", size, stride, Options("new_empty_strided", options, like=self))


def _laid_out(like: Tensor, shape: tuple[int, ...], order: list[int], options: Any) -> Tensor:
    """Return a dense tensor whose dimensions lie in memory in a given order, the slowest first."""
    step, found = 1, [0] * len(shape)
    for i in reversed(order):
        found[i] = step
        step *= max(shape[i], 1)
    return new_empty_strided(like, shape, tuple(found), **options)


# ----- given strides --------------------------------------------------------------------------------------------------


def empty_strided(size: Shape, stride: Shape, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return uninitialised memory with given strides, counted in elements.

    Args:
        size: shape of the result.
        stride: distance of neighbours in each dimension.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.empty_strided((2, 3), (1, 2)).is_contiguous()
    False
    """
    return _strided("empty_strided", size, stride, Options("empty_strided", options))


def _extent(size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return the number of elements from the first to the last, both included."""
    return 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))


def _strided(name: str, size: Shape, stride: Shape, given: Options) -> Tensor:
    size, stride = as_shape((size,)), as_shape((stride,))
    if len(size) != len(stride) or any(n < 0 for n in (*size, *stride)):
        raise RuntimeError(
            f"{name}: size {size} and stride {stride} must be non-negative and of equal length. "
            "Give one stride per size. [nd-strides]"
        )
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    memory = np.empty(_extent(size, stride) * dtype.itemsize, np.uint8)
    return given.tensor(name, window(memory, dtype, 0, size, stride))


def empty_permuted(size: Shape, physical_layout: Shape, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return uninitialised memory whose dimensions are laid out in the given order, outermost first.

    Args:
        size: shape of the result.
        physical_layout: numbers of the dimensions in the order in which they lie in memory.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    given = Options("empty_permuted", options)
    shape, order = as_shape((size,)), as_shape((physical_layout,))
    if sorted(order) != list(_builtin_range(len(shape))):
        raise RuntimeError(f"empty_permuted: {order} does not name each of the {len(shape)} dimensions once. [nd-dim]")
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("empty_permuted", _ordered_empty(shape, dtype, order, given.device))


# ----- ranges ---------------------------------------------------------------------------------------------------------


def _as_bound(name: str, argument: str, value: TensorLike) -> Any:
    return value.item() if isinstance(value, np.generic) else as_number(name, argument, value)


def _bounds(name: str, start: TensorLike, end: TensorLike | None, step: TensorLike) -> tuple[Any, Any, Any]:
    """Return start, end and step of a range as numbers. A single argument is the end."""
    if end is None:
        start, end = 0, start
    return _as_bound(name, "start", start), _as_bound(name, "end", end), _as_bound(name, "step", step)


def arange(
    start: TensorLike, end: TensorLike | None = None, step: TensorLike = 1, **options: Unpack[FactoryOptions]
) -> Tensor:
    """The numbers from `start` (0) up to, not including, `end`, in steps: arange(end), arange(start, end, step).

    Args:
        start: first number, or the end if it is the only argument.
        end: end of the range, which is not part of it.
        step: distance of neighbours, positive or negative.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`. The default dtype is int64 if all
            numbers are integers.

    >>> import ndgrad
    >>> ndgrad.arange(3), ndgrad.arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    first, last, by = _bounds("arange", start, end, step)
    given = Options("arange", options)
    if by == 0:
        raise RuntimeError("arange: step must be nonzero. [nd-range]")
    if not all(map(math.isfinite, (first, last))):
        raise RuntimeError(f"arange: unsupported range: {first} -> {last}. The ends must be finite. [nd-range]")
    if (last - first) * by < 0:
        raise RuntimeError(
            "arange: upper bound and lower bound inconsistent with step sign: "
            f"from {first} to {last} in steps of {by}. [nd-range]"
        )
    if given.dtype == np.int64:
        first, last, by = int(first), int(last), int(by)  # As in torch, only for this dtype.
        if by == 0:
            raise RuntimeError("arange: step must be nonzero, but it is less than 1 for integers. [nd-range]")
    whole = all(isinstance(v, int) for v in (first, last, by))
    dtype = given.dtype or (np.dtype(np.int64) if whole else dtypes.get_default_dtype().numpy)
    if dtype.kind == "b":
        raise NotImplementedError(
            "arange: not implemented for bool, which has two values. Compare a range of numbers instead. [nd-dtype]"
        )
    count = max(0, -(-(last - first) // by) if whole else math.ceil((last - first) / by))
    if count == 0 and first != last:
        count = 1  # The quotient of a tiny interval and a larger step rounds to 0.
    library = np if given.device.type in ("cpu", "meta") else library_for(given.device)
    return given.tensor("arange", _steps(first, by, count, dtype, library))


def _steps(start: float, step: float, count: int, dtype: np.dtype[Any], library: Any = np) -> Any:
    """Return start + i * step; on the CPU with torch's rounding."""
    if library is np:
        return count_up(start, step, count, dtype)
    if dtype.kind in "iub":
        return (int(start) + library.arange(count, dtype=np.int64) * int(step)).astype(dtype)
    return (start + library.arange(count, dtype=np.float64) * step).astype(dtype)


def range(
    start: TensorLike, end: TensorLike | None = None, step: TensorLike = 1, **options: Unpack[FactoryOptions]
) -> Tensor:
    """As `arange`, but with floats and including the end. Deprecated in torch; use `arange`.

    Args:
        start: first number, or the end if it is the only argument.
        end: end of the range, which is part of it.
        step: distance of neighbours, positive or negative.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     ndgrad.range(1, 3)
    tensor([1., 2., 3.])
    """
    warn_user("range is deprecated: it includes its end, unlike Python's. Use arange instead.")
    first, last, by = _bounds("range", start, end, step)
    given = Options("range", options)
    if by == 0 or (last - first) * by < 0:
        raise RuntimeError(
            f"range: from {first} to {last} in steps of {by}: the step is zero or goes the wrong way. [nd-range]"
        )
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    return given.tensor("range", _steps(first, by, math.floor((last - first) / by) + 1, dtype))


def _spaced_dtype(start: TensorLike, end: TensorLike, given: Options) -> np.dtype[Any]:
    if isinstance(start, complex) or isinstance(end, complex):
        return given.dtype or dtypes.get_default_complex_dtype().numpy
    return given.dtype or dtypes.get_default_dtype().numpy


def _check_steps(name: str, steps: int) -> None:
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, but is {steps}. [nd-range]")


def _interpolate(name: str, start: Any, end: Any, steps: int, given: Options) -> Tensor:
    """Compute `linspace` by tensor ops, for ends that are part of a graph."""
    _check_steps(name, steps)
    dtype = _spaced_dtype(start, end, given)
    way: Any = given.tensor(name, divide_evenly(0.0, 1.0, steps, dtype))
    return start * (1.0 - way) + end * way


def linspace(start: TensorLike, end: TensorLike, steps: int, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return `steps` evenly spaced numbers from `start` to `end`, both included; differentiable in the two ends.

    Args:
        start: first number.
        end: last number.
        steps: how many numbers there are.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> end = ndgrad.tensor(1.0, requires_grad=True)
    >>> ndgrad.linspace(0.0, end, 3).sum().backward()
    >>> end.grad
    tensor(1.5000)
    """
    given = Options("linspace", options)
    if at_stake(start, end):
        return _interpolate("linspace", start, end, steps, given)
    first, last = _as_bound("linspace", "start", start), _as_bound("linspace", "end", end)
    _check_steps("linspace", steps)
    return given.tensor("linspace", divide_evenly(first, last, steps, _spaced_dtype(first, last, given)))


def logspace(
    start: TensorLike, end: TensorLike, steps: int, base: float = 10.0, **options: Unpack[FactoryOptions]
) -> Tensor:
    """Return `base` to the powers given by `linspace`; differentiable in its ends.

    Args:
        start: exponent of the first number.
        end: exponent of the last number.
        steps: how many numbers there are.
        base: base of the powers.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    given = Options("logspace", options)
    base = as_number("logspace", "base", base)
    if at_stake(start, end):
        powers: Any = _interpolate("logspace", start, end, steps, given)
        return base**powers
    first, last = _as_bound("logspace", "start", start), _as_bound("logspace", "end", end)
    _check_steps("logspace", steps)
    return given.tensor("logspace", raise_to_powers(base, first, last, steps, _spaced_dtype(first, last, given)))


def eye(n: int, m: int | None = None, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return the identity matrix, or its first n rows and m columns.

    Args:
        n: number of rows.
        m: number of columns. The default is n.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    given = Options("eye", options)
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, but are {n} and {m}. [nd-range]")
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    if given.device.type != "cuda":
        return given.tensor("eye", np.eye(n, m, dtype=dtype))
    columns = n if m is None else m
    made = library_for(given.device).zeros((n, columns), dtype)  # on the device: no matrix is copied there
    made.reshape(-1)[: min(n, columns) * (columns + 1) : columns + 1] = 1
    return given.tensor("eye", made)
