"""NumPy itself, with replacements of functions that would not see Arrays.

Nearly all of NumPy dispatches calls with Arrays by itself (see ndgrad.numpy.dispatch), so its functions are reexported.
The few that cannot see an Array among their arguments (`array([x, y])`, `mean([x, y])`, `vectorize`, ...) are wrapped
to check first.
"""

from __future__ import annotations

import functools
import sys as _sys
from typing import Any as _Any

import numpy as _numpy
from numpy import fft, random

from ndgrad.compat.autograd.numpy import linalg as linalg
from ndgrad.compat.autograd.numpy import numpy_boxes as numpy_boxes
from ndgrad.compat.autograd.numpy.functional import vectorize
from ndgrad.compat.autograd.numpy.lists import OF_ARRAYS as _OF_ARRAYS
from ndgrad.compat.autograd.numpy.lists import Concatenator as _Concatenator
from ndgrad.compat.autograd.numpy.lists import looking_into_lists as _looking_into_lists
from ndgrad.compat.autograd.numpy.lists import make_diagonal
from ndgrad.compat.autograd.numpy.lists import where as where
from ndgrad.numpy import creation as _creation
from ndgrad.numpy.coercion import holds_tensors as _holds_tensors

#: Functions that do not dispatch, but may get Arrays.
_LOOKING = tuple(n for n in "array asanyarray asarray ascontiguousarray asfortranarray full".split())


def _looking(name: str) -> _Any:
    theirs, ours = getattr(_numpy, name), getattr(_creation, name)

    @functools.wraps(theirs)
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        return (ours if _holds_tensors((*args, *kwargs.values())) else theirs)(*args, **kwargs)

    return call


for _name in _LOOKING:
    globals()[_name] = _looking(_name)
for _name in _OF_ARRAYS:
    globals()[_name] = _looking_into_lists(getattr(_numpy, _name))
c_, r_ = _Concatenator("c_"), _Concatenator("r_")
for _name, _module in {"fft": fft, "random": random}.items():
    _sys.modules[f"{__name__}.{_name}"] = _module  # for `import ndgrad.compat.autograd.numpy.random as npr`


def __getattr__(name: str) -> _Any:
    if name == "vectorize":
        return vectorize
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return dir(_numpy)


__all__ = [*_numpy.__all__, "make_diagonal"]
