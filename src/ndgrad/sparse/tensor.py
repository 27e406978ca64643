"""`SparseTensor`: the class of tensors in a sparse layout, and the few functions that convert from and to values.

The payload of a sparse tensor is a `SparseData`: a constant structure and values. Its class handles every public
function itself (`__ndgrad_function__`), by the table `HANDLERS` that the other files of this package fill. Functions
without a handler raise an error, and no tensor is ever made dense silently. A handler computes on the values, which are
an ordinary tensor, with ordinary functions. So only conversions have rules of their own:

    build(values, structure)   a sparse tensor over values       its gradient: sampled at the entries of the structure
    values_of(x)               the values of a coalesced tensor  its gradient: a sparse tensor of the same structure
    coalesced(x), add(x, y)    identities on the matrix that x represents

Note [Gradients of sparse tensors] The gradient of a sparse tensor belongs to the matrix that it represents, at the
positions of its entries, and has its layout. Duplicate entries are one position. Backward passes that meet sparse
tensors run their rules on tensors (`note_tensor_rules`), so gradients are added, hooked and differentiated by the same
handlers as other tensors.

Note [Sparse tensors inside transforms] Inside function transforms and forward mode, the values of a payload are a
tensor, of any level, and carry the history or the tangents themselves: there are no conversions. So tensors built there
from values can be differentiated and batched in every way, as long as they do not leave the transform.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.arrays.dtypes import promote_types
from ndgrad._src.arrays.sparse import (
    BLOCKED,
    BY_ROWS,
    Compressed,
    Coo,
    SparseData,
    Structure,
    add_entries,
    compress,
    finer_structure,
)
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
    recording,
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

#: Name of a public function -> its handler for sparse arguments.
HANDLERS, handles = handler_table()
#: Name of an op -> its handler for calls from rules: arrays by position, settings by keyword.
OP_HANDLERS, handles_op = handler_table()


class SparseTensor(StructuredTensor):
    """A tensor in a sparse layout. Created by `sparse_coo_tensor` and similar functions, by `to_sparse()`, and by
    backward.

    >>> import ndgrad
    >>> x = ndgrad.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> x.layout, x.to_dense()
    (ndgrad.sparse_coo, tensor([[0., 0., 3.],
            [4., 0., 0.]]))
    """

    __slots__ = ()
    __module__ = "ndgrad.sparse"

    @classmethod
    def __ndgrad_function__(
        cls,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run a public function, or an op, with sparse arguments."""
        options = kwargs or {}
        if options.get("out") is not None:
            refuse(f"{func.__name__} with out=", args, options)
        name = func.name if isinstance(func, Op) else func.__name__
        handler = OP_HANDLERS.get(name) if isinstance(func, Op) else HANDLERS.get(name)
        if handler is None and (not isinstance(func, Op) or func.elementwise):
            handler = _by_kind(func, name)
        if handler is None:
            refuse(name, args, options)
        return handler(*args, **options)

    __torch_function__ = __ndgrad_function__

    @property
    def structure(self) -> Structure:
        """The positions of the entries."""
        return data_of(self).structure

    @property
    def layout(self) -> devices.layout:
        """The layout: `sparse_coo`, `sparse_csr`, ...

        >>> import ndgrad
        >>> ndgrad.eye(2).to_sparse_csr().layout
        ndgrad.sparse_csr
        """
        found: devices.layout = getattr(devices, self.structure.layout)
        return found

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]  # a constant of the dense class
        """True if the layout is `sparse_coo`.

        >>> import ndgrad
        >>> ndgrad.eye(2).to_sparse().is_sparse
        True
        """
        return self.structure.layout == "sparse_coo"

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]  # a constant of the dense class
        """True if the layout is `sparse_csr`.

        >>> import ndgrad
        >>> ndgrad.eye(2).to_sparse_csr().is_sparse_csr
        True
        """
        return self.structure.layout == "sparse_csr"

    @property
    def nbytes(self) -> int:
        """Raise an error, as in torch: indices and values have their own `nbytes`."""
        raise RuntimeError(
            "nbytes is not defined for sparse tensors. If you want the size of the constituent tensors, add the nbytes "
            "of the indices and values. If you want the size of the equivalent dense tensor, multiply numel() by "
            "element_size(). [nd-sparse]"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> NoReturn:
        data_of(self).refuse(ufunc.__name__)

    def _pickled(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        data = data_of(self)
        return rebuild, (*_plain(data.structure), data.values, self.requires_grad)

    def _map_values(self, function: Callable[[Tensor], Tensor]) -> SparseTensor:
        structure, values = entries(self)
        return build(function(values), structure)

    @staticmethod
    def _refuse(name: str, args: Iterable[object], options: dict[str, Any]) -> NoReturn:
        refuse(name, args, options)

    def __copy__(self) -> SparseTensor:
        return HANDLERS["clone"](self)

    def __format__(self, spec: str) -> str:
        return format(HANDLERS["to_dense"](self).item(), spec) if not self.shape else object.__format__(self, spec)


def _plain(structure: Structure) -> tuple[Any, ...]:
    if isinstance(structure, Compressed):
        indices = (structure.pointers, structure.others)
        return structure.layout, indices, structure.shape, structure.values_shape
    return structure.layout, (structure.coordinates,), structure.shape, structure.coalesced


def rebuild(
    layout: str,
    indices: tuple[NDArray[Any], ...],
    shape: tuple[int, ...],
    more: Any,
    values: NDArray[Any],
    leaf: bool,
) -> SparseTensor:
    """Rebuild a sparse tensor from its pickle."""
    structure: Structure
    if layout == "sparse_coo":
        structure = Coo(indices[0], shape, more)
    else:
        structure = Compressed(layout, indices[0], indices[1], shape, more)
    return mark_as_leaf(wrap_payload(SparseData(structure, values)), leaf)


def _by_kind(func: Callable[..., Any] | Op, name: str) -> Callable[..., Any] | None:
    """Return the handler of an in-place function, whose name ends with an underscore: it calls the function itself, and
    its result replaces the tensor's value.
    """
    if name.endswith("_") and not name.endswith("__") and name[:-1] in HANDLERS:
        return lambda target, *args, **options: adopt(name, target, HANDLERS[name[:-1]](target, *args, **options))
    return HANDLERS.get(name) if isinstance(func, Op) else None


def layout_of(t: object) -> str:
    return t.structure.layout if isinstance(t, SparseTensor) else "strided"


def refuse(name: str, args: Iterable[object], options: dict[str, Any]) -> NoReturn:
    """Raise an error: a function is not defined (yet) for sparse tensors."""
    kinds = ", ".join(f"{layout_of(a)} {tuple(a.shape)}" for a in tensors_among((*args, *options.values())))
    raise NotImplementedError(
        f"{f'{name}()' if name.isidentifier() else name} is not supported for sparse layouts; it was called with "
        f"({kinds}). Convert with to_dense() first, or compute on values(). [nd-sparse]"
    )


# ----- the payload ----------------------------------------------------------------------------------------------------


def is_sparse(t: object) -> TypeIs[SparseTensor]:
    return isinstance(t, SparseTensor)


def data_of(t: Tensor) -> SparseData:
    data: SparseData = innermost_array(t)
    return data


def wrap_payload(data: SparseData) -> SparseTensor:
    """Return a constant over a payload."""
    made: SparseTensor = wrap(SparseTensor, data)
    return made


def followed(x: SparseTensor) -> bool:
    """True if a derivative of a sparse tensor may be needed, so that its values must remain a tensor."""
    return recording(x) or carries(x)


def adopt(name: str, target: Tensor, result: Tensor) -> SparseTensor:
    """Give a tensor the value and the history of another, as in-place functions do."""
    if not isinstance(target, SparseTensor):
        refuse(name, (target, result), {})
    if tuple(result.shape) != tuple(target.shape) or layout_of(result) != layout_of(target):
        raise RuntimeError(
            f"{name}(): the result, {layout_of(result)} of shape {tuple(result.shape)}, cannot take the place of "
            f"a {layout_of(target)} tensor of shape {tuple(target.shape)}. Use {name.rstrip('_')}() instead. "
            "[nd-sparse]"
        )
    check_leaf_write(name, target)
    if np_dtype(result) != np_dtype(target):
        result = HANDLERS["to"](result, target.dtype)
    own, new = data_of(target), data_of(result)
    recorded = result._node is not None or carries(result) or carries(target)
    if not recorded and own.structure is new.structure and own.values.flags.writeable:
        own.values[...] = new.values  # visible through references to the values
        storage_of(target).bump(name)
        return target
    take_value(target, result)
    return target


# ----- the border -----------------------------------------------------------------------------------------------------


class SparseTensorFromValues(Function):
    """Conversion from values to a sparse tensor."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor, structure: Structure) -> SparseTensor:
        ctx.structure = structure
        return wrap_payload(SparseData(structure, values._array if values._array.ndim else np.asarray(values._array)))

    @staticmethod
    def backward(ctx: FunctionCtx, g: SparseTensor) -> tuple[Tensor, None]:
        return sample_at(g, ctx.structure), None


class Values(Function):
    """Conversion from a coalesced sparse tensor to its values."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: SparseTensor) -> Tensor:
        ctx.structure = x.structure
        return wrap(Tensor, data_of(x).values)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> SparseTensor:
        return build(g, ctx.structure)


class Coalesce(Function):
    """The same matrix with sorted, unique entries."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: SparseTensor) -> SparseTensor:
        return wrap_payload(data_of(x).coalesce())

    @staticmethod
    def backward(ctx: FunctionCtx, g: SparseTensor) -> SparseTensor:
        return g


class Add(Function):
    """The sum of two sparse tensors: the entries of both."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: SparseTensor, y: SparseTensor) -> SparseTensor:
        ctx.structures = x.structure, y.structure
        a, b = data_of(x), data_of(y)
        dtype = promote_types(x.dtype, y.dtype).numpy
        a, b = (d if d.dtype == dtype else d.astype(dtype) for d in (a, b))
        return wrap_payload(add_entries(a, b, merged=True))

    @staticmethod
    def backward(ctx: FunctionCtx, g: SparseTensor) -> tuple[SparseTensor | None, SparseTensor | None]:
        first, second = ctx.structures
        wanted = ctx.needs_input_grad
        return (restricted(g, first) if wanted[0] else None), (restricted(g, second) if wanted[1] else None)


def build(values: Tensor, structure: Structure) -> SparseTensor:
    """Return a sparse tensor over values, which keeps their history."""
    if tuple(values.shape) != structure.values_shape:
        values = ops.reshape(values, shape=structure.values_shape)
    if thread.levels or process.open:
        return wrap_payload(SparseData(structure, values))
    made = run_conversion(SparseTensorFromValues, values, structure)
    made._storage = storage_of(values)  # shared memory: a write to either is visible to values saved from the other
    return made


def coalesced(x: SparseTensor) -> SparseTensor:
    given = x.structure
    if given.coalesced or not isinstance(given, Coo):
        return x
    if not carries(x):
        return run_conversion(Coalesce, x)
    structure, entry = given.coalescing
    values = data_of(x).values
    start = wrap(Tensor, np.zeros(structure.flat_shape, np_dtype(values)))
    return build(ops.index_add(start, constant(entry), values, dim=0), structure)


def values_of(x: SparseTensor) -> Tensor:
    """Return the values of a coalesced sparse tensor, over the same memory. Recorded values cannot be written: the
    sparse tensor would keep the history of its old values.
    """
    data = data_of(x)
    if isinstance(data.values, Variable):
        return data.values
    return share_values(run_conversion(Values, x), x)


def entries(x: SparseTensor) -> tuple[Structure, Any]:
    """Return the structure of a tensor and its values, one entry after another. If a derivative is needed, duplicates
    are added up first: the gradient of a position belongs to their sum.
    """
    if followed(x):
        x = coalesced(x)
    structure = x.structure
    return structure, flat(values_of(x), structure)


def flat(values: Tensor, structure: Structure) -> Tensor:
    """Return values with one entry after another."""
    return values if tuple(values.shape) == structure.flat_shape else ops.reshape(values, shape=structure.flat_shape)


def add(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    if not (carries(x) or carries(y)):
        return run_conversion(Add, x, y)
    template = x.structure
    x, y = coalesced(coo(x)), coalesced(coo(y))
    finer = max(x.structure.sparse_dim, y.structure.sparse_dim)
    x, y = with_sparse_dim(x, finer), with_sparse_dim(y, finer)
    indices = np.concatenate([x.structure.coordinates, y.structure.coordinates], axis=1)
    return like(build(ops.cat(values_of(x), values_of(y), dim=0), Coo(indices, template.shape)), template)


def sample_at(matrix: Tensor, structure: Structure) -> Tensor:
    """Return the elements of a matrix, dense or sparse, at the entries of a structure, in the shape of its values."""
    if not isinstance(matrix, SparseTensor):
        if not structure.place_shape:
            found = ops.expand(ops.unsqueeze(matrix, dim=0), shape=structure.flat_shape)
        else:
            found = ops.index(matrix, *map(constant, structure.coordinates))
        return ops.reshape(found, shape=structure.values_shape)
    if matrix.structure.same_places(structure) and structure.coalesced:
        return values_of(matrix)
    matrix = with_sparse_dim(coalesced(coo(matrix)), len(structure.place_shape))
    where, found = matrix.structure.positions_of(structure.keys)
    values = picked(flat(values_of(matrix), matrix.structure), where, found)
    return ops.reshape(values, shape=structure.values_shape)


def picked(values: Tensor, where: NDArray[Any], found: NDArray[Any]) -> Tensor:
    """Return entries by number, and zeros for missing ones."""
    if not values.shape[0]:
        return wrap(Tensor, np.zeros((where.size, *values.shape[1:]), np_dtype(values)))
    taken = ops.index_select(values, constant(where), dim=0)
    if found.all():
        return taken
    mask = found.reshape(found.shape + (1,) * (len(values.shape) - 1))
    return ops.where(constant(mask), taken, wrap(Tensor, np.zeros((), np_dtype(values))))


def restricted(matrix: Tensor, structure: Structure) -> SparseTensor:
    """Return a matrix restricted to the entries of a structure, without duplicates, in its layout (see Note [Gradients
    of sparse tensors]).
    """
    if isinstance(structure, Coo) and not structure.coalesced:
        structure = structure.coalescing[0]
    if isinstance(matrix, SparseTensor) and matrix.structure is structure:
        return matrix
    return build(sample_at(matrix, structure), structure)


def coo(x: SparseTensor) -> SparseTensor:
    """Return a sparse tensor of any layout as coo."""
    structure = x.structure
    if isinstance(structure, Coo):
        return x
    made = Coo(structure.coordinates, structure.shape)
    made.coalesced = bool((np.diff(made.keys) > 0).all())
    return build(flat(values_of(x), structure), made)


def with_sparse_dim(x: SparseTensor, sparse_dim: int) -> SparseTensor:
    """Return a coalesced coo tensor with more or fewer sparse dimensions: dense ones become sparse, entry by entry."""
    structure = x.structure
    if structure.sparse_dim == sparse_dim:
        return x
    full = structure.shape
    if structure.sparse_dim < sparse_dim:
        return build(values_of(x), finer_structure(structure, sparse_dim))
    keep = structure.coordinates[:sparse_dim]
    lead, entry = Coo(keep, full).coalescing
    rest = full[sparse_dim : structure.sparse_dim]
    inner = np.ravel_multi_index(tuple(structure.coordinates[sparse_dim:]), rest) if rest else 0
    values = values_of(x)
    size = int(np.prod(rest))
    zeros = wrap(Tensor, np.zeros((lead.count * size, *structure.dense_shape), np_dtype(x)))
    return build(ops.index_add(zeros, constant(entry * size + inner), values, dim=0), lead)


def compressed(x: SparseTensor, layout: str, block: tuple[int, int], batch: int) -> SparseTensor:
    """Return a sparse tensor in a compressed layout."""
    x = coalesced(coo(x))
    structure, source = compress(x.structure, layout, block, batch)
    return build(picked(values_of(x), np.maximum(source, 0), source >= 0), structure)


def like(x: SparseTensor, structure: Structure) -> SparseTensor:
    """Return a coo tensor in the layout of a structure."""
    if isinstance(structure, Compressed):
        return compressed(x, structure.layout, structure.block, len(structure.batch))
    return x


def dense(x: SparseTensor) -> Tensor:
    """Return the dense tensor."""
    if not followed(x):
        return wrap(Tensor, data_of(x).to_full())
    structure, values = entries(x)
    size = int(np.prod(structure.place_shape))
    zeros = wrap(Tensor, np.zeros((size, *structure.dense_shape), np_dtype(x)))
    return ops.reshape(ops.index_add(zeros, constant(structure.keys), values, dim=0), shape=structure.shape)


class ToDenseUnmasked(Function):
    """Conversion to a dense tensor, whose gradient goes to all elements of the sparse one."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: SparseTensor) -> Tensor:
        ctx.structure = x.structure
        return wrap(Tensor, data_of(x).to_full())

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> SparseTensor:
        structure = ctx.structure
        sparse_dim = len(structure.place_shape)
        places = np.indices(structure.place_shape).reshape(sparse_dim, -1)
        return like(build(g, Coo(places, structure.shape, True)), structure)


def zeros(shape: tuple[int, ...], layout: str, dtype: np.dtype[Any], sparse_dim: int | None = None) -> SparseTensor:
    """Return a sparse tensor without entries."""
    if layout == "sparse_coo":
        count = len(shape) if sparse_dim is None else sparse_dim
        structure: Structure = Coo(np.zeros((count, 0), np.int64), shape, True)
    else:
        if layout in BLOCKED or len(shape) < 2:
            raise RuntimeError(
                f"an empty {layout} tensor of shape {shape} was asked for: only csr and csc tensors of two or more "
                "dimensions can be made without entries. "
                "Use sparse_bsr_tensor(), whose values tell the size of blocks. [nd-sparse]"
            )
        outers = shape[-2] if layout in BY_ROWS else shape[-1]
        pointers, others = np.zeros((*shape[:-2], outers + 1), np.int64), np.zeros((*shape[:-2], 0), np.int64)
        structure = Compressed(layout, pointers, others, shape, (*shape[:-2], 0))
    return wrap_payload(SparseData(structure, np.zeros(structure.values_shape, dtype)))


def sparse_ufunc(data: SparseData, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> SparseData | NDArray[Any]:
    """Apply a ufunc to the payloads of sparse and dense tensors, by the handler of its function."""
    names = {"multiply": "mul", "true_divide": "div", "divide": "div", "subtract": "sub", "negative": "neg"}
    handler = HANDLERS.get(names.get(ufunc.__name__, ""))
    if handler is None:
        data.refuse(ufunc.__name__)
    args = [
        wrap_payload(i) if isinstance(i, SparseData) else wrap(Tensor, i) if isinstance(i, np.ndarray) else i
        for i in inputs
    ]
    return handler(*args)._array
