"""Python's containers and type checks, as in HIPS autograd: Arrays need no special containers, so most are Python's
own.
"""

from __future__ import annotations

import builtins as _python
from typing import Any as _Any

import numpy as _np

from ndgrad._src.core.variable import Variable as _Variable
from ndgrad._src.lifting.numbers import isinstance_ as isinstance

dict, list, tuple = _python.dict, _python.list, _python.tuple


def type(value: _Any) -> _Any:
    """Return the type of a value as without differentiation: an Array counts as NumPy's type.

    Args:
        value: any object.
    """
    if _python.isinstance(value, _Variable):
        return _np.ndarray if value.ndim else value._array.dtype.type
    return _python.type(value)


__all__ = ["dict", "isinstance", "list", "tuple", "type"]
