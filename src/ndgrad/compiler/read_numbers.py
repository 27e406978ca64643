"""Numbers that a traced function reads of tensors, `loss.item()`: in the place of the number, something to compute with.

While a function is traced there is no number. What stands for it is a value of the program, in double precision as
Python's floats are, and what Python computes with it becomes ops: sums, products and quotients with other numbers, and
ops with tensors, in whose dtype it takes part. A comparison, or whether a quotient has a zero below, is a condition that
the trace follows (see ndgrad.compiler.decisions). A number that is returned is one more output, handed out as Python's.

Whatever needs the number itself (to print it, `int`, `float`, `math`, as a size or a key) ends the trace. Python's own code
cannot take it for a number in silence: it is none, though `isinstance` and `__class__` say so. `type` would say what it
is: where code of the user's names that, nothing stands for numbers.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ndgrad.compiler.graph_break import GraphBreak
from ndgrad.compiler.program import Value
from ndgrad.ops.vocabulary import find

#: Integers up to here are the same as floats.
EXACT = 2**53


class ReadNumber:
    """What stands for a Python number that a tensor of a trace holds."""

    __slots__ = ("kind", "tracer", "value")

    #: NumPy's arrays and scalars leave operators to it
    __array_ufunc__ = None

    def __init__(self, tracer: Any, value: Value, kind: type) -> None:
        """`value` is an array without dimensions, of float64 for a `kind` of float, of int64 for int."""
        self.tracer = tracer
        self.value = value
        self.kind = kind

    @property  # type: ignore[misc]  # what `isinstance` looks at
    def __class__(self) -> type:
        return self.kind

    # ----- arithmetic -------------------------------------------------------------------------------------------------

    def _as_float(self) -> Value:
        """The same as a float: what an integer becomes beside one, and in a quotient."""
        if self.kind is float:
            return self.value
        value = self._op("cast", self.value, dtype=np.dtype(np.float64))
        if not self.tracer.decide(self._op("le", self._op("abs", value), float(EXACT))):
            self._refuse()
        return value

    def _op(self, name: str, *arguments: Any, **settings: Any) -> Value:
        op = find(name)
        return self.tracer.emit(op, arguments, {**op.settings, **settings})[0]

    def _float(self, value: Value) -> ReadNumber:
        return ReadNumber(self.tracer, value, float)

    def __add__(self, other: Any) -> Any:
        return self._with(other, "add")

    def __radd__(self, other: Any) -> Any:
        return self._with(other, "add", reflected=True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, "sub")

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, "sub", reflected=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, "mul")

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, "mul", reflected=True)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, "div")

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, "div", reflected=True)

    def _with(self, other: Any, name: str, reflected: bool = False) -> Any:
        """What an operator gives, with another number; tensors take it for a number themselves."""
        if type(other) not in (int, float, bool, ReadNumber):
            return NotImplemented
        if name != "div" and self.kind is not float and getattr(other, "kind", type(other)) is not float:
            self._refuse()  # a sum or product of Python's integers, which have no limits
        a: Value | float = self._as_float()
        b: Value | float = other._as_float() if type(other) is ReadNumber else float(other)
        if reflected:
            a, b = b, a
        if name == "div":
            self._check_divisor(b)
        return self._float(self._op(name, a, b))

    def _check_divisor(self, by: Value | float) -> None:
        if not (by if isinstance(by, float) else self.tracer.decide(self._op("ne", by, 0.0))):
            raise GraphBreak("a number that is read of a tensor stands below a quotient, and is zero")

    def __neg__(self) -> ReadNumber:
        return ReadNumber(self.tracer, self._op("neg", self.value), self.kind) if self.kind is float else self._refuse()

    def __pos__(self) -> ReadNumber:
        return self

    def __abs__(self) -> ReadNumber:
        return ReadNumber(self.tracer, self._op("abs", self.value), self.kind) if self.kind is float else self._refuse()

    # ----- conditions -------------------------------------------------------------------------------------------------

    def _compared(self, other: Any, name: str) -> Any:
        if type(other) not in (int, float, bool, ReadNumber):
            return NotImplemented
        a: Value
        b: Value | float
        if type(other) is ReadNumber:
            a, b = self._as_float(), other._as_float()
        elif self.kind is not float and type(other) is not float:
            if abs(other) > EXACT:
                self._refuse()
            a, b = self.value, int(other)
        elif type(other) is not float and abs(other) > EXACT:  # which Python compares exactly
            self._refuse()
        else:
            a, b = self._as_float(), float(other)
        return self._decided(self._op(name, a, b))

    def _decided(self, condition: Value) -> bool:
        outcome = bool(self.tracer.decide(condition))
        self.tracer.decided.append((self.tracer.line(), outcome))
        return outcome

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, "lt")

    def __le__(self, other: Any) -> Any:
        return self._compared(other, "le")

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, "gt")

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, "ge")

    def __eq__(self, other: object) -> Any:
        return self._compared(other, "eq")

    def __ne__(self, other: object) -> Any:
        return self._compared(other, "ne")

    def __bool__(self) -> bool:
        return self._decided(self._op("ne", self.value, 0))

    # ----- ops with tensors -------------------------------------------------------------------------------------------

    def beside(self, op: Any, arrays: Any) -> Value:
        """What it is among the arguments of an op: in their dtype, as NumPy takes Python's numbers."""
        others = [a for a in arrays if type(a) is not ReadNumber and hasattr(a, "dtype")]
        dtypes = {a.dtype for a in others if a.dtype.kind != "b"}
        (dtype,) = dtypes if len(dtypes) == 1 else (None,)
        is_taken = op.elementwise and op.name != "pow"  # which has other ways for some numbers
        if self.kind is not float or not is_taken or dtype not in (np.float32, np.float64):
            raise GraphBreak(f"a number that is read of a tensor takes part in {op.name} of {_named(dtypes)}")
        return self.value if dtype == self.value.dtype else self._op("cast", self.value, dtype=dtype)

    # ----- what needs the number itself -------------------------------------------------------------------------------

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise GraphBreak("the function needs a number that is read of a tensor: to print, to convert or to count with it")

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __repr__ = __str__ = __format__ = __hash__ = __array__ = __reduce_ex__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.kind, name):  # as of Python's numbers
            raise AttributeError(name)
        self._refuse()


def _named(dtypes: Any) -> str:
    return " and ".join(sorted(map(str, dtypes))) or "no tensors"


def read(tracer: Any, value: Value) -> ReadNumber | None:
    """What stands for the one element of an array; None for what there is nothing for."""
    kind = {"f": float, "i": int, "u": int}.get(value.dtype.kind)
    if kind is None or value.dtype == np.uint64:
        return None
    (value,) = tracer.emit(find("detach"), (value,), {})  # no gradient goes through a number
    if value.shape:
        (value,) = tracer.emit(find("reshape"), (value,), {"shape": ()})
    wanted = np.dtype(np.float64 if kind is float else np.int64)
    if value.dtype != wanted:
        (value,) = tracer.emit(find("cast"), (value,), {"dtype": wanted})
    return ReadNumber(tracer, value, kind)
