"""Rewrite contractions (einsum, tensordot, and the gradients of products) as one matrix product each.

    contract(x, y, "ijk,kl->ijl")   ->   reshape(matmul(reshape(x), y))     merges own dimensions, and summed ones
    contract(x, y, "bk,bk->b")      ->   sum(mul(x, y))                     no matrix involved
    contract(x, y, "i,j->ij")       ->   mul(x[:, None], y)

The same method as the op's on NumPy (`ndgrad._src.ops.product`), for native code. It reassociates: sums are added in
the order of matrix products. It handles real and complex numbers.
"""

from __future__ import annotations

from math import prod

from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad._src.ops.product import plan_of

contractions = Rules()


@contractions.rule("contract")
def _contract(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    result, subscripts = instruction.result, instruction.settings["subscripts"]
    if any(v.__class__ is not Value or v.dtype != result.dtype or not v.size for v in (x, y)):
        return None
    if result.dtype.char not in "fdFD":
        return None
    plan = plan_of(subscripts)
    if plan.turned is not None:
        return walk.emit("contract", y, x, subscripts=plan.turned)
    x, y = walk.emit("permute", x, dims=plan.x_order), walk.emit("permute", y, dims=plan.y_order)
    if plan.elementwise:
        return walk.emit("mul", _spread(walk, x, plan.order[0]), _spread(walk, y, plan.order[1]))
    shared, summed = plan.shared, plan.x_contracted
    lead, x_own, y_own = x.shape[:shared], x.shape[shared : shared + plan.x_own], y.shape[shared + summed :]
    size = prod(x.shape[shared + plan.x_own :])
    if not x_own and not y_own:
        terms = walk.emit("mul", walk.reshaped(x, (*lead, size)), walk.reshaped(y, (*lead, size)))
        out = walk.emit("sum", terms, dim=(len(lead),), keepdim=False, dtype=None)
    else:
        left, right = walk.reshaped(x, (*lead, prod(x_own), size)), walk.reshaped(y, (*lead, size, prod(y_own)))
        out = walk.reshaped(walk.emit("matmul", left, right), (*lead, *x_own, *y_own))
    return walk.emit("permute", out, dims=plan.order)


def _spread(walk: Walk, value: Value, places: tuple[slice | None, ...]) -> Value:
    """Insert a dimension of size one at each place that is None."""
    sizes = iter(value.shape)
    return walk.reshaped(value, tuple([1 if place is None else next(sizes) for place in places]))
