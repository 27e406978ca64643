"""Reading and writing by index, for `Tensor` and `Array`.

An index is split into a basic part (ints, slices, None), which is a view, and arrays, which the `index` op applies to
leading dimensions: the view's indexed dimensions move to the front, are indexed, and the result moves to the position
that the rules of indexing prescribe. The two classes differ in one point: next to arrays, NumPy treats an int as an
array, while torch applies it first.
"""

from __future__ import annotations

import functools
import operator
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.batched_parts import Picked, note_pick
from ndgrad._src.core.borrowed_memory import wrap_lent
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import process
from ndgrad._src.core.part_writes import write_part
from ndgrad._src.core.subclass import KNOWN
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, shape_of, wrap, wrap_like
from ndgrad._src.foundations import registry
from ndgrad._src.ops import arithmetic, cast, fill, join, selection, slices
from ndgrad._src.ops import index as ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.ops import split as split_ops
from ndgrad._src.tensor.public import UNASKED, answer, asks_itself
from ndgrad._src.tensor.storage import batch_dims, is_open

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Index, Tensor, Tensors

#: Installed on the tensor class under these names.
RENAMED_METHODS = {"__getitem__": "getitem", "__setitem__": "setitem"}


class Parsed(NamedTuple):
    """A parsed index."""

    basic: tuple[Any, ...]  # ints, slices, None, without Ellipsis
    arrays: list[Tensor]  # integer tensors
    positions: list[int]  # dimensions, after the basic part, that the arrays index
    adjacent: bool  # True if the arrays are next to each other


def _is_int(item: object) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _is_basic(item: object) -> bool:
    return _is_int(item) or item is None or item is Ellipsis or isinstance(item, slice)


def replace_single_integers(index: Any) -> Any:
    """Replace single integers of an index by ints: NumPy's scalars, and 0-d integer tensors, which both torch and
    NumPy treat as ints.

    An index that gives a view with an int then also gives one with a computed int (`a[np.argmax(a)]`). Inside vmap, a
    number that differs from sample to sample stays an array. For an `Array`, so does a number made as an array
    (`np.array(1)`), because NumPy copies there.
    """
    if index.__class__ is not tuple:
        return _number(index)
    for item in index:
        if isinstance(item, (Variable, np.integer)):
            return tuple([_number(i) for i in index])
    return index


def read_bytes_as_masks(t: Tensor, index: Any) -> Any:
    """Replace uint8 tensors of an index by masks, with a warning: torch's meaning, from before it had bool. For an
    `Array`, they are positions as in NumPy.
    """
    if t.is_numpy_type:
        return index
    several = index.__class__ is tuple or index.__class__ is list
    if not any(map(_is_of_bytes, index)) if several else not _is_of_bytes(index):
        return index
    warnings.warn(
        "indexing with dtype uint8 is now deprecated, please use a dtype bool instead: a tensor of bytes is a mask. "
        "Convert it with .bool(), or positions with .long().",
        UserWarning,
        stacklevel=3,
    )
    return type(index)(_as_mask(t, item) for item in index) if several else _as_mask(t, index)


def _is_of_bytes(item: object) -> bool:
    if isinstance(item, Variable):
        return np_dtype(item) == np.uint8
    return isinstance(item, np.ndarray) and item.dtype == np.uint8


def _as_mask(t: Tensor, item: Any) -> Any:
    if not _is_of_bytes(item):
        return item
    if isinstance(item, np.ndarray):
        return wrap(t.tensor_type, item.astype(bool))
    return cast.cast(item, dtype=np.dtype(bool))


def _number(item: Any) -> Any:
    if isinstance(item, np.integer):
        return int(item)
    if (
        not isinstance(item, Variable)
        or item.ndim
        or item.own_dispatch
        or np_dtype(item).kind not in "iu"
        or batch_dims(item)
    ):
        return item
    if item._meta is not None and item._meta.indexes_as_array:
        return item
    array = innermost_array(item)
    return item if getattr(array, "is_meta", False) else int(array)


