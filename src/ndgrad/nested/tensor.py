"""`NestedTensor`: the class of tensors in the jagged layout, and the two functions that convert from and to values.

The payload of a nested tensor is a `JaggedData`: the values of all components in one array, and a constant layout. Its
class handles every public function and every op itself (`__ndgrad_function__`), in this order:

    a handler       of the function's or op's name, from the tables that the other files of this package fill
    its kind        the op table determines the computation on values (`kinds.py`)
    its body        any other public function runs its own code, and its ops are handled one by one

All others raise an error. All of them compute on the values, which are an ordinary tensor, with ordinary functions. So
only conversions have rules of their own:

    build(values, layout)    a nested tensor over values       its gradient: the values of a nested one
    values_of(x)             the values of a nested tensor     its gradient: a nested tensor of the same layout

Note [Nested tensors inside transforms] Inside function transforms and forward mode, the values of a payload are a
tensor, of any level, and carry the history or the tangents themselves. A nested tensor that is an argument of a
transform enters by its values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.arrays.jagged import JaggedData, Layout, RaggedSize, ragged_size
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.foundations import devices
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.structured import (
    StructuredTensor,
    carries,
    check_leaf_write,
    constant,
    handler_table,
    mark_as_leaf,
    run_conversion,
    share_values,
    take_value,
    tensors_among,
)
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    from ndgrad._src.custom_functions.function_context import FunctionCtx

#: Name of a public function -> its handler for nested arguments.
HANDLERS, handles = handler_table()
#: Name of an op -> its handler for calls of the op itself: arrays by position, settings by keyword.
OP_HANDLERS, handles_op = handler_table()
#: Rules by kind: each takes (function or op, arguments, options), and returns NotImplemented for other kinds.
KINDS: list[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = []


class NestedTensor(StructuredTensor):
    """A tensor of components that differ in one size. Created by `ndgrad.nested.nested_tensor` and similar functions.

    >>> import ndgrad
    >>> x = ndgrad.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=ndgrad.jagged)
    >>> x.offsets(), (x * 2).values()
    (tensor([0, 2, 3]), tensor([2., 4., 6.]))
    """

    __slots__ = ()
    __module__ = "ndgrad.nested"

    is_nested = True

    @classmethod
    def __ndgrad_function__(
        cls,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run a public function, or an op, with nested arguments."""
        options = kwargs or {}
        is_op = isinstance(func, Op)
        name = func.name if isinstance(func, Op) else func.__name__
        if options.get("out") is not None:
            refuse(f"{name} with out=", args, options)
        handler = (OP_HANDLERS if is_op else HANDLERS).get(name)
        if handler is not None:
            return handler(*args, **options)
        for kind in KINDS:
            result = kind(func, args, options)
            if result is not NotImplemented:
                return result
        body = None if is_op else getattr(func, "__wrapped__", None)
        if body is None:
            refuse(name, args, options)
        try:
            return body(*args, **options)
        except (TypeError, AttributeError) as error:
            if "RaggedSize" not in str(error) and "JaggedData" not in str(error) and "nested" not in str(error):
                raise
            refuse(name, args, options, error)  # the body reads sizes or memory as those of a dense tensor

    __torch_function__ = __ndgrad_function__

    @property
    def layout(self) -> devices.layout:
        """The layout: `jagged`.

        >>> import ndgrad
        >>> ndgrad.nested.nested_tensor([[1.0]], layout=ndgrad.jagged).layout
        ndgrad.jagged
        """
        return devices.jagged

    @property
    def nbytes(self) -> int:
        """The bytes of all components."""
        return data_of(self).nbytes

    @property
    def mT(self) -> NestedTensor:
        """The last two dimensions swapped."""
        return HANDLERS["transpose"](self, -2, -1)

    @property
    def _ragged_idx(self) -> int:
        return layout_of(self).dim

    def offsets(self) -> Tensor:
        """Return the starts of the components in `values()`, and the end of the last one.

        >>> import ndgrad
        >>> ndgrad.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=ndgrad.jagged).offsets()
        tensor([0, 2, 3])
        """
        return wrap(Tensor, layout_of(self).offsets)

    def lengths(self) -> Tensor | None:
        """Return the lengths of the components of a tensor with holes, which `offsets()` alone does not determine; else
        None.

        >>> import ndgrad
        >>> ndgrad.nested.narrow(ndgrad.ones(2, 3), 1, 0, ndgrad.tensor([1, 2]), layout=ndgrad.jagged).lengths()
        tensor([1, 2])
        """
        layout = layout_of(self)
        return wrap(Tensor, layout.size.lengths) if layout.given_lengths else None

    def _nested_tensor_size(self) -> Tensor:
        """Return the shapes of the components as the rows of a table."""
        return wrap(Tensor, np.array([tuple(part.shape) for part in self], np.int64))

    def __iter__(self) -> Iterator[Any]:
        return iter(HANDLERS["unbind"](self))

    def _pickled(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        layout, values = layout_of(self), data_of(self).values
        lengths = layout.size.lengths if layout.given_lengths else None
        return rebuild, (values, layout.offsets, lengths, layout.dim, bool(self.requires_grad))

    def _map_values(self, function: Callable[[Tensor], Tensor]) -> NestedTensor:
        return on_values(function, self)

    @staticmethod
    def _refuse(name: str, args: Iterable[object], options: dict[str, Any]) -> NoReturn:
        refuse(name, args, options)

    def __copy__(self) -> NestedTensor:
        made = HANDLERS["detach"](self)
        return made.requires_grad_() if self.requires_grad else made

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)


