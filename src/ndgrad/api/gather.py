"""gather, scatter and their kin under torch's names.

All of them follow the tensor's own rules about an index: it is a tensor of integers, within bounds, and (but for take, put,
index_fill, index_put and take_along_dim) not negative. Everything is checked before anything is written, and most in-place forms
are the same function with `write` in the place of the call: see `_run`.

With repeated indices, the functions that overwrite (scatter, index_copy, put, index_put) keep the last value, and give the
gradient of that place to all values that were meant for it, as torch does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndgrad.api.arguments import as_dim, both_worlds
from ndgrad.api.index import put_at, with_put
from ndgrad.api.reduce import deliver
from ndgrad.arrays.library import is_raw_array, library_of
from ndgrad.arrays.scatter import check_range
from ndgrad.autograd.inplace import write
from ndgrad.autograd.variable import Variable, np_dtype, wrap
from ndgrad.ops import arithmetic, cast, fill, shape, slices, triangle
from ndgrad.ops import gather as ops
from ndgrad.ops import index as index_ops

_IN_PLACE = (
    "scatter_", "scatter_add_", "scatter_reduce_", "index_add_", "index_copy_", "index_fill_", "index_put_", "index_reduce_",
    "masked_fill_", "masked_scatter_", "put_",
)  # fmt: skip
__all__ = [
    "gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add", "index_copy", "index_fill", "index_put",
    "index_put_", "index_reduce", "masked_fill", "masked_select", "masked_scatter", "take", "take_along_dim", "put",
    "select_scatter", "slice_scatter", "diagonal_scatter", "nonzero", "argwhere", "embedding",
]  # fmt: skip
METHODS = (*(name for name in __all__ if name not in ("index_put_", "embedding")), *_IN_PLACE)


# ----- arguments -----------------------------------------------------------------------------------------------------


def _tensor(name: str, argument: str, like: Any, value: Any) -> Any:
    if isinstance(value, Variable):
        return value
    if is_raw_array(value):
        return wrap(like.face, value)
    raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}. Wrap it in ndgrad.tensor(...).")


def as_index(name: str, like: Any, index: Any, error: type[Exception] = RuntimeError, argument: str = "index") -> Any:
    """An index tensor, of 64-bit integers unless it is of 32."""
    index = _tensor(name, argument, like, index)
    dtype = np_dtype(index)
    if dtype.kind not in "iu":
        raise error(f"{name}(): Expected dtype int32/int64 for index, and it is {dtype} (shape {tuple(index.shape)}). Convert it with .long().")
    return index if dtype.itemsize >= 4 and dtype.kind == "i" else cast.cast(index, dtype=np.dtype(np.int64))


def _vector(name: str, like: Any, index: Any, error: type[Exception] = RuntimeError) -> Any:
    """An index of at most one dimension, as one of exactly one."""
    index = as_index(name, like, index, error)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, and has shape {tuple(index.shape)}. Flatten it, or use gather().")
    return _line(index)


def _line(t: Any) -> Any:
    return t if t.ndim else shape.reshape(t, shape=(1,))


def _numel(t: Any) -> int:
    return math.prod(t.shape)


def _same_dtype(name: str, input: Any, source: Any, error: type[Exception] = RuntimeError) -> None:
    if np_dtype(input) != np_dtype(source):
        raise error(
            f"{name}(): Expected self.dtype to be equal to src.dtype, and they are {np_dtype(input)} and {np_dtype(source)}. "
            "Convert one with .to()."
        )


def _number(name: str, input: Any, value: Any) -> Any:
    """A number to be written into `input`: floats are cut to integers for an integer tensor, what cannot be kept raises."""
    dtype = np_dtype(input)
    if not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(f"{name}(): argument 'value' must be Tensor or Number, not {type(value).__name__}. Give one of these.")
    if isinstance(value, (complex, np.complexfloating)) and dtype.kind != "c":
        if value.imag:
            raise RuntimeError(f"{name}(): value cannot be converted to type {dtype} without overflow: {value} is complex. Give its .real.")
        value = value.real
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value != value or not limits.min <= value <= limits.max:
            raise RuntimeError(
                f"{name}(): value cannot be converted to type {dtype} without overflow: it is {value}. Give one from {limits.min} "
                f"to {limits.max}, or convert the tensor."
            )
        return int(value)
    return bool(value) if dtype.kind == "b" else value


def _fill_value(name: str, input: Any, value: Any) -> Any:
    """The value of masked_fill and index_fill: a number, or a 0-d tensor, which then gets a gradient."""
    if is_raw_array(value) and not isinstance(value, Variable):
        value = wrap(input.face, value)
    if not isinstance(value, Variable):
        return _number(name, input, value)
    if value.ndim:
        raise RuntimeError(
            f"{name}_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s). "
            "Use where() to fill with many values."
        )
    dtype = np_dtype(input)
    if np_dtype(value).kind == "c" and dtype.kind != "c":
        raise RuntimeError(f"{name}(): value cannot be converted to type {dtype} without overflow: it is complex. Give its .real.")
    return value if np_dtype(value) == dtype else cast.cast(value, dtype=dtype)


def _run(op: Any, in_place: bool, input: Any, *args: Any, **settings: Any) -> Any:
    return write(op, input, args, settings) if in_place else op(input, *args, **settings)


# ----- gather and scatter --------------------------------------------------------------------------------------------------


def _check_index(name: str, dim: int, index: Any, limits: dict[str, Any]) -> None:
    """Ranks and sizes of an index along `dim`, and of what it indexes (where `dim` is free) or takes from."""
    for what, t in limits.items():
        if len(t.shape) != len(index.shape):
            raise RuntimeError(
                f"{name}(): Index tensor must have the same number of dimensions as {what} tensor: their shapes are "
                f"{list(index.shape)} and {list(t.shape)}. Reshape the index; expand() repeats it without copying."
            )
        for d, (n, limit) in enumerate(zip(index.shape, t.shape, strict=True)):
            if n > limit and (d != dim or what == "src"):
                apart = "" if what == "src" else f" apart from dimension {dim}"
                raise RuntimeError(
                    f"{name}(): Size does not match at dimension {d}: expected index {list(index.shape)} to be no larger than {what} "
                    f"{list(t.shape)}{apart}. Cut the index to that size."
                )


@both_worlds
def gather(input: Any, dim: Any, index: Any, *, sparse_grad: bool = False, out: Any = None) -> Any:
    """Elements picked along `dim`: for a matrix and dim 1, result[i, j] = input[i, index[i, j]].

    `sparse_grad` is accepted, and the gradient is dense all the same.

    >>> import ndgrad
    >>> ndgrad.gather(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, ndgrad.tensor([[1], [0]]))
    tensor([[2.],
            [3.]])
    """
    dim = as_dim(dim, input.ndim)
    index = as_index("gather", input, index)
    if not _numel(index):
        return deliver("gather", ops.take(input, index), out, input)
    x, along = _line(input), _line(index)
    _check_index("gather", dim, along, {"input": x})
    result = ops.gather(x, along, dim=dim)
    if not index.ndim:
        result = shape.reshape(result, shape=())
    return deliver("gather", result, out, input)


def _scatter_arguments(name: str, input: Any, dim: Any, index: Any, source: Any) -> tuple[Any, ...]:
    """Target, dim, index and source as the ops want them: all of one rank, the source cut to the index."""
    dim = as_dim(dim, input.ndim)
    index = _line(as_index(name, input, index))
    target = _line(input)
    if not isinstance(source, Variable):
        if _numel(index):
            _check_index(name, dim, index, {"self": target})
        return target, dim, index, source
    _same_dtype(name, input, source)
    source = _line(source)
    if not _numel(index):
        empty = (0,) * target.ndim
        return target, dim, shape.reshape(index, shape=empty), index_ops.getitem(shape.reshape(source, shape=(-1,)), index=(slice(0),)).reshape(empty)
    _check_index(name, dim, index, {"self": target, "src": source})
    if tuple(source.shape) != tuple(index.shape):
        source = index_ops.getitem(source, index=tuple(slice(n) for n in index.shape))
    return target, dim, index, source


def _scatter(name: str, input: Any, dim: Any, index: Any, src: Any, value: Any, reduce: Any, in_place: bool) -> Any:
    if (src is None) == (value is None):
        raise TypeError(f"{name}() takes a tensor 'src' or a number 'value', and got {'neither' if src is None else 'both'}. Give one.")
    source = src if value is None else value
    if is_raw_array(source) and not isinstance(source, Variable):
        source = wrap(input.face, source)
    if not isinstance(source, Variable):
        source = _number(name, input, source)
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"{name}(): reduce argument must be either add or multiply, and is {reduce!r}. scatter_reduce() knows more.")
    target, dim, index, source = _scatter_arguments(name, input, dim, index, source)
    if not _numel(index):
        return input if in_place else cast.clone(input)
    if reduce == "multiply":
        if not isinstance(source, Variable):
            source = wrap(input.face, np.full(tuple(index.shape), source, np_dtype(input)))
        result = _reduce_prod(target, index, source, dim, True, in_place)
    else:
        result = _run(ops.scatter_add if reduce == "add" else ops.scatter, in_place, target, index, source, dim=dim)
    return _shaped(input, result, in_place)


def _shaped(input: Any, result: Any, in_place: bool) -> Any:
    """What was computed for a 0-d tensor as a line of one element, in the tensor's shape."""
    if in_place:
        return input
    return result if input.ndim else shape.reshape(result, shape=())


