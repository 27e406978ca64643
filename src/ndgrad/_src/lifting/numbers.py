"""Python's numbers and `math` for lifted code: results for an Array keep its derivative.

`float(x)`, `math.sin(x)` and the rest ask an object for a plain number, which would drop the graph. Here they return
0-d Arrays if a derivative is at stake, and plain numbers otherwise. Functions without a slope (`int`, `round`,
`math.floor`, `isinstance`) always return plain values: nothing is lost. `type` returns the class of the original
program, so that branches are the same.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.modes import thread
from ndgrad._src.core.subclass import add_tensor_type
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import SCALARS as SCALAR_TYPES
from ndgrad._src.core.view import tangents_of
from ndgrad._src.lifting import taped_numbers as taped
from ndgrad._src.lifting.subclasses import make_array
from ndgrad._src.lifting.taped_numbers import TAPED, TapedNumber, TapedScalar
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy._array import Array, to_array
from ndgrad.numpy.coercion import as_array

# ----- derivatives at stake -------------------------------------------------------------------------------------------


def is_constant(t: Variable) -> bool:
    """True if a tensor is a plain value: no history, no tangents, no batch, no level."""
    meta = t._meta
    if isinstance(t._array, Variable) or requires_grad(t):
        return False
    return meta is None or not (meta.batch_level or meta.level or tangents_of(t))


def scalar(t: Variable, what: str) -> Array:
    """Return a tensor of one element as a 0-d Array, with its history."""
    array = to_array(t)
    if array.size != 1:
        raise TypeError(
            f"only length-1 arrays can be converted to Python scalars, but {what} got shape {tuple(array.shape)} "
            "[nd-one-value]"
        )
    return array.reshape(()) if array.ndim else array


def _is_tensor(x: object) -> bool:
    return isinstance(x, Variable)


# ----- Python numbers -------------------------------------------------------------------------------------------------


class PythonNumber(Array):
    """A 0-d Array in place of a Python float or complex number; other 0-d Arrays stand for NumPy's scalars. `float(x)`
    and `math.sin(x)` return it, and so does its arithmetic with Python numbers alone."""

    __slots__ = ()


add_tensor_type(PythonNumber, Array)
taped.python_number.append(PythonNumber)
#: Classes of Arrays in place of Python numbers.
_PYTHON: frozenset[type] = frozenset((PythonNumber, TapedNumber))


def python_number(t: Array) -> Array:
    """Turn a new tensor of one element into a Python number."""
    t.__class__ = PythonNumber
    return t


def _make_other(t: Array) -> Array:
    """Return another tensor for the same number. A NumPy scalar without metadata, which cannot be written, needs no
    node for it."""
    if t._meta is None and t._storage is None and t._array.__class__ in SCALAR_TYPES:
        made = wrap(Array, t._array)
        made._node = t._node
        return made
    return shape_ops.alias(t)


#: Classes of numbers whose arithmetic with a Python number gives a Python number.
_PYTHON_NUMBERS: frozenset[type] = frozenset((PythonNumber, float, int, complex, bool))


def _binary(name: str) -> Callable[..., Any]:
    of_arrays = getattr(Array, name)

    def method(self: PythonNumber, other: Any) -> Any:
        made = of_arrays(self, other)
        if made.__class__ is Array and (
            other.__class__ in _PYTHON_NUMBERS
            or (isinstance(other, (int, float, complex)) and not isinstance(other, np.generic))
        ):
            made.__class__ = PythonNumber
        return made

    method.__name__ = method.__qualname__ = name
    return method


def _unary(name: str) -> Callable[..., Any]:
    of_arrays = getattr(Array, name)

    def method(self: PythonNumber) -> Any:
        made = of_arrays(self)
        return python_number(made) if made.__class__ is Array else made

    method.__name__ = method.__qualname__ = name
    return method


#: Operators of numbers, which programs also call as `float.__mul__(a, b)`.
_OPERATORS = tuple(
    f"__{side}{name}__" for name in "add sub mul truediv floordiv mod pow".split() for side in ("", "r")
)
_SIGNS = ("__neg__", "__pos__", "__abs__")
for _operator in _OPERATORS:
    setattr(PythonNumber, _operator, _binary(_operator))
for _operator in _SIGNS:
    setattr(PythonNumber, _operator, _unary(_operator))


_CALLED_UNBOUND = frozenset((*_OPERATORS, *_SIGNS))


# ----- float, complex, int --------------------------------------------------------------------------------------------


class _Number(type):
    """Metaclass of replacements of `float`, `complex` and `int`: equal to them, and like them in `isinstance` and as
    dtypes."""

    plain: type
    kinds: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and _is_tensor(args[0]):
            made = cls.keep_taped(args[0]) if len(args) == 1 else None
            if made is not None:
                return made
            if at_stake(args[0]):
                return cls.keep(*args, **kwargs)
        return cls.plain(*args, **kwargs)

    def keep_taped(cls, x: Any) -> Any:
        """Return a number on a tape as one of this class; None if it is not on a tape."""
        return None

    def keep(cls, *args: Any, **named: Any) -> Any:
        """Return the number with its derivative."""
        raise NotImplementedError

    def __getattribute__(cls, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _CALLED_UNBOUND:
            return found

        def call(*args: Any) -> Any:
            """Apply `float.__mul__` and its like to numbers of any kind."""
            if not any(map(_is_tensor, args)):
                return found(*args)
            first, *others = args
            return getattr(first if _is_tensor(first) else as_array(first), name)(*others)

        return call

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, cls.plain)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.plain

    def __hash__(cls) -> int:
        return hash(cls.plain)

    def __repr__(cls) -> str:
        return repr(cls.plain)


class _Float(_Number):
    plain = float

    def keep_taped(cls, x: Any) -> Any:
        if x.__class__ in TAPED:
            return taped.same_number(x, TapedNumber)
        is_number = (x.__class__ is Array or x.__class__ is PythonNumber) and not x.ndim
        return taped.tape_array(x, TapedNumber) if is_number else None

    def keep(cls, *args: Any, **named: Any) -> Any:
        if np_dtype(args[0]).kind == "c":
            raise TypeError("float() argument must be a real number, not complex. Take .real of it. [nd-complex]")
        return python_number(_make_other(scalar(args[0], "float()").astype(np.float64, copy=False)))


class _Complex(_Number):
    plain = complex

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        parts = [*args, *kwargs.values()]
        if at_stake(parts):
            return cls.keep(*args, **kwargs)
        return complex(*args, **kwargs)

    def keep(cls, *parts: Any, **named: Any) -> Any:
        given = {**dict(zip(("real", "imag"), parts, strict=False)), **named}
        first, second = (
            scalar(p, "complex()") if _is_tensor(p) else p for p in (given.get("real", 0.0), given.get("imag", 0.0))
        )
        return python_number(as_array(first + second * 1j))


class _Int(_Number):
    plain = int

    def keep_taped(cls, x: Any) -> Any:
        return int(x._number) if x.__class__ in TAPED else None

    def keep(cls, *args: Any, **named: Any) -> Any:
        return int(_number(scalar(args[0], "int()")))


class Float(float, metaclass=_Float):
    """`float` in lifted code."""

    dtype = np.dtype(np.float64)  # NumPy reads a dtype from this attribute of unknown classes.


class Complex(complex, metaclass=_Complex):
    """`complex` in lifted code."""

    dtype = np.dtype(np.complex128)


class Int(int, metaclass=_Int):
    """`int` in lifted code."""

    dtype = np.dtype(np.int_)


class _Scalar(_Number):
    """Metaclass of replacements of NumPy's scalar classes, which return an array for an array."""

    def keep(cls, *args: Any, **named: Any) -> Any:
        return as_array(args[0]).astype(np.dtype(cls.plain), copy=False)


