"""Collectives as ops of the table: linear maps between the ranks, each with its transpose.

A program of several ranks differentiates the sum of all ranks' results. A collective is one linear map of all ranks'
arguments together, and its transpose is another collective:

    all_reduce          all_reduce              every rank gets the sum; its argument gets the sum of gradients
    all_gather          reduce_scatter          and vice versa
    all_to_all          all_to_all              with the two dimensions, or the two lists of sizes, exchanged
    broadcast           reduce_to               and vice versa
    gather_to           scatter_from            and vice versa
    exchange            exchange                with the two partners exchanged

Being ops, they have forward mode, batching and derivatives of any order like all others. A backward pass calls the
transposes in the order of the graph, which is the same on all ranks if the program is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.ops.table import op
from ndgrad.distributed import nccl, transport
from ndgrad.distributed.reductions import ReduceOp

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _host(name: str, np_: Library, x: Payload) -> Payload:
    if np_ is not np and nccl.carries(x) and name not in ("gather", "scatter"):
        return x
    if np_ is not np:
        raise NotImplementedError(
            f"{name}: messages go through the memory of the host, and the tensor of shape {tuple(x.shape)} is not "
            "there. "
            "Bring it there with .cpu(), and the result back with .to(device). [nd-host]"
        )
    return np.asarray(x)


def _move_to_front(x: Payload, dim: int) -> Payload:
    """Return a contiguous array with `dim` moved to the front, so that ranks' pieces are adjacent."""
    library = library_of(x)
    return library.ascontiguousarray(library.moveaxis(x, dim, 0) if dim else x)


def _move_back(x: Payload, dim: int) -> Payload:
    return library_of(x).moveaxis(x, 0, dim) if dim else x


# ----- sums -----------------------------------------------------------------------------------------------------------


def _all_reduce(np: Library, x: Payload, *, group: Any, reduction: Any = ReduceOp.SUM) -> Payload:
    out = _host("all_reduce", np, x).copy()
    transport.all_reduce_now(group, out, reduction)
    return out


def _all_reduce_here(np: Library, target: Payload, *, group: Any, reduction: Any = ReduceOp.SUM) -> None:
    transport.all_reduce_now(group, _host("all_reduce", np, target), reduction)


#: SUM and AVG: linear.
all_reduce = op(
    "all_reduce", "x",
    _all_reduce,
    settings={"group": None, "reduction": ReduceOp.SUM},
    vjp={"x": lambda g, group, reduction, ops: ops.all_reduce(g, group=group, reduction=reduction)},
    jvp="linear",
    batch="leading",
    halves=True,
    write_kernel=_all_reduce_here,
    needs_values=True,
)  # fmt: skip


def _share(x: Payload, out: Payload, group: Any, ops: Vocabulary) -> Payload:
    """Return 1 on ranks that have the extreme value, divided by the number of these ranks."""
    has = ops.where(x == out, 1.0 + 0.0 * x, 0.0)
    return has / ops.all_reduce(has, group=group)


#: MAX and MIN: the gradient goes to the ranks that have the extreme value, in equal parts.
all_reduce_extreme = op(
    "all_reduce_extreme", "x",
    _all_reduce,
    settings={"group": None, "reduction": ReduceOp.MAX},
    vjp={"x": lambda g, x, out, group, ops: ops.all_reduce(g, group=group) * _share(x, out, group, ops)},
    jvp={"x": lambda t, x, out, group, ops: ops.all_reduce(t * _share(x, out, group, ops), group=group)},
    batch="leading",
    halves=True,
    write_kernel=_all_reduce_here,
    needs_values=True,
)  # fmt: skip


def _broadcast(np: Library, x: Payload, *, group: Any, root: int = 0) -> Payload:
    out = _host("broadcast", np, x).copy()
    transport.broadcast(group, out, root).wait()
    return out


def _broadcast_here(np: Library, target: Payload, *, group: Any, root: int = 0) -> None:
    transport.broadcast(group, _host("broadcast", np, target), root).wait()


def _reduce_to(np: Library, x: Payload, *, group: Any, root: int = 0) -> Payload:
    out = _host("reduce", np, x).copy()
    transport.reduce(group, out, root, ReduceOp.SUM).wait()
    return out if group.rank() == root else np.zeros_like(out)


