"""The table of elementwise ops that have native code: name, operands, dtypes, and the formula.

    supports("exp", "float64")                                     # True
    emit(f, "exp", "float64", 4, x)                                # the name of the result: <4 x double>
    emit(f, "leaky_relu", "float32", 8, x, negative_slope=0.1)
    emit(f, "lt", "int32", 8, x, y)                                # the result is a bool: <8 x i8>

Names, settings and meaning are those of the op table (ndgrad.ops). `dtype` is the dtype in which the op computes:
operands of other dtypes are cast first (`casts.cast`), as NumPy does. Booleans are bytes, 0 or 1. A number may replace
an operand that is the same everywhere. `error` is the bound on the error, in units in the last place, if an op is one
function. The errors of a formula of several functions add up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ndgrad._src.compiler.kernels import activations as formulas
from ndgrad._src.compiler.kernels import integers
from ndgrad._src.compiler.kernels.activations import call
from ndgrad._src.compiler.kernels.integers import Whole, boolean, choose, truth
from ndgrad._src.compiler.kernels.maths import rounding
from ndgrad._src.compiler.kernels.maths.functions import FORMULAS
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer, absolute, copysign, sqrt
from ndgrad._src.compiler.native.ir import TYPES, Function, Vector

#: Kinds of dtypes: floats, signed and unsigned integers, booleans.
_KINDS = {"float32": "f", "float64": "f", "bool": "b"}


@dataclass(frozen=True)
class Operation:
    """An elementwise op: the number of its operands, the kinds of dtypes it computes in, and its formula."""

    operands: int
    kinds: str
    formula: Callable[..., Any]
    #: Operands that are always booleans.
    conditions: tuple[int, ...] = ()
    #: Values of settings that have native code, if not all have.
    only: dict[str, tuple[Any, ...]] | None = None


def _kind(dtype: str) -> str:
    return _KINDS.get(dtype) or ("u" if dtype.startswith("u") else "i")


# ----- formulas that differ between floats and integers ---------------------------------------------------------------


def _by_kind(floats: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
    def formula(*values: Any, **settings: Any) -> Any:
        return (floats if any(isinstance(v, Real) for v in values) else whole)(*values, **settings)

    return formula


def _function(name: str) -> Callable[..., Real]:
    return functools.partial(call, name)


def _pick(condition: Mask, yes: Any, no: Any) -> Any:
    return choose(condition, yes, no) if isinstance(yes, Whole) else condition.choose(yes, no)


def _nonzero(x: Any) -> Mask:
    return x.differs(0)


def _constantly(value: int) -> Callable[..., Mask]:
    """Return a formula with the same answer for every integer."""
    return lambda x: x.equals(x) if value else x.differs(x)


def _heaviside(x: Any, values: Any) -> Any:
    one, zero = (x.like(1), x.like(0)) if isinstance(x, Whole) else (x.w.real(1.0), x.w.real(0.0))
    return _pick(x.equals(0), values, _pick(x > 0, one, zero))


def _clamp(x: Any, min: Any, max: Any) -> Any:
    return _lesser(_greater(x, min), max)


_lesser = _by_kind(rounding.minimum, lambda x, y: choose(x < y, x, y))
_greater = _by_kind(rounding.maximum, lambda x, y: choose(x > y, x, y))


def _keep(x: Any, mask: Mask) -> Any:
    return _pick(mask, x, x.like(0) if isinstance(x, Whole) else x.w.real(0.0))


def _dropout(x: Real, mask: Mask, scale: float = 1.0) -> Real:
    return x * mask.choose(x.w.real(1.0), 0.0) * scale


def _isclose(x: Real, y: Real, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Mask:
    near = (absolute(x - y) <= absolute(y) * rtol + atol) & (absolute(y) < math.inf)
    near = near | x.equals(y)
    return near | (x.is_nan() & y.is_nan()) if equal_nan else near


# ----- the table ------------------------------------------------------------------------------------------------------

_F, _N, _ALL, _BITS = "f", "fiu", "fiub", "iub"

OPERATIONS: dict[str, Operation] = {
    # arithmetic
    "add": Operation(2, _ALL, lambda x, y: x + y),
    "sub": Operation(2, _N, lambda x, y: x - y),
    "mul": Operation(2, _ALL, lambda x, y: x * y),
    "div": Operation(2, _F, lambda x, y: x / y),
    "neg": Operation(1, _N, lambda x: -x),
    "abs": Operation(1, _ALL, _by_kind(absolute, integers.absolute)),
    "reciprocal": Operation(1, _F, lambda x: 1.0 / x),
    "square": Operation(1, _N, lambda x: x * x),
    "floor_divide": Operation(2, _N, _by_kind(_function("floor_divide"), integers.floor_divide)),
    "trunc_divide": Operation(2, _N, _by_kind(lambda x, y: call("trunc", x / y), integers.trunc_divide)),
    "remainder": Operation(2, _N, _by_kind(_function("remainder"), integers.remainder)),
    "fmod": Operation(2, _N, _by_kind(_function("fmod"), integers.fmod)),
    "pow": Operation(2, _F, formulas.pow),
    "rsqrt": Operation(1, _F, lambda x: 1.0 / sqrt(x)),
    "addcmul": Operation(3, _N, lambda x, a, b, value=1: x + formulas.scaled(a, value) * b),
    "addcdiv": Operation(3, _F, lambda x, a, b, value=1: x + formulas.scaled(a, value) / b),
    "lerp": Operation(3, _F, formulas.lerp),
    "deg2rad": Operation(1, _F, lambda x: x * (math.pi / 180)),
    "rad2deg": Operation(1, _F, lambda x: x * (180 / math.pi)),
    "conj": Operation(1, _N, lambda x: x),
    "copy": Operation(2, _ALL, lambda x, y: y),
    "clone": Operation(1, _ALL, lambda x: x),
    # rounding and signs; integers are unchanged
    "round": Operation(1, _N, _by_kind(formulas.rounded, lambda x, decimals=0: x)),
    "floor": Operation(1, _ALL, _by_kind(_function("floor"), lambda x: x)),
    "ceil": Operation(1, _ALL, _by_kind(_function("ceil"), lambda x: x)),
    "trunc": Operation(1, _ALL, _by_kind(_function("trunc"), lambda x: x)),
    "frac": Operation(1, _F, lambda x: x - call("trunc", x)),
    "sign": Operation(1, _N, _by_kind(rounding.sign, integers.sign)),
    "sgn": Operation(1, _N, _by_kind(rounding.sign, integers.sign)),
    "copysign": Operation(2, _F, copysign),
    "nextafter": Operation(2, _F, _function("nextafter")),
    "heaviside": Operation(2, _N, _heaviside),
    "nan_to_num": Operation(1, _ALL, _by_kind(formulas.nan_to_num, lambda x, nan=0.0, posinf=None, neginf=None: x)),
    "angle": Operation(1, _F, formulas.angle),
    # comparisons, tests, logic: booleans
    "eq": Operation(2, _ALL, lambda x, y: x.equals(y)),
    "ne": Operation(2, _ALL, lambda x, y: x.differs(y)),
    "lt": Operation(2, _ALL, lambda x, y: x < y),
    "le": Operation(2, _ALL, lambda x, y: x <= y),
    "gt": Operation(2, _ALL, lambda x, y: x > y),
    "ge": Operation(2, _ALL, lambda x, y: x >= y),
    "isclose": Operation(2, _F, _isclose),
    "isnan": Operation(1, _ALL, _by_kind(lambda x: x.is_nan(), _constantly(0))),
    "isinf": Operation(1, _ALL, _by_kind(lambda x: absolute(x).equals(math.inf), _constantly(0))),
    "isfinite": Operation(1, _ALL, _by_kind(lambda x: absolute(x) < math.inf, _constantly(1))),
    "isposinf": Operation(1, _ALL, _by_kind(lambda x: x.equals(math.inf), _constantly(0))),
    "isneginf": Operation(1, _ALL, _by_kind(lambda x: x.equals(-math.inf), _constantly(0))),
    "isreal": Operation(1, _ALL, _by_kind(lambda x: x.is_nan() | ~x.is_nan(), _constantly(1))),
    "signbit": Operation(1, _F, lambda x: x.negative()),
    "logical_and": Operation(2, _ALL, lambda x, y: _nonzero(x) & _nonzero(y)),
    "logical_or": Operation(2, _ALL, lambda x, y: _nonzero(x) | _nonzero(y)),
    "logical_xor": Operation(2, _ALL, lambda x, y: _nonzero(x) ^ _nonzero(y)),
    "logical_not": Operation(1, _ALL, lambda x: x.equals(0)),
    # bits
    "bitwise_and": Operation(2, _BITS, lambda x, y: x & y),
    "bitwise_or": Operation(2, _BITS, lambda x, y: x | y),
    "bitwise_xor": Operation(2, _BITS, lambda x, y: x ^ y),
    "bitwise_not": Operation(1, _BITS, lambda x: ~x),
    "bitwise_left_shift": Operation(2, "iu", integers.left_shift),
    "bitwise_right_shift": Operation(2, "iu", integers.right_shift),
    # choices
    "where": Operation(3, _ALL, _pick, conditions=(0,)),
    "keep": Operation(2, _ALL, _keep, conditions=(1,)),
    "masked_fill": Operation(3, _ALL, lambda x, mask, y: _pick(mask, y, x), conditions=(1,)),
    "native_dropout": Operation(2, _F, _dropout, conditions=(1,)),
    "minimum": Operation(2, _ALL, _lesser),
    "maximum": Operation(2, _ALL, _greater),
    "fmin": Operation(2, _ALL, _by_kind(rounding.fmin, lambda x, y: choose(x < y, x, y))),
    "fmax": Operation(2, _ALL, _by_kind(rounding.fmax, lambda x, y: choose(x > y, x, y))),
    "clamp": Operation(3, _N, _clamp),
    "clamp_min": Operation(2, _ALL, _greater),
    "clamp_max": Operation(2, _ALL, _lesser),
    # logarithms of sums and products
    "logaddexp": Operation(2, _F, formulas.logaddexp),
    "logaddexp2": Operation(2, _F, formulas.logaddexp2),
    "xlogy": Operation(2, _F, functools.partial(formulas.times_log, "log", 1.0)),
    "xlog1py": Operation(2, _F, functools.partial(formulas.times_log, "log1p", 0.0)),
    "logit": Operation(1, _F, formulas.logit),
    "log_sigmoid": Operation(1, _F, formulas.log_sigmoid),
    "entr": Operation(1, _F, formulas.entr),
    "ndtr": Operation(1, _F, formulas.normal),
    "sinc": Operation(1, _F, formulas.sinc, only={"order": (0,)}),
    # activations
    "relu": Operation(1, _N, lambda x: _greater(x, 0 if isinstance(x, Whole) else x.w.real(0.0))),
    "slopes": Operation(1, _F, formulas.slopes),
    "leaky_relu": Operation(1, _F, formulas.leaky_relu),
    "hardtanh": Operation(1, _F, lambda x, min_val=-1.0, max_val=1.0: formulas.clipped(x, min_val, max_val)),
    "hardsigmoid": Operation(1, _F, formulas.hardsigmoid),
    "hardswish": Operation(1, _F, lambda x: x * formulas.hardsigmoid(x)),
    "threshold": Operation(1, _F, formulas.threshold),
    "softshrink": Operation(1, _F, formulas.softshrink),
    "hardshrink": Operation(1, _F, formulas.hardshrink),
    "softplus": Operation(1, _F, formulas.softplus),
    "softplus_slope": Operation(1, _F, formulas.softplus_slope),
    "elu": Operation(1, _F, formulas.elu),
    "silu": Operation(1, _F, formulas.silu),
    "silu_slope": Operation(1, _F, formulas.silu_slope),
    "mish": Operation(1, _F, formulas.mish),
    "mish_slope": Operation(1, _F, formulas.mish_slope),
    "gelu": Operation(1, _F, formulas.gelu),
    "gelu_slope": Operation(1, _F, formulas.gelu_slope),
    "softsign": Operation(1, _F, lambda x: x / (absolute(x) + 1.0)),
    "tanhshrink": Operation(1, _F, lambda x: x - call("tanh", x)),
    # losses
    "binary_cross_entropy": Operation(2, _F, formulas.binary_cross_entropy),
    "binary_cross_entropy_with_logits": Operation(2, _F, formulas.binary_cross_entropy_with_logits),
    "smooth_l1": Operation(2, _F, formulas.smooth_l1),
}

#: Ops that are single functions of the maths library.
_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt hypot sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
    "atanh sigmoid erf erfc erfinv lgamma digamma"
)
OPERATIONS.update({name: Operation(FORMULAS[name].arity, _F, _function(name)) for name in _FUNCTIONS.split()})


def supports(op: str, dtype: str, **settings: Any) -> bool:
    """True if an op has native code in a dtype, with these settings."""
    operation = OPERATIONS.get(op)
    if operation is None or dtype not in TYPES or _kind(dtype) not in operation.kinds:
        return False
    return all(settings.get(name, values[0]) in values for name, values in (operation.only or {}).items())


def error(op: str) -> float | None:
    """Return the largest error of an op in floats, in units in the last place; None for a formula of several functions.
    """
    if op in FORMULAS:
        return FORMULAS[op].ulp
    if op in ("add", "sub", "mul", "div", "reciprocal", "square"):
        return 0.5
    return 0.0 if op in _EXACT or result(op, "float64") == "bool" else None


def result(op: str, dtype: str) -> str:
    """Return the dtype of an op's result, when it computes in `dtype`."""
    return "bool" if op in _ANSWERS else dtype