def _is_array_of_ints(item: object) -> bool:
    return isinstance(item, Variable) and np_dtype(item).kind == "i" and item.ndim > 0


def _plain_items(index: Any) -> tuple[Any, ...] | None:
    """Return the items of an index of Python ints, slices of ints, None and Ellipsis: by far the commonest case,
    without conversions."""
    items = index if index.__class__ is tuple else (index,)
    for item in items:
        kind = item.__class__
        if kind is slice:
            if not (
                (item.start is None or item.start.__class__ is int)
                and (item.stop is None or item.stop.__class__ is int)
                and (item.step is None or item.step.__class__ is int)
            ):
                return None
        elif kind is not int and item is not None and item is not Ellipsis:
            return None
    return items


@asks_itself("__getitem__")
def getitem(self: Tensor, index: Index) -> Tensor:
    """`self[index]`: a view for ints, slices, None and Ellipsis, else a new tensor.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1, 2], [3, 4]])
    >>> x[0], x[:, 1], x[x > 2]
    (tensor([1, 2]), tensor([2, 4]), tensor([3, 4]))
    """
    if ((process.overriding and process.busy) or self.__class__ not in KNOWN) and (
        other := answer(getitem, (self, index), {})
    ) is not UNASKED:
        return other
    if index.__class__ is int:
        return select(self, index)
    plain = _plain_items(index)
    if plain is not None:
        try:
            return ops.getitem.eager(self, index=plain)
        except IndexError as error:
            raise _index_error(self, plain, error) from None
    known = index.__class__ in KNOWN or (isinstance(index, tuple) and KNOWN.issuperset(map(type, index)))
    if not known:
        if (other := answer(getitem, (self, index), {})) is not UNASKED:
            return other
    index = read_bytes_as_masks(self, index)
    found = _index_by_arrays(self, index)
    return _index_by_items(self, _items(self, replace_single_integers(index))) if found is None else found


def _index_by_arrays(self: Tensor, index: Index) -> Any:
    """Return `self[index]` for the commonest indices with arrays, by special ops; None if it must be parsed."""
    if isinstance(index, (Variable, np.ndarray)):
        array: Any = index if isinstance(index, Variable) else wrap_lent(self.tensor_type, index)
        kind, dims = np_dtype(array).kind, array.ndim
        if kind == "i" and dims and self.ndim:
            return ops.rows.eager(self, array)
        if kind == "b" and dims and shape_of(self)[:dims] == shape_of(array):
            return ops.index.eager(self, *_nonzero(array))
        if not dims and (number := _number(index)).__class__ is int:
            return select(self, number)
    elif index.__class__ is tuple and len(index) <= self.ndim and all(map(_is_array_of_ints, index)):
        return ops.index.eager(self, *index)
    return None


def _index_by_items(self: Tensor, items: tuple[Any, ...]) -> Any:
    """Return `self[index]` for any index."""
    if all(map(_is_basic, items)):
        try:
            return ops.getitem(self, index=_basic(items))
        except IndexError as error:
            raise _index_error(self, items, error) from None
    parsed = parse(self, items)
    part = ops.getitem(self, index=parsed.basic) if parsed.basic else self
    if not parsed.arrays:
        return part
    front, back = _orders(part, parsed)
    out = _permute(ops.index(_permute(part, front), *parsed.arrays), back)
    if not self.is_numpy_type and out.ndim > 1 and back != tuple(range(len(back))):
        # NumPy leaves the indexed dimensions first in memory. torch's result must allow views in another shape.
        return cast.clone_ordered(out, order=tuple(range(out.ndim)))
    is_number = self.is_numpy_type and not out.ndim and not any(i is Ellipsis for i in items)
    if (
        not is_number
        and all(_is_basic(i) or _is_integer(i) for i in items)
        and (self.is_numpy_type or any(map(_is_traced, items)))
    ):
        if out._meta is not None and out._meta.view is not None:
            out = cast.clone_ordered(out, order=tuple(range(out.ndim)))  # an unshared copy
        take, put = functools.partial(getitem, self, items), functools.partial(setitem, self, items)
        note_pick(out, Picked(self, take, put))
    return out


