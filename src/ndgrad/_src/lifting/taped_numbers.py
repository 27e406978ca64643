"""Numbers with a derivative in lifted code: see Note [Number tapes] in `number_tape`.

`TapedScalar` stands for a number of NumPy (float64), `TapedNumber` for a Python float. Operators between them, and
with plain numbers, stay on the tape, as do the functions of `math` and NumPy's ufuncs in `UNARY` and `BINARY`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core import detach_checks
from ndgrad._src.core.modes import current
from ndgrad._src.core.node import Edge
from ndgrad._src.core.subclass import KNOWN
from ndgrad._src.core.variable import meta_of, new
from ndgrad._src.lifting.number_tape import FLOAT64, Tape, open_tape, part_of, place_of
from ndgrad.numpy import ufunc_objects
from ndgrad.numpy._array import Array, in_lifted_call, readers

#: Class of Arrays in place of Python numbers, set by `numbers`.
python_number: list[type[Any]] = []
_SLOTS = frozenset(("_array", "_node", "_storage", "_meta"))


class Taped(Array):
    """Base of taped numbers. The slots of a tensor are not set until they are read."""

    __slots__ = ()
    _number: float
    _tape: Tape
    _place: int

    def __getattr__(self, name: str) -> Any:
        if name not in _SLOTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        become_array(self)
        return getattr(self, name)

    #: Read by the dispatch of ops for each argument of an unknown class.
    run_op = property(lambda self: become_array(self))

    shape = property(lambda self: ())
    ndim = property(lambda self: 0)
    size = property(lambda self: 1)
    dtype = property(lambda self: FLOAT64)

    def __bool__(self) -> bool:
        return self._number != 0.0

    def __pos__(self) -> Any:
        return same_number(self, self.__class__)

    __hash__ = Array.__hash__


class TapedScalar(Taped):
    """A number of NumPy on a tape."""

    __slots__ = ()


class TapedNumber(Taped):
    """A Python number on a tape."""

    __slots__ = ()


TAPED: frozenset[Any] = frozenset((TapedScalar, TapedNumber))
_FLOATS: frozenset[type] = frozenset((float, int, np.float64))


def become_array(x: Any) -> None:
    """Give a taped number the slots and the class of an Array."""
    tape, place = x._tape, x._place
    original = tape.originals.get(place)
    if original is not None and x.__class__ is TapedScalar:  # the same leaf again
        x._array, x._storage, x._meta, x._node = original._array, original._storage, original._meta, original._node
        del x._number, x._tape, x._place
        _set_class(x, Array)
        return
    e = tape.output(place)
    x._array, x._storage, x._meta = np.float64(x._number), None, None
    if e.__class__ is Edge:
        x._node = e.node
        meta_of(x).output_nr = e.input_nr
    else:
        x._node = e
    del x._number, x._tape, x._place
    _set_class(x, Array if x.__class__ is TapedScalar else python_number[0])


def _set_class(x: Any, cls: type[Any]) -> None:
    x.__class__ = cls


def same_number(x: Any, cls: type[Any]) -> Any:
    """Return a taped number as one of another class."""
    made = new(cls)
    made._number, made._tape, made._place = x._number, x._tape, x._place
    return made


def tape_array(t: Any, cls: type[Any], is_argument: bool = False) -> Any:
    """Return a 0-d Array with a derivative as a taped number; None if it cannot be taped. A leaf that is an argument of
    the program stays known as a leaf."""
    if is_argument and t._node is not None and t._array.__class__ is not np.float64:
        return None  # memory that the program may write
    tape = open_tape()
    if tape is None:
        return None
    found = place_of(t, tape)
    if found is None:
        return None
    if is_argument:
        tape.originals[found[0]] = t
    made = new(cls)
    made._place, made._number = found
    made._tape = tape
    return made


def read_element(t: Any, index: Any) -> Any:
    """Return an element of a small Array with a derivative as a taped number; None if it cannot be taped."""
    tape = open_tape() if in_lifted_call.get() else None
    if tape is None:
        return None
    found = part_of(t, index, tape)
    if found is None:
        return None
    made = new(TapedScalar)
    made._place, made._number = found
    made._tape = tape
    return made


# ----- operations on any operands -------------------------------------------------------------------------------------


def _operand(x: Any, tape: Tape) -> tuple[float, int] | None:
    """Return the value and the place of an operand, -1 for a constant; None if it is not a number for the tape."""
    kind = x.__class__
    if kind in _FLOATS:
        return float(x), -1
    if kind in TAPED:
        if x._tape is tape:
            return x._number, x._place
        key = id(x._tape), x._place
        known = tape.imported.get(key)
        if known is None:
            value, source = x._number, x._tape
            known = tape.imported[key] = tape.add_input(source.output(x._place), value), source
        return x._number, known[0]
    if (kind is Array or kind is python_number[0]) and not x.ndim:
        array = x._array
        if x._meta is None and x._node is None and getattr(array, "dtype", None) is FLOAT64:
            return float(array), -1
        found = place_of(x, tape)
        if found is not None:
            return found[1], found[0]
    return None


def _tape_for(a: Any, b: Any) -> Tape | None:
    """Return the tape of an operation: that of an operand if it is open in this scope, else the open one."""
    scope = current()
    taped = [x._tape for x in (a, b) if x.__class__ in TAPED]
    found: Tape | None = next((t for t in taped if t.is_open and t.scope is scope), None) or open_tape()
    # A number of another transform takes the general path, which raises if that has ended.
    return found if found is not None and all(t.level == found.level for t in taped) else None


def _result_class(a: Any, b: Any) -> type[Any]:
    kinds = (a.__class__, b.__class__)
    is_python = all(k is TapedNumber or k is float or k is int or k is python_number[0] for k in kinds)
    return TapedNumber if is_python else TapedScalar


def combine(name: str, a: Any, b: Any) -> Any:
    """Return the result of a binary operation, of which at least one operand is taped; None if it must run on
    Arrays."""
    tape = _tape_for(a, b)
    if tape is None:
        return None
    x, y = _operand(a, tape), _operand(b, tape)
    if x is None or y is None or not tape.is_open or (x[1] < 0 and y[1] < 0):
        return None
    if name == "pow" and y[1] >= 0 and x[0] <= 0.0:
        return None
    try:
        found = BINARY[name][1](x[0], y[0])
    except (ArithmeticError, ValueError):
        return None
    if found is None:
        return None
    value, dx, dy = found
    entries = tape.entries
    made = new(_result_class(a, b))
    made._number, made._tape, made._place = value, tape, len(entries)
    function = BINARY[name][0]
    if x[1] < 0:  # a constant first operand
        entries.append((BINARY[name][2], y[1], dy, -1, x[0]))
    elif y[1] < 0:
        entries.append((function, x[1], dx, -1, y[0]))
    else:
        entries.append((function, x[1], dx, y[1], dy))
    tape.is_linear = tape.is_linear and name in ("add", "sub")
    return made


def _on_arrays(function: Callable[..., Any], *operands: Any) -> Any:
    """Run an operation on Arrays instead."""
    for x in operands:
        if x.__class__ in TAPED:
            become_array(x)
    return function(*operands)


def _power(x: float, y: float) -> tuple[float, float, float] | None:
    if not (0.0 < x < math.inf and abs(y) < math.inf):
        if x == 0.0 or abs(x) == math.inf or x != x or abs(y) == math.inf or y != int(y):
            return None
        return x**y, y * x ** (y - 1.0), math.nan  # The exponent is a constant.
    value = x**y
    return value, y * x ** (y - 1.0), value * math.log(x)


def _hypot(x: float, y: float) -> tuple[float, float, float] | None:
    value = math.hypot(x, y)
    return (value, x / value, y / value) if value else None


def _arctan2(x: float, y: float) -> tuple[float, float, float] | None:
    square = x * x + y * y
    return (math.atan2(x, y), y / square, -x / square) if square else None


def _swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: function(y, x)


def _numpy(name: str) -> Callable[..., Any]:
    def call(x: Any, y: Any) -> Any:
        import ndgrad.numpy as dnp  # the namespace, when a tape runs again

        return getattr(dnp, name)(x, y)

    return call


#: Name -> the operation on Arrays; its value and partial derivatives (None at a singular point); the operation on
#: Arrays with its operands exchanged.
BINARY: dict[str, tuple[Any, Callable[[float, float], Any], Any]] = {
    name: (function, values, _swapped(function))
    for name, function, values in (
        ("add", operator.add, lambda x, y: (x + y, 1.0, 1.0)),
        ("sub", operator.sub, lambda x, y: (x - y, 1.0, -1.0)),
        ("mul", operator.mul, lambda x, y: (x * y, y, x)),
        ("truediv", operator.truediv, lambda x, y: (x / y, 1.0 / y, -(x / y) / y)),
        ("pow", operator.pow, _power),
        ("hypot", _numpy("hypot"), _hypot),
        ("arctan2", _numpy("arctan2"), _arctan2),
    )
}


# ----- operators ------------------------------------------------------------------------------------------------------

#: Operators whose most common cases are written out: name -> (value, partial derivatives) with a taped x and y, where
#: the result is regular. The condition holds for the operand y.
_INLINE = {
    "add": ("x + y", "1.0", "1.0", "True"),
    "sub": ("x - y", "1.0", "-1.0", "True"),
    "mul": ("x * y", "y", "x", "True"),
    "truediv": ("x / y", "1.0 / y", "-v / y", "y != 0.0"),
}
_REFLECTED_INLINE = {
    "add": ("y + x", "1.0", "True"),
    "sub": ("y - x", "-1.0", "True"),
    "mul": ("y * x", "y", "True"),
    "truediv": ("y / x", "-v / x", "x != 0.0"),
}


def _write_operator(cls: type[Any], name: str) -> Callable[..., Any]:
    value, dx, dy, condition = _INLINE[name]
    mixed = "TapedScalar" if cls is TapedScalar else "kind"
    nonlinear = "" if name in ("add", "sub") else "                tape.is_linear = False\n"
    source = f"""
