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

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeGuard, TypeVar

import numpy as np

from ndgrad._src.arrays.jagged import JaggedData, Layout, RaggedSize, ragged_size
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.subclass import note_tensor_rules
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.custom_functions.function import Function, run_function
from ndgrad._src.foundations import devices
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.tensor_class import Tensor

F = TypeVar("F", bound=Callable[..., Any])

#: Name of a public function -> its handler for nested arguments.
HANDLERS: dict[str, Callable[..., Any]] = {}
#: Name of an op -> its handler for calls of the op itself: arrays by position, settings by keyword.
OP_HANDLERS: dict[str, Callable[..., Any]] = {}
#: Rules by kind: each takes (function or op, arguments, options), and returns NotImplemented for other kinds.
KINDS: list[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = []


def handles(*names: str) -> Callable[[F], F]:
    """Register the handler of public functions of these names."""

    def add_to(function: F) -> F:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return add_to


def handles_op(*names: str) -> Callable[[F], F]:
    """Register the handler of ops of these names."""

    def add_to(function: F) -> F:
        OP_HANDLERS.update(dict.fromkeys(names, function))
        return function

    return add_to


class NestedTensor(Tensor):
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
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a public function, or an op, with nested arguments."""
        options = kwargs or {}
        is_op = isinstance(func, Op)
        name = func.name if is_op else func.__name__
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
    def device(self) -> devices.device:
        """The device of the values: nested tensors live on the CPU."""
        return devices.device("cpu")

    @property
    def nbytes(self) -> int:
        """The bytes of all components."""
        return data_of(self).nbytes

    @property
    def mT(self) -> Any:
        """The last two dimensions swapped."""
        return HANDLERS["transpose"](self, -2, -1)

    @property  # type: ignore[misc]  # a part of a nested tensor is not written
    def real(self) -> Any:
        """The real part; for a real tensor, the tensor itself."""
        return on_values(lambda v: v.real, self) if np_dtype(self).kind == "c" else self

    @property  # type: ignore[misc]  # likewise
    def imag(self) -> Any:
        """The imaginary part of a complex tensor."""
        return on_values(lambda v: v.imag, self)

    @property
    def _ragged_idx(self) -> int:
        return layout_of(self).dim

    def offsets(self) -> Any:
        """Return the starts of the components in `values()`, and the end of the last one.

        >>> import ndgrad
        >>> ndgrad.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=ndgrad.jagged).offsets()
        tensor([0, 2, 3])
        """
        return wrap(Tensor, layout_of(self).offsets)

    def lengths(self) -> Any:
        """Return the lengths of the components of a tensor with holes, which `offsets()` alone does not determine; else
        None.

        >>> import ndgrad
        >>> ndgrad.nested.narrow(ndgrad.ones(2, 3), 1, 0, ndgrad.tensor([1, 2]), layout=ndgrad.jagged).lengths()
        tensor([1, 2])
        """
        layout = layout_of(self)
        return wrap(Tensor, layout.size.lengths) if layout.given_lengths else None

    def array(self) -> NoReturn:
        """Raise an error: Arrays have no nested tensors."""
        refuse("array", (self,), {})

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        refuse(f"numpy.{ufunc.__name__}", (self,), {})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        refuse(f"numpy.{function.__name__}", (self,), {})

    def __iter__(self) -> Iterator[Any]:
        return iter(HANDLERS["unbind"](self))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if carries(self):
            refuse("pickling inside a transform", (self,), {})
        layout, values = layout_of(self), data_of(self).values
        lengths = layout.size.lengths if layout.given_lengths else None
        return rebuild, (values, layout.offsets, lengths, layout.dim, bool(self.requires_grad))

    def __copy__(self) -> Any:
        made = HANDLERS["detach"](self)
        return made.requires_grad_() if self.requires_grad else made

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)


def rebuild(values: Any, offsets: Any, lengths: Any, dim: int, leaf: bool) -> Any:
    """Rebuild a nested tensor from its pickle."""
    made = over(JaggedData(make_layout("unpickling", values.shape, offsets, lengths, dim), values))
    if leaf:
        meta_of(made).requires_grad = True
    return made


def make_layout(name: str, shape: tuple[int, ...], offsets: Any, lengths: Any, dim: int) -> Layout:
    """Return the layout of components that begin at `offsets` in values of this shape, checked."""
    at = dim - 1
    if not 0 <= at < len(shape):
        raise RuntimeError(
            f"{name}: values of shape {tuple(shape)} have no dimension {at}, in which components should lie one after "
            f"another (jagged_dim={dim}). Give a jagged_dim between 1 and {len(shape)}. [nd-nested]"
        )
    if offsets is None:
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        given, lengths = False, np.asarray(lengths)
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
            f"{name}: {offsets.size} offsets tell of {offsets.size - 1} components, and there are {lengths.size} "
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


def refuse(name: str, args: Any, options: Any, cause: BaseException | None = None) -> NoReturn:
    """Raise an error: a function is not defined (yet) for nested tensors."""
    kinds = ", ".join(described(a) for a in _tensors((*args, *options.values())))
    raise NotImplementedError(
        f"{f'{name}()' if name.isidentifier() else name} is not there for nested tensors, and was called with "
        f"({kinds}). Compute on values(), on the components (unbind()), or on to_padded_tensor(0.0). [nd-nested]"
    ) from cause


def described(t: Any) -> str:
    """Describe a tensor for an error: its kind, its shape, and the lengths behind a ragged size."""
    if not is_nested(t):
        return f"strided {tuple(t.shape)}"
    size = layout_of(t).size
    return f"nested {tuple(t.shape)} with {size!r} = {size.describe()}"


def _tensors(values: Any) -> Any:
    for value in values:
        if isinstance(value, Variable):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


# ----- the payload ----------------------------------------------------------------------------------------------------


def is_nested(t: Any) -> TypeGuard[NestedTensor]:
    return isinstance(t, NestedTensor)


def data_of(t: Any) -> JaggedData:
    data: Any = t._array
    while isinstance(data, Variable):
        data = data._array
    return data


def layout_of(t: Any) -> Layout:
    return data_of(t).layout


def over(data: JaggedData) -> NestedTensor:
    """Return a constant over a payload."""
    made: NestedTensor = wrap(NestedTensor, data)
    return made


def recording(*tensors: Any) -> bool:
    """True if results computed from these will be recorded."""
    return thread.grad_enabled and any(isinstance(t, Variable) and requires_grad(t) for t in tensors)


def carries(x: Any) -> bool:
    """True if the values of a nested tensor are a tensor (see Note [Nested tensors inside transforms])."""
    return isinstance(data_of(x).values, Variable)


def adopt(name: str, target: Any, result: Any) -> Any:
    """Give a tensor the value and the history of another, as in-place functions do."""
    if not is_nested(target) or not is_nested(result) or tuple(result.shape) != tuple(target.shape):
        shapes = f"{described(result)} cannot take the place of {described(target)}"
        raise RuntimeError(f"{name}(): the result, {shapes}. Use {name.rstrip('_')}() instead. [nd-nested]")
    if target._node is None and requires_grad(target) and thread.grad_enabled:
        raise RuntimeError(
            f"{name}(): a leaf Variable that requires grad is being used in an in-place operation. "
            "Write in a no_grad() block, or use the function without the underscore. [nd-leaf-write]"
        )
    if np_dtype(result) != np_dtype(target):
        result = on_values(lambda v: ops.cast(v, dtype=np_dtype(target)), result)
    own, new = data_of(target), data_of(result)
    recorded = result._node is not None or target._node is not None or carries(result) or carries(target)
    if not recorded and own.values.flags.writeable:
        if own.layout.same_rows(new.layout):
            own.values[...] = new.values  # visible through references to the values
        else:
            at = own.layout.dim - 1
            own.values[(slice(None),) * at + (own.layout.rows,)] = packed(result)[1]._array
        storage_of(target).bump(name)
        return target
    # Use new memory: the old one may belong to the values from which the tensor was built, with their history.
    target._array, target._storage = new, storage_of(result)
    target._node = result._node
    if target._meta is not None or result._meta is not None:
        meta_of(target).output_nr = 0 if result._meta is None else result._meta.output_nr
    return target


# ----- the border -----------------------------------------------------------------------------------------------------


def _applied(function: type[Function], *args: Any) -> Any:
    """Run one of the functions below, outside of all levels; a backward pass through it runs its rules on tensors."""
    if not recording(*args):
        return function.forward(_Nobody(), *args)
    made = run_function(function, args, {})
    if made._node is not None:
        note_tensor_rules(made._node)
    return made


class _Nobody:
    """The context of a call that is not recorded."""


class NestedFromValues(Function):
    """Conversion from values to a nested tensor."""

    @staticmethod
    def forward(ctx: Any, values: Any, layout: Layout) -> Any:
        ctx.layout, ctx.rows = layout, values.shape[layout.dim - 1]
        return over(JaggedData(layout, np.asarray(values._array)))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _values_in(g, ctx.layout, ctx.rows), None


class NestedValues(Function):
    """Conversion from a nested tensor to its values."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.layout = layout_of(x)
        return wrap(Tensor, data_of(x).values)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return build(g, ctx.layout)


