"""Rewrite composite ops in terms of ops with kernels, which fuse with their neighbours.

    softmax(x)   ->   t = exp(x - amax(x)); t / sum(t)

Formulas come from the bodies in the ops' blocks (ndgrad._src.ops.composite). The rules here are for primitives with
another form in native code: products, convolutions, attention, and indexed elements of rows. `decompose(program)`
rewrites all of them, `decompose(program, ["softmax"])` only some. On NumPy the composite ops are quicker, so this is
for native code alone.

It reassociates: sums may be added in another order. If an op has a shortcut for arrays of moderate size, the rule uses
the general formula. No result is less accurate than the op's: the maximum is subtracted before exponentials are taken,
variances are sums of squared deviations, and means are quotients. Rules apply to single and double precision only; half
precision and complex numbers stay as they are. Forward formulas use the same ops as the reverse rules, so that common
parts are computed once.

Along a row, the indexed element is found by comparing the index with all positions. This is nearly free in a kernel
that reads the whole row anyway. Other indices: indexing.py. Index ranges are checked (expansion.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.contraction import contractions
from ndgrad._src.compiler.passes.expansion import Expansion, is_plain
from ndgrad._src.compiler.passes.indexing import add_along, gather_along, indexing
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.passes.terms import TermOps, as_terms
from ndgrad._src.compiler.program.program import Instruction, Program, Value

composites = Rules(indexing, contractions)
rule = composites.rule

#: A causal attention mask with more elements than this is computed instead of stored as a constant.
_LARGEST_MASK = 1 << 20


def decompose(program: Program, names: Iterable[str] | None = None) -> tuple[Program, list[Value]]:
    """Return the program without composite ops, or without those of some names, and its checks.

    A check is a value that must be zero; otherwise an index is out of range.
    """
    rules = composites
    if names is not None:
        rules = Rules()
        rules.by_name = {name: composites.by_name.get(name, [expand_body]) for name in names}
    walk = Expansion(program, rules)
    return walk.run(), walk.checks


@rule(where=lambda op: op.body is not None)
def expand_body(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return the results of a composite op's body (ndgrad._src.ops.composite).

    Arguments are of one floating dtype, besides booleans and integers, and not empty. Rules for an op of its own come
    first.
    """
    floats = {v.dtype for v in instruction.values() if v.dtype.kind in "fc"}
    has_values = all(v.size for v in (*instruction.values(), *instruction.results))
    if len(floats) != 1 or floats.pop().char not in "fd" or not has_values or instruction.settings.get("dim") == ():
        return None
    out = instruction.op.body(TermOps(walk), as_terms(walk, instruction.arguments), instruction.settings)
    terms = out if isinstance(out, tuple) else (out,)
    return tuple([walk.reshaped(t.value, r.shape) for t, r in zip(terms, instruction.results, strict=True)])


def _all_plain(instruction: Instruction) -> bool:
    dtypes = {a.dtype for a in instruction.values()}
    return all(is_plain(a) for a in instruction.arguments) and len(dtypes) == 1


# ----- rolled arrays --------------------------------------------------------------------------------------------------


@rule("roll")
def _roll(walk: Walk, instruction: Instruction) -> Rewritten:
    """Move the end of each dimension before its beginning."""
    (x,) = instruction.arguments
    shifts, dims = instruction.settings["shifts"], instruction.settings["dims"]
    if not x.size:
        return None
    out = x if dims is not None else walk.reshaped(x, (x.size,))
    for shift, dim in zip(shifts, (0,) if dims is None else dims, strict=True):
        n = out.shape[dim]
        at = -shift % n
        if at:
            before = (slice(None),) * (dim % out.ndim)
            parts = [walk.emit("getitem", out, index=(*before, part)) for part in (slice(at, n), slice(0, at))]
            out = walk.emit("cat", *parts, dim=dim % out.ndim)
    return walk.reshaped(out, instruction.result.shape)


# ----- reductions -----------------------------------------------------------------------------------------------------


def _sum(walk: Walk, x: Value, dim: tuple[int, ...], keepdim: bool) -> Value:
    return walk.emit("sum", x, dim=dim, keepdim=keepdim, dtype=None)


def _average(walk: Walk, x: Value, dim: tuple[int, ...]) -> Value:
    return walk.emit("div", _sum(walk, x, dim, True), math.prod([x.shape[d] for d in dim]))


def _largest(walk: Walk, x: Value, dim: tuple[int, ...]) -> Value:
    return walk.emit("amax", x, dim=dim, keepdim=True)


