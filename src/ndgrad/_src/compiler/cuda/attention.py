"""Attention on a device: by cuDNN if it has a plan, or by tiled kernels for half (half_attention.py) and single
precision (float32_attention.py).

Otherwise cuBLAS computes products around one kernel for the weights and one for their derivative. Scores are kept in
single precision (those of doubles in double), weights in the dtype of the operands. Heads are processed in groups, so
that both have bounded size. Reverse mode computes the weights again.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any

from ndgrad._src.compiler.cuda import cudnn, float32_attention, half_attention, launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.products import multiply, takes
from ndgrad._src.compiler.cuda.rows import run_rows
from ndgrad._src.compiler.cuda.values import COMPUTED

#: Maximum bytes of scores at a time.
_WORKSPACE = 1 << 30


def attention_for(q: Any, k: Any, v: Any) -> Any:
    """Return this module if it supports these arrays: of one floating dtype, with the same leading dimensions."""
    lead, dtype = q.shape[:-2], q.dtype
    if dtype.char not in COMPUTED or not (q.size and k.size and v.size) or q.ndim < 2:
        return None
    same = all(a.__class__ is q.__class__ and a.dtype == dtype and a.shape[:-2] == lead for a in (k, v))
    return sys.modules[__name__] if same else None


def attention(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> Any:
    """Return softmax(q k' scale) v, with later keys hidden from earlier queries if causal."""
    if cudnn.takes_attention(q, v):
        made = cudnn.attention(q, k, v, is_causal, scale)
        if made is not None:
            return made
    tiles = _tiles_for(q, k, v, scale)
    if tiles is not None:
        return tiles.attention(q, k, v, is_causal, scale)[0].reshape(*q.shape[:-1], v.shape[-1])
    out = launch.new((*q.shape[:-1], v.shape[-1]), q.dtype)
    q, k, v = _stack(q), _stack(k), _stack(v)
    results = launch.shaped(out, (len(q), q.shape[1], v.shape[2]))
    for part in _parts(q, k):
        q_part, k_part, v_part, to = _take(part, q, k, v, results)
        multiply(_weights(q_part, k_part, is_causal, scale), v_part, to)
    return out


def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float, needs: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Return the gradients in q, k and v."""
    if cudnn.takes_attention(q, v):
        found = cudnn.attention_gradients(g, q, k, v, is_causal, scale)
        if found is not None:
            return (*found, None)
    tiles = _tiles_for(q, k, v, scale)
    if tiles is not None:
        return (*_by_tiles(tiles, g, q, k, v, is_causal, scale, *tiles.attention(q, k, v, is_causal, scale)), None)
    made = [launch.new(a.shape, a.dtype) if needed else None for a, needed in zip((q, k, v), needs[:3], strict=True)]
    g, q, k, v = _stack(g), _stack(q), _stack(k), _stack(v)
    grads = [None if a is None else launch.shaped(a, b.shape) for a, b in zip(made, (q, k, v), strict=True)]
    for part in _parts(q, k):
        g_part, q_part, k_part, v_part, gq, gk, gv = _take(part, g, q, k, v, *grads)
        p = _weights(q_part, k_part, is_causal, scale)
        if gv is not None:
            multiply(p, g_part, gv, a_transposed=True)
        if gq is None and gk is None:
            continue
        h = launch.new(p.shape, launch.summed_in(q.dtype))
        multiply(g_part, v_part, h, b_transposed=True)
        run_rows("attention_slope", p, p.shape[2], p, h, p, scale)  # the old values of p are no longer needed
        if gq is not None:
            multiply(p, k_part, gq)
        if gk is not None:
            multiply(p, q_part, gk, a_transposed=True)
    return (*made, None)


def _take(part: slice | None, *arrays: Any) -> tuple[Any, ...]:
    """Return a part of each array; None for all of it."""
    return arrays if part is None else tuple([None if a is None else a[part] for a in arrays])


def keeps_logs(q: Any, k: Any, v: Any, scale: float) -> bool:
    """True if `attention_kept` has an additional result that speeds up gradients."""
    return not cudnn.takes_attention(q, v) and _tiles_for(q, k, v, scale) is not None


def attention_kept(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """Return the same result, and values that speed up its gradients."""
    if keeps_logs(q, k, v, scale):
        out, logs = _tiles_for(q, k, v, scale).attention(q, k, v, is_causal, scale)
        return out.reshape(*q.shape[:-1], v.shape[-1]), logs.reshape(q.shape[:-1])
    return attention(q, k, v, is_causal, scale), launch.new(q.shape[:-1], launch.SINGLE)


def gradients_of_kept(
    g: Any, q: Any, k: Any, v: Any, out: Any, logs: Any, is_causal: bool, scale: float
) -> tuple[Any, ...]:
    """Return the gradients in q, k and v, from the results of `attention_kept`."""
    if keeps_logs(q, k, v, scale):
        return _by_tiles(_tiles_for(q, k, v, scale), g, q, k, v, is_causal, scale, out, logs)
    return attention_gradients(g, q, k, v, is_causal, scale, (True, True, True))[:3]


def _tiles_for(q: Any, k: Any, v: Any, scale: float) -> Any:
    """Return the tiled kernels for such arrays; None if there are none."""
    for kernels in (half_attention, float32_attention):
        if kernels.takes(q, k, v, scale):
            return kernels
    return None


def _by_tiles(
    tiles: Any, g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float, out: Any, logs: Any
) -> tuple[Any, ...]:
    g = g if g.dtype == q.dtype else g.astype(q.dtype)
    found = tiles.attention_gradients(g, q, k, v, is_causal, scale, out, logs)
    return tuple([made.reshape(a.shape) for made, a in zip(found, (q, k, v), strict=True)])


def _weights(q: Any, k: Any, is_causal: bool, scale: float) -> Any:
    """Return softmax(q k' scale) of some heads."""
    shape = (len(q), q.shape[1], k.shape[1])
    scores, p = launch.new(shape, launch.summed_in(q.dtype)), launch.new(shape, q.dtype)
    multiply(q, k, scores, b_transposed=True)
    run_rows("attention_weights", p, shape[2], p, scores, scale, float(shape[1] if is_causal else 0))
    return p


def _stack(a: Any) -> Any:
    """Merge all leading dimensions, in an order that cuBLAS accepts."""
    if a.ndim == 3 and takes(a):
        return a
    return launch.shaped(in_order(a), (prod(a.shape[:-2]), *a.shape[-2:]))


def _parts(q: Any, k: Any) -> list[slice] | list[None]:
    step = max(1, _WORKSPACE // (4 * q.shape[1] * k.shape[1]))
    if step >= len(q):
        return [None]
    return [slice(i, min(i + step, len(q))) for i in range(0, len(q), step)]

