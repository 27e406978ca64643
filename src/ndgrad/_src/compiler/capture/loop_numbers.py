"""Python numbers of a rolled-up loop: the loop's index, and numbers computed from it.

A body of one round stands for all rounds, so its index has no single value. A `LoopNumber` records the Python expression
that computes it. Its values in all rounds come from running that expression in Python, so they are those of the loop as
written. An index of an array must be such a number. Arithmetic with a tensor uses a row of the array of its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core.variable import Variable


class LoopNumber:
    """A number that differs from round to round."""

    __slots__ = ("has_carry", "loop", "source")
    __array_ufunc__ = None
    #: The functions of ndgrad.numpy take its `as_array`.
    stands_for_numbers = True

    def __init__(self, loop: Any, source: str, has_carry: bool) -> None:
        self.loop = loop
        #: Python expression of the round `t` and of the numbers `c0`, `c1`, ... that rounds pass on.
        self.source = source
        self.has_carry = has_carry

    def __bool__(self) -> bool:
        found: bool = self.loop.decide(self)
        return found

    def _refuse(self, *_: Any) -> Any:
        return self.loop.refuse("a number that differs from round to round is used as a plain number")

    __index__ = __int__ = __float__ = __complex__ = __hash__ = __iter__ = __len__ = _refuse
    __round__ = __trunc__ = __floor__ = __ceil__ = __array__ = __divmod__ = __rdivmod__ = _refuse

    def as_array(self, tensor_type: type[Any]) -> Any:
        """Return the number as an Array, for NumPy's functions: one of a float, which gives it a dtype."""
        return self.loop.array_of(self, tensor_type)

    def __repr__(self) -> str:
        return f"<number of a loop: {self.source}>"


def _binary(symbol: str, swapped: bool) -> Callable[[LoopNumber, Any], Any]:
    def method(self: LoopNumber, other: Any) -> Any:
        if isinstance(other, Variable):
            row = self.loop.number_row(self, other)
            return _OPERATIONS[symbol](other, row) if swapped else _OPERATIONS[symbol](row, other)
        if isinstance(other, LoopNumber):
            if other.loop is not self.loop:
                self.loop.refuse("numbers of two loops are combined")
            text, carry = other.source, self.has_carry or other.has_carry
        elif type(other) in (int, float, bool) and math.isfinite(other):
            text, carry = f"({other!r})", self.has_carry
        else:
            return NotImplemented
        left, right = (text, self.source) if swapped else (self.source, text)
        return LoopNumber(self.loop, f"({left} {symbol} {right})", carry)

    return method


def _unary(symbol: str) -> Callable[[LoopNumber], Any]:
    return lambda self: LoopNumber(self.loop, f"({symbol}({self.source}))", self.has_carry)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}.items():
    setattr(LoopNumber, f"__{_name}__", _binary(_symbol, False))
    setattr(LoopNumber, f"__r{_name}__", _binary(_symbol, True))


def _plain_binary(symbol: str, swapped: bool) -> Callable[[LoopNumber, Any], Any]:
    """Return an operation that is not defined with tensors here."""
    method = _binary(symbol, swapped)

    def run(self: LoopNumber, other: Any) -> Any:
        if isinstance(other, Variable):
            self.loop.refuse(f"{symbol} combines a tensor with a number that differs from round to round")
        return method(self, other)

    return run


for _name, _symbol in {"floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^"}.items():
    setattr(LoopNumber, f"__{_name}__", _plain_binary(_symbol, False))
    setattr(LoopNumber, f"__r{_name}__", _plain_binary(_symbol, True))
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(LoopNumber, f"__{_name}__", _binary(_symbol, False))
for _name, _symbol in {"neg": "-", "pos": "+", "abs": "abs"}.items():
    setattr(LoopNumber, f"__{_name}__", _unary(_symbol))


class Sequences:
    """Values of loop numbers, by expression."""

    def __init__(self, tables: list[Any]) -> None:
        #: Lists that expressions name: `table0[t]`.
        self.tables = tables
        self._known: dict[tuple[str, int], list[Any]] = {}
        #: First expression with some values.
        self._keys: dict[tuple[str, int], str] = {}
        self._first: dict[tuple[bytes, int], str] = {}

    def index_values(self, source: str, rounds: int) -> list[Any]:
        """Return the values of an expression without carried numbers."""
        key = source, rounds
        if key not in self._known:
            self._known[key] = self.carried_values([source], [], [], rounds)[0][0]
        return self._known[key]

    def index_key(self, source: str, rounds: int) -> str:
        """Return an expression with the same values, the same for all such expressions."""
        key = source, rounds
        if key not in self._keys:
            values = np.array(self.index_values(source, rounds))
            self._keys[key] = self._first.setdefault((values.tobytes() + values.dtype.char.encode(), rounds), source)
        return self._keys[key]

    def carried_values(
        self, sources: list[str], following: list[str], first: list[Any], rounds: int
    ) -> tuple[list[list[Any]], list[Any]]:
        """Return the values of expressions, and the last carried numbers. `following` are the expressions of the
        carried numbers of the next round, and `first` their initial values.
        """
        names = [f"c{k}" for k in range(len(following))]
        lines = ["def run(rounds, first, out):"]  # without calls, which a watched trace would see
        lines += [f"    {', '.join(names)}, = first"] if names else []
        lines += [f"    out{k} = out[{k}]" for k in range(len(sources))]
        lines += ["    for t in range(rounds):"]
        lines += [f"        out{k}[t] = {source}" for k, source in enumerate(sources)]
        lines += [f"        {', '.join(names)}, = {', '.join(following)},"] if names else []
        lines += ["        pass", f"    return [{', '.join(names)}]"]
        space: dict[str, Any] = {f"table{k}": table for k, table in enumerate(self.tables)}
        exec(compile("\n".join(lines), "<ndgrad loop>", "exec"), space)  # expressions of numbers, written above
        out: list[list[Any]] = [[None] * rounds for _ in sources]
        last = space["run"](rounds, first, out)
        return out, last

    def count_while(self, condition: str, following: list[str], first: list[Any], most: int) -> int:
        """Return the number of rounds before which a condition on carried numbers holds; 0 if there are more than `most`."""
        names = [f"c{k}" for k in range(len(following))]
        lines = ["def run(most, first):", f"    {', '.join(names)}, = first", "    count = 0"]
        lines += [f"    while count <= most and ({condition}):", f"        {', '.join(names)}, = {', '.join(following)},"]
        lines += ["        count += 1", "    return count"]
        space: dict[str, Any] = {f"table{k}": table for k, table in enumerate(self.tables)}
        exec(compile("\n".join(lines), "<ndgrad loop>", "exec"), space)  # expressions of numbers, written above
        count: int = space["run"](most, first)
        return count if count <= most else 0
