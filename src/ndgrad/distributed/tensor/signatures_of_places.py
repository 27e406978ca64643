"""Signatures of ops that read or write at positions: lookups, scatters, pads, and the backwards of reads.

Indexed dimensions, and dimensions of which a part is taken, must be whole on every rank. All others can be divided. If
values are accumulated, the added values can be divided too: every rank adds its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.ops.table import Op
from ndgrad.distributed.tensor.signatures import (
    Labeller,
    Labels,
    Shape,
    Signature,
    batch_labels,
    getitem_labels,
    signature_rule,
)

_FIRST = (frozenset((0,)),)


def _but(ndim: int, *dims: int) -> Labels:
    """Return labels for all dimensions but some."""
    return tuple(None if i in dims else i for i in range(ndim))


def _alike(shape: Shape, other: Shape, dim: int) -> Labels:
    """Return labels of the dimensions other than `dim` with equal lengths in both."""
    return tuple(i if i != dim and n == m else None for i, (n, m) in enumerate(zip(shape, other, strict=True)))


def _sign_shaped(
    op: Op, inputs: Sequence[Labels | None], outputs: Labels, settings: dict[str, Any], name: str = "shape", **rest: Any
) -> Signature:
    """Return the signature of an op whose settings contain the shape of its result."""

    def local(ops: Any, args: Sequence[Any], given: dict[str, Any], sizes: dict[int, int]) -> Any:
        shape = tuple(sizes.get(i, n) for i, n in enumerate(given[name]))
        return getattr(ops, op.name)(*args, **{**given, name: shape})

    return Signature(inputs, outputs, result_shape=tuple(settings[name]), local=local, **rest)


# ----- numbers of another form ----------------------------------------------------------------------------------------


@signature_rule("view_as_real")
def _view_as_real(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(range(len(shapes[0])))
    return Signature([labels], labels, linear=op.linear_in(1))


@signature_rule("isin")
def _isin(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(range(len(shapes[0])))
    return Signature([labels, (None,) * len(shapes[1])], labels)


@signature_rule("searchsorted")
def _searchsorted(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """The values searched for can be divided, together with the sorted lines."""
    x, y = shapes
    labels = tuple(range(len(y)))
    return Signature([(None,) if len(x) == 1 else (*labels[:-1], None), labels], labels)


# ----- parts of dimensions --------------------------------------------------------------------------------------------


@signature_rule("rot90")
def _rot90(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    ndim = len(shapes[0])
    labels = _but(ndim, *(d % ndim for d in settings["dims"]))
    return Signature([labels], labels, linear=op.linear_in(1))


@signature_rule("repeat")
def _repeat(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    repeats, ndim = settings["repeats"], len(shapes[0])
    first = len(repeats) - ndim
    labels = tuple(i if repeats[first + i] == 1 else None for i in range(ndim))
    return Signature([labels], (*(None,) * first, *labels), linear=op.linear_in(1))


@signature_rule("constant_pad_nd")
def _constant_pad(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(i if tuple(settings["pads"][i]) == (0, 0) else None for i in range(len(shapes[0])))
    return Signature([labels], labels, linear=_FIRST if settings["value"] == 0 else ())


@signature_rule("renorm")
def _renorm(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Every slice along `dim` has its own norm."""
    dim = settings["dim"] % len(shapes[0])
    labels = tuple(i if i == dim else None for i in range(len(shapes[0])))
    return Signature([labels], labels)


