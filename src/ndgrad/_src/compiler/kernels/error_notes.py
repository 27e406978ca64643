"""Notes of floating-point errors for formulas that choose infinities and NaNs instead of computing them.

A division by zero sets a bit of the processor's floating-point status. The formula of log selects -inf at zero, and
sets none. Code after such a formula compares its result with infinity. If a lane is infinite or NaN though the
arguments are finite, it sets the bit that NumPy's function sets (see ndgrad._src.compiler.lower.float_errors).

    note(f, "log", Vector("double", 4), result, [x])

The comparison is a function of the module, which LLVM inlines: one comparison, and a branch that is not taken. If a
formula itself compares its argument with the end of its domain, the same comparison is free (`_DOMAINS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ndgrad._src.compiler.kernels.maths.angles import symbol
from ndgrad._src.compiler.kernels.maths.exponential import LIMITS
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer, absolute
from ndgrad._src.compiler.native.float_status import DIVIDE, INVALID, OVERFLOW
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector

#: Op -> bit of an infinite result, and a test for arguments with finite results. Formulas that make this comparison
#: themselves have a test; NaN fails it.
_NOTES: dict[str, tuple[int, Callable[[Real], Mask] | None]] = {
    **dict.fromkeys(["exp", "expm1"], (OVERFLOW, lambda x: x <= LIMITS[x.w.precision][0])),
    **dict.fromkeys(["log", "log2", "log10"], (DIVIDE, lambda x: x > 0.0)),
    "log1p": (DIVIDE, lambda x: x > -1.0),
    **dict.fromkeys("exp2 sinh cosh lgamma".split(), (OVERFLOW, None)),
    **dict.fromkeys("logit entr xlogy xlog1py digamma acosh".split(), (DIVIDE, None)),
    **dict.fromkeys("floor_divide trunc_divide remainder fmod".split(), (DIVIDE, None)),
    "pow": (OVERFLOW | DIVIDE, None),
}


def has_note(op: str) -> bool:
    """True if an op gets a note. Among ops with native code for integers, these are the divisions."""
    return op in _NOTES


def note(f: Function, op: str, type: Vector, result: str, arguments: Sequence[str]) -> None:
    """Write the note of an op in floats."""
    bit, is_finite = _NOTES[op]
    name = f"note{bit}_{len(arguments)}" if is_finite is None else f"note_{op}"
    f.needed.append((name, type))
    given = ", ".join(f"{type} {v}" for v in (result, *arguments))
    f.do(f"call void @{symbol(name, type)}({given})")


def note_division(f: Function, type: Vector, x: str, y: str, is_signed: bool) -> None:
    """Write the note of a division of integers: one by zero, or of the least number by -1."""
    name = "note_signed" if is_signed else "note_unsigned"
    f.needed.append((name, type))
    f.do(f"call void @{symbol(name, type)}({type} {x}, {type} {y})")


def note_cast(f: Function, type: Vector, x: str, width: int) -> None:
    """Write the note of a cast to signed integers of so many bits."""
    name = f"note_cast{width}"
    f.needed.append((name, type))
    f.do(f"call void @{symbol(name, type)}({type} {x})")


def _begun(name: str, type: Vector, parameters: Sequence[str]) -> Function:
    given = ", ".join(f"{type} {p}" for p in parameters)
    return Function(symbol(name, type), given, "void", "alwaysinline nounwind", "internal")


def _write_rare(f: Function, is_rare: str, write: Callable[[], None]) -> Function:
    """Write code for a condition that is hardly ever true, and the end of a function."""
    f.branch(is_rare, "rare", "done")
    f.label("rare")
    write()
    f.jump("done")
    f.label("done")
    f.returns()
    return f


def _of_floats(
    name: str, bit: int, count: int, has_domain: Callable[[Real], Mask] | None = None
) -> Callable[[Vector, bool], Function]:
    def define(type: Vector, fma: bool) -> Function:
        names = ["%r", *[f"%x{i}" for i in range(count)]]
        f = _begun(name, type, names)
        w = Writer(f, type, fma)
        result, *arguments = map(w.real, names)
        is_finite = absolute(result) < math.inf if has_domain is None else has_domain(arguments[0])
        beyond = Mask(w, f.set(f"xor {type.mask} {is_finite}, {type.mask.constant(1)}"))

        def write() -> None:
            wrong = Mask(w, f.set(f"xor {type.mask} {absolute(result) < math.inf}, {type.mask.constant(1)}"))
            for x in arguments:
                wrong = wrong & (absolute(x) < math.inf)
            is_nan = result.is_nan()
            for bits, lanes in ((INVALID, wrong & is_nan), (bit, wrong & result.equals(result))):
                chosen = f.set(f"select i1 {w.any(lanes)}, i64 {bits}, i64 0")
                f.call_outside("ndgrad_add_status", f"i64 {chosen}")

        return _write_rare(f, w.any(beyond), write)

    return define


def _of_integers(is_signed: bool) -> Callable[[Vector, bool], Function]:
    def define(type: Vector, fma: bool) -> Function:
        f = _begun("note_signed" if is_signed else "note_unsigned", type, ["%x", "%y"])
        mask = Vector("i1", type.lanes)
        wrong = f.set(f"icmp eq {type} %y, {type.constant(0)}")
        if is_signed:
            least = -(2 ** (8 * SIZES[type.element] - 1))
            turned = f.set(f"icmp eq {type} %y, {type.constant(-1)}")
            is_least = f.set(f"icmp eq {type} %x, {type.constant(least)}")
            wrong = f.set(f"or {mask} {wrong}, {f.set(f'and {mask} {turned}, {is_least}')}")
        is_rare = wrong
        if type.lanes > 1:
            whole = f.set(f"bitcast {mask} {wrong} to i{type.lanes}")
            is_rare = f.set(f"icmp ne i{type.lanes} {whole}, 0")
        return _write_rare(f, is_rare, lambda: f.call_outside("ndgrad_add_status", f"i64 {DIVIDE | OVERFLOW}"))

    return define


def _of_casts(width: int) -> Callable[[Vector, bool], Function]:
    def define(type: Vector, fma: bool) -> Function:
        f = _begun(f"note_cast{width}", type, ["%x"])
        w = Writer(f, type, fma)
        fits = absolute(w.real("%x")) < 2.0 ** (width - 1)
        beyond = Mask(w, f.set(f"xor {type.mask} {fits}, {type.mask.constant(1)}"))
        return _write_rare(f, w.any(beyond), lambda: f.call_outside("ndgrad_add_status", f"i64 {INVALID}"))

    return define


#: The functions that notes call, by name.
PARTS: dict[str, Callable[[Vector, bool], Function]] = {
    **{(name := f"note{bit}_{n}"): _of_floats(name, bit, n) for bit, _ in _NOTES.values() for n in (1, 2)},
    **{
        (name := f"note_{op}"): _of_floats(name, bit, 1, test) for op, (bit, test) in _NOTES.items() if test is not None
    },
    "note_signed": _of_integers(True),
    "note_unsigned": _of_integers(False),
    **{f"note_cast{width}": _of_casts(width) for width in (32, 64)},
}
