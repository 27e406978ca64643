"""Monitor of the calls that a function makes during a trace. It sees each call before it happens.

The environment knows the objects that a function reaches from its code (see ndgrad._src.compiler.capture.reachable_objects).
A trace can do more: it can call C functions, whose code is not visible, and run code that was found by a computed name.
So the interpreter reports each call (`sys.setprofile`), and a call that is not known to be safe ends the trace before
it begins:

    C functions         by `known_calls.refuse_c_function`
    library code        by `known_calls.refuse_python_code`
    the user's code     must have been reached by the environment. A function that was not is reached by another
                        environment, for another trace. Code that names an opaque object, such as an open file, ends
                        the trace, because such an object can be used without a call.

ndgrad's own code is trusted, and C functions that it calls are not checked. Nearly all calls of a trace are of this
kind. A filter in native code recognises them (see ndgrad._src.compiler.native.profile_filter). Without llvmlite, all
calls are reported to Python.

Note [A break inside the profiler]
The interpreter removes a profiler that raises, so code that caught the break would run on without being watched. So the
exception is one that `except Exception` does not catch (`TraceEnd`), and the tracer has the break itself.
"""

from __future__ import annotations

import _random
import gc
import os
import sys
import types
import warnings
from _warnings import warn
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.graph_break import GraphBreak, Unreached
from ndgrad._src.compiler.capture.known_calls import is_setter, refuse_c_function, refuse_python_code
from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects
from ndgrad._src.compiler.capture.replaced_code import original_code
from ndgrad._src.compiler.native import profile_filter
from ndgrad._src.core.variable import Variable

#: Kinds of code: ndgrad's own, a library's, the user's, and ndgrad's that reads or writes files.
_OWN, _LIBRARY, _USER, _FILES = range(4)

_PACKAGE = ("<ndgrad", str(Path(__file__).parents[3]) + os.sep)

#: Kind and module of the code in a file. Files without a name of their own ("<string>") are never kept.
_files: dict[str, tuple[int, str]] = {}

#: Code of ndgrad's functions that were called in a trace, by identity; the code stays alive. Setters are not included.
_own: dict[int, types.CodeType] = {}
#: Events that the interpreter reports after a call.
_ENDS = frozenset(["return", "c_return", "c_exception"])


def load_filter() -> None:
    """Load the native filter of calls, before a trace forbids to read files."""
    profile_filter.load(warn)


def _install(function: Any) -> None:
    """Set the profile function of this thread, with the native filter if it is a watch's."""
    calls = profile_filter.load(warn) if getattr(function, "is_of_watch", False) else None
    if calls is None:
        sys.setprofile(function)
    else:
        calls.install(function)


def trust(file: str) -> None:
    """Treat the code of a file as ndgrad's own. Tests of the compiler extend its classes."""
    _files[file] = _OWN, "ndgrad"


class TraceEnd(BaseException):
    """Ends a trace; the tracer has the reason (see Note [A break inside the profiler])."""


