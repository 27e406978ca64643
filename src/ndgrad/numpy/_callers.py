"""Frames that convert an Array to a number: their instruction, and the error that reaches them.

Note [Replaced errors] `numpy.zeros(2)[0] = t` calls `float(t)`. NumPy replaces any error of that call by "setting an
array element with a sequence", because classes with `__getitem__` count as sequences. The refusal therefore watches
the frame that called it for one event. If NumPy's replacement arrives there, the watch raises the refusal instead. The
watch ends with the first event of that frame: the error, a line, or its return. It does nothing while a debugger or a
coverage tool traces the thread.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType
from typing import Any


def is_formatting(frame: FrameType) -> bool:
    """True if a frame executes `%`. No operator but that of strings, `"%.3f" % t`, calls conversions to numbers."""
    return _instruction_of(frame) in _REMAINDERS


def is_storing(frame: FrameType) -> bool:
    """True if a frame executes an assignment to an element."""
    return _instruction_of(frame)[0] == _STORE


def replace_next_error(frame: FrameType, error: TypeError) -> None:
    """Raise `error` in place of NumPy's, if that is what `frame` meets next. See Note [Replaced errors]."""
    if sys.gettrace() is not None:
        return
    errors = [error]  # Popped before it is raised, so that its traceback forms no cycle.

    def watch(seen: FrameType, event: str, argument: Any) -> Any:
        if seen is not frame:
            return None  # A function that NumPy calls before it raises, such as the exit of a generator.
        sys.settrace(None)
        frame.f_trace = None
        refusal = errors.pop()
        try:
            if event == "exception" and _is_replacement(argument[1]):
                raise refusal.with_traceback(argument[2]) from None
        finally:
            del refusal, argument

    frame.f_trace = watch
    sys.settrace(watch)


def _is_replacement(error: BaseException) -> bool:
    """True if NumPy raised an error in place of a refusal."""
    return isinstance(error, ValueError) and "[nd-drops-gradient]" in str(error.__cause__)


def _instruction_of(frame: FrameType) -> tuple[int, int]:
    """Return the opcode and the argument of the instruction that a frame executes."""
    code = frame.f_code.co_code
    return code[frame.f_lasti], code[frame.f_lasti + 1]


def _find_operator(code: CodeType) -> tuple[int, int]:
    """Return the opcode and the argument of the only operator in a code object."""
    return next((i.opcode, i.arg or 0) for i in dis.get_instructions(code) if i.opname == "BINARY_OP")


_STORE = dis.opmap["STORE_SUBSCR"]
_REMAINDERS = (
    _find_operator(compile("a % b", "", "eval")),
    _find_operator(compile("a %= b", "", "exec")),
)
