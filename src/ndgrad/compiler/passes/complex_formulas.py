"""Elementwise ops of complex numbers as formulas of their parts.

Arithmetic is NumPy's, operation by operation: products are (ac - bd) + (ad + bc)i, whatever is infinite, and quotients
are Smith's, which do not overflow on the way. Functions are within a few units in the last place *of the modulus* of what
NumPy gives: the smaller part of a result may have fewer right digits, as it has after a product. On branch cuts the signs
of zeros decide, as in C99, and so they do at infinities; `tests/compiler/passes/test_complex_formulas.py` compares all of
them. Ops that are not here are NumPy's own (`interleaved`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.compiler.passes.complex_walk import ByParts, Pair, Part, is_complex, real_dtype
from ndgrad.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad.compiler.program import Instruction, Value

formulas = Rules()
rule = formulas.rule


class Reals:
    """Arithmetic on parts of one dtype: each method writes an op of real numbers."""

    def __init__(self, walk: ByParts, dtype: np.dtype[Any]) -> None:
        self.walk = walk
        self.dtype = dtype

    def __getattr__(self, op: str) -> Callable[..., Part]:
        return lambda *parts: self.walk.apply(op, *parts, dtype=self.dtype)

    def where(self, condition: Part, yes: Part, no: Part) -> Part:
        if not isinstance(condition, Value):
            return yes if condition else no
        if not isinstance(yes, Value) and not isinstance(no, Value):
            yes = self.walk.constant(yes, self.dtype)  # two numbers would be of double precision
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
        """With the first products not rounded before the others are added, where the processor can do that: NumPy's."""
        (a, b), (c, d) = x, y
        return self.muladd(a, c, self.neg(self.mul(b, d))), self.muladd(a, d, self.mul(b, c))

    def quotient(self, x: Pair, y: Pair) -> Pair:
        """Smith's: the larger part of the divisor is divided by. A divisor 0 divides both parts."""
        (a, b), (c, d) = x, y
        size, other = self.abs(c), self.abs(d)
        # a real divisor is divided by; of NaN it does not matter which
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


# ----- how rules are written ------------------------------------------------------------------------------------------


def _elementwise(*names: str) -> Callable[[Callable[..., Pair | Part | None]], Callable[..., Any]]:
    """A rule out of a formula of the parts of all arguments, which gives both parts of the result, or a real one."""

    def add(formula: Callable[..., Pair | Part | None]) -> Callable[..., Any]:
        @rule(*names)
        def written(walk: Walk, instruction: Instruction) -> Rewritten:
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
    """The dtype of the parts in which an instruction computes; None where that is not clear."""
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


