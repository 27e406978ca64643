"""Remove arithmetic without effect, and signs that cancel.

    x * 1, x / 1, x - 0, x + (-0.), x ** 1  ->  x
    (x + 2.) + 0.                           ->  x + 2.                 any number but -0.
    -(-x)                                   ->  x
    x + (-y), (-y) + x                      ->  x - y
    x - (-y)                                ->  x + y
    (-x) * (-y), (-x) / (-y)                ->  x * y, x / y
    (-x) * 2., (-x) / 2.                    ->  x * -2., x / -2.
    (-x) * y, (-x) / y                      ->  -(x * y), -(x / y)     if the sign may cancel later
    x ** 2, square(x)                       ->  x * x
    keep(x, m) if m is true everywhere, or was already applied  ->  x

Each is exact by the rules of IEEE 754, except for the sign of a NaN, which has no meaning. Similar rewrites would be
wrong: x + 0. is 0. at x = -0., x * 0. is NaN at infinity, and (-x) + (-y) differs from -(x + y) if the sum is 0. A
product of a complex number with 1 is NaN at infinity, too.
"""

from __future__ import annotations

import math

import numpy as np

from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Argument, Instruction, Value

no_arithmetic = Rules()
rule = no_arithmetic.rule


def _is_like(x: Argument, result: Value) -> bool:
    """True if a value can replace a result."""
    return x.__class__ is Value and x.shape == result.shape and x.dtype == result.dtype


def _is_zero(number: complex | None, sign: float) -> bool:
    """True if a number is the zero of a given sign. An integer zero has no sign and becomes 0. next to floating-point
    numbers.
    """
    if number is None or isinstance(number, complex):
        return False
    return number == 0 and math.copysign(1.0, number) == sign


@rule("mul")
def _times_one(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    result = instruction.result
    if result.dtype.kind == "c":
        return None
    if _is_like(x, result) and walk.number(y) == 1:
        return x
    if _is_like(y, result) and walk.number(x) == 1:
        return y
    return None


@rule("div", "pow")
def _drop_division_by_one(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    result = instruction.result
    if result.dtype.kind != "c" and _is_like(x, result) and walk.number(y) == 1:
        return x
    return None


@rule("add")
def _plus_nothing(walk: Walk, instruction: Instruction) -> Rewritten:
    """Remove the addition of -0., the only floating-point number without effect."""
    result = instruction.result
    sign = 1.0 if result.dtype.kind in "iu" else -1.0
    x, y = instruction.arguments
    for a, b in ((x, y), (y, x)):
        if _is_like(a, result) and _is_zero(walk.number(b), sign):
            return a
    return None


@rule("add")
def _plus_zero_again(walk: Walk, instruction: Instruction) -> Rewritten:
    """Remove a second addition of 0. Adding 0. changes only -0., and a sum is -0. only if both operands are."""
    result = instruction.result
    x, y = instruction.arguments
    for a, b in ((x, y), (y, x)):
        if not _is_like(a, result) or not _is_zero(walk.number(b), 1.0):
            continue
        made = walk.made_by(a, "add")
        numbers = [] if made is None else [walk.number(argument) for argument in made.arguments]
        if any(isinstance(n, (int, float)) and not _is_zero(n, -1.0) for n in numbers):
            return a
    return None


@rule("sub")
def _minus_nothing(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    return x if _is_like(x, instruction.result) and _is_zero(walk.number(y), 1.0) else None


# ----- signs ----------------------------------------------------------------------------------------------------------


def _negated(walk: Walk, argument: Argument, result: Value) -> Value | None:
    """Return the value whose negative an argument is."""
    made = walk.made_by(argument, "neg")
    if made is None or made.result.dtype != result.dtype:  # the negative may differ in another dtype
        return None
    (x,) = made.arguments
    return x


@rule("neg")
def _twice(walk: Walk, instruction: Instruction) -> Rewritten:
    return _negated(walk, instruction.arguments[0], instruction.result)


@rule("add")
def _plus_negative(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    if (inner := _negated(walk, y, instruction.result)) is not None:
        return walk.emit("sub", x, inner)
    if (inner := _negated(walk, x, instruction.result)) is not None:
        return walk.emit("sub", y, inner)
    return None


@rule("sub")
def _minus_negative(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    inner = _negated(walk, y, instruction.result)
    return None if inner is None else walk.emit("add", x, inner)


@rule("mul", "div")
def _signs_of_product(walk: Walk, instruction: Instruction) -> Rewritten:
    x, y = instruction.arguments
    result = instruction.result
    if result.dtype.kind == "c":
        return None
    left, right = _negated(walk, x, result), _negated(walk, y, result)
    if left is not None and right is not None:
        return walk.emit(instruction.op, left, right)
    if left is not None and y.__class__ is float:
        return walk.emit(instruction.op, left, -y)
    if right is not None and x.__class__ is float:
        return walk.emit(instruction.op, -x, right)
    if left is not None and left.shape == result.shape:
        return walk.emit("neg", walk.emit(instruction.op, left, y))
    if right is not None and right.shape == result.shape:
        return walk.emit("neg", walk.emit(instruction.op, x, right))
    return None


# ----- squares --------------------------------------------------------------------------------------------------------


@rule("square", "pow")
def _square(walk: Walk, instruction: Instruction) -> Rewritten:
    """Write a square as a product, as NumPy computes it."""
    x, *exponent = instruction.arguments
    if exponent and (exponent[0].__class__ not in (int, float) or exponent[0] != 2):
        return None
    if not _is_like(x, instruction.result) or x.dtype.kind not in "fiu":
        return None
    return walk.emit("mul", x, x)


# ----- masks ----------------------------------------------------------------------------------------------------------


@rule("keep")
def _keep(walk: Walk, instruction: Instruction) -> Rewritten:
    x, mask = instruction.arguments
    result = instruction.result
    if not _is_like(x, result):
        return None
    inner = walk.made_by(x, "keep")
    if inner is not None and inner.arguments[1] is mask:
        return x
    everywhere = walk.number(mask)
    if everywhere is None and mask in walk.constants:
        array = np.asarray(walk.constants[mask])
        everywhere = True if array.all() else None if array.any() else False
    if everywhere is None:
        return None
    return x if everywhere else walk.full(0, result)