class _Float64(_Scalar):
    plain = np.float64

    def keep_taped(cls, x: Any) -> Any:
        return taped.same_number(x, TapedScalar) if x.__class__ in TAPED else None


class _Float32(_Scalar):
    plain = np.float32


class _Complex128(_Scalar):
    plain = np.complex128


class _Complex64(_Scalar):
    plain = np.complex64


class Float64(np.float64, metaclass=_Float64):
    """`numpy.float64` in lifted code."""


class Float32(np.float32, metaclass=_Float32):
    """`numpy.float32` in lifted code."""


class Complex128(np.complex128, metaclass=_Complex128):
    """`numpy.complex128` in lifted code."""


class Complex64(np.complex64, metaclass=_Complex64):
    """`numpy.complex64` in lifted code."""


#: NumPy's scalar classes, and their replacements.
SCALARS: dict[type, Any] = {
    np.float64: Float64, np.float32: Float32, np.complex128: Complex128, np.complex64: Complex64,
}  # fmt: skip

for _class in (Float, Complex, Int, *SCALARS.values()):
    _class.__name__ = _class.__qualname__ = _class.plain.__name__


def _number(t: Any) -> Any:
    """Return the plain number in a tensor."""
    if not _is_tensor(t):
        return t
    if t.__class__ in TAPED:
        return t._number
    array: Any = innermost_array(t)
    # Traces and batches have their own answer.
    return (
        array.item() if array.__class__ in _ARRAYS and array.size == 1 and not thread.observers else t.detach().item()
    )


