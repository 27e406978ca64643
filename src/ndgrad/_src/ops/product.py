"""Products: matmul, contractions of two arrays over named dimensions, products added to an array, cross products.

matmul is the most frequent op of most models. Its forward is the array library's, and its gradients are single
products: broadcast dimensions are folded into rows or summed by the product itself, never expanded and then summed.

Note [Products by kernels]
NumPy's BLAS (OpenBLAS) needs a packed copy of both matrices. For products of 10^5.5 to 10^8 multiply-adds, which are
most products of training steps, the kernels of compiled programs take 0.5 to 0.95 of its time (float32 and float64,
AVX-512). BLAS is faster for smaller products and as fast for larger ones. It is also faster for few columns, or if the
first matrix is stored by columns and the result has few of them. As everywhere, the choice depends on dtypes, sizes and
strides only (Note [When kernels are used] in ndgrad._src.arrays.native_kernels).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels, threads
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.precision import FLOATING, run_in_single
from ndgrad._src.foundations import registry
from ndgrad._src.ops.errors import ShapeError
from ndgrad._src.ops.matrix import adjoint, align, column, row, times
from ndgrad._src.ops.table import Op, op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- the product of two matrices ------------------------------------------------------------------------------------

#: The range of multiply-adds. The smaller minimum is for a second matrix that is stored by columns.
_LEAST_WORK, _LEAST_WORK_BY_COLUMNS, _MOST_WORK = 2**20, 2**18, 2**26
#: Minimum numbers of rows and columns of the result, of inner elements, and of columns if the first matrix is stored by
#: columns.
_ROWS, _COLUMNS, _INNER, _WIDE = 4, 16, 16, 128


def multiply_matrices(x: Any, y: Any) -> Any:
    """Return the product of two matrices of any array library."""
    if x.__class__ is not numpy.ndarray:
        return x @ y
    rows, inner = x.shape
    work = rows * inner * y.shape[1]
    # Small products take NumPy's dot, which needs half a microsecond less than @.
    if work < _LEAST_WORK_BY_COLUMNS or work > _MOST_WORK or not _kernel_is_faster(x, y, work):
        return x.dot(y)
    found = registry.eager_kernels.multiply(x, y)
    return x.dot(y) if found is None else found


def _kernel_is_faster(x: Any, y: Any, work: int) -> bool:
    """True if the kernels take these matrices, and are faster than BLAS."""
    dtype = x.dtype
    if y.__class__ is not numpy.ndarray or not native_kernels.has_kernels(dtype) or y.dtype != dtype:
        return False
    (rows, inner), (other, columns) = x.shape, y.shape
    if other != inner or rows < _ROWS or columns < _COLUMNS or inner < _INNER:
        return False
    size = dtype.itemsize
    (down, along), (y_down, y_along) = x.strides, y.strides
    if (along != size and (down != size or columns < _WIDE)) or (y_along != size and y_down != size):
        return False
    if (work < _LEAST_WORK and y_along == size) or not (x.flags.aligned and y.flags.aligned):
        return False
    return native_kernels.kernels() is not None


# ----- matmul ---------------------------------------------------------------------------------------------------------


def _matmul(x: Any, y: Any) -> Any:
    try:
        if x.ndim > 2 and y.ndim == 2:
            # One large product replaces many small ones; the array library would loop over the leading dimensions.
            rows = math.prod(x.shape[:-1])
            return multiply_matrices(x.reshape((rows, x.shape[-1])), y).reshape((*x.shape[:-1], y.shape[-1]))
        if x.ndim == y.ndim == 2:
            return multiply_matrices(x, y)
        if x.dtype.char == "E" and is_on_device(x):  # CuPy has no stacked products of bfloat16
            return run_in_single(operator.matmul, (x, y), {})
        return x @ y
    except ValueError:
        raise _mismatch(x, y) from None


def _show_shape(shape: Any) -> str:
    """Return a shape in the form of torch's messages about products: 2x3."""
    return "x".join(map(str, shape))


