"""Origin of code: libraries count as constant, the user's own code does not."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from typing import Any

_PACKAGES = ("ndgrad", "numpy", "scipy", "llvmlite", "cupy", "cupyx", "cupy_backends", "cudnn")


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
