"""Products and solves with sparse matrices: numbers on a constant pattern, and dense columns.

Three ops are closed under differentiation: the product A x, its derivative in the numbers, and the solve. The
derivative in the numbers samples the matrix x y^T on the pattern and never computes the rest of it. So gradients have
the pattern of the matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.arrays.sparse_pattern import run_stacked
from ndgrad._src.ops.matrix import align
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _product(np: Library, data: Payload, x: Payload, *, pattern: Any) -> Payload:
    return wrap_for_host(np, run_stacked, "a sparse product")(
        data, x, lambda p, d, v: p.product(d, v), pattern, pattern.shape[0]
    )


def _sample(np: Library, x: Payload, y: Payload, *, pattern: Any) -> Payload:
    return (x[..., pattern.rows, :] * y[..., pattern.columns, :]).sum(axis=-1)


def _align(
    x: Payload, y: Payload, core: tuple[int, int], batched: tuple[bool, bool], ops: Vocabulary
) -> tuple[Any, Any]:
    """Align two arguments of different core ranks: batches in front, and equal ranks before the core."""
    rank = max(len(x.shape) - batched[0] - core[0], len(y.shape) - batched[1] - core[1])
    return align(x, batched[0], rank + core[0], ops), align(y, batched[1], rank + core[1], ops)


def _product_batch(data: Payload, x: Payload, pattern: Any, batched: tuple[bool, bool], ops: Vocabulary) -> Payload:
    return ops.sparse_product(*_align(data, x, (1, 2), batched, ops), pattern=pattern)


def _sample_batch(x: Payload, y: Payload, pattern: Any, batched: tuple[bool, bool], ops: Vocabulary) -> Payload:
    return ops.sparse_sample(*_align(x, y, (2, 2), batched, ops), pattern=pattern)


# A x, for numbers (..., entries) and columns (..., n, k).
sparse_product = op(
    "sparse_product", "data x",
    _product,
    settings={"pattern": None},
    vjp={
        "data": lambda g, x, pattern, ops: ops.sparse_sample(g, ops.conj(x), pattern=pattern),
        "x": lambda g, data, pattern, ops: ops.sparse_product(ops.conj(data), g, pattern=pattern.transposed),
    },
    jvp="multilinear",
    batch=_product_batch,
)  # fmt: skip

# (x y^T)[i, j] at the entries (i, j) of the pattern, for columns x (..., m, k) and y (..., n, k).
sparse_sample = op(
    "sparse_sample", "x y",
    _sample,
    settings={"pattern": None},
    vjp={
        "x": lambda g, y, pattern, ops: ops.sparse_product(g, ops.conj(y), pattern=pattern),
        "y": lambda g, x, pattern, ops: ops.sparse_product(g, ops.conj(x), pattern=pattern.transposed),
    },
    jvp="multilinear",
    batch=_sample_batch,
)  # fmt: skip


# ----- A x = b, or A^H x = b ------------------------------------------------------------------------------------------


def _solve(np: Library, data: Payload, b: Payload, *, pattern: Any, adjoint: bool) -> Payload:
    return wrap_for_host(np, run_stacked, "a sparse solve")(
        data, b, lambda p, d, v: p.solve(d, v, adjoint), pattern, pattern.shape[1]
    )


def _solve_vjp(
    g: Payload, data: Payload, out: Payload, pattern: Any, adjoint: bool, needs: tuple[bool, bool], ops: Vocabulary
) -> tuple[Any, Any]:
    """Apply the rule of solve: the gradient of b is w = A^-H g, that of A is -w x^H. For the adjoint the two are
    exchanged.
    """
    w = ops.sparse_solve(data, g, pattern=pattern, adjoint=not adjoint)
    if not needs[0]:
        return None, w
    left, right = (out, w) if adjoint else (w, out)
    return -ops.sparse_sample(left, ops.conj(right), pattern=pattern), w


def _solve_push(t: Payload, data: Payload, out: Payload, pattern: Any, adjoint: bool, ops: Vocabulary) -> Payload:
    if adjoint:
        moved = ops.sparse_product(ops.conj(t), out, pattern=pattern.transposed)
    else:
        moved = ops.sparse_product(t, out, pattern=pattern)
    return -ops.sparse_solve(data, moved, pattern=pattern, adjoint=adjoint)


def _solve_batch(
    data: Payload, b: Payload, pattern: Any, adjoint: bool, batched: tuple[bool, bool], ops: Vocabulary
) -> Payload:
    return ops.sparse_solve(*_align(data, b, (1, 2), batched, ops), pattern=pattern, adjoint=adjoint)


sparse_solve = op(
    "sparse_solve", "data b",
    _solve,
    settings={"pattern": None, "adjoint": False},
    vjp=_solve_vjp,
    jvp={
        "data": _solve_push,
        "b": lambda t, data, pattern, adjoint, ops: ops.sparse_solve(data, t, pattern=pattern, adjoint=adjoint),
    },
    batch=_solve_batch,
    may_raise=True,
)  # fmt: skip