def _values_in(g: Any, layout: Layout, rows: int) -> Any:
    """Return the values of a gradient in a layout, with zeros in its holes."""
    own = layout_of(g)
    if own.same_rows(layout):
        return values_of(g)
    _, values = packed(g)
    if layout.packed:
        return values
    at = layout.dim - 1
    shape = tuple(values.shape)
    zeros = wrap(Tensor, np.zeros((*shape[:at], rows, *shape[at + 1 :]), np_dtype(values)))
    return ops.index_add(zeros, constant(layout.rows), values, dim=at)


def build(values: Any, layout: Layout) -> Any:
    """Return a nested tensor over values, which keeps their history."""
    if thread.levels or process.open:
        return over(JaggedData(layout, values))
    made = _applied(NestedFromValues, values, layout)
    made._storage = storage_of(values)  # shared memory: a write to either is visible to values saved from the other
    return made


def values_of(x: Any) -> Any:
    """Return the values of a nested tensor, holes included, over the same memory. Recorded values cannot be written:
    the nested tensor would keep the history of its old values.
    """
    data = data_of(x)
    if isinstance(data.values, Variable):
        return data.values
    made = _applied(NestedValues, x)
    made._storage = storage_of(x)
    if made._node is not None and isinstance(made._array, np.ndarray):
        made._array = made._array.view()
        made._array.flags.writeable = False
    return made


