"""The recursive part of a digital filter, along the last dimension, with zero initial state.

It computes y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ... The filter is linear in x, and its transpose is the same
filter run backwards. In a it acts as a quotient, so a derivative in a is another run of the filter. Its input (the
moving average, initial states) is computed by other ops.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.ops.matrix import align
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _recursive_filter(np: Library, x: Payload, a: Payload) -> Payload:
    dtype = np.result_type(x, a)
    order, length = a.shape[-1], x.shape[-1]
    if a.ndim == 1 and np is numpy and order and length and math.prod(x.shape):
        try:
            signal = importlib.import_module("scipy.signal")
        except ImportError:
            pass
        else:
            return signal.lfilter(np.ones(1, dtype), np.concatenate([np.ones(1, dtype), a]), x).astype(
                dtype, copy=False
            )
    lead = numpy.broadcast_shapes(x.shape[:-1], a.shape[:-1])
    out = np.array(np.broadcast_to(x, (*lead, length)), dtype)
    # a[..., ::-1] multiplies the last values, oldest first.
    backwards = a[..., ::-1]
    for n in range(1, length):
        k = min(n, order)
        if k:
            out[..., n] -= (backwards[..., order - k :] * out[..., n - k : n]).sum(axis=-1)
    return out


def _delay(y: Payload, order: int, ops: Vocabulary) -> Payload:
    """Return y[n - 1], ..., y[n - order] in a new dimension before the last."""
    last = len(y.shape) - 1
    columns = []
    for _ in range(order):
        y = ops.shift(y, dim=last, reverse=False, fill=0.0)
        columns.append(y)
    return ops.stack(*columns, dim=last)


def _reverse(x: Payload, ops: Vocabulary) -> Payload:
    return ops.flip(x, dims=(len(x.shape) - 1,))


def _vjp(g: Payload, a: Payload, out: Payload, needs: tuple[bool, bool], ops: Vocabulary) -> tuple[Any, Any]:
    w = _reverse(ops.recursive_filter(_reverse(g, ops), ops.conj(a)), ops)
    if not needs[1]:
        return w, None
    order = a.shape[-1]
    if not order:
        return w, ops.zeros_like(a)
    n = len(w.shape)
    wide = ops.reshape(w, shape=(*w.shape[:-1], 1, w.shape[-1]))
    return w, -ops.sum(wide * ops.conj(_delay(out, order, ops)), dim=(n,), keepdim=False)


def _push_a(t: Payload, a: Payload, out: Payload, ops: Vocabulary) -> Payload:
    order, n = a.shape[-1], len(out.shape)
    if not order:
        return ops.zeros_like(out)
    fed = ops.sum(ops.reshape(t, shape=(*t.shape, 1)) * _delay(out, order, ops), dim=(n - 1,), keepdim=False)
    return -ops.recursive_filter(fed, a)


def _batch(x: Payload, a: Payload, batched: tuple[bool, bool], ops: Vocabulary) -> Payload:
    rank = max(len(x.shape) - batched[0], len(a.shape) - batched[1])
    if not batched[1]:
        return ops.recursive_filter(align(x, True, rank, ops), a)
    return ops.recursive_filter(align(x, batched[0], rank, ops), align(a, True, rank, ops))


recursive_filter = op(
    "recursive_filter", "x a",
    _recursive_filter,
    vjp=_vjp,
    jvp={"x": lambda t, a, ops: ops.recursive_filter(t, a), "a": _push_a},
    batch=_batch,
)  # fmt: skip
