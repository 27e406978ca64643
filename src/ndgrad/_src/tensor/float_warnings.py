"""Floating-point warnings of a program in which `torch` is this package: NumPy's own code warns, tensors do not.

torch computes infinities and NaNs silently, and suites of libraries turn warnings into errors. Setting `np.errstate`
around each op would slow every op down. Instead, NumPy reports errors to an object (mode "log"), which is called only
when there is an error. The object looks at the frame that called NumPy. An error of this package is dropped. For any
other caller it gives NumPy's warning, with the same text, category and line.

Settings of `np.errstate` and `np.seterr` by the program take precedence, as ever. NumPy keeps them per context, so a
thread that the program starts has NumPy's defaults until `silence_tensors` is called there.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

_PACKAGE = __name__.partition(".")[0]
#: Start of the file names of generated functions.
_GENERATED = f"<{_PACKAGE} generated"
_WARNING = "Warning: "
_DEFAULT = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


class _Reporter:
    """The object that NumPy writes its reports to."""

    def write(self, text: str) -> None:
        frame = sys._getframe(1)
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == _PACKAGE or frame.f_code.co_filename.startswith(_GENERATED):
            return
        warnings.warn(text.removeprefix(_WARNING).rstrip("\n"), RuntimeWarning, stacklevel=2)


_reporter = _Reporter()


def silence_tensors() -> None:
    """Drop floating-point warnings of this package in the current context. Settings of the program itself stay."""
    if np.geterr() == _DEFAULT and np.geterrcall() is None:
        np.seterr(divide="log", over="log", invalid="log")
        np.seterrcall(_reporter)


def restore_warnings() -> None:
    """Undo `silence_tensors` in the current context."""
    if np.geterrcall() is _reporter:
        np.seterr(**_DEFAULT)  # type: ignore[arg-type]  # the literals of the dict are seterr's
        np.seterrcall(None)


def are_tensors_silent() -> bool:
    """True if floating-point errors of tensors are dropped in the current context."""
    return np.geterrcall() is _reporter and set(np.geterr().values()) <= {"log", "ignore"}
