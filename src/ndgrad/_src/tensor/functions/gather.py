"""Elements selected by index tensors and masks, under torch's names: gather and scatter, take and put, masked_fill.

An index is a tensor of integers within bounds. Negative ones count from the end only in take, put and
take_along_dim. Everything is checked before anything is written. An in-place form is the same function with `write`
instead of the call (`run`). If an index names a position twice, an overwriting function keeps the last value, which
alone gets a gradient.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import Variable, np_dtype, wrap, wrap_like
from ndgrad._src.ops import arithmetic, cast, shape
from ndgrad._src.ops import gather as ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.reduce import deliver

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Number, Tensor, TensorLike

__all__ = [
    "gather",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "take",
    "take_along_dim",
]  # fmt: skip
METHODS = (*__all__, "scatter_", "scatter_add_", "scatter_reduce_", "masked_fill_", "masked_scatter_", "put_")


# ----- arguments -----------------------------------------------------------------------------------------------------


def as_tensor(name: str, argument: str, like: Tensor, value: TensorLike) -> Tensor:
    """Return a tensor argument unchanged, or a bare array as a tensor of the same class as `like`."""
    if isinstance(value, Variable):
        return value
    if is_raw_array(value):
        return wrap(like.tensor_type, value)
    raise TypeError(
        f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}. Wrap it in ndgrad.tensor(...). "
        "[nd-type]"
    )


def as_index(
    name: str, like: Tensor, index: TensorLike, error: type[Exception] = RuntimeError, argument: str = "index"
) -> Tensor:
    """Return an index tensor of int64, or unchanged if it has int32."""
    index = as_tensor(name, argument, like, index)
    dtype = np_dtype(index)
    if dtype.kind not in "iu":
        raise error(
            f"{name}(): Expected dtype int32/int64 for index, but it is {dtype} (shape {tuple(index.shape)}). "
            "Convert it with .long(). [nd-dtype]"
        )
    return index if dtype.itemsize >= 4 and dtype.kind == "i" else cast.cast(index, dtype=np.dtype(np.int64))


def as_line(t: Tensor) -> Tensor:
    return t if t.ndim else shape.reshape(t, shape=(1,))


def numel(t: Tensor) -> int:
    return math.prod(t.shape)


def require_same_dtype(name: str, input: Tensor, source: Tensor, error: type[Exception] = RuntimeError) -> None:
    if np_dtype(input) != np_dtype(source):
        raise error(
            f"{name}(): Expected self.dtype to be equal to src.dtype, but they are {np_dtype(input)} and "
            f"{np_dtype(source)}. Convert one with .to(). [nd-dtype-mismatch]"
        )


def as_number(name: str, input: Tensor, value: Any) -> Number:
    """Return a number that can be written into `input`: floats are truncated for an integer tensor; values
    that do not fit raise."""
    dtype = np_dtype(input)
    if not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{name}(): argument 'value' must be Tensor or Number, not {type(value).__name__}. Give one of these. "
            "[nd-type]"
        )
    if isinstance(value, (complex, np.complexfloating)) and dtype.kind != "c":
        if value.imag:
            raise RuntimeError(
                f"{name}(): value cannot be converted to type {dtype} without overflow: "
                f"{value} is complex. Give its .real. [nd-complex]"
            )
        value = value.real
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value != value or not limits.min <= value <= limits.max:
            raise RuntimeError(
                f"{name}(): value cannot be converted to type {dtype} without overflow: it is {value}. "
                f"Give one from {limits.min} to {limits.max}, or convert the tensor. [nd-overflow]"
            )
        return int(value)
    return bool(value) if dtype.kind == "b" else value


def fill_value(name: str, input: Tensor, value: TensorLike) -> Tensor | Number:
    """Return the value of masked_fill and index_fill: a number, or a 0-d tensor, which then gets a gradient."""
    if not isinstance(value, Variable) and not is_raw_array(value):
        return as_number(name, input, value)
    value = as_tensor(name, "value", input, value)
    if value.ndim:
        raise RuntimeError(
            f"{name}_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s). "
            "Use where() to fill with many values. [nd-ndim]"
        )
    dtype = np_dtype(input)
    if np_dtype(value).kind == "c" and dtype.kind != "c":
        raise RuntimeError(
            f"{name}(): value cannot be converted to type {dtype} without overflow: it is complex. Give its .real. "
            "[nd-complex]"
        )
    return value if np_dtype(value) == dtype else cast.cast(value, dtype=dtype)


def run(op: Op, in_place: bool, input: Tensor, *args: Tensor | Number, **settings: Any) -> Tensor:
    return write(op, input, args, settings) if in_place else op(input, *args, **settings)


# ----- gather and scatter ---------------------------------------------------------------------------------------------


def _check_index(name: str, dim: int, index: Tensor, limits: dict[str, Tensor]) -> None:
    """Check ranks and sizes of an index against the tensors that it indexes (any size at `dim`) or reads."""
    sizes = index.shape
    for what, t in limits.items():
        have = t.shape
        if sizes == have:
            continue
        if len(have) != len(sizes):
            raise RuntimeError(
                f"{name}(): Index tensor must have the same number of dimensions as {what} tensor: their shapes are "
                f"{list(sizes)} and {list(have)}. Reshape the index; expand() repeats it without copying. [nd-ndim]"
            )
        for d, n in enumerate(sizes):
            if n > have[d] and (d != dim or what == "src"):
                apart = "" if what == "src" else f" apart from dimension {dim}"
                raise RuntimeError(
                    f"{name}(): Size does not match at dimension {d}: expected index {list(sizes)} to be no larger "
                    f"than {what} {list(have)}{apart}. Cut the index to that size. [nd-shape]"
                )


@both_worlds
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Select elements along `dim`: for a matrix and dim 1, result[i, j] = input[i, index[i, j]].

    Args:
        input: tensor to select from.
        dim: dimension along which elements are selected.
        index: integers, with as many dimensions as `input`. Other sizes than that of `dim` are at most those of
            `input`.
        sparse_grad: whether the gradient of the input is a sparse tensor, with an entry per selected element.
        out: tensor that receives the result.

    Returns:
        A tensor of the shape of `index`.

    >>> import ndgrad
    >>> ndgrad.gather(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, ndgrad.tensor([[1], [0]]))
    tensor([[2.],
            [3.]])
    """
    dim = as_dim(dim, input.ndim)
    index = as_index("gather", input, index)
    x, along = as_line(input), as_line(index)
    if not numel(index) and x.ndim != along.ndim:
        return deliver("gather", ops.take(input, index), out, input)
    _check_index("gather", dim, along, {"input": x})
    if sparse_grad and input.ndim:
        from ndgrad.sparse import lookups  # loaded with the first sparse gradient

        result: Tensor = lookups.gather(x, along, dim)
    else:
        result = ops.gather(x, along, dim=dim)
    if not index.ndim:
        result = shape.reshape(result, shape=())
    return deliver("gather", result, out, input)