_ARRAYS: frozenset[type[Any]] = frozenset((np.ndarray, np.float64, np.float32, np.complex128, np.complex64, np.int64))


def round_number(number: Any, ndigits: int | None = None) -> Any:
    """Implement `round`: without digits it returns an int, as in Python; its slope is zero."""
    if _is_tensor(number) and number.ndim == 0 and ndigits is None:
        return round(_number(number))  # the slope is zero
    made = round(number) if ndigits is None else round(number, ndigits)
    return python_number(made) if number.__class__ is PythonNumber else made


# ----- texts ----------------------------------------------------------------------------------------------------------


class Text(str):
    """A text with a `%` in lifted code. `"%.3f" % x` calls `float(x)` in C, where a derivative would be lost; text has
    none to lose."""

    __slots__ = ()

    def __mod__(self, values: Any) -> str:
        if values.__class__ is tuple:
            return str.__mod__(self, tuple(map(_printable, values)))
        return str.__mod__(
            self, {k: _printable(v) for k, v in values.items()} if values.__class__ is dict else _printable(values)
        )


def _printable(x: Any) -> Any:
    return x.detach() if _is_tensor(x) else x


def replace_formats(code: CodeType) -> CodeType:
    """Return the code with `Text` for texts that may be formats, including nested functions and classes."""
    constants = tuple(
        replace_formats(c) if c.__class__ is CodeType else Text(c) if c.__class__ is str and "%" in c else c
        for c in code.co_consts
    )
    return code if all(map(operator.is_, constants, code.co_consts)) else code.replace(co_consts=constants)


# ----- type and isinstance --------------------------------------------------------------------------------------------


_PLAIN_CLASSES: dict[type, type] = {float: Float, complex: Complex, int: Int, Text: str, **SCALARS}


class LiftedType(type):
    """Metaclass of lifted classes: equal to their originals, so that tables with classes as keys find both."""

    def __eq__(cls, other: object) -> bool:
        if cls is other:
            return True
        ours = vars(cls).get("__lifted_from__", cls)
        return ours is (vars(other).get("__lifted_from__", other) if isinstance(other, type) else other)

    def __hash__(cls) -> int:
        return type.__hash__(vars(cls).get("__lifted_from__", cls))


def type_of(x: Any) -> type:
    """Implement `type(x)`: return the class of x in the original program, under its name in lifted code."""
    if x.__class__ in TAPED:
        return Float if x.__class__ is TapedNumber else Float64
    if x.__class__ is PythonNumber:
        return Complex if np_dtype(x).kind == "c" else Float
    if isinstance(x, Variable):
        if hasattr(x, "follows_numpy_subclass"):
            return type(x)
        return NDArray if x.ndim else SCALARS.get(np_dtype(x).type, np_dtype(x).type)
    kind = type(x)
    if kind in (type, _Type, _NDArray, LiftedType) or isinstance(x, _Number):
        return Type
    if issubclass(kind, LiftedType):
        original: type = vars(kind).get("__stands_for__", kind)
        return original
    return _PLAIN_CLASSES.get(kind, NDArray if kind is np.ndarray else kind)


