"""Conditions on values that decide what a function does: a trace follows them for the values at hand, and a call checks
them.

Losses look at their targets: are they classes, are some to be ignored? A function asserts that its argument is positive,
or scales a gradient whose norm is too large. A traced function has no values to look at.
But the values of the call that is being traced are there, and the condition is a value of the program so far: so that
is computed, the trace goes on as eager code would, and the condition becomes one more output of the program. A call
whose conditions come out otherwise is none of this trace's: nothing has been written yet, and it is traced or run
eagerly as the first one was. A function has few such ways at most, and where calls keep changing from one to another,
it runs eagerly: to find out which way a call goes takes a run of a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.foundations.devices import device
from ndgrad._src.ops.vocabulary import find

#: How many conditions a trace may have.
MOST = 16
#: How many ways a kind of call may go, each of them a program.
MOST_WAYS = 4
#: How many more programs may have been run in vain than to good purpose.
MOST_IN_VAIN = 32


class Mispredicted(Exception):
    """The conditions of a trace do not hold in a call."""


class FailedLate(Mispredicted):
    """Python's arithmetic after a program raises. Nothing has been written, and eager code will raise the same."""


class Checked:
    """The values of a traced array, as those who check values see them: compared with numbers, and asked
    whether all or any pass."""

    def __init__(self, tracer: Any, value: Value, place: device = CPU) -> None:
        self.tracer = tracer
        self.value = value
        #: the device that the values are on
        self.place = place
        self.shape, self.dtype, self.size = value.shape, value.dtype, value.size
        self.itemsize = value.dtype.itemsize

    def _op(self, name: str, *others: Any, **settings: Any) -> Checked:
        arguments = [o.value if isinstance(o, Checked) else o for o in others]
        op = find(name)
        made = self.tracer.emit(op, (self.value, *arguments), {**op.settings, **settings})[0]
        return Checked(self.tracer, made, self.place)

    def later_targets(self, classes: int, ignored: int, error: Callable[[int], Exception]) -> Any:
        """On a device: class numbers without those that are ignored, and which count; None on the CPU. To ask whether one
        is wrong would be to wait, so the device notes it, as in eager code (ndgrad._src.compiler.cuda.index_faults)."""
        if self.place is CPU:
            return None
        counted, inside = self != ignored, (self >= 0) & (self < classes)
        # what the device looks for is not zero, and has the number that is wrong in it
        number = (self._op("mul", 2))._op("add", 1).value
        wrong = self.tracer.emit(find("where"), ((counted & ~inside).value, number, 0), {})[0]
        self.tracer.later.append((wrong, error))
        safe = Checked(self.tracer, self.tracer.emit(find("where"), ((counted & inside).value, self.value, 0), {})[0])
        return tuple([self.tracer.array(found.value, self.place) for found in (safe, counted)])

    def view(self, dtype: Any) -> _Unsigned:
        """The same numbers read as unsigned: negative ones are larger than all others."""
        if np.dtype(dtype).kind != "u" or self.dtype.kind not in "iu":
            raise GraphBreak("values are read as another dtype")
        return _Unsigned(self)

    def min(self) -> _Extreme:
        return _Extreme(self, least=True)

    def max(self) -> _Extreme:
        return _Extreme(self, least=False)

    def __lt__(self, other: Any) -> Checked:
        return self._op("lt", other)

    def __le__(self, other: Any) -> Checked:
        return self._op("le", other)

    def __gt__(self, other: Any) -> Checked:
        return self._op("gt", other)

    def __ge__(self, other: Any) -> Checked:
        return self._op("ge", other)

    def __eq__(self, other: object) -> Checked:  # type: ignore[override]  # as an array's
        return self._op("eq", other)

    def __ne__(self, other: object) -> Checked:  # type: ignore[override]  # as an array's
        return self._op("ne", other)

    __hash__ = None  # type: ignore[assignment]  # as an array's

    def __and__(self, other: Any) -> Checked:
        return self._op("logical_and", other)

    def __or__(self, other: Any) -> Checked:
        return self._op("logical_or", other)

    def __invert__(self) -> Checked:
        return self._op("logical_not")

    def all(self) -> bool:
        return bool(~(~self)._any())

    def any(self) -> bool:
        return bool(self._any())

    def _any(self) -> Checked:
        return self._op("any", dim=tuple(range(len(self.shape))), keepdim=False)

    def __bool__(self) -> bool:
        return bool(self.tracer.decide(self.value))

    def __getitem__(self, index: Any) -> Any:
        raise GraphBreak("a check of values has found something wrong")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise GraphBreak(f"a check of values asks for {name!r}")


class _Unsigned:
    def __init__(self, numbers: Checked) -> None:
        self.numbers = numbers

    def max(self) -> _Unsigned:
        return self

    def __lt__(self, bound: int) -> bool:
        return ((self.numbers >= 0) & (self.numbers < bound)).all()


class _Extreme:
    """The least or the largest of values, to be compared."""

    def __init__(self, values: Checked, least: bool) -> None:
        self.values = values
        self.least = least

    def __lt__(self, bound: Any) -> bool:
        return (self.values < bound).any() if self.least else (self.values < bound).all()

    def __le__(self, bound: Any) -> bool:
        return (self.values <= bound).any() if self.least else (self.values <= bound).all()

    def __gt__(self, bound: Any) -> bool:
        return (self.values > bound).all() if self.least else (self.values > bound).any()

    def __ge__(self, bound: Any) -> bool:
        return (self.values >= bound).all() if self.least else (self.values >= bound).any()

    def __format__(self, spec: str) -> str:
        return "out of range"  # in an error, which the eager call will raise with the number

    def __int__(self) -> int:
        raise GraphBreak("the function asks for the largest or least value of a tensor")
