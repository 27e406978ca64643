"""Errors that eager calls find in values: floating-point errors, and errors of ops whose results nothing reads.

An eager op warns if it divides by zero, overflows or makes a NaN, as NumPy does. A program computes the same numbers by
other code, and reports nothing itself. It only detects that there may be something to report:

    native code       sets bits of the processor's status (ndgrad._src.compiler.native.float_status); formulas that choose
                      infinities instead of computing them set bits, too (ndgrad._src.compiler.kernels.error_notes)
    ops on NumPy      run under a handler of floating-point errors (`reported`)

If a bit is set, the call runs eagerly instead, and eager code reports each error with its text, as often as it occurs.
A set bit is only a hint: eager code may find nothing.

    np.errstate ignores               bits are not checked
    np.errstate raises, calls, prints every call runs eagerly, except where `torch` is this package, whose reporter drops
                                      errors of tensors (ndgrad._src.tensor.float_warnings)
    a filter shows or raises all      calls that set a bit run eagerly, each of them
    a filter shows the first          the first call of a program that sets a bit runs eagerly; later ones show nothing,
                                      until the filters change (`filter_version`)

Results that nothing reads are outputs of the program if their ops may raise or report (`unread_checks`). A program
does not see errors in parts of results that passes leave out (`(1 / x)[:1]` computes one element), nor those of ops
in `SILENT`. Such a program keeps its trace. The trace runs on NumPy as well, in the first call and in each call whose
warnings are all shown.

A program that writes its inputs itself has written them by the time its bits are known. If it has made an infinity or
a NaN, it warns of each kind of error once, in the name of the function. If not, the error may concern a number that
nothing uses, and the next call runs eagerly and reports for itself. If a filter shows all warnings, another program
runs, which writes nothing before the check.

Backward passes report nothing, not even in eager code.
"""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.compiler.native.float_status import ALL, DIVIDE, INVALID, OVERFLOW
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.tensor.float_warnings import are_tensors_silent

#: The `np.errstate` settings of a context, and the default settings.
settings: ContextVar[Any] = importlib.import_module("numpy._core.umath")._extobj_contextvar
default_settings: Any = Context().run(settings.get)

#: Text of each error to its bit, because NumPy numbers the bits differently.
_BITS = {"divide by zero": DIVIDE, "overflow": OVERFLOW, "invalid value": INVALID}


class FloatFlags(Exception):
    """A program has set bits of the floating-point status that an eager call may report. Nothing has been written."""

    def __init__(self, bits: int) -> None:
        super().__init__(f"floating-point status {bits}")
        self.bits = bits


#: Maximum number of unread results that are computed only for their warnings. For a loop with more of them, the rest is
#: skipped: the first errors are found, and all of them if a filter shows all warnings.
MOST_UNREAD = 32

#: Ops whose native code gives some infinities or NaNs without setting a bit.
SILENT = frozenset(["cast", "softmax", "log_softmax", "logsumexp", "cross_entropy"])


def has_silent(program: Program) -> bool:
    """True if a program, or one inside it, may give an infinity or a NaN without setting a bit."""
    return any(
        (i.op.name in SILENT and (i.op.name != "cast" or _is_narrowing(i)))
        or any(has_silent(s) for s in i.settings.values() if isinstance(s, Program))
        for i in program.instructions
    )


def may_raise(instruction: Instruction) -> bool:
    """True if values decide whether an instruction raises an error: its op does, or one of a program inside it."""
    kinds = instruction.op.may_raise
    is_raising = instruction.results[0].dtype.kind in kinds if isinstance(kinds, str) else kinds
    return is_raising or any(
        may_raise(i) for s in instruction.settings.values() if isinstance(s, Program) for i in s.instructions
    )


def may_report(instruction: Instruction) -> bool:
    """True if NumPy may report a floating-point error of an instruction: not of one that only moves values."""
    op = instruction.op
    dtypes = [v.dtype for v in (*instruction.values(), *instruction.results)]
    if op.view or op.shares_storage or op.compares:
        return False
    if op.moves_values:
        return bool(op.elementwise) and any(dtype.kind == "c" for dtype in dtypes)
    return bool(op.elementwise) or any(is_inexact(dtype) for dtype in dtypes)


