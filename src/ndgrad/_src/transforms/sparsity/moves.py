"""Rules of ops that move elements about: gathers, scatters, joins, windows.

A gather takes each element of its result from one position, so it runs on ids directly. A scatter that adds is the
transpose of a gather: running that gather on the position numbers of the result gives the target of each element. An
index or a mask that depends on the inputs may point anywhere. The result is then blurred along the indexed dimension,
or completely.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import result_dtype
from ndgrad._src.ops.table import table
from ndgrad._src.ops.window import _Layout
from ndgrad._src.transforms.sparsity.rules import Array, Call, everything, rule
from ndgrad._src.transforms.sparsity.sets import CONSTANT, DISCRETE, Ids

if TYPE_CHECKING:
    from ndgrad._src.transforms.sparsity.rules import ResultIds
    from ndgrad._typing import Payload

# ----- one source per element -----------------------------------------------------------------------------------------


_ONE_SOURCE = ("reshape", "rearrange", "place", "join", "overwrite", "gather")


@rule("clone_ordered", "index_copy", "index_fill", "scatter", "masked_select_backward")
@rule(where=lambda op: op.movement in _ONE_SOURCE)
def move_ids(call: Call) -> ResultIds:
    """Run the op on ids."""
    if call.choice_depends:
        return blur(call)
    return call.forward(*(o.movable_ids() if any(o is d for d in call.data) else o.value for o in call.operands))


@rule("constant_pad_nd")
def _pad(call: Call) -> ResultIds:
    return call.forward(call.operands[0].movable_ids(), value=0.0)


@rule("shift")
def _shift(call: Call) -> ResultIds:
    return call.forward(call.operands[0].movable_ids(), fill=0.0)


def blur(call: Call) -> ResultIds:
    """Return ids for a choice that may differ at other points: every possible source counts."""
    if not any(o.may_differ_from_zero.any() for o in call.data):
        return np.zeros(call.out_shape, np.int64)
    dim = call.settings.get("dim", 0 if call.op.name == "rows" and call["index"].value.ndim == 1 else None)
    out = call.out_shape
    for o in call.data:
        same = (
            dim is not None
            and o.ids.ndim == len(out)
            and all(n in (1, m) for d, (n, m) in enumerate(zip(o.shape, out)) if d != dim)
        )
        if o.depends and not same:
            return everything(call)
    total = np.full(out, DISCRETE, np.int64)
    for o in call.data:
        if o.depends:
            total = call.sets.union(total, call.sets.union_along(o.ids, (int(dim or 0),), keepdim=True))
    return np.broadcast_to(total, out)


# ----- scatters that add ----------------------------------------------------------------------------------------------


def _numbers(shape: tuple[int, ...]) -> Ids:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


def _send(call: Call, ids: Ids, places: Ids) -> Ids:
    """Return the union of the ids sent to each position of the result; positions below 0 are outside."""
    inside = (places >= 0) & (ids != CONSTANT)
    return call.sets.union_at(places[inside], ids[inside], math.prod(call.out_shape)).reshape(call.out_shape)


def _forward(name: str, *arrays: Any, **settings: Any) -> Payload:
    return table[name].forward_for(np)(*arrays, **settings)


@rule("index_add_zeros")
def _index_add_zeros(call: Call) -> ResultIds:
    if call.choice_depends:
        return blur(call)
    x, *indices = call.operands
    return _send(call, x.ids, np.broadcast_to(_numbers(call.out_shape)[tuple(i.value for i in indices)], x.shape))


@rule("index_select_backward", "gather_backward", "place_along", "scatter_prod", "max_unpool")
def _scatter_by_gather(call: Call) -> ResultIds:
    if call.choice_depends:
        return blur(call)
    x, index = call.operands
    numbers, name = _numbers(call.out_shape), call.op.name
    if name == "max_unpool":
        places = _forward("take_pooled", numbers, index.value)
    else:
        gather = {"index_select_backward": "index_select", "place_along": "pick_along"}.get(name, "gather")
        places = _forward(gather, numbers, index.value, dim=call.settings["dim"])
    return _send(call, x.ids, places)


@rule("unfold_backward")
def _unfold_backward(call: Call) -> ResultIds:
    windows = {k: call.settings[k] for k in ("dim", "width", "step")}
    return _send(call, call.operands[0].ids, _forward("unfold", _numbers(call.out_shape), **windows))


@rule("sum_interleaved")
def _sum_interleaved(call: Call) -> ResultIds:
    return _send(call, call.operands[0].ids, _forward("repeat_interleave", _numbers(call.out_shape), **call.settings))


@rule("col2im")
def _col2im(call: Call) -> ResultIds:
    patches = {k: call.settings[k] for k in ("kernel", "dilation", "padding", "stride")}
    return _send(call, call.operands[0].ids, _forward("im2col", _numbers(call.out_shape) + 1, **patches) - 1)


@rule("index_add", "scatter_add", "scatter_extreme")
def _add_along(call: Call) -> ResultIds:
    x, index, y = call.operands
    if call.choice_depends:
        return everything(call)
    gather = "index_select" if call.op.name == "index_add" else "gather"
    places = _forward(gather, _numbers(call.out_shape), index.value, dim=call.settings["dim"])
    sent = _crop(y.ids, places.shape)
    return call.sets.union(x.ids, _send(call, sent, places))


def _crop(ids: Ids, shape: tuple[int, ...]) -> Ids:
    """Crop the source of a scatter to the size of the index."""
    if ids.ndim == len(shape) and all(have >= want for have, want in zip(ids.shape, shape)):
        ids = ids[tuple(slice(n) for n in shape)]
    return np.broadcast_to(ids, shape)


@rule("index_put")
def _index_put(call: Call) -> ResultIds:
    x, y, *indices = call.operands
    if call.choice_depends:
        return everything(call)
    if not call.settings["accumulate"]:
        return call.forward(_promote(x.movable_ids(), y.movable_ids()), y.movable_ids(), *(i.value for i in indices))
    places = _numbers(call.out_shape)[tuple(i.value for i in indices)]
    return call.sets.union(x.ids, _send(call, np.broadcast_to(y.ids, places.shape), places))


@rule("put")
def _put_rule(call: Call) -> ResultIds:
    x, index, y = call.operands
    if call.choice_depends:
        return everything(call)
    if not call.settings["accumulate"]:
        return call.forward(_promote(x.movable_ids(), y.movable_ids()), index.value, y.movable_ids())
    places = _forward("take", _numbers(call.out_shape), index.value)
    return call.sets.union(x.ids, _send(call, np.broadcast_to(y.ids, places.shape), places))


def _promote(x: Array, y: Array) -> Array:
    return x.astype(result_dtype(x, y))


@rule("strided_values", "as_strided_backward")
def _strided(call: Call) -> ResultIds:
    """Combine elements that share a position in memory; leading dimensions are a batch."""
    layout = _Layout(np, call.settings["source"], call.settings["target"])
    to, back = (layout.source, layout.target) if call.op.name == "strided_values" else (layout.target, layout.source)
    ids = call.operands[0].ids
    rows = ids.reshape(-1, len(to)) if len(to) else ids.reshape(0, 0)
    places = np.arange(len(rows), dtype=np.int64)[:, None] * layout.length + to
    memory = call.sets.union_at(places.ravel(), rows.ravel(), len(rows) * layout.length)
    return (
        memory.reshape(len(rows), layout.length)[:, back].reshape(call.out_shape)
        if len(to)
        else np.zeros(call.out_shape, np.int64)
    )


# ----- windows --------------------------------------------------------------------------------------------------------


def windows(axes: list[Ids], sizes: tuple[int, ...]) -> Ids:
    """Return the positions that each window reads, of shape (windows, reads), with -1 outside of the array. `axes` has
    the positions along each axis."""
    total = np.zeros((1, 1), np.int64)
    for places, size in zip(axes, sizes, strict=True):
        outside = (total < 0)[:, None, :, None] | ((places < 0) | (places >= size))[None, :, None, :]
        joined = np.where(outside, -1, total[:, None, :, None] * size + places[None, :, None, :])
        total = joined.reshape(total.shape[0] * places.shape[0], -1)
    return total


def sliding(positions: tuple[int, ...], kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[Ids]:
    """Return, per axis, the positions that each window reads: shape (windows, taps)."""
    return [
        np.arange(n, dtype=np.int64)[:, None] * s - p + np.arange(k, dtype=np.int64) * d
        for n, k, s, p, d in zip(positions, kernel, stride, padding, dilation, strict=True)
    ]


def _adaptive(positions: tuple[int, ...], sizes: tuple[int, ...]) -> list[Ids]:
    """Return the windows of adaptive pooling: from floor(i n / m) to ceil((i + 1) n / m)."""
    axes = []
    for m, n in zip(positions, sizes, strict=True):
        first, last = np.arange(m, dtype=np.int64) * n // m, -(-(np.arange(m, dtype=np.int64) + 1) * n // m)
        places = first[:, None] + np.arange(int((last - first).max(initial=0)), dtype=np.int64)
        axes.append(np.where(places < last[:, None], places, -1))
    return axes


def _windows_of(call: Call, sizes: tuple[int, ...], positions: tuple[int, ...]) -> Ids:
    if "kernel" not in call.settings:
        return windows(_adaptive(positions, sizes), sizes)
    kernel, stride, padding = (call.settings[k] for k in ("kernel", "stride", "padding"))
    dilation = call.settings.get("dilation", (1,) * len(kernel))
    return windows(sliding(positions, kernel, stride, padding, dilation), sizes)


@rule("max_pool", "adaptive_max_pool", "avg_pool", "adaptive_avg_pool")
def _pool(call: Call) -> ResultIds:
    ids, out = call.operands[0].ids, call.out_shape
    reads = _windows_of(call, ids.shape[2:], out[2:])
    count = math.prod(ids.shape[:2])
    planes = np.concatenate([ids.reshape(count, math.prod(ids.shape[2:])), np.zeros((count, 1), np.int64)], axis=1)
    made = call.sets.union_along(planes[:, reads], (2,)).reshape(out)
    return [made] * len(call.outs)


@rule("avg_pool_backward")
def _pool_backward(call: Call) -> ResultIds:
    ids, out = call.operands[0].ids, call.out_shape
    reads = _windows_of(call, out[2:], ids.shape[2:])
    planes = np.arange(math.prod(out[:2]), dtype=np.int64)[:, None, None] * math.prod(out[2:])
    places = np.where(reads < 0, -1, reads + planes)
    return _send(call, np.broadcast_to(ids.reshape(len(planes), len(reads), 1), places.shape), places)


@rule("resample")
def _resample(call: Call) -> ResultIds:
    """Let each output depend on the inputs with nonzero weight."""
    ids = call.operands[0].ids
    for dim, taps in zip(call.settings["dim"], call.settings["taps"], strict=True):
        reads = taps.index if taps.weight is None else np.where(taps.weight != 0, taps.index, -1)
        line = np.moveaxis(ids, dim, -1)
        line = np.concatenate([line, np.zeros((*line.shape[:-1], 1), np.int64)], axis=-1)
        ids = np.moveaxis(call.sets.union_along(line[..., reads], (line.ndim - 1,)), -1, dim)
    return ids
