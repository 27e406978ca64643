"""Sums, products and other reductions over some dimensions, or over all (the `_all` forms, torch's first overloads).

`dim` is a tuple of non-negative ints. A gradient is returned as a broadcast view, not a copy, unless the array is so
small that filling it is cheaper than making the view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.blocked_sums import reduce_sum, sum_natively
from ndgrad._src.arrays.integers import choose_sum_dtype
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import HALF, finfo, is_inexact, round_to
from ndgrad._src.arrays.short_rows import is_lines, line_sum
from ndgrad._src.ops.composite import composite
from ndgrad._src.ops.shape import inverse_permutation
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Up to this many elements, filling a new array is faster than np.broadcast_to.
_SMALL = 4096


# ----- from the reduced shape back to the input's ---------------------------------------------------------------------


def keep(g: Payload, x_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    """Restore the reduced dimensions with size one, so that the result broadcasts against the input."""
    if keepdim or not dim:
        return g
    return ops.reshape(g, shape=tuple(1 if i in dim else n for i, n in enumerate(x_shape)))


def expand_back(g: Payload, x_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    """Expand a reduction's gradient along the reduced dimensions."""
    if ops.raw and not is_on_device(g) and math.prod(x_shape) <= _SMALL:
        full = ops.np.empty(x_shape, g.dtype)
        full[...] = g if len(dim) == len(x_shape) else keep(g, x_shape, dim, keepdim, ops)
        return full
    return ops.expand(keep(g, x_shape, dim, keepdim, ops), shape=x_shape)


def expand_back_all(g: Payload, x_shape: tuple[int, ...], ops: Vocabulary) -> Payload:
    if ops.raw and not is_on_device(g) and math.prod(x_shape) <= _SMALL:
        full = ops.np.empty(x_shape, g.dtype)
        full.fill(g)
        return full
    return ops.expand(g, shape=x_shape)


def divide_gradient(g: Payload, n: int, ops: Vocabulary) -> Payload:
    """Divide a gradient by n. On a GPU the op's kernel is faster than CuPy's operator."""
    return ops.div(g, n) if ops.raw and is_on_device(g) else g / n


def count(shape: tuple[int, ...], dim: Iterable[int]) -> int:
    """Return the number of elements reduced to one."""
    return math.prod([shape[d] for d in dim])


def unbatched_dims(x: Any) -> tuple[int, ...]:
    """Return all dimensions but the batch: the reduced dimensions of a full reduction under vmap."""
    return tuple(range(1, len(x.shape)))


# ----- sum and mean ---------------------------------------------------------------------------------------------------


def _sum(np: Library, x: Payload, *, dim: tuple[int, ...], keepdim: bool = False, dtype: Any = None) -> Payload:
    if dtype is None:
        dtype = choose_sum_dtype(x.dtype)
        code = x.dtype.char
        if code in "fd" and is_lines(np, x, dim):
            found = sum_natively(x, dim, keepdim)
            return line_sum(np, x, keepdim) if found is None else found
        if code in HALF:  # partial sums in half precision would lose digits and overflow
            return round_to(reduce_sum(np, x, dim, keepdim, np.float32), x.dtype)
    return reduce_sum(np, x, dim, keepdim, dtype)


def _sum_all(np: Library, x: Payload, *, dtype: Any = None) -> Payload:
    if dtype is None and x.dtype.char in HALF:
        return round_to(reduce_sum(np, x, None, dtype=np.float32), x.dtype)
    return reduce_sum(np, x, None, dtype=choose_sum_dtype(x.dtype) if dtype is None else dtype)


def _mean(np: Library, x: Payload, *, dim: tuple[int, ...], keepdim: bool = False, dtype: Any = None) -> Payload:
    if dtype is None and x.dtype.char in HALF:
        return round_to(reduce_sum(np, x, dim, keepdim, np.float32) / count(x.shape, dim), x.dtype)
    return _sum(np, x, dim=dim, keepdim=keepdim, dtype=dtype) / count(x.shape, dim)


def _mean_all(np: Library, x: Payload, *, dtype: Any = None) -> Payload:
    if dtype is None and x.dtype.char in HALF:
        return round_to(reduce_sum(np, x, None, dtype=np.float32) / x.size, x.dtype)
    return reduce_sum(np, x, None, dtype=dtype) / x.size


