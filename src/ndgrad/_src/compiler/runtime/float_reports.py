"""Reports of floating-point errors by the calls of a compiled function.

A program that finds an error runs once more as eager code, which reports the error as NumPy does (see
ndgrad._src.compiler.lower.float_errors). `FloatReports` remembers the errors that have been reported, so that later calls
do not look for them again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.compiler.lower.float_errors import (
    FloatFlags,
    bits_to_look_for,
    filter_version,
    reported,
    shows_all,
    warn_of,
)
from ndgrad._src.compiler.program.compiler_ops import most_rounds
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.runtime.input_memory import array_of

#: Number of rounds of a loop that are checked on NumPy for errors in elements that no result needs.
_CHECKED_ROUNDS = 1000


class FloatReports:
    """Bits of the floating-point status that calls look for, and bits that calls have reported."""

    def __init__(self, name: str, unseen: Program | None) -> None:
        """Create the reports of a function. `unseen` is its trace if the program misses some of its errors."""
        self._name = name
        self._unseen = unseen
        #: True if the trace has run once.
        self._was_checked = False
        #: Bits that the current call looks for, and bits found by calls that then ran eagerly.
        self.looks_for = self.flags = 0
        #: Bits of calls that had written their inputs, although every number that they made is finite.
        self._doubtful = 0
        #: True if a call has reported errors, and the version of the warning filters at that time.
        self.has_reported = False
        self._filters: int | None = None

    def begin_call(self, inputs: Sequence[Any]) -> None:
        """Find the bits to look for in a call. Raise if NumPy reports errors that the program does not see."""
        if self.has_reported and not self.has_same_filters():  # Python then also forgets the warnings it has shown.
            self.flags, self._was_checked, self.has_reported = 0, False, False
        self.looks_for = bits_to_look_for(self.flags)
        if doubtful := self._doubtful & self.looks_for:
            self._doubtful = 0
            raise FloatFlags(doubtful)
        if self._unseen is not None and self.looks_for and not (self._was_checked and not shows_all()):
            self._check_unseen(self._unseen, inputs)

    def _check_unseen(self, trace: Program, inputs: Sequence[Any]) -> None:
        self._was_checked = True
        token = most_rounds.set(_CHECKED_ROUNDS)
        try:
            with reported() as found, contextlib.suppress(Exception):  # the call itself raises
                Replay(trace)(list(map(array_of, inputs)))
        finally:
            most_rounds.reset(token)
        if found[0] & self.looks_for:
            raise FloatFlags(0)

    def note(self, bits: int) -> None:
        """Note that a call has reported errors."""
        self.flags |= bits
        self.has_reported, self._filters = True, filter_version()

    def has_same_filters(self) -> bool:
        """True if the warning filters have certainly not changed since a call has reported errors."""
        return self._filters is not None and self._filters == filter_version()

    def warn_of_bits(self, bits: int, arrays: Iterable[Any]) -> bool:
        """Warn of errors that a program met while it wrote inputs. An eager call can no longer report them.

        A set bit is only a hint. It counts if one of `arrays`, which the call has made or written, has an infinity or a NaN.
        Otherwise the next call runs eagerly and reports its errors itself. Return True in that case.
        """
        if all(map(_is_finite, arrays)):
            self._doubtful |= bits
            return True
        self.note(bits)
        warn_of(bits, self._name)
        return False


def _is_finite(array: Any) -> bool:
    return not is_inexact(array.dtype) or bool(np.isfinite(array).all())