@rule("softmax_cross_entropy")
def _cross_entropy(walk: Walk, instruction: Instruction) -> Rewritten:
    x, target = instruction.arguments
    dim = instruction.settings["dim"]
    if not is_plain(x) or target.__class__ is not Value:
        return None
    emit = walk.emit
    index = walk.reshaped(target, (*target.shape[:dim], 1, *target.shape[dim:]))
    if not _names_one_of_each_row(walk, index, x.shape, dim):
        return None
    shifted = emit("sub", x, _largest(walk, x, (dim,)))
    at = _sum(walk, emit("where", _places(walk, index, x.shape, dim), shifted, 0.0), (dim,), True)
    total = _sum(walk, emit("exp", shifted), (dim,), True)
    return walk.reshaped(emit("sub", emit("log", total), at), instruction.result.shape)


# ----- one element of each row ----------------------------------------------------------------------------------------


def _names_one_of_each_row(walk: Walk, index: Value, shape: tuple[int, ...], dim: int) -> bool:
    assert isinstance(walk, Expansion)
    expected = tuple([1 if d == dim else n for d, n in enumerate(shape)])
    return index.shape == expected and index.dtype.kind in "iu" and shape[dim] <= walk.longest_row


def _places(walk: Walk, index: Value, shape: tuple[int, ...], dim: int) -> Value:
    """Return a mask of the positions along a dimension that an index of length 1 there names."""
    assert isinstance(walk, Expansion)
    emit = walk.emit
    walk.check_range(index, 0, shape[dim])
    positions = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    return emit("eq", walk.constant(positions, index.dtype), index)


@rule("gather")
def _gather(walk: Walk, instruction: Instruction) -> Rewritten:
    x, index = instruction.arguments
    dim = instruction.settings["dim"]
    if not is_plain(x) or index.__class__ is not Value or not _names_one_of_each_row(walk, index, x.shape, dim):
        return gather_along(walk, instruction)
    return _sum(walk, walk.emit("where", _places(walk, index, x.shape, dim), x, 0.0), (dim,), True)


@rule("gather_backward")
def _gather_backward(walk: Walk, instruction: Instruction) -> Rewritten:
    g, index = instruction.arguments
    dim, shape = instruction.settings["dim"], tuple(instruction.settings["shape"])
    if not is_plain(g) or index.__class__ is not Value or not _names_one_of_each_row(walk, index, shape, dim):
        return add_along(walk, instruction)
    return walk.emit("where", _places(walk, index, shape, dim), g, 0.0)


def _affine(walk: Walk, y: Value, w: Value | None, b: Value | None) -> Value:
    y = y if w is None else walk.emit("mul", y, w)
    return y if b is None else walk.emit("add", y, b)


# ----- products -------------------------------------------------------------------------------------------------------