def _is_traced(item: object) -> bool:
    """True if an integer is known only when a traced function is called. Run eagerly, it would give a view."""
    return isinstance(item, Variable) and not batch_dims(item) and hasattr(innermost_array(item), "note_pick")


def _is_integer(item: object) -> bool:
    if not isinstance(item, Variable) or item.ndim or np_dtype(item).kind not in "iu":
        return False
    return item._meta is None or not item._meta.indexes_as_array


def _index_error(self: Tensor, items: tuple[Any, ...], error: IndexError) -> IndexError:
    """Return the array library's error, extended by the shape of the tensor and by advice."""
    text = str(error).replace("for array: array is", "for tensor: it is")
    return IndexError(
        f"{text}: the tensor has shape {tuple(self.shape)}. Give at most {self.ndim} ints and slices, each within its "
        "dimension's size. [nd-index]"
    )


def select(self: Tensor, index: int) -> Tensor:
    """Return `self[index]` for an int: the commonest index, under torch's name for its node."""
    try:
        return split_ops.select.eager(self, dim=0, index=index)
    except IndexError as error:
        if not self.ndim:
            raise _index_error(self, (index,), error) from None
        size = self.shape[0]
        raise IndexError(
            f"index {index} is out of bounds for dimension 0 with size {size} (shape {tuple(self.shape)}). "
            f"Indices run from {-size} to {size - 1}. [nd-index]"
        ) from None


@asks_itself("__setitem__")
def setitem(self: Tensor, index: Index, value: ArrayLike) -> None:
    """`self[index] = value`.

    >>> import ndgrad
    >>> x = ndgrad.zeros(3)
    >>> x[1:] = ndgrad.tensor([1.0, 2.0])
    >>> x
    tensor([0., 1., 2.])
    """
    if (process.overriding and process.busy) or self.__class__ not in KNOWN or value.__class__ not in KNOWN:
        if answer(setitem, (self, index, value), {}) is not UNASKED:
            return
    if write_part(self, index, value):
        return
    given: Any = value
    put: Any = given if isinstance(given, Variable) else _as_value(self, given)
    basic = _plain_items(index)
    if basic is None:
        index = read_bytes_as_masks(self, index)
    items = _items(self, replace_single_integers(index)) if basic is None else basic
    if basic is None and all(map(_is_basic, items)):
        basic = _basic(items)
    if basic is not None:
        if np_dtype(put).kind == "c":
            _refuse_complex(self, put)
        write(fill.copy, self, (_drop_leading_ones(put, self, basic),), {}, part=(ops.getitem, {"index": basic}))
        return
    mask: Any = items[0] if len(items) == 1 else None
    one_by_mask = _is_mask(mask) and tuple(mask.shape) == tuple(self.shape) and _numel(put) == 1
    if np_dtype(put) != np_dtype(self):
        put = _convert(self, put, strict=put is given and not one_by_mask)
    if one_by_mask:
        write(
            ops.masked_fill, self, (_as_tensor(self, mask), shape_ops.reshape(put, shape=()) if put.ndim else put), {}
        )
        return
    if any(_is_mask(item) and is_open(item) for item in items) and _put_by_choice(self, items, put):
        return
    put_at(self, items, put, accumulate=False)


def _spread_over_mask(value: Tensor, dims: int, behind: int) -> Tensor | None:
    """Return one value for all elements chosen by a mask of `dims` dimensions, before `behind` other dimensions. Return
    None if the elements get different values.
    """
    if _numel(value) == 1:
        return shape_ops.reshape(value, shape=())
    shape = tuple(value.shape)
    if len(shape) <= behind:
        return value
    before = len(shape) - behind - 1
    if shape[before] != 1:
        return None
    return shape_ops.reshape(value, shape=(*shape[:before], *[1] * dims, *shape[before + 1 :]))