def emit(f: Function, op: str, dtype: str, lanes: int, *values: str | float, **settings: Any) -> str:
    """Write an op, and return the name of its result: `lanes` elements of the dtype of `result`."""
    operation = OPERATIONS.get(op)
    if operation is None or not supports(op, dtype, **settings):
        given = f" with {settings}" if settings else ""
        raise NotImplementedError(
            f"{op} has no native code in {dtype}{given}. Ask `supports` first, and run the op on NumPy instead. "
            "[nd-compiler]"
        )
    if len(values) != operation.operands:
        raise TypeError(
            f"{op} takes {operation.operands} operands, and got {len(values)}: "
            "give as many as the op of that name has. [nd-compiler]"
        )
    made = operation.formula(*(_operand(f, operation, i, v, dtype, lanes) for i, v in enumerate(values)), **settings)
    return boolean(made) if isinstance(made, Mask) else str(made)


def _operand(f: Function, operation: Operation, place: int, value: str | float, dtype: str, lanes: int) -> Any:
    if place in operation.conditions:
        return truth(f, lanes, value if isinstance(value, str) else Vector("i8", lanes).constant(bool(value)))
    if _kind(dtype) != "f":
        return Whole(f, dtype, lanes, value if isinstance(value, str) else int(value))
    if operation.formula is formulas.pow and place == 1 and not isinstance(value, str):
        return float(value)
    return Writer(f, Vector(TYPES[dtype], lanes), fma=False).real(value)


#: Ops that only change signs, or choose.
_EXACT = frozenset("neg conj copy clone sgn where keep masked_fill clamp clamp_min clamp_max relu heaviside".split())

#: Ops whose results are booleans.
_ANSWERS = frozenset(
    "eq ne lt le gt ge isclose isnan isinf isfinite isposinf isneginf isreal signbit logical_and logical_or logical_xor logical_not".split()
)
