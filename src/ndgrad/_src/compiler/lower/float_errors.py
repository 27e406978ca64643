"""Floating-point errors of compiled calls: warnings and errors that `np.errstate` and warning filters ask for.

An eager op warns where it divides by zero, overflows or makes a NaN, as NumPy does. A program computes the same numbers
by other code, which cannot say so. So a native program looks at the status of the processor at its end
(ndgrad._src.compiler.native.float_status). If a bit is set, the call runs eagerly instead, and eager code reports what there
is to report. A set bit is only a hint: eager code may find nothing.

    np.errstate ignores               no bit is looked at
    np.errstate raises, calls, prints every call runs eagerly: what a program leaves out may be what raises
    a filter shows or raises all      calls that set a bit run eagerly, each of them
    a filter shows the first          the first call of a program that sets a bit runs eagerly; later ones would show nothing

Some formulas choose infinities and NaNs instead of computing them, and set no bit (`SILENT`). A program that has such an
op runs on NumPy as well in its first call, and in each call whose warnings are all shown; if NumPy reports an error, the
call runs eagerly.

A program that writes its inputs itself has written them by then, so it reports nothing. Backward passes report nothing,
in eager code either.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any

import numpy as np

from ndgrad._src.compiler.native.float_status import ALL, DIVIDE, INVALID, OVERFLOW
from ndgrad._src.compiler.program.program import Instruction, Program

#: The settings of `np.errstate` of a context, and those of a context in which nothing was set.
settings: ContextVar[Any] = importlib.import_module("numpy._core.umath")._extobj_contextvar
default_settings: Any = Context().run(settings.get)

#: The bits that NumPy calls by other numbers.
_BITS = {"divide by zero": DIVIDE, "overflow": OVERFLOW, "invalid value": INVALID}


class FloatFlags(Exception):
    """A program has set bits of the floating-point status that an eager call may report. Nothing has been written."""

    def __init__(self, bits: int) -> None:
        super().__init__(f"floating-point status {bits}")
        self.bits = bits


#: Ops whose native code gives some infinities or NaNs without setting a bit.
SILENT = frozenset(
    "floor_divide trunc_divide remainder fmod pow xlogy xlog1py logit entr exp exp2 expm1 log log2 log10 log1p sinh cosh "
    "acosh lgamma digamma cast softmax log_softmax logsumexp cross_entropy".split()
)


def has_silent(program: Program) -> bool:
    """True if a program, or one inside it, may give an infinity or a NaN without setting a bit."""
    return any(
        (i.op.name in SILENT and (i.op.name != "cast" or _is_narrowing(i)))
        or any(has_silent(s) for s in i.settings.values() if isinstance(s, Program))
        for i in program.instructions
    )


def _is_narrowing(cast: Instruction) -> bool:
    """True if a cast makes integers of floats, or floats of wider ones."""
    source, target = next(cast.values()).dtype, cast.result.dtype
    return source.kind in "fc" and (target.kind in "iu" or target.itemsize < source.itemsize)


def runs_eagerly() -> bool:
    """True if each error is to be raised or reported by something else than a warning."""
    if settings.get() is default_settings:
        return False
    found = np.geterr()
    return found["under"] != "ignore" or any(way not in ("ignore", "warn") for way in found.values())


def bits_to_look_for(known: int) -> int:
    """The bits that matter to a call of a program, of which some calls have set the bits `known` and run eagerly."""
    looked = ALL
    if settings.get() is not default_settings:
        found = np.geterr()
        looked *= any(found[kind] != "ignore" for kind in ("invalid", "divide", "over"))
    return looked & ~known if known and not shows_all() else looked


def shows_all() -> bool:
    """True if a filter shows every RuntimeWarning, or makes an error of it."""
    for action, _, category, _, _ in warnings.filters:
        if issubclass(RuntimeWarning, category):
            return action in ("error", "always", "all")
    return False


@contextmanager
def reported() -> Iterator[list[int]]:
    """A block in which NumPy reports errors by bits, in the list that is given."""
    found = [0]

    def note(kind: str, flag: int) -> None:
        found[0] |= _BITS.get(kind, 0)

    with np.errstate(divide="call", over="call", invalid="call", under="ignore", call=note):
        yield found
