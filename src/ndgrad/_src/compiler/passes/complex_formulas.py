"""Formulas for elementwise complex ops in terms of real and imaginary parts.

Arithmetic follows NumPy operation by operation. It is exact, except for the roundings that a multiply-add saves.
Products are (ac - bd) + (ad + bc)i, even if a part is infinite. Quotients use Smith's method, which avoids intermediate
overflow. `tests/compiler/passes/test_complex_formulas.py` compares all of them. Functions: complex_functions.py. NumPy
itself runs ops that are in neither file (`interleaved`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.complex_walk import ByParts, Pair, Part, is_complex, real_dtype
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Value

formulas = Rules()
rule = formulas.rule


class Reals:
    """Arithmetic on parts of one dtype: each method emits an op on real numbers."""

    def __init__(self, walk: ByParts, dtype: np.dtype[Any]) -> None:
        self.walk = walk
        self.dtype = dtype

    def __getattr__(self, op: str) -> Callable[..., Part]:
        return lambda *parts: self.walk.apply(op, *parts, dtype=self.dtype)

    def where(self, condition: Part, yes: Part, no: Part) -> Part:
        if not isinstance(condition, Value):
            return yes if condition else no
        if not isinstance(yes, Value) and not isinstance(no, Value):
            yes = self.walk.constant(yes, self.dtype)  # two Python numbers would give double precision
        return self.walk.apply("where", condition, yes, no, dtype=self.dtype)

    def logical_and(self, x: Part, y: Part) -> Part:
        if not isinstance(x, Value):
            x, y = y, x
        if isinstance(x, Value) and not isinstance(y, Value):
            return x if y else False
        return self.walk.apply("logical_and", x, y, dtype=self.dtype)

    @property
    def limits(self) -> np.finfo[Any]:
        return np.finfo(self.dtype)

    def product(self, x: Pair, y: Pair) -> Pair:
        """Return the product. With multiply-add, the first products are not rounded before the addition, as in NumPy.
        """
        (a, b), (c, d) = x, y
        return self.muladd(a, c, self.neg(self.mul(b, d))), self.muladd(a, d, self.mul(b, c))

    def quotient(self, x: Pair, y: Pair) -> Pair:
        """Return the quotient by Smith's method, which divides by the larger part of the divisor. A divisor 0 divides
        both parts.
        """
        (a, b), (c, d) = x, y
        size, other = self.abs(c), self.abs(d)
        # A real divisor is always the larger part. For NaN the choice does not matter.
        first = True if not isinstance(d, Value) and d == 0 else self.ge(size, other)
        large, small = self.where(first, c, d), self.where(first, d, c)
        ratio = self.div(small, large)
        scale = self.div(1.0, self.add(large, self.mul(small, ratio)))
        along, across = self.where(first, a, b), self.where(first, b, a)
        turned = self.mul(along, ratio)
        re = self.mul(self.add(along, self.mul(across, ratio)), scale)
        im = self.mul(self.where(first, self.sub(across, turned), self.sub(turned, across)), scale)
        none = self.logical_and(self.eq(size, 0.0), self.eq(other, 0.0))
        return self.where(none, self.div(a, size), re), self.where(none, self.div(b, size), im)


# ----- rules built from formulas --------------------------------------------------------------------------------------


def elementwise(rules: Rules, *names: str) -> Callable[[Callable[..., Pair | Part | None]], Callable[..., Any]]:
    """Make a rule out of a formula that maps the parts of all arguments to both parts of the result, or to a real one.
    """

    def add(formula: Callable[..., Pair | Part | None]) -> Callable[..., Any]:
        @rules.rule(*names)
        def apply_formula(walk: Walk, instruction: Instruction) -> Rewritten:
            assert isinstance(walk, ByParts)
            dtype = _computing_dtype(instruction)
            if dtype is None:
                return None
            found = formula(
                Reals(walk, dtype), *[walk.parts(a, dtype) for a in instruction.arguments], **instruction.settings
            )
            return None if found is None else _result(walk, instruction, found)

        return formula

    return add


def _computing_dtype(instruction: Instruction) -> np.dtype[Any] | None:
    """Return the dtype of the parts in which an instruction computes; None if it is ambiguous."""
    if not all(
        a.__class__ is Value or isinstance(a, (bool, int, float, complex, np.generic)) for a in instruction.arguments
    ):
        return None
    found = np.result_type(*[a.dtype if a.__class__ is Value else a for a in instruction.arguments])
    return real_dtype(found) if found.kind == "c" and found.itemsize in (8, 16) else None


def _result(walk: ByParts, instruction: Instruction, found: Pair | Part) -> Value:
    result = instruction.result
    if isinstance(found, tuple):
        return walk.pair(*found, result)
    return walk.value(found, result.shape, result.dtype)


# ----- arithmetic -----------------------------------------------------------------------------------------------------


@elementwise(formulas, "add")
def _add(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.add(x[0], y[0]), r.add(x[1], y[1])


@elementwise(formulas, "sub")
def _sub(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.sub(x[0], y[0]), r.sub(x[1], y[1])


@elementwise(formulas, "mul")
def _mul(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.product(x, y)


@elementwise(formulas, "div")
def _div(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.quotient(x, y)


@elementwise(formulas, "neg")
def _neg(r: Reals, x: Pair) -> Pair:
    return r.neg(x[0]), r.neg(x[1])


@elementwise(formulas, "square")
def _square(r: Reals, x: Pair) -> Pair:
    return r.product(x, x)


@elementwise(formulas, "reciprocal")
def reciprocal(r: Reals, x: Pair) -> Pair:
    """Return 1 / z as NumPy does, which divides by the larger part even if both are 0."""
    c, d = x
    first = r.le(r.abs(d), r.abs(c))
    large, small = r.where(first, c, d), r.where(first, d, c)
    ratio = r.div(small, large)
    size = r.add(large, r.mul(small, ratio))
    one, other = r.div(1.0, size), r.div(ratio, size)
    return r.where(first, one, other), r.where(first, r.neg(other), r.neg(one))


@elementwise(formulas, "addcmul")
def _addcmul(r: Reals, x: Pair, a: Pair, b: Pair, value: Any = 1) -> Pair:
    found = r.product(times(r, a, value), b)
    return r.add(x[0], found[0]), r.add(x[1], found[1])


@elementwise(formulas, "addcdiv")
def _addcdiv(r: Reals, x: Pair, a: Pair, b: Pair, value: Any = 1) -> Pair:
    found = r.quotient(times(r, a, value), b)
    return r.add(x[0], found[0]), r.add(x[1], found[1])


def times(r: Reals, x: Pair, number: Any) -> Pair:
    number = complex(number)
    return x if number == 1 else r.product(x, (number.real, number.imag))


# ----- parts ----------------------------------------------------------------------------------------------------------


@rule("conj")
def _conj(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    (z,) = instruction.arguments
    re, im = walk.parts(z)
    made = walk.pair(re, walk.apply("neg", im, dtype=real_dtype(z.dtype)), z)
    source, transposed, conjugated = walk.seen_as.get(z, (z, False, False))
    walk.seen_as[made] = (source, transposed, not conjugated)
    return made


@elementwise(formulas, "real")
def _real(r: Reals, x: Pair) -> Part:
    return x[0]


@elementwise(formulas, "imag")
def _imag(r: Reals, x: Pair) -> Part:
    return x[1]


@rule("complex")
def _complex(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    if any(is_complex(a) for a in instruction.arguments):
        return None
    re, im = (walk.parts(a, real_dtype(instruction.result.dtype))[0] for a in instruction.arguments)
    return walk.pair(re, im, instruction.result)


@rule("polar")
def _polar(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    if any(is_complex(a) for a in instruction.arguments):
        return None
    dtype = real_dtype(instruction.result.dtype)
    r = Reals(walk, dtype)
    size, angle = (walk.parts(a, dtype)[0] for a in instruction.arguments)
    return walk.pair(r.mul(size, r.cos(angle)), r.mul(size, r.sin(angle)), instruction.result)


@elementwise(formulas, "abs")
def _abs(r: Reals, x: Pair) -> Part:
    return r.hypot(*x)


@rule("vector_norm")
def _vector_norm(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return the largest or smallest modulus. It uses this file's modulus, because gradients test for equality with it.
    """
    (x,), settings = instruction.arguments, instruction.settings
    if abs(settings["ord"]) != math.inf or not x.size or not settings["dim"]:
        return None
    op = "amax" if settings["ord"] > 0 else "amin"
    return walk.emit(op, walk.emit("abs", x), dim=settings["dim"], keepdim=settings["keepdim"])


