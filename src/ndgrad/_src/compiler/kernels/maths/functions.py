"""The functions by name: calls of them, and their definitions for a module.

    y = maths.emit(f, "exp", Vector("double", 4), x)      # in a function being written
    text = module([f, *maths.library(f.needed, target)])  # the definitions of the called functions, for this processor

A function of one or two instructions (sqrt, minimum) is written inline. The others are internal functions of the
module, one for each vector type in use. LLVM inlines them into the caller's loop, which is up to a tenth quicker,
unless they are called so often that compiling the copies would cost more.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ndgrad._src.compiler.kernels import error_notes
from ndgrad._src.compiler.kernels.maths import (
    angles,
    division,
    error_function,
    exponential,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    rounding,
    trigonometric,
    values,
)
from ndgrad._src.compiler.kernels.maths.angles import symbol
from ndgrad._src.compiler.kernels.maths.values import Real, Writer
from ndgrad._src.compiler.native.ir import Function, Vector
from ndgrad._src.compiler.native.target import Target


@dataclass(frozen=True)
class Formula:
    """A function of floats: the number of its arguments, its writer, and the largest error in units in the last place.
    """

    arity: int
    write: Callable[..., Real]
    ulp: float
    here: bool = False  # written inline


FORMULAS: dict[str, Formula] = {
    # exponentials and logarithms
    "exp": Formula(1, exponential.exp, 1.0),
    "exp2": Formula(1, exponential.exp2, 1.1),
    "expm1": Formula(1, exponential.expm1, 1.6),
    "log": Formula(1, logarithm.log, 0.9),
    "log2": Formula(1, logarithm.log2, 0.9),
    "log10": Formula(1, logarithm.log10, 0.8),
    "log1p": Formula(1, logarithm.log1p, 0.9),
    # powers
    "pow": Formula(2, power.pow, 0.9),
    "sqrt": Formula(1, values.sqrt, 0.5, here=True),
    "rsqrt": Formula(1, power.rsqrt, 1.5, here=True),
    "cbrt": Formula(1, power.cbrt, 0.6),
    "hypot": Formula(2, power.hypot, 0.8),
    # trigonometric and hyperbolic
    "sin": Formula(1, trigonometric.sin, 0.9),
    "cos": Formula(1, trigonometric.cos, 0.9),
    "tan": Formula(1, trigonometric.tan, 1.0),
    "asin": Formula(1, inverse_trigonometric.asin, 0.7),
    "acos": Formula(1, inverse_trigonometric.acos, 0.7),
    "atan": Formula(1, inverse_trigonometric.atan, 0.9),
    "atan2": Formula(2, inverse_trigonometric.atan2, 0.9),
    "sinh": Formula(1, hyperbolic.sinh, 1.7),
    "cosh": Formula(1, hyperbolic.cosh, 1.4),
    "tanh": Formula(1, hyperbolic.tanh, 1.4),
    "asinh": Formula(1, hyperbolic.asinh, 1.2),
    "acosh": Formula(1, hyperbolic.acosh, 1.0),
    "atanh": Formula(1, hyperbolic.atanh, 1.0),
    "sigmoid": Formula(1, hyperbolic.sigmoid, 2.0),
    # the error function
    "erf": Formula(1, error_function.erf, 1.4),
    "erfc": Formula(1, error_function.erfc, 1.3),
    "erfinv": Formula(1, error_function.erfinv, 2.0),
    # the gamma function; below 0 the error is small compared to the terms of the reflection
    "lgamma": Formula(1, gamma.lgamma, 1.5),
    "digamma": Formula(1, gamma.digamma, 2.0),
    # exact
    "floor": Formula(1, rounding.floor, 0.0),
    "ceil": Formula(1, rounding.ceil, 0.0),
    "trunc": Formula(1, rounding.trunc, 0.0),
    "rint": Formula(1, rounding.rint, 0.0),
    "abs": Formula(1, values.absolute, 0.0, here=True),
    "copysign": Formula(2, values.copysign, 0.0, here=True),
    "nextafter": Formula(2, rounding.nextafter, 0.0),
    "fmod": Formula(2, division.fmod, 0.0),
    "remainder": Formula(2, division.remainder, 0.5),
    "floor_divide": Formula(2, division.floor_divide, 0.0),
    # choices: with NumPy's minimum and maximum a NaN wins, with fmin and fmax it loses
    "sign": Formula(1, rounding.sign, 0.0, here=True),
    "minimum": Formula(2, rounding.minimum, 0.0, here=True),
    "maximum": Formula(2, rounding.maximum, 0.0, here=True),
    "fmin": Formula(2, rounding.fmin, 0.0, here=True),
    "fmax": Formula(2, rounding.fmax, 0.0, here=True),
}

def _muladd(type: Vector, fma: bool) -> Function:
    names = ["%x", "%y", "%z"]
    parameters = ", ".join(f"{type} {n}" for n in names)
    f = Function(symbol("muladd", type), parameters, str(type), "alwaysinline nounwind", "internal")
    w = Writer(f, type, fma)
    f.returns(f"{type} {values.muladd(*[w.real(n) for n in names])}")
    return f


#: Functions that others call, with their own kinds of results and constants.
_PARTS: dict[str, Callable[[Vector, bool], Function]] = {
    "large_angle": angles.large_angle,
    "muladd": _muladd,
    "long_remainder": division.long_remainder,
    **error_notes.PARTS,
}
_TABLES: dict[str, Callable[[], str]] = {"large_angle": angles.table}

#: Maximum number of inlined lines of a function, because LLVM takes 20 us for each.
_MOST_LINES = 120


def emit(f: Function, name: str, type: Vector, *values: str) -> str:
    """Write a call of a function of floats, and return the name of its result."""
    formula = FORMULAS[name]
    if formula.here:
        w = Writer(f, type, fma=True)
        return formula.write(*(w.real(v) for v in values)).name
    f.needed.append((name, type))
    return f.set(f"call {type} @{symbol(name, type)}({', '.join(f'{type} {v}' for v in values)})")


def muladd(f: Function, type: Vector, x: str, y: str, z: str) -> str:
    """Write x y + z, rounded once if the processor can, and return the name of the result."""
    f.needed.append(("muladd", type))
    return f.set(f"call {type} @{symbol('muladd', type)}({type} {x}, {type} {y}, {type} {z})")


def library(needed: Iterable[tuple[str, Vector]], target: Target) -> list[Function | str]:
    """Return the definitions of the called functions, with the numbers of their calls, and of the functions that they
    call in turn.
    """
    calls = Counter(needed)
    waiting = sorted(calls, key=str)
    known: set[tuple[str, Vector]] = set()
    functions: list[Function] = []
    while waiting:
        name, type = waiting.pop()
        if (name, type) in known:
            continue
        known.add((name, type))
        definition = define(name, type, target.fma, inline=True)
        if (calls[name, type] - 1) * len(definition.text().splitlines()) > _MOST_LINES:
            definition = define(name, type, target.fma, inline=False)
        functions.append(definition)
        waiting += sorted(definition.needed, key=str)
    tables = [table() for name, table in _TABLES.items() if any(name == n for n, _ in known)]
    return [*tables, *functions]


@functools.cache
def define(name: str, type: Vector, fma: bool, inline: bool = True) -> Function:
    """Return one function of the library, written once in a process."""
    if name in _PARTS:
        return _PARTS[name](type, fma)
    formula = FORMULAS[name]
    names = [f"%x{i}" for i in range(formula.arity)]
    attributes = "alwaysinline nounwind" if inline else "noinline nounwind"
    f = Function(symbol(name, type), ", ".join(f"{type} {n}" for n in names), str(type), attributes, "internal")
    w = Writer(f, type, fma)
    result = formula.write(*(w.real(n) for n in names))
    f.returns(f"{type} {result}")
    return f
