"""Packages besides the function's own: which of them are lifted, and when.

Note [Followed packages]
A package is lifted whenever the program reaches it if it is the function's own, if `also` names it, or if it is Python
code written for numbers: a loaded module of it imports NumPy, SciPy or math. Its compiled functions get plain arrays.
Packages of tables, files, pictures and symbols (`_CONTAINERS`) expect plain arrays everywhere. Their functions, and
those of all other packages, run unchanged on constants, and lifted if a derivative is among their arguments. The
standard library, NumPy, SciPy and ndgrad have replacements of their own.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ndgrad._src.lifting.program import Program

#: Packages whose code is never rebuilt: their objects have replacements, or compute with ndgrad already.
_REPLACED = frozenset(("ndgrad", "numpy", "scipy", "torch", "cupy", "llvmlite", "numba"))

#: Packages whose classes hold tables, files, pictures, symbols or processes.
_CONTAINERS = frozenset(
    "pandas xarray polars pyarrow dask zarr h5py tables netCDF4 fsspec matplotlib seaborn plotly bokeh PIL cv2 imageio "
    "sympy IPython ipykernel jax jaxlib tensorflow keras cvxpy casadi pytest _pytest hypothesis joblib tqdm rich "
    "numexpr".split()
)

#: Name of a package, number of its loaded modules -> True if it is written for NumPy.
_known: dict[tuple[str, int], bool] = {}


def top_of(f: Any) -> str:
    """Return the name of the package of a function or class."""
    space = getattr(f, "__globals__", None)
    module = space.get("__name__") if space is not None else getattr(f, "__module__", None)
    return str(module or "").partition(".")[0]


def can_follow(top: str) -> bool:
    """True if Python code of a package may be rebuilt."""
    return bool(top) and top not in sys.stdlib_module_names and top not in _REPLACED


def is_written_for_numpy(top: str) -> bool:
    """True if a package is Python code over NumPy: see Note [Followed packages]."""
    if not can_follow(top) or top in _CONTAINERS:
        return False
    loaded = [m for name, m in list(sys.modules.items()) if name == top or name.startswith(top + ".")]
    key = top, len(loaded)
    found = _known.get(key)
    if found is None:
        found = _known[key] = any(map(_imports_numpy, loaded))
    return found


def reads_numpy(f: Any) -> bool:
    """True if the globals of a function have NumPy, SciPy, math or their functions."""
    return _holds_numpy(f.__globals__)


def _imports_numpy(module: ModuleType) -> bool:
    return _holds_numpy(vars(module))


def _holds_numpy(space: dict[str, Any]) -> bool:
    return any(
        (isinstance(v, ModuleType) and v.__name__.partition(".")[0] in ("numpy", "scipy", "math", "cmath"))
        or isinstance(v, np.ufunc) or v.__class__ is type(np.sum)
        or (v.__class__ is BuiltinFunctionType and v.__module__ in ("math", "cmath"))
        for v in list(space.values())
    )  # fmt: skip


def unlifted_in(traceback: TracebackType | None, program: Program) -> tuple[str, ...]:
    """Return the packages whose code ran unchanged between lifted code and an error, and could be lifted."""
    found: dict[str, None] = {}
    inside = False
    while traceback is not None:
        space = traceback.tb_frame.f_globals
        lifted = type(space) is not dict
        inside = inside or lifted
        top = str(space.get("__name__", "")).partition(".")[0]
        if inside and not lifted and can_follow(top) and top not in program.packages:
            found[top] = None
        traceback = traceback.tb_next
    return tuple(found)
