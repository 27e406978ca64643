"""Number of threads of the BLAS that NumPy has loaded.

BLAS reads its environment variables when it is loaded, which is before a program says that it has several ranks. So the
number is set by BLAS's own function, which is looked up among the libraries that NumPy's core is linked to.
"""

from __future__ import annotations

import ctypes
import importlib

#: Functions of OpenBLAS, under the names that NumPy's wheels and distributions give them, and of MKL.
_SETTERS = (
    "scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
    "openblas_set_num_threads", "MKL_Set_Num_Threads",
)  # fmt: skip


def set_blas_threads(count: int) -> bool:
    """Let each call of BLAS use at most `count` threads. Return False if this BLAS has no such function."""
    try:
        core = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(core.__file__)
    except (ImportError, OSError, TypeError):  # a NumPy without shared libraries
        return False
    for name in _SETTERS:
        setter = getattr(library, name, None)
        if setter is not None:
            setter.restype, setter.argtypes = None, (ctypes.c_int,)
            setter(count)
            return True
    return False
