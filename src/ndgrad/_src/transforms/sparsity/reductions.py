"""Rules of ops that combine the elements of a line: reductions, running forms, and ops that mix a whole line or
matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.transforms.sparsity.rules import Call, Operand, everything, rule
from ndgrad._src.transforms.sparsity.sets import DISCRETE, Ids, IndexSets

if TYPE_CHECKING:
    from ndgrad._src.transforms.sparsity.rules import ResultIds


def _dims(call: Call) -> tuple[int, ...]:
    found = call.settings["dim"] if "dim" in call.settings else call.settings["dims"]
    return found if isinstance(found, tuple) else (found,)


# ----- reductions -----------------------------------------------------------------------------------------------------


@rule(where=lambda op: op.batch == "dims" and op.movement is None)
def union_over_dims(call: Call) -> ResultIds:
    """Make every element of the result depend on its whole line in each argument."""
    sets, dims = call.sets, _dims(call)
    if len({o.ids.ndim for o in call.data}) > 1:
        return everything(call)
    total = np.zeros((), np.int64)
    for o in call.data:
        total = sets.union(total, sets.union_along(o.ids, dims, keepdim=True))
    if call.choice_depends:
        total = np.maximum(total, DISCRETE)
    return [_fit_shape(total, out.shape) for out in call.outs]


def _fit_shape(total: Ids, shape: tuple[int, ...]) -> Ids:
    """Return a union with kept dimensions in the shape of a result that has kept, dropped or filled them."""
    if total.ndim == len(shape):
        return np.broadcast_to(total, shape)
    return total.reshape(shape)


@rule("renorm")
def _renorm(call: Call) -> ResultIds:
    """Scale each slice along the dimension by its own norm."""
    x = call.operands[0]
    rest = tuple(d for d in range(x.ids.ndim) if d != call.settings["dim"])
    return np.broadcast_to(call.sets.union_along(x.ids, rest, keepdim=True), x.shape)


@rule("sum_all", "mean_all", "prod_all", "max_all", "min_all", "median_all", "nanmedian_all")
def _reduce_all(call: Call) -> ResultIds:
    return everything(call)


@rule("trace")
def _trace(call: Call) -> ResultIds:
    diagonal = np.diagonal(call.operands[0].ids, axis1=-2, axis2=-1)
    return call.sets.union_along(diagonal, (diagonal.ndim - 1,))


@rule("line_dot")
def _line_dot(call: Call) -> ResultIds:
    x, y = (call.sets.union_along(o.ids, _dims(call), keepdim=True) for o in _factors(call))
    return [_fit_shape(call.sets.union(x, y), out.shape) for out in call.outs]


@rule("cross")
def _cross(call: Call) -> ResultIds:
    """Component i of the product depends on components i + 1 and i + 2 of both."""
    sets, (dim,) = call.sets, _dims(call)
    total = np.zeros((), np.int64)
    for o in _factors(call):
        total = sets.union(total, sets.union(np.roll(o.ids, 1, dim), np.roll(o.ids, 2, dim)))
    return np.broadcast_to(total, call.out_shape)


def _factors(call: Call) -> list[Operand]:
    """Return the factors of a product, without elements that the other's constant zeros cancel."""
    x, y = call.operands
    kept = []
    for o, other in ((x, y), (y, x)):
        there = np.broadcast_to(other.may_differ_from_zero.any(), o.shape)
        kept.append(Operand(o.value, np.where(there, o.ids, 0).astype(np.float64), call.sets))
    return kept


# ----- running forms --------------------------------------------------------------------------------------------------


def union_running(ids: Ids, dim: int, reverse: bool, sets: IndexSets) -> Ids:
    """Return the union of all elements up to each one along a dimension."""
    line = np.moveaxis(ids, dim, 0)
    out = np.empty(line.shape, np.int64)
    order = range(len(line) - 1, -1, -1) if reverse else range(len(line))
    last = np.zeros(line.shape[1:], np.int64)
    for i in order:
        last = out[i] = sets.union(last, line[i])
    return np.moveaxis(out, 0, dim)


