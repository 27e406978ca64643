"""Conversions of Arrays to Python numbers, which drop derivatives: the refusal, and the exception for text.

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
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.detach_checks import stake_of
from ndgrad._src.debug.scipy_calls import lift_line

if TYPE_CHECKING:
    from ndgrad.numpy._array import Array


def refuse_number(t: Array, call: str) -> Array:
    """Return a constant for a conversion into text; raise for other conversions, which would drop a derivative.

    Call this from the method that Python calls for a conversion, and only if a derivative is at stake.

    Args:
        t: the Array to convert.
        call: the conversion in the user's words.
    """
    caller = sys._getframe(2)
    instruction = _instruction_of(caller)
    if instruction in _REMAINDERS:  # Only "%.3f" % t, also in logging, calls conversions in an operator.
        return t.detach()
    stored = store_error(t)
    error = stored if instruction[0] == _STORE else number_error(t, call)
    _replace_next_error(caller, stored)
    raise error


def number_error(t: Array, call: str) -> TypeError:
    """Return the error of a conversion to plain numbers that would lose a derivative."""
    method = "tolist" if call == "tolist()" else "item"
    return TypeError(
        f"{call} of an Array of shape {tuple(t.shape)} that {stake_of(t)} would drop its derivative. To print, log or "
        f"keep the number, write t.detach().{method}(). To compute with it, keep the Array and use ndgrad.numpy's "
        f"functions instead of math's.{lift_line()} [nd-drops-gradient]"
    )


def store_error(t: Array) -> TypeError:
    """Return the error of a write of an Array into a NumPy array."""
    return TypeError(
        f"a NumPy array cannot hold an Array of shape {tuple(t.shape)} that {stake_of(t)}: its derivative would be "
        "lost. Make the array with ndgrad.numpy.zeros instead of numpy.zeros (any function of ndgrad.numpy that makes "
        f"arrays will do), or write t.detach() to store the value alone.{lift_line()} [nd-drops-gradient]"
    )


def _replace_next_error(frame: FrameType, error: TypeError) -> None:
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
