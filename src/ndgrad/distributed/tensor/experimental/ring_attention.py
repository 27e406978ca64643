"""Attention over a sequence that is divided among ranks: keys and values circulate in a ring.

A rank keeps its queries. In n steps it sees the keys and values of all ranks, one block after the other, and receives
the next one while it computes. For each query it keeps the greatest score m, the sum l of exp(score - m) and the
weighted sum of values. It adds a block by

    m' = max(m, m_block),    l' = l e^(m - m') + l_block e^(m_block - m'),    and the sum likewise,

which is the softmax over all keys when the ring is closed. Backward goes round once more: with the logarithm of the
whole sum, L = m + log l, a block's weights are exp(score - L), and with D = sum(g out) the gradient of the scores is
p (g v' - D). The gradients of keys and values travel with their block and come home after n steps. No rank ever holds
more than two blocks, and no array of the size of the sequence squared exists.

In causal attention the work of ranks differs unless each has an early part and a late one. In the balanced layout a
sequence is cut into 2n chunks, and rank r has chunks r and 2n - 1 - r. Parts that no query of a rank may see are not
computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_half
from ndgrad._src.core.grad_mode import is_grad_enabled
from ndgrad._src.core.variable import wrap
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.autograd import grad
from ndgrad.distributed import ops, transport
from ndgrad.distributed.groups import ProcessGroup, group_of, twin_group
from ndgrad.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Positions of a rank's part in the whole sequence: starts and lengths of its pieces.
Segments = list[tuple[int, int]]


def segments_of(rank: int, count: int, lengths: list[int], balanced: bool) -> Segments:
    """Return the pieces of a rank's part, whose length is `lengths[rank]`.

    >>> from ndgrad.distributed.tensor.experimental.ring_attention import segments_of
    >>> segments_of(0, 2, [4, 4], balanced=False), segments_of(0, 2, [4, 4], balanced=True)
    ([(0, 4)], [(0, 2), (6, 2)])
    """
    if not balanced:
        return [(sum(lengths[:rank]), lengths[rank])]
    if len(set(lengths)) > 1 or lengths[rank] % 2:
        raise ValueError(
            f"ring attention: in the balanced layout all ranks have parts of one even length, but they are {lengths}. "
            f"Give a sequence whose length is a multiple of {2 * count}. [nd-divisible]"
        )
    half = lengths[rank] // 2
    return [(rank * half, half), ((2 * count - 1 - rank) * half, half)]


class _Ring:
    """The neighbours of this rank, and the positions of all ranks' parts."""

    def __init__(self, group: ProcessGroup, length: int, causal: bool, balanced: bool) -> None:
        self.group = group
        self.count, self.rank = group.size(), group.rank()
        found = np.empty(self.count, np.int64)
        transport.all_gather(group, found, np.array([length])).wait()
        self.lengths = [int(n) for n in found]
        self.causal = causal
        self.segments = [segments_of(r, self.count, self.lengths, balanced) for r in range(self.count)]

    def owner(self, step: int) -> int:
        """Return the rank whose block is here in a step."""
        return (self.rank - step) % self.count

    def pass_on(self, array: Payload, shape: tuple[int, ...], tag: int) -> Any:
        """Send a block to the next rank; return a function that waits for the incoming one, of this shape."""
        out = np.empty(shape, array.dtype)
        receiving = transport.receive(self.group, out, (self.rank - 1) % self.count, tag)
        sending = transport.send(self.group, array, (self.rank + 1) % self.count, tag)

        def wait_for_block() -> Payload:
            receiving.wait()
            sending.wait()
            return out

        return wait_for_block

    def parts(self, owner: int) -> list[tuple[slice, slice, int | None]]:
        """Return pairs of query and key ranges in which this rank's queries see a block's keys, with the offset of the
        diagonal above which nothing is seen, or None if everything is.
        """
        found: list[tuple[slice, slice, int | None]] = []
        at = 0
        for start, length in self.segments[self.rank]:
            queries = slice(at, at + length)
            at += length
            place = 0
            for first, many in self.segments[owner]:
                keys = slice(place, place + many)
                place += many
                if not many or not length or (self.causal and first > start + length - 1):
                    continue
                whole = not self.causal or first + many - 1 <= start
                found.append((queries, keys, None if whole else start - first))
        return found