@rule("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
def _cumulative(call: Call) -> ResultIds:
    made = union_running(call.operands[0].ids, call.settings["dim"], call.settings.get("reverse", False), call.sets)
    return [made] * len(call.outs)


@rule("linear_recurrence")
def _linear_recurrence(call: Call) -> ResultIds:
    """h[k] = a[k] h[k-1] + b[k]: a coefficient that is the constant zero drops the dependence on earlier elements."""
    sets, a, b = call.sets, call["a"], call["b"]
    dim, reverse = call.settings["dim"], call.settings["reverse"]
    a_line, b_line = np.moveaxis(a.ids, dim, 0), np.moveaxis(b.ids, dim, 0)
    goes_on, starts = np.moveaxis(a.may_differ_from_zero, dim, 0), np.moveaxis(b.may_differ_from_zero, dim, 0)
    out = np.empty(a_line.shape, np.int64)
    last, alive = np.zeros(a_line.shape[1:], np.int64), np.zeros(a_line.shape[1:], bool)
    for i in range(len(out) - 1, -1, -1) if reverse else range(len(out)):
        carried = goes_on[i] & alive
        last = sets.union(np.where(carried, sets.union(last, a_line[i]), 0), b_line[i])
        alive = carried | starts[i]
        out[i] = last
    return np.moveaxis(out, 0, dim)


# ----- normalisation --------------------------------------------------------------------------------------------------


@rule("native_layer_norm", "native_batch_norm", "rms_norm")
def _normalization(call: Call) -> ResultIds:
    """The line, scaled and shifted by a weight and a bias per element."""
    sets = call.sets
    x, *affine = call.operands
    line = sets.union_along(x.ids, _dims(call), keepdim=True)
    whole = np.broadcast_to(line, x.shape)
    for o in affine:
        if o.depends:
            try:
                whole = sets.union(whole, np.broadcast_to(o.ids, x.shape))
            except ValueError:
                return everything(call)
    return [whole if out.shape == x.shape else np.broadcast_to(line.reshape(out.shape), out.shape) for out in call.outs]


@rule("softmax_cross_entropy")
def _softmax_cross_entropy(call: Call) -> ResultIds:
    sets, x = call.sets, call.operands[0]
    if call.operands[1].depends and call.operands[1].ids.max() > 1:
        return everything(call)
    return [_fit_shape(sets.union_along(x.ids, _dims(call), keepdim=True), out.shape) for out in call.outs]


# ----- matrices -------------------------------------------------------------------------------------------------------


@rule(where=lambda op: any(op.core_dims or ()) and op.movement is None)
def _per_problem(call: Call) -> ResultIds:
    """Results depend on the whole problem, such as a matrix; leading dimensions are a batch."""
    given = call.op.core_dims or ()
    cores = given if len(given) == len(call.operands) else [*given] * len(call.operands)
    problems = [(o, o.ids.ndim - core) for o, core in zip(call.operands, cores, strict=True)]
    if call.choice_depends or any(first < 0 for _, first in problems):
        return everything(call)
    lead = np.broadcast_shapes(*(o.shape[:first] for o, first in problems))
    total = np.zeros(lead, np.int64)
    for o, first in problems:
        total = call.sets.union(total, call.sets.union_along(o.ids, tuple(range(first, o.ids.ndim))))
    if call.op.name == "cholesky":  # zeros above the diagonal
        return np.tril(np.broadcast_to(total[..., None, None], call.out_shape))
    return [np.broadcast_to(total.reshape((*lead, *(1,) * (out.ndim - len(lead)))), out.shape) for out in call.outs]


@rule("solve", "solve_triangular")
def _solve(call: Call) -> ResultIds:
    """A column of the solution depends on the matrix and on its own column. In a triangular system it depends on
    preceding rows only."""
    sets, a, b = call.sets, call["a"], call["b"]
    vector = len(call.out_shape) < len(a.shape) or b.ids.ndim == 1
    columns = b.ids[..., None] if vector else b.ids
    if call.op.name == "solve_triangular":
        upper = call.settings["upper"]
        rows = sets.union_along(np.triu(a.ids) if upper else np.tril(a.ids), (a.ids.ndim - 1,), keepdim=True)
        matrix, right = (
            union_running(rows, rows.ndim - 2, upper, sets),
            union_running(columns, columns.ndim - 2, upper, sets),
        )
    else:
        matrix = sets.union_along(a.ids, (a.ids.ndim - 2, a.ids.ndim - 1), keepdim=True)
        right = sets.union_along(columns, (columns.ndim - 2,), keepdim=True)
    total = sets.union(matrix, right)
    shape = (*call.out_shape, 1) if vector else call.out_shape
    return np.broadcast_to(total, shape).reshape(call.out_shape)
