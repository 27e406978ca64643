"""Original code of functions whose code a trace has replaced.

A trace gives functions other code for its duration (ndgrad._src.compiler.capture.loop_source). Other threads see that
code if they capture or compare the environment of another trace meanwhile. So everything that looks at a function's
code asks here, and gets the code of the source. The replacement itself names its original, hence there is no moment
at which a thread could read one without the other.
"""

from __future__ import annotations

import types
from typing import Any


class CodeOrigin:
    """Last constant of code that replaces other code during traces."""

    __slots__ = ("code",)

    def __init__(self, code: types.CodeType) -> None:
        self.code = code


def original_code(code: types.CodeType) -> types.CodeType:
    """Return the code that some code replaces, or the code itself. Functions inside have the origin of the outermost."""
    constants = code.co_consts
    if constants and constants[-1].__class__ is CodeOrigin:
        found: types.CodeType = constants[-1].code
        return found
    return code


def code_of(f: Any) -> types.CodeType:
    """Return the code of a function as its source defines it."""
    code: types.CodeType = f.__code__
    return original_code(code)
