"""Formulas as Python expressions: values of a vector type whose operators write instructions.

A `Writer` writes into one function, for one floating-point type. Its values are `Real` (floats), `Bits` (integers of
the same width) and `Mask` (one bit a lane). Numbers are constants in all lanes. So `x * x + 1.0` writes a
multiplication and an addition:

    def hypotenuse(x: Real, y: Real) -> Real:
        return sqrt(x * x + y * y)

Comparisons are those of IEEE and Python: with a NaN only `!=` is true. The compiler fuses and reorders nothing here.
`muladd(a, b, c)` is a b + c with one rounding if the processor has such an instruction, else with two. A formula uses
it if the difference does not matter, and `pairs.two_product` if it does.

The operators of values ask their writer for the text of an instruction, so a writer of another language
(ndgrad._src.compiler.cuda.values) gives the same formulas there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import overload

from ndgrad._src.compiler.native.ir import SIZES, Function, Vector


class Writer:
    """The target of formulas: a function, a floating-point type, and True if a fused multiply-add is an instruction
    there.

    Processors without it (x86 before 2013) also round to integers by a call of the C library, so this flag decides
    that, too.
    """

    #: Functions that the language has in addition to those of the maths library.
    own: frozenset[str] = frozenset()

    def __init__(self, f: Function, type: Vector, fma: bool, wide: bool = False) -> None:
        self.f = f
        self.type = type
        self.fma = fma
        self.single = type.element == "float"
        #: Bits of the fraction, and the bias of the exponent.
        self.fraction, self.bias = (23, 127) if self.single else (52, 1023)
        #: Adding it rounds a float to an integer and leaves that in the low bits.
        self.shifter = 1.5 * 2.0**self.fraction
        self.precision = "float32" if self.single else "float64"
        #: The set of polynomials: shorter ones if double precision is used for results in single precision.
        self.degrees = "wide" if wide else self.precision

    def real(self, x: Real | float | str) -> Real:
        if isinstance(x, Real):
            return x
        return Real(self, x if isinstance(x, str) else self.type.constant(x))

    def bits(self, x: Bits | int) -> Bits:
        if isinstance(x, Bits):
            return x
        half = 1 << (8 * SIZES[self.type.element] - 1)
        return Bits(self, self.type.integer.constant((x + half) % (2 * half) - half))  # LLVM's constants are signed

    def set(self, instruction: str) -> str:
        return self.f.set(instruction)

    # ----- instructions, which return the name of the result -----

    def binary(self, op: str, x: Real, y: Real) -> str:
        return self.set(f"{op} {self.type} {x}, {y}")

    def negated(self, x: Real) -> str:
        return self.set(f"fneg {self.type} {x}")

    def compared(self, predicate: str, x: Real, y: Real) -> str:
        return self.set(f"fcmp {predicate} {self.type} {x}, {y}")

    def combine_masks(self, op: str, a: Mask, b: Mask) -> str:
        """Combine masks by and, or, xor."""
        return self.set(f"{op} {self.type.mask} {a}, {b}")

    def always(self) -> Mask:
        """Return a mask that is true in every lane."""
        return Mask(self, self.type.mask.constant(1))

    def select(self, mask: Mask, yes: Real, no: Real) -> str:
        return self.set(f"select {self.type.mask} {mask}, {self.type} {yes}, {self.type} {no}")

    def sign_bit(self, x: Real) -> str:
        return self.set(f"icmp slt {self.type.integer} {x.bits()}, {self.type.integer.constant(0)}")

    def intrinsic(self, name: str, *arguments: Real | float) -> Real:
        given = [f"{self.type} {self.real(a)}" for a in arguments]
        return Real(self, self.f.call(self.type, f"llvm.{name}.{self.type.suffix}", *given))

    def call(self, name: str, *arguments: Real) -> Real | None:
        """Call a function of the language itself; None for those of the maths library."""
        return None

    def bits_of(self, number: float) -> int:
        """Return the bits of a constant, as an unsigned integer."""
        return (
            struct.unpack("<I", struct.pack("<f", number))[0]
            if self.single
            else struct.unpack("<Q", struct.pack("<d", number))[0]
        )

    def power_of_two(self, n: Real) -> Real:
        """Return 2^n for integers n within the range of normal exponents."""
        return self.shifted(n).scale()

    def shifted(self, n: Real) -> Bits:
        """Return the bits of n + shifter: n itself in the low ones, for |n| < 2^(fraction - 2)."""
        return (n + self.shifter).bits()

    @property
    def wide(self) -> Writer:
        """Return the same lanes in double precision."""
        return Writer(self.f, Vector("double", self.type.lanes), self.fma, wide=True)

    def rarely(self, mask: Mask, common: Sequence[Real], rare: Callable[[], Sequence[Real]]) -> list[Real]:
        """Return values that are `common` where the mask is false and `rare` where it is true. The latter run only if
        some lane is true.
        """
        f = self.f
        before, there, after = f.block, f.fresh("rare"), f.fresh("after")
        f.branch(self.any(mask), there, after)
        f.label(there)
        chosen = [mask.choose(new, old) for new, old in zip(rare(), common)]
        there = f.block
        f.jump(after)
        f.label(after)
        return [
            Real(self, f.set(f"phi {self.type} [{old}, %{before}], [{new}, %{there}]"))
            for old, new in zip(common, chosen)
        ]

    def any(self, mask: Mask) -> str:
        """Return an i1 that is true if some lane is true."""
        n = self.type.lanes
        if n == 1:
            return mask.name
        whole = self.set(f"bitcast <{n} x i1> {mask} to i{n}")
        return self.set(f"icmp ne i{n} {whole}, 0")


class _Value:
    __slots__ = ("name", "w")

    def __init__(self, w: Writer, name: str) -> None:
        self.w = w
        self.name = name

    def __str__(self) -> str:
        return self.name


class Mask(_Value):
    """True or false in each lane."""

    __slots__ = ()

    def _apply_op(self, op: str, other: Mask) -> Mask:
        return Mask(self.w, self.w.combine_masks(op, self, other))

    def __and__(self, other: Mask) -> Mask:
        return self._apply_op("and", other)

    def __or__(self, other: Mask) -> Mask:
        return self._apply_op("or", other)

    def __xor__(self, other: Mask) -> Mask:
        return self._apply_op("xor", other)

    def __invert__(self) -> Mask:
        return self._apply_op("xor", self.w.always())

    def __bool__(self) -> bool:
        raise TypeError(
            "a mask is true in some lanes and false in others: use `choose` instead of a branch [nd-compiler]"
        )

    @overload
    def choose(self, yes: Bits, no: Bits | int) -> Bits: ...
    @overload
    def choose(self, yes: Real | float, no: Real | float) -> Real: ...
    def choose(self, yes: Real | Bits | float, no: Real | Bits | float) -> Real | Bits:
        """Return `yes` where true, else `no`."""
        if isinstance(yes, Bits):
            w, bits = yes.w, yes.w.type.integer
            return Bits(w, w.set(f"select {w.type.mask} {self}, {bits} {yes}, {bits} {w.bits(no)}"))  # type: ignore[arg-type]
        w = yes.w if isinstance(yes, Real) else no.w if isinstance(no, Real) else self.w
        return Real(w, w.select(self, w.real(yes), w.real(no)))  # type: ignore[arg-type]


class Bits(_Value):
    """Integers, with the arithmetic of their width; shifts to the right bring in zeros."""

    __slots__ = ()

    def _apply_op(self, op: str, other: Bits | int) -> Bits:
        return Bits(self.w, self.w.set(f"{op} {self.w.type.integer} {self}, {self.w.bits(other)}"))

    def __add__(self, other: Bits | int) -> Bits:
        return self._apply_op("add", other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self._apply_op("sub", other)

    def __and__(self, other: Bits | int) -> Bits:
        return self._apply_op("and", other)

    def __or__(self, other: Bits | int) -> Bits:
        return self._apply_op("or", other)

    def __xor__(self, other: Bits | int) -> Bits:
        return self._apply_op("xor", other)

    def __lshift__(self, other: Bits | int) -> Bits:
        return self._apply_op("shl", other)

    def __rshift__(self, other: Bits | int) -> Bits:
        return self._apply_op("lshr", other)

    def equals(self, other: Bits | int) -> Mask:
        return Mask(self.w, self.w.set(f"icmp eq {self.w.type.integer} {self}, {self.w.bits(other)}"))

    def real(self) -> Real:
        """Return the float with these bits."""
        w = self.w
        return Real(w, w.set(f"bitcast {w.type.integer} {self} to {w.type}"))

    def scale(self) -> Real:
        """Return 2^n as a float, for an integer n in the low bits. Bits above the exponent's do not matter."""
        return ((self << self.w.fraction) + self.w.bits_of(1.0)).real()


