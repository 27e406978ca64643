"""Errors of scripted functions and modules.

torch's interpreter turns every error inside a scripted function into a RuntimeError or a `jit.Error`, and programs catch
these. Here Python runs the function, so its errors have their own classes. An error that leaves a scripted function is
of both: a class of its own kind (`except IndexError`) that derives from `jit.Error`, a RuntimeError.
"""

from __future__ import annotations

import functools
from typing import Any

from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad.jit")
class Error(RuntimeError):
    """An error inside a scripted function or module. It is also of the class that the function has raised."""


#: Classes with state outside of their arguments. They are raised unchanged.
_WITH_STATE = (AttributeError, ImportError, NameError, OSError, StopIteration, SyntaxError, UnicodeError)


@functools.cache
def _join_class(kind: type[Exception]) -> type[Exception] | None:
    try:
        return type(kind.__name__, (Error, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    except TypeError:  # no class can have both layouts
        return None


def as_script_error(error: Exception) -> Exception:
    """Return an error with the same class, text and attributes that is also a `jit.Error`."""
    if isinstance(error, (RuntimeError, *_WITH_STATE)):
        return error
    kind: Any = type(error)
    joined = _join_class(kind)
    if joined is None:
        return error
    made: Any = joined.__new__(joined, *error.args)  # __init__ of a user's class may take other arguments
    made.args = error.args
    made.__dict__.update(error.__dict__)
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = True
    found: Exception = made.with_traceback(error.__traceback__)
    return found
