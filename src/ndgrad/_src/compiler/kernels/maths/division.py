"""fmod, remainder, floor_divide of floats, exactly.

fmod(x, y) = |x| - q |y| with the sign of x and q = trunc(|x| / |y|). The quotient rounded to a float may be one too
large, which shows as a negative remainder. The remainder itself is a float, so one fused multiply-add computes it
exactly (or two_product without that instruction). That holds while q fits into the fraction. Larger quotients (one call
for all lanes, made only if there are some) use long division: the fractions as integers, eleven bits at a time.

remainder has the sign of y, and floor_divide rounds down, both as Python and NumPy define them.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.maths.angles import symbol
from ndgrad._src.compiler.kernels.maths.pairs import two_product
from ndgrad._src.compiler.kernels.maths.rounding import floor, trunc
from ndgrad._src.compiler.kernels.maths.values import Bits, Real, Writer, absolute, copysign, muladd
from ndgrad._src.compiler.native.ir import Function, Vector


def fmod(x: Real, y: Real) -> Real:
    if x.w.single:
        return fmod(x.wide(), y.wide()).narrow()
    w = x.w
    a, b = absolute(x), absolute(y)
    quotient = a / b
    q = trunc(quotient)
    if w.degrees == "wide":  # few enough bits for q b to be exact
        limit, left = 2.0**28, a - q * b
    elif w.fma:
        limit, left = 2.0**52, muladd(-q, b, a)
    else:
        taken = two_product(q, b)
        limit, left = 2.0**52, (a - taken.hi) - taken.lo
    left = (left < 0.0).choose(left + b, left)
    left = (a < b).choose(a, left)
    # Infinite quotients come from an infinite x or from y = 0, and are NaN already.
    long = (quotient >= limit) & (a < float("inf")) & (b > 0.0)
    if w.degrees != "wide" and not w.fma:
        long = long | ((a >= b) & (b > 0.0) & ((b < 2.0**-900) | (a > 2.0**900)) & (a < float("inf")))
    f, type = w.f, w.type

    def by_hand() -> list[Real]:
        f.needed.append(("long_remainder", type))
        return [Real(w, f.set(f"call {type} @{symbol('long_remainder', type)}({type} {a}, {type} {b})"))]

    return copysign(w.rarely(long, [left], by_hand)[0], x)


def remainder(x: Real, y: Real) -> Real:
    """Return the remainder, which has the sign of y and lies between 0 and y. A zero has the sign of y too."""
    left = fmod(x, y)
    other_side = (left < 0.0) ^ (y < 0.0)
    return left.equals(0.0).choose(copysign(0.0, y), other_side.choose(left + y, left))


def floor_divide(x: Real, y: Real) -> Real:
    """Return the quotient of x less its remainder, an integer up to rounding. Division by 0 equals x / y."""
    left = fmod(x, y)
    plain = x / y
    quotient = (x - left) / y
    quotient = (left.differs(0.0) & ((left < 0.0) ^ (y < 0.0))).choose(quotient - 1.0, quotient)
    down = floor(quotient)
    down = (quotient - down > 0.5).choose(down + 1.0, down)
    result = quotient.equals(0.0).choose(copysign(0.0, plain), down)
    return y.equals(0.0).choose(plain, result)


def long_remainder(type: Vector, fma: bool) -> Function:
    """Write fmod of finite a >= 0 and b > 0 in every lane, one after the other."""
    f = Function(
        symbol("long_remainder", type), f"{type} %a, {type} %b", str(type), "cold noinline optnone nounwind", "internal"
    )
    scalar = Vector("double")
    if type == scalar:
        _by_hand(f, fma)
        return f
    f.needed.append(("long_remainder", scalar))
    places = [f.set(f"alloca {type}") for _ in range(2)]
    for name, place in zip("ab", places):
        f.store(type, f"%{name}", place)
    with f.loop(str(type.lanes)) as lane:
        addresses = [f.address("double", place, lane) for place in places]
        a, b = (f.load(scalar, address) for address in addresses)
        f.store(scalar, f.set(f"call double @{symbol('long_remainder', scalar)}(double {a}, double {b})"), addresses[0])
    f.returns(f"{type} {f.load(type, places[0])}")
    return f


def _by_hand(f: Function, fma: bool) -> None:
    w = Writer(f, Vector("double"), fma)

    def parts(name: str) -> tuple[Bits, Bits]:
        """Return the fraction as an integer, and the exponent. A subnormal number has the exponent 1 and no leading
        bit.
        """
        bits = w.real(name).bits()
        stored = bits >> 52
        normal = ~stored.equals(0)
        return (bits & ((1 << 52) - 1)) | normal.choose(w.bits(1 << 52), 0), normal.choose(stored, 1)

    (top, e), (bottom, d) = parts("%a"), parts("%b")
    bottom = bottom.equals(0).choose(w.bits(1), bottom)  # in unused lanes
    first = f.set(f"urem i64 {top}, {bottom}")
    shift = f.carried("i64", str(e - d))
    left = f.carried("i64", first)
    head, body, after = f.fresh("head"), f.fresh("body"), f.fresh("after")
    before = f.block
    f.jump(head)
    f.label(head)
    following, step_left = "%" + f.fresh("shift"), "%" + f.fresh("left")
    f.do(f"{shift} = phi i64 [{shift.first}, %{before}], [{following}, %{body}]")
    f.do(f"{left} = phi i64 [{left.first}, %{before}], [{step_left}, %{body}]")
    f.branch(f.set(f"icmp sgt i64 {shift}, 0"), body, after)
    f.label(body)
    step = f.call("i64", "llvm.smin.i64", f"i64 {shift}", "i64 11")
    f.do(f"{step_left} = urem i64 {f.set(f'shl i64 {left}, {step}')}, {bottom}")
    f.do(f"{following} = sub i64 {shift}, {step}")
    f.jump(head)
    f.label(after)
    # The unit is 2^(d - 1075), which is subnormal for small d.
    unit = Bits(w, f.set(f"icmp sgt i64 {d}, 52"))
    normal = (d - 52) << 52
    small = w.bits(1) << Bits(w, f.call("i64", "llvm.smin.i64", f"i64 {d - 1}", "i64 51"))
    chosen = f.set(f"select i1 {unit}, i64 {normal}, i64 {small}")
    size = w.real(f.set(f"bitcast i64 {chosen} to double"))
    f.returns(f"double {w.real(f.set(f'sitofp i64 {left} to double')) * size}")