class Real(_Value):
    """Floats."""

    __slots__ = ()

    def _apply_op(self, op: str, x: Real | float, y: Real | float) -> Real:
        return Real(self.w, self.w.binary(op, self.w.real(x), self.w.real(y)))

    def __add__(self, other: Real | float) -> Real:
        return self._apply_op("fadd", self, other)

    def __radd__(self, other: float) -> Real:
        return self._apply_op("fadd", other, self)

    def __sub__(self, other: Real | float) -> Real:
        return self._apply_op("fsub", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._apply_op("fsub", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self._apply_op("fmul", self, other)

    def __rmul__(self, other: float) -> Real:
        return self._apply_op("fmul", other, self)

    def __truediv__(self, other: Real | float) -> Real:
        return self._apply_op("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._apply_op("fdiv", other, self)

    def __neg__(self) -> Real:
        return Real(self.w, self.w.negated(self))

    def _compare(self, predicate: str, other: Real | float) -> Mask:
        return Mask(self.w, self.w.compared(predicate, self, self.w.real(other)))

    def __lt__(self, other: Real | float) -> Mask:
        return self._compare("olt", other)

    def __le__(self, other: Real | float) -> Mask:
        return self._compare("ole", other)

    def __gt__(self, other: Real | float) -> Mask:
        return self._compare("ogt", other)

    def __ge__(self, other: Real | float) -> Mask:
        return self._compare("oge", other)

    def equals(self, other: Real | float) -> Mask:
        return self._compare("oeq", other)

    def differs(self, other: Real | float) -> Mask:
        return self._compare("une", other)

    def not_at_most(self, other: Real | float) -> Mask:
        """True if greater, or if one of them is NaN."""
        return self._compare("ugt", other)

    def not_at_least(self, other: Real | float) -> Mask:
        """True if less, or if one of them is NaN."""
        return self._compare("ult", other)

    def is_nan(self) -> Mask:
        return self._compare("uno", self)

    def negative(self) -> Mask:
        """Return the sign bit, also of -0 and of NaN."""
        return Mask(self.w, self.w.sign_bit(self))

    def bits(self) -> Bits:
        return Bits(self.w, self.w.set(f"bitcast {self.w.type} {self} to {self.w.type.integer}"))

    def wide(self) -> Real:
        """Return the value in double precision."""
        wide = self.w.wide
        return self if not self.w.single else Real(wide, wide.set(f"fpext {self.w.type} {self} to {wide.type}"))

    def narrow(self) -> Real:
        """Return the value rounded to single precision."""
        w = Writer(self.w.f, Vector("float", self.w.type.lanes), self.w.fma)
        return Real(w, w.set(f"fptrunc {self.w.type} {self} to {w.type}"))


# ----- functions of one instruction or a few --------------------------------------------------------------------------


def muladd(a: Real, b: Real | float, c: Real | float) -> Real:
    """Return a b + c, rounded once if that is an instruction, else twice."""
    return a.w.intrinsic("fma", a, b, c) if a.w.fma else a * b + c


def absolute(x: Real) -> Real:
    return x.w.intrinsic("fabs", x)


def copysign(size: Real | float, sign: Real) -> Real:
    return sign.w.intrinsic("copysign", size, sign)


def sqrt(x: Real) -> Real:
    return x.w.intrinsic("sqrt", x)


def lesser(x: Real, y: Real | float) -> Real:
    """Return the lesser; y where x is NaN. One instruction."""
    return (x < y).choose(x, y)


def greater(x: Real, y: Real | float) -> Real:
    """Return the greater; y where x is NaN. One instruction."""
    return (x > y).choose(x, y)


def bounded(x: Real, low: float, high: float) -> Real:
    """Return x within the bounds; a NaN becomes one of them."""
    return lesser(greater(x, low), high)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Return c0 + c1 x + c2 x^2 + ..., with even and odd powers separate, which shortens the dependency chain."""
    w = x.w
    if len(coefficients) <= 3:
        return _horner(x, coefficients)
    squared = x * x
    even, odd = coefficients[::2], coefficients[1::2]
    return (
        muladd(_horner(squared, odd), x, _horner(squared, even))
        if len(odd) > 1
        else muladd(w.real(odd[0]), x, _horner(squared, even))
    )


def _horner(x: Real, coefficients: Sequence[float]) -> Real:
    total = x.w.real(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = muladd(total, x, c)
    return total


def with_sign(x: Real, sign: Bits) -> Real:
    """Return x with its sign flipped where the bit is set."""
    return (x.bits() ^ sign).real()
