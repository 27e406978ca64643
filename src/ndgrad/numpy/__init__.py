"""NumPy's namespace with differentiable Arrays: `import ndgrad.numpy as np`.

Every applicable name of NumPy exists (docs/numpy.md lists the omissions with reasons). Functions and ufuncs return
Arrays, so buffers created here can hold differentiable values. Dtypes, constants, settings and submodules without
arrays are NumPy's own. NumPy's own functions call the functions here if they get tensors (see `dispatch`). For type
checkers and editors, `__init__.pyi` (written by scripts/surface.py) shows all names.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

import numpy as _numpy

from ndgrad.numpy import (
    calculus,
    creation,
    elementwise,
    functional,
    grids,
    indexing,
    inspection,
    joining,
    polynomials,
    products,
    reductions,
    shapes,
    sorting,
    statistics,
)
from ndgrad.numpy import coercion as _coercion
from ndgrad.numpy import methods as _methods
from ndgrad.numpy._array import Array
from ndgrad.numpy.reexports import CONSTANTS as _CONSTANTS
from ndgrad.numpy.reexports import MODULES as _MODULES
from ndgrad.numpy.ufunc_objects import FUNCTIONS as _UFUNCS

_FAMILIES = (
    creation, reductions, shapes, joining, indexing, elementwise, products, calculus, sorting, statistics, polynomials,
    grids, functional, inspection,
)  # fmt: skip

#: Submodules with functions on Arrays.
_SUBMODULES = frozenset(("emath", "fft", "linalg", "random"))

ndarray = Array


__all__ = ["Array", "ndarray"]
for _family in _FAMILIES:
    for _name in _family.__all__:
        _theirs = getattr(_numpy, _name, None)
        if _theirs is not None:  # an older NumPy may not have it yet
            _ours = getattr(_family, _name)
            _plain = not callable(_ours) or isinstance(_ours, type)
            globals()[_name] = _ours if _plain else _coercion.with_detour(_ours, _theirs, _name)
            __all__ += [_name]
globals().update(_UFUNCS)
globals().update(_CONSTANTS)
__all__ += [*_UFUNCS, *_CONSTANTS]
_methods.give_methods()


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _importlib.import_module(f"ndgrad.numpy.{name}")
    if name in _MODULES:
        return getattr(_numpy, name)
    from ndgrad.numpy.reexports import LEFT_OUT  # read when a name is missing

    why = f": {LEFT_OUT[name]} [nd-absent]" if name in LEFT_OUT else ""
    raise AttributeError(f"module 'ndgrad.numpy' has no attribute {name!r}{why}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, *_MODULES})