def _mismatch(x: Any, y: Any) -> ShapeError:
    shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
    if x.ndim == 0 or y.ndim == 0:
        return ShapeError(
            f"matmul: both arguments need at least one dimension, but their shapes are {shapes}. "
            "Use * to scale by a number. [nd-matmul]"
        )
    return ShapeError(
        f"mat1 and mat2 shapes cannot be multiplied ({_show_shape(x.shape)} and {_show_shape(y.shape)}): "
        f"in matmul of shapes {shapes}, "
        "the last dimension of the first must equal the last but one of the second (the only one, of a vector), and "
        "the leading dimensions must broadcast. Check which one is to be transposed. [nd-matmul]"
    )


def _fold(x: Payload, ops: Vocabulary) -> Payload:
    """(..., n) as (rows, n)."""
    return x if len(x.shape) == 2 else ops.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


def _matmul_x(g: Payload, y: Payload, x_ndim: int, ops: Vocabulary) -> Payload:
    """Return g y^H, summed over the leading dimensions that x does not have."""
    y_ndim = len(y.shape)
    if ops.raw and x_ndim == y_ndim == 2 and y.dtype.kind in FLOATING:
        # This equals the last lines, at half the cost for small matrices.
        return ops.matmul(g, y.T) if is_on_device(y) else multiply_matrices(g, y.T)
    if y_ndim == 1:
        if x_ndim == 2:
            return ops.contract(g, ops.conj(y), subscripts="i,j->ij")
        return times(g if x_ndim == 1 else column(g, ops), ops.conj(y), ops)
    if y_ndim == 2:
        if x_ndim == 1:
            return ops.matmul(ops.conj(y), g)
        if x_ndim == 2:
            return ops.matmul(g, adjoint(y, ops))
        return ops.reshape(ops.matmul(_fold(g, ops), adjoint(y, ops)), shape=(*g.shape[:-1], y.shape[-2]))
    if x_ndim <= 2:
        lead = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: y_ndim - 2]
        rows = "i" if x_ndim == 2 else ""
        return ops.contract(g, ops.conj(y), subscripts=f"{lead}{rows}k,{lead}jk->{rows}j")
    return ops.matmul(g, adjoint(y, ops))


def _matmul_y(g: Payload, x: Payload, y_ndim: int, ops: Vocabulary) -> Payload:
    """Return x^H g, summed over the leading dimensions that y does not have."""
    x_ndim = len(x.shape)
    if ops.raw and x_ndim == y_ndim == 2 and x.dtype.kind in FLOATING:
        return ops.matmul(x.T, g) if is_on_device(x) else multiply_matrices(x.T, g)
    if x_ndim == 1:
        if y_ndim == 2:
            return ops.contract(ops.conj(x), g, subscripts="i,j->ij")
        return times(g, ops.conj(x), ops) if y_ndim == 1 else times(column(ops.conj(x), ops), row(g, ops), ops)
    if y_ndim == 1:
        return ops.matmul(adjoint(_fold(x, ops), ops), ops.reshape(g, shape=(math.prod(g.shape),)))
    if y_ndim == 2:
        return ops.matmul(adjoint(_fold(x, ops), ops), _fold(g, ops))
    return ops.matmul(adjoint(x, ops), g)


def _matmul_batch(x: Payload, y: Payload, ops: Vocabulary, batched: tuple[bool, bool]) -> Payload:
    """Compute one product for the whole batch."""
    bx, by = batched
    nx, ny = len(x.shape) - bx, len(y.shape) - by
    if not by and ny <= 2:
        return ops.matmul(x, y)
    if not bx:
        if ny == 1:
            # All vectors of the batch meet the same matrix, so they are the rows of one product.
            out = ops.matmul(y, x if nx == 1 else _swap(x, ops))
            return out if nx <= 2 else ops.permute(out, dims=(nx - 2, *range(nx - 2), nx - 1))
        if nx <= 2:
            return ops.matmul(x, y)
    if nx == 1 and ny == 1:
        return ops.contract(x, y, subscripts="bk,bk->b")
    x = row(x, ops) if nx == 1 else x
    y = column(y, ops) if ny == 1 else y
    rank = max(nx, ny, 2)
    out = ops.matmul(align(x, bx, rank, ops), align(y, by, rank, ops))
    if nx == 1:
        return ops.reshape(out, shape=(*out.shape[:-2], out.shape[-1]))
    return ops.reshape(out, shape=out.shape[:-1]) if ny == 1 else out