def rebuild(
    values: NDArray[Any], offsets: NDArray[Any], lengths: NDArray[Any] | None, dim: int, leaf: bool
) -> NestedTensor:
    """Rebuild a nested tensor from its pickle."""
    layout = make_layout("unpickling", values.shape, offsets, lengths, dim)
    return mark_as_leaf(wrap_payload(JaggedData(layout, values)), leaf)


def make_layout(
    name: str, shape: tuple[int, ...], offsets: NDArray[Any] | None, lengths: NDArray[Any] | None, dim: int
) -> Layout:
    """Return the layout of components that begin at `offsets` in values of this shape, checked."""
    at = dim - 1
    if not 0 <= at < len(shape):
        raise RuntimeError(
            f"{name}: values of shape {tuple(shape)} have no dimension {at}, in which components should lie one after "
            f"another (jagged_dim={dim}). Give a jagged_dim between 1 and {len(shape)}. [nd-nested]"
        )
    if offsets is None:
        lengths = np.asarray(lengths)
        offsets, given = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), False
    else:
        given = lengths is not None
        lengths = np.diff(offsets) if lengths is None else np.asarray(lengths)
    rows = int(shape[at])
    for what, array in (("offsets", offsets), ("lengths", lengths)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise RuntimeError(
                f"{name}: {what} must be 1D and of integers, but got {array.ndim}D of {array.dtype}. "
                "Convert them with to(ndgrad.int64). [nd-nested]"
            )
    if lengths.size + 1 != offsets.size:
        raise RuntimeError(
            f"{name}: {offsets.size} offsets tell of {offsets.size - 1} components, but there are {lengths.size} "
            "lengths. Give one offset for each component, and the end. [nd-nested]"
        )
    ends = offsets[:-1] + lengths
    if (lengths < 0).any() or (offsets < 0).any() or (ends > rows).any():
        raise RuntimeError(
            f"{name}: components with offsets {offsets.tolist()} and lengths {lengths.tolist()} do not lie inside "
            f"{rows} rows (values of shape {tuple(shape)}, dimension {at}). Offsets rise from 0 to the number of rows. "
            "[nd-nested]"
        )
    size = ragged_size(lengths)
    packed = bool(np.array_equal(offsets, size.offsets)) and size.total == rows
    return Layout(size, dim, offsets, packed, given)


def refuse(name: str, args: Iterable[object], options: dict[str, Any], cause: BaseException | None = None) -> NoReturn:
    """Raise an error: a function is not defined (yet) for nested tensors."""
    kinds = ", ".join(described(a) for a in tensors_among((*args, *options.values())))
    raise NotImplementedError(
        f"{f'{name}()' if name.isidentifier() else name} is not supported for nested tensors; it was called with "
        f"({kinds}). Compute on values(), on the components (unbind()), or on to_padded_tensor(0.0). [nd-nested]"
    ) from cause


def described(t: Tensor) -> str:
    """Describe a tensor for an error: its kind, its shape, and the lengths behind a ragged size."""
    if not is_nested(t):
        return f"strided {tuple(t.shape)}"
    size = layout_of(t).size
    return f"nested {tuple(t.shape)} with {size!r} = {size.describe()}"


# ----- the payload ----------------------------------------------------------------------------------------------------


def is_nested(t: object) -> TypeIs[NestedTensor]:
    return isinstance(t, NestedTensor)


def data_of(t: Tensor) -> JaggedData:
    data: JaggedData = innermost_array(t)
    return data


def layout_of(t: Tensor) -> Layout:
    return data_of(t).layout


def wrap_payload(data: JaggedData) -> NestedTensor:
    """Return a constant over a payload."""
    made: NestedTensor = wrap(NestedTensor, data)
    return made


def adopt(name: str, target: Tensor, result: Tensor) -> NestedTensor:
    """Give a tensor the value and the history of another, as in-place functions do."""
    if not is_nested(target) or not is_nested(result) or tuple(result.shape) != tuple(target.shape):
        shapes = f"{described(result)} cannot take the place of {described(target)}"
        raise RuntimeError(f"{name}(): the result, {shapes}. Use {name.rstrip('_')}() instead. [nd-nested]")
    check_leaf_write(name, target)
    if np_dtype(result) != np_dtype(target):
        result = on_values(lambda v: ops.cast(v, dtype=np_dtype(target)), result)
    own, new = data_of(target), data_of(result)
    recorded = result._node is not None or target._node is not None or carries(result) or carries(target)
    if not recorded and own.values.flags.writeable:
        if own.layout.same_rows(new.layout):
            own.values[...] = new.values  # visible through references to the values
        else:
            at = own.layout.dim - 1
            own.values[(slice(None),) * at + (own.layout.rows,)] = pack(result)[1]._array
        storage_of(target).bump(name)
        return target
    take_value(target, result)
    return target


# ----- the border -----------------------------------------------------------------------------------------------------


class NestedFromValues(Function):
    """Conversion from values to a nested tensor."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, layout: Layout) -> NestedTensor:
        ctx.layout, ctx.rows = layout, values.shape[layout.dim - 1]
        return wrap_payload(JaggedData(layout, np.asarray(values._array)))

    @staticmethod
    def backward(ctx: FunctionCtx, g: NestedTensor) -> tuple[Tensor, None]:
        return _values_in(g, ctx.layout, ctx.rows), None


class NestedValues(Function):
    """Conversion from a nested tensor to its values."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: NestedTensor) -> Tensor:
        ctx.layout = layout_of(x)
        return wrap(Tensor, data_of(x).values)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> NestedTensor:
        return build(g, ctx.layout)


def _values_in(g: NestedTensor, layout: Layout, rows: int) -> Tensor:
    """Return the values of a gradient in a layout, with zeros in its holes."""
    own = layout_of(g)
    if own.same_rows(layout):
        return values_of(g)
    _, values = pack(g)
    if layout.packed:
        return values
    at = layout.dim - 1
    shape = tuple(values.shape)
    zeros = wrap(Tensor, np.zeros((*shape[:at], rows, *shape[at + 1 :]), np_dtype(values)))
    return ops.index_add(zeros, constant(layout.rows), values, dim=at)


def build(values: Tensor, layout: Layout) -> NestedTensor:
    """Return a nested tensor over values, which keeps their history."""
    if thread.levels or process.open:
        return wrap_payload(JaggedData(layout, values))
    made = run_conversion(NestedFromValues, values, layout)
    made._storage = storage_of(values)  # shared memory: a write to either is visible to values saved from the other
    return made


def values_of(x: Tensor) -> Tensor:
    """Return the values of a nested tensor, holes included, over the same memory. Recorded values cannot be written:
    the nested tensor would keep the history of its old values.
    """
    data = data_of(x)
    if isinstance(data.values, Variable):
        return data.values
    return share_values(run_conversion(NestedValues, x), x)


def pack(x: Tensor) -> tuple[Layout, Any]:
    """Return the layout of a nested tensor without holes, and its values in it."""
    layout, values = layout_of(x), values_of(x)
    if layout.packed:
        return layout, values
    return Layout(layout.size, layout.dim), ops.index_select(values, constant(layout.rows), dim=layout.dim - 1)


def on_values(function: Callable[[Any], Any], x: NestedTensor) -> NestedTensor:
    """Return a nested tensor of the same layout over a function of the values that keeps their shape."""
    return build(function(values_of(x)), layout_of(x))


def move_dim(x: Tensor, source: int, target: int) -> Tensor:
    """Return a dense tensor with one dimension moved."""
    if source == target:
        return x
    dims = [d for d in range(len(x.shape)) if d != source]
    dims.insert(target, source)
    return ops.permute(x, dims=tuple(dims))


# ----- components of one length as dense tensors ----------------------------------------------------------------------


def groups_of(sizes: list[RaggedSize]) -> Iterator[tuple[Any, list[Any], tuple[int, ...]]]:
    """Group components that agree in all of these ragged sizes: their numbers, their rows for each of the sizes, and
    their lengths.
    """
    if len(sizes) == 1:
        for n, which, rows in sizes[0].groups:
            yield which, [rows], (n,)
        return
    lengths = np.stack([s.lengths for s in sizes], axis=1)
    for row in np.unique(lengths, axis=0):
        which = np.flatnonzero((lengths == row).all(axis=1))
        rows = [(s.offsets[which][:, None] + np.arange(int(n))).reshape(-1) for s, n in zip(sizes, row, strict=True)]
        yield which, rows, tuple(int(n) for n in row)


def take_rows(values: Tensor, rows: NDArray[Any], dim: int) -> Tensor:
    """Return some rows of values: a view if they are consecutive, the values themselves if they are all rows in
    order.
    """
    count = rows.size
    if not count or rows[-1] - rows[0] + 1 != count or (rows[1:] <= rows[:-1]).any():
        return ops.index_select(values, constant(rows), dim=dim)
    if count == values.shape[dim]:
        return values
    start = int(rows[0])
    return ops.slice(values, dim=dim, start=start, stop=start + count, step=1)


def rows_first(x: NestedTensor) -> tuple[Layout, Any]:
    """Return the layout of a nested tensor without holes, and its values with the ragged dimension in front. This is
    the usual memory order, and NumPy's take copies the whole of an array in another order.
    """
    layout, values = pack(x)
    return layout, move_dim(values, layout.dim - 1, 0)


def group_of_rows(operand: tuple[Layout, Any], rows: NDArray[Any], n: int, count: int) -> Tensor:
    """Return the `count` components with these rows, all of length n, as one dense tensor with the batch in front."""
    layout, values = operand
    part = take_rows(values, rows, 0)
    part = ops.reshape(part, shape=(count, n, *part.shape[1:]))
    return move_dim(part, 1, layout.dim)


def in_order(parts: list[Any], numbers: list[Any]) -> Tensor:
    """Concatenate parts of a tensor, whose rows have these numbers, in the order of the numbers."""
    whole = parts[0] if len(parts) == 1 else ops.cat(*parts, dim=0)
    order = np.concatenate(numbers)
    inverse = np.empty(order.size, np.int64)
    inverse[order] = np.arange(order.size)
    return take_rows(whole, inverse, 0)


def by_groups(
    name: str, function: Callable[..., Any], operands: list[Any], result_dim: int | None, size: RaggedSize | None = None
) -> Any:
    """Run a function of dense tensors with a batch in front, once for each combination of lengths.

    Operands are nested tensors; dense ones of the same batch, of which each run gets its part; or anything else, given
    to all runs. The result is nested, with the ragged `size` (that of the first nested operand) as dimension
    `result_dim`; or dense, if that is None. A function may have several results."""
    nested: list[tuple[Layout, Any] | None] = [rows_first(o) if is_nested(o) else None for o in operands]
    sizes: list[RaggedSize] = []
    for found in nested:
        if found is not None and found[0].size not in sizes:
            sizes.append(found[0].size)
    size = sizes[0] if size is None else size
    batch = int(size.lengths.size)
    pieces: list[Any] = []
    numbers: list[Any] = []
    for which, rows, lengths in groups_of(sizes):
        args = []
        for operand, found in zip(operands, nested, strict=True):
            if found is not None:
                number = sizes.index(found[0].size)
                args.append(group_of_rows(found, rows[number], lengths[number], which.size))
            elif isinstance(operand, Batched):
                args.append(take_rows(operand.tensor, which, 0))
            else:
                args.append(operand)
        out = function(*args)
        pieces.append(out if isinstance(out, tuple) else (out,))
        numbers.append(which if result_dim is None else rows[sizes.index(size)])
    if not pieces:
        raise RuntimeError(
            f"{name}(): a nested tensor without components (batch {batch}) has no result here. [nd-nested]"
        )
    results = []
    for parts in zip(*pieces, strict=True):
        if result_dim is None:
            results.append(in_order(list(parts), numbers))
            continue
        flat = []
        for part in parts:
            first = move_dim(part, result_dim, 1)
            flat.append(ops.reshape(first, shape=(first.shape[0] * first.shape[1], *first.shape[2:])))
        results.append(build(move_dim(in_order(flat, numbers), 0, result_dim - 1), Layout(size, result_dim)))
    kind = type(out)
    if isinstance(out, tuple):
        return kind(*results) if hasattr(out, "_fields") else tuple(results)
    return results[0]


class Batched:
    """A dense operand of `by_groups` whose first dimension is the batch."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