def _put_by_choice(self: Tensor, items: tuple[Any, ...], value: Tensor) -> bool:
    """Try `self[items] = value` for a mask of unknown values among basic items; return True if it was done.

    It works if all elements chosen by the mask get the same value, because their number is then not needed."""
    (place, *others) = [i for i, item in enumerate(items) if not _is_basic(item)]
    mask: Any = items[place]
    basic = [item for item in items if _is_basic(item)]
    is_one = _numel(value) == 1
    if _is_mask(mask) and not mask.ndim and len(items) == 1:
        return _put_all_or_none(self, mask, value)
    if others or not _is_mask(mask) or not mask.ndim or (any(map(_is_int, basic)) and not is_one):
        return False
    left = sum(item is not None and item is not Ellipsis for item in basic)
    if not any(item is Ellipsis for item in basic):
        items = (*items, Ellipsis)
    elif any(item is Ellipsis for item in items[:place]):
        return False
    if self.ndim < left + mask.ndim:
        return False
    index = _basic((*items[:place], *[slice(None)] * mask.ndim, *items[place + 1 :]))
    part = ops.getitem(self, index=index)
    first = sum(not _is_int(item) for item in items[:place])
    if tuple(part.shape[first : first + mask.ndim]) != tuple(mask.shape):
        return False
    behind = part.ndim - first - mask.ndim
    given = _spread_over_mask(value, mask.ndim, behind)
    if given is None:
        return False
    chosen = shape_ops.reshape(_as_tensor(self, mask), shape=(*mask.shape, *[1] * behind))
    put = selection.where(chosen, given, part)
    if tuple(put.shape) != tuple(part.shape):
        return False
    write(fill.copy, self, (put,), {}, part=(ops.getitem, {"index": index}))
    return True


def _put_all_or_none(self: Tensor, mask: Any, value: Tensor) -> bool:
    """As `_put_by_choice`, for a 0-d mask."""
    shape = tuple(value.shape)
    more = max(len(shape) - self.ndim, 0)
    if any(n != 1 for n in shape[:more]):
        return False
    put = selection.where(_as_tensor(self, mask), shape_ops.reshape(value, shape=shape[more:]) if more else value, self)
    if tuple(put.shape) != tuple(self.shape):
        return False
    write(fill.copy, self, (put,), {})
    return True


def put_at(self: Any, items: tuple[Any, ...], value: Tensor, *, accumulate: bool) -> None:
    """Run `self[items] = value` for an index with arrays. With `accumulate`, run `+=`, where repeated indices
    add up."""
    if self.run_op is not None:
        self.take_whole(put_into_copy(self, items, value, accumulate=accumulate))
        return
    parsed = parse(self, items)
    part = ops.getitem(self, index=parsed.basic) if parsed.basic else self
    if not parsed.arrays:
        write(arithmetic.add if accumulate else fill.copy, part, (_fit_value(value, tuple(part.shape)),), {})
        return
    front, back = _orders(part, parsed)
    target = _permute(part, front)
    write(ops.index_put, target, (_line_up(value, target, parsed, back), *parsed.arrays), {"accumulate": accumulate})


def put_into_copy(self: Tensor, items: tuple[Any, ...], value: Tensor, *, accumulate: bool) -> Tensor:
    """Return the result of `put_at` on a copy as a pure function, without a write, for transforms."""
    parsed = parse(self, items)
    part = ops.getitem(self, index=parsed.basic) if parsed.basic else self
    if not parsed.arrays:
        value = _fit_value(value, tuple(part.shape))
        put = arithmetic.add(part, value) if accumulate else shape_ops.expand(value, shape=tuple(part.shape))
        return slices.slice_scatter(self, put, index=parsed.basic)
    front, back = _orders(part, parsed)
    target = _permute(part, front)
    put = ops.index_put(target, _line_up(value, target, parsed, back), *parsed.arrays, accumulate=accumulate)
    put = _permute(put, shape_ops.inverse_permutation(front))
    return slices.slice_scatter(self, put, index=parsed.basic) if parsed.basic else put


