"""NumPy's functions on constants of a program in which `torch` is this package.

torch's tensors do not take part in NumPy's dispatch: a NumPy function computes on their values and returns an ndarray
(or, if it only calls the method of its name, a tensor), and a ufunc returns a tensor. Code in C, such as SciPy's SLSQP,
accepts nothing but ndarrays. A tensor that requires a gradient raises there. Here it takes the way of
`ndgrad.numpy`, and the result has a graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ndgrad._src.core.modes import modes
from ndgrad._src.core.variable import Variable
from ndgrad.numpy._array import Array

#: Functions that return sizes, and read an attribute that is a method in torch.
SIZES = frozenset((np.size, np.shape, np.ndim))


def are_constants_of_torch(args: Iterable[Any], kwargs: dict[str, Any]) -> bool:
    """True if no tensor among the arguments is an Array, requires a gradient or belongs to an open transform."""
    if modes().levels or modes().dual_levels:
        return False
    return all(map(_is_constant, args)) and all(map(_is_constant, kwargs.values()))


def _is_constant(value: Any) -> bool:
    if isinstance(value, Variable):
        return not (isinstance(value, Array) or value.requires_grad)
    if value.__class__ in (list, tuple):
        return all(map(_is_constant, value))
    return value.__class__ is not dict or all(map(_is_constant, value.values()))


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call NumPy's own code of a function. Tensors become ndarrays where it reads their values."""
    try:
        return function._implementation(*args, **kwargs)
    except TypeError:
        # A method of a tensor does not take NumPy's keywords.
        return function(*_to_arrays(args), **{name: _to_arrays(value) for name, value in kwargs.items()})


def call_ufunc(owner: Any, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a ufunc or its method. Its new arrays are wrapped as tensors of the owner's class."""
    found = getattr(ufunc, method)(*_to_arrays(inputs), **kwargs)
    if "out" in kwargs or method in ("outer", "at", "reduceat"):
        return found
    if isinstance(found, tuple):
        return tuple(owner.__array_wrap__(np.asarray(part)) for part in found)
    return owner.__array_wrap__(np.asarray(found))


def _to_arrays(value: Any) -> Any:
    if isinstance(value, Variable):
        return np.asarray(value)
    if value.__class__ in (list, tuple):
        return value.__class__(map(_to_arrays, value))
    return value
