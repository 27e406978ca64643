"""Reduce angles to the range from -pi/4 to pi/4: x = n pi/2 + r, r a pair.

Up to `_NEAR`, n is found by rounding x / (pi/2) and r by subtracting n times pi/2, given as a sum of constants, each
product exact. The first difference cancels exactly, and two more constants leave a pair that is correct to the last
place, even if x is close to a multiple of pi/2.

Beyond (one call for all lanes, made only if some lane is that large), the method of Payne and Hanek applies: x = M 2^e
with an integer M. Only 192 bits of 2/pi matter, since those before them give multiples of 4 and those after them less
than 2^-137. M times these bits, modulo 2^192, has n mod 4 in its two highest bits and x / (pi/2) - n after them.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.maths.coefficients import CONSTANTS, TWO_OVER_PI
from ndgrad._src.compiler.kernels.maths.pairs import Pair, two_product, two_sum
from ndgrad._src.compiler.kernels.maths.values import Bits, Mask, Real, Writer, absolute, muladd
from ndgrad._src.compiler.native.ir import Function, Vector

_NEAR = {"float64": 1.0e6, "float32": 1.0e5}


def symbol(name: str, type: Vector) -> str:
    return f"maths.{name}.{type.suffix}"


def reduced(x: Real) -> tuple[Real, Pair]:
    """Return n, as a float, and r. For an infinite x, r is NaN."""
    w = x.w
    n = muladd(x, 0.6366197723675814, w.shifter) - w.shifter
    return _beyond(x, n, _fused(x, n) if w.fma else _exact(x, n))


def _fused(x: Real, n: Real) -> Pair:
    """Subtract n pi/2, with pi/2 in three floats of full length: with one rounding, x - n c1 is exact."""
    c1, c2, c3 = CONSTANTS["half_pi_" + x.w.precision]
    taken = two_product(n, x.w.real(-c2))
    r = two_sum(muladd(n, -c1, x), taken.hi)
    return Pair(r.hi, muladd(n, -c3, r.lo + taken.lo))


def _exact(x: Real, n: Real) -> Pair:
    """Subtract n pi/2, with pi/2 in floats so short that their products with n are exact."""
    assert not x.w.single, "without fused multiply-add, single precision is computed in double"
    c1, c2, c3, c4 = CONSTANTS["half_pi_short_float64"]
    first = two_sum(x - n * c1, n * -c2)
    second = two_sum(first.hi, n * -c3)
    return two_sum(second.hi, (first.lo + second.lo) - n * c4)


def _beyond(x: Real, n: Real, r: Pair) -> tuple[Real, Pair]:
    """Replace n and r where x is large."""
    w = x.w
    f, type = w.f, w.type

    def far() -> list[Real]:
        f.needed.append(("large_angle", type))
        triple = f"{{{type}, {type}, {type}}}"
        found = f.set(f"call {triple} @{symbol('large_angle', type)}({type} {x})")
        return [Real(w, f.set(f"extractvalue {triple} {found}, {i}")) for i in range(3)]

    n, high, low = w.rarely(absolute(x) > _NEAR[w.precision], (n, r.hi, r.lo), far)
    return n, Pair(high, low)


# ----- large angles ---------------------------------------------------------------------------------------------------


def large_angle(type: Vector, fma: bool) -> Function:
    """Write n, r.hi and r.lo of every lane, one after the other."""
    triple = f"{{{type}, {type}, {type}}}"
    f = Function(symbol("large_angle", type), f"{type} %x", triple, "cold noinline optnone nounwind", "internal")
    if type == Vector("double"):
        parts = _payne_hanek(f, fma)
    else:
        scalar, element = Vector("double"), Vector(type.element)
        f.needed.append(("large_angle", scalar))
        places = [f.set(f"alloca {type}") for _ in range(3)]
        f.store(type, "%x", places[0])
        with f.loop(str(type.lanes)) as lane:
            addresses = [f.address(type.element, place, lane) for place in places]
            x = f.load(element, addresses[0])
            if type.element == "float":
                x = f.set(f"fpext float {x} to double")
            found = f.set(f"call {{double, double, double}} @{symbol('large_angle', scalar)}(double {x})")
            values = [f.set(f"extractvalue {{double, double, double}} {found}, {i}") for i in range(3)]
            if type.element == "float":
                values = _narrowed(f, values)
            for value, address in zip(values, addresses):
                f.store(element, value, address)
        parts = [f.load(type, place) for place in places]
    whole = "poison"
    for i, part in enumerate(parts):
        whole = f.set(f"insertvalue {triple} {whole}, {type} {part}, {i}")
    f.returns(f"{triple} {whole}")
    return f


def _narrowed(f: Function, values: list[str]) -> list[str]:
    """Return the same pair in single precision."""
    n, hi, lo = values
    short = f.set(f"fptrunc double {hi} to float")
    left = f.set(f"fsub double {hi}, {f.set(f'fpext float {short} to double')}")
    rest = f.set(f"fadd double {left}, {lo}")
    return [f.set(f"fptrunc double {n} to float"), short, f.set(f"fptrunc double {rest} to float")]


def table() -> str:
    """Return the bits of 2/pi as a constant of the module."""
    words = ", ".join(f"i64 {word - (1 << 64) if word >> 63 else word}" for word in TWO_OVER_PI)
    return f"@maths.two_over_pi = internal constant [{len(TWO_OVER_PI)} x i64] [{words}]"


def _payne_hanek(f: Function, fma: bool) -> list[str]:
    w = Writer(f, Vector("double"), fma)
    x = w.real("%x")
    size = absolute(x).bits()
    whole = f.set(f"zext i64 {(size & ((1 << 52) - 1)) | (1 << 52)} to i128")
    # e is the exponent minus 1075. The required bits of 2/pi, after its 128 zeros, start with number e + 126.
    start = (size >> 52) + (126 - 1075)
    # Lanes that are not large are computed too.
    start = Bits(w, f.call("i64", "llvm.smax.i64", f"i64 {start}", "i64 0"))
    index, shift = start >> 6, start & 63
    words = []
    for i in range(4):
        address = f.set(f"getelementptr i64, ptr @maths.two_over_pi, i64 {index + i}")
        words.append(f.set(f"load i64, ptr {address}"))
    product = None
    parts = []
    for i in (2, 1, 0):  # from the lowest word up, with a carry above 64 bits
        word = f.call("i64", "llvm.fshl.i64", f"i64 {words[i]}", f"i64 {words[i + 1]}", f"i64 {shift}")
        long = f.set(f"mul i128 {f.set(f'zext i64 {word} to i128')}, {whole}")
        product = long if product is None else f.set(f"add i128 {long}, {f.set(f'lshr i128 {product}, 64')}")
        parts.append(f.set(f"and i128 {product}, {(1 << 64) - 1}"))
    turns = f.set(f"or i128 {f.set(f'shl i128 {parts[2]}, 64')}, {parts[1]}")  # two bits of n, 126 after the point
    n = f.set(f"lshr i128 {f.set(f'add i128 {turns}, {1 << 125}')}, 126")
    rest = f.set(f"sub i128 {turns}, {f.set(f'shl i128 {n}, 126')}")
    below = f.set(f"ashr i128 {rest}, 127")
    distance = f.set(f"sub i128 {f.set(f'xor i128 {rest}, {below}')}, {below}")
    pieces = []
    for low, width in ((75, 51), (25, 50), (0, 25)):
        piece = f.set(f"and i128 {f.set(f'lshr i128 {distance}, {low}')}, {(1 << width) - 1}")
        number = f.set(f"sitofp i64 {f.set(f'trunc i128 {piece} to i64')} to double")
        pieces.append(w.real(number) * 2.0 ** (low - 126))
    total = two_sum(pieces[0], pieces[1])
    c1, c2, _ = CONSTANTS["half_pi_float64"]
    r = Pair(total.hi, total.lo + pieces[2]) * Pair(w.real(c1), w.real(c2))
    turned = Mask(w, f.set(f"icmp slt i128 {rest}, 0")) ^ x.negative()
    count = w.real(f.set(f"sitofp i64 {f.set(f'trunc i128 {n} to i64')} to double"))
    nothing = x * 0.0  # NaN where x is infinite
    return [
        str(x.negative().choose(-count, count)),
        str(turned.choose(-r.hi, r.hi) + nothing),
        str(turned.choose(-r.lo, r.lo)),
    ]