sum = op(
    "sum", "x",
    _sum,
    settings={"dim": (), "keepdim": False, "dtype": None},
    vjp={"x": lambda g, x_shape, dim, keepdim, ops: expand_back(g, x_shape, dim, keepdim, ops)},
    jvp="linear",
    batch="dims",
    backward_name="SumBackward1",
    may_be_discrete=True,
    halves=True, cost=1, reduces="sum", joins_pieces_by="sum", memory_order="C", adds_values=True,
)  # fmt: skip

sum_all = op(
    "sum_all", "x",
    _sum_all,
    settings={"dtype": None},
    vjp={"x": lambda g, x_shape, ops: expand_back_all(g, x_shape, ops)},
    jvp="linear",
    batch=lambda x, dtype, ops: ops.sum(x, dim=unbatched_dims(x), dtype=dtype),
    backward_name="SumBackward0",
    may_be_discrete=True,
    halves=True, cost=1, reduces="sum", joins_pieces_by="sum", memory_order="C", adds_values=True,
)  # fmt: skip

mean = composite(
    "mean", "x",
    lambda x, dim, keepdim, dtype, ops: ops.sum(x, dim=dim, keepdim=keepdim, dtype=dtype) / count(tuple(x.shape), dim),
    kernel=_mean,
    settings={"dim": (), "keepdim": False, "dtype": None},
    vjp={
        "x": lambda g, x_shape, dim, keepdim, ops: expand_back(
            divide_gradient(g, count(x_shape, dim), ops), x_shape, dim, keepdim, ops
        )
    },
    jvp="linear",
    batch="dims",
    backward_name="MeanBackward1",
    halves=True, reduces="mean", memory_order="C", adds_values=True,
)  # fmt: skip

mean_all = composite(
    "mean_all", "x",
    lambda x, dtype, ops: ops.sum_all(x, dtype=dtype) / math.prod(x.shape),
    kernel=_mean_all,
    settings={"dtype": None},
    vjp={"x": lambda g, x_shape, ops: expand_back_all(divide_gradient(g, math.prod(x_shape), ops), x_shape, ops)},
    jvp="linear",
    batch=lambda x, dtype, ops: ops.mean(x, dim=unbatched_dims(x), dtype=dtype),
    backward_name="MeanBackward0",
    halves=True, reduces="mean", adds_values=True,
)  # fmt: skip


def _nansum(np: Library, x: Payload, *, dim: tuple[int, ...], keepdim: bool = False, dtype: Any = None) -> Payload:
    return _sum(np, np.where(np.isnan(x), np.zeros((), x.dtype), x), dim=dim, keepdim=keepdim, dtype=dtype)


# A NaN counts as the constant 0, so it gets no gradient.
nansum = op(
    "nansum", "x",
    _nansum,
    settings={"dim": (), "keepdim": False, "dtype": None},
    vjp={"x": lambda g, x, dim, keepdim, ops: ops.where(x == x, keep(g, tuple(x.shape), dim, keepdim, ops), 0.0)},
    jvp={"x": lambda t, x, dim, keepdim, dtype, ops: ops.sum(ops.where(x == x, t, 0.0), dim=dim, keepdim=keepdim,
            dtype=dtype)},
    batch="dims",
    may_be_discrete=True,
    piecewise_linear=True, joins_pieces_by="sum",
)  # fmt: skip


# ----- prod -----------------------------------------------------------------------------------------------------------


def product_of_others(x: Payload, dim: tuple[int, ...], ops: Vocabulary) -> Payload:
    """Return, for each element, the product of all other elements reduced to the same result.

    It is the product of the elements before times the product of the elements after. Dividing the whole product by the
    element would be shorter, but wrong at zeros. This formula is right there too, and can be differentiated again.
    """
    shape = tuple(x.shape)
    rest = tuple(i for i in range(len(shape)) if i not in dim)
    order = (*rest, *dim)
    line = ops.reshape(ops.permute(x, dims=order), shape=(*(shape[i] for i in rest), count(shape, dim)))
    last = len(rest)
    before = ops.shift(ops.cumprod(line, dim=last), dim=last, fill=1.0)
    after = ops.shift(ops.cumprod(line, dim=last, reverse=True), dim=last, reverse=True, fill=1.0)
    others = ops.reshape(before * after, shape=tuple(shape[i] for i in order))
    return ops.permute(others, dims=inverse_permutation(order))