@_elementwise("add")
def _add(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.add(x[0], y[0]), r.add(x[1], y[1])


@_elementwise("sub")
def _sub(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.sub(x[0], y[0]), r.sub(x[1], y[1])


@_elementwise("mul")
def _mul(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.product(x, y)


@_elementwise("div")
def _div(r: Reals, x: Pair, y: Pair) -> Pair:
    return r.quotient(x, y)


@_elementwise("neg")
def _neg(r: Reals, x: Pair) -> Pair:
    return r.neg(x[0]), r.neg(x[1])


@_elementwise("square")
def _square(r: Reals, x: Pair) -> Pair:
    return r.product(x, x)


@_elementwise("reciprocal")
def _reciprocal(r: Reals, x: Pair) -> Pair:
    """As NumPy's, which divides by the larger part also where both are 0."""
    c, d = x
    first = r.le(r.abs(d), r.abs(c))
    large, small = r.where(first, c, d), r.where(first, d, c)
    ratio = r.div(small, large)
    size = r.add(large, r.mul(small, ratio))
    one, other = r.div(1.0, size), r.div(ratio, size)
    return r.where(first, one, other), r.where(first, r.neg(other), r.neg(one))


@_elementwise("addcmul")
def _addcmul(r: Reals, x: Pair, a: Pair, b: Pair, value: Any = 1) -> Pair:
    found = r.product(_times(r, a, value), b)
    return r.add(x[0], found[0]), r.add(x[1], found[1])


@_elementwise("addcdiv")
def _addcdiv(r: Reals, x: Pair, a: Pair, b: Pair, value: Any = 1) -> Pair:
    found = r.quotient(_times(r, a, value), b)
    return r.add(x[0], found[0]), r.add(x[1], found[1])


def _times(r: Reals, x: Pair, number: Any) -> Pair:
    number = complex(number)
    return x if number == 1 else r.product(x, (number.real, number.imag))


@_elementwise("pow")
def _pow(r: Reals, x: Pair, exponent: Pair) -> Pair | None:
    """Whole numbers as products, in NumPy's order, and roots."""
    n, im = exponent
    if isinstance(n, Value) or im != 0:
        return None
    match n:
        case 0:
            return 1.0, 0.0
        case -1:
            return _reciprocal(r, x)
        case 0.5:
            return _root(r, *x)
        case 2 | 3 | 4:
            square = r.product(x, x)
            return square if n == 2 else r.product(square, x if n == 3 else square)
    return _whole_power(r, x, int(n)) if n == int(n) and abs(n) < _MOST_FACTORS else None


#: Powers from which on NumPy takes logarithms.
_MOST_FACTORS = 100


def _whole_power(r: Reals, x: Pair, n: int) -> Pair:
    """By squaring. 0 to a positive power is 0 without a sign, and to a negative one NaN."""
    found: Pair = x if n == 1 else (1.0, 0.0)
    power, left = x, 0 if n == 1 else abs(n)
    while left:
        if left % 2:
            found = r.product(found, power)
        left //= 2
        if left:
            power = r.product(power, power)
    if n < 0:
        found = r.quotient((1.0, 0.0), found)
    is_none = r.logical_and(r.eq(x[0], 0.0), r.eq(x[1], 0.0))
    of_none = 0.0 if n > 0 else math.nan
    return r.where(is_none, of_none, found[0]), r.where(is_none, of_none, found[1])


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


@_elementwise("real")
def _real(r: Reals, x: Pair) -> Part:
    return x[0]


@_elementwise("imag")
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


@_elementwise("abs")
def _abs(r: Reals, x: Pair) -> Part:
    return r.hypot(*x)


@rule("vector_norm")
def _vector_norm(walk: Walk, instruction: Instruction) -> Rewritten:
    """The largest and the smallest modulus, of which gradients ask whether it is equal to one that is computed here."""
    (x,), settings = instruction.arguments, instruction.settings
    if abs(settings["ord"]) != math.inf or not x.size or not settings["dim"]:
        return None
    op = "amax" if settings["ord"] > 0 else "amin"
    return walk.emit(op, walk.emit("abs", x), dim=settings["dim"], keepdim=settings["keepdim"])


@_elementwise("angle")
def _angle(r: Reals, x: Pair) -> Part:
    return r.atan2(x[1], x[0])


@_elementwise("sgn")
def _sgn(r: Reals, x: Pair) -> Pair:
    """z / |z|, and 0 of 0. Where |z| is infinite, NumPy gives the side of an infinite real part, else that of
    the imaginary one, and NaN if both are infinite."""
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
    """What a write leaves: the source, in the dtype and shape of the target."""
    assert isinstance(walk, ByParts)
    (_, y), result = instruction.arguments, instruction.result
    if result.dtype.kind != "c":
        return None
    re, im = walk.parts(y, real_dtype(result.dtype))
    return walk.pair(re, im, result)


@rule("zeros_like", "zero", "fill")
def _filled(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    if instruction.result.dtype.kind != "c":
        return None
    number = complex(instruction.settings.get("value", 0))
    return walk.number_pair(number, instruction.result.dtype, instruction.result.shape)


def _truth(r: Reals, x: Pair) -> Part:
    return r.logical_or(r.ne(x[0], 0.0), r.ne(x[1], 0.0))


@rule("where", "masked_fill", "keep")
def _chosen(walk: Walk, instruction: Instruction) -> Rewritten:
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


@_elementwise("eq")
def _eq(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_and(r.eq(x[0], y[0]), r.eq(x[1], y[1]))


@_elementwise("ne")
def _ne(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_or(r.ne(x[0], y[0]), r.ne(x[1], y[1]))


@_elementwise("isnan")
def _isnan(r: Reals, x: Pair) -> Part:
    return r.logical_or(r.isnan(x[0]), r.isnan(x[1]))


@_elementwise("isinf")
def _isinf(r: Reals, x: Pair) -> Part:
    return r.logical_or(r.isinf(x[0]), r.isinf(x[1]))


@_elementwise("isfinite")
def _isfinite(r: Reals, x: Pair) -> Part:
    return r.logical_and(r.isfinite(x[0]), r.isfinite(x[1]))


@_elementwise("isreal")
def _isreal(r: Reals, x: Pair) -> Part:
    return r.eq(x[1], 0.0)


@_elementwise("logical_not")
def _logical_not(r: Reals, x: Pair) -> Part:
    return r.logical_and(r.eq(x[0], 0.0), r.eq(x[1], 0.0))


@_elementwise("logical_and")
def _logical_and(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_and(_truth(r, x), _truth(r, y))


@_elementwise("logical_or")
def _logical_or(r: Reals, x: Pair, y: Pair) -> Part:
    return r.logical_or(_truth(r, x), _truth(r, y))


# ----- functions ------------------------------------------------------------------------------------------------------


@_elementwise("exp")
def _exp(r: Reals, x: Pair) -> Pair:
    return _exponential(r, *x)


def _exponential(r: Reals, x: Part, y: Part) -> Pair:
    """e^x (cos y + i sin y), in two factors where e^x alone would overflow. e^inf has both parts infinite, with the
    signs of cos y and sin y, unless y is 0; where y has no direction, e^-inf is 0, and e^inf has an infinite real part."""
    limit = float(math.floor(math.log(float(r.limits.max)))) - 1.0
    is_large = r.gt(x, limit)
    size = r.exp(r.sub(x, r.where(is_large, limit, 0.0)))
    rest = r.where(is_large, math.exp(limit), 1.0)
    re, im = (r.mul(r.mul(size, getattr(r, p)(y)), rest) for p in ("cos", "sin"))
    im = r.where(r.eq(y, 0.0), y, im)
    nowhere = r.logical_not(r.isfinite(y))
    is_none, is_infinite = (r.logical_and(nowhere, r.eq(x, bound)) for bound in (-math.inf, math.inf))
    re = r.where(is_none, 0.0, r.where(is_infinite, math.inf, re))
    return re, r.where(is_none, r.copysign(0.0, y), im)


@_elementwise("exp2")
def _exp2(r: Reals, x: Pair) -> Pair:
    return _exponential(r, *_times(r, x, math.log(2)))


@_elementwise("log")
def _log(r: Reals, x: Pair) -> Pair:
    return _logarithm(r, *x)


@_elementwise("log2")
def _log2(r: Reals, x: Pair) -> Pair:
    re, im = _logarithm(r, *x)
    return r.mul(re, math.log2(math.e)), r.mul(im, math.log2(math.e))


@_elementwise("log10")
def _log10(r: Reals, x: Pair) -> Pair:
    re, im = _logarithm(r, *x)
    return r.mul(re, math.log10(math.e)), r.mul(im, math.log10(math.e))


def _logarithm(r: Reals, x: Part, y: Part) -> Pair:
    """log |z| + i angle(z). Near the unit circle |z| has lost the digits that its logarithm is made of; there it is half
    of log1p(|z|^2 - 1), with |z|^2 - 1 = (m - 1)(m + 1) + n^2 of the larger and the smaller part. Where |z| would
    overflow or is subnormal, the parts are multiplied by a power of two before."""
    wide, close = r.abs(x), r.abs(y)
    large, small = r.maximum(wide, close), r.minimum(wide, close)
    bits = r.limits.nmant + 2
    is_much, is_little = r.gt(large, float(r.limits.max) / 4), r.lt(large, float(r.limits.tiny) * 4)
    factor = r.where(is_much, 0.25, r.where(is_little, 2.0**bits, 1.0))
    missing = r.where(is_much, 2 * math.log(2), r.where(is_little, -bits * math.log(2), 0.0))
    size = r.hypot(x, y)
    far = r.add(r.log(r.hypot(r.mul(x, factor), r.mul(y, factor))), missing)
    excess = r.add(r.mul(r.sub(large, 1.0), r.add(large, 1.0)), r.mul(small, small))
    near = r.mul(r.log1p(excess), 0.5)
    is_near = r.logical_and(r.gt(size, 0.5), r.lt(size, 2.0))
    return r.where(is_near, near, far), r.atan2(y, x)


@_elementwise("sqrt")
def _sqrt(r: Reals, x: Pair) -> Pair:
    return _root(r, *x)


@_elementwise("rsqrt")
def _rsqrt(r: Reals, x: Pair) -> Pair:
    return _reciprocal(r, _root(r, *x))


def _root(r: Reals, x: Part, y: Part) -> Pair:
    """The root with a positive real part: t = sqrt((|z| + |x|) / 2) is the larger of both parts, and |y| / 2t the smaller.
    Its imaginary part has the sign of y, that of a zero too."""
    wide, close = r.abs(x), r.abs(y)
    large = r.maximum(wide, close)
    exponent = r.limits.nmant // 2 * 2 + 2
    is_much, is_little = r.gt(large, float(r.limits.max) / 16), r.lt(large, float(r.limits.tiny) * 2.0**exponent)
    factor = r.where(is_much, 2.0**-4, r.where(is_little, 2.0**exponent, 1.0))
    back = r.where(is_much, 4.0, r.where(is_little, 2.0 ** (-exponent // 2), 1.0))
    a, b = r.mul(wide, factor), r.mul(close, factor)
    more = r.sqrt(r.mul(r.add(r.hypot(a, b), a), 0.5))
    less = r.where(r.eq(close, 0.0), r.mul(a, 0.0), r.div(b, r.mul(more, 2.0)))  # NaN of NaN
    more, less = r.mul(more, back), r.mul(less, back)
    left = r.lt(x, 0.0)
    re, im = r.where(left, less, more), r.where(left, more, less)
    # an infinite imaginary part makes both parts infinite; an infinite real one alone leaves 0 for the other
    endless = r.eq(close, math.inf)
    only = r.logical_and(r.eq(wide, math.inf), r.isfinite(close))
    re = r.where(endless, math.inf, r.where(only, r.where(left, 0.0, math.inf), re))
    im = r.where(endless, math.inf, r.where(only, r.where(left, math.inf, 0.0), im))
    is_lost = r.logical_and(r.eq(wide, math.inf), r.isnan(close))
    re = r.where(is_lost, r.where(left, math.nan, math.inf), re)
    im = r.where(is_lost, r.where(left, math.inf, math.nan), im)
    return re, r.copysign(im, y)


@_elementwise("sigmoid")
def _sigmoid(r: Reals, x: Pair) -> Pair:
    re, im = _exponential(r, *r.product((-1.0, 0.0), x))
    return r.quotient((1.0, 0.0), (r.add(re, 1.0), r.add(im, 0.0)))


# ----- hyperbolic and trigonometric functions -------------------------------------------------------------------------


@_elementwise("sinh")
def _sinh(r: Reals, x: Pair) -> Pair:
    return _hyperbolic_sine(r, *x, math.inf)


@_elementwise("cosh")
def _cosh(r: Reals, x: Pair) -> Pair:
    return _hyperbolic_cosine(r, *x)


@_elementwise("tanh")
def _tanh(r: Reals, x: Pair) -> Pair:
    return _hyperbolic_tangent(r, *x)


@_elementwise("sin")
def _sin(r: Reals, x: Pair) -> Pair:
    """-i sinh(i z)."""
    re, im = _hyperbolic_sine(r, r.neg(x[1]), x[0], -math.inf)
    return im, r.neg(re)


@_elementwise("cos")
def _cos(r: Reals, x: Pair) -> Pair:
    """cosh(i z)."""
    return _hyperbolic_cosine(r, r.neg(x[1]), x[0])


@_elementwise("tan")
def _tan(r: Reals, x: Pair) -> Pair:
    """-i tanh(i z)."""
    re, im = _hyperbolic_tangent(r, r.neg(x[1]), x[0])
    return im, r.neg(re)


def _half_exponentials(r: Reals, x: Part) -> tuple[Part, Part, Part]:
    """sinh x, cosh x, and a factor of both, which is not 1 where they alone would overflow."""
    limit = float(math.floor(math.log(float(r.limits.max)))) - 1.0
    size = r.abs(x)
    is_large = r.gt(size, limit)
    much = r.exp(r.where(is_large, r.sub(size, limit), 0.0))
    sine = r.where(is_large, r.copysign(much, x), r.sinh(x))
    return sine, r.where(is_large, much, r.cosh(x)), r.where(is_large, math.exp(limit) / 2, 1.0)


def _hyperbolic_sine(r: Reals, x: Part, y: Part, lost: float) -> Pair:
    """sinh x cos y + i cosh x sin y. Where y has no direction, 0 stays 0, and the real part is `lost` of an infinite x."""
    sine, cosine, rest = _half_exponentials(r, x)
    re = r.mul(r.mul(sine, r.cos(y)), rest)
    im = r.mul(r.mul(cosine, r.sin(y)), rest)
    nowhere = r.logical_not(r.isfinite(y))
    re = r.where(r.logical_and(nowhere, r.isinf(x)), lost, re)
    return r.where(r.logical_and(nowhere, r.eq(x, 0.0)), x, re), r.where(r.eq(y, 0.0), y, im)


def _hyperbolic_cosine(r: Reals, x: Part, y: Part) -> Pair:
    """cosh x cos y + i sinh x sin y."""
    sine, cosine, rest = _half_exponentials(r, x)
    re = r.mul(r.mul(cosine, r.cos(y)), rest)
    im = r.mul(r.mul(sine, r.sin(y)), rest)
    nowhere = r.logical_not(r.isfinite(y))
    im = r.where(r.eq(y, 0.0), r.mul(r.copysign(1.0, x), y), im)
    im = r.where(r.logical_and(nowhere, r.eq(x, 0.0)), 0.0, im)
    re = r.where(r.logical_and(nowhere, r.isinf(x)), math.inf, re)
    return re, im


def _hyperbolic_tangent(r: Reals, x: Part, y: Part) -> Pair:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), and for large x what is left of it."""
    limit = (r.limits.maxexp - 1) * math.log(2) / 2
    size = r.abs(x)
    is_large = r.gt(size, limit)
    inside = r.where(is_large, 0.0, x)
    sine, cosine = r.sinh(inside), r.cosh(inside)
    s, c = r.sin(y), r.cos(y)
    below = r.add(r.mul(sine, sine), r.mul(c, c))
    turned = r.mul(s, c)
    re = r.where(is_large, r.copysign(1.0, x), r.div(r.mul(sine, cosine), below))
    far = r.mul(r.mul(turned, 4.0), r.exp(r.mul(size, -2.0)))
    im = r.where(is_large, far, r.div(turned, below))
    # an infinite x: 1, with a zero on the side of sin 2y, or of y where that is not known
    side = r.where(r.logical_and(r.isfinite(y), r.gt(r.abs(y), 1.0)), turned, y)
    im = r.where(r.isinf(x), r.copysign(0.0, side), im)
    im = r.where(r.eq(y, 0.0), y, im)
    lost = r.logical_and(r.logical_not(r.isfinite(y)), r.logical_not(r.isinf(x)))
    return r.where(lost, r.where(r.eq(x, 0.0), x, math.nan), re), im
