"""Move half-precision values without casting them to single precision and back, for devices.

    reshape(float32(x))                            ->  float32(reshape(x))       and so bfloat16 of it is reshape(x)
    bfloat16(matmul(float32(a), float32(b)))       ->  matmul(a, b)              accumulated in single precision

Reverse rules of half-precision ops compute in single precision, so a pair of casts stands between two of them. Views
and parts move before the cast, which then meets its counterpart. Exact: a product of halves accumulates as wide as
before, and is rounded once.
"""

from __future__ import annotations

from typing import Any

from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Instruction, Value

narrow = Rules()
rule = narrow.rule


def is_half(value: Any) -> bool:
    """True if a value is of half precision."""
    return value.__class__ is Value and value.dtype.char in "eE"


def widened_from(walk: Walk, value: Any) -> Value | None:
    """Return the half-precision value that a single-precision value is a cast of; None if it is something else."""
    made = walk.made_by(value, "cast")
    if made is None or value.dtype.char != "f":
        return None
    (source,) = made.arguments
    return source if is_half(source) else None


@rule("reshape", "permute", "getitem", "expand", "embed")
def _view_of_cast(walk: Walk, instruction: Instruction) -> Rewritten:
    source = widened_from(walk, instruction.arguments[0])
    if source is None or len(instruction.results) != 1:
        return None
    shown = walk.emit(instruction.op, source, **instruction.settings)
    return walk.emit("cast", shown, dtype=instruction.result.dtype)


@rule("pieces", "assembled", "cat", "stack")
def _parts_of_casts(walk: Walk, instruction: Instruction) -> Rewritten:
    sources = [widened_from(walk, a) for a in instruction.arguments]
    if not sources or any(s is None or s.dtype != sources[0].dtype for s in sources):  # type: ignore[union-attr]
        return None
    made = Value(instruction.result.shape, sources[0].dtype)  # type: ignore[union-attr]  # none is None
    again = Instruction(instruction.op, tuple(sources), instruction.settings, (made,), instruction.where)
    return walk.emit("cast", walk.append(again)[0], dtype=instruction.result.dtype)


@rule("cast")
def _narrowed_product(walk: Walk, instruction: Instruction) -> Rewritten:
    """Move the cast back through views to the product that it narrows."""
    (x,), dtype = instruction.arguments, instruction.result.dtype
    if dtype.char not in "eE" or x.dtype.char != "f":
        return None
    product, views = x, []
    while (view := walk.made_by(product, "reshape", "permute")) is not None:
        views.append(view)
        (product,) = view.arguments
    made = walk.made_by(product, "matmul")
    if made is None:
        return None
    a, b = (widened_from(walk, v) for v in made.arguments)
    if a is None or b is None or a.dtype != dtype or b.dtype != dtype:
        return None
    out = walk.emit("matmul", a, b)
    for view in reversed(views):
        out = walk.emit(view.op, out, **view.settings)
    return out


# ----- parts ----------------------------------------------------------------------------------------------------------


@rule("stack", "cat")
def _assembled(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return parts with their places if they form a gradient: in another order, or with zeros added."""
    settings, values, result = instruction.settings, list(instruction.values()), instruction.result
    if len(values) != len(instruction.arguments) or any(v.dtype != result.dtype or not v.size for v in values):
        return None
    dim, ends = settings["dim"] % result.ndim, [0]
    whole = [slice(0, n, 1) for n in result.shape]
    places = []
    for k, v in enumerate(values):
        ends.append(ends[-1] + (1 if instruction.op.name == "stack" else v.shape[dim]))
        at: Any = k if instruction.op.name == "stack" else slice(ends[-2], ends[-1], 1)
        places.append((*whole[:dim], at, *whole[dim + 1 :]))
    made = Value(result.shape, result.dtype)
    new = {"shape": result.shape, "index": tuple(places)}
    return walk.append(Instruction(op_named("assembled"), tuple(values), new, (made,), instruction.where))


@rule("permute")
def _permuted_parts(walk: Walk, instruction: Instruction) -> Rewritten:
    """Write parts at their permuted places directly."""
    (x,), dims = instruction.arguments, instruction.settings["dims"]
    added = walk.made_by(x, "add")
    if added is not None and added.arguments[0].__class__ is Value and added.arguments[1].__class__ is not Value:
        shown = walk.emit("permute", added.arguments[0], dims=dims)
        return walk.emit("add", shown, added.arguments[1]) if shown.dtype == x.dtype else None
    made = walk.made_by(x, "assembled")
    if made is None:
        return None
    parts, places = [], []
    for part, index in zip(made.arguments, made.settings["index"], strict=True):
        if len(index) != x.ndim or not all(isinstance(i, (int, slice)) for i in index):
            return None
        kept = [d for d in range(x.ndim) if isinstance(index[d], slice)]
        order = tuple([kept.index(d) for d in dims if d in kept])
        parts.append(part if order == tuple(range(part.ndim)) else walk.emit("permute", part, dims=order))
        places.append(tuple([index[d] for d in dims]))
    again = Value(instruction.result.shape, x.dtype)
    settings = {"shape": again.shape, "index": tuple(places)}
    return walk.append(Instruction(made.op, tuple(parts), settings, (again,), instruction.where))


@rule("add")
def _zero_added_to_parts(walk: Walk, instruction: Instruction) -> Rewritten:
    """Add 0. to the parts instead of the whole, if it is added for the sign of zeros."""
    x, number = instruction.arguments
    made = walk.made_by(x, "assembled")
    if made is None or number.__class__ is Value or number != 0 or instruction.result.dtype != x.dtype:
        return None
    parts = tuple([walk.emit("add", part, number) for part in made.arguments])
    again = Value(x.shape, x.dtype)
    return walk.append(Instruction(made.op, parts, made.settings, (again,), instruction.where))