def __{name}__(self, y):
    tape = self._tape
    if tape.is_open and current() is tape.scope:
        kind = y.__class__
        if (kind is float or kind is int) and {condition}:
            x = self._number
            r = new({cls.__name__})
            r._number = v = {value}
            r._tape = tape
            entries = tape.entries
            r._place = len(entries)
            entries.append((OP, self._place, {dx}, -1, y))
            return r
        if (kind is TapedScalar or kind is TapedNumber) and y._tape is tape:
            other = y._place
            x, y = self._number, y._number
            if {condition}:
                r = new({mixed})
                r._number = v = {value}
                r._tape = tape
                entries = tape.entries
                r._place = len(entries)
                entries.append((OP, self._place, {dx}, other, {dy}))
{nonlinear}                return r
            return slow(self, taped_again(y, other, tape, kind))
    return slow(self, y)
"""
    return _compile(f"__{name}__", source, name, operator_of(name), _slow_operator(name, False))


def operator_of(name: str) -> Callable[..., Any]:
    made: Callable[..., Any] = BINARY[name][0]
    return made


def _taped_again(value: float, place: int, tape: Tape, cls: type[Any]) -> Any:
    made = new(cls)
    made._number, made._tape, made._place = value, tape, place
    return made


def _write_reflected(cls: type[Any], name: str) -> Callable[..., Any]:
    value, dx, condition = _REFLECTED_INLINE[name]
    nonlinear = "            tape.is_linear = False\n" if name == "truediv" else ""
    source = f"""