def divides_back(out: Payload, scaled: Any, ops: Vocabulary) -> bool:
    """True if products `out`, times a gradient (`scaled`), may be divided by a factor to get the product of the others.

    This fails if a factor is zero, infinite or NaN: the quotient is NaN, but the product of the others need not be. It
    also fails if the product left the range of normal numbers, because it lost digits there. Tensors always return
    False: their values may be traced, and the quotient's own derivatives fail at the same points.
    """
    if not ops.raw or not is_inexact(out.dtype):
        return False
    size = abs(out)
    return bool(((size >= finfo(out.dtype).tiny) & (size < math.inf)).all()) and bool(ops.np.isfinite(scaled).all())


def _prod_x(g: Payload, x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, ops: Vocabulary) -> Payload:
    shape = tuple(x.shape)
    scaled = ops.conj(g) * out if ops.raw else None
    if divides_back(out, scaled, ops):
        return ops.conj(keep(scaled, shape, dim, keepdim, ops) / x)
    return keep(g, shape, dim, keepdim, ops) * ops.conj(product_of_others(x, dim, ops))


def _prod(
    np: Library, x: Payload, *, dim: tuple[int, ...] | None, keepdim: bool = False, dtype: Any = None
) -> Payload:
    return np.multiply.reduce(
        x, axis=dim, dtype=choose_sum_dtype(x.dtype) if dtype is None else dtype, keepdims=keepdim
    )


prod = op(
    "prod", "x",
    _prod,
    settings={"dim": (), "keepdim": False, "dtype": None},
    vjp={"x": _prod_x},
    jvp={"x": lambda t, x, dim, keepdim, dtype, ops: ops.sum(t * product_of_others(x, dim, ops), dim=dim,
            keepdim=keepdim, dtype=dtype)},
    batch="dims",
    backward_name="ProdBackward1",
    may_be_discrete=True, reduces="prod", joins_pieces_by="product", memory_order="C",
)  # fmt: skip


def drop_dims(x: Any, dim: tuple[int, ...], ops: Vocabulary) -> Payload:
    """Return x without the dimensions `dim`, which have length 1."""
    return ops.reshape(x, shape=tuple([n for d, n in enumerate(x.shape) if d not in dim]))


def _every(x: Any) -> tuple[int, ...]:
    return tuple(range(len(x.shape)))


prod_all = op(
    "prod_all", "x",
    lambda np, x, *, dtype=None: _prod(np, x, dim=None, dtype=dtype),
    settings={"dtype": None},
    vjp={"x": lambda g, x, out, ops: _prod_x(g, x, out, _every(x), False, ops)},
    jvp={"x": lambda t, x, dtype, ops: ops.sum_all(t * product_of_others(x, _every(x), ops), dtype=dtype)},
    batch=lambda x, dtype, ops: ops.prod(x, dim=unbatched_dims(x), dtype=dtype),
    backward_name="ProdBackward0",
    may_be_discrete=True, reduces="prod", joins_pieces_by="product",
)  # fmt: skip


# ----- truth and counts -----------------------------------------------------------------------------------------------


def _count_nonzero(np: Library, x: Payload, *, dim: tuple[int, ...], keepdim: bool = False) -> Payload:
    if len(dim) == len(x.shape) and not keepdim:
        return np.asarray(np.count_nonzero(x), np.int64)
    return np.add.reduce(x != 0, axis=dim, dtype=np.int64, keepdims=keepdim)


count_nonzero = op(
    "count_nonzero", "x",
    _count_nonzero,
    settings={"dim": (), "keepdim": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
    moves_values=True, joins_pieces_by="sum",
)  # fmt: skip

all = op(
    "all", "x",
    lambda np, x, *, dim, keepdim=False: x.all(axis=dim, keepdims=keepdim),
    settings={"dim": (), "keepdim": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
    moves_values=True, returns_bool=True, reduces="all", joins_pieces_by="min",
)  # fmt: skip

any = op(
    "any", "x",
    lambda np, x, *, dim, keepdim=False: x.any(axis=dim, keepdims=keepdim),
    settings={"dim": (), "keepdim": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
    moves_values=True, returns_bool=True, reduces="any", joins_pieces_by="max",
)  # fmt: skip