class _Type(type):
    """Metaclass of the replacement of `type`: with one argument it returns the class of it, otherwise it acts like
    `type`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not Type:
            return super().__call__(*args, **kwargs)  # a metaclass of the program
        return type_of(*args) if len(args) == 1 and not kwargs else type(*args, **kwargs)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, type) if cls is Type else super().__instancecheck__(x)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, type) if cls is Type else super().__subclasscheck__(other)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (cls is Type and other is type)

    def __hash__(cls) -> int:
        return hash(type) if cls is Type else super().__hash__()


class Type(type, metaclass=_Type):
    """`type` in lifted code."""


class _NDArray(type):
    """Metaclass of the replacement of `numpy.ndarray`: Arrays are its instances and its results."""

    def __call__(cls, shape: Any, dtype: Any = float, buffer: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = np.ndarray(shape, dtype, buffer, *args, **kwargs)
        return as_array(made) if is_number(made.dtype) else made

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, np.ndarray) or (isinstance(x, Variable) and x.__class__ not in _PYTHON)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, (np.ndarray, Array))

    def __getattr__(cls, name: str) -> Any:
        return getattr(Array, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is np.ndarray or other is Array

    def __hash__(cls) -> int:
        return hash(np.ndarray)

    def __repr__(cls) -> str:
        return repr(np.ndarray)


class NDArray(metaclass=_NDArray):
    """`numpy.ndarray` in lifted code."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # numpy.ndarray.__new__(subclass, shape, ...)
        return NDArray(*args, **kwargs) if cls is NDArray else make_array(cls, *args, **kwargs)

    @staticmethod
    def finish_view(t: Array) -> Array:
        return shape_ops.alias(to_array(t))


Type.__name__ = Type.__qualname__ = "type"
NDArray.__name__ = NDArray.__qualname__ = "ndarray"
NDArray.__module__ = "numpy"


def isinstance_(x: object, kinds: Any) -> bool:
    """Implement `isinstance`, for which an Array is an ndarray. A 0-d Array is also a NumPy scalar, which NumPy
    would have returned.

    Args:
        x: any object.
        kinds: class, or tuple of classes.
    """
    if x.__class__ is TapedNumber:
        return kinds is float or any(_covers(k, float) for k in _flatten(kinds))
    if x.__class__ is PythonNumber:
        return any(_covers(k, complex if np_dtype(x).kind == "c" else float) for k in _flatten(kinds))
    if isinstance(x, kinds):
        return True
    if x.__class__ is TapedScalar:
        return any(k is np.ndarray or _covers(k, np.float64) for k in _flatten(kinds))
    if isinstance(x, Variable):
        wanted = tuple(_flatten(kinds))
        return np.ndarray in wanted or (x.ndim == 0 and any(_covers(k, np_dtype(x).type) for k in wanted))
    return isinstance(x, np.ndarray) and Array in _flatten(kinds)


def _flatten(kinds: Any) -> list[Any]:
    if isinstance(kinds, tuple):
        return [k for kind in kinds for k in _flatten(kind)]
    return list(getattr(kinds, "__args__", (kinds,)))  # for example int | float


def _covers(kind: object, scalar_type: type) -> bool:
    return isinstance(kind, type) and kind is not object and issubclass(scalar_type, kind)


def hasattr_(x: Any, name: str) -> bool:
    """Implement `hasattr`: a 0-d Array has the attributes of the number that it stands for."""
    if isinstance(x, Variable) and not x.ndim and not hasattr(_number_class(x), name):
        return False
    return hasattr(x, name)


def _number_class(x: Variable) -> type:
    if x.__class__ in TAPED:
        return float if x.__class__ is TapedNumber else np.float64
    kind = np_dtype(x)
    if x.__class__ is PythonNumber:
        return complex if kind.kind == "c" else float
    return kind.type


#: Names of `builtins` with another meaning in lifted code.
BUILTINS: dict[str, Any] = {
    "float": Float, "complex": Complex, "int": Int, "type": Type, "round": round_number, "isinstance": isinstance_,
    "hasattr": hasattr_,
}  # fmt: skip