def _swap(x: Payload, ops: Vocabulary) -> Payload:
    n = len(x.shape)
    return ops.permute(x, dims=(*range(n - 2), n - 1, n - 2))


matmul = op(
    "matmul", "x y",
    _matmul,
    vjp={"x": _matmul_x, "y": _matmul_y},
    jvp="multilinear",
    batch=_matmul_batch,
    kind="product",
    one_dtype="x y",
    halves_on_device=True, memory_order="C",
)  # fmt: skip


# ----- contraction of two arrays over named dimensions ----------------------------------------------------------------

# Number of products from which a second thread pays off.
_LARGE = 2**18


class _Plan:
    """Turns a contraction into one matmul: the dimensions of each argument in the order (shared, own, contracted)."""

    __slots__ = ("elementwise", "order", "shared", "turned", "x_contracted", "x_order", "x_own", "y_order", "y_own")

    def __init__(self, subscripts: str) -> None:
        xs, ys, out = split_subscripts(subscripts)
        shared = [s for s in out if s in xs and s in ys]
        x_own = [s for s in out if s not in ys]
        y_own = [s for s in out if s not in xs]
        contracted = [s for s in xs if s not in out]
        self.shared, self.x_own, self.y_own = len(shared), len(x_own), len(y_own)
        self.x_contracted = len(contracted)
        self.elementwise = not contracted
        # The factors are exchanged if their product then has the output's dimensions in memory order.
        self.turned = (
            f"{ys},{xs}->{out}"
            if not self.elementwise and x_own and [*shared, *y_own, *x_own] == list(out) and y_own
            else None
        )
        if self.elementwise:
            self.x_order = tuple(xs.index(s) for s in out if s in xs)
            self.y_order = tuple(ys.index(s) for s in out if s in ys)
            self.order: tuple[Any, ...] = (
                tuple(slice(None) if s in xs else None for s in out),
                tuple(slice(None) if s in ys else None for s in out),
            )
            return
        self.x_order = tuple(xs.index(s) for s in (*shared, *x_own, *contracted))
        self.y_order = tuple(ys.index(s) for s in (*shared, *contracted, *y_own))
        made = (*shared, *x_own, *y_own)
        self.order = tuple(made.index(s) for s in out)


def split_subscripts(subscripts: str) -> tuple[str, str, str]:
    inputs, out = subscripts.split("->")
    x, y = inputs.split(",")
    return x, y, out


plan_of = functools.lru_cache(maxsize=4096)(_Plan)


def _contract(np: Library, x: Payload, y: Payload, *, subscripts: str) -> Payload:
    plan = plan_of(subscripts)
    if plan.turned is not None:
        return _contract(np, y, x, subscripts=plan.turned)
    x, y = x.transpose(plan.x_order), y.transpose(plan.y_order)
    if plan.elementwise:
        return _all_products(x[plan.order[0]], y[plan.order[1]])
    s, k = plan.shared, plan.x_contracted
    lead, x_own = x.shape[:s], x.shape[s : s + plan.x_own]
    y_own = y.shape[s + k :]
    size = math.prod(x.shape[s + plan.x_own :])
    if not plan.x_own and not plan.y_own and s and x.dtype.kind != "c" and np is numpy:
        # Inner products: matmul would call BLAS for each of them.
        return np.vecdot(x.reshape((*lead, size)), y.reshape((*lead, size))).transpose(plan.order)
    x = x.reshape((*lead, math.prod(x_own), size))
    y = y.reshape((*lead, size, math.prod(y_own)))
    out = (x @ y).reshape((*lead, *x_own, *y_own))
    return out.transpose(plan.order)


