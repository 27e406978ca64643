"""NumPy's linalg with support for lists of Arrays; `eigh` is a function of the triangle that it reads."""

from __future__ import annotations

from typing import Any as _Any

import numpy as _numpy

from ndgrad.compat.autograd.numpy.lists import OF_MATRICES as _OF_MATRICES
from ndgrad.compat.autograd.numpy.lists import looking_into_lists as _looking_into_lists
from ndgrad.compat.autograd.numpy.lists import read_one_triangle as _of_one_triangle

for _name in _OF_MATRICES:
    globals()[_name] = _looking_into_lists(getattr(_numpy.linalg, _name))
eigh, eigvalsh = _of_one_triangle(_numpy.linalg.eigh), _of_one_triangle(_numpy.linalg.eigvalsh)


def __getattr__(name: str) -> _Any:
    return getattr(_numpy.linalg, name)


def __dir__() -> list[str]:
    return dir(_numpy.linalg)
