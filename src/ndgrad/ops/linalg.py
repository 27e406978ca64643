"""Products of matrices, decompositions, solves."""

from __future__ import annotations

import operator
from typing import Any

from ndgrad.ops.table import op


def adjoint(x: Any, ops: Any) -> Any:
    """The conjugate transpose of the last two dimensions."""
    n = len(x.shape)
    return ops.conj(ops.permute(x, dims=(*range(n - 2), n - 1, n - 2)))


def _matmul_x(g: Any, y: Any, x_ndim: int, ops: Any) -> Any:
    """g y^H, with the dimensions that matmul adds to a vector put back and taken off again."""
    if len(y.shape) == 1:
        if x_ndim == 1:
            return g * ops.conj(y)
        return ops.reshape(g, shape=(*g.shape, 1)) * ops.conj(y)
    if x_ndim == 1:
        column = ops.reshape(g, shape=(*g.shape, 1))
        gx = ops.matmul(ops.conj(y), column)
        return ops.reshape(gx, shape=gx.shape[:-1])
    return ops.matmul(g, adjoint(y, ops))


def _matmul_y(g: Any, x: Any, y_ndim: int, ops: Any) -> Any:
    """x^H g."""
    if len(x.shape) == 1:
        if y_ndim == 1:
            return g * ops.conj(x)
        return ops.reshape(ops.conj(x), shape=(*x.shape, 1)) * ops.reshape(g, shape=(*g.shape[:-1], 1, g.shape[-1]))
    if y_ndim == 1:
        column = ops.reshape(g, shape=(*g.shape, 1))
        gy = ops.matmul(adjoint(x, ops), column)
        return ops.reshape(gy, shape=gy.shape[:-1])
    return ops.matmul(adjoint(x, ops), g)


matmul = op(
    "matmul", "x y",
    operator.matmul,
    vjp={"x": _matmul_x, "y": _matmul_y},
    jvp="multilinear",
    batch=lambda x, y, ops, batched: _matmul_batch(x, y, ops, batched),
)  # fmt: skip


def _matmul_batch(x: Any, y: Any, ops: Any, batched: tuple[bool, bool]) -> Any:
    """One product for the whole batch. A vector argument becomes a matrix of one row or column meanwhile."""
    bx, by = batched
    nx, ny = len(x.shape) - bx, len(y.shape) - by
    if bx and not by and ny <= 2 and nx <= 2:
        return ops.matmul(x, y) if nx == 2 or ny == 2 else ops.matmul(x, y)
    if nx == 1:
        x = ops.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))
    if ny == 1:
        y = ops.reshape(y, shape=(*y.shape, 1))
    rank = max(nx, ny, 2)
    x, y = _align(x, bx, rank, ops), _align(y, by, rank, ops)
    out = ops.matmul(x, y)
    shape = out.shape
    if nx == 1 and ny == 1:
        return ops.reshape(out, shape=shape[:-2])
    if nx == 1:
        return ops.reshape(out, shape=(*shape[:-2], shape[-1]))
    if ny == 1:
        return ops.reshape(out, shape=shape[:-1])
    return out


def _align(x: Any, batched: bool, rank: int, ops: Any) -> Any:
    missing = rank + 1 - len(x.shape)
    if not batched or missing <= 0:
        return x
    return ops.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:]))