class TraceWatch:
    """Context in which the calls of this thread are watched."""

    def __init__(self, reached: ReachableObjects) -> None:
        self._reached = reached
        #: Identities of checked code of the user; `reached` keeps it alive.
        self._checked: set[int] = set()
        #: Attributes of library modules that were looked up by computed names.
        self.library_names: list[tuple[Any, str]] = []
        self._is_at_work = False
        #: True while ndgrad imports a module, and the frame of the import.
        self.is_importing = False
        self._import: types.FrameType | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        self._is_at_work = True
        _install(self._reporter())
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop watching."""
        if not self._is_at_work:
            return
        self._is_at_work = False
        self._note_import(None)
        before, self._before = self._before, None
        if before is None or callable(before):
            _install(before)
        else:
            sys.setprofile(None)
            before.enable()  # cProfile's object, which sys.setprofile cannot restore

    def _reporter(self) -> Callable[[types.FrameType, str, Any], None]:
        """Return the function that the interpreter calls before and after each call. It is the hottest function of a
        trace without the native filter: a step of a loop makes thousands of calls, nearly all of them by ndgrad's own
        code, which it recognises at once.
        """
        own, ends, look = _own, _ENDS, self._look

        def report(frame: types.FrameType, event: str, arg: Any) -> None:
            if event in ends:
                if self.is_importing:
                    look(frame, event, arg)
            elif id(frame.f_code) not in own or arg is warn:
                try:
                    look(frame, event, arg)
                except GraphBreak:
                    raise TraceEnd from None

        report.is_of_watch = True  # type: ignore[attr-defined]  # an attribute of the function, for _install
        return report

    def _note_import(self, frame: types.FrameType | None) -> None:
        """Record the frame of an import that begins, or None when it has ended."""
        calls = profile_filter.load(warn)
        if calls is not None and self.is_importing != (frame is not None):
            calls.want_all(1 if frame is not None else -1)  # the return of the frame must be seen
        self.is_importing, self._import = frame is not None, frame

    def _look(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if self.is_importing:
            if event == "return" and frame is self._import:
                self._note_import(None)
        elif event == "c_call":
            self._look_at_c_call(frame, arg)
        elif event == "call":
            self._look_at_call(frame)

    def _look_at_c_call(self, frame: types.FrameType, function: Any) -> None:
        kind, _ = _files.get(frame.f_code.co_filename) or _kind_of(frame)
        if function is warn and (kind != _LIBRARY or _is_called_by_user(frame)):
            raise GraphBreak("the function warns")
        if kind == _USER or (kind == _LIBRARY and _is_called_by_user(frame)):
            self._check_c_call(frame, function)

    def _look_at_call(self, frame: types.FrameType) -> None:
        code = frame.f_code
        kind, module = _files.get(code.co_filename) or _kind_of(frame)
        if kind == _USER:
            if id(code) not in self._checked:
                self._check_user_code(frame)
        elif kind == _FILES:
            raise _refusal(f"{module}.{code.co_qualname}")
        elif kind == _OWN:
            _look_at_own_code(code)
        elif module == "importlib._bootstrap" and not _is_called_by_user(frame):
            self._note_import(frame)  # all code until its return belongs to the import
        else:
            if module == "warnings" and code.co_name == "__init__":
                _forget_warning(frame)
            refused = refuse_python_code(module, code)
            if refused is not None and _is_called_by_user(frame) and not self._is_allowed_here(frame):
                raise _refusal(refused)

    def note_name(self, holder: Any, name: Any) -> None:
        """Record an attribute that is looked up by a computed name. The environment must capture it."""
        if type(name) is not str:
            return
        reached = self._reached
        if isinstance(holder, Variable) and not reached.names.captures_tensor_attribute(name):
            raise Unreached(f"the attribute {name} of a tensor is looked up by a computed name", [], frozenset([name]))
        if isinstance(holder, types.ModuleType) and is_foreign(holder.__name__):
            self.library_names.append((holder, name))
            return
        reason = reached.opaque.refuse_name(name)
        if reason is not None:
            raise GraphBreak(reason)
        if reached.names.misses(name):
            raise Unreached(f"the attribute {name} is looked up by a computed name", [], frozenset([name]))

    def note_import(self, name: str, space: Any, names: Any, fromlist: Any, level: int, importing: Any) -> Any:
        """Import a module for the function. It must have been imported before, and the environment must capture it."""
        known = len(sys.modules)
        found = importing(name, space, names, fromlist, level)
        if len(sys.modules) != known:
            raise GraphBreak(f"the function imports {name} for the first time")
        names = frozenset([name, found.__name__])
        if not self._reached.names.captures_modules(names):
            raise Unreached(f"the function imports {name}", [], modules=names)
        return found

    def note_write(self, holder: Any, name: Any) -> None:
        """Record an attribute that is set or deleted by a computed name."""
        if isinstance(holder, types.ModuleType) and is_foreign(holder.__name__):
            raise GraphBreak(f"the function changes {holder.__name__}.{name}")
        self.note_name(holder, name)

    def _check_c_call(self, frame: types.FrameType, function: Any) -> None:
        refused = refuse_c_function(function)
        if refused is None:
            if function.__name__ == "seed" and isinstance(function.__self__, _random.Random):
                if frame.f_locals.get("a", 0) is None:
                    raise GraphBreak("the function makes a generator of random numbers without a seed")
            return
        if refused == "sys._getframe" and _files.get(frame.f_code.co_filename, (_USER, ""))[0] == _LIBRARY:
            return
        raise _refusal(refused)

    def _is_allowed_here(self, frame: types.FrameType) -> bool:
        """True for a library call that is safe because of the environment: os.getenv reads a captured mapping."""
        return frame.f_code.co_qualname == "getenv" and self._reached.reaches_environment_variables

    def _check_user_code(self, frame: types.FrameType) -> None:
        code = frame.f_code
        if not self._reached.has_code(code) and not self._reached.has_code(original_code(code)):
            if code.co_name == "<module>":
                raise GraphBreak("the function imports a module for the first time")
            found = [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType) and f.__code__ is code]
            raise Unreached(f"{code.co_qualname} is called, which was not found by its name", [(f.__qualname__, f) for f in found])
        reason = self._reached.opaque.refuse_code(original_code(code)) or self._reached.opaque.refuse_code(code)
        if reason is not None:
            raise GraphBreak(reason)
        self._checked.add(id(code))


def _look_at_own_code(code: types.CodeType) -> None:
    """Refuse code of ndgrad that changes a setting. Ignore calls of other code of ndgrad from now on."""
    if is_setter(code):
        raise GraphBreak(f"the function calls {code.co_name}, which changes a setting of the process")
    _own[id(code)] = code
    calls = profile_filter.load(warn)
    if calls is not None:
        calls.add(code)


def _forget_warning(frame: types.FrameType) -> None:
    """Let Python forget a warning of C code that is about to be shown, because the eager call will show it. `frame` is
    that of `WarningMessage.__init__`.
    """
    given = frame.f_locals
    text, category, line = str(given.get("message")), given.get("category"), given.get("lineno")
    warned = None if frame.f_back is None else frame.f_back.f_globals.get("__warningregistry__")
    for registry in (warned, warnings.onceregistry):  # type: ignore[attr-defined]
        for key in ((text, category, line), (text, category, 0), (text, category)):
            if registry is not None:
                registry.pop(key, None)


def _is_called_by_user(frame: types.FrameType) -> bool:
    """True if a library's code was called by the user's, and not by ndgrad's."""
    back = frame.f_back
    while back is not None:
        kind, _ = _files.get(back.f_code.co_filename) or _kind_of(back)
        if kind != _LIBRARY:
            return kind == _USER
        back = back.f_back
    return False


def _refusal(name: str) -> GraphBreak:
    return GraphBreak(f"the function calls {name}, which may depend on or change something outside of it")


def _kind_of(frame: types.FrameType) -> tuple[int, str]:
    file = frame.f_code.co_filename
    module = frame.f_globals.get("__name__")
    if isinstance(module, str) and module.startswith(("ndgrad.serialization", "ndgrad.npz", "ndgrad.safetensors")):
        found = _FILES, module
    elif file.startswith(_PACKAGE) or (isinstance(module, str) and module.partition(".")[0] == "ndgrad"):
        found = _OWN, "ndgrad"
    elif isinstance(module, str) and module.startswith("namedtuple_"):
        found = _LIBRARY, "collections"  # the generated __new__ of a named tuple
    elif file.startswith("<__array_function__") or (isinstance(module, str) and is_foreign(module)):
        found = _LIBRARY, str(module)
    else:
        found = _USER, str(module)
    if not file.startswith("<") or file.startswith(("<ndgrad", "<frozen", "<__array_function__")):
        _files[file] = found
    return found