@rule("linear")
def _linear(walk: Walk, instruction: Instruction) -> Rewritten:
    x, w, b = instruction.arguments
    if not _all_plain(instruction):
        return None
    rows = walk.reshaped(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    out = _affine(walk, walk.emit("matmul", rows, walk.emit("permute", w, dims=(1, 0))), None, b)
    return walk.reshaped(out, instruction.result.shape)


@rule("addmm", "addmv", "baddbmm")
def _added_product(walk: Walk, instruction: Instruction) -> Rewritten:
    x, a, b = instruction.arguments
    beta, alpha = instruction.settings["beta"], instruction.settings["alpha"]
    if not _all_plain(instruction) or not isinstance(beta, (int, float)) or not isinstance(alpha, (int, float)):
        return None
    out = walk.emit("matmul", a, b)
    out = out if alpha == 1 else walk.emit("mul", out, alpha)
    if beta == 0:
        return (
            out if out.shape == instruction.result.shape else walk.emit("expand", out, shape=instruction.result.shape)
        )
    return walk.emit("add", out, x if beta == 1 else walk.emit("mul", x, beta))


# ----- images ---------------------------------------------------------------------------------------------------------


@rule("convolution")
def _convolution(walk: Walk, instruction: Instruction) -> Rewritten:
    """Split off the bias as an addition, which fuses with the following ops."""
    x, w, b = instruction.arguments
    if b is None or not _all_plain(instruction):
        return None
    return walk.emit(
        "add",
        walk.emit("convolution", x, w, None, **instruction.settings),
        walk.reshaped(b, (*b.shape, *(1,) * (x.ndim - 2))),
    )


@rule("keep")
def _keep_before_unpooling(walk: Walk, instruction: Instruction) -> Rewritten:
    """Rewrite the gradient of a relu before max pooling. Exact.

    An element that won equals its window's maximum, so the mask is taken of the few maxima instead of all elements.
    """
    g, mask = instruction.arguments
    spread = walk.made_by(g, "max_unpool")
    pooled = None if spread is None else walk.made_by(spread.arguments[1], "max_pool")
    if spread is None or pooled is None or pooled.arguments[0] is not mask or not is_plain(g):
        return None
    largest, index = pooled.results
    if spread.arguments[1] is not index or spread.arguments[0].shape != largest.shape:
        return None
    return walk.emit("max_unpool", walk.emit("keep", spread.arguments[0], largest), index, **spread.settings)


@rule("sum")
def _sum_before_unpooling(walk: Walk, instruction: Instruction) -> Rewritten:
    """Sum before unpooling, because spreading numbers over planes of zeros keeps their sum."""
    spread = walk.made_by(instruction.arguments[0], "max_unpool")
    dim = instruction.settings["dim"]
    if spread is None or not is_plain(spread.arguments[0]) or instruction.settings["dtype"] is not None or not dim:
        return None
    if not isinstance(dim, tuple) or not {d % spread.result.ndim for d in dim} >= set(range(2, spread.result.ndim)):
        return None
    return walk.emit("sum", spread.arguments[0], **instruction.settings)


def _even_windows(sizes: tuple[int, ...], outputs: tuple[int, ...]) -> dict[str, Any] | None:
    """Return the settings of windows that divide an axis evenly; None if they do not."""
    if any(not m or n % m for n, m in zip(sizes, outputs, strict=True)):
        return None
    kernel = tuple([n // m for n, m in zip(sizes, outputs, strict=True)])
    settings = {"kernel": kernel, "stride": kernel, "padding": (0,) * len(sizes), "ceil_mode": False}
    return {**settings, "count_include_pad": True, "divisor_override": None}


@rule("adaptive_avg_pool")
def _adaptive_avg_pool(walk: Walk, instruction: Instruction) -> Rewritten:
    (x,) = instruction.arguments
    found = _even_windows(x.shape[2:], instruction.result.shape[2:]) if is_plain(x) else None
    if found is None:
        return None
    if instruction.result.shape[2:] == (1,) * (x.ndim - 2):
        return _average(walk, x, tuple(range(2, x.ndim)))
    return walk.emit("avg_pool", x, **found)


# ----- attention ------------------------------------------------------------------------------------------------------


@rule("attention")
def _attention(walk: Walk, instruction: Instruction) -> Rewritten:
    q, k, v, mask = instruction.arguments
    found = _weights_and_sums(walk, q, k, mask, **instruction.settings) if is_plain(v) and v.dtype == q.dtype else None
    return None if found is None else walk.emit("div", walk.emit("matmul", found[0], v), found[1])


@rule("attention_weights")
def _attention_weights(walk: Walk, instruction: Instruction) -> Rewritten:
    q, k, mask = instruction.arguments
    found = _weights_and_sums(walk, q, k, mask, **instruction.settings)
    return None if found is None else walk.emit("div", *found)


def _weights_and_sums(
    walk: Walk, q: Value, k: Value, mask: Value | None, is_causal: bool, scale: float
) -> tuple[Value, Value] | None:
    """Return the exponentials of the scores and their sums. A row that is fully masked has zeros, and sum one."""
    queries, keys = q.shape[-2], k.shape[-2]
    masked = mask is not None
    if not is_plain(q) or not is_plain(k) or q.dtype != k.dtype or (is_causal and queries * keys > _LARGEST_MASK):
        return None
    if mask is not None and mask.dtype not in (q.dtype, np.dtype(bool)):
        return None
    emit = walk.emit
    scores = emit(
        "matmul", emit("mul", q, scale), emit("permute", k, dims=(*range(k.ndim - 2), k.ndim - 1, k.ndim - 2))
    )
    if mask is not None and mask.dtype.kind == "b":
        scores = emit("where", mask, scores, -math.inf)
    elif mask is not None:
        scores = emit("add", scores, mask)
    if is_causal:
        seen = walk.constant(np.arange(keys) <= np.arange(queries)[:, None], np.dtype(bool))
        scores = emit("where", seen, scores, -math.inf)
    dim = (scores.ndim - 1,)
    top = _largest(walk, scores, dim)
    top = emit("where", emit("eq", top, -math.inf), 0.0, top) if masked else top
    weights = emit("exp", emit("sub", scores, top))
    total = _sum(walk, weights, dim, True)
    return weights, emit("where", emit("eq", total, 0.0), 1.0, total) if masked else total