def _scatter_arguments(
    name: str, input: Tensor, dim: int, index: Tensor, source: Any
) -> tuple[Tensor, int, Tensor, Any]:
    """Return target, dim, index and source in the form of the ops: equal ranks, the source cut to the index."""
    dim = as_dim(dim, input.ndim)
    index = as_line(as_index(name, input, index))
    target = as_line(input)
    number = not isinstance(source, Variable)
    if not number:
        require_same_dtype(name, input, source)
        source = as_line(source)
    if not numel(index) and index.ndim != target.ndim:
        # An empty index may have any rank, and writes nothing.
        nothing = index_ops.getitem(target, index=(*(slice(None),) * dim, slice(0)))
        return target, dim, wrap_like(input, np.zeros(tuple(nothing.shape), np.int64)), source if number else nothing
    if number:
        _check_index(name, dim, index, {"self": target})
        return target, dim, index, source
    _check_index(name, dim, index, {"self": target, "src": source})
    if tuple(source.shape) != tuple(index.shape):
        source = index_ops.getitem(source, index=tuple(slice(n) for n in index.shape))
    return target, dim, index, source


def _scatter(
    name: str,
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None,
    value: Number | None,
    reduce: str | None,
    in_place: bool,
) -> Tensor:
    if (src is None) == (value is None):
        raise TypeError(
            f"{name}() takes a tensor 'src' or a number 'value', but got {'neither' if src is None else 'both'}. "
            "Give one. [nd-exclusive]"
        )
    source = src if value is None else value
    if is_raw_array(source) and not isinstance(source, Variable):
        source = wrap(input.tensor_type, source)
    if not isinstance(source, Variable):
        source = as_number(name, input, source)
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(
            f"{name}(): reduce argument must be either add or multiply, but is {reduce!r}. "
            "scatter_reduce() knows more. [nd-option]"
        )
    target, dim, index, source = _scatter_arguments(name, input, dim, index, source)
    if reduce == "multiply":
        if not isinstance(source, Variable):
            source = wrap_like(input, np.full(tuple(index.shape), source, np_dtype(input)))
        result = _reduce_prod(target, index, source, dim, True, in_place)
    else:
        result = run(ops.scatter_add if reduce == "add" else ops.scatter, in_place, target, index, source, dim=dim)
    return restore_shape(input, result, in_place)


