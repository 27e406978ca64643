"""Computation with nested tensors by the kind of an op, as the op table states it.

elementwise       on the values, with dense operands expanded to their rows (`aligned`)
to one number     on the packed values (`sum_all` and similar ops)
along dimensions  (`batch="dims"` in the table): the settings say which
    neither the batch nor the ragged one    on the values, one dimension further left
    the ragged one, or with dense ones      for each length once, on the components of that length (`by_groups`)
    the batch and the ragged one            on the packed values, and the result is dense
    the batch alone                         refused: components have different sizes
a public reduction  (`dim` and `keepdim` in its declaration): likewise, as a whole, since its body may read sizes
in place          as the function itself, and the result takes the place of the value (`add_`)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.arrays.jagged import Layout
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.structured import constant
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nested.tensor import (
    HANDLERS,
    KINDS,
    OP_HANDLERS,
    adopt,
    build,
    by_groups,
    data_of,
    described,
    is_nested,
    layout_of,
    move_dim,
    on_values,
    pack,
    refuse,
    values_of,
    wrap_payload,
)

if TYPE_CHECKING:
    from ndgrad.nested.tensor import NestedTensor

# ----- elementwise ----------------------------------------------------------------------------------------------------


def mismatch(name: str, *tensors: Any) -> NoReturn:
    """Raise an error for tensors that do not combine, with their differences."""
    shapes = " and ".join(str(tuple(t.shape)) for t in tensors)
    raise RuntimeError(
        f"cannot call binary pointwise function {name} with inputs of shapes {shapes}: "
        f"{' beside '.join(described(t) for t in tensors)}. Nested tensors combine if their components have the same "
        "lengths, and with dense tensors that broadcast to (B, 1, ...); convert with to_padded_tensor(0.0) otherwise. "
        "[nd-nested]"
    )


def aligned(name: str, tensors: list[Any]) -> tuple[Layout, list[Any]]:
    """Return the common layout of nested and dense operands of an elementwise function, and each operand in a form that
    combines with the values of the others.
    """
    nested = [t for t in tensors if is_nested(t)]
    first = nested[0]
    lead = layout_of(first)
    for t in nested[1:]:
        layout = layout_of(t)
        if layout.size != lead.size or layout.dim != lead.dim or t.ndim != first.ndim:
            mismatch(name, first, t)
    if name == "add" and all(layout_of(t).same_rows(lead) for t in nested) and len(nested) == len(tensors):
        return lead, [values_of(t) for t in nested]  # sums of gradients keep the contents of holes
    layout = Layout(lead.size, lead.dim) if not lead.packed else lead
    return layout, [pack(t)[1] if is_nested(t) else _align_dense(name, first, t) for t in tensors]


def _align_dense(name: str, x: NestedTensor, dense: Tensor) -> Tensor:
    """Return a dense tensor in a form that combines with the packed values of a nested one: without the batch, with a
    row for each of their rows, or with one row for all.
    """
    given, layout, shape, ndim = dense, layout_of(x), tuple(dense.shape), x.ndim
    if not shape:
        return dense
    if len(shape) > ndim:
        mismatch(name, x, given)
    if len(shape) < ndim:
        dense = ops.reshape(dense, shape=(1,) * (ndim - len(shape)) + shape)
        shape = tuple(dense.shape)
    dim, size = layout.dim, layout.size
    if shape[0] not in (1, layout.batch):
        mismatch(name, x, given)
    if shape[dim] == 1:
        if shape[0] == 1:
            return ops.reshape(dense, shape=shape[1:])
        rows = ops.reshape(dense, shape=(*shape[:dim], *shape[dim + 1 :]))
        return move_dim(ops.index_select(rows, constant(size.components), dim=0), 0, dim - 1)
    if shape[dim] != size.longest or shape[0] != layout.batch:
        mismatch(name, x, given)
    # For a padded tensor, take the elements outside the padding.
    flat = ops.reshape(move_dim(dense, dim, 1), shape=(-1, *shape[1:dim], *shape[dim + 1 :]))
    rows = ops.index_select(flat, constant(size.components * shape[dim] + size.positions), dim=0)
    return move_dim(rows, 0, dim - 1)


def elementwise(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> NestedTensor | tuple[NestedTensor, ...]:
    """Apply an elementwise function to nested and dense tensors and numbers."""
    places: list[Any] = [*args, *options.values()]
    tensors = [v for v in places if isinstance(v, Variable)]
    layout, stand_ins = aligned(name, tensors)
    given = iter(stand_ins)
    new = [next(given) if isinstance(v, Variable) else v for v in places]
    out = function(*new[: len(args)], **dict(zip(options, new[len(args) :], strict=True)))
    return tuple(build(o, layout) for o in out) if isinstance(out, tuple) else build(out, layout)


def _elementwise_kind(func: Callable[..., Any] | Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    op = func if isinstance(func, Op) else getattr(func, "op", None)
    if op is None or not op.elementwise:
        return NotImplemented
    return elementwise(op.name, func, args, options)


# ----- reductions and other ops along dimensions ----------------------------------------------------------------------


def _to_one_number(func: Callable[..., Any] | Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not isinstance(func, Op) or not func.name.endswith("_all"):
        return NotImplemented
    return func(*(pack(a)[1] if is_nested(a) else a for a in args), **options)


#: Public functions along one dimension that keep all sizes.
_KEEPS_SIZES = frozenset("cumsum cumprod logcumsumexp cummax cummin sort argsort".split())


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(inspect.unwrap(function))


def _declared_kind(func: Callable[..., Any] | Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run a public reduction according to its declaration: f(input, ..., dim, ..., keepdim). It runs as a whole, since
    its body may read sizes; so do running forms and sorting.
    """
    if isinstance(func, Op):
        return NotImplemented
    reduces = False
    if func.__name__ not in _KEEPS_SIZES:
        known = _signature(func).parameters
        reduces = (
            next(iter(known), None) in ("input", "self") and "dim" in known and "keepdim" in known and "q" not in known
        )
        if not reduces:
            return NotImplemented
    given = _signature(func).bind(*args, **options)
    given.apply_defaults()
    (_, x), *rest = given.arguments.items()
    settings = {name: value for name, value in rest if name != "out"}
    dim = settings.pop("dim")
    if isinstance(dim, Variable):  # max(x, y)
        return NotImplemented
    if isinstance(dim, bool):  # std(x, False): unbiased
        settings["unbiased"], dim = dim, None
    if any(isinstance(v, Variable) for v in settings.values()) or not is_nested(x) or settings.get("p") == "nuc":
        refuse(func.__name__, args, options)
    if reduces and (dim is None or dim == ()):
        keepdim = settings.pop("keepdim")
        found = func(pack(x)[1], **settings)
        return found if not keepdim else ops.reshape(found, shape=(1,) * x.ndim)
    dims = as_dim(dim, x.ndim) if isinstance(dim, int) else tuple(as_dim(d, x.ndim) for d in dim)

    def call(dense: Tensor, dims: int | tuple[int, ...]) -> Any:
        return func(dense, dim=dims, **settings)

    return apply_along(func.__name__, call, (x,), dims, reduces=reduces, keepdim=settings.get("keepdim"))


