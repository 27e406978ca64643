"""Placeholders for Python numbers that a trace does not know: numbers of slots, and numbers read from tensors by
`.item()`.

Python operators on a placeholder give further placeholders (see Note [Numbers of a call] in
ndgrad._src.compiler.capture.number_tape). An op on tensors takes a placeholder like a Python number: in the dtype of
its tensors. A comparison is a condition that the trace follows.

Code that needs the number itself ends the trace, or makes the slots behind the number needed by value. Python's own
code cannot silently use a placeholder as a number: it is no float, although `isinstance` and `__class__` say so. `type`
would reveal the difference. If code of the user names `type`, there are no placeholders.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.number_tape import EXACT, At, NumberTape
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.vocabulary import find

#: Largest number of operations on placeholders in a trace.
MOST = 10_000
#: Classes of numbers that placeholders compute with.
_PLAIN = (int, float, bool)
#: Classes whose objects do not handle operators with numbers, or handle them as for Python's own numbers.
_OTHERS = (Variable, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None), type)
_HEAP_TYPE = 1 << 9


class NumberPlaceholder:
    """A placeholder for a Python number."""

    __slots__ = ("_value", "kind", "made_by", "place", "tape", "tracer")

    def __init__(
        self,
        tracer: Any,
        tape: NumberTape,
        place: int,
        kind: type,
        value: Value | None = None,
        made_by: tuple[str, tuple[Any, ...]] | None = None,
    ) -> None:
        """Create a placeholder. `value` is an array of the program without dimensions: float64 for a `kind` of float,
        int64 for int. `made_by` is the operation and its arguments that give a late number.
        """
        self.tracer = tracer
        self.tape = tape
        self.place = place
        self.kind = kind
        self._value = value
        self.made_by = made_by

    @property  # type: ignore[misc]  # read by `isinstance`
    def __class__(self) -> type:
        return self.kind

    # ----- values of the program --------------------------------------------------------------------------------------

    def value_in(self, tracer: Any) -> Value:
        """Return the number as a value of a program."""
        if self.is_early and (self.tape.has_tensor(self.place) or self.made_by is None):
            t = self.tape.tensor(self.place)
            found: Value = tracer.argument(tracer.capture(t, payload_of(t))._array)
            return found
        if self.tracer is not tracer:
            raise GraphBreak("a number that is read of a tensor outside of a loop's body takes part in it")
        if self._value is None:
            assert self.made_by is not None
            name, arguments = self.made_by
            emit = _IN_PROGRAMS.get(name)
            if emit is None or self.kind is not float:
                self.refuse()
            self._value = emit(tracer, name, arguments)
        return self._value

    def as_float(self, tracer: Any) -> Value:
        """Return the number as a float value. Python converts an integer next to a float, and in a quotient."""
        if self.kind is float:
            return self.value_in(tracer)
        if self.is_early:
            found: Value = operate(float, "float", self).value_in(tracer)
            return found
        value = emit_op(tracer, "cast", self.value_in(tracer), dtype=np.dtype(np.float64))
        if not tracer.decide(emit_op(tracer, "le", emit_op(tracer, "abs", value), float(EXACT))):
            self.refuse()
        return value

    @property
    def is_own(self) -> bool:
        """True in the trace that the placeholder belongs to. Other threads may meet it in objects that they share with
        a traced function. For them it acts as the number.
        """
        return current_tracer.get() is self.tracer

    @property
    def is_early(self) -> bool:
        """True if the number depends on slots alone, and is known in the trace."""
        return self.tape.known[self.place] is not None

    # ----- conditions -------------------------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Any:
        return _compare(operator.lt, "lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare(operator.le, "le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare(operator.gt, "gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare(operator.ge, "ge", self, other)

    def __eq__(self, other: object) -> Any:
        return _compare(operator.eq, "eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _compare(operator.ne, "ne", self, other)

    def __bool__(self) -> bool:
        if self.is_early and self.is_own:
            return bool(operate(operator.truth, "truth", self))
        if not self.is_own:
            return bool(self._concrete())
        return decide(self.tracer, emit_op(self.tracer, "ne", self.value_in(self.tracer), 0))

    # ----- arithmetic -------------------------------------------------------------------------------------------------

    def __pos__(self) -> NumberPlaceholder:
        return self

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if _is_number(other) else _leave(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if _is_number(other) else _leave(self, other)

    def __round__(self, digits: Any = None) -> Any:  # prose: ok
        return operate(round, "round", self) if digits is None else operate(round, "round", self, digits)

    def __copy__(self) -> NumberPlaceholder:
        return self

    def __deepcopy__(self, memo: Any) -> NumberPlaceholder:
        return self

    # ----- ops with tensors -------------------------------------------------------------------------------------------

    def as_argument(self, op: Any, arrays: Any, tracer: Any) -> Value:
        """Return the number as an argument of an op next to these arrays: in their dtype, as NumPy treats Python
        numbers.
        """
        if not self.is_own:
            number: Value = self._concrete()  # a constant for another thread
            return number
        others = [a for a in arrays if type(a) is not NumberPlaceholder and hasattr(a, "dtype")]
        dtypes = {a.dtype for a in others if a.dtype.kind != "b"}
        (dtype,) = dtypes if len(dtypes) == 1 else (None,)
        # The rule of `pow` has short cuts for some exponents, and none for bases.
        is_taken = op.elementwise and (op.name != "pow" or (arrays[0] is self and type(arrays[1]) is not NumberPlaceholder))
        if is_taken and dtype in (np.float32, np.float64) and (self.kind is float or self.is_early):
            value = self.as_float(tracer)
            return value if dtype == value.dtype else emit_op(tracer, "cast", value, dtype=dtype)
        if is_taken and dtype in (np.float32, np.float64):  # NumPy converts an integer of any size
            value = emit_op(tracer, "cast", self.value_in(tracer), dtype=np.dtype(np.float64))
            return value if dtype == value.dtype else emit_op(tracer, "cast", value, dtype=dtype)
        of_integers = (op.is_arithmetic or op.compares) and op.cost == 1  # a quotient of integers is a float
        if self.kind is int and self.is_early and dtype == np.int64 and of_integers:
            return self.value_in(tracer)
        self.refuse(f"a number that is read of a tensor takes part in {op.name} of {_join_names(dtypes)}")

    # ----- code that needs the number itself --------------------------------------------------------------------------

    def refuse(self, reason: str | None = None) -> NoReturn:
        """End the trace, because code needs the number itself."""
        if reason is None:
            reason = "the function needs a number that is read of a tensor: to print, to convert or to count with it"
        self.tape.refuse(self.place, reason)

    def _concrete(self) -> Any:
        """Return the number itself, outside of the trace."""
        known = self.tape.known[self.place]
        if known is not None and not self.is_own:
            return known
        self.refuse()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._concrete(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        """Use the number itself in NumPy functions, and leave operations with tensors to them."""
        if any(isinstance(a, Variable) for a in inputs):
            return NotImplemented
        plain = [a._concrete() if type(a) is NumberPlaceholder else a for a in inputs]
        return getattr(ufunc, method)(*plain, **settings)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.kind, name):  # like Python's numbers
            raise AttributeError(name)
        return getattr(self._concrete(), name)


def _add_operator(name: str, function: Callable[..., Any]) -> None:
    """Give placeholders a Python operator and its reflected form."""

    def forward(self: NumberPlaceholder, *others: Any) -> Any:
        for other in others:
            if not _is_number(other):
                return _leave(self, other) if self.is_own else function(self._concrete(), *others)
        return operate(function, name, self, *others)

    def reflected(self: NumberPlaceholder, other: Any) -> Any:
        if _is_number(other):
            return operate(function, name, other, self)
        return _leave(self, other) if self.is_own else function(other, self._concrete())

    setattr(NumberPlaceholder, f"__{name}__", forward)
    if name not in ("neg", "abs", "invert"):
        setattr(NumberPlaceholder, f"__r{name}__", reflected)


for _name in "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor neg abs invert".split():
    _add_operator(_name.rstrip("_"), pow if _name == "pow" else getattr(operator, _name))


def _add_converter(name: str) -> None:
    def convert(self: NumberPlaceholder, *args: Any) -> Any:
        return getattr(self._concrete(), name)(*args)

    setattr(NumberPlaceholder, name, convert)


for _name in "float int index complex trunc floor ceil repr str format hash reduce_ex".split():
    _add_converter(f"__{_name}__")


# ----- operations -----------------------------------------------------------------------------------------------------

#: Result classes of operations on late numbers. None: the result is a float if any argument is, else an int.
_LATE_KINDS: dict[str, type | None] = {
    **dict.fromkeys("add sub mul mod floordiv neg abs min max sum".split()), "truediv": float, "float": float,
}  # fmt: skip
#: Operations on late floats that raise only for a division by zero, which is a condition.
_CERTAIN = frozenset("add sub mul truediv neg abs min max float".split())


def _is_number(value: Any) -> bool:
    return type(value) in _PLAIN or type(value) is NumberPlaceholder


def _leave(number: NumberPlaceholder, other: Any) -> Any:
    """Return the result of an operator with an object that is not a Python number: NotImplemented, if floats return
    that, too.
    """
    cls = type(other)
    is_pythons = bool(cls.__flags__ & _HEAP_TYPE) and cls.__module__.partition(".")[0] not in ("numpy", "decimal")
    if isinstance(other, _OTHERS) or is_pythons:
        return NotImplemented
    number.refuse(f"a number takes part in an operation with an object of class {cls.__name__}")


def operate(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """Apply a Python function to numbers, some of them placeholders. Return a placeholder, or the outcome of a
    condition.
    """
    arguments = tuple([a._concrete() if type(a) is NumberPlaceholder and not a.is_own else a for a in arguments])
    first: NumberPlaceholder | None = next((a for a in arguments if type(a) is NumberPlaceholder), None)
    if first is None:
        return function(*arguments)
    tape = first.tape
    if len(tape.operations) > MOST:
        first.refuse(f"the function does more than {MOST} operations with numbers")
    written = tuple([At(a.place) if type(a) is NumberPlaceholder else a for a in arguments])
    if any(type(a) is NumberPlaceholder and not a.is_early for a in arguments):
        return _operate_late(tape, function, name, arguments, written)
    known = [tape.known[a.place] if type(a) is NumberPlaceholder else a for a in arguments]
    try:
        result = function(*known)
    except Exception:
        tape.has_failed = True
        raise
    if result.__class__ is bool:
        place = tape.operate(function, written, None, result)
        outcome = tape.decide(place, result)
        first.tracer.decided.append((first.tracer.line(), outcome))
        return outcome
    if result.__class__ not in (int, float):
        first.refuse()
    place = tape.operate(function, written, None if name in _LATE_KINDS else result.__class__, result)
    made_by = None if name == "sum" else (name, arguments)  # a program cannot compute a compensated sum
    return NumberPlaceholder(first.tracer, tape, place, result.__class__, made_by=made_by)


def _operate_late(
    tape: NumberTape, function: Callable[..., Any], name: str, arguments: tuple[Any, ...], written: tuple[Any, ...]
) -> NumberPlaceholder:
    late: NumberPlaceholder = next(a for a in arguments if type(a) is NumberPlaceholder and not a.is_early)
    kinds = [a.kind if type(a) is NumberPlaceholder else type(a) for a in arguments]
    kind = _late_kind(late, name, arguments, kinds)
    if name == "truediv":
        _check_divisor(late, arguments[1])
    if name not in _CERTAIN or (kind is float and any(map(_may_be_large, arguments))):
        tape.may_fail_late = True
    place = tape.operate(function, written, kind if name not in _LATE_KINDS else None, None)
    return NumberPlaceholder(late.tracer, tape, place, kind, made_by=(name, arguments))


def _may_be_large(argument: Any) -> bool:
    """True if an argument may be an integer beyond the range of floats. Integers that are read or inputs are not."""
    if type(argument) is not NumberPlaceholder:
        return type(argument) is int and abs(argument) > EXACT
    return argument.kind is int and not argument.is_early and argument.made_by is not None


def _late_kind(late: NumberPlaceholder, name: str, arguments: tuple[Any, ...], kinds: list[type]) -> type:
    """Return the class of the result of an operation on late numbers."""
    if name in ("min", "max") and len(set(kinds)) != 1:
        late.refuse()  # the class would depend on the outcome
    if name in _LATE_KINDS:
        found = _LATE_KINDS[name]
        return found if found is not None else float if float in kinds else int
    if name == "pow" and len(arguments) == 2:
        if float in kinds:
            return float
        if type(arguments[1]) is int and arguments[1] >= 0:
            return int
    if name == "round":
        return int if len(arguments) == 1 else kinds[0]
    if name.startswith("math."):
        return _MATH_KINDS[name.removeprefix("math.")]
    late.refuse()


def _check_divisor(late: NumberPlaceholder, by: Any) -> None:
    tracer = late.tracer
    if type(by) is not NumberPlaceholder or by.is_early:
        is_zero = not by
    else:
        is_zero = not tracer.decide(emit_op(tracer, "ne", by.value_in(tracer), 0))
    if is_zero:
        raise GraphBreak("the function divides by zero, a number that is read of a tensor")


#: Functions of `math`, with the class of their results for late numbers.
_MATH_KINDS: dict[str, type] = {
    **dict.fromkeys(
        "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees erf erfc exp exp2 expm1 fabs fmod gamma hypot "
        "ldexp lgamma log log10 log1p log2 nextafter pow radians remainder sin sinh sqrt tan tanh ulp".split(),
        float,
    ),
    **dict.fromkeys(("ceil", "floor", "trunc"), int),
}
#: Functions of `math` that return conditions, with the corresponding ops for late numbers.
_MATH_CONDITIONS = {"isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite"}
#: Names of both, as far as this version of Python has them.
MATH = [name for name in (*_MATH_KINDS, *_MATH_CONDITIONS) if hasattr(math, name)]


def apply_math(name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Apply a function of `math` to numbers, some of them placeholders."""
    if not all(map(_is_number, arguments)):
        arguments = tuple([a._concrete() if type(a) is NumberPlaceholder else a for a in arguments])
        return function(*arguments)
    late = next((a for a in arguments if type(a) is NumberPlaceholder and a.is_own and not a.is_early), None)
    if late is None or name not in _MATH_CONDITIONS:
        return operate(function, f"math.{name}", *arguments)
    return decide(late.tracer, emit_op(late.tracer, _MATH_CONDITIONS[name], late.as_float(late.tracer)))


