"""A profile function in native code that passes only some events on to a Python function.

The interpreter calls a profile function before and after each call. `sys.setprofile` installs a Python function, which
costs a call per event. This one is a C function (`PyEval_SetProfile`). It returns at once for calls that known code
makes or is called by, and calls the Python function for all others, with the arguments that `sys.setprofile` would give
it. The known code objects are in a hash table that the native code reads.

All state is protected by the interpreter lock. On a Python without one there is no filter.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.native.c_interface import FREE_THREADED, python_function
from ndgrad._src.compiler.native.calls import is_available
from ndgrad._src.compiler.native.target import Code, CompileError
from ndgrad._src.foundations.locks import compute_once, make_lock

#: Names of the events by number, as `sys.setprofile` has them. Events without a name do not occur in a profile.
_EVENTS = {0: "call", 3: "return", 4: "c_call", 5: "c_exception", 6: "c_return"}

# Words of the state: address of the table, its length less one, number of watchers that want all events, the function
# whose calls always pass, None, and from word 8 on the names of the events.
_TABLE, _MASK, _WANTED, _ALWAYS, _NONE, _NAMES = 0, 1, 2, 3, 4, 8
_WORDS = 16

_TEXT = """
declare ptr @PyFrame_GetCode(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyEval_SetProfile(ptr, ptr)
@state = internal global ptr null
define void @set_state(ptr %words) {
  store ptr %words, ptr @state
  ret void
}
define i32 @filter(ptr %function, ptr %frame, i32 %what, ptr %arg) {
  %given = alloca [3 x ptr]
  %words = load ptr, ptr @state
  %at_wanted = getelementptr i64, ptr %words, i64 2
  %wanted = load i64, ptr %at_wanted
  %wants_all = icmp ne i64 %wanted, 0
  br i1 %wants_all, label %pass, label %kind
kind:
  %is_call = icmp eq i32 %what, 0
  br i1 %is_call, label %look, label %c_call
c_call:
  %is_c_call = icmp eq i32 %what, 4
  br i1 %is_c_call, label %always, label %done
always:
  %at_always = getelementptr i64, ptr %words, i64 3
  %named = load ptr, ptr %at_always
  %is_named = icmp eq ptr %named, %arg
  br i1 %is_named, label %pass, label %look
look:
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  %number = ptrtoint ptr %code to i64
  call void @Py_DecRef(ptr %code)
  %table = load ptr, ptr %words
  %at_mask = getelementptr i64, ptr %words, i64 1
  %mask = load i64, ptr %at_mask
  %start = lshr i64 %number, 5
  br label %probe
probe:
  %n = phi i64 [ %start, %look ], [ %next, %other ]
  %place = and i64 %n, %mask
  %slot = getelementptr i64, ptr %table, i64 %place
  %found = load i64, ptr %slot
  %is_known = icmp eq i64 %found, %number
  br i1 %is_known, label %done, label %other_or_free
other_or_free:
  %is_free = icmp eq i64 %found, 0
  br i1 %is_free, label %pass, label %other
other:
  %next = add i64 %n, 1
  br label %probe
pass:
  %at_none = getelementptr i64, ptr %words, i64 4
  %none = load ptr, ptr %at_none
  %has_arg = icmp ne ptr %arg, null
  %shown = select i1 %has_arg, ptr %arg, ptr %none
  %wide = zext i32 %what to i64
  %of_name = add i64 %wide, 8
  %at_name = getelementptr i64, ptr %words, i64 %of_name
  %name = load ptr, ptr %at_name
  %second = getelementptr [3 x ptr], ptr %given, i64 0, i64 1
  %third = getelementptr [3 x ptr], ptr %given, i64 0, i64 2
  store ptr %frame, ptr %given
  store ptr %name, ptr %second
  store ptr %shown, ptr %third
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %given, i64 3, ptr null)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %raise, label %passed
passed:
  call void @Py_DecRef(ptr %result)
  br label %done
raise:
  call void @PyEval_SetProfile(ptr null, ptr null)
  ret i32 -1
done:
  ret i32 0
}
"""


class ProfileFilter:
    """The native profile function, and the code that it knows."""

    def __init__(self, always: Any) -> None:
        """Compile the function. Calls of the C function `always` pass whatever code makes them."""
        names = ("PyFrame_GetCode", "Py_DecRef", "PyObject_Vectorcall", "PyEval_SetProfile")
        self._code = Code(_TEXT, symbols={name: python_function(name) for name in names})
        self._events = tuple(_EVENTS.values())  # the words hold their addresses
        self._always = always
        self._words = np.zeros(_WORDS, np.int64)
        self._words[_ALWAYS], self._words[_NONE] = id(always), id(None)
        for number, name in zip(_EVENTS, self._events, strict=True):
            self._words[_NAMES + number] = id(name)
        self._known: dict[int, types.CodeType] = {}
        self._lock = make_lock()
        self._table = np.zeros(0, np.int64)
        self._make_table(1024)
        self._install = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.py_object)(python_function("PyEval_SetProfile"))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._code.address("set_state"))(self._words.ctypes.data)

    def install(self, function: Callable[[types.FrameType, str, Any], None]) -> None:
        """Profile this thread. Events of unknown code go to `function`, which `sys.getprofile` returns."""
        self._install(self._code.address("filter"), function)

    def add(self, code: types.CodeType) -> None:
        """Make some code known. It stays alive."""
        with self._lock:
            if id(code) not in self._known:
                self._known[id(code)] = code
                if 2 * len(self._known) > len(self._table):
                    self._make_table(2 * len(self._table))
                else:
                    _insert(self._table, id(code))

    def want_all(self, by: int) -> None:
        """Add to the number of watchers that want the events of known code as well."""
        with self._lock:
            self._words[_WANTED] += by

    def _make_table(self, length: int) -> None:
        table = np.zeros(length, np.int64)
        for number in self._known:
            _insert(table, number)
        # No call of the native function lies between these lines: NumPy's assignments call no Python code.
        self._words[: _MASK + 1] = table.ctypes.data, length - 1
        self._table = table


def _insert(table: Any, number: int) -> None:
    mask = len(table) - 1
    place = (number >> 5) & mask
    while table[place]:
        place = (place + 1) & mask
    table[place] = number


@compute_once
def load(always: Any) -> ProfileFilter | None:
    """Return the filter of this process; None if native code cannot be used."""
    if FREE_THREADED or not is_available():
        return None
    try:
        return ProfileFilter(always)
    except (CompileError, OSError, AttributeError):
        return None