def _along_kind(func: Callable[..., Any] | Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not isinstance(func, Op) or func.batch != "dims" or func.moves_dims:
        return NotImplemented
    settings = {**func.settings, **options}
    key = next((k for k in ("dim", "dims") if k in settings), None)
    if key is None:
        return NotImplemented
    dims = settings[key]

    def call(*tensors: Any, dims: int | tuple[int, ...]) -> Tensor | tuple[Tensor, ...]:
        return func(*tensors, **{**settings, key: dims})

    adds = func.name in ("unsqueeze", "stack")
    keepdim = settings.get("keepdim")
    return apply_along(func.name, call, args, dims, reduces="keepdim" in settings, keepdim=keepdim, adds=adds)


def apply_along(
    name: str,
    call: Callable[..., Any],
    tensors: tuple[Any, ...],
    dims: int | tuple[int, ...],
    *,
    reduces: bool,
    keepdim: bool | None = False,
    adds: bool = False,
) -> Any:
    """Apply a function along dimensions: `call(*dense, dims=...)` of nested tensors of one structure."""
    first = tensors[0]
    _check_one_structure(name, tensors)
    layout = layout_of(first)
    chosen = (dims,) if isinstance(dims, int) else tuple(dims)
    ragged = layout.dim in chosen and not adds
    if 0 in chosen and not (ragged and reduces):
        _refuse_batch(name, first, dims, reduces)
    if ragged and 0 not in chosen:
        return _along_ragged(name, call, tensors, dims, reduces=reduces)
    values = [pack(t) for t in tensors]
    layout = values[0][0]
    inner = tuple(d - 1 for d in chosen if d)
    out = call(*(v for _, v in values), dims=inner[0] if isinstance(dims, int) else inner)
    results = out if isinstance(out, tuple) else (out,)
    made = []
    for result in results:
        if ragged:  # the whole batch
            made.append(ops.unsqueeze(result, dim=0) if keepdim else result)
            continue
        place = layout.dim
        if result.ndim < first.ndim - 1:
            place -= sum(d < layout.dim for d in chosen)
        elif result.ndim > first.ndim - 1:
            place += sum(d <= layout.dim for d in chosen)
        made.append(build(result, layout.with_dim(place)))
    if not isinstance(out, tuple):
        return made[0]
    return type(out)(*made) if hasattr(out, "_fields") else tuple(made)


def _check_one_structure(name: str, tensors: tuple[Any, ...]) -> None:
    first = tensors[0]
    for t in tensors:
        if not is_nested(t) or not is_nested(first):
            refuse(name, tensors, {})
        own, other = layout_of(t), layout_of(first)
        if own.size != other.size or own.dim != other.dim or t.ndim != first.ndim:
            mismatch(name, first, t)


def _refuse_batch(name: str, x: NestedTensor, dims: int | tuple[int, ...], reduces: bool) -> NoReturn:
    if not reduces:
        raise RuntimeError(
            f"{name}(): not supported for NestedTensor on dim=0, the batch ({described(x)}). Use unbind(), or "
            "to_padded_tensor(0.0). [nd-nested]"
        )
    raise RuntimeError(
        f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested "
        f"tensors ({described(x)}, dim={dims}). Reduce over the ragged dimension {layout_of(x).dim} first, or use "
        "to_padded_tensor(0.0). [nd-nested]"
    )


def _along_ragged(
    name: str, call: Callable[..., Any], tensors: tuple[Any, ...], dims: int | tuple[int, ...], *, reduces: bool
) -> Any:
    first = tensors[0]
    layout = layout_of(first)
    if reduces:
        if name in ("sum", "mean") and np_dtype(first).kind in "fc":
            return call_on_sums(name, call, first, dims)
        return by_groups(name, lambda *group: call(*group, dims=dims), list(tensors), None)

    def keeping(*group: Any) -> Any:
        out = call(*group, dims=dims)
        for result in out if isinstance(out, tuple) else (out,):
            if tuple(result.shape) != tuple(group[0].shape):
                raise RuntimeError(
                    f"{name}(): not supported for NestedTensor on ragged dim ({described(first)}, dim={dims}). Use "
                    "unbind(), or to_padded_tensor(0.0). [nd-nested]"
                )
        return out

    return by_groups(name, keeping, list(tensors), layout.dim)


def call_on_sums(name: str, call: Callable[..., Any], x: NestedTensor, dims: int | tuple[int, ...]) -> Tensor:
    """Compute a sum or mean over the ragged dimension and perhaps dense ones: rows are added to their component's."""
    layout, values = pack(x)
    at, size = layout.dim - 1, layout.size
    rows = move_dim(values, at, 0)
    zeros = wrap(Tensor, np.zeros((layout.batch, *rows.shape[1:]), np_dtype(x)))
    sums = ops.index_add(zeros, constant(size.components), rows, dim=0)
    if name == "mean":
        counts = size.lengths.reshape(-1, *(1,) * (len(rows.shape) - 1)).astype(np_dtype(x).type(0).real.dtype)
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN for no elements
            sums = sums / constant(counts)
    dense = move_dim(ops.unsqueeze(sums, dim=1), 1, layout.dim)
    return call(dense, dims=dims)


# ----- ops that keep the shape, and in-place ops ----------------------------------------------------------------------


def _keeps_shape(op: Op) -> Callable[..., Any]:
    return lambda x, *others, **settings: on_values(lambda v: op(v, *others, **settings), x)


for _name in ("cast", "clone", "clone_ordered", "zeros_like", "alias", "fill", "zero"):
    OP_HANDLERS[_name] = _keeps_shape(getattr(ops, _name))


def detached(x: NestedTensor) -> NestedTensor:
    """Return the same values outside of the graph."""
    data = data_of(x)
    if isinstance(data.values, Variable):
        return build(data.values.detach(), data.layout)
    made = wrap_payload(data)
    made._storage = storage_of(x)
    return made


OP_HANDLERS["detach"] = detached


def _in_place(func: Callable[..., Any] | Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run a function whose name ends with an underscore: the function itself, whose result replaces the tensor's
    value.
    """
    if isinstance(func, Op):
        return NotImplemented
    name = func.__name__
    if not name.endswith("_") or name.endswith("__"):
        return NotImplemented
    plain = getattr(Tensor, name[:-1], None)
    if plain is None:
        return NotImplemented
    if not is_nested(args[0]):
        refuse(name, args, options)
    handler = HANDLERS.get(name[:-1])
    result = (plain if handler is None else handler)(*args, **options)
    return adopt(name, args[0], result)


KINDS += [_elementwise_kind, _to_one_number, _declared_kind, _along_kind, _in_place]
