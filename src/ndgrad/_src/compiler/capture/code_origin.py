"""Origin of code: libraries count as constant, the user's own code does not. Also the functions that read external
state.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import sysconfig
import time
import types
from collections.abc import Set as AbstractSet
from typing import Any

from ndgrad._src.compiler.capture.graph_break import GraphBreak

_PACKAGES = ("ndgrad", "numpy", "scipy", "llvmlite", "cupy", "cupyx", "cupy_backends", "cudnn")

#: Identities of Python functions with results that vary between calls; and names of such methods of date classes.
_IMPURE = frozenset(map(id, (
    time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic, time.monotonic_ns,
    time.process_time, time.process_time_ns, time.localtime, time.gmtime, os.urandom, os.getenv, os.listdir,
    builtins.open, builtins.input,
)))  # fmt: skip
_CLOCKS = frozenset(["now", "utcnow", "today"])


@functools.cache
def is_foreign(module: Any) -> bool:
    """True if a module name belongs to Python or to a library whose objects are assumed not to change."""
    if not isinstance(module, str):
        return module is not None
    root = module.partition(".")[0]
    known = sys.modules.get(root)
    file = getattr(known, "__file__", None)
    if root in _PACKAGES:
        return True
    if root not in sys.stdlib_module_names:
        return False
    if file is None:
        return True
    # A module of the user may have the name of a standard module.
    folders = {os.path.realpath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")}
    path = os.path.realpath(file)
    return any(path.startswith(folder + os.sep) for folder in folders) and "site-packages" not in path


def _attribute(value: Any, name: str) -> Any:
    return getattr(value, name, None)


def check_pure(space: dict[str, Any], names: AbstractSet[str], where: str) -> None:
    """Raise if code that uses these names, with these globals, reads the clock, the system's randomness or files."""
    for name in names:
        value = space.get(name, getattr(builtins, name, None) if name in ("open", "input") else None)
        if isinstance(value, types.ModuleType):
            # For a library, look only at loaded names. Another lookup would make ndgrad load a lazy name.
            look_up = vars(value).get if is_foreign(value.__name__) else functools.partial(_attribute, value)
            found = [n for n in names if id(look_up(n)) in _IMPURE]
            if value.__name__ in ("uuid", "secrets") or (value.__name__ == "datetime" and names & _CLOCKS):
                found.append(value.__name__)
        else:
            found = [name] if id(value) in _IMPURE else []
            if isinstance(value, type) and value.__module__ == "datetime" and names & _CLOCKS:
                found.append(name)
        if found:
            raise GraphBreak(f"{where} uses {found[0]}, which may answer otherwise each time")