@elementwise(formulas, "angle")
def _angle(r: Reals, x: Pair) -> Part:
    return r.atan2(x[1], x[0])


@elementwise(formulas, "sgn")
def _sgn(r: Reals, x: Pair) -> Pair:
    """Return z / |z|, and 0 for 0.

    If |z| is infinite, NumPy returns the side of an infinite real part, else that of the imaginary one, and NaN if both
    are infinite.
    """
    size = r.hypot(*x)
    is_infinite, is_none = r.isinf(size), r.eq(size, 0.0)
    first, second = (r.isinf(p) for p in x)
    unknown = r.logical_or(r.logical_and(first, second), r.isnan(size))
    sides = r.where(first, r.copysign(1.0, x[0]), 0.0), r.where(first, 0.0, r.copysign(1.0, x[1]))
    re, im = (
        r.where(unknown, math.nan, r.where(is_none, 0.0, r.where(is_infinite, side, r.div(part, size))))
        for part, side in zip(x, sides, strict=True)
    )
    return re, im


# ----- casts and choices ----------------------------------------------------------------------------------------------


@rule("cast")
def _cast(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    (x,), result = instruction.arguments, instruction.result
    if result.dtype.kind == "c":
        re, im = walk.parts(x, real_dtype(result.dtype))
        return walk.pair(re, im, result)
    re, im = walk.parts(x)
    if result.dtype.kind == "b":
        return walk.value(_truth(Reals(walk, real_dtype(x.dtype)), (re, im)), result.shape, result.dtype)
    return walk.emit("cast", walk.value(re, x.shape, real_dtype(x.dtype)), dtype=result.dtype)


@rule("copy")
def _copy(walk: Walk, instruction: Instruction) -> Rewritten:
    """Return the result of a write: the source, in the dtype and shape of the target."""
    assert isinstance(walk, ByParts)
    (_, y), result = instruction.arguments, instruction.result
    if result.dtype.kind != "c":
        return None
    re, im = walk.parts(y, real_dtype(result.dtype))
    return walk.pair(re, im, result)


@rule("zeros_like", "zero", "fill")
def _fill(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    if instruction.result.dtype.kind != "c":
        return None
    number = complex(instruction.settings.get("value", 0))
    return walk.number_pair(number, instruction.result.dtype, instruction.result.shape)


def _truth(r: Reals, x: Pair) -> Part:
    return r.logical_or(r.ne(x[0], 0.0), r.ne(x[1], 0.0))


@rule("where", "masked_fill", "keep")
def _choose(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    arguments, result = instruction.arguments, instruction.result
    if result.dtype.kind != "c":
        return None
    match instruction.op.name:
        case "where":
            condition, yes, no = arguments
        case "masked_fill":
            no, condition, yes = arguments
        case _:
            (yes, condition), no = arguments, 0.0
    dtype = real_dtype(result.dtype)
    if is_complex(condition):
        condition = _truth(Reals(walk, dtype), walk.parts(condition))
    elif condition.__class__ is Value and condition.dtype.kind != "b":
        condition = walk.emit("ne", condition, 0)
    halves = zip(walk.parts(yes, dtype), walk.parts(no, dtype), strict=True)
    re, im = (_choice(walk, condition, a, b, dtype) for a, b in halves)
    return walk.pair(re, im, result)


def _choice(walk: ByParts, condition: Any, yes: Part, no: Part, dtype: np.dtype[Any]) -> Part:
    if condition.__class__ is not Value:
        return yes if condition else no
    if yes.__class__ is not Value and no.__class__ is not Value:
        if yes == no == 0 and not np.signbit([yes, no]).any():
            return 0.0
        yes = walk.constant(yes, dtype)
    return walk.emit("where", condition, yes, no)


# ----- comparisons ----------------------------------------------------------------------------------------------------


@elementwise(formulas, "eq")
def _eq(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_and(r.eq(x[0], y[0]), r.eq(x[1], y[1]))


@elementwise(formulas, "ne")
def _ne(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_or(r.ne(x[0], y[0]), r.ne(x[1], y[1]))


@elementwise(formulas, "isnan")
def _isnan(r: Reals, x: Pair) -> Part:
    return r.logical_or(r.isnan(x[0]), r.isnan(x[1]))


@elementwise(formulas, "isinf")
def _isinf(r: Reals, x: Pair) -> Part:
    return r.logical_or(r.isinf(x[0]), r.isinf(x[1]))


@elementwise(formulas, "isfinite")
def _isfinite(r: Reals, x: Pair) -> Part:
    return r.logical_and(r.isfinite(x[0]), r.isfinite(x[1]))


@elementwise(formulas, "isreal")
def _isreal(r: Reals, x: Pair) -> Part:
    return r.eq(x[1], 0.0)


@elementwise(formulas, "logical_not")
def _logical_not(r: Reals, x: Pair) -> Part:
    return r.logical_and(r.eq(x[0], 0.0), r.eq(x[1], 0.0))


@elementwise(formulas, "logical_and")
def _logical_and(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_and(_truth(r, x), _truth(r, y))


@elementwise(formulas, "logical_or")
def _logical_or(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_or(_truth(r, x), _truth(r, y))