@signature_rule("diag_embed")
def _diag_embed(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    ndim = len(shapes[0])
    rest = iter(range(ndim - 1))
    dims = {settings["dim0"] % (ndim + 1), settings["dim1"] % (ndim + 1)}
    out = tuple(None if i in dims else next(rest) for i in range(ndim + 1))
    return Signature([(*range(ndim - 1), None)], out, linear=op.linear_in(1))


@signature_rule("element")
def _element(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    return Signature([(None,) * len(shapes[0])], (), linear=op.linear_in(1))


@signature_rule("embed")
def _embed(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    """Backward of a read: write a part into zeros of the whole."""
    found = getitem_labels(tuple(settings["shape"]), settings["index"])
    if found is None:
        return None
    whole, part = found
    return _sign_shaped(op, [part], whole, settings, linear=op.linear_in(1))


@signature_rule("slice_scatter")
def _slice_scatter(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    found = getitem_labels(shapes[0], settings["index"])
    if found is None:
        return None
    whole, part = found
    y = shapes[1]
    first = len(part) - len(y)
    if first < 0:
        return None
    where = [None if l is None else whole.index(l) for l in part]
    part = tuple(
        l if l is not None and n == shapes[0][where[first + i] or 0] else None  # dimensions that broadcast are whole
        for i, (n, l) in enumerate(zip(y, part[first:], strict=True))
    )
    return Signature([whole, part], whole, linear=[frozenset((0, 1))])


@signature_rule("select_backward")
def _select_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    ndim, dim = len(settings["shape"]), settings["dim"]
    out = _but(ndim, dim)
    return _sign_shaped(op, [tuple(i for i in out if i is not None)], out, settings, linear=op.linear_in(1))


@signature_rule("slice_backward")
def _slice_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = _but(len(settings["shape"]), settings["dim"])
    return _sign_shaped(op, [labels], labels, settings, linear=op.linear_in(1))


@signature_rule("unfold_backward")
def _unfold_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = _but(len(settings["shape"]), settings["dim"])
    return _sign_shaped(op, [(*labels, None)], labels, settings, linear=op.linear_in(1))


@signature_rule("diagonal_backward")
def _diagonal_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    ndim = len(settings["shape"])
    out = _but(ndim, settings["dim0"] % ndim, settings["dim1"] % ndim)
    rest = tuple(i for i in out if i is not None)
    return _sign_shaped(op, [(*rest, None)], out, settings, linear=op.linear_in(1))


# ----- an index along one dimension -----------------------------------------------------------------------------------


@signature_rule("place_along")
def _place_along(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = _alike(shapes[0], shapes[1], settings["dim"])
    return Signature([labels, labels], labels, linear=_FIRST)


@signature_rule("max_at", "min_at")
def _extreme_at(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x = shapes[0]
    dim = settings["dim"] % len(x) if x else 0
    labels = _but(len(x), dim)
    rest = labels if settings["keepdim"] else tuple(i for i in labels if i is not None)
    return Signature([labels, rest], rest)


@signature_rule("scatter", "scatter_extreme", "scatter_add")
def _scatter(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    x, index, y = (*shapes, None)[:3]
    assert x is not None
    assert index is not None
    if not x or len(x) != len(index):
        return None
    dim = settings["dim"] % len(x)
    labels = _alike(x, index, dim)
    along = tuple(
        len(x) if i == dim and op.name == "scatter_add" else label for i, label in enumerate(labels)
    )  # sums of the ranks' contributions
    given: Labels | None = None if y is None else () if not y else along if y == index else None
    if y is not None and y and given is None:
        return None
    adds = op.name == "scatter_add"
    linear = [frozenset((0, 2))] if op.name != "scatter_extreme" else []
    return Signature(
        [labels, along, given], labels, reductions={len(x): "sum"} if adds else {}, linear=linear,
        added=frozenset((0,)) if adds else frozenset(),
    )  # fmt: skip


@signature_rule("gather_backward", "scatter_prod")
def _gather_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, whole = shapes[0], tuple(settings["shape"])
    dim = settings["dim"] % len(whole)
    labels = _alike(whole, x, dim)
    adds = op.name == "gather_backward"
    along = tuple(len(whole) if i == dim and adds else label for i, label in enumerate(labels))
    return _sign_shaped(
        op, [along, along], labels, settings, linear=_FIRST if adds else (),
        reductions={len(whole): "sum"} if adds else {},
    )  # fmt: skip


@signature_rule("overwritten_along")
def _overwritten_along(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, whole = shapes[0], tuple(settings["shape"])
    labels = _alike(x, whole, settings["dim"] % len(whole))

    def local(ops: Any, args: Sequence[Any], given: dict[str, Any], sizes: dict[int, int]) -> Any:
        shape = tuple(sizes.get(i, n) for i, n in enumerate(given["shape"]))
        return ops.overwritten_along(*args, **{**given, "shape": shape})

    return Signature([labels], labels, local=local)


@signature_rule("index_add", "index_copy", "index_fill")
def _index_write(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    x, index, y = (*shapes, None)[:3]
    assert x is not None
    assert index is not None
    if not x or len(index) != 1:
        return None
    dim = settings["dim"] % len(x)
    labels = _but(len(x), dim)
    if op.name == "index_fill":
        return Signature([labels, (None,), None if y is None else ()], labels)
    if y is None or len(y) != len(x):
        return None
    if op.name == "index_copy":
        return Signature([labels, (None,), labels], labels, linear=[frozenset((0, 2))])
    along = tuple(len(x) if i == dim else label for i, label in enumerate(labels))
    return Signature(
        [labels, (len(x),), along], labels, reductions={len(x): "sum"}, linear=[frozenset((0, 2))],
        added=frozenset((0,)),
    )  # fmt: skip


@signature_rule("index_select_backward")
def _index_select_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    x, index = shapes
    if len(index) != 1 or not x:
        return None
    dim = settings["dim"] % len(x)
    labels = _but(len(x), dim)
    along = tuple(len(x) if i == dim else label for i, label in enumerate(labels))
    return Signature([along, (len(x),)], labels, reductions={len(x): "sum"}, linear=_FIRST)


# ----- several indices at once ----------------------------------------------------------------------------------------


@signature_rule("index")
def _index(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Arrays of numbers index the first dimensions; the others stay."""
    x, *indices = shapes
    names = Labeller()
    found, batch = batch_labels(indices, names)
    rest = names.some(len(x) - len(indices))
    return Signature([(*(None,) * len(indices), *rest), *found], (*batch, *rest), linear=_FIRST)


@signature_rule("index_add_zeros")
def _index_add_zeros(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, *indices = shapes
    names = Labeller()
    found, batch = batch_labels(indices, names)
    whole = settings["shape"]
    rest = names.some(len(whole) - len(indices))
    sizes = _broadcast(indices)
    if tuple(x) != (*sizes, *whole[len(indices) :]):
        found, batch = [(None,) * len(s) for s in indices], (None,) * len(batch)
    return _sign_shaped(
        op, [(*batch, *rest), *found], (*(None,) * len(indices), *rest), settings, linear=_FIRST,
        reductions={label: "sum" for label in batch if label is not None},
    )  # fmt: skip


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    ndim = max(map(len, shapes), default=0)
    sizes = [1] * ndim
    for s in shapes:
        for i, n in enumerate(s, ndim - len(s)):
            sizes[i] = n if n != 1 else sizes[i]
    return tuple(sizes)


@signature_rule("index_put")
def _index_put(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    x, y, *indices = shapes
    if x is None or any(i is None for i in indices):
        return None
    labels = _but(len(x), *range(len(indices)))
    given: Labels | None = None
    if y is not None:
        last = min(len(y), len(x) - len(indices))
        first = len(x) - last
        tail = tuple(labels[first + i] if n == x[first + i] else None for i, n in enumerate(y[len(y) - last :]))
        given = (*(None,) * (len(y) - last), *tail)
    return Signature([labels, given, *((None,) * len(i or ()) for i in indices)], labels, linear=[frozenset((0, 1))])


@signature_rule("take")
def _take(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(range(len(shapes[1])))
    return Signature([(None,) * len(shapes[0]), labels], labels, linear=_FIRST)
