"""The tables that native calls read: the offsets of their words, and a writer of functions over words.

Python fills the tables (ndgrad._src.compiler.native.calls), native code reads them (guard_code, entry_code).
"""

from __future__ import annotations

from ndgrad._src.compiler.native import layout
from ndgrad._src.compiler.native.ir import Function

#: Words of the table behind `self`.
COUNT, SPECIALISATIONS, FALLBACK, SENTINEL, INSIDE = range(5)
TABLE = 5

#: Words of a specialisation.
(
    POSITIONAL, KEYWORDS, GUARDS, GUARD_ROWS, POINTERS, INPUTS, OUTPUTS, OUTPUT_ROWS, FIXED, FIXED_ROWS, KERNEL,
    SCRATCH, SCRATCH_BYTES, SCRATCH_BUSY, RELEASE, AS_TUPLE, NDARRAY, NONE, ERROR, MESSAGE, HITS,
) = range(21)  # fmt: skip
SPECIALISATION = 21

#: Words of an output, and its kinds: a fresh array, an object that is always the same, an argument, an object found by
#: a guard.
KIND, DTYPE, NDIM, DIMS, CLASS, PAYLOAD, EMPTY_SLOTS, OBJECT, ADDRESS = range(9)
OUTPUT = 16
FRESH, SAME, ARGUMENT, GUARDED = range(4)


class TableFunction(Function):
    """A function over tables of words."""

    def word(self, table: str, index: int | str, type: str = "i64") -> str:
        """Load a word of a table."""
        return self.set(f"load {type}, ptr {self.address('i64', table, str(index))}")

    def put(self, value: str, table: str, index: int | str, type: str = "i64") -> None:
        self.do(f"store {type} {value}, ptr {self.address('i64', table, str(index))}")

    def at(self, object: str, offset: int | str, type: str = "ptr") -> str:
        """Load the word at a byte offset of an object."""
        return self.set(f"load {type}, ptr {self.address('i8', object, str(offset))}")

    def row(self, rows: str, number: str, words: int) -> str:
        return self.address("i64", rows, self.set(f"mul i64 {number}, {words}"))

    def unless(self, condition: str, otherwise: str) -> None:
        """Continue if the condition holds, else jump."""
        on = self.fresh("on")
        self.branch(condition, on, otherwise)
        self.label(on)

    def same(self, a: str, b: str, type: str = "ptr") -> str:
        return self.set(f"icmp eq {type} {a}, {b}")

    def is_class(self, object: str, cls: str, otherwise: str) -> None:
        self.unless(self.same(self.at(object, layout.CLASS), cls), otherwise)