def _scores(q: Payload, k: Payload, diagonal: int | None, scale: float) -> Payload:
    s = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    if diagonal is not None:
        s = np.where(np.tri(s.shape[-2], s.shape[-1], diagonal, dtype=bool), s, -np.inf)
    return s


def _repeat_heads(k: Payload, times: int) -> Payload:
    return k if times == 1 else np.repeat(k, times, axis=-3)


def _fold_heads(dk: Payload, times: int) -> Payload:
    """Apply the transpose of `_repeat_heads`."""
    if times == 1:
        return dk
    return dk.reshape((*dk.shape[:-3], dk.shape[-3] // times, times, *dk.shape[-2:])).sum(-3)


def _forward(q: Payload, k: Payload, v: Payload, ring: _Ring, scale: float, times: int) -> tuple[Payload, Payload]:
    """Return the result, and the logarithm of the sum of exponentials of each query's scores."""
    m = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
    total, acc = np.zeros_like(m), np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    here, width = _pack(k, v), k.shape[-1]
    for step in range(ring.count):
        coming = None
        if step < ring.count - 1:
            after = (*here.shape[:-2], ring.lengths[ring.owner(step + 1)], here.shape[-1])
            coming = ring.pass_on(here, after, 0)
        for queries, keys, diagonal in ring.parts(ring.owner(step)):
            rows = (..., queries, slice(None))
            block = _repeat_heads(here[..., keys, :], times)
            s = _scores(q[rows], block[..., :width], diagonal, scale)
            top = np.maximum(m[rows], s.max(-1, keepdims=True))
            p = np.exp(s - np.where(np.isfinite(top), top, 0.0))
            with np.errstate(invalid="ignore"):
                kept = np.where(np.isfinite(top), np.exp(m[rows] - top), 1.0)
            total[rows] = total[rows] * kept + p.sum(-1, keepdims=True)
            acc[rows] = acc[rows] * kept + np.matmul(p, block[..., width:])
            m[rows] = top
        if coming is not None:
            here = coming()
    with np.errstate(divide="ignore", invalid="ignore"):
        return acc / total, m + np.log(total)


def _pack(k: Payload, v: Payload) -> Payload:
    return np.ascontiguousarray(np.concatenate([k, v], axis=-1))


def _backward(
    given: Sequence[Payload], log_total: Payload, ring: _Ring, scale: float, times: int
) -> tuple[Payload, Payload, Payload]:
    g, q, k, v, out = given
    delta = (g * out).sum(-1, keepdims=True)
    dq = np.zeros_like(q)
    here, width = _pack(k, v), k.shape[-1]
    arriving = None
    for step in range(ring.count):
        owner = ring.owner(step)
        coming = None
        if step < ring.count - 1:
            after = (*here.shape[:-2], ring.lengths[ring.owner(step + 1)], here.shape[-1])
            coming = ring.pass_on(here, after, 0)
        d_here = np.zeros_like(here)
        for queries, keys, diagonal in ring.parts(owner):
            rows = (..., queries, slice(None))
            block = _repeat_heads(here[..., keys, :], times)
            p = np.exp(_scores(q[rows], block[..., :width], diagonal, scale) - log_total[rows])
            dp = np.matmul(g[rows], np.swapaxes(block[..., width:], -1, -2))
            ds = p * (dp - delta[rows]) * scale
            dq[rows] += np.matmul(ds, block[..., :width])
            dk = np.matmul(np.swapaxes(ds, -1, -2), q[rows])
            dv = np.matmul(np.swapaxes(p, -1, -2), g[rows])
            d_here[..., keys, :] += _fold_heads(np.concatenate([dk, dv], axis=-1), times)
        if arriving is not None:
            d_here += arriving()  # contributions of the previous ranks to this block
        if ring.count > 1:
            after = (*here.shape[:-2], ring.lengths[ring.owner(step + 1)], here.shape[-1])
            arriving = ring.pass_on(d_here, after, 1)
        if coming is not None:
            here = coming()
    home = arriving() if arriving is not None else d_here
    return dq, home[..., :width], home[..., width:]


class _RingAttention(Function):
    """Autograd function of the forward and backward rings."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, ring: _Ring, scale: float) -> Any:
        wide_q, wide_k, wide_v = _wide(q), _wide(k), _wide(v)
        times = wide_q.shape[-3] // wide_k.shape[-3] if wide_q.ndim > 2 else 1
        out, log_total = _forward(wide_q, wide_k, wide_v, ring, scale, times)
        ctx.ring, ctx.scale, ctx.times, ctx.log_total = ring, scale, times, log_total
        made = wrap(Tensor, out.astype(np.asarray(q._array).dtype, copy=False))
        ctx.save_for_backward(q, k, v, made)
        return made

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        q, k, v, out = ctx.saved_tensors
        if is_grad_enabled():  # a graph of the gradients is needed: use plain ops
            # Differentiate each input separately: query and key may be the same tensor.
            given = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in (q, k, v)]
            result = _attend_by_gathering(given[0], given[1], given[2], ctx.ring, ctx.scale, ctx.times)
            return (*grad(result, given, g, create_graph=True), None, None)
        wide = [_wide(t) for t in (g, q, k, v, out)]
        found = _backward(wide, ctx.log_total, ctx.ring, ctx.scale, ctx.times)
        return (*(wrap(Tensor, d.astype(np.asarray(q._array).dtype, copy=False)) for d in found), None, None)


def _wide(t: Any) -> Payload:
    array = np.asarray(t.detach()._array)
    return array.astype(np.float32) if is_half(array.dtype) else array


def _attend_by_gathering(q: Any, k: Any, v: Any, ring: _Ring, scale: float, times: int) -> Any:
    """Compute the same by ops that differentiate to any order: every rank gathers all keys and values."""
    whole = [ops.all_gather(t, group=ring.group, dim=t.ndim - 2, sizes=tuple(ring.lengths)) for t in (k, v)]
    mask = None
    if ring.causal:
        places = [np.concatenate([np.arange(s, s + n) for s, n in segments]) for segments in ring.segments]
        allowed = places[ring.rank][:, None] >= np.concatenate(places)[None]
        mask = wrap(Tensor, allowed)
    whole = [t.repeat_interleave(times, dim=-3) if times > 1 else t for t in whole]
    return scaled_dot_product_attention(q, whole[0], whole[1], attn_mask=mask, scale=scale)


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    group: Any = None,
    load_balanced: bool = False,
) -> Tensor:
    """Compute `scaled_dot_product_attention` of a sequence that is divided among the ranks of a group, in order, along
    the second to last dimension. Each rank gets its part of the result. Parts may have different lengths.

    With `load_balanced`, rank r has chunks r and 2n - 1 - r of 2n, as `context_parallel` cuts them. With `enable_gqa`,
    several heads of queries share one of keys and values.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.experimental import ring_attention
    >>> ndgrad.distributed.init_process_group()
    >>> x = ndgrad.ones(1, 2, 4, 8)
    >>> ring_attention(x, x, x, is_causal=True).shape
    ndgrad.Size([1, 2, 4, 8])
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        raise ValueError("ring_attention: this process is not in the group. Call it on the members alone. [nd-rank]")
    q, k, v = tuple(query.shape), tuple(key.shape), tuple(value.shape)
    many = enable_gqa and len(q) > 2 and len(k) == len(q) and k[-3] and q[-3] % k[-3] == 0
    heads_fit = len(q) == len(k) == len(v) and (q[:-2] == k[:-2] or (many and q[:-3] == k[:-3]))
    if len(q) < 2 or not heads_fit or k[:-1] != v[:-1] or q[-1] != k[-1] or (is_causal and q[-2] != k[-2]):
        raise ValueError(
            f"ring_attention: query {q}, key {k} and value {v} do not fit: they are (..., length, width) with the same "
            "leading dimensions, with is_causal the same length"
            f"{', and with enable_gqa a multiple of heads in the query' if enable_gqa else ''}. [nd-shape]"
        )
    ring = _Ring(twin_group(found, "rings"), k[-2], is_causal, load_balanced)
    width = 1.0 / math.sqrt(q[-1]) if scale is None else float(scale)
    made: Tensor = _RingAttention.apply(query, key, value, ring, width)
    return made