@both_worlds
def scatter(
    input: Any, dim: Any, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None, out: Any = None
) -> Any:
    """`input` with values put along `dim`: for a matrix and dim 1, result[i, index[i, j]] = src[i, j] (or one number)."""
    return deliver("scatter", _scatter("scatter", input, dim, index, src, value, reduce, False), out, input, src)


@both_worlds
def scatter_(self: Any, dim: Any, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Any:
    """In-place scatter."""
    return _scatter("scatter_", self, dim, index, src, value, reduce, True)


def _scatter_add(name: str, input: Any, dim: Any, index: Any, src: Any, in_place: bool) -> Any:
    target, dim, index, src = _scatter_arguments(name, input, dim, index, _tensor(name, "src", input, src))
    return _shaped(input, _run(ops.scatter_add, in_place, target, index, src, dim=dim), in_place)


@both_worlds
def scatter_add(input: Any, dim: Any, index: Any, src: Any, *, out: Any = None) -> Any:
    """`input` with values added along `dim`, every repetition counted: result[i, index[i, j]] += src[i, j]."""
    return deliver("scatter_add", _scatter_add("scatter_add", input, dim, index, src, False), out, input, src)


@both_worlds
def scatter_add_(self: Any, dim: Any, index: Any, src: Any) -> Any:
    """In-place scatter_add."""
    return _scatter_add("scatter_add_", self, dim, index, src, True)


# ----- scatter_reduce -------------------------------------------------------------------------------------------------------

_EXTREMES = {"amax": True, "amin": False, "max": True, "min": False}


def _reduce_sum(target: Any, index: Any, source: Any, dim: int, include_self: bool, in_place: bool) -> Any:
    if not include_self:
        target = _run(ops.scatter, in_place, target, index, 0, dim=dim)
    return _run(ops.scatter_add, in_place, target, index, source, dim=dim)


def _reduce_prod(target: Any, index: Any, source: Any, dim: int, include_self: bool, in_place: bool) -> Any:
    factor = ops.scatter_prod(source, index, dim=dim, shape=tuple(target.shape))
    if not include_self:
        target = _run(ops.scatter, in_place, target, index, 1, dim=dim)
    return _run(arithmetic.mul, in_place, target, factor)


def _reduce_mean(target: Any, index: Any, source: Any, dim: int, include_self: bool, in_place: bool) -> Any:
    dtype = np_dtype(target)
    none = wrap(target.face, np.full(tuple(target.shape), include_self, dtype))
    count = ops.scatter_add(none, index, wrap(target.face, np.ones(tuple(index.shape), dtype)), dim=dim)
    one = index_ops.masked_fill(count, count == 0, 1)
    total = _reduce_sum(target, index, source, dim, include_self, in_place)
    return _run(arithmetic.div if dtype.kind in "fc" else arithmetic.floor_divide, in_place, total, one)


def _scatter_reduce(name: str, input: Any, dim: Any, index: Any, src: Any, reduce: str, include_self: bool, in_place: bool) -> Any:
    if reduce not in ("sum", "prod", "mean", *_EXTREMES):
        raise RuntimeError(f"{name}(): reduce argument must be either sum, prod, mean, amax or amin, got {reduce!r}. Give one of these.")
    target, dim, index, src = _scatter_arguments(name, input, dim, index, _tensor(name, "src", input, src))
    if reduce in _EXTREMES:
        if np_dtype(input).kind == "c":
            raise NotImplementedError(f"{name}(): {reduce} is not defined for {np_dtype(input)}: complex numbers have no order. Reduce abs().")
        settings = {"dim": dim, "largest": _EXTREMES[reduce], "include_self": include_self}
        result = _run(ops.scatter_extreme, in_place, target, index, src, **settings)
    else:
        how = {"sum": _reduce_sum, "prod": _reduce_prod, "mean": _reduce_mean}[reduce]
        result = how(target, index, src, dim, include_self, in_place)
    return _shaped(input, result, in_place)


@both_worlds
def scatter_reduce(input: Any, dim: Any, index: Any, src: Any, reduce: str, *, include_self: bool = True, out: Any = None) -> Any:
    """`input` with values combined along `dim` by sum, prod, mean, amax or amin.

    Without `include_self` a place that is indexed forgets its old value first. Where several values are the largest (or smallest),
    they share the gradient alike.
    """
    result = _scatter_reduce("scatter_reduce", input, dim, index, src, reduce, include_self, False)
    return deliver("scatter_reduce", result, out, input, src)


@both_worlds
def scatter_reduce_(self: Any, dim: Any, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place scatter_reduce."""
    return _scatter_reduce("scatter_reduce_", self, dim, index, src, reduce, include_self, True)


# ----- slices along a dimension ---------------------------------------------------------------------------------------------


@both_worlds
def index_select(input: Any, dim: Any, index: Any, *, out: Any = None) -> Any:
    """The slices along `dim` that a 1-d index names."""
    dim = as_dim(dim, input.ndim)
    index = _vector("index_select", input, index)
    if not input.ndim and index.shape[0] != 1:
        raise IndexError(f"index_select(): a 0-d tensor can be indexed once, and the index has {index.shape[0]} entries. Use expand().")
    result = slices.index_select(_line(input), index, dim=dim)
    return deliver("index_select", result if input.ndim else shape.reshape(result, shape=()), out, input)


def _slices(name: str, input: Any, dim: Any, index: Any, source: Any, count_error: type[Exception]) -> tuple[Any, ...]:
    """Target, dim, index and source of index_add, index_copy and index_reduce."""
    dim = as_dim(dim, input.ndim)
    index = _vector(name, input, index)
    source = _tensor(name, "source", input, source)
    _same_dtype(name, input, source)
    if source.ndim != input.ndim and source.ndim and input.ndim:
        raise RuntimeError(_shape_message(name, input, source))
    target, source = _line(input), _line(source)
    if source.shape[dim] != index.shape[0]:
        raise count_error(
            f"{name}(): Number of indices ({index.shape[0]}) should be equal to source.size(dim): ({source.shape[dim]}), for dim: {dim}. "
            "Give one slice of the source per index."
        )
    rest = [d for d in range(target.ndim) if d != dim]
    if source.ndim != target.ndim or any(source.shape[d] != target.shape[d] for d in rest):
        raise RuntimeError(_shape_message(name, input, source))
    return target, dim, index, source


def _shape_message(name: str, input: Any, source: Any) -> str:
    return (
        f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
        f"{list(input.shape)} source.shape = {list(source.shape)}. Expand the source first."
    )


def _index_add(name: str, input: Any, dim: Any, index: Any, source: Any, alpha: Any, in_place: bool) -> Any:
    target, dim, index, source = _slices(name, input, dim, index, source, RuntimeError)
    if alpha != 1:
        source = source * _number(name, source, alpha)
    return _shaped(input, _run(slices.index_add, in_place, target, index, source, dim=dim), in_place)


@both_worlds
def index_add(input: Any, dim: Any, index: Any, source: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """`input` with slices of `source` (times alpha) added to those that a 1-d index names."""
    return deliver("index_add", _index_add("index_add", input, dim, index, source, alpha, False), out, input, source)


@both_worlds
def index_add_(self: Any, dim: Any, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """In-place index_add."""
    return _index_add("index_add_", self, dim, index, source, alpha, True)


def _index_copy(name: str, input: Any, dim: Any, index: Any, source: Any, in_place: bool) -> Any:
    target, dim, index, source = _slices(name, input, dim, index, source, IndexError)
    return _shaped(input, _run(slices.index_copy, in_place, target, index, source, dim=dim), in_place)


@both_worlds
def index_copy(input: Any, dim: Any, index: Any, source: Any, *, out: Any = None) -> Any:
    """`input` with slices of `source` in the place of those that a 1-d index names."""
    return deliver("index_copy", _index_copy("index_copy", input, dim, index, source, False), out, input, source)


@both_worlds
def index_copy_(self: Any, dim: Any, index: Any, source: Any) -> Any:
    """In-place index_copy."""
    return _index_copy("index_copy_", self, dim, index, source, True)


def _index_fill(name: str, input: Any, dim: Any, index: Any, value: Any, in_place: bool) -> Any:
    dim = as_dim(dim, input.ndim)
    index = as_index(name, input, index, IndexError)
    if index.ndim > 1:
        raise RuntimeError(f"{name}(): Index has to be a vector/scalar, and has shape {tuple(index.shape)}. Flatten it.")
    value = _fill_value("index_fill", input, value)
    return _shaped(input, _run(slices.index_fill, in_place, _line(input), _line(index), value, dim=dim), in_place)


@both_worlds
def index_fill(input: Any, dim: Any, index: Any, value: Any) -> Any:
    """`input` with one value in the slices that a 1-d index names."""
    return _index_fill("index_fill", input, dim, index, value, False)


@both_worlds
def index_fill_(self: Any, dim: Any, index: Any, value: Any) -> Any:
    """In-place index_fill."""
    return _index_fill("index_fill_", self, dim, index, value, True)


def _index_reduce(name: str, input: Any, dim: Any, index: Any, source: Any, reduce: str, include_self: bool, in_place: bool) -> Any:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"{name}(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}. index_add() sums.")
    target, dim, index, source = _slices(name, input, dim, index, source, IndexError)
    if not isinstance(index._array, Variable):
        check_range(library_of(index._array), name, index._array, target.shape[dim], dim)
    lined = shape.reshape(index, shape=(index.shape[0], *(1,) * (target.ndim - dim - 1)))
    full = shape.expand(lined, shape=tuple(source.shape))
    result = _scatter_reduce(name, target, dim, full, source, reduce, include_self, in_place)
    return _shaped(input, result, in_place)


@both_worlds
def index_reduce(input: Any, dim: Any, index: Any, source: Any, reduce: str, *, include_self: bool = True, out: Any = None) -> Any:
    """`input` with slices of `source` combined into those that a 1-d index names, by prod, mean, amax or amin."""
    return deliver("index_reduce", _index_reduce("index_reduce", input, dim, index, source, reduce, include_self, False), out, input, source)


@both_worlds
def index_reduce_(self: Any, dim: Any, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place index_reduce."""
    return _index_reduce("index_reduce_", self, dim, index, source, reduce, include_self, True)


# ----- index_put --------------------------------------------------------------------------------------------------------------


def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """`self[indices] = values` in place, or with `accumulate` `+=`, in which every repetition counts."""
    items, values = _index_put_arguments("index_put_", self, indices, values)
    put_at(self, items, values, accumulate=bool(accumulate))
    return self


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of `input` with values put (or added) at the indexed places."""
    items, values = _index_put_arguments("index_put", input, indices, values)
    return with_put(input, items, values, accumulate=bool(accumulate))


def _index_put_arguments(name: str, input: Any, indices: Any, values: Any) -> tuple[tuple[Any, ...], Any]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}. Put it into a tuple.")
    for place, item in enumerate(indices):
        if not isinstance(item, Variable) and not is_raw_array(item):
            raise TypeError(
                f"{name}(): expected Tensor as element {place} in argument 0, but got {type(item).__name__}. Use x[...] = for slices "
                "and lists."
            )
    values = _tensor(name, "values", input, values)
    if np_dtype(values) != np_dtype(input):
        raise RuntimeError(
            f"{name}(): Index put requires the source and destination dtypes match, got {np_dtype(input)} for the destination and "
            f"{np_dtype(values)} for the source. Convert the values with .to()."
        )
    return tuple(indices), values


# ----- masks ------------------------------------------------------------------------------------------------------------------


def _mask(name: str, input: Any, mask: Any, in_place: bool) -> Any:
    mask = _tensor(name, "mask", input, mask)
    if np_dtype(mask).kind != "b":
        raise RuntimeError(f"{name}(): expected BoolTensor for mask: only supports boolean masks, but got mask with dtype {np_dtype(mask)}. Use .bool().")
    try:
        common = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    except ValueError:
        raise RuntimeError(
            f"{name}(): the shapes {list(input.shape)} of the tensor and {list(mask.shape)} of the mask do not broadcast: The size of "
            "tensor a must match the size of tensor b in every dimension where neither is 1. Reshape the mask."
        ) from None
    if in_place and common != tuple(input.shape):
        raise RuntimeError(
            f"{name}(): output with shape {list(input.shape)} doesn't match the broadcast shape {list(common)}. "
            f"Use {name.rstrip('_')}(), which makes a new tensor."
        )
    return mask


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """`value` where the mask is true, `input` elsewhere."""
    return index_ops.masked_fill(input, _mask("masked_fill", input, mask, False), _fill_value("masked_fill", input, value))


def masked_fill_(self: Any, mask: Any, value: Any) -> Any:
    """In-place masked_fill."""
    return write(index_ops.masked_fill, self, (_mask("masked_fill_", self, mask, True), _fill_value("masked_fill", self, value)), {})


def masked_select(input: Any, mask: Any, *, out: Any = None) -> Any:
    """The elements where the mask is true, as a 1-d tensor."""
    mask = _mask("masked_select", input, mask, False)
    common = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return deliver("masked_select", ops.masked_select(_expanded(input, common), _expanded(mask, common)), out, input)


def _expanded(t: Any, to: tuple[int, ...]) -> Any:
    return t if tuple(t.shape) == to else shape.expand(t, shape=to)


def _masked_scatter(name: str, input: Any, mask: Any, source: Any, in_place: bool) -> Any:
    mask = _mask(name, input, mask, in_place)
    source = _tensor(name, "source", input, source)
    _same_dtype(name, input, source)
    common = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    mask = _expanded(mask, common)
    if not isinstance(mask._array, Variable):
        wanted = int(np.count_nonzero(mask._array))
        if wanted > _numel(source):
            raise RuntimeError(
                f"{name}(): Number of elements of source < number of ones in mask: {_numel(source)} < {wanted}. Give a longer source."
            )
    if not _numel(source):
        return input if in_place else cast.clone(input)
    flat = shape.reshape(source, shape=(_numel(source),))
    # the number of a true element among the true ones is its place in the source; elsewhere any place will do
    place = ops.mask_positions(mask)
    return _run(index_ops.masked_fill, in_place, input, mask, ops.take(flat, place))


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """`input` with the elements of `source`, in order, where the mask is true."""
    return _masked_scatter("masked_scatter", input, mask, source, False)


def masked_scatter_(self: Any, mask: Any, source: Any) -> Any:
    """In-place masked_scatter."""
    return _masked_scatter("masked_scatter_", self, mask, source, True)


def nonzero(input: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """Where the elements are not zero: one row per element, or, as a tuple, one index tensor per dimension."""
    if not as_tuple:
        return deliver("nonzero", index_ops.nonzero(input), out, input)
    places = index_ops.nonzero(_line(input))
    return tuple(index_ops.getitem(places, index=(slice(None), d)) for d in range(max(input.ndim, 1)))


def argwhere(input: Any) -> Any:
    """Where the elements are not zero, one row per element."""
    return index_ops.nonzero(input)


# ----- take and put -------------------------------------------------------------------------------------------------------------


def take(input: Any, index: Any, *, out: Any = None) -> Any:
    """Elements by their position in the flattened tensor, in the shape of the index."""
    index = as_index("take", input, index)
    if _numel(index) and not _numel(input):
        raise IndexError(f"take(): tried to take from an empty tensor (shape {tuple(input.shape)}). Look at numel() first.")
    return deliver("take", ops.take(input, index), out, input)


def _put(name: str, input: Any, index: Any, source: Any, accumulate: bool, in_place: bool) -> Any:
    index = as_index(name, input, index)
    source = _tensor(name, "source", input, source)
    _same_dtype(name, input, source)
    if _numel(source) != _numel(index):
        raise IndexError(
            f"{name}(): Expected source and index to have the same number of elements, but got source.numel() = {_numel(source)}, "
            f"index.numel() = {_numel(index)}. Expand the source to the index."
        )
    if tuple(source.shape) != tuple(index.shape):
        source = shape.reshape(source, shape=tuple(index.shape))
    return _run(ops.put, in_place, input, index, source, accumulate=bool(accumulate))


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`input` with values put (or added) at positions in the flattened tensor."""
    return _put("put", input, index, source, accumulate, False)


def put_(self: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """In-place put."""
    return _put("put_", self, index, source, accumulate, True)


@both_worlds
def take_along_dim(input: Any, indices: Any, dim: Any = None, *, out: Any = None) -> Any:
    """As gather, with input and indices broadcast against each other; without `dim`, of the flattened tensor."""
    indices = as_index("take_along_dim", input, indices, argument="indices")
    if dim is None:
        return deliver("take_along_dim", ops.take(input, shape.reshape(indices, shape=(_numel(indices),))), out, input)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} dimensions for input, "
            f"and {indices.ndim} dimensions for indices. Unsqueeze the shorter one."
        )
    dim = as_dim(dim, input.ndim)
    x, indices = _line(input), _line(indices)
    rest_x, rest_i = (tuple(n for d, n in enumerate(t.shape) if d != dim) for t in (x, indices))
    try:
        rest = np.broadcast_shapes(rest_x, rest_i)
    except ValueError:
        raise RuntimeError(
            f"take_along_dim(): input {list(x.shape)} and indices {list(indices.shape)} do not broadcast apart from dim {dim}: The size of "
            "tensor a must match the size of tensor b where neither is 1. Expand one of them."
        ) from None
    x = _expanded(x, (*rest[:dim], x.shape[dim], *rest[dim:]))
    indices = _expanded(indices, (*rest[:dim], indices.shape[dim], *rest[dim:]))
    result = ops.gather(x, ops.wrap_index(indices, length=x.shape[dim]), dim=dim)
    return deliver("take_along_dim", result if input.ndim else shape.reshape(result, shape=()), out, input)


# ----- a part replaced ------------------------------------------------------------------------------------------------------------


def _replaced(name: str, input: Any, src: Any, index: tuple[Any, ...]) -> Any:
    src = _tensor(name, "src", input, src)
    part = tuple(index_ops.getitem(input, index=index).shape)
    if tuple(src.shape) != part:
        raise RuntimeError(
            f"{name}(): expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(part)}. Expand the source."
        )
    if np_dtype(src) != np_dtype(input):
        src = cast.cast(src, dtype=np_dtype(input))
    return slices.slice_scatter(input, src, index=index)


@both_worlds
def select_scatter(input: Any, src: Any, dim: Any, index: int) -> Any:
    """A copy of `input` in which `src` stands for select(dim, index)."""
    dim = as_dim(dim, input.ndim)
    size = input.shape[dim] if input.ndim else 0
    if not -size <= index < size:
        raise IndexError(f"select_scatter(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}. Check the index.")
    return _replaced("select_scatter", input, src, (*(slice(None),) * dim, int(index)))


@both_worlds
def slice_scatter(input: Any, src: Any, dim: Any = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """A copy of `input` in which `src` stands for the slice start:end:step along `dim`."""
    dim = as_dim(dim, input.ndim)
    if step <= 0:
        raise RuntimeError(f"slice_scatter(): slice step must be positive, and is {step}. Flip the tensors instead.")
    return _replaced("slice_scatter", input, src, (*(slice(None),) * dim, slice(start, end, step)))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    """A copy of `input` in which `src` stands for diagonal(offset, dim1, dim2)."""
    src = _tensor("diagonal_scatter", "src", input, src)
    first, second = as_dim(dim1, input.ndim, "dim1"), as_dim(dim2, input.ndim, "dim2")
    part = triangle.diagonal(input, offset=offset, dim0=first, dim1=second)
    if tuple(src.shape) != tuple(part.shape):
        raise RuntimeError(
            f"diagonal_scatter(): expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(part.shape)}. Expand the source."
        )
    along = np.arange(part.shape[-1])
    rows, columns = wrap(input.face, along + max(-offset, 0)), wrap(input.face, along + max(offset, 0))
    order = (first, second, *(d for d in range(input.ndim) if d not in (first, second)))
    values = shape.permute(src, dims=(src.ndim - 1, *range(src.ndim - 1)))
    out = index_ops.index_put(shape.permute(input, dims=order), values, rows, columns, accumulate=False)
    return shape.permute(out, dims=shape.inverse_permutation(order))


# ----- embedding ----------------------------------------------------------------------------------------------------------------


def embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """Rows of a matrix.

    The row `padding_idx` (none if negative) gets no gradient. With `scale_grad_by_freq` the gradient of a row is divided by the
    number of times it was looked up. `sparse` is accepted for torch's sake: the gradient is a dense array in any case, which is
    quicker here up to very large matrices, and equal.
    """
    indices = as_index("embedding", weight, indices, argument="indices")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding(): 'weight' must be 2-D, and has shape {tuple(weight.shape)}. Reshape it to rows of vectors.")
    if padding_idx >= weight.shape[0]:
        raise RuntimeError(f"embedding(): padding_idx {padding_idx} is not within the {weight.shape[0]} rows of the weight. Give one that is.")
    return slices.embedding(
        weight, indices, padding_idx=None if padding_idx < 0 else int(padding_idx), scale_grad_by_freq=bool(scale_grad_by_freq)
    )
