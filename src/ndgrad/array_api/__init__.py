"""The Python array API standard, version 2024.12, with its `linalg` and `fft` extensions, over differentiable Arrays.

    xp = x.__array_namespace__()

returns this module for every tensor. Its functions have exactly the standard's signatures, and return
`ndgrad.numpy.Array`s. They call the functions of `ndgrad.numpy`, so there is one implementation of each. `special` is
not part of the standard: SciPy looks for special functions there.
"""

from __future__ import annotations

import importlib as _importlib
from math import e, inf, nan, pi
from typing import Any as _Any

from ndgrad.array_api import creation as _creation
from ndgrad.array_api import data_types as _data_types
from ndgrad.array_api import elementwise as _elementwise
from ndgrad.array_api import manipulation as _manipulation
from ndgrad.array_api import reductions as _reductions
from ndgrad.array_api import searching as _searching
from ndgrad.array_api.info import __array_namespace_info__
from ndgrad.array_api.version import VERSION as __array_api_version__

newaxis = None

__all__ = ["__array_api_version__", "__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi"]
for _family in (_data_types, _creation, _elementwise, _reductions, _manipulation, _searching):
    for _name in _family.__all__:
        globals()[_name] = getattr(_family, _name)
        __all__ += [_name]

_SUBMODULES = frozenset(("fft", "linalg", "special"))


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _importlib.import_module(f"ndgrad.array_api.{name}")
    raise AttributeError(
        f"module 'ndgrad.array_api' has no attribute {name!r}: it holds what the array API standard "
        f"{__array_api_version__} names, and no more. NumPy's other functions are in ndgrad.numpy. [nd-absent]"
    )


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
