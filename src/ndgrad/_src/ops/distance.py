"""Euclidean distances between two sets of points.

The product formula |x|^2 + |y|^2 - 2 x y^T is fast, but inaccurate for points that are close together. These points are
detected and computed again from their differences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.matrix import align, transpose
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Up to this many differences are computed directly; above it, the product is faster.
_FEW = 1 << 15
#: Squared distances below this fraction of |x|^2 + |y|^2 have lost digits to cancellation.
_CLOSE = 0.05
_SINGLE, _DOUBLE = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


def _square(np: Library, x: Payload) -> Payload:
    return np.einsum("...i,...i->...", x, x)


def _cdist(np: Library, x: Payload, y: Payload) -> Payload:
    refuse_complex("cdist", x, y)
    shape = (*numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-2])
    if math.prod(shape) * x.shape[-1] <= _FEW:
        return np.sqrt(_square(np, x[..., :, None, :] - y[..., None, :, :]))
    center = y.mean(axis=-2, keepdims=True)
    xc, yc = x - center, y - center
    size = _square(np, xc)[..., :, None] + _square(np, yc)[..., None, :]
    squares = size - 2 * (xc @ yc.swapaxes(-1, -2))
    close = squares <= _CLOSE * size
    if close.any():
        *stack, i, j = np.nonzero(close)
        xs = np.broadcast_to(x, shape[:-2] + x.shape[-2:])
        ys = np.broadcast_to(y, shape[:-2] + y.shape[-2:])
        step = max(_FEW // max(x.shape[-1], 1), 1)
        for start in range(0, len(i), step):
            part = slice(start, start + step)
            lead = tuple(s[part] for s in stack)
            difference = xs[(*lead, i[part])] - ys[(*lead, j[part])]
            squares[(*lead, i[part], j[part])] = _square(np, difference)
    return np.sqrt(squares)


def _weights(g: Payload, out: Payload, ops: Vocabulary) -> Payload:
    """Return g / out, and 0 for distance 0: the subgradient of least norm."""
    zero = out == 0
    return ops.where(zero, 0.0, g / ops.where(zero, 1.0, out))


# d_ij = |x_i - y_j|, so the gradient of x_i is the sum over j of w_ij (x_i - y_j) with w = g / d: a row sum times x
# minus one product. Any origin gives the same result; with the origin at the centre of y the two terms cancel least.
# For points that are close together they still cancel, and w is large. Single precision would have no digits left, so
# both terms are computed in double precision.


def _center(y: Payload, ops: Vocabulary) -> Payload:
    return ops.detach(ops.sum(y, dim=(len(y.shape) - 2,), keepdim=True)) * (1 / max(y.shape[-2], 1))


def _cast_to_double(dtype: Any, values: tuple[Payload, ...], ops: Vocabulary) -> tuple[Payload, ...]:
    return tuple([ops.cast(v, dtype=_DOUBLE) for v in values]) if dtype == _SINGLE else values


def _side(w: Payload, x: Payload, y: Payload, dtype: Any, ops: Vocabulary) -> Payload:
    w, x, y = _cast_to_double(dtype, (w, x, y), ops)
    center = _center(y, ops)
    total = ops.sum(w, dim=(len(w.shape) - 1,), keepdim=True)
    out = total * (x - center) - ops.matmul(w, y - center)
    return ops.cast(out, dtype=dtype) if dtype == _SINGLE else out


def _cdist_x(g: Payload, x: Payload, y: Payload, out: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    return _side(_weights(g, out, ops), x, y, x_dtype, ops)


def _cdist_y(g: Payload, x: Payload, y: Payload, out: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    return _side(transpose(_weights(g, out, ops), ops), y, x, x_dtype, ops)


def _push(t: Payload, x: Payload, y: Payload, dtype: Any, ops: Vocabulary) -> Payload:
    """Return the change of half the squared distance when x moves by t: t_i . (x_i - y_j)."""
    t, x, y = _cast_to_double(dtype, (t, x, y), ops)
    center = _center(y, ops)
    along = t * (x - center)
    own = ops.sum(along, dim=(len(along.shape) - 1,), keepdim=True)
    out = own - ops.matmul(t, transpose(y - center, ops))
    return ops.cast(out, dtype=dtype) if dtype == _SINGLE else out


def _cdist_batch(x: Payload, y: Payload, batched: tuple[bool, bool], ops: Vocabulary) -> Payload:
    rank = max(len(x.shape) - batched[0], len(y.shape) - batched[1])
    return ops.cdist(align(x, batched[0], rank, ops), align(y, batched[1], rank, ops))


cdist = op(
    "cdist", "x y",
    _cdist,
    vjp={"x": _cdist_x, "y": _cdist_y},
    jvp={
        "x": lambda t, x, y, out, x_dtype, ops: _weights(_push(t, x, y, x_dtype, ops), out, ops),
        "y": lambda t, x, y, out, x_dtype, ops: _weights(transpose(_push(t, y, x, x_dtype, ops), ops), out, ops),
    },
    batch=_cdist_batch,
    saved_names={"x": "x1", "y": "x2"},
    promotes="x y",
)  # fmt: skip


# ----- pairs ----------------------------------------------------------------------------------------------------------


def _pairs(np: Library, x: Payload) -> Payload:
    i, j = np.triu_indices(x.shape[-1], 1)
    return x[..., i, j]


def _from_pairs(np: Library, x: Payload, *, count: int) -> Payload:
    out = np.zeros((*x.shape[:-1], count, count), x.dtype)
    i, j = np.triu_indices(count, 1)
    out[..., i, j] = x
    return out


# `pairs` are the entries above the diagonal, row by row. `from_pairs` is the matrix with these entries and zeros
# elsewhere. The two ops are transposes of each other.
pairs = op(
    "pairs", "x",
    _pairs,
    vjp={"x": lambda g, x_shape, ops: ops.from_pairs(g, count=x_shape[-1])},
    jvp="linear",
    batch="leading",
    moves_values=True, core_dims=[2], movement="rearrange",
)  # fmt: skip

from_pairs = op(
    "from_pairs", "x",
    _from_pairs,
    settings={"count": 0},
    vjp={"x": lambda g, ops: ops.pairs(g)},
    jvp="linear",
    batch="leading",
    moves_values=True, core_dims=[1], movement="rearrange",
)  # fmt: skip
