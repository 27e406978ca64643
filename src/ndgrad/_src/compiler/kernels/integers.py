"""Integers and booleans of any NumPy dtype, with NumPy's arithmetic: it wraps around, and dividing by zero gives 0.

A `Whole` is a vector of them; its dtype decides if it has signs. A boolean is a byte, 0 or 1. Division truncates in the
processor and rounds down in Python and NumPy. The processor must never divide by zero, or the least number by -1, which
would stop the program. Up to 32 bits, quotients are computed in double precision, which is exact there and has vector
instructions. NumPy warns if a divisor is zero. Native code does not, but the values are NumPy's.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.maths.values import Mask, Writer
from ndgrad._src.compiler.native.ir import SIZES, TYPES, Function, Vector


class Whole:
    """A vector of integers, or of booleans as bytes."""

    __slots__ = ("dtype", "f", "lanes", "name", "type")

    def __init__(self, f: Function, dtype: str, lanes: int, value: str | int) -> None:
        self.f = f
        self.dtype = dtype
        self.lanes = lanes
        self.type = Vector(TYPES[dtype], lanes)
        self.name = value if isinstance(value, str) else self.type.constant(_signed(value, self.width))

    @property
    def width(self) -> int:
        return 8 * SIZES[TYPES[self.dtype]]

    @property
    def signed(self) -> bool:
        return self.dtype.startswith("int")

    def __str__(self) -> str:
        return self.name

    def like(self, value: Whole | int | str) -> Whole:
        return value if isinstance(value, Whole) else Whole(self.f, self.dtype, self.lanes, value)

    def _with(self, op: str, other: Whole | int) -> Whole:
        return self.like(self.f.set(f"{op} {self.type} {self}, {self.like(other)}"))

    # The + and * of booleans are `or` and `and`, as in NumPy.

    def __add__(self, other: Whole | int) -> Whole:
        return self._with("or" if self.dtype == "bool" else "add", other)

    def __sub__(self, other: Whole | int) -> Whole:
        return self._with("sub", other)

    def __mul__(self, other: Whole | int) -> Whole:
        return self._with("and" if self.dtype == "bool" else "mul", other)

    def __and__(self, other: Whole | int) -> Whole:
        return self._with("and", other)

    def __or__(self, other: Whole | int) -> Whole:
        return self._with("or", other)

    def __xor__(self, other: Whole | int) -> Whole:
        return self._with("xor", other)

    def __neg__(self) -> Whole:
        return self.like(0) - self

    def __invert__(self) -> Whole:
        return self ^ (1 if self.dtype == "bool" else -1)

    def _compare(self, predicate: str, other: Whole | int) -> Mask:
        if predicate not in ("eq", "ne"):
            predicate = ("s" if self.signed else "u") + predicate
        return mask(self.f, self.lanes, self.f.set(f"icmp {predicate} {self.type} {self}, {self.like(other)}"))

    def __lt__(self, other: Whole | int) -> Mask:
        return self._compare("lt", other)

    def __le__(self, other: Whole | int) -> Mask:
        return self._compare("le", other)

    def __gt__(self, other: Whole | int) -> Mask:
        return self._compare("gt", other)

    def __ge__(self, other: Whole | int) -> Mask:
        return self._compare("ge", other)

    def equals(self, other: Whole | int) -> Mask:
        return self._compare("eq", other)

    def differs(self, other: Whole | int) -> Mask:
        return self._compare("ne", other)


def _signed(value: int, width: int) -> int:
    """Return a constant as signed, as LLVM requires."""
    half = 1 << (width - 1)
    return (int(value) + half) % (2 * half) - half


def mask(f: Function, lanes: int, name: str) -> Mask:
    return Mask(Writer(f, Vector("double", lanes), fma=False), name)


def truth(f: Function, lanes: int, value: str) -> Mask:
    """Return the condition that a boolean, stored as a byte, is true."""
    type = Vector("i8", lanes)
    return mask(f, lanes, f.set(f"icmp ne {type} {value}, {type.constant(0)}"))


def boolean(condition: Mask) -> str:
    """Return a condition as bytes."""
    w = condition.w
    return w.f.set(f"zext {w.type.mask} {condition} to {Vector('i8', w.type.lanes)}")


def choose(condition: Mask, yes: Whole, no: Whole | int) -> Whole:
    return yes.like(
        yes.f.set(f"select {condition.w.type.mask} {condition}, {yes.type} {yes}, {yes.type} {yes.like(no)}")
    )


# ----- division -------------------------------------------------------------------------------------------------------


def _truncated(x: Whole, y: Whole) -> Whole:
    """Return x / y rounded towards 0; 0 where y is 0."""
    zero = y.equals(0)
    if x.width <= 32:
        wide = Vector("double", x.lanes)
        to = "sitofp" if x.signed else "uitofp"
        safe = choose(zero, x.like(1), y)
        a, b = (x.f.set(f"{to} {x.type} {v} to {wide}") for v in (x, safe))
        # The least number divided by -1 does not fit. It wraps around, through a wider integer.
        long = Vector("i64", x.lanes)
        divided = x.f.set(f"fptosi {wide} {x.f.set(f'fdiv {wide} {a}, {b}')} to {long}")
        return choose(zero, x.like(0), x.like(x.f.set(f"trunc {long} {divided} to {x.type}")))
    if not x.signed:
        return choose(zero, x.like(0), x._with("udiv", choose(zero, x.like(1), y)))
    minus = y.equals(-1)
    quotient = x._with("sdiv", choose(zero | minus, x.like(1), y))
    return choose(zero, x.like(0), choose(minus, -x, quotient))


def trunc_divide(x: Whole, y: Whole) -> Whole:
    return _truncated(x, y)


def fmod(x: Whole, y: Whole) -> Whole:
    """Return the remainder of truncated division, with the sign of x; 0 where y is 0."""
    return choose(y.equals(0), x.like(0), x - _truncated(x, y) * y)


def remainder(x: Whole, y: Whole) -> Whole:
    """Return the remainder of division rounded down, with the sign of y; 0 where y is 0."""
    left = fmod(x, y)
    if not x.signed:
        return left
    return choose(_other_side(left, y), left + y, left)


def floor_divide(x: Whole, y: Whole) -> Whole:
    """Return the quotient rounded down; 0 where y is 0."""
    quotient = _truncated(x, y)
    if not x.signed:
        return quotient
    left = x - quotient * y
    return choose(_other_side(left, y) & y.differs(0), quotient - 1, quotient)


def _other_side(left: Whole, y: Whole) -> Mask:
    return left.differs(0) & ((left ^ y) < 0)


# ----- shifts, and the like -------------------------------------------------------------------------------------------


def left_shift(x: Whole, y: Whole) -> Whole:
    """Return x << y, and 0 where y is not between 0 and the width."""
    inside = _within(y)
    return choose(inside, x._with("shl", choose(inside, y, 0)), 0)


def right_shift(x: Whole, y: Whole) -> Whole:
    """Return x >> y. If y is not between 0 and the width: 0, or -1 for a negative x."""
    if not x.signed:
        inside = _within(y)
        return choose(inside, x._with("lshr", choose(inside, y, 0)), 0)
    return x._with("ashr", choose(_within(y), y, x.width - 1))


def _within(y: Whole) -> Mask:
    return mask(y.f, y.lanes, y.f.set(f"icmp ult {y.type} {y}, {y.like(y.width)}"))


def absolute(x: Whole) -> Whole:
    return choose(x < 0, -x, x) if x.signed else x


def sign(x: Whole) -> Whole:
    return choose(x > 0, x.like(1), choose(x < 0, x.like(-1), 0) if x.signed else x.like(0))