def restore_shape(input: Tensor, result: Tensor, in_place: bool) -> Tensor:
    """Reshape a result computed for a 0-d tensor as a line of one element to the tensor's shape."""
    if in_place:
        return input
    return result if input.ndim else shape.reshape(result, shape=())


@both_worlds
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return `input` with values put along `dim`: for a matrix and dim 1, result[i, index[i, j]] = src[i, j].

    Args:
        input: tensor whose other elements are kept.
        dim: dimension along which values are put.
        index: integers, with as many dimensions as `input`. If a position occurs twice, the last value stays and gets
            the gradient.
        src: values, at least as large as `index` in every dimension and of the dtype of `input`, or a number.
        value: number in place of `src`.
        reduce: None to replace the old values, `"add"` or `"multiply"` to combine with them.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.scatter(ndgrad.zeros(2, 3), 1, ndgrad.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    result = _scatter("scatter", input, dim, index, src, value, reduce, False)
    return deliver("scatter", result, out, input, *(() if src is None else (src,)))


@both_worlds
def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """In-place version of `scatter`.

    Args:
        self: tensor to change.
        dim: dimension along which values are put.
        index: integers, with as many dimensions as `self`. If a position occurs twice, the last value stays and gets
            the gradient.
        src: values, at least as large as `index` in every dimension and of the dtype of `self`, or a number.
        value: number in place of `src`.
        reduce: None to replace the old values, `"add"` or `"multiply"` to combine with them.

    >>> import ndgrad
    >>> ndgrad.zeros(3).scatter_(0, ndgrad.tensor([1]), 5.0)
    tensor([0., 5., 0.])
    """
    return _scatter("scatter_", self, dim, index, src, value, reduce, True)


def _scatter_add(name: str, input: Tensor, dim: int, index: Tensor, src: Tensor, in_place: bool) -> Tensor:
    target, dim, index, src = _scatter_arguments(name, input, dim, index, as_tensor(name, "src", input, src))
    return restore_shape(input, run(ops.scatter_add, in_place, target, index, src, dim=dim), in_place)


@both_worlds
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return `input` with values added along `dim`; repeated indices add up: result[i, index[i, j]] += src[i, j].

    Args:
        input: tensor to which values are added.
        dim: dimension along which values are put.
        index: integers, with as many dimensions as `input`.
        src: values, at least as large as `index` in every dimension and of the dtype of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.scatter_add(ndgrad.zeros(3), 0, ndgrad.tensor([0, 2, 2]), ndgrad.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """
    return deliver("scatter_add", _scatter_add("scatter_add", input, dim, index, src, False), out, input, src)


@both_worlds
def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """In-place version of `scatter_add`.

    Args:
        self: tensor to change.
        dim: dimension along which values are put.
        index: integers, with as many dimensions as `self`.
        src: values, at least as large as `index` in every dimension and of the dtype of `self`.

    >>> import ndgrad
    >>> ndgrad.zeros(2).scatter_add_(0, ndgrad.tensor([1, 1]), ndgrad.ones(2))
    tensor([0., 2.])
    """
    return _scatter_add("scatter_add_", self, dim, index, src, True)


# ----- scatter_reduce -------------------------------------------------------------------------------------------------

_EXTREMES = {"amax": True, "amin": False, "max": True, "min": False}


def _reduce_sum(target: Tensor, index: Tensor, source: Tensor, dim: int, include_self: bool, in_place: bool) -> Tensor:
    if not include_self:
        target = run(ops.scatter, in_place, target, index, 0, dim=dim)
    return run(ops.scatter_add, in_place, target, index, source, dim=dim)


def _reduce_prod(target: Tensor, index: Tensor, source: Tensor, dim: int, include_self: bool, in_place: bool) -> Tensor:
    factor = ops.scatter_prod(source, index, dim=dim, shape=tuple(target.shape))
    if not include_self:
        target = run(ops.scatter, in_place, target, index, 1, dim=dim)
    return run(arithmetic.mul, in_place, target, factor)


def _reduce_mean(target: Tensor, index: Tensor, source: Tensor, dim: int, include_self: bool, in_place: bool) -> Tensor:
    dtype = np_dtype(target)
    none = wrap_like(target, np.full(tuple(target.shape), include_self, dtype))
    count = ops.scatter_add(none, index, wrap_like(target, np.ones(tuple(index.shape), dtype)), dim=dim)
    one = index_ops.masked_fill(count, count == 0, 1)
    total = _reduce_sum(target, index, source, dim, include_self, in_place)
    return run(arithmetic.div if is_inexact(dtype) else arithmetic.floor_divide, in_place, total, one)


def reduce_along(
    name: str, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool, in_place: bool
) -> Tensor:
    if reduce not in ("sum", "prod", "mean", *_EXTREMES):
        raise RuntimeError(
            f"{name}(): reduce argument must be either sum, prod, mean, amax or amin, "
            f"got {reduce!r}. Give one of these. [nd-option]"
        )
    target, dim, index, src = _scatter_arguments(name, input, dim, index, as_tensor(name, "src", input, src))
    if reduce in _EXTREMES:
        if np_dtype(input).kind == "c":
            raise NotImplementedError(
                f"{name}(): {reduce} is not defined for {np_dtype(input)}, which has no order. Reduce abs(). "
                "[nd-complex]"
            )
        settings = {"dim": dim, "largest": _EXTREMES[reduce], "include_self": include_self}
        result = run(ops.scatter_extreme, in_place, target, index, src, **settings)
    else:
        how = {"sum": _reduce_sum, "prod": _reduce_prod, "mean": _reduce_mean}[reduce]
        result = how(target, index, src, dim, include_self, in_place)
    return restore_shape(input, result, in_place)


@both_worlds
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Return `input` with values combined along `dim`. If several values are the largest (or smallest), they share the
    gradient equally.

    Args:
        input: tensor with whose elements values are combined.
        dim: dimension along which values are put.
        index: integers, with as many dimensions as `input`.
        src: values, at least as large as `index` in every dimension and of the dtype of `input`.
        reduce: `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`.
        include_self: whether the old value of an indexed position takes part.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> src = ndgrad.tensor([3.0, 1.0, 2.0])
    >>> ndgrad.scatter_reduce(ndgrad.zeros(2), 0, ndgrad.tensor([0, 0, 1]), src, "amax")
    tensor([3., 2.])
    """
    result = reduce_along("scatter_reduce", input, dim, index, src, reduce, include_self, False)
    return deliver("scatter_reduce", result, out, input, src)


@both_worlds
def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """In-place version of `scatter_reduce`.

    Args:
        self: tensor to change.
        dim: dimension along which values are put.
        index: integers, with as many dimensions as `self`.
        src: values, at least as large as `index` in every dimension and of the dtype of `self`.
        reduce: `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`.
        include_self: whether the old value of an indexed position takes part.

    >>> import ndgrad
    >>> ndgrad.ones(1).scatter_reduce_(0, ndgrad.tensor([0, 0]), ndgrad.tensor([2.0, 3.0]), "prod")
    tensor([6.])
    """
    return reduce_along("scatter_reduce_", self, dim, index, src, reduce, include_self, True)


# ----- masks ----------------------------------------------------------------------------------------------------------


def _mask(name: str, input: Tensor, mask: Tensor, in_place: bool) -> Tensor:
    mask = as_tensor(name, "mask", input, mask)
    if np_dtype(mask).kind != "b":
        raise RuntimeError(
            f"{name}(): only supports boolean masks, but got mask with dtype {np_dtype(mask)}. Use .bool(). [nd-dtype]"
        )
    try:
        common = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    except ValueError:
        raise RuntimeError(
            f"{name}(): the shapes {list(input.shape)} of the tensor and {list(mask.shape)} of the mask do "
            "not broadcast: The size of tensor a must match the size of tensor b in every dimension where neither "
            "is 1. Reshape the mask. [nd-broadcast]"
        ) from None
    if in_place and common != tuple(input.shape):
        raise RuntimeError(
            f"{name}(): output with shape {list(input.shape)} doesn't match the broadcast shape {list(common)}. "
            f"Use {name.rstrip('_')}(), which makes a new tensor. [nd-write-fit]"
        )
    return mask


def masked_fill(input: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """Return a copy with one value at the true elements of a mask.

    Args:
        input: input tensor.
        mask: bool tensor, which broadcasts with `input`.
        value: number or 0-d tensor.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, -2.0, 3.0])
    >>> ndgrad.masked_fill(x, x < 0, 0.0)
    tensor([1., 0., 3.])
    """
    return index_ops.masked_fill(
        input, _mask("masked_fill", input, mask, False), fill_value("masked_fill", input, value)
    )


def masked_fill_(self: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """In-place version of `masked_fill`.

    Args:
        self: tensor to change.
        mask: bool tensor, which broadcasts to `self`.
        value: number or 0-d tensor.

    >>> import ndgrad
    >>> ndgrad.ones(2).masked_fill_(ndgrad.tensor([True, False]), 7.0)
    tensor([7., 1.])
    """
    return write(
        index_ops.masked_fill,
        self,
        (_mask("masked_fill_", self, mask, True), fill_value("masked_fill", self, value)),
        {},
    )


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where the mask is true, as a 1-d tensor.

    Args:
        input: input tensor.
        mask: bool tensor, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, -2.0, 3.0])
    >>> ndgrad.masked_select(x, x > 0)
    tensor([1., 3.])
    """
    mask = _mask("masked_select", input, mask, False)
    common = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return deliver("masked_select", ops.masked_select(_expand(input, common), _expand(mask, common)), out, input)


def _expand(t: Tensor, to: tuple[int, ...]) -> Tensor:
    return t if tuple(t.shape) == to else shape.expand(t, shape=to)


def _masked_scatter(name: str, input: Tensor, mask: Tensor, source: Tensor, in_place: bool) -> Tensor:
    mask = _mask(name, input, mask, in_place)
    source = as_tensor(name, "source", input, source)
    require_same_dtype(name, input, source)
    common = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    mask = _expand(mask, common)
    if not isinstance(mask._array, Variable):
        wanted = int(np.count_nonzero(mask._array))
        if wanted > numel(source):
            raise RuntimeError(
                f"{name}(): Number of elements of source < number of ones in mask: "
                f"{numel(source)} < {wanted}. Give a longer source. [nd-shape]"
            )
    if not numel(source):
        return input if in_place else cast.clone(input)
    flat = shape.reshape(source, shape=(numel(source),))
    # A true element takes the source element with its rank among true elements. Other positions may take any.
    place = ops.mask_positions(mask)
    return run(index_ops.masked_fill, in_place, input, mask, ops.take(flat, place))


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `input` with the elements of `source`, in order, at the true elements of the mask.

    Args:
        input: input tensor.
        mask: bool tensor, which broadcasts with `input`.
        source: tensor of the same dtype, with at least as many elements as the mask has true ones.

    >>> import ndgrad
    >>> ndgrad.masked_scatter(ndgrad.zeros(3), ndgrad.tensor([True, False, True]), ndgrad.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    return _masked_scatter("masked_scatter", input, mask, source, False)


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """In-place version of `masked_scatter`.

    Args:
        self: tensor to change.
        mask: bool tensor, which broadcasts to `self`.
        source: tensor of the same dtype, with at least as many elements as the mask has true ones.

    >>> import ndgrad
    >>> ndgrad.zeros(2).masked_scatter_(ndgrad.tensor([False, True]), ndgrad.tensor([5.0]))
    tensor([0., 5.])
    """
    return _masked_scatter("masked_scatter_", self, mask, source, True)


# ----- take and put ---------------------------------------------------------------------------------------------------


def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements by their position in the flattened tensor, in the shape of the index; negative ones count from the end.

    Args:
        input: tensor of any shape.
        index: integers.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.take(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([0, -1]))
    tensor([1., 4.])
    """
    index = as_index("take", input, index)
    if numel(index) and not numel(input):
        raise IndexError(
            f"take(): tried to take from an empty tensor (shape {tuple(input.shape)}). Look at numel() first. "
            "[nd-too-few]"
        )
    return deliver("take", ops.take(input, index), out, input)


def _put_elements(name: str, input: Tensor, index: Tensor, source: Tensor, accumulate: bool, in_place: bool) -> Tensor:
    index = as_index(name, input, index)
    source = as_tensor(name, "source", input, source)
    require_same_dtype(name, input, source)
    if numel(source) != numel(index):
        raise IndexError(
            f"{name}(): Expected source and index to have the same number of elements, but got source.numel() "
            f"= {numel(source)}, index.numel() = {numel(index)}. Expand the source to the index. [nd-shape]"
        )
    if tuple(source.shape) != tuple(index.shape):
        source = shape.reshape(source, shape=tuple(index.shape))
    return run(ops.put, in_place, input, index, source, accumulate=bool(accumulate))


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `input` with values put (or added) at positions in the flattened tensor; negative ones count from the end.

    Args:
        input: tensor whose other elements are kept.
        index: integers.
        source: values of the dtype of `input`, as many as `index` has elements.
        accumulate: whether values are added to the old ones.

    >>> import ndgrad
    >>> ndgrad.put(ndgrad.zeros(2, 2), ndgrad.tensor([1, -1]), ndgrad.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [0., 6.]])
    """
    return _put_elements("put", input, index, source, accumulate, False)


def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """In-place version of `put`.

    Args:
        self: tensor to change.
        index: integers.
        source: values of the dtype of `self`, as many as `index` has elements.
        accumulate: whether values are added to the old ones.

    >>> import ndgrad
    >>> ndgrad.zeros(2).put_(ndgrad.tensor([1, 1]), ndgrad.ones(2), accumulate=True)
    tensor([0., 2.])
    """
    return _put_elements("put_", self, index, source, accumulate, True)


@both_worlds
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """As `gather`, with input and indices broadcast against each other; without `dim`, on the flattened tensor.

    Args:
        input: tensor to select from.
        indices: integers, with as many dimensions as `input`. Negative ones count from the end.
        dim: dimension along which elements are selected. None means the flattened tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[3.0, 1.0, 2.0]])
    >>> ndgrad.take_along_dim(x, x.argsort(dim=1), dim=1)
    tensor([[1., 2., 3.]])
    """
    indices = as_index("take_along_dim", input, indices, argument="indices")
    if dim is None:
        return deliver("take_along_dim", ops.take(input, shape.reshape(indices, shape=(numel(indices),))), out, input)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} "
            f"dimensions for input, and {indices.ndim} dimensions for indices. Unsqueeze the shorter one. [nd-ndim]"
        )
    dim = as_dim(dim, input.ndim)
    x, indices = as_line(input), as_line(indices)
    rest_x, rest_i = (tuple(n for d, n in enumerate(t.shape) if d != dim) for t in (x, indices))
    try:
        rest = np.broadcast_shapes(rest_x, rest_i)
    except ValueError:
        raise RuntimeError(
            f"take_along_dim(): input {list(x.shape)} and indices {list(indices.shape)} do not broadcast apart from "
            f"dim {dim}: The size of tensor a must match the size of tensor b where neither is 1. Expand one of them. "
            "[nd-broadcast]"
        ) from None
    x = _expand(x, (*rest[:dim], x.shape[dim], *rest[dim:]))
    indices = _expand(indices, (*rest[:dim], indices.shape[dim], *rest[dim:]))
    result = ops.gather(x, ops.wrap_index(indices, length=x.shape[dim]), dim=dim)
    return deliver("take_along_dim", result if input.ndim else shape.reshape(result, shape=()), out, input)