def apply_extreme(name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Apply `min` or `max` to numbers, some of them placeholders."""
    kinds = {a.kind if type(a) is NumberPlaceholder else type(a) for a in arguments}
    if all(map(_is_number, arguments)) and len(kinds) == 1:
        return operate(function, name, *arguments)
    return function(*arguments)  # by comparisons, each of them a condition


def sum_numbers(function: Callable[..., Any], items: tuple[Any, ...], start: Any) -> Any:
    """Return `sum(items, start)` for numbers, some of them placeholders.

    From Python 3.12 on, `sum` compensates the rounding errors of three and more floats. Single additions would not, so
    the sum is one operation. A program cannot compute it, so a sum of numbers that are read from tensors ends the trace
    if the program needs it.
    """
    terms = (start, *items)
    if sys.version_info < (3, 12) or len(items) < 3 or not all(map(_is_number, terms)):
        return function(items, start)
    return operate(_sum_terms, "sum", *terms)


def _sum_terms(start: Any, *items: Any) -> Any:
    return sum(items, start)


def _compare(function: Callable[..., Any], name: str, number: NumberPlaceholder, other: Any) -> Any:
    if not number.is_own or (type(other) is NumberPlaceholder and not other.is_own):
        return operate(function, name, number, other) if _is_number(other) else function(number._concrete(), other)
    if not _is_number(other):
        return _leave(number, other)
    if number.is_early and (type(other) is not NumberPlaceholder or other.is_early):
        return operate(function, name, number, other)
    tracer = number.tracer if not number.is_early else other.tracer
    a: Any
    b: Any
    if type(other) is NumberPlaceholder:
        a, b = number.as_float(tracer), other.as_float(tracer)
    elif number.kind is not float and type(other) is not float:
        if abs(other) > EXACT:
            number.refuse()
        a, b = number.value_in(tracer), int(other)
    elif type(other) is not float and abs(other) > EXACT:  # Python compares these exactly
        number.refuse()
    else:
        a, b = number.as_float(tracer), float(other)
    return decide(tracer, emit_op(tracer, name, a, b))


def decide(tracer: Any, condition: Value) -> bool:
    """Follow a condition on values of the program."""
    outcome = bool(tracer.decide(condition))
    tracer.decided.append((tracer.line(), outcome))
    return outcome


def emit_op(tracer: Any, name: str, *arguments: Any, **settings: Any) -> Value:
    """Append an op on values of the program and return its result."""
    op = find(name)
    found: Value = tracer.emit(op, arguments, {**op.settings, **settings})[0]
    return found


def _float_argument(tracer: Any, argument: Any) -> Any:
    return argument.as_float(tracer) if type(argument) is NumberPlaceholder else float(argument)


def _emit_arithmetic(tracer: Any, name: str, arguments: tuple[Any, ...]) -> Value:
    op = {"truediv": "div"}.get(name, name)
    return emit_op(tracer, op, *[_float_argument(tracer, a) for a in arguments])


def _emit_float(tracer: Any, name: str, arguments: tuple[Any, ...]) -> Value:
    found: Value = arguments[0].as_float(tracer)
    return found


def _emit_extreme(tracer: Any, name: str, arguments: tuple[Any, ...]) -> Value:
    """Return the first minimum or maximum, as Python finds it: a later number replaces it only if it is less, or
    larger.
    """
    found, *rest = [_float_argument(tracer, a) for a in arguments]
    for other in rest:
        is_better = emit_op(tracer, "lt" if name == "min" else "gt", other, found)
        found = emit_op(tracer, "where", is_better, other, found)
    return found


#: Operations that become ops of a program.
_IN_PROGRAMS: dict[str, Callable[[Any, str, tuple[Any, ...]], Value]] = {
    **dict.fromkeys(("add", "sub", "mul", "truediv", "neg", "abs"), _emit_arithmetic),
    "min": _emit_extreme, "max": _emit_extreme, "float": _emit_float,
}  # fmt: skip


def _join_names(dtypes: Any) -> str:
    return " and ".join(sorted(map(str, dtypes))) or "no tensors"


def make_placeholder(tracer: Any, value: Value) -> NumberPlaceholder | None:
    """Return a placeholder for the single element of an array; None if its dtype has none."""
    kind = {"f": float, "i": int, "u": int}.get(value.dtype.kind)
    if kind is None or value.dtype == np.uint64:
        return None
    (value,) = tracer.emit(find("detach"), (value,), {})  # no gradient passes through a number
    if value.shape:
        (value,) = tracer.emit(find("reshape"), (value,), {"shape": ()})
    wanted = np.dtype(np.float64 if kind is float else np.int64)
    if value.dtype != wanted:
        (value,) = tracer.emit(find("cast"), (value,), {"dtype": wanted})
    return NumberPlaceholder(tracer, tracer.numbers, tracer.numbers.add_read(value), kind, value)
