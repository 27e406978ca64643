"""Signatures of linear systems, and of products with an added term.

The dimensions before those of one problem are a batch, which broadcasts and can be divided. An op treats each column of
a right-hand side separately, so these can be divided too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.ops.table import Op
from ndgrad.distributed.tensor.signatures import (
    Labeller,
    Labels,
    Shape,
    Signature,
    batch_labels,
    signature_rule,
)


def _split(shape: Shape, core: int) -> Shape:
    return shape[: len(shape) - core]


def _with_columns(op: Op, shapes: Sequence[Shape], first: int) -> Signature | None:
    """Return the signature of a problem with `first` dimensions, and a matrix whose columns are right-hand sides."""
    a, b = shapes
    if len(b) < 2 or len(a) < first:
        return None
    names = Labeller()
    (la, lb), batch = batch_labels([_split(a, first), _split(b, 2)], names)
    column = names.one()
    linear = op.linear_in(2) or (frozenset((1,)),)  # linear in the right-hand side
    return Signature([(*la, *(None,) * first), (*lb, None, column)], (*batch, None, column), linear=linear)


@signature_rule("solve", "solve_triangular")
def _solve(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    return _with_columns(op, shapes, 2)


@signature_rule("sparse_product", "sparse_solve")
def _sparse(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    return _with_columns(op, shapes, 1)


@signature_rule("sparse_sample")
def _sparse_sample(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Entries of x times y^T named by a pattern: the summed dimension can be divided."""
    names = Labeller()
    labels, batch = batch_labels([_split(s, 2) for s in shapes], names)
    k = names.one()
    return Signature(
        [(*found, None, k) for found in labels], batch, reductions={k: "sum"}, linear=op.linear_in(len(shapes))
    )


@signature_rule("exchange_rows")
def _exchange_rows(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, pivots = shapes
    names = Labeller()
    (lx, lp), batch = batch_labels([_split(x, 2), _split(pivots, 1)], names)
    column = names.one()
    return Signature([(*lx, None, column), (*lp, None)], (*batch, None, column), linear=[frozenset((0,))])


@signature_rule("recursive_filter")
def _recursive_filter(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    """Lines along the last dimension, all by one filter."""
    x, a = shapes
    if len(x) < 2 or len(a) != 1:
        return None
    batch = tuple(range(len(x) - 1))
    return Signature([(*batch, None), (None,)], batch, linear=[frozenset((0,))])


@signature_rule("histogram")
def _histogram(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Counts along the last dimension: the counts of its pieces add up."""
    labels = tuple(range(len(shapes[0])))
    return Signature([labels], labels[:-1], reductions={labels[-1]: "sum"} if labels else {})


@signature_rule("cdist", "cdist_ord")
def _cdist(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    names = Labeller()
    (lx, ly), batch = batch_labels([_split(s, 2) for s in shapes], names)
    m, n = names.some(2)
    return Signature([(*lx, m, None), (*ly, n, None)], (*batch, m, n))


# ----- products with something added ----------------------------------------------------------------------------------


def _label_term(shape: Shape, whole: Shape, labels: Labels) -> Labels:
    """Return the labels of a term that broadcasts against the result's shape `whole`."""
    first = len(whole) - len(shape)
    return tuple(labels[first + i] if n == whole[first + i] else None for i, n in enumerate(shape))


_TERMS = (frozenset((0, 1)), frozenset((0, 2)))


@signature_rule("addmv")
def _addmv(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, a, _ = shapes
    m, k = 0, 1
    return Signature(
        [_label_term(x, a[:1], (m,)), (m, k), (k,)], (m,), reductions={k: "sum"}, linear=_TERMS, added=frozenset((0,))
    )


@signature_rule("addr")
def _addr(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, a, b = shapes
    m, n = 0, 1
    return Signature([_label_term(x, (*a, *b), (m, n)), (m,), (n,)], (m, n), linear=_TERMS)


@signature_rule("addbmm")
def _addbmm(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    x, a, b = shapes
    i, m, k, n = 0, 1, 2, 3
    return Signature(
        [_label_term(x, (a[1], b[2]), (m, n)), (i, m, k), (i, k, n)], (m, n), reductions={i: "sum", k: "sum"},
        linear=_TERMS, added=frozenset((0,)),
    )  # fmt: skip
