"""Redistribution between placements: the steps, their costs, and their derivatives.

**The convention.** The gradient of a tensor that is replicated is replicated, that of shards is sharded alike, and
that of terms (Partial) is replicated: every term contributes with the gradient of the whole. So the backward of a step
from `a` to `b` is the step from the gradient of `b` to the gradient of `a`:

    forward                                    backward
    Shard -> Replicate    all_gather           Replicate -> Shard       take a piece
    Replicate -> Shard    take a piece         Shard -> Replicate       all_gather
    Partial -> Replicate  all_reduce           Replicate -> Replicate   nothing
    Partial -> Shard      reduce_scatter       Shard -> Replicate       all_gather
    Shard -> Shard        all_to_all           Shard -> Shard           all_to_all
    Replicate -> Partial  the first keeps it   Replicate -> Replicate   nothing

Terms of an average, a product or an extreme have their own gradients: a share of the whole's, the other factors times
it, or all of it where the term is the extreme.

Note [Values of a rank]
A replicated tensor is one value, however many ranks hold it. A term is a value of its rank. So the gradient of a term
is a value of its rank too, even where the gradients of all terms are equal. In a backward pass that is differentiated
again, ranks use it to divide work, and their contributions to its own gradient are summed. The derivative of `total`
is therefore `shared`, not the identity, and that of `total_piece` is `join_for_shares`, not `join_pieces`.

One step sends nothing in forward: if ranks divide a computation and all use a replicated tensor, each computes only its
own term of the gradient, and `shared` sums these terms in backward. These steps differ from `ndgrad.distributed.ops`,
where the ranks' copies are separate values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.ops.reduce import prod
from ndgrad._src.ops.shape import unsqueeze
from ndgrad._src.ops.table import Op, op
from ndgrad.distributed.ops import _all_gather, _all_reduce, _host, _reduce_scatter
from ndgrad.distributed.ops import all_to_all as all_to_all_op
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.distributed.tensor.placements import REPLICATE, Divided, Partial, Placement, Spec
from ndgrad.distributed.traffic import uncounted

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _take(np: Library, x: Payload, *, group: Any, dim: int = 0, sizes: Any = None) -> Payload:
    start = sum(sizes[: group.rank()])
    index = (slice(None),) * dim + (slice(start, start + sizes[group.rank()]),)
    return np.array(x[index], order="C")  # own memory: a piece must neither alias the whole nor keep it alive


join_pieces = op(
    "join_pieces", "x",
    _all_gather,
    settings={"group": None, "dim": 0, "sizes": None},
    vjp={"x": lambda g, group, dim, sizes, ops: ops.take_piece(g, group=group, dim=dim, sizes=sizes)},
    jvp="linear", batch="dims", halves=True, needs_values=True,
)  # fmt: skip

take_piece = op(
    "take_piece", "x",
    _take,
    settings={"group": None, "dim": 0, "sizes": None},
    vjp={"x": lambda g, group, dim, sizes, ops: ops.join_pieces(g, group=group, dim=dim, sizes=sizes)},
    jvp="linear", batch="dims", halves=True,
)  # fmt: skip

#: The positions along a dimension in another order. It sorts them by ranks, so that the pieces of a strided division
#: become contiguous, and back.
reorder = op(
    "reorder", "x",
    lambda np, x, *, dim, order: np.take(x, np.asarray(order, dtype=int), axis=dim),
    settings={"dim": 0, "order": ()},
    vjp={"x": lambda g, dim, order, ops: ops.reorder(g, dim=dim, order=_inverse(order))},
    jvp="linear", batch="dims", halves=True,
)  # fmt: skip


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    found = [0] * len(order)
    for place, position in enumerate(order):
        found[position] = place
    return tuple(found)


total = op(
    "total", "x",
    _all_reduce,
    settings={"group": None},
    vjp={"x": lambda g, group, ops: ops.shared(g, group=group)},
    jvp="linear", batch="leading", halves=True, needs_values=True,
)  # fmt: skip

#: The maximum or minimum of terms: the gradient goes to the ranks that have it, in equal parts.
extreme_total = op(
    "extreme_total", "x",
    _all_reduce,
    settings={"group": None, "reduction": ReduceOp.MAX},
    vjp={"x": lambda g, x, out, group, ops: ops.shared(g, group=group) * _mine(x, out, group, ops)},
    jvp={"x": lambda t, x, out, group, ops: ops.total(t * _mine(x, out, group, ops), group=group)},
    batch="leading", halves=True, needs_values=True, may_be_discrete=True,
)  # fmt: skip


def _mine(x: Payload, out: Payload, group: Any, ops: Any) -> Payload:
    has = ops.where(x == out, 1.0 + 0.0 * x, 0.0)
    return has / ops.total(has, group=group)


total_piece = op(
    "total_piece", "x",
    _reduce_scatter,
    settings={"group": None, "dim": 0, "sizes": None},
    vjp={"x": lambda g, group, dim, sizes, ops: ops.join_for_shares(g, group=group, dim=dim, sizes=sizes)},
    jvp="linear", batch="dims", halves=True, needs_values=True,
)  # fmt: skip


def _first(np: Library, x: Payload, *, group: Any) -> Payload:
    x = _host("redistribute", np, x)
    return x.copy() if group.rank() == 0 else np.zeros_like(x)


first_keeps = op(
    "first_keeps", "x",
    _first,
    settings={"group": None},
    vjp={"x": lambda g, group, ops: ops.equal_shares(g, group=group, factor=1.0)},
    jvp="linear", batch="leading", halves=True, needs_values=True,
)  # fmt: skip

#: The average of terms. A term contributes with its share of the gradient.
average_total = op(
    "average_total", "x",
    lambda np, x, *, group: _all_reduce(np, x, group=group, reduction=ReduceOp.AVG),
    settings={"group": None},
    vjp={"x": lambda g, group, ops: ops.shared(g, group=group) / float(group.size())},
    jvp="linear", batch="leading", halves=True, needs_values=True,
)  # fmt: skip

#: Equal terms of an average, maximum or minimum. Each rank has the gradient of its own term, a share of the whole.
equal_terms = op(
    "equal_terms", "x",
    lambda np, x, *, group: x.copy(),
    settings={"group": None},
    vjp={"x": lambda g, group, ops: ops.equal_shares(g, group=group, factor=float(group.size()))},
    jvp="linear", batch="leading", halves=True,
)  # fmt: skip

#: A multiple of the mean of the ranks' values, which are equal. So nothing is sent.
equal_shares = op(
    "equal_shares", "x",
    lambda np, x, *, group, factor: x * np.asarray(factor, x.dtype),
    settings={"group": None, "factor": 1.0},
    vjp={"x": lambda g, group, factor, ops: ops.shared(g, group=group) * (factor / group.size())},
    jvp="linear", batch="leading", halves=True,
)  # fmt: skip

#: The identity in forward; in backward the sum of the ranks' terms.
shared = op(
    "shared", "x",
    lambda np, x, *, group: x,
    settings={"group": None},
    vjp={"x": lambda g, group, ops: ops.total(g, group=group)},
    jvp="linear", batch="leading", view=True, whole_view=True,
)  # fmt: skip


#: `whole`, which was gathered from the ranks' pieces, for ranks that divide its use. The gradient goes to the piece by
#: one reduce_scatter. Through `whole` it would take an all_reduce, of which each rank keeps its piece.
shared_gathered = op(
    "shared_gathered", "whole piece",
    lambda np, whole, piece, *, group, dim, sizes: whole,
    settings={"group": None, "dim": 0, "sizes": None},
    vjp={"piece": lambda g, group, dim, sizes, ops: ops.total_piece(g, group=group, dim=dim, sizes=sizes)},
    jvp={"piece": lambda t, group, dim, sizes, ops: ops.join_pieces(t, group=group, dim=dim, sizes=sizes)},
    batch="dims", view=True, whole_view=True,
)  # fmt: skip

#: The pieces of all ranks, joined for ranks that divide the use of the whole.
join_for_shares = op(
    "join_for_shares", "x",
    _all_gather,
    settings={"group": None, "dim": 0, "sizes": None},
    vjp={"x": lambda g, group, dim, sizes, ops: ops.total_piece(g, group=group, dim=dim, sizes=sizes)},
    jvp={"x": lambda t, group, dim, sizes, ops: ops.join_pieces(t, group=group, dim=dim, sizes=sizes)},
    batch="dims", halves=True, needs_values=True,
)  # fmt: skip

#: The identity in forward; in backward the gradient is redistributed by the calls in the setting.
redistribute_gradient = op(
    "redistribute_gradient", "x",
    lambda np, x, *, calls: x,
    settings={"calls": ()},
    vjp={"x": lambda g, calls, ops: _run_calls(g, calls, ops)},
    jvp="linear", batch="leading", view=True, whole_view=True,
)  # fmt: skip


def _run_calls(x: Any, calls: Sequence[Call], ops: Vocabulary) -> Any:
    for function, settings in calls:
        x = getattr(ops, function.name)(x, **settings)
    return x


# ----- steps ----------------------------------------------------------------------------------------------------------

#: An op and its settings.
Call = tuple[Op, dict[str, Any]]


class Step:
    """A step from a spec to the next: at most one collective, along one dimension of a mesh."""

    __slots__ = ("_alone", "after", "before", "calls", "mesh_dim", "wire", "words")

    def __init__(self, before: Spec, after: Spec, mesh_dim: int) -> None:
        self.before, self.after, self.mesh_dim = before, after, mesh_dim
        #: True if the mesh has one rank along the dimension: the step copies and sends nothing, so it is not counted.
        self._alone = before.mesh.ndim > 1 and before.mesh.size(mesh_dim) == 1
        self.calls, self.words, self.wire = _how(before, after, mesh_dim)

    def run(self, t: Any) -> Any:
        """Return the local tensor after the step."""
        if t._array.__class__ is not np.ndarray and t.is_meta:  # there is nothing to send
            return t.new_empty(self.after.local_shape())
        with uncounted() if self._alone else nullcontext():
            for function, settings in self.calls:
                t = function(t, **settings)
        return t

    @property
    def gathers(self) -> bool:
        """True if the step joins the pieces of the ranks."""
        return len(self.calls) == 1 and self.calls[0][0] is join_pieces

    def __repr__(self) -> str:
        old, new = self.before.placements[self.mesh_dim], self.after.placements[self.mesh_dim]
        return f"{self.words} ({old} -> {new} along mesh dimension {self.mesh_dim}, {self.wire} bytes)"


def _how(before: Spec, after: Spec, mesh_dim: int) -> tuple[tuple[Call, ...], str, int]:
    """Return the implementation of a step: calls of ops on the local tensor, its name, and the bytes that the first
    rank sends (or receives). The first rank has the longest pieces; plans depend on these bytes, which must be the same
    on all ranks.
    """
    group = before.mesh.get_group(mesh_dim)
    old, new = before.placements[mesh_dim], after.placements[mesh_dim]
    count, first = group.size(), [0] * before.mesh.ndim
    nbytes = int(np.prod(before.local_shape(first), dtype=np.int64)) * before.dtype.itemsize
    others = nbytes * (count - 1) // count
    if isinstance(old, Partial):
        whole, words, wire = _reduce(old, group, before.dtype, nbytes, others)
        if not isinstance(new, Divided):
            return whole, words, wire
        piece = {"group": group, "dim": new.dim, "sizes": after.sizes(mesh_dim)}
        if old.reduction is ReduceOp.SUM:
            return (*_sort(after, mesh_dim), (total_piece, piece)), "reduce_scatter", others
        return (*whole, *_sort(after, mesh_dim), (take_piece, piece)), words, wire
    if isinstance(old, Divided):
        joined, sizes = old.dim, before.sizes(mesh_dim)
        if isinstance(new, Divided):
            moved = {"split": new.dim, "join": joined, "sent": after.sizes(mesh_dim), "received": sizes}
            return ((all_to_all_op, {"group": group, **moved}),), "all_to_all", others
        grown = int(np.prod(after.local_shape(first), dtype=np.int64)) * before.dtype.itemsize
        join = join_pieces, {"group": group, "dim": joined, "sizes": sizes}
        return (join, *_sort(before, mesh_dim, back=True)), "all_gather", grown - nbytes
    if isinstance(new, Divided):
        take = take_piece, {"group": group, "dim": new.dim, "sizes": after.sizes(mesh_dim)}
        return (*_sort(after, mesh_dim), take), "a piece of it", 0
    assert isinstance(new, Partial), (old, new)
    if new.reduction is ReduceOp.PRODUCT:
        raise ValueError(
            f"redistribute: from {old!r} to {new!r}. No factors of a tensor are known whose product is exactly the "
            "tensor. [nd-dtensor]"
        )
    kept = first_keeps if new.reduction is ReduceOp.SUM else equal_terms
    return ((kept, {"group": group}),), "a term of it", 0


def _sort(spec: Spec, mesh_dim: int, back: bool = False) -> tuple[Call, ...]:
    """Return the calls that sort the positions of a divided dimension by ranks, or that sort them back."""
    order = spec.order(mesh_dim)
    if order is None:
        return ()
    placement = spec.placements[mesh_dim]
    assert isinstance(placement, Divided)
    return ((reorder, {"dim": placement.dim, "order": _inverse(order) if back else order}),)


def _reduce(
    old: Partial, group: Any, dtype: np.dtype[Any], nbytes: int, others: int
) -> tuple[tuple[Call, ...], str, int]:
    """Return the calls that reduce the terms of all ranks, their name and the bytes sent."""
    reduction = old.reduction
    if reduction is ReduceOp.SUM:
        return ((total, {"group": group}),), "all_reduce", 2 * others
    if reduction is ReduceOp.AVG:
        return ((average_total, {"group": group}),), "all_reduce", 2 * others
    if reduction is ReduceOp.PRODUCT:  # a factor's gradient needs the factors of the other ranks
        gather = {"group": group, "dim": 0, "sizes": (1,) * group.size()}
        product = {"dim": (0,), "keepdim": False, "dtype": dtype}
        calls: tuple[Call, ...] = ((unsqueeze, {"dim": 0}), (join_pieces, gather), (prod, product))
        return calls, "all_gather", nbytes * (group.size() - 1)
    return ((extreme_total, {"group": group, "reduction": reduction}),), "all_reduce", 2 * others


def steps(before: Spec, target: tuple[Placement, ...]) -> tuple[Step, ...]:
    """Return the steps from a spec to other placements, with the fewest collectives: one for each mesh dimension that
    changes. Several mesh dimensions that shard one dimension of the tensor need more, because they must be undone from
    the inside out.
    """
    if before.placements == target:
        return ()
    found: list[Step] = []
    now = before

    def go(mesh_dim: int, placement: Placement) -> None:
        nonlocal now
        placements = (*now.placements[:mesh_dim], placement, *now.placements[mesh_dim + 1 :])
        after = now.with_placements(placements)
        found.append(Step(now, after, mesh_dim))
        now = after

    count = before.mesh.ndim
    # From the inside out: gather first if sharded inside a dimension that must change or be created.
    for i in reversed(range(count)):
        inner = now.placements[i]
        if isinstance(inner, Divided) and any(
            now.placements[j] != target[j]
            and any(isinstance(p, Divided) and p.dim == inner.dim for p in (now.placements[j], target[j]))
            for j in range(i)
        ):
            go(i, REPLICATE)
    for i in range(count):
        if now.placements[i] != target[i]:
            if not _straight(now.placements, target, i) and not now.placements[i].is_replicate():
                go(i, REPLICATE)
            if now.placements[i] != target[i]:
                go(i, target[i])
    return tuple(found)


def _straight(now: tuple[Placement, ...], target: tuple[Placement, ...], i: int) -> bool:
    """True if mesh dimension i can reach its target in one step: such a step exists, and no other mesh dimension shards
    the tensor's dimensions concerned.
    """
    old, new = now[i], target[i]
    if isinstance(new, Partial) and not old.is_replicate():
        return False
    if isinstance(old, Partial) and isinstance(new, Partial):
        return False
    if isinstance(old, Divided) and isinstance(new, Divided) and not (old.is_shard() and new.is_shard()):
        return False
    concerned = {p.dim for p in (old, new) if isinstance(p, Divided)}
    for j in range(len(now)):
        if j != i:
            for p in (now[j], target[j]):
                if isinstance(p, Divided) and p.dim in concerned:
                    return False
    return True


def cost(spec: Spec, target: tuple[Placement, ...]) -> int:
    """Return the bytes that a rank sends for a redistribution."""
    return sum(step.wire for step in steps(spec, target))
