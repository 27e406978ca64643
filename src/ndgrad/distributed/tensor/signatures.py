"""Signatures: the effect of an op on dimensions, which determines how ranks can divide it.

A signature names the dimensions of the arguments and results by labels, as einsum does:

    matmul          bmk, bkn -> bmn         k is summed over
    sum over 1      ab -> a                 b is summed over
    softmax over 1  a. -> a.                the dot: not to be divided

A label that the arguments and the result have in common can be divided: every rank computes its piece from its pieces.
One that only the arguments have, and that the op sums (or takes the extreme) over, can be divided too, and the results
are then terms of the result (Partial). Besides, an op that is linear in some arguments makes terms of terms.

Most signatures follow from the op table: elementwise ops align dimensions from the right, ops with the batching rule
"dims" act only along the dimensions in their setting, ops with "leading" keep all but the last two. The others are
defined here, one function each. An op without a signature cannot run on spread tensors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.arrays.scatter import check_range
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.table import RANDOM, VARIABLE, Op, RulesOfOps
from ndgrad.distributed.tensor.placements import Divided, Shard, StridedShard

Shape = tuple[int, ...]
#: One label per dimension; None is a dimension that must be whole.
Labels = tuple[int | None, ...]


class Signature:
    """The labels of the arguments (None: no array) and of the results, which may have more dimensions at the end, and
    other facts that matter for dividing the op.
    """

    __slots__ = (
        "added", "draws", "even", "folds", "inputs", "linear", "local", "outputs", "reductions", "result_shape",
        "wants_starts",
    )  # fmt: skip

    def __init__(
        self,
        inputs: Sequence[Labels | None],
        outputs: Labels,
        *,
        reductions: dict[int, str] | None = None,
        linear: Sequence[frozenset[int]] = (),
        added: frozenset[int] = frozenset(),
        even: frozenset[int] = frozenset(),
        result_shape: Shape | None = None,
        local: Callable[..., Any] | None = None,
        wants_starts: bool = False,
        folds: dict[Divided, tuple[Divided, int]] | None = None,
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), outputs
        #: label -> reduction of the ranks' results, if it is divided and the result does not have it
        self.reductions = reductions or {}
        #: Sets of arguments in which the op is jointly linear, with the others fixed.
        self.linear = tuple(linear)
        #: Arguments that are added to a sum: if the sum is divided, only one rank may add them.
        self.added = added
        #: Labels that can be divided only into equal parts.
        self.even = even
        #: Shape of the result, if it is not that of the combined local results.
        self.result_shape = result_shape
        #: Function that every rank runs in place of the op: (ops, args, settings, local sizes of the result's
        #: dimensions) -> result.
        self.local = local
        #: Placement of the only argument -> placement of the result, and a length that the number of ranks must divide.
        self.folds = folds or {}
        #: True if `local` has a parameter `starts`: label of a divided dimension -> start of this rank's piece.
        self.wants_starts = wants_starts
        #: True if it draws random numbers, of which every rank takes its piece (`draws`).
        self.draws = False


class Labeller:
    """Generator of new labels."""

    def __init__(self) -> None:
        self.next = 0

    def one(self) -> int:
        self.next += 1
        return self.next - 1

    def some(self, count: int) -> tuple[int, ...]:
        return tuple(self.one() for _ in range(count))


signature_rule: RulesOfOps[Callable[..., Signature | None]] = RulesOfOps("signatures")


def signature(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    """Return the signature of an op for arguments of these shapes, or None."""
    rule = signature_rule.get(op.name)
    if rule is not None:
        return rule(op, shapes, settings)
    if not _is_local(op):
        return None
    if op.elementwise:
        return elementwise(op, shapes)
    if op.joins_pieces_by is not None and "dim" not in op.settings:
        return _whole_reduction(op, shapes, settings)
    if op.batch == "dims":
        return _sign_along(op, shapes, settings)
    if op.core_dims is not None:
        return _sign_batches(op, shapes) if any(op.core_dims) else elementwise(op, shapes)
    return None


def _is_local(op: Op) -> bool:
    """True if an op is a function of its arguments alone: it draws and sends nothing."""
    return op.batch is not RANDOM and not {"generator", "group"} & op.settings.keys()


def has_signature(op: Op) -> bool:
    """True if an op accepts spread tensors."""
    if signature_rule.get(op.name) is not None:
        return True
    known = op.elementwise or op.batch == "dims" or op.core_dims is not None or op.joins_pieces_by is not None
    return _is_local(op) and known


# ----- kinds ----------------------------------------------------------------------------------------------------------


def elementwise(op: Op, shapes: Sequence[Shape | None]) -> Signature:
    arrays = [s for s in shapes if s is not None]
    ndim = max((len(s) for s in arrays), default=0)
    labels = tuple(range(ndim))
    sizes = [1] * ndim
    for s in arrays:
        for i, n in enumerate(s, ndim - len(s)):
            if n != 1:
                sizes[i] = n
    inputs = [
        None if s is None else tuple(labels[i] if n == sizes[i] else None for i, n in enumerate(s, ndim - len(s)))
        for s in shapes
    ]
    return Signature(inputs, labels, linear=op.linear_in(len(shapes)))


def _dims_of(settings: dict[str, Any], ndim: int) -> tuple[int, ...]:
    found: list[int] = []
    for name in ("dim", "dims", "dim0", "dim1"):
        value = settings.get(name)
        if isinstance(value, int):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found.extend(value)
    return tuple(d % ndim for d in found) if ndim else ()


def _sign_along(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    """Return the signature of an op that acts along some dimensions, on each line separately."""
    arrays = [s for s in shapes if s is not None]
    if not arrays or any(len(s) != len(arrays[0]) for s in arrays):
        return None
    ndim = len(arrays[0])
    dims = _dims_of(settings, ndim)
    reduction = op.joins_pieces_by
    reductions: dict[int, str] = {}
    labels: list[int | None] = []
    for i in range(ndim):
        labels.append(i if (i not in dims and len({s[i] for s in arrays}) == 1) or (i in dims and reduction) else None)
        if i in dims and reduction:
            reductions[i] = reduction
    out: Labels = tuple(None if i in dims else label for i, label in enumerate(labels))
    if "keepdim" in settings and not settings["keepdim"]:
        out = tuple(label for i, label in enumerate(out) if i not in dims)
    linear = op.linear_in(len(shapes)) if _keeps_floats(settings) else ()
    return Signature([None if s is None else tuple(labels) for s in shapes], out, reductions=reductions, linear=linear)


def _keeps_floats(settings: dict[str, Any]) -> bool:
    dtype = settings.get("dtype")
    return dtype is None or getattr(dtype, "kind", "f") in "fc"


def _sign_batches(op: Op, shapes: Sequence[Shape | None]) -> Signature | None:
    """Return the signature of an op on a batch of problems, each of them the last dimensions (`core_dims`)."""
    cores = op.core_dims or ()
    cores = cores if len(cores) == len(shapes) else [*cores] * len(shapes)
    given = [s for s in shapes if s is not None]
    if len(given) < len(shapes) or any(len(s) < core for s, core in zip(given, cores, strict=True)):
        return None
    labels, batch = batch_labels([s[: len(s) - core] for s, core in zip(given, cores, strict=True)], Labeller())
    inputs = [(*found, *(None,) * core) for found, core in zip(labels, cores, strict=True)]
    return Signature(inputs, batch, linear=op.linear_in(len(shapes)))


# ----- shapes ---------------------------------------------------------------------------------------------------------


@signature_rule("unsqueeze")
def _unsqueeze(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    ndim = len(shapes[0])
    labels = tuple(range(ndim))
    at = settings["dim"]
    return Signature([labels], (*labels[:at], None, *labels[at:]), linear=op.linear_in(1))


@signature_rule("squeeze", "squeeze_dim", "squeeze_dims")
def _squeeze(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    shape = shapes[0]
    dims = settings["dims"]
    dims = (dims,) if isinstance(dims, int) else dims
    gone = {d % len(shape) for d in dims if shape[d] == 1} if shape else set()
    labels = tuple(None if i in gone else i for i in range(len(shape)))
    return Signature([labels], tuple(i for i in range(len(shape)) if i not in gone), linear=op.linear_in(1))


@signature_rule("transpose")
def _transpose(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = list(range(len(shapes[0])))
    a, b = settings["dim0"], settings["dim1"]
    out = labels.copy()
    if labels:
        out[a], out[b] = out[b], out[a]
    return Signature([tuple(labels)], tuple(out), linear=op.linear_in(1))


@signature_rule("t")
def _t(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(range(len(shapes[0])))
    return Signature([labels], labels[::-1], linear=op.linear_in(1))


@signature_rule("permute")
def _permute(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(range(len(shapes[0])))
    return Signature([labels], tuple(labels[d] for d in settings["dims"]), linear=op.linear_in(1))


def _with_local_shape(ops: Any, args: Sequence[Any], settings: dict[str, Any], sizes: dict[int, int]) -> Any:
    shape = tuple(sizes.get(i, n) for i, n in enumerate(settings["shape"]))
    return args[0].reshape(shape)  # the memory layout of a local tensor may differ from that of the whole


@signature_rule("expand")
def _expand(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    shape, to = shapes[0], tuple(settings["shape"])
    first = len(to) - len(shape)
    labels: list[int | None] = []
    out: list[int | None] = [None] * len(to)
    for i, n in enumerate(shape):
        same = to[first + i] == n
        labels.append(i if same else None)
        out[first + i] = i if same else None
    return Signature([tuple(labels)], tuple(out), linear=op.linear_in(1), result_shape=to, local=_expanded_locally)


def _expanded_locally(ops: Any, args: Sequence[Any], settings: dict[str, Any], sizes: dict[int, int]) -> Any:
    return ops.expand(*args, shape=tuple(sizes.get(i, n) for i, n in enumerate(settings["shape"])))


@signature_rule("reshape", "unsafe_view")
def _reshape(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Return the signature of a reshape. Dimensions fall into groups with the same number of elements on both sides.
    The first of each group can be divided: into pieces of any sizes if it is the same on both sides, else into equal
    ones.
    """
    shape, to = shapes[0], tuple(settings["shape"])
    labels: list[int | None] = [None] * len(shape)
    out: list[int | None] = [None] * len(to)
    even = set()
    folds: dict[Divided, tuple[Divided, int]] = {}
    i = j = 0
    while i < len(shape) and j < len(to) and 0 not in shape:
        first_i, first_j, have, want = i, j, shape[i], to[j]
        i, j = i + 1, j + 1
        while have != want:
            if have < want and i < len(shape):
                have *= shape[i]
                i += 1
            elif j < len(to):
                want *= to[j]
                j += 1
            else:
                break
        # Leading ones of a group are not divided.
        while first_i < i - 1 and shape[first_i] == 1:
            first_i += 1
        while first_j < j - 1 and to[first_j] == 1:
            first_j += 1
        labels[first_i] = out[first_j] = first_i
        if shape[first_i] != to[first_j]:
            even.add(first_i)
            folds |= _fold(shape, range(first_i, i), to, range(first_j, j))
    return Signature(
        [tuple(labels)],
        tuple(out),
        linear=op.linear_in(1),
        even=frozenset(even),
        result_shape=to,
        local=_with_local_shape,
        folds=folds,
    )


