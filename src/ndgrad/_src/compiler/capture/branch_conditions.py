"""Branch conditions: the trace follows their current outcomes, and each call checks the outcomes.

A loss checks whether its targets are classes, and whether some are ignored. A function asserts that its argument is
positive, or scales a gradient whose norm is too large. A traced function has no values for such conditions. But the
values of the traced call are available, and the condition is a value of the program so far. So the condition is
computed, the trace continues as eager code would, and the condition becomes one more output of the program.

A call with other outcomes does not fit the trace. Nothing has been written at that point, so the call is traced or run
eagerly like the first one. A function has few such paths. If calls keep changing between paths, the function runs
eagerly, because finding the path of a call costs a run of a program.
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

#: Largest number of conditions in a trace.
MOST = 16
#: Largest number of paths for a kind of call. Each is a program.
MOST_PATHS = 4
#: Largest excess of discarded runs over successful runs.
MOST_IN_VAIN = 32


class Mispredicted(Exception):
    """The branch conditions of a trace do not hold in a call."""


class FailedLate(Mispredicted):
    """Python arithmetic after a program raises. Nothing has been written, and eager code will raise the same error."""


class Checked:
    """Values of a traced array for argument checks: they can be compared with numbers and reduced by all or any."""

    def __init__(self, tracer: Any, value: Value, place: device = CPU) -> None:
        self.tracer = tracer
        self.value = value
        #: Device of the values.
        self.place = place
        self.shape, self.dtype, self.size = value.shape, value.dtype, value.size
        self.itemsize = value.dtype.itemsize

    def _op(self, name: str, *others: Any, **settings: Any) -> Checked:
        arguments = [o.value if isinstance(o, Checked) else o for o in others]
        op = find(name)
        made = self.tracer.emit(op, (self.value, *arguments), {**op.settings, **settings})[0]
        return Checked(self.tracer, made, self.place)

    def later_targets(self, classes: int, ignored: int, error: Callable[[int], Exception]) -> Any:
        """Return class numbers with ignored and invalid ones set to 0, and the mask of counted ones; None on the CPU. A
        test for invalid ones would wait for the device, so the device records them, as in eager code
        (ndgrad._src.compiler.cuda.index_faults).
        """
        if self.place is CPU:
            return None
        counted, inside = self != ignored, (self >= 0) & (self < classes)
        # The device looks for a value other than zero. The value encodes the invalid number.
        number = (self._op("mul", 2))._op("add", 1).value
        wrong = self.tracer.emit(find("where"), ((counted & ~inside).value, number, 0), {})[0]
        self.tracer.later.append((wrong, error))
        safe = Checked(self.tracer, self.tracer.emit(find("where"), ((counted & inside).value, self.value, 0), {})[0])
        return tuple([self.tracer.array(found.value, self.place) for found in (safe, counted)])

    def view(self, dtype: Any) -> _Unsigned:
        """Return the same numbers as unsigned ones: negative numbers become larger than all others."""
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

    def __eq__(self, other: object) -> Checked:  # type: ignore[override]  # like an array's
        return self._op("eq", other)

    def __ne__(self, other: object) -> Checked:  # type: ignore[override]  # like an array's
        return self._op("ne", other)

    __hash__ = None  # type: ignore[assignment]  # like an array's

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
    """The minimum or maximum of values, for comparisons."""

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
        return "out of range"  # the eager call raises the error with the number

    def __int__(self) -> int:
        raise GraphBreak("the function asks for the largest or least value of a tensor")