def _items(t: Tensor, index: Any) -> tuple[Any, ...]:
    """Return the items of an index. For a `Tensor`, a short list with more than numbers counts as a
    tuple; for an `Array`, it is an array."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and not t.is_numpy_type and len(index) < 32:
        if any(
            i is None or i is Ellipsis or isinstance(i, (Variable, slice, list, tuple, range, np.ndarray))
            for i in index
        ):
            return tuple(index)
    return (index,)


def parse(t: Tensor, items: tuple[Any, ...]) -> Parsed:
    """Split an index with arrays into its parts."""
    items = read_bytes_as_masks(t, items)
    items = tuple(_normalise(t, item) for item in items)
    ints_are_arrays = t.is_numpy_type and any(isinstance(i, list) for i in items)
    # NumPy uses the index as written: an Ellipsis between arrays separates them even if
    # it covers no dimension.
    places = [n for n, item in enumerate(items) if isinstance(item, list) or (ints_are_arrays and _is_int(item))]
    items = _expand_ellipsis(t, items)
    _check_masks(t, items)
    basic: list[Any] = []
    arrays: list[Any] = []
    positions: list[int] = []
    dimension = 0
    for item in items:
        if isinstance(item, list) or (ints_are_arrays and _is_int(item)):
            for array in item if isinstance(item, list) else [wrap(t.tensor_type, np.asarray(item))]:
                basic.append(None if isinstance(item, _Truth) else slice(None))
                arrays.append(array)
                positions.append(dimension)
                dimension += 1
        else:
            basic.append(item)
            dimension += not _is_int(item)
    in_a_row = places if t.is_numpy_type else positions
    adjacent = not in_a_row or in_a_row[-1] - in_a_row[0] == len(in_a_row) - 1
    if all(isinstance(b, slice) and b == slice(None) for b in basic):
        basic = []
    return Parsed(tuple(basic), arrays, positions, adjacent)


def _basic(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(operator.index(i) if _is_int(i) else _plain_slice(i) if isinstance(i, slice) else i for i in items)


def _plain_slice(s: slice) -> slice:
    """Return a slice whose ends are Python ints."""
    if all(v is None or v.__class__ is int for v in (s.start, s.stop, s.step)):
        return s
    return slice(*(None if v is None else operator.index(v) for v in (s.start, s.stop, s.step)))


def _normalise(t: Tensor, item: Any) -> Any:
    """Normalise one item of an index: an int, slice or None stays; arrays become a list of integer
    tensors (a mask gives several)."""
    if isinstance(item, Variable):
        item = _number(item)
    if _is_basic(item):
        return _basic((item,))[0]
    if not isinstance(item, Variable):
        item = _index_array(t, item)
        # For a `Tensor`, a 0-d NumPy array is a number too; for an `Array`, it makes a copy.
        if item.ndim == 0 and not t.is_numpy_type:
            item = _number(item)
            if item.__class__ is int:
                return item
    if np_dtype(item).kind == "b":
        return _nonzero(item)
    if np_dtype(item).kind not in "iu":
        raise IndexError(
            f"tensors used as indices must be integers or booleans, but this one is {np_dtype(item)} of shape "
            f"{tuple(item.shape)}. Convert it with .long(), or compare to make a mask. [nd-index]"
        )
    return [item]


def _index_array(t: Tensor, item: Any) -> Tensor:
    if isinstance(item, (list, tuple, range)) or is_raw_array(item) or isinstance(item, (bool, np.bool_)):
        if isinstance(item, (list, tuple)) and any(isinstance(i, Variable) for i in item):
            item = [_number(i) for i in item]
            if any(isinstance(i, Variable) and batch_dims(i) for i in item):  # positions that differ between samples
                return join.stack(*(_place(t, i) for i in item), dim=0)
            item = [innermost_array(i) if isinstance(i, Variable) else i for i in item]
        array = np.asarray(item) if not is_raw_array(item) else item
        if array.size == 0 and is_floating(array.dtype):
            array = array.astype(np.intp)
        if t.run_op is not None:
            made: Tensor = t.constant_alike(array)
            return made
        return wrap_lent(t.tensor_type, array) if array is item else wrap(t.tensor_type, array)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long, int, byte or bool tensors are valid indices "
        f"(got {type(item).__name__}). Convert it to one of them. [nd-index]"
    )


def _place(t: Tensor, i: int | Tensor) -> Tensor:
    """Return an int, or a tensor of ints, as a tensor of the index dtype."""
    return (
        cast.cast(i, dtype=np.dtype(np.intp))
        if isinstance(i, Variable)
        else wrap(t.tensor_type, np.asarray(i, np.intp))
    )


def _is_mask(item: object) -> bool:
    return (isinstance(item, Variable) and np_dtype(item).kind == "b") or (
        isinstance(item, np.ndarray) and item.dtype.kind == "b"
    )


class _Mask(list[Any]):
    """The index arrays of a mask, with the mask's shape."""

    shape: tuple[int, ...]