def packed(x: Any) -> tuple[Layout, Any]:
    """Return the layout of a nested tensor without holes, and its values in it."""
    layout, values = layout_of(x), values_of(x)
    if layout.packed:
        return layout, values
    return Layout(layout.size, layout.dim), ops.index_select(values, constant(layout.rows), dim=layout.dim - 1)


def on_values(function: Callable[[Any], Any], x: Any) -> Any:
    """Return a nested tensor of the same layout over a function of the values that keeps their shape."""
    return build(function(values_of(x)), layout_of(x))


def constant(array: Any) -> Any:
    """Return indices as a tensor."""
    return wrap(Tensor, array)


def moved(x: Any, source: int, target: int) -> Any:
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


def taken(values: Any, rows: Any, dim: int) -> Any:
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


def rows_first(x: Any) -> tuple[Layout, Any]:
    """Return the layout of a nested tensor without holes, and its values with the ragged dimension in front. This is
    the usual memory order, and NumPy's take copies the whole of an array in another order.
    """
    layout, values = packed(x)
    return layout, moved(values, layout.dim - 1, 0)


def group_of_rows(operand: tuple[Layout, Any], rows: Any, n: int, count: int) -> Any:
    """Return the `count` components with these rows, all of length n, as one dense tensor with the batch in front."""
    layout, values = operand
    part = taken(values, rows, 0)
    part = ops.reshape(part, shape=(count, n, *part.shape[1:]))
    return moved(part, 1, layout.dim)


def in_order(parts: list[Any], numbers: list[Any]) -> Any:
    """Concatenate parts of a tensor, whose rows have these numbers, in the order of the numbers."""
    whole = parts[0] if len(parts) == 1 else ops.cat(*parts, dim=0)
    order = np.concatenate(numbers)
    inverse = np.empty(order.size, np.int64)
    inverse[order] = np.arange(order.size)
    return taken(whole, inverse, 0)


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
                args.append(taken(operand.tensor, which, 0))
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
            first = moved(part, result_dim, 1)
            flat.append(ops.reshape(first, shape=(first.shape[0] * first.shape[1], *first.shape[2:])))
        results.append(build(moved(in_order(flat, numbers), 0, result_dim - 1), Layout(size, result_dim)))
    kind = type(out)
    if isinstance(out, tuple):
        return kind(*results) if hasattr(out, "_fields") else tuple(results)
    return results[0]


class Batched:
    """A dense operand of `by_groups` whose first dimension is the batch."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