def _fold(shape: Shape, dims: range, to: Shape, to_dims: range) -> dict[Divided, tuple[Divided, int]]:
    """Return the placements of a reshape that joins dimensions or divides one. A piece of an inner dimension is a piece
    of each part of the joined dimension.
    """
    inner, parts, joined = (to, to_dims, dims) if len(dims) == 1 else (shape, dims, to_dims)
    found: dict[Divided, tuple[Divided, int]] = {}
    if len(joined) > 1:
        return found
    before = 1
    for d in parts:
        if before > 1 and inner[d] > 1:
            after = math.prod(inner[d + 1 : parts.stop])
            strided, plain = StridedShard(joined.start, split_factor=before), Shard(d)
            length = 0 if after == 1 else inner[d]
            found |= {plain: (strided, length)} if inner is shape else {strided: (plain, length)}
        before *= inner[d]
    return found


@signature_rule("select", "unbind")
def _select(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(None if i == settings["dim"] else i for i in range(len(shapes[0])))
    return Signature([labels], tuple(i for i in labels if i is not None), linear=op.linear_in(1))


@signature_rule("unfold")
def _unfold(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels = tuple(None if i == settings["dim"] else i for i in range(len(shapes[0])))
    return Signature([labels], labels, linear=op.linear_in(1))


@signature_rule("diagonal")
def _diagonal(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    dims = _dims_of(settings, len(shapes[0]))
    labels = tuple(None if i in dims else i for i in range(len(shapes[0])))
    return Signature([labels], tuple(i for i in labels if i is not None), linear=op.linear_in(1))


@signature_rule("cat")
def _cat(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    ndim = len(shapes[0])
    if any(len(s) != ndim for s in shapes):
        return None
    labels = tuple(None if i == settings["dim"] else i for i in range(ndim))
    return Signature([labels] * len(shapes), labels, linear=op.linear_in(len(shapes)))


@signature_rule("stack")
def _stack(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    labels, at = tuple(range(len(shapes[0]))), settings["dim"]
    return Signature([labels] * len(shapes), (*labels[:at], None, *labels[at:]), linear=op.linear_in(len(shapes)))


@signature_rule("roll")
def _roll(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    dims = _dims_of(settings, len(shapes[0])) or tuple(range(len(shapes[0])))
    labels = tuple(None if i in dims else i for i in range(len(shapes[0])))
    return Signature([labels], labels, linear=op.linear_in(1))


@signature_rule("getitem")
def _getitem(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    found = getitem_labels(shapes[0], settings["index"])
    return None if found is None else Signature([found[0]], found[1], linear=op.linear_in(1))


def getitem_labels(shape: Shape, index: Any) -> tuple[Labels, Labels] | None:
    """Return the labels of a tensor and of a part of it: full slices keep their dimension."""
    index = index if isinstance(index, tuple) else (index,)
    named = sum(1 for k in index if k is not None and k is not Ellipsis)
    full: list[Any] = []
    for k in index:
        full.extend([slice(None)] * (len(shape) - named) if k is Ellipsis else [k])
    full.extend([slice(None)] * (len(shape) - sum(1 for k in full if k is not None)))
    labels: list[int | None] = []
    out: list[int | None] = []
    at = 0
    for k in full:
        if k is None:
            out.append(None)
            continue
        if isinstance(k, slice):
            whole = k.indices(shape[at]) == (0, shape[at], 1)
            labels.append(at if whole else None)
            out.append(at if whole else None)
        elif isinstance(k, int):
            labels.append(None)
        else:
            return None
        at += 1
    return tuple(labels), tuple(out)


# ----- sums and products ----------------------------------------------------------------------------------------------


def _whole_reduction(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    """Return the signature of a reduction of everything."""
    (shape,) = shapes
    if shape is None or op.joins_pieces_by is None:
        return None
    labels = tuple(range(len(shape)))
    reductions = dict.fromkeys(labels, op.joins_pieces_by)
    return Signature([labels], (), reductions=reductions, linear=op.linear_in(1) if _keeps_floats(settings) else ())


@signature_rule("mean", "mean_all")
def _mean(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Return the signature of a mean. Pieces differ in length, so every rank sums, and divides by the whole length."""
    shape = shapes[0]
    dims = tuple(range(len(shape))) if op.name == "mean_all" else _dims_of(settings, len(shape))
    labels = tuple(range(len(shape)))
    out: Labels = tuple(None if i in dims else i for i in labels)
    if not settings.get("keepdim", False):
        out = tuple(i for i in labels if i not in dims)
    count = math.prod(shape[d] for d in dims)

    def local(ops: Any, args: Sequence[Any], settings: dict[str, Any], sizes: dict[int, int]) -> Any:
        (x,) = args
        if math.prod(x.shape[d] for d in dims) == count:
            return getattr(ops, op.name)(x, **settings)
        return ops.sum(x, dim=dims, keepdim=settings.get("keepdim", False), dtype=settings["dtype"]) / float(count)

    return Signature([labels], out, reductions=dict.fromkeys(dims, "sum"), linear=op.linear_in(1), local=local)


@signature_rule("line_dot")
def _line_dot(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    x, y = shapes
    if len(x) != len(y):
        return None
    dim = settings["dim"]
    labels = [
        tuple(i if n == m else None for i, (n, m) in enumerate(zip(s, o, strict=True))) for s, o in ((x, y), (y, x))
    ]
    out = tuple(i if i != dim and x[i] == y[i] else None for i in range(len(x)))
    return Signature(labels, out, reductions={dim: "sum"}, linear=op.linear_in(2))


def batch_labels(shapes: Sequence[Shape], names: Labeller) -> tuple[list[Labels], Labels]:
    """Return labels of leading dimensions that broadcast against each other."""
    ndim = max(map(len, shapes))
    labels = names.some(ndim)
    sizes = [1] * ndim
    for s in shapes:
        for i, n in enumerate(s, ndim - len(s)):
            sizes[i] = n if n != 1 else sizes[i]
    return [tuple(labels[i] if n == sizes[i] else None for i, n in enumerate(s, ndim - len(s))) for s in shapes], labels


@signature_rule("matmul")
def _matmul(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, y = shapes
    names = Labeller()
    k, m, n = names.some(3)
    (bx, by), batch = batch_labels([x[:-2], y[:-2]], names)
    lx = (k,) if len(x) == 1 else (*bx, m, k)
    ly = (k,) if len(y) == 1 else (*by, k, n)
    out = (*batch, *((m,) if len(x) > 1 else ()), *((n,) if len(y) > 1 else ()))
    return Signature([lx, ly], out, reductions={k: "sum"}, linear=op.linear_in(2))


@signature_rule("linear")
def _linear_layer(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature:
    x, w, b = (*shapes, None)[:3]
    assert x is not None
    assert w is not None
    names = Labeller()
    k, n = names.some(2)
    batch = names.some(len(x) - 1)
    linear = [frozenset((0, 2)), frozenset((1, 2))] if b is not None else [frozenset((0,)), frozenset((1,))]
    inputs: list[Labels | None] = [
        (*batch, k),
        (n, k) if len(w) == 2 else (k,),
        None if b is None else (n,) if len(b) else (),
    ]
    return Signature(
        inputs[: len(shapes)],
        (*batch, n) if len(w) == 2 else batch,
        reductions={k: "sum"},
        linear=linear,
        added=frozenset((2,)),
    )


@signature_rule("addmm")
def _addmm(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, a, b = shapes
    m, k, n = 0, 1, 2
    added = tuple(
        label if size == full else None
        for label, size, full in zip((m, n)[2 - len(x) :], x, (a[0], b[1])[2 - len(x) :], strict=True)
    )
    return Signature(
        [added, (m, k), (k, n)],
        (m, n),
        reductions={k: "sum"},
        linear=[frozenset((0, 1)), frozenset((0, 2))],
        added=frozenset((0,)),
    )


@signature_rule("baddbmm")
def _baddbmm(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, a, b = shapes
    i, m, k, n = 0, 1, 2, 3
    whole = (a[0], a[1], b[2])
    added = tuple(
        l if s == f else None for l, s, f in zip((i, m, n)[3 - len(x) :], x, whole[3 - len(x) :], strict=True)
    )
    return Signature(
        [added, (i, m, k), (i, k, n)], (i, m, n), reductions={k: "sum"}, linear=[frozenset((0, 1)), frozenset((0, 2))],
        added=frozenset((0,)),
    )  # fmt: skip


@signature_rule("contract")
def _contract(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    """Return einsum's own signature."""
    subscripts = settings["subscripts"]
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts:
        return None
    left, out = subscripts.replace(" ", "").split("->")
    terms = left.split(",")
    sizes: dict[str, set[int]] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(set(term)) != len(term):
            return None
        for letter, n in zip(term, shape, strict=True):
            sizes.setdefault(letter, set()).add(n)
    names = {letter: i for i, letter in enumerate(sizes)}
    label = {letter: names[letter] if len(found) == 1 else None for letter, found in sizes.items()}
    return Signature(
        [tuple(label[c] for c in term) for term in terms], tuple(label[c] for c in out),
        reductions={names[c]: "sum" for c in sizes if c not in out}, linear=op.linear_in(len(shapes)),
    )  # fmt: skip


# ----- networks and lookups -------------------------------------------------------------------------------------------


@signature_rule("embedding")
def _embedding(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Return the signature of a lookup of rows. Indices can be divided in any way, the table by columns or rows.

    A rank with some of the rows looks up those, and zeros in place of the others: a term of the result. Counts of uses
    (`scale_grad_by_freq`) need all rows and all indices.
    """
    table, index = shapes
    names = Labeller()
    rows, width = names.one(), names.one()
    if settings["scale_grad_by_freq"]:
        return Signature([(None, width), (None,) * len(index)], (*(None,) * len(index), width), linear=op.linear_in(2))
    batch = names.some(len(index))
    return Signature(
        [(rows, width), batch], (*batch, width), reductions={rows: "sum"}, linear=op.linear_in(2),
        local=functools.partial(_look_up_own_rows, rows, table[0]), wants_starts=True,
    )  # fmt: skip


def _look_up_own_rows(
    label: int, length: int, ops: Any, args: Sequence[Any], settings: dict[str, Any], sizes: Any, starts: dict[int, int]
) -> Any:
    """Look up rows in the rows of this rank; zeros stand for the others."""
    table, index = args
    if label not in starts:
        return ops.embedding(table, index, **settings)
    array = index._array if isinstance(index, Variable) else index
    if not isinstance(array, MetaArray):
        check_range(library_of(array), "embedding", array, length, 0, later=True)
    start, count = starts[label], table.shape[0]
    if not count:  # the zeros depend on the table, so that its gradient is not missing
        zeros = ops.expand(ops.sum(table, dim=(0,), keepdim=False), shape=(*index.shape, table.shape[1]))
        return zeros
    padding = settings["padding_idx"]
    padding = padding - start if padding is not None and start <= padding < start + count else None
    here = (index >= start) & (index < start + count)
    found = ops.embedding(table, ops.where(here, index - start, 0), padding_idx=padding, scale_grad_by_freq=False)
    return ops.where(ops.unsqueeze(here, dim=len(index.shape)), found, 0.0)


@signature_rule("rows")
def _rows(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, index = shapes
    names = Labeller()
    rest, batch = names.some(len(x) - 1), names.some(len(index))
    return Signature([(None, *rest), batch], (*batch, *rest), linear=op.linear_in(2))


@signature_rule("index_select")
def _index_select(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    x, index = shapes
    if len(index) != 1 or not x:
        return None
    dim = settings["dim"]
    labels = tuple(None if i == dim else i for i in range(len(x)))
    return Signature(
        [labels, (len(x),)], tuple(len(x) if i == dim else i for i in range(len(x))), linear=op.linear_in(2)
    )


@signature_rule("gather")
def _gather(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    x, index = shapes
    if len(x) != len(index) or not x:
        return None
    dim = settings["dim"]
    labels = tuple(i if i != dim and x[i] == index[i] else None for i in range(len(x)))
    along = tuple(len(x) if i == dim else label for i, label in enumerate(labels))
    return Signature([labels, along], along, linear=op.linear_in(2))


@signature_rule("pick_along")
def _pick_along(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    x, index = shapes
    if len(x) != len(index) + 1:
        return None
    labels = tuple(None if i == settings["dim"] else i for i in range(len(x)))
    rest = tuple(i for i in labels if i is not None)
    return Signature([labels, rest], rest, linear=op.linear_in(2))


@signature_rule("softmax_cross_entropy")
def _softmax_cross_entropy(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    x, target = shapes
    if len(x) != len(target) + 1:
        return None
    labels = tuple(None if i == settings["dim"] else i for i in range(len(x)))
    rest = tuple(i for i in labels if i is not None)
    return Signature([labels, rest], rest)


@signature_rule("native_layer_norm", "rms_norm")
def _layer_norm(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature:
    return normalised_labels(shapes, settings)


def normalised_labels(shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature:
    """Return the signature of a normalisation over some dimensions, with weights that broadcast against the rest."""
    x = shapes[0]
    assert x is not None
    dims = _dims_of(settings, len(x))
    labels = tuple(None if i in dims else i for i in range(len(x)))
    others: list[Labels | None] = []
    for s in shapes[1:]:
        if s is None:
            others.append(None)
            continue
        first = len(x) - len(s)
        others.append(tuple(labels[first + i] if n == x[first + i] else None for i, n in enumerate(s)))
    return Signature([labels, *others], labels)


@signature_rule("attention")
def _attention(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    """Return the signature of attention: heads and samples can be divided, and queries if no mask depends on
    positions.
    """
    q, k, v, mask = (*shapes, None)[:4]
    assert q is not None
    assert k is not None
    assert v is not None
    if not len(q) == len(k) == len(v):
        return None
    names = Labeller()
    given = [q[:-2], k[:-2], v[:-2]]
    if mask is not None:
        given.append(mask[:-2])
    leading, batch = batch_labels(given, names)
    query, width = names.some(2)
    rows = None if settings.get("is_causal") else query
    inputs: list[Labels | None] = [(*leading[0], rows, None), (*leading[1], None, None), (*leading[2], None, width)]
    if len(shapes) > 3:
        inputs.append(
            None
            if mask is None
            else (*leading[3], rows if len(mask) > 1 and mask[-2] == q[-2] else None, None)[-len(mask) :]
        )
    return Signature(inputs, (*batch, rows, width))


@signature_rule("convolution")
def _convolution(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    """Return the signature of a convolution: samples can be divided, and with one group the input and output
    channels.
    """
    x, w, b = (*shapes, None)[:3]
    assert x is not None
    assert w is not None
    space = len(w) - 2
    if len(x) != len(w):
        return None
    n, out, into = 0, 1, 2
    single = settings.get("groups", 1) == 1
    inputs: list[Labels | None] = [
        (n, into if single else None, *(None,) * space),
        (out if single else None, into if single else None, *(None,) * space),
        None if b is None else (out if single else None,),
    ]  # fmt: skip
    linear = [frozenset((0, 2)), frozenset((1, 2))] if b is not None else [frozenset((0,)), frozenset((1,))]
    return Signature(
        inputs[: len(shapes)], (n, out if single else None), reductions={into: "sum"} if single else {}, linear=linear,
        added=frozenset((2,)),
    )  # fmt: skip


@signature_rule("avg_pool", "adaptive_avg_pool", "max_pool", "adaptive_max_pool")
def _pool(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Return the signature of pooling: samples and channels, the dimensions before the pooled ones."""
    shape = shapes[0]
    size = settings.get("kernel", settings.get("sizes"))
    space = len(size) if isinstance(size, (tuple, list)) else len(shape) - 2
    labels = (*range(len(shape) - space), *(None,) * space)
    return Signature([labels], labels[: len(shape) - space], linear=op.linear_in(1))


def output_count(op: Op) -> int | None:
    """Return the number of results of an op, or None if it varies."""
    return None if op.outputs == VARIABLE else op.outputs