broadcast = op(
    "broadcast", "x",
    _broadcast,
    settings={"group": None, "root": 0},
    vjp={"x": lambda g, group, root, ops: ops.reduce_to(g, group=group, root=root)},
    jvp="linear",
    batch="leading",
    halves=True,
    write_kernel=_broadcast_here,
    needs_values=True,
)  # fmt: skip

#: The sum on one rank; zeros on the others.
reduce_to = op(
    "reduce_to", "x",
    _reduce_to,
    settings={"group": None, "root": 0},
    vjp={"x": lambda g, group, root, ops: ops.broadcast(g, group=group, root=root)},
    jvp="linear",
    batch="leading",
    halves=True,
    needs_values=True,
)  # fmt: skip


# ----- pieces along a dimension ---------------------------------------------------------------------------------------
#
# `sizes` is how much of the dimension each rank has, in order; None if all have the same.


def _all_gather(np: Library, x: Payload, *, group: Any, dim: int = 0, sizes: Sequence[int] | None = None) -> Payload:
    x = _host("all_gather", np, x)
    mine = _move_to_front(x, dim)
    rest = mine.shape[1:]
    if sizes is None:
        out = np.empty((mine.shape[0] * group.size(), *rest), x.dtype)
        transport.all_gather(group, out, mine).wait()
    else:
        out = np.empty((sum(sizes), *rest), x.dtype)
        each = math.prod(rest)
        transport.all_gather_uneven(group, out, mine, [n * each for n in sizes]).wait()
    return _move_back(out, dim)