class _Truth(_Mask):
    """A 0-d mask. It indexes a new dimension of size one, by [0] if true and by [] if false."""


def _nonzero(mask: Tensor) -> _Mask:
    shape, array = shape_of(mask), mask._array
    if not shape:
        out: _Mask = _Truth([wrap(mask.tensor_type, np.zeros(len(innermost_array(ops.nonzero(mask))), np.intp))])
    elif process.busy or array.__class__ is not np.ndarray:
        found = innermost_array(ops.nonzero(mask))
        out = _Mask([wrap(mask.tensor_type, found[:, i]) for i in range(len(shape))])
    else:
        out = _Mask([wrap(mask.tensor_type, found) for found in array.nonzero()])
    out.shape = shape
    return out


def _check_masks(t: Tensor, items: tuple[Any, ...]) -> None:
    """Check that each mask has the sizes of the dimensions that it indexes."""
    at = 0
    for place, item in enumerate(items):
        if isinstance(item, _Mask) and not _fits(
            tuple(t.shape[at : at + len(item.shape)]), item.shape, t.is_numpy_type
        ):
            raise IndexError(
                f"The shape of the mask {list(item.shape)} at index {place} does not match the shape of the indexed "
                f"tensor {list(t.shape)} at index {at}. Give a mask of the sizes that it selects from. [nd-index]"
            )
        at += _dimensions(item)


def _fits(sizes: tuple[int, ...], mask: tuple[int, ...], numpy_type: bool) -> bool:
    """True if a mask fits the sizes. NumPy and the array API standard accept a mask size of zero for any size."""
    if not numpy_type:
        return sizes == mask
    return len(sizes) == len(mask) and all(m in (s, 0) for s, m in zip(sizes, mask, strict=True))


def _dimensions(item: object) -> int:
    """Return the number of the tensor's dimensions that an item of an index consumes."""
    if isinstance(item, list):
        return 0 if isinstance(item, _Truth) else len(item)
    return 0 if item is None or item is Ellipsis else 1


