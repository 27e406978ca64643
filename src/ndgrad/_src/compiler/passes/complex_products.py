"""Compute a product of complex matrices as one product of real matrices.

Pairs in memory are a real matrix of twice the columns, and a complex number is a 2 x 2 matrix of real ones:

    [x0 y0 x1 y1 ...]  @  | c d |      the row of A in memory, times a block for each number of B,
                          |-d c |      gives the row of C in memory

A is read in place and C is written in place. Only B is copied, at twice the size of its pairs. If B is larger, B is
read in place and the parts of A are stacked as rows:

    | X |  @  [c0 d0 c1 d1 ...]  =  | Xc0 Xd0 ... |     with  re = Xc - Yd,  im = Xd + Yc
    | Y |                           | Yc0 Yd0 ... |

It reassociates. Either form has as many multiplications as four products of parts, and rounds like these. Three
products would suffice, but a small part next to a large one would lose its digits. A transposed operand is read in
place, by computing the transposed product. A conjugate changes signs in the other matrix.
"""

from __future__ import annotations

from math import prod

from ndgrad._src.compiler.passes.complex_walk import ByParts, real_dtype
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Argument, Instruction, Value

products = Rules()
rule = products.rule


@rule("matmul")
def _matmul(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    x, y = instruction.arguments
    result = instruction.result
    if not _are_alike(instruction) or not x.size or not y.size:
        return None
    if x.ndim == 1:
        x = walk.reshaped(x, (1, x.size))
    if y.ndim == 1:
        y = walk.reshaped(y, (y.size, 1))
    return walk.reshaped(_product(walk, x, y), result.shape)


def _are_alike(instruction: Instruction) -> bool:
    return all(a.__class__ is Value and a.dtype == instruction.result.dtype for a in instruction.arguments)


def _product(walk: ByParts, x: Value, y: Value) -> Value:
    """Return the product of two matrices, or of two batches of them. The larger matrix is read in place."""
    a, a_transposed, a_conjugated = walk.seen_as.get(x, (x, False, False))
    b, b_transposed, b_conjugated = walk.seen_as.get(y, (y, False, False))
    if prod(x.shape[-2:]) >= prod(y.shape[-2:]):
        if a_transposed:
            return _transposed(walk, _rows(walk, _transposed(walk, y), a, a_conjugated))
        return _columns(walk, a, y, a_conjugated)
    if b_transposed:
        return _transposed(walk, _columns(walk, b, _transposed(walk, x), b_conjugated))
    return _rows(walk, x, b, b_conjugated)


def _transposed(walk: ByParts, z: Value) -> Value:
    n = z.ndim
    return walk.emit("permute", z, dims=(*range(n - 2), n - 1, n - 2))


def _columns(walk: ByParts, x: Value, y: Value, conjugated: bool) -> Value:
    """Multiply x, read in place or conjugated, by y in the form of blocks."""
    *batch, m, k = x.shape
    *others, _, n = y.shape
    left = walk.emit("reshape", walk.pairs(x), shape=(*batch, m, 2 * k))
    c, d = walk.both(y)
    _, transposed, _ = walk.seen_as.get(y, (y, False, False))
    if transposed:  # in the memory order of y
        c, d = (walk.emit("permute", p, dims=(*range(p.ndim - 2), p.ndim - 1, p.ndim - 2)) for p in (c, d))
    minus_c, minus_d = (walk.emit("neg", c), d) if conjugated else (c, walk.emit("neg", d))
    shape = (*others, n, 2, k, 2) if transposed else (*others, k, 2, n, 2)
    whole = [slice(0, size, 1) for size in others]
    places = [
        (*whole, slice(0, shape[-4], 1), row, slice(0, shape[-2], 1), column)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    # The block is [[c, d], [-d, c]], or [[c, d], [d, -c]] if x is conjugated.
    block = (c, minus_d, d, minus_c) if transposed else (c, d, minus_d, minus_c)
    blocks = Value(shape, real_dtype(y.dtype))
    settings = {"shape": shape, "index": tuple(places)}
    walk.append(Instruction(op_named("assembled"), block, settings, (blocks,), walk.where))
    right = walk.emit("reshape", blocks, shape=(*others, 2 * shape[-4], 2 * shape[-2]))
    if transposed:
        right = walk.emit("permute", right, dims=(*range(len(others)), len(others) + 1, len(others)))
    out = walk.emit("matmul", left, right)
    return walk.join_pairs(walk.emit("reshape", out, shape=(*out.shape[:-1], n, 2)))


def _rows(walk: ByParts, x: Value, y: Value, conjugated: bool) -> Value:
    """Multiply the stacked parts of x by y, read in place, or by its conjugate."""
    *batch, k, n = y.shape
    right = walk.emit("reshape", walk.pairs(y), shape=(*batch, k, 2 * n))
    parts = walk.both(x)
    depth = max(x.ndim, y.ndim)
    lined_up = [walk.reshaped(p, (1,) * (depth - x.ndim) + p.shape) for p in parts]
    out = walk.emit("matmul", walk.emit("stack", *lined_up, dim=0), right)
    (xc, xd), (yc, yd) = ([_column(walk, out, row, n, part) for part in (0, 1)] for row in (0, 1))
    like = Value((*out.shape[1:-1], n), x.dtype)
    if conjugated:
        return walk.pair(walk.emit("add", xc, yd), walk.emit("sub", yc, xd), like)
    return walk.pair(walk.emit("sub", xc, yd), walk.emit("add", xd, yc), like)


def _column(walk: ByParts, out: Value, row: int, n: int, part: int) -> Value:
    shape = (*out.shape[:-1], n, 2)
    index = (row, *[slice(0, size, 1) for size in shape[1:-1]], part)
    return walk.emit("getitem", walk.emit("reshape", out, shape=shape), index=index)


# ----- products with something added ----------------------------------------------------------------------------------


@rule("addmm", "addmv", "baddbmm")
def _add_product(walk: Walk, instruction: Instruction) -> Rewritten:
    x, a, b = instruction.arguments
    beta, alpha = (instruction.settings[k] for k in ("beta", "alpha"))
    if not _are_alike(instruction) or not all(isinstance(n, (int, float, complex)) for n in (beta, alpha)):
        return None
    out = walk.emit("matmul", a, b)
    out = out if alpha == 1 else walk.emit("mul", out, alpha)
    if beta == 0:
        return walk.emit("expand", out, shape=instruction.result.shape)
    return walk.emit("add", out, x if beta == 1 else walk.emit("mul", x, beta))


@rule("linear")
def _linear(walk: Walk, instruction: Instruction) -> Rewritten:
    x, w, b = instruction.arguments
    if not all(_is_like(a, instruction) for a in (x, w)) or not (b is None or _is_like(b, instruction)):
        return None
    rows = walk.reshaped(x, (prod(x.shape[:-1]), x.shape[-1]))
    out = walk.emit("matmul", rows, walk.emit("permute", w, dims=(1, 0)))
    out = out if b is None else walk.emit("add", out, b)
    return walk.reshaped(out, instruction.result.shape)


def _is_like(argument: Argument, instruction: Instruction) -> bool:
    return argument.__class__ is Value and argument.dtype == instruction.result.dtype


@rule("line_dot")
def _line_dot(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    if not _are_alike(instruction):
        return None
    return walk.emit("sum", walk.emit("mul", x, y), dim=(instruction.settings["dim"],), keepdim=True, dtype=None)