def _reduce_scatter(
    np: Library,
    x: Payload,
    *,
    group: Any,
    dim: int = 0,
    sizes: Sequence[int] | None = None,
    reduction: Any = ReduceOp.SUM,
) -> Payload:
    x = _host("reduce_scatter", np, x)
    whole = _move_to_front(x, dim)
    rest = whole.shape[1:]
    if sizes is None:
        out = np.empty((whole.shape[0] // group.size(), *rest), x.dtype)
        transport.reduce_scatter(group, out, whole, reduction).wait()
    else:
        out = np.empty((sizes[group.rank()], *rest), x.dtype)
        each = math.prod(rest)
        transport.reduce_scatter_uneven(group, out, whole, [n * each for n in sizes], reduction).wait()
    return _move_back(out, dim)


#: The ranks' tensors, concatenated along a dimension.
all_gather = op(
    "all_gather", "x",
    _all_gather,
    settings={"group": None, "dim": 0, "sizes": None},
    vjp={"x": lambda g, group, dim, sizes, ops: ops.reduce_scatter(g, group=group, dim=dim, sizes=sizes)},
    jvp="linear",
    batch="dims",
    halves=True,
    needs_values=True,
)  # fmt: skip


def _reduce_scatter_x(
    g: Payload, group: Any, dim: int, sizes: Sequence[int] | None, reduction: Any, ops: Vocabulary
) -> Payload:
    whole = ops.all_gather(g, group=group, dim=dim, sizes=sizes)
    return whole / float(group.size()) if reduction is ReduceOp.AVG else whole


#: This rank's piece of the sum over the ranks.
reduce_scatter = op(
    "reduce_scatter", "x",
    _reduce_scatter,
    settings={"group": None, "dim": 0, "sizes": None, "reduction": ReduceOp.SUM},
    vjp={"x": _reduce_scatter_x},
    jvp="linear",
    batch="dims",
    halves=True,
    needs_values=True,
)  # fmt: skip


def _all_to_all(
    np: Library, x: Payload, *, group: Any, split: int = 0, join: int = 0,
    sent: Sequence[int] | None = None, received: Sequence[int] | None = None,
) -> Payload:  # fmt: skip
    x = _host("all_to_all", np, x)
    count = group.size()
    sent = [x.shape[split] // count] * count if sent is None else list(sent)
    # A piece from a rank has that rank's size along `join`, and this rank's piece along `split`.
    kept = sent[group.rank()]
    if split == join:
        received = [kept] * count if received is None else list(received)
        shapes = [(*x.shape[:join], n, *x.shape[join + 1 :]) for n in received]
    else:
        received = [x.shape[join]] * count if received is None else list(received)
        cut = (*x.shape[:split], kept, *x.shape[split + 1 :])
        shapes = [(*cut[:join], n, *cut[join + 1 :]) for n in received]
    bounds = list(itertools.accumulate(sent, initial=0))
    index: list[Any] = [slice(None)] * x.ndim
    pieces = []
    for i in range(count):
        index[split] = slice(bounds[i], bounds[i + 1])
        pieces.append(x[tuple(index)].reshape(-1))
    buffer = pieces[0] if count == 1 else np.concatenate(pieces)
    counts = [p.size for p in pieces]
    out_counts = [math.prod(s) for s in shapes]
    out = np.empty(sum(out_counts), x.dtype)
    transport.all_to_all(group, out, buffer, out_counts, counts).wait()
    ends = list(itertools.accumulate(out_counts, initial=0))
    return np.concatenate([out[ends[i] : ends[i + 1]].reshape(shapes[i]) for i in range(count)], axis=join)


#: Send pieces along the dimension `split` to the ranks in order, and concatenate the received ones along `join`.
all_to_all = op(
    "all_to_all", "x",
    _all_to_all,
    settings={"group": None, "split": 0, "join": 0, "sent": None, "received": None},
    vjp={"x": lambda g, group, split, join, sent, received, x_shape, ops: ops.all_to_all(
        g, group=group, split=join, join=split, sent=received if received is not None or split == join
        else (x_shape[join],) * group.size(), received=sent)},
    jvp="linear",
    batch=lambda x, group, split, join, sent, received, ops: ops.all_to_all(
        x, group=group, split=split + 1, join=join + 1, sent=sent, received=received),
    halves=True,
    needs_values=True,
)  # fmt: skip


def _gather_to(np: Library, x: Payload, *, group: Any, root: int = 0) -> Payload:
    x = _host("gather", np, x)
    out = np.zeros((group.size(), *x.shape), x.dtype)
    transport.gather(group, out if group.rank() == root else None, x, root).wait()
    return out


def _scatter_from(np: Library, x: Payload, *, group: Any, root: int = 0) -> Payload:
    x = _host("scatter", np, x)
    out = np.empty(x.shape[1:], x.dtype)
    transport.scatter(group, out, x if group.rank() == root else None, root).wait()
    return out


#: The tensors of all ranks, stacked, on one of them; zeros on the others.
gather_to = op(
    "gather_to", "x",
    _gather_to,
    settings={"group": None, "root": 0},
    vjp={"x": lambda g, group, root, ops: ops.scatter_from(g, group=group, root=root)},
    jvp="linear",
    batch=lambda x, group, root, ops: ops.swapaxes(ops.gather_to(x, group=group, root=root), dim0=0, dim1=1),
    halves=True,
    needs_values=True,
)  # fmt: skip

#: This rank's entry in the first dimension of one rank's tensor.
scatter_from = op(
    "scatter_from", "x",
    _scatter_from,
    settings={"group": None, "root": 0},
    vjp={"x": lambda g, group, root, ops: ops.gather_to(g, group=group, root=root)},
    jvp="linear",
    batch=lambda x, group, root, ops: ops.scatter_from(ops.swapaxes(x, dim0=0, dim1=1), group=group, root=root),
    halves=True,
    needs_values=True,
)  # fmt: skip


# ----- from one to one ------------------------------------------------------------------------------------------------


def _exchange(
    np: Library, x: Payload, *, group: Any, to: int | None = None, source: int | None = None,
    shape: tuple[int, ...] | None = None, tag: int = 0,
) -> Payload:  # fmt: skip
    x = _host("exchange", np, x)
    out = np.empty((0,) if source is None else x.shape if shape is None else shape, x.dtype)
    receiving = None if source is None else transport.receive(group, out, source, tag)
    if to is not None:
        transport.send(group, x, to, tag).wait()
    if receiving is not None:
        receiving.wait()
    return out


#: Send to one rank and receive from another a tensor of `shape` (None: the argument's shape). Without `to` nothing is
#: sent, and the empty argument only attaches the result to a graph. Without `source` nothing is received, and the empty
#: result only represents the message in the graph.
exchange = op(
    "exchange", "x",
    _exchange,
    settings={"group": None, "to": None, "source": None, "shape": None, "tag": 0},
    vjp={"x": lambda g, group, to, source, tag, x_shape, ops: ops.exchange(
        g, group=group, to=source, source=to, shape=tuple(x_shape), tag=tag)},
    jvp="linear",
    batch=lambda x, group, to, source, shape, tag, ops: ops.exchange(
        x, group=group, to=to, source=source, shape=None if shape is None else (x.shape[0], *shape), tag=tag),
    halves=True,
    needs_values=True,
)  # fmt: skip