def _expand_ellipsis(t: Tensor, items: tuple[Any, ...]) -> tuple[Any, ...]:
    taken = sum(map(_dimensions, items))
    dots = [n for n, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...') [nd-index]")
    if taken > t.ndim:
        raise IndexError(f"too many indices for tensor of dimension {t.ndim}: the index takes {taken}. [nd-index]")
    fill_in = (slice(None),) * (t.ndim - taken)
    if dots:
        return (*items[: dots[0]], *fill_in, *items[dots[0] + 1 :])
    return (*items, *fill_in)


def _orders(part: Tensor, parsed: Parsed) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the orders that move the indexed dimensions to the front, and the result's dimensions into place."""
    n = part.ndim
    rest = [d for d in range(n) if d not in parsed.positions]
    front = (*parsed.positions, *rest)
    lead = max(a.ndim for a in parsed.arrays)
    total = lead + len(rest)
    if not parsed.adjacent:
        return front, tuple(range(total))
    before = sum(d < parsed.positions[0] for d in rest)
    back = (*range(lead, lead + before), *range(lead), *range(lead + before, total))
    return front, back


def _permute(t: Tensor, order: tuple[int, ...]) -> Tensor:
    return t if order == tuple(range(len(order))) else shape_ops.permute(t, dims=order)


def _line_up(value: Tensor, target: Tensor, parsed: Parsed, back: tuple[int, ...]) -> Tensor:
    """Return the value with its dimensions in the order of `index_put`."""
    canonical = (*_lead(parsed.arrays), *target.shape[len(parsed.arrays) :])
    result = tuple(canonical[d] for d in back)
    value = _fit_value(value, result)
    if back == tuple(range(len(back))):
        return value
    return shape_ops.permute(shape_ops.expand(value, shape=result), dims=shape_ops.inverse_permutation(back))


def _fit_value(value: Tensor, result: tuple[int, ...]) -> Tensor:
    """Drop superfluous leading dimensions of the value, and check that it broadcasts to the indexed part's
    shape."""
    have = tuple(value.shape)
    while len(have) > len(result) and have[0] == 1:
        have = have[1:]
    if len(have) > len(result) or not all(h in (1, r) for h, r in zip(have[::-1], result[::-1], strict=False)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result "
            f"of shape {list(result)}. Give a value of that shape, or one that broadcasts to it. [nd-broadcast]"
        )
    return value if have == tuple(value.shape) else shape_ops.reshape(value, shape=have)


def _lead(arrays: Tensors) -> tuple[int, ...]:
    """Return the common shape of index arrays."""
    try:
        return np.broadcast_shapes(*(tuple(a.shape) for a in arrays))
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{', '.join(str(list(a.shape)) for a in arrays)}. Reshape them so that they broadcast; "
            "x[i][:, j] takes a block. [nd-broadcast]"
        ) from None


def _convert(t: Tensor, value: Tensor, *, strict: bool) -> Tensor:
    """Convert the value to the tensor's dtype. For a `Tensor`, a tensor value must have it already."""
    dtype = np_dtype(t)
    if strict and not t.is_numpy_type:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {dtype} for the destination and "
            f"{np_dtype(value)} for the source. Convert the value with .to(), or assign to a slice, which converts. "
            "[nd-dtype-mismatch]"
        )
    _refuse_complex(t, value)
    return cast.cast(value, dtype=dtype)


def _refuse_complex(t: Tensor, value: Tensor) -> None:
    if np_dtype(value).kind == "c" and np_dtype(t).kind != "c":
        raise RuntimeError(
            f"a complex value cannot be assigned to a tensor of dtype {np_dtype(t)}: the imaginary part would be lost. "
            "Assign its .real, or make the tensor complex. [nd-complex]"
        )


def _as_value(t: Tensor, value: Any) -> Tensor:
    if t.is_numpy_type:
        return registry.numpy_arguments.as_array(value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, Variable) for v in value):
        raise TypeError("can't assign a list of tensors to a tensor. Stack them first: ndgrad.stack([...]). [nd-type]")
    return wrap_like(t, np.asarray(value))


def _as_tensor(t: Tensor, a: Tensor | NDArray[Any]) -> Tensor:
    return a if isinstance(a, Variable) else wrap_lent(t.tensor_type, a)


def _numel(t: Tensor) -> int:
    return int(np.prod(tuple(t.shape)))


def _drop_leading_ones(value: Tensor, t: Tensor, items: tuple[Any, ...]) -> Tensor:
    """Drop leading dimensions of size one beyond the rank of the assigned part, which torch allows."""
    if not value.ndim or value.shape[0] != 1:
        return value
    ndim = t.ndim + sum(i is None for i in items) - sum(_is_int(i) for i in items)
    shape = tuple(value.shape)
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    return shape_ops.reshape(value, shape=shape) if shape != tuple(value.shape) else value
