"""Rules of products: matmul and all contractions, convolution and its adjoints, attention, distances.

A product of two arrays depends on a factor only where the other factor is not the constant zero, so the zeros of a
constant matrix are zeros of the pattern. Rows (or columns) with the same zeros are treated as one. A product with a
dense constant matrix then needs one union per row, for any number of columns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.ops.product import split_subscripts
from ndgrad._src.transforms.sparsity.moves import sliding, windows
from ndgrad._src.transforms.sparsity.rules import Array, Call, Operand, everything, rule
from ndgrad._src.transforms.sparsity.sets import Ids, IndexSets

if TYPE_CHECKING:
    from ndgrad._src.transforms.sparsity.rules import ResultIds

#: Number of entries processed together; more are processed in several steps.
_STEP = 1 << 24


class Factor:
    """One side of a product: ids, and True for elements that may differ from zero."""

    def __init__(self, ids: Ids, there: Array) -> None:
        self.ids, self.there = ids, np.broadcast_to(there, ids.shape)

    @classmethod
    def from_operand(cls, o: Operand) -> Factor:
        return cls(o.ids, o.may_differ_from_zero)

    def transpose(self, *order: int) -> Factor:
        return Factor(self.ids.transpose(order), self.there.transpose(order))

    def reshape(self, *shape: int) -> Factor:
        return Factor(self.ids.reshape(shape), self.there.reshape(shape))

    def broadcast(self, *shape: int) -> Factor:
        return Factor(np.broadcast_to(self.ids, shape), np.broadcast_to(self.there, shape))


def product(x: Factor, y: Factor, sets: IndexSets) -> Ids:
    """Return the ids of the matrix product of (batch, m, k) and (batch, k, n)."""
    from_x = _one_side(x.ids, y.there, sets)
    from_y = _one_side(y.ids.transpose(0, 2, 1), x.there.transpose(0, 2, 1), sets).transpose(0, 2, 1)
    return sets.union(from_x, from_y)


def _one_side(ids: Ids, there: Array, sets: IndexSets) -> Ids:
    """Given (batch, m, k) ids and (batch, k, n) truth values, return for (i, j) the union of the ids (i, k) over
    the k that are true in column j."""
    batch, m, _ = ids.shape
    n = there.shape[2]
    if not ids.any():
        return np.zeros((batch, m, n), np.int64)
    if there.all():
        return np.broadcast_to(sets.union_along(ids, (2,), keepdim=True), (batch, m, n))
    out = np.empty((batch, m, n), np.int64)
    for b in range(batch):
        columns, which = np.unique(np.packbits(there[b], axis=0), axis=1, return_inverse=True)
        kinds = np.unpackbits(columns, axis=0, count=there.shape[1]).astype(bool)  # (k, kinds of columns)
        k, kind = np.nonzero(kinds)
        count = kinds.shape[1]
        step = max(_STEP // max(len(k), 1), 1)
        for start in range(0, m, step):
            rows = ids[b, start : start + step]
            places = np.arange(len(rows), dtype=np.int64)[:, None] * count + kind
            made = sets.union_at(places.ravel(), rows[:, k].ravel(), len(rows) * count)
            out[b, start : start + step] = made.reshape(len(rows), count)[:, which.reshape(-1)]
    return out


# ----- matmul and contractions ----------------------------------------------------------------------------------------


def matmul(x: Factor, y: Factor, sets: IndexSets) -> Ids:
    """Return the ids of numpy.matmul: vectors are rows or columns, leading dimensions broadcast."""
    a = x.reshape(1, *x.ids.shape) if x.ids.ndim == 1 else x
    b = y.reshape(*y.ids.shape, 1) if y.ids.ndim == 1 else y
    m, k, n = a.ids.shape[-2], a.ids.shape[-1], b.ids.shape[-1]
    if b.ids.ndim == 2:
        lead = a.ids.shape[:-2]
        made = product(a.reshape(1, math.prod(lead) * m, k), b.reshape(1, k, n), sets)
    else:
        lead = np.broadcast_shapes(a.ids.shape[:-2], b.ids.shape[:-2])
        size = math.prod(lead)
        made = product(a.broadcast(*lead, m, k).reshape(size, m, k), b.broadcast(*lead, k, n).reshape(size, k, n), sets)
    kept = (*lead, *((m,) if x.ids.ndim > 1 else ()), *((n,) if y.ids.ndim > 1 else ()))
    return made.reshape(kept)


def contract(x: Factor, y: Factor, subscripts: str, sets: IndexSets) -> Ids:
    """Return the ids of a contraction over named dimensions, as one product."""
    xs, ys, out = split_subscripts(subscripts)
    sizes = dict(zip(xs + ys, x.ids.shape + y.ids.shape))
    shared, x_own = [s for s in out if s in xs and s in ys], [s for s in out if s not in ys]
    y_own, contracted = [s for s in out if s not in xs], [s for s in xs if s not in out]

    def size(names: list[str]) -> int:
        return math.prod(sizes[s] for s in names)

    a = x.transpose(*(xs.index(s) for s in (*shared, *x_own, *contracted))).reshape(
        size(shared), size(x_own), size(contracted)
    )
    b = y.transpose(*(ys.index(s) for s in (*shared, *contracted, *y_own))).reshape(
        size(shared), size(contracted), size(y_own)
    )
    made = (*shared, *x_own, *y_own)
    return product(a, b, sets).reshape([sizes[s] for s in made]).transpose([made.index(s) for s in out])


@rule("matmul")
def _matmul(call: Call) -> ResultIds:
    return matmul(Factor.from_operand(call["x"]), Factor.from_operand(call["y"]), call.sets)


@rule("contract")
def _contract(call: Call) -> ResultIds:
    return contract(
        Factor.from_operand(call["x"]), Factor.from_operand(call["y"]), call.settings["subscripts"], call.sets
    )


_SUBSCRIPTS = {
    "addmm": "ij,jk->ik", "addmv": "ij,j->i", "addr": "i,j->ij", "baddbmm": "bij,bjk->bik", "addbmm": "bij,bjk->ik",
}  # fmt: skip


@rule(*_SUBSCRIPTS)
def _add_product(call: Call) -> ResultIds:
    made = np.zeros((), np.int64)
    if call.settings["alpha"] != 0:
        made = contract(
            Factor.from_operand(call["a"]), Factor.from_operand(call["b"]), _SUBSCRIPTS[call.op.name], call.sets
        )
    if call.settings["beta"] != 0:
        made = call.sets.union(made, call["x"].ids)
    return np.broadcast_to(made, call.out_shape)


@rule("linear")
def _linear(call: Call) -> ResultIds:
    made = matmul(Factor.from_operand(call["x"]), Factor.from_operand(call["w"]).transpose(1, 0), call.sets)
    return made if call["b"].value is None else call.sets.union(made, call["b"].ids)


# ----- convolution ----------------------------------------------------------------------------------------------------


class _Geometry:
    """A convolution as products: the patches of the input, one row each, times the weights. Groups are a batch of
    products."""

    def __init__(self, call: Call, x_shape: Any, w_shape: Any, positions: tuple[int, ...]) -> None:
        stride, padding, dilation = (call.settings[k] for k in ("stride", "padding", "dilation"))
        self.groups = call.settings["groups"]
        self.n, self.channels, *self.sizes = x_shape
        self.outputs, self.each, *kernel = w_shape
        self.positions = positions
        #: position that tap t of the window at l reads
        self.reads = windows(sliding(positions, kernel, stride, padding, dilation), tuple(self.sizes))

    def patches(self, x: Factor) -> Factor:
        """(N, C, *S) -> (groups, N * positions, channels of a group * taps)"""
        flat = x.reshape(self.n, self.groups, self.each, math.prod(self.sizes))
        count, taps = self.reads.shape

        def gather_patches(array: Array) -> Array:
            with_outside = np.concatenate([array, np.zeros((*array.shape[:-1], 1), array.dtype)], axis=-1)[
                ..., self.reads
            ]
            return with_outside.transpose(1, 0, 3, 2, 4).reshape(self.groups, self.n * count, self.each * taps)

        return Factor(gather_patches(flat.ids), gather_patches(flat.there))

    def weights(self, w: Factor) -> Factor:
        """(M, C / groups, *K) -> (groups, M / groups, channels of a group * taps)"""
        return w.reshape(self.groups, self.outputs // self.groups, self.each * self.reads.shape[1])

    def results(self, y: Factor) -> Factor:
        """(N, M, *O) -> (groups, N * positions, M / groups)"""
        count = math.prod(self.positions)
        split = y.reshape(self.n, self.groups, self.outputs // self.groups, count).transpose(1, 0, 3, 2)
        return split.reshape(self.groups, self.n * count, self.outputs // self.groups)


@rule("convolution")
def _convolution(call: Call) -> ResultIds:
    sets, out = call.sets, call.out_shape
    g = _Geometry(call, call["x"].shape, call["w"].shape, out[2:])
    made = product(
        g.patches(Factor.from_operand(call["x"])), g.weights(Factor.from_operand(call["w"])).transpose(0, 2, 1), sets
    )
    made = made.reshape(g.groups, g.n, math.prod(out[2:]), g.outputs // g.groups).transpose(1, 0, 3, 2).reshape(out)
    bias = call["b"]
    return made if bias.value is None else sets.union(made, bias.ids.reshape(-1, *(1,) * (len(out) - 2)))


@rule("convolution_input")
def _convolution_input(call: Call) -> ResultIds:
    sets, out = call.sets, call.out_shape
    g = _Geometry(call, out, call["w"].shape, call["y"].shape[2:])
    made = product(g.results(Factor.from_operand(call["y"])), g.weights(Factor.from_operand(call["w"])), sets)
    count, taps = g.reads.shape
    made = made.reshape(g.groups, g.n, count, g.each, taps).transpose(1, 0, 3, 2, 4)  # (N, groups, each, windows, taps)
    planes = np.arange(g.n * g.channels, dtype=np.int64).reshape(g.n, g.groups, g.each, 1, 1) * math.prod(g.sizes)
    inside = np.broadcast_to(g.reads >= 0, made.shape)
    places = np.broadcast_to(g.reads + planes, made.shape)[inside]
    return sets.union_at(places, made[inside], math.prod(out)).reshape(out)


@rule("convolution_weight")
def _convolution_weight(call: Call) -> ResultIds:
    g = _Geometry(call, call["x"].shape, call.out_shape, call["y"].shape[2:])
    results = g.results(Factor.from_operand(call["y"])).transpose(0, 2, 1)
    return product(results, g.patches(Factor.from_operand(call["x"])), call.sets).reshape(call.out_shape)


# ----- attention and distances ----------------------------------------------------------------------------------------


@rule("attention", "attention_weights")
def _attention(call: Call) -> ResultIds:
    """Row i of the weights depends on query i, on all keys and on its row of the mask. The result also depends on
    the columns of the values."""
    sets, q, k, mask = call.sets, call["q"], call["k"], call["mask"]
    last = q.ids.ndim - 1
    total = sets.union_along(q.ids, (last,), keepdim=True)
    try:
        total = sets.union(total, sets.union_along(k.ids, (k.ids.ndim - 2, k.ids.ndim - 1), keepdim=True))
        if mask.depends:
            total = sets.union(
                total, sets.union_along(np.atleast_2d(mask.ids), (max(mask.ids.ndim, 2) - 1,), keepdim=True)
            )
        if call.op.name == "attention":
            total = sets.union(total, sets.union_along(call["v"].ids, (call["v"].ids.ndim - 2,), keepdim=True))
        return np.broadcast_to(total, call.out_shape)
    except ValueError:  # heads that share keys have another layout
        return everything(call)


@rule("cdist", "cdist_ord")
def _cdist(call: Call) -> ResultIds:
    sets = call.sets
    x, y = (sets.union_along(o.ids, (o.ids.ndim - 1,)) for o in call.operands)
    return np.broadcast_to(sets.union(x[..., :, None], y[..., None, :]), call.out_shape)