# ----- math and cmath -------------------------------------------------------------------------------------------------


def _numpy() -> ModuleType:
    import ndgrad.numpy  # loaded once there are Arrays

    return ndgrad.numpy


def _special() -> ModuleType:
    import ndgrad  # the whole namespace, which is above this layer

    return ndgrad.special


def _log(x: Any, base: Any = None) -> Any:
    top = _numpy().log(x)
    return top if base is None else top / _numpy().log(base)


def _total(values: Any) -> Any:
    total: Any = 0.0
    for v in values:
        total = total + v
    return total


def _norm(*parts: Any) -> Any:
    length: Any = 0.0
    for p in parts:
        length = _numpy().hypot(length, p)
    return length


def _fraction(mantissa: Array, exponent: Array) -> tuple[Array, int]:
    return mantissa, int(_number(exponent))


def _product(values: Any, *, start: Any = 1) -> Any:
    for v in values:
        start = start * v
    return start


#: Function of math -> the same on tensors: the name of NumPy's ufunc if it suffices; None
#: for results without a slope.
_MATH: dict[str, Any] = {
    **{name: name for name in (
        "sin cos tan sinh cosh tanh exp expm1 exp2 log2 log10 log1p sqrt cbrt fabs copysign fmod degrees radians "
        "ldexp modf nextafter".split()
    )},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh",
    "pow": "power",
    "log": _log,
    "hypot": _norm,
    "dist": lambda p, q: _norm(*(a - b for a, b in zip(p, q, strict=True))),
    "fsum": _total,
    "prod": _product,
    "sumprod": lambda p, q: _total(a * b for a, b in zip(p, q, strict=True)),
    "fma": lambda x, y, z: x * y + z,
    "remainder": lambda x, y: x - y * float(np.rint(_number(x) / _number(y))),
    "erf": lambda x: _special().erf(x),
    "erfc": lambda x: _special().erfc(x),
    "lgamma": lambda x: _special().gammaln(x),
    "gamma": lambda x: math.copysign(1.0, math.gamma(_number(x))) * _numpy().exp(_special().gammaln(x)),
    "frexp": lambda x: _fraction(*_numpy().frexp(x)),
    **dict.fromkeys("floor ceil trunc isnan isinf isfinite isclose ulp".split()),
}  # fmt: skip

_CMATH: dict[str, Any] = {
    **{name: name for name in "sin cos tan sinh cosh tanh exp log10 sqrt".split()},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "log": _log,
    "phase": lambda z: _numpy().angle(z),
    "polar": lambda z: (abs(z), _numpy().angle(z)),
    "rect": lambda r, phi: r * _numpy().exp(1j * phi),
    **dict.fromkeys("isnan isinf isfinite isclose".split()),
}  # fmt: skip


def _plain(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(v) for v in x)
    return _number(scalar(x, "math")) if _is_tensor(x) else x


#: Function of math -> name of the rule for taped numbers.
_OF_MATH = {
    **{name: name for name in taped.UNARY}, "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "hypot": "hypot", "pow": "pow", "fabs": "fabs",
}  # fmt: skip


def _call_taped(name: str, args: tuple[Any, ...]) -> Any:
    """Return a function of math of taped numbers, or of a number that can be taped; None for all others."""
    x: Any = args[0] if args else None
    if len(args) == 2 and (x.__class__ in TAPED or args[1].__class__ in TAPED) and name in taped.BINARY:
        made = taped.combine(name, *args)
        return made if made is None or made.__class__ is TapedNumber else taped.same_number(made, TapedNumber)
    if len(args) != 1:
        return None
    if x.__class__ is Array and not x.ndim and (x._node is not None or x._meta is not None):
        x = taped.tape_array(x, TapedNumber)
    if x.__class__ not in TAPED:
        return None
    if name == "fabs":
        made = abs(x)
        return taped.same_number(made, TapedNumber) if made.__class__ in TAPED else None
    return taped.apply_unary(name, x, True) if name in taped.UNARY else None


