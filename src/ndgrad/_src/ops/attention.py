"""Attention: softmax(q k' scale + mask) v as one op that never holds all the weights at once.

The weights (queries x keys, per head) are by far the largest array of a transformer. They are computed in blocks, used
while they are in the cache, and computed again in reverse mode. So neither direction needs memory that grows with
queries times keys, and the better use of the cache pays for the second computation. `attention_weights` is the part
before v. It serves callers that read or change the weights (dropout), and derivatives of higher order consist of it.

q (..., L, E), k (..., S, E), v (..., S, F); leading dimensions broadcast. A boolean mask selects the visible keys; a
float mask is added to the scores. With `is_causal` query i sees keys 0 to i. A query without visible keys has zero
weights and a zero result.

Derivation. With P = softmax(Z) row by row, dP = P (dZ - <P, dZ>), a symmetric map for each row; a zero row has a zero
differential. Everything else is a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels, threads
from ndgrad._src.arrays.device_kernels import copy_to
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import round_to, widen
from ndgrad._src.arrays.short_rows import is_lines, line_sum
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.extremum import largest
from ndgrad._src.ops.table import op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

Shape = tuple[int, ...]

#: Number of weights in a block: half a megabyte in single precision on a CPU, a quarter of a gigabyte on a GPU.
_BLOCK, _BLOCK_ON_GPU = 2**17, 2**26
#: BLAS computes smaller products (in multiplications) on the calling thread, which is a worker thread already.
_SMALL_PRODUCT = 2**19


def _swap_last(x: Payload, ops: Vocabulary) -> Payload:
    n = len(x.shape)
    return ops.permute(x, dims=(*range(n - 2), n - 1, n - 2))


# ----- whole attentions on a device -----------------------------------------------------------------------------------


def _masked_softmax(ops: Vocabulary, arrays: Any, settings: Any) -> Payload:
    """Return softmax(scale z + mask) along the last dimension; rows of -inf become zeros.

    A mask of truths is given as ones and zeros.
    """
    z, mask = arrays
    z, last = z * settings["scale"], (len(z.shape) - 1,)
    if mask is not None:
        z = ops.where(mask == 0.0, -inf, z) if settings["of_truths"] else z + mask
    top = ops.amax(z, dim=last, keepdim=True)
    e = ops.exp(z - ops.where(top == -inf, 0.0, top))
    total = ops.sum(e, dim=last, keepdim=True)
    return e / ops.where(total == 0.0, 1.0, total)


def _weights_on_device(np: Library, q: Payload, k: Payload, mask: Payload, scale: float) -> Payload:
    """Return softmax(scale q k' + mask) of arrays on a device by one product and one kernel; None if that is not
    possible.

    This needs equal leading dimensions of q and k, and a mask that broadcasts to the weights.
    """
    lead, dtype = q.shape[:-2], q.dtype
    shape = (*lead, q.shape[-2], k.shape[-2])
    if np is numpy or not is_on_device(q) or k.shape[:-2] != lead or k.dtype != dtype or dtype.char not in "fd":
        return None
    if 0 in shape or prod(shape) > _BLOCK_ON_GPU:
        return None
    of_truths = mask is not None and mask.dtype.kind == "b"
    if mask is not None:
        if (mask.dtype != dtype and not of_truths) or not fits_into(mask.shape, shape):
            return None
        whole = np.empty(shape, dtype)
        copy_to(whole, mask)
        mask = whole
    z = raw_ops(np).matmul(q, k.swapaxes(-1, -2))
    return native_kernels.run_fused(
        _masked_softmax, [native_kernels.dense(z), mask], {"scale": scale, "of_truths": of_truths}
    )


def fits_into(shape: Shape, wanted: Shape) -> bool:
    """True if a shape broadcasts to another one."""
    return len(shape) <= len(wanted) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(wanted), strict=False)
    )


def _pull_back_on_device(
    np: Library, g: Payload, q: Payload, k: Payload, v: Payload, mask: Payload, scale: float, needs: tuple[bool, ...]
) -> tuple[Any, ...] | None:
    """Return the gradients of a whole attention on a device without its mask's; None if that is not possible."""
    if needs[3] or v.shape[:-2] != q.shape[:-2] or v.dtype != q.dtype:
        return None
    p = _weights_on_device(np, q, k, mask, scale)
    if p is None:
        return None
    ops = raw_ops(np)
    gv = ops.matmul(p.swapaxes(-1, -2), g) if needs[2] else None
    if not (needs[0] or needs[1]):
        return None, None, gv, None
    h = native_kernels.dense(ops.matmul(g, v.swapaxes(-1, -2)))
    kernels = native_kernels.row_kernels_along(h.ndim - 1, h, p)
    h = (h - (h * p).sum(axis=-1, keepdims=True)) * p * scale if kernels is None else kernels.softmax_slope(h, p, scale)
    gq = ops.matmul(h, k) if needs[0] else None
    gk = ops.matmul(h.swapaxes(-1, -2), q) if needs[1] else None
    return gq, gk, gv, None


# ----- blocks of raw arrays ------------------------------------------------------------------------------------------


def _product(np: Library, a: Payload, b: Payload) -> Payload:
    """Return a @ b in tiles so small that BLAS starts no threads of its own. Rows of b are contiguous."""
    if np is not numpy:
        return raw_ops(np).matmul(a, b)
    (m, k), n = a.shape[-2:], b.shape[-1]
    if m * k * n < _SMALL_PRODUCT:
        return np.matmul(a, b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*lead, m, n), np.result_type(a, b))
    pieces = -(-k // 1024)
    depth, columns = -(-k // pieces), min(n, 64)
    rows = min(m, max(8, (_SMALL_PRODUCT - 1) // (depth * columns) // 8 * 8))
    for i, j in ((i, j) for i in _ranges(m, rows) for j in _ranges(n, columns)):
        r, c = min(rows, i.stop - i.start), min(columns, j.stop - j.start)
        # Tiles of this part are dimensions of their own, so that one call multiplies all of them.
        part = out[..., i, j].reshape(*lead, -1, r, (j.stop - j.start) // c, c).swapaxes(-3, -2)
        left = a[..., i, :].reshape(*a.shape[:-2], -1, 1, r, k)
        right = b[..., j].reshape(*b.shape[:-1], -1, c).swapaxes(-3, -2)[..., None, :, :, :]
        np.matmul(left[..., :depth], right[..., :depth, :], out=part)
        for d in range(depth, k, depth):
            part += np.matmul(left[..., d : d + depth], right[..., d : d + depth, :])
    return out


def _ranges(size: int, tile: int) -> list[slice]:
    """Return the range of all whole tiles of a dimension, and the remainder."""
    whole = size // tile * tile
    return [r for r in (slice(0, whole), slice(whole, size)) if r.stop > r.start]


def _exponentials(
    np: Library, q: Payload, k: Payload, mask: Payload, first: int | None, scale: float
) -> tuple[Any, Any]:
    """Return the weights before normalisation, and their sums.

    `first` is the position of q's first query if the attention is causal, else None.
    """
    z = _product(np, q * q.dtype.type(scale), np.ascontiguousarray(k.swapaxes(-1, -2)))
    low = z.dtype.type(-np.inf)
    masked = mask is not None
    if mask is not None:
        is_same = mask.shape == z.shape and mask.dtype == z.dtype
        fits = is_same or (np.broadcast_shapes(z.shape, mask.shape) == z.shape and np.result_type(z, mask) == z.dtype)
        z = np.add(z, mask, out=z) if fits else z + mask
    if first is not None:
        queries, keys = z.shape[-2:]
        hidden = np.arange(keys) > np.arange(first, first + queries)[:, None]
        z += np.where(hidden, low, z.dtype.type(0))
    if not z.shape[-1]:
        return z, np.ones((*z.shape[:-1], 1), z.dtype)
    kernels = native_kernels.row_kernels_along(z.ndim - 1, z)
    if kernels is not None:
        return z, kernels.exponentials(z, masked)
    last = (z.ndim - 1,)
    top = largest(np, z, last, True)
    if masked:  # rows of -inf become zeros
        top = np.where(top == low, 0, top)
    z -= top
    np.exp(z, out=z)
    total = line_sum(np, z, True) if is_lines(np, z, last) else np.add.reduce(z, axis=-1, keepdims=True)
    if masked:
        total[total == 0] = 1
    return z, total


def _prepare(np: Library, *arrays: Any) -> tuple[Any, ...]:
    """Check the arrays, and convert a boolean mask to 0 and -inf, since adding is much faster than selecting."""
    out = []
    refuse_complex("scaled_dot_product_attention", *(a for a in arrays if a is not None))
    dtype = np.result_type(*(a for a in arrays[:2]))
    for a in arrays:
        if a is not None and a.dtype.kind == "b":
            a = np.where(a, dtype.type(0), dtype.type(-np.inf))
        out.append(a)
    return tuple(out)


class _Blocks:
    """Splits a large attention into heads and ranges of queries that fit into the cache."""

    def __init__(self, np: Library, q: Payload, k: Payload, v: Payload, mask: Payload) -> None:
        first, *others = [tuple(a.shape[:-2]) for a in (q, k, v, mask) if a is not None]
        # NumPy's functions for broadcasting take microseconds each, as much as a small attention.
        is_same = all(shape == first for shape in others)
        self.lead: Shape = first if is_same else np.broadcast_shapes(first, *others)
        self.queries, self.keys = q.shape[-2], k.shape[-2]
        self.dtype = np.result_type(q, k, v)
        self.size = _BLOCK if np is numpy else _BLOCK_ON_GPU
        self.arrays = tuple(
            None
            if a is None
            else _broadcast(np, a, (*self.lead, *(a.shape[-2:] if a is not mask else (self.queries, self.keys))))
            for a in (q, k, v, mask)
        )

    def heads(self) -> list[tuple[int | slice, ...]]:
        """Return indices of the leading dimensions, with as many heads per block as fit into the cache."""
        each = self.queries * self.keys
        depth = 0
        while depth < len(self.lead) and prod(self.lead[depth:]) * each > self.size:
            depth += 1
        if not depth:
            return [()]
        chunk = max(1, self.size // max(prod(self.lead[depth:]) * each, 1))
        return [
            (*outer, slice(start, start + chunk))
            for outer in _indices(self.lead[: depth - 1])
            for start in range(0, self.lead[depth - 1], chunk)
        ]

    def rows(self) -> list[slice]:
        """Return ranges of queries, for heads that do not fit into one block."""
        step = max(16, self.size // max(self.keys, 1))
        return [slice(i, min(i + step, self.queries)) for i in range(0, self.queries, step)] or [slice(0, 0)]


def _broadcast(np: Library, a: Payload, shape: Shape) -> Payload:
    return a if a.shape == shape else np.broadcast_to(a, shape)


def _indices(shape: Shape) -> Iterator[tuple[int, ...]]:
    if not shape:
        yield ()
        return
    for i in range(shape[0]):
        for rest in _indices(shape[1:]):
            yield (i, *rest)


def _parts(head: Any, rows: slice, arrays: Any, is_causal: bool) -> tuple[Any, Any, Any, Any, Any, int | None]:
    """Return queries, keys, values and mask of a block, its slice of keys, and (if causal) its first query."""
    q, k, v, mask = arrays
    keys = slice(0, rows.stop) if is_causal else slice(None)  # later keys are hidden from all of these queries
    part = None if mask is None else mask[head][..., rows, keys]
    return (
        q[head][..., rows, :],
        k[head][..., keys, :],
        v[head][..., keys, :],
        part,
        keys,
        rows.start if is_causal else None,
    )


def _attention(np: Library, q: Payload, k: Payload, v: Payload, mask: Payload, *, is_causal: bool, scale: float) -> Any:
    dtype = np.result_type(q, k, v)
    if getattr(q, "is_meta", False):
        lead = np.broadcast_shapes(*(a.shape[:-2] for a in (q, k, v, mask) if a is not None))
        return type(q)((*lead, q.shape[-2], v.shape[-1]), dtype)
    kernels = native_kernels.attention_kernels(q, k, v, mask)
    if kernels is not None:
        return kernels.attention(q, k, v, is_causal, scale)
    if np is not numpy and not is_causal:
        refuse_complex("scaled_dot_product_attention", q, k, v)
        wide_q, wide_k, wide_v = widen(q), widen(k), widen(v)
        p = _weights_on_device(np, wide_q, wide_k, widen(mask), scale)
        if p is not None and wide_v.shape[:-2] == p.shape[:-2] and wide_v.dtype == p.dtype:
            return round_to(raw_ops(np).matmul(p, wide_v), None if dtype.char in "fd" else dtype)
    q, k, v, mask = (widen(a) for a in _prepare(np, q, k, v, mask))
    blocks = _Blocks(np, q, k, v, mask)
    out = np.empty((*blocks.lead, blocks.queries, v.shape[-1]), blocks.dtype)

    def worker(mine: Any) -> None:
        for head, rows in mine:
            q_part, k_part, v_part, mask_part, _, first = _parts(head, rows, blocks.arrays, is_causal)
            e, total = _exponentials(np, q_part, k_part, mask_part, first, scale)
            result = _product(np, e, v_part)
            result /= total
            out[head][..., rows, :] = result

    pieces = [(head, rows) for head in blocks.heads() for rows in blocks.rows()]
    threads.share(pieces, worker, threads=len(pieces) if np is numpy else 1)
    return out.astype(dtype, copy=False)


def pull_back(
    np: Library,
    g: Payload,
    q: Payload,
    k: Payload,
    v: Payload,
    mask: Payload,
    is_causal: bool,
    scale: float,
    needs: tuple[bool, ...],
) -> tuple[Any, ...]:
    """Return the gradients on raw arrays. The weights of each block are computed again."""
    kernels = native_kernels.attention_kernels(q, k, v, mask)
    if kernels is not None:
        g = g if g.dtype == q.dtype else native_kernels.dense(g, q.dtype)
        return kernels.attention_gradients(g, q, k, v, is_causal, scale, needs)
    if np is not numpy and not is_causal and not getattr(q, "is_meta", False):
        inputs = (native_kernels.dense(g), q, k, v, mask)
        found = _pull_back_on_device(np, *map(widen, inputs), scale, needs)
        if found is not None:
            return found
    g, q, k, v, mask = (widen(a) for a in _prepare(np, np.ascontiguousarray(g), q, k, v, mask))
    blocks = _Blocks(np, q, k, v, mask)
    lead, dtype = blocks.lead, blocks.dtype
    gq = np.empty((*lead, *q.shape[-2:]), dtype) if needs[0] else None
    gk = np.zeros((*lead, *k.shape[-2:]), dtype) if needs[1] else None
    gv = np.zeros((*lead, *v.shape[-2:]), dtype) if needs[2] else None
    gm = np.zeros((*lead, blocks.queries, blocks.keys), dtype) if needs[3] else None

    def worker(mine: Any) -> None:
        for head in mine:
            for rows in blocks.rows():
                q_part, k_part, v_part, mask_part, keys, first = _parts(head, rows, blocks.arrays, is_causal)
                p, total = _exponentials(np, q_part, k_part, mask_part, first, scale)
                p /= total
                g_part = g[head][..., rows, :]
                if gv is not None:
                    gv[head][..., keys, :] += _product(np, p.swapaxes(-1, -2), g_part)
                if gq is None and gk is None and gm is None:
                    continue
                h = _product(np, g_part, np.ascontiguousarray(v_part.swapaxes(-1, -2)))
                kernels = native_kernels.row_kernels_along(h.ndim - 1, h, p) if gm is None else None
                if kernels is not None:
                    kernels.softmax_slope(h, p, scale, out=h)
                else:
                    h -= (np.vecdot(h, p) if np is numpy else (h * p).sum(axis=-1))[..., None]
                    h *= p
                    if gm is not None:
                        gm[head][..., rows, keys] = h
                    h *= h.dtype.type(scale)
                if gq is not None:
                    gq[head][..., rows, :] = _product(np, h, k_part)
                if gk is not None:
                    gk[head][..., keys, :] += _product(np, h.swapaxes(-1, -2), q_part)

    heads = blocks.heads()
    threads.share(heads, worker, threads=len(heads) if np is numpy else 1)
    return gq, gk, gv, gm


def _weights(np: Library, q: Payload, k: Payload, mask: Payload, *, is_causal: bool, scale: float) -> Payload:
    dtype = np.result_type(q, k)
    if np is not numpy and not is_causal and not getattr(q, "is_meta", False):
        found = _weights_on_device(np, q, k, mask, scale)
        if found is not None:
            return found
    q, k, mask = _prepare(np, q, k, mask)
    p, total = _exponentials(np, q, k, mask, 0 if is_causal else None, scale)
    p /= total
    return p.astype(dtype, copy=False)


# ----- rules ---------------------------------------------------------------------------------------------------------


def _softmax_derivative(h: Payload, p: Any, ops: Vocabulary) -> Payload:
    """Return p (h - <p, h>) along the last dimension: the derivative of softmax in both modes."""
    return p * (h - ops.sum(p * h, dim=(len(p.shape) - 1,), keepdim=True))


def _scores_t(
    q: Payload, k: Payload, q_t: Payload, k_t: Payload, mask_t: Payload, scale: float, ops: Vocabulary
) -> Payload:
    terms = []
    if q_t is not None:
        terms.append(ops.matmul(q_t * scale, _swap_last(k, ops)))
    if k_t is not None:
        terms.append(ops.matmul(q * scale, _swap_last(k_t, ops)))
    if mask_t is not None:
        terms.append(mask_t)
    total = terms[0] if terms else None
    for term in terms[1:]:
        total = total + term
    return total


def _align_batch(args: tuple[Any, ...], batched: tuple[bool, ...], ops: Vocabulary) -> list[Any]:
    """Align the ranks, so that a batch dimension in front becomes one more of the leading dimensions, which
    broadcast.
    """
    rank = max(len(a.shape) - b for a, b in zip(args, batched, strict=True) if a is not None)
    out = []
    for a, b in zip(args, batched, strict=True):
        if a is not None and b and len(a.shape) <= rank:
            a = ops.reshape(a, shape=(a.shape[0], *(1,) * (rank + 1 - len(a.shape)), *a.shape[1:]))
        out.append(a)
    return out


def _weights_vjp(
    g: Payload,
    out: Payload,
    q: Payload,
    k: Payload,
    is_causal: bool,
    scale: float,
    needs: tuple[bool, ...],
    ops: Vocabulary,
) -> tuple[Any, ...]:
    kernels = None
    if ops.raw and is_on_device(out) and not needs[2]:
        g, out = native_kernels.dense(g), native_kernels.dense(out)
        kernels = native_kernels.row_kernels_along(out.ndim - 1, g, out)
    h = _softmax_derivative(g, out, ops) if kernels is None else kernels.softmax_slope(g, out, scale)
    rest = scale if kernels is None else 1.0
    return (
        _times(ops.matmul(h, k), rest) if needs[0] else None,
        _times(ops.matmul(_swap_last(h, ops), q), rest) if needs[1] else None,
        h if needs[2] else None,
    )


def _times(x: Payload, factor: float) -> Payload:
    return x if factor == 1.0 else x * factor


def _weights_jvp(
    q: Payload, k: Payload, q_t: Payload, k_t: Payload, mask_t: Payload, out: Payload, scale: float, ops: Vocabulary
) -> Payload:
    return _softmax_derivative(_scores_t(q, k, q_t, k_t, mask_t, scale, ops), out, ops)


def _weights_batch(
    q: Payload, k: Payload, mask: Payload, is_causal: bool, scale: float, batched: tuple[bool, ...], ops: Vocabulary
) -> Payload:
    return ops.attention_weights(*_align_batch((q, k, mask), batched, ops), is_causal=is_causal, scale=scale)


# softmax(q k' scale + mask), as described in the module docstring.
attention_weights = op(
    "attention_weights", "q k mask",
    _weights,
    settings={"is_causal": False, "scale": 1.0},
    vjp=_weights_vjp,
    jvp=_weights_jvp,
    batch=_weights_batch,
    optional="mask",
    backward_name="SafeSoftmaxBackward0",
)  # fmt: skip


def _attention_vjp(
    g: Payload,
    q: Payload,
    k: Payload,
    v: Payload,
    mask: Payload,
    is_causal: bool,
    scale: float,
    needs: tuple[bool, ...],
    ops: Vocabulary,
) -> tuple[Any, ...]:
    if ops.raw:
        return pull_back(ops.np, g, q, k, v, mask, is_causal, scale, needs)
    p = ops.attention_weights(q, k, mask, is_causal=is_causal, scale=scale)
    gv = ops.matmul(_swap_last(p, ops), g) if needs[2] else None
    if not (needs[0] or needs[1] or needs[3]):
        return None, None, gv, None
    h = _softmax_derivative(ops.matmul(g, _swap_last(v, ops)), p, ops)
    return (
        ops.matmul(h, k) * scale if needs[0] else None,
        ops.matmul(_swap_last(h, ops), q) * scale if needs[1] else None,
        gv,
        h if needs[3] else None,
    )


def _attention_jvp(
    q: Payload,
    k: Payload,
    v: Payload,
    mask: Payload,
    q_t: Payload,
    k_t: Payload,
    v_t: Payload,
    mask_t: Payload,
    is_causal: bool,
    scale: float,
    ops: Vocabulary,
) -> Payload:
    p = ops.attention_weights(q, k, mask, is_causal=is_causal, scale=scale)
    z_t = _scores_t(q, k, q_t, k_t, mask_t, scale, ops)
    if z_t is None:
        return ops.matmul(p, v_t)
    out = ops.matmul(_softmax_derivative(z_t, p, ops), v)
    return out if v_t is None else out + ops.matmul(p, v_t)


def _attention_batch(
    q: Payload,
    k: Payload,
    v: Payload,
    mask: Payload,
    is_causal: bool,
    scale: float,
    batched: tuple[bool, ...],
    ops: Vocabulary,
) -> Payload:
    return ops.attention(*_align_batch((q, k, v, mask), batched, ops), is_causal=is_causal, scale=scale)


attention = op(
    "attention", "q k v mask",
    _attention,
    settings={"is_causal": False, "scale": 1.0},
    vjp=_attention_vjp,
    jvp=_attention_jvp,
    batch=_attention_batch,
    optional="mask",
    backward_name="ScaledDotProductFlashAttentionForCpuBackward0",
    saved_names={"q": "query", "k": "key", "v": "value", "mask": "attn_mask"},
    one_dtype="q k v",
    halves_on_device=True,
)  # fmt: skip


def _attention_with_logs(
    np: Library, q: Payload, k: Payload, v: Payload, *, is_causal: bool, scale: float
) -> tuple[Any, Any]:
    kernels = native_kernels.attention_kernels(q, k, v, None)
    if kernels is not None and kernels.keeps_logs(q, k, v, scale):
        found: tuple[Any, Any] = kernels.attention_kept(q, k, v, is_causal, scale)
        return found
    out = _attention(np, q, k, v, None, is_causal=is_causal, scale=scale)
    if getattr(q, "is_meta", False):
        return out, type(q)(out.shape[:-1], widen(out).dtype)
    q, k = widen(q), widen(k)
    z = np.matmul(q * q.dtype.type(scale), k.swapaxes(-1, -2))
    if is_causal:
        z = np.where(np.arange(z.shape[-1]) <= np.arange(z.shape[-2])[:, None], z, z.dtype.type(-np.inf))
    if not z.shape[-1]:
        return out, np.full(out.shape[:-1], -np.inf, z.dtype)
    top = largest(np, z, (z.ndim - 1,), True)
    logs = np.log2(np.add.reduce(np.exp(z - top), axis=-1)) + top[..., 0] * z.dtype.type(1.4426950408889634)
    return out, np.broadcast_to(logs, out.shape[:-1]).copy()


def _attention_with_logs_vjp(
    g0: Payload,
    q: Payload,
    k: Payload,
    v: Payload,
    out0: Payload,
    out1: Payload,
    is_causal: bool,
    scale: float,
    needs: tuple[bool, ...],
    ops: Vocabulary,
) -> tuple[Any, ...]:
    kernels = native_kernels.attention_kernels(q, k, v, None) if ops.raw else None
    if kernels is not None and kernels.keeps_logs(q, k, v, scale):
        found: tuple[Any, ...] = kernels.gradients_of_kept(g0, q, k, v, out0, out1, is_causal, scale)
        return found
    return _attention_vjp(g0, q, k, v, None, is_causal, scale, (*needs, False), ops)[:3]


def _attention_with_logs_jvp(
    q: Payload,
    k: Payload,
    v: Payload,
    q_t: Payload,
    k_t: Payload,
    v_t: Payload,
    is_causal: bool,
    scale: float,
    ops: Vocabulary,
) -> tuple[Payload, None]:
    return _attention_jvp(q, k, v, None, q_t, k_t, v_t, None, is_causal, scale, ops), None


def _attention_with_logs_batch(
    q: Payload, k: Payload, v: Payload, is_causal: bool, scale: float, batched: tuple[bool, ...], ops: Vocabulary
) -> tuple[Payload, Payload]:
    found: tuple[Payload, Payload] = ops.attention_with_logs(
        *_align_batch((q, k, v), batched, ops), is_causal=is_causal, scale=scale
    )
    return found


# Attention without a mask, and the base-2 logarithm of the sum of exponentials of each query's scores. A device
# recovers the weights from it in reverse mode without computing attention a second time.
attention_with_logs = op(
    "attention_with_logs", "q k v",
    _attention_with_logs,
    settings={"is_causal": False, "scale": 1.0},
    vjp=_attention_with_logs_vjp,
    jvp=_attention_with_logs_jvp,
    batch=_attention_with_logs_batch,
    outputs=2,
    discrete_outputs=(1,),
    backward_name="ScaledDotProductFlashAttentionBackward0",
    saved_names={"q": "query", "k": "key", "v": "value"},
    one_dtype="q k v",
    halves=True,
    halves_on_device=True,
)  # fmt: skip