def reporting_ops(program: Program, apart: AbstractSet[Value] = frozenset()) -> Counter[str]:
    """Return the number of elements read and written by each op that may report an error.

    Instructions whose first result is in `apart` are excluded.
    """
    found: Counter[str] = Counter()
    for i in program.instructions:
        if i.results and i.results[0] not in apart and may_report(i):
            found[i.op.name] += 1 + sum(v.size for v in (*i.values(), *i.results))
    return found


def reads_parts(program: Program) -> bool:
    """True if only a part of a value is read, and native code may skip other parts that could report an error."""
    defined = program.definitions()
    for i in program.instructions:
        source: Instruction | None = i
        if i.op.view and i.results[0].size < next(i.values()).size:
            while source is not None and source.op.view:
                source = defined.get(next(source.values()))
            if source is not None and may_report(source):
                return True
    return False


def unread_checks(program: Program, outputs: Sequence[Value], of_passes: AbstractSet[Value]) -> list[Value]:
    """Return results of ops that may raise or report an error, if no output depends on them.

    A program that computes them finds the errors that eager code finds. Ops of backward passes, whose first results are
    `of_passes`, report nothing.
    """
    needed, found = set(outputs), list[Value]()
    reports = 0
    for instruction in reversed(program.instructions):
        if needed.isdisjoint(instruction.results) and instruction.results:
            first = instruction.results[0]
            if not may_raise(instruction):
                if first in of_passes or reports == MOST_UNREAD or not may_report(instruction):
                    continue
                reports += 1
            found.append(first)
        needed.update(instruction.values())
    return found[::-1]


def _is_narrowing(cast: Instruction) -> bool:
    """True if a cast converts floats to unsigned integers, or complex numbers to real ones."""
    source, target = next(cast.values()).dtype, cast.result.dtype
    return (source.kind == "f" and target.kind == "u") or (source.kind == "c" and target.kind in "fiu")


def runs_eagerly() -> bool:
    """True if errors must be raised or reported by something else than a warning."""
    if settings.get() is default_settings:
        return False
    if are_tensors_silent():
        return False
    found = np.geterr()
    return found["under"] != "ignore" or any(way not in ("ignore", "warn") for way in found.values())


def bits_to_look_for(known: int) -> int:
    """Return the bits to check in a call of a program, if earlier calls have set the bits `known` and run eagerly."""
    looked = ALL
    if settings.get() is not default_settings:
        if are_tensors_silent():
            return 0
        found = np.geterr()
        looked *= any(found[kind] != "ignore" for kind in ("invalid", "divide", "over"))
    return looked & ~known if known and not shows_all() else looked


def shows_all() -> bool:
    """True if a filter shows every RuntimeWarning, or every one of some texts or modules, or makes an error of it."""
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action in ("error", "always", "all"):
                return True
            if message is None and module is None and not line:
                return False
    return False


class _Hashed(Exception):
    """Raised instead of storing or showing a probe warning."""


class _Unhashable(type):
    def __hash__(cls) -> int:
        raise _Hashed


class _Probe(RuntimeWarning, metaclass=_Unhashable):
    """Category of a warning that is never shown: Python must hash it to note that it shows it, and that fails."""


def filter_version() -> int | None:
    """Return Python's version number of the warning filters; None if it cannot be found.

    Each change of the filters raises the number, also the end of a `catch_warnings` block and a repeated
    `simplefilter` that leave an equal list. Python then forgets which warnings it has shown. The number itself is not
    public, but Python writes it into each registry of shown warnings. A filter that shows all warnings does not use the
    registry, so with such a filter there is no number.
    """
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action in ("always", "all"):
                return None
            if message is None and module is None and not line:
                break
    registry: dict[Any, Any] = {}
    with suppress(_Hashed, _Probe):
        warnings.warn_explicit("", _Probe, "", 1, "", registry)
    found = registry.get("version")
    return found if type(found) is int else None


def warn_of(bits: int, name: str) -> None:
    """Warn of errors in a program of a function of this name, once for each kind."""
    for kind, bit in _BITS.items():
        if bits & bit:
            warnings.warn(f"{kind} encountered in {name}", RuntimeWarning, stacklevel=2)


@contextmanager
def reported() -> Iterator[list[int]]:
    """Run a block in which NumPy records errors as bits in a given list."""
    found = [0]

    def note(kind: str, flag: int) -> None:
        found[0] |= _BITS.get(kind, 0)

    with np.errstate(divide="call", over="call", invalid="call", under="ignore", call=note):
        yield found