def _function(module: ModuleType, name: str, how: str | Callable[..., Any] | None) -> Callable[..., Any]:
    theirs = getattr(module, name)
    complex_result = module is cmath

    own = _OF_MATH.get(name) if module is math else None

    def call(*args: Any, **kwargs: Any) -> Any:
        if own is not None and not kwargs and (made := _call_taped(own, args)) is not None:
            return made
        args = tuple(list(a) if _is_iterator(a) or _is_row(name, a) else a for a in args)
        if not at_stake(args):
            return getattr(module, name)(*args, **kwargs)  # during a trace of the compiler, another function
        # Run it for its errors: "math domain error" where NumPy would return NaN. A trace has no number, but a branch.
        condition = _DOMAINS.get(name) if thread.observers and not complex_result else None
        if condition is None or not condition(*args):
            theirs(*_plain(args), **kwargs)
        given = [scalar(a, f"{module.__name__}.{name}()") if _is_tensor(a) else a for a in args]
        if complex_result:
            given = [
                a + 0j if name not in ("phase", "polar", "rect") and not isinstance(a, (list, tuple)) else a
                for a in given
            ]
        function: Any = getattr(_numpy(), how) if isinstance(how, str) else how
        made = function(*given, **kwargs)
        parts = made if isinstance(made, tuple) else (made,)
        parts = tuple(python_number(_make_other(as_array(p))) if _is_tensor(p) else p for p in parts)
        return parts if isinstance(made, tuple) else parts[0]

    def call_flat(*args: Any, **kwargs: Any) -> Any:
        return theirs(*_plain(args), **kwargs)

    chosen = call_flat if how is None else call
    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__ = theirs.__doc__
    return chosen


#: Function of math -> condition under which it raises no error.
_DOMAINS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("log2", "log10"), lambda x: x > 0),
    "log": lambda x, base=math.e: x > 0 and base > 0 and base != 1,
    **dict.fromkeys(("atan2", "copysign", "hypot"), lambda *args: True),
    "fmod": lambda x, y: abs(x) < math.inf and y != 0,
    "log1p": lambda x: x > -1,
    "sqrt": lambda x: x >= 0,
    **dict.fromkeys(("asin", "acos"), lambda x: abs(x) <= 1),
    "acosh": lambda x: x >= 1,
    "atanh": lambda x: abs(x) < 1,
    **dict.fromkeys(("exp", "expm1"), lambda x: x < 709.78),
    **dict.fromkeys(("sinh", "cosh"), lambda x: abs(x) < 710.47),
    **dict.fromkeys(("sin", "cos", "tan"), lambda x: abs(x) < math.inf),
    **dict.fromkeys(("atan", "tanh", "asinh", "erf", "erfc", "cbrt", "fabs", "degrees", "radians"), lambda x: True),
}

#: Functions of math that take several numbers in one argument.
_OF_SEQUENCES = frozenset("dist fsum prod sumprod".split())


def _is_row(name: str, x: Any) -> bool:
    return name in _OF_SEQUENCES and _is_tensor(x) and x.ndim > 0


def _is_iterator(x: object) -> bool:
    return hasattr(x, "__next__")


def functions_of(module: ModuleType) -> dict[str, Any]:
    """Return the names of `math` or `cmath` for lifted code: differentiable functions if possible; others take
    plain numbers."""
    return _FUNCTIONS[module]


def _make_functions(module: ModuleType) -> dict[str, Any]:
    known = _MATH if module is math else _CMATH
    return {
        name: _function(module, name, known[name]) if name in known else value
        for name, value in vars(module).items()
        if not name.startswith("_")
    }


#: Functions of math and cmath in lifted code, and their originals. A trace of the compiler replaces some of the
#: originals, so both are read once, before any trace.
_FUNCTIONS = {module: _make_functions(module) for module in (math, cmath)}
MATH_ORIGINALS = {module: dict(vars(module)) for module in (math, cmath)}


def make_builtins(import_: Callable[..., Any]) -> dict[str, Any]:
    """Return the builtins of lifted code."""
    return {**vars(builtins), **BUILTINS, "__import__": import_}