def __r{name}__(self, y):
    tape = self._tape
    if tape.is_open and current() is tape.scope:
        kind = y.__class__
        x = self._number
        if (kind is float or kind is int) and {condition}:
            r = new({cls.__name__})
            r._number = v = {value}
            r._tape = tape
            entries = tape.entries
            r._place = len(entries)
            entries.append((OP, self._place, {dx}, -1, y))
{nonlinear}            return r
    return slow(self, y)
"""
    return _compile(f"__r{name}__", source, name, BINARY[name][2], _slow_operator(name, True))


def _compile(name: str, source: str, op: str, function: Any, slow: Any) -> Callable[..., Any]:
    space = {
        "OP": function, "TapedScalar": TapedScalar, "TapedNumber": TapedNumber, "current": current, "new": new,
        "slow": slow, "taped_again": _taped_again,
    }  # fmt: skip
    exec(compile(source, f"<ndgrad taped {name}>", "exec"), space)
    made: Callable[..., Any] = space[name]
    return made


def _slow_operator(name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def slow(x: Any, y: Any) -> Any:
        a, b = (y, x) if reflected else (x, y)
        found = combine(name, a, b) if name in BINARY else None
        if found is not None:
            return found
        if y.__class__ not in _KNOWN_OPERANDS and not isinstance(y, Array):
            become_array(x)
            method = getattr(x, f"__{'r' if reflected else ''}{name}__")
            return method(y)
        return _on_arrays(function, a, b)

    return slow


_KNOWN_OPERANDS = frozenset((float, int, bool, complex, np.float64, np.ndarray))


def _set_operators(cls: type[Any]) -> None:
    for name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod"):
        forward = _write_operator(cls, name) if name in _INLINE else _slow_operator(name, False)
        backward = _write_reflected(cls, name) if name in _INLINE else _slow_operator(name, True)
        setattr(cls, f"__{name}__", forward)
        setattr(cls, f"__i{name}__", forward)  # a number is not changed in place
        setattr(cls, f"__r{name}__", backward)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(cls, f"__{name}__", _comparison(cls, name))
    own: dict[str, Any] = {"hash": Array.__hash__, "neg": lambda self: self * -1.0, "abs": _absolute}
    for name, method in own.items():
        setattr(cls, f"__{name}__", method)


def _absolute(self: Any) -> Any:
    if self._number > 0.0:
        return same_number(self, self.__class__)
    return self * -1.0 if self._number < 0.0 else _on_arrays(abs, self)


def _comparison(cls: type[Any], name: str) -> Callable[..., Any]:
    compare = getattr(operator, name)
    result: Any = bool if cls is TapedNumber else np.bool_

    def method(self: Any, other: Any) -> Any:
        kind = other.__class__
        if kind is float or kind is int or kind is np.float64:
            return result(compare(self._number, other))
        if kind in TAPED:
            return result(compare(self._number, other._number))
        return _on_arrays(compare, self, other) if isinstance(other, Array) else _compare_as_array(self, other, name)

    return method


def _compare_as_array(x: Any, other: Any, name: str) -> Any:
    become_array(x)
    return getattr(x, f"__{name}__")(other)


for _class in (TapedScalar, TapedNumber):
    _set_operators(_class)
    KNOWN.add(_class)
    detach_checks.ALWAYS_AT_STAKE.add(_class)


# ----- functions of one number ----------------------------------------------------------------------------------------

#: Name of a ufunc -> (function of math, partial derivative at x with value v, condition under which both are regular).
UNARY: dict[str, tuple[Callable[[float], float], Callable[[float, float], float], Callable[[float], bool]]] = {
    "sin": (math.sin, lambda x, v: math.cos(x), lambda x: abs(x) < 1e9),
    "cos": (math.cos, lambda x, v: -math.sin(x), lambda x: abs(x) < 1e9),
    "tan": (math.tan, lambda x, v: 1.0 + v * v, lambda x: abs(x) < 1e9),
    "exp": (math.exp, lambda x, v: v, lambda x: abs(x) < 700.0),
    "expm1": (math.expm1, lambda x, v: math.exp(x), lambda x: abs(x) < 700.0),
    "log": (math.log, lambda x, v: 1.0 / x, lambda x: 0.0 < x < math.inf),
    "log10": (math.log10, lambda x, v: 1.0 / (x * math.log(10.0)), lambda x: 0.0 < x < math.inf),
    "log2": (math.log2, lambda x, v: 1.0 / (x * math.log(2.0)), lambda x: 0.0 < x < math.inf),
    "log1p": (math.log1p, lambda x, v: 1.0 / (1.0 + x), lambda x: -1.0 < x < math.inf),
    "sqrt": (math.sqrt, lambda x, v: 0.5 / v, lambda x: 0.0 < x < math.inf),
    "sinh": (math.sinh, lambda x, v: math.cosh(x), lambda x: abs(x) < 700.0),
    "cosh": (math.cosh, lambda x, v: math.sinh(x), lambda x: abs(x) < 700.0),
    "tanh": (math.tanh, lambda x, v: 1.0 - v * v, lambda x: abs(x) < math.inf),
    "arcsin": (math.asin, lambda x, v: 1.0 / math.sqrt(1.0 - x * x), lambda x: abs(x) < 1.0),
    "arccos": (math.acos, lambda x, v: -1.0 / math.sqrt(1.0 - x * x), lambda x: abs(x) < 1.0),
    "arctan": (math.atan, lambda x, v: 1.0 / (1.0 + x * x), lambda x: abs(x) < 1e150),
    "arcsinh": (math.asinh, lambda x, v: 1.0 / math.hypot(1.0, x), lambda x: abs(x) < math.inf),
    "arccosh": (math.acosh, lambda x, v: 1.0 / math.sqrt((x - 1.0) * (x + 1.0)), lambda x: 1.0 < x < 1e150),
    "arctanh": (math.atanh, lambda x, v: 1.0 / (1.0 - x * x), lambda x: abs(x) < 1.0),
    "square": (lambda x: x * x, lambda x, v: 2.0 * x, lambda x: abs(x) < 1e150),
    "radians": (math.radians, lambda x, v: math.pi / 180.0, lambda x: True),
    "degrees": (math.degrees, lambda x, v: 180.0 / math.pi, lambda x: True),
    "deg2rad": (math.radians, lambda x, v: math.pi / 180.0, lambda x: True),
    "rad2deg": (math.degrees, lambda x, v: 180.0 / math.pi, lambda x: True),
}
_NUMPY_FUNCTIONS = {name: getattr(np, name) for name in UNARY}


def _again(name: str) -> Callable[..., Any]:
    def run(x: Any, _: Any) -> Any:
        import ndgrad.numpy as dnp  # the namespace, when a tape runs again

        return getattr(dnp, name)(x)

    return run


_AGAIN = {name: _again(name) for name in UNARY}


def apply_unary(name: str, x: Any, is_math: bool) -> Any:
    """Return a function of a taped number, with the value of `math` or of NumPy; None if it must run on an Array."""
    of_math, partial, is_regular = UNARY[name]
    value = x._number
    if not is_regular(value):
        return None
    tape, place = x._tape, x._place
    if not (tape.is_open and current() is tape.scope):
        other = _tape_for(x, None)
        found = None if other is None else _operand(x, other)
        if other is None or found is None:
            return None
        tape, place = other, found[1]
    v = of_math(value) if is_math else float(_NUMPY_FUNCTIONS[name](value))
    made = new(TapedNumber if is_math else TapedScalar)
    made._number, made._tape = v, tape
    entries = tape.entries
    made._place = len(entries)
    entries.append((_AGAIN[name], place, partial(value, v), -1, 0.0))
    tape.is_linear = False
    return made


_OF_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow", "hypot": "hypot",
    "arctan2": "arctan2",
}  # fmt: skip


def call_ufunc(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Apply a ufunc to taped numbers. Return None after making them Arrays if it has no rule here."""
    name = ufunc.__name__
    made = None
    if len(inputs) == 1:
        if name in UNARY:
            made = apply_unary(name, inputs[0], False)
        elif name in ("absolute", "fabs"):
            made = _absolute(inputs[0])
        elif name == "negative":
            made = inputs[0] * -1.0
    elif len(inputs) == 2:
        a, b = inputs
        if name in _OF_UFUNCS:
            made = combine(_OF_UFUNCS[name], a, b)
        elif name in ("maximum", "minimum", "fmax", "fmin"):
            made = _select(a, b, name in ("maximum", "fmax"))
    if made is None:
        for x in inputs:
            if x.__class__ in TAPED:
                become_array(x)
        return None
    return same_number(made, TapedScalar) if made.__class__ is TapedNumber else made


def _select(a: Any, b: Any, larger: bool) -> Any:
    """Return the larger or smaller of two numbers; None if they are equal or not numbers."""
    values = [x._number if x.__class__ in TAPED else x for x in (a, b)]
    if any(v.__class__ not in _FLOATS for v in values) or not (values[0] < values[1] or values[0] > values[1]):
        return None
    chosen = a if (values[0] > values[1]) is larger else b
    return chosen if chosen.__class__ in TAPED else None


for _class in (TapedScalar, TapedNumber):
    ufunc_objects.CALLS_OF_NUMBERS[_class] = call_ufunc
readers.append(read_element)