def _all_products(x: Any, y: Any) -> Any:
    """Return x * y, where broadcasting makes the result much larger than either. Several threads write a large result.

    NumPy's einsum does less work per row of such a product than its multiply, and takes two thirds of the time.
    """
    if x.__class__ is not numpy.ndarray:
        return raw_ops(library_of(x)).mul(x, y) if is_on_device(x) else x * y
    shape = tuple(map(max, x.shape, y.shape))
    if math.prod(shape) < _LARGE or not len(x) == len(y) > 1:
        return x * y
    out = numpy.empty(shape, numpy.result_type(x, y))
    step = -(-len(out) // (2 * threads.max_threads))

    def worker(starts: Iterator[int]) -> None:
        for start in starts:
            stop = start + step
            numpy.einsum("...,...->...", x[start:stop], y[start:stop], out=out[start:stop])

    threads.share(range(0, len(out), step), worker, threads=threads.max_threads)
    return out


def _contract_rule(which: int) -> Callable[..., Any]:
    """Return the gradient rule of an argument: a contraction of the output's gradient with the other argument."""

    def x_rule(g: Payload, y: Payload, subscripts: str, ops: Vocabulary) -> Payload:
        x_dims, y_dims, out_dims = split_subscripts(subscripts)
        return ops.contract(g, ops.conj(y), subscripts=f"{out_dims},{y_dims}->{x_dims}")

    def y_rule(g: Payload, x: Payload, subscripts: str, ops: Vocabulary) -> Payload:
        x_dims, y_dims, out_dims = split_subscripts(subscripts)
        return ops.contract(ops.conj(x), g, subscripts=f"{x_dims},{out_dims}->{y_dims}")

    return (x_rule, y_rule)[which]


def _contract_batch(x: Payload, y: Payload, subscripts: str, batched: tuple[bool, bool], ops: Vocabulary) -> Payload:
    """Add the batch as one more named dimension."""
    x_dims, y_dims, out_dims = split_subscripts(subscripts)
    b = next(c for c in map(chr, range(0x100, 0x10FFFF)) if c not in subscripts)
    bx, by = (b if is_batched else "" for is_batched in batched)
    return ops.contract(x, y, subscripts=f"{bx}{x_dims},{by}{y_dims}->{b}{out_dims}")


# The sum of x * y over the dimensions that the output does not name, as in "ik,kj->ij". No argument names a dimension
# twice. Every dimension of an argument occurs in the other argument or in the output (the caller sums the rest
# beforehand), so gradients have the same form. Sizes agree, because the caller has broadcast the arguments.
contract = op(
    "contract", "x y",
    _contract,
    settings={"subscripts": ""},
    vjp={"x": _contract_rule(0), "y": _contract_rule(1)},
    jvp="multilinear",
    batch=_contract_batch,
    kind="product",
    one_dtype="x y",
)  # fmt: skip


# ----- a product added to an array ------------------------------------------------------------------------------------


def _scale(x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * factor


def _define_added_product(name: str, subscripts: str, factors: str, *, by_matmul: bool) -> Op:
    """Define beta * input + alpha * product as one op, which needs no array for the sum and saves only the two factors.

    With beta = 0 the input is not read, even if it is NaN. `factors` are torch's names of the two.
    """
    a_dims, b_dims, out_dims = split_subscripts(subscripts)

    def multiply(a: Payload, b: Payload, ops: Vocabulary) -> Payload:
        return ops.matmul(a, b) if by_matmul else ops.contract(a, b, subscripts=subscripts)

    def a_rule(g: Payload, b: Payload, alpha: Any, ops: Vocabulary) -> Payload:
        if by_matmul:
            out = _matmul_x(g, b, len(a_dims), ops)
        else:
            out = ops.contract(g, ops.conj(b), subscripts=f"{out_dims},{b_dims}->{a_dims}")
        return _scale(out, alpha.conjugate())

    def b_rule(g: Payload, a: Payload, alpha: Any, ops: Vocabulary) -> Payload:
        if by_matmul:
            out = _matmul_y(g, a, len(b_dims), ops)
        else:
            out = ops.contract(ops.conj(a), g, subscripts=f"{a_dims},{out_dims}->{b_dims}")
        return _scale(out, alpha.conjugate())

    def forward(np: Library, x: Payload, a: Payload, b: Payload, *, beta: Any, alpha: Any) -> Payload:
        if is_on_device(a) and is_on_device(b) and is_on_device(x) and a.dtype.kind in FLOATING:
            ops = raw_ops(np)
            out = _scale(multiply(a, b, ops), alpha)
            if beta != 0:
                return ops.add(out, _scale(x, beta))
        else:
            out = _matmul(a, b) if by_matmul else _contract(np, a, b, subscripts=subscripts)
            out = _scale(out, alpha)
        if beta != 0:
            return out + _scale(x, beta)
        shape, dtype = numpy.broadcast_shapes(x.shape, out.shape), np.result_type(x, out)
        return out if out.shape == shape and out.dtype == dtype else np.broadcast_to(out, shape).astype(dtype)

    def batch(
        x: Payload, a: Payload, b: Payload, beta: Any, alpha: Any, batched: tuple[bool, ...], size: int, ops: Vocabulary
    ) -> Payload:
        if batched[1] or batched[2]:
            la, lb = ("Z" if is_batched else "" for is_batched in batched[1:])
            out = ops.contract(a, b, subscripts=f"{la}{a_dims},{lb}{b_dims}->Z{out_dims}")
        else:
            out = multiply(a, b, ops)
            out = ops.expand(out, shape=(size, *out.shape))
        out = _scale(out, alpha)
        if beta == 0:
            return out
        return out + _scale(align(x, batched[0], len(out_dims), ops), beta)

    return op(
        name, "x a b",
        forward,
        settings={"beta": 1, "alpha": 1},
        vjp={"x": lambda g, beta: _scale(g, beta.conjugate()), "a": a_rule, "b": b_rule},
        jvp={
            "x": lambda t, beta: _scale(t, beta),
            "a": lambda t, b, alpha, ops: _scale(multiply(t, b, ops), alpha),
            "b": lambda t, a, alpha, ops: _scale(multiply(a, t, ops), alpha),
        },
        batch=batch,
        saved_names=dict(zip("ab", factors.split(), strict=True)),
        one_dtype="x a b",
    )  # fmt: skip


addmm = _define_added_product("addmm", "ij,jk->ik", "mat1 mat2", by_matmul=True)
addmv = _define_added_product("addmv", "ij,j->i", "mat vec", by_matmul=True)
addr = _define_added_product("addr", "i,j->ij", "vec1 vec2", by_matmul=False)
baddbmm = _define_added_product("baddbmm", "bij,bjk->bik", "batch1 batch2", by_matmul=True)
addbmm = _define_added_product("addbmm", "bij,bjk->ik", "batch1 batch2", by_matmul=False)


# ----- cross product --------------------------------------------------------------------------------------------------


def _cross(np: Library, x: Payload, y: Payload, *, dim: int) -> Payload:
    before = (slice(None),) * dim
    x0, x1, x2 = (x[(*before, i)] for i in range(3))
    y0, y1, y2 = (y[(*before, i)] for i in range(3))
    return np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=dim)


# <g, t x y> = <t, y x g>, because the triple product is cyclic.
cross = op(
    "cross", "x y",
    _cross,
    settings={"dim": 0},
    vjp={
        "x": lambda g, y, dim, ops: ops.cross(ops.conj(y), g, dim=dim),
        "y": lambda g, x, dim, ops: ops.cross(g, ops.conj(x), dim=dim),
    },
    jvp="multilinear",
    batch="dims",
    backward_name="LinalgCrossBackward0",
    promotes="x y", moves_dims=True,
)  # fmt: skip
