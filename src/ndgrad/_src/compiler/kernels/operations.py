"""The table of elementwise ops that have native code: name, operands, dtypes, and the formula.

    supports("exp", "float64")                                     # True
    emit(f, "exp", "float64", 4, x)                                # the name of the result: <4 x double>
    emit(f, "leaky_relu", "float32", 8, x, negative_slope=0.1)
    emit(f, "lt", "int32", 8, x, y)                                # the result is a bool: <8 x i8>

Names, settings and meaning are those of the op table (ndgrad.ops). `dtype` is the dtype in which the op computes:
operands of other dtypes are cast first (`casts.cast`), as NumPy does. Booleans are bytes, 0 or 1. A number may replace
an operand that is the same everywhere.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ndgrad._src.compiler.kernels import activations as formulas
from ndgrad._src.compiler.kernels import integers
from ndgrad._src.compiler.kernels.activations import call
from ndgrad._src.compiler.kernels.integers import Whole, boolean, choose, truth
from ndgrad._src.compiler.kernels.maths import rounding
from ndgrad._src.compiler.kernels.maths.functions import FORMULAS
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer, absolute, copysign, sqrt
from ndgrad._src.compiler.native.ir import TYPES, Function, Vector
from ndgrad._src.ops.table import table
from ndgrad._src.ops.vocabulary import find, load_all

if TYPE_CHECKING:
    from ndgrad._src.ops.composite import Body

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

    def takes_real(self, position: int) -> bool:
        """True if a number at this position is given as a value. An exponent stays a number, for short powers."""
        return position not in self.conditions and not (self.formula is formulas.pow and position == 1)


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
    "ndtr": Operation(1, _F, formulas.normal),
    "sinc": Operation(1, _F, formulas.sinc, only={"order": (0,)}),
    # activations
    "relu": Operation(1, _N, lambda x: _greater(x, 0 if isinstance(x, Whole) else x.w.real(0.0))),
    "slopes": Operation(1, _F, formulas.slopes),
    "hardtanh": Operation(1, _F, lambda x, min_val=-1.0, max_val=1.0: formulas.clipped(x, min_val, max_val)),
    # losses
}

# The other functions of the maths library are ops, except rint, which rounds to the nearest integer (`round`).
for _name, _formula in FORMULAS.items():
    if _name != "rint":
        OPERATIONS.setdefault(_name, Operation(_formula.arity, _F, _function(_name)))


def operation_of(op: str) -> Operation | None:
    """Return the operation of an op: an entry of the table here, or the body of a composite op; None if it has none."""
    found = OPERATIONS.get(op)
    if found is None and (known := table.get(op)) is not None and known.elementwise and known.body is not None:
        found = OPERATIONS[op] = Operation(len(known.args), _F, _formula_of(known.body))
    return found


def every_operation() -> dict[str, Operation]:
    """Return the operations of all ops of the table that have one, by name."""
    load_all()
    return {name: found for name in table if (found := operation_of(name)) is not None}


def _formula_of(body: Body) -> Callable[..., Any]:
    def formula(*values: Any, **settings: Any) -> Any:
        return body(KernelOps(next(v.w for v in values if isinstance(v, Real))), values, settings)

    return formula


class KernelOps:
    """The vocabulary of bodies (ndgrad._src.ops.vocabulary) on values of a kernel."""

    raw = False

    def __init__(self, w: Writer) -> None:
        self._writer = w

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = operation_of(name)
        if operation is None:
            raise NotImplementedError(f"a body uses {name}, which has no native code [nd-compiler]")

        def run(*values: Any, **settings: Any) -> Any:
            return compute(self._writer, name, values, settings)

        return run


def compute(w: Writer, op: str, values: Sequence[Real | Mask | float], settings: Mapping[str, Any]) -> Real | Mask:
    """Write an op of values of a kernel in the language of a writer, and return its result.

    Masks become 0 and 1 where the op takes numbers, and numbers become masks where it takes booleans.
    """
    operation, of_truths = operation_of(op), find(op).of_truths
    assert operation is not None
    given: list[Any] = []
    for place, value in enumerate(values):
        if place in operation.conditions or of_truths:
            given.append(value if isinstance(value, Mask) else w.real(value).differs(0.0))
        elif isinstance(value, Mask):
            given.append(value.choose(w.real(1.0), 0.0))
        elif isinstance(value, Real) or operation.takes_real(place):
            given.append(w.real(value))
        else:
            given.append(float(value))
    if of_truths:
        return _combine_masks(op, *given)
    found: Real | Mask = operation.formula(*given, **settings)
    return found


def _combine_masks(op: str, first: Mask, *others: Mask) -> Mask:
    if not others:
        return ~first
    (second,) = others
    return first & second if op == "logical_and" else first | second if op == "logical_or" else first ^ second


def conditions_of(op: str) -> tuple[int, ...]:
    """Return the positions of the operands that are always booleans."""
    operation = operation_of(op)
    return () if operation is None else operation.conditions


def supports(op: str, dtype: str, **settings: Any) -> bool:
    """True if an op has native code in a dtype, with these settings."""
    operation = operation_of(op)
    if operation is None or dtype not in TYPES or _kind(dtype) not in operation.kinds:
        return False
    return all(settings.get(name, values[0]) in values for name, values in (operation.only or {}).items())


def result(op: str, dtype: str) -> str:
    """Return the dtype of an op's result, when it computes in `dtype`."""
    return "bool" if find(op).returns_bool else dtype


def emit(f: Function, op: str, dtype: str, lanes: int, *values: str | float, **settings: Any) -> str:
    """Write an op, and return the name of its result: `lanes` elements of the dtype of `result`."""
    operation = operation_of(op)
    if operation is None or not supports(op, dtype, **settings):
        given = f" with {settings}" if settings else ""
        raise NotImplementedError(
            f"{op} has no native code in {dtype}{given}. Ask `supports` first, and run the op on NumPy instead. "
            "[nd-compiler]"
        )
    if len(values) != operation.operands:
        raise TypeError(
            f"{op} takes {operation.operands} operands, but got {len(values)}: "
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
