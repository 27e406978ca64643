"""`__array_function__`: NumPy's functions, called on tensors, run the functions of ndgrad.numpy.

One table, NumPy function -> ours, is built from the names that both namespaces have. A missing function raises an error
with its name and the nearest call that works; it never computes on plain values.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.debug.scipy_calls import lift_line
from ndgrad._src.foundations import package_name
from ndgrad.numpy.constant_tensors import SIZES, are_constants_of_torch, call_function

#: NumPy's modules and ours.
MODULES = {
    "numpy": "ndgrad.numpy",
    "numpy.linalg": "ndgrad.numpy.linalg",
    "numpy.fft": "ndgrad.numpy.fft",
    "numpy.emath": "ndgrad.numpy.emath",
    "numpy.lib.stride_tricks": "ndgrad.numpy.stride_tricks",
}

#: Functions that take no tensors, and their replacements.
REFUSED = {
    "busday_count": "it counts dates, and tensors hold numbers: pass datetime64 arrays",
    "busday_offset": "it shifts dates, and tensors hold numbers: pass datetime64 arrays, and integers from t.numpy()",
    "is_busday": "it asks about dates, and tensors hold numbers: pass datetime64 arrays",
    "datetime_as_string": "it prints dates, and tensors hold numbers: use numpy.array2string(t)",
}

Function = Callable[..., Any]


def dispatches(function: Any) -> bool:
    """True if NumPy offers a function to `__array_function__`."""
    return type(function) is type(np.sum)


def implementation_of(function: Any) -> Any:
    """Return our function without the shortcut to NumPy for non-numeric data, which would lead back here."""
    return getattr(function, "without_detour", function)


@functools.cache
def table() -> dict[Any, Function]:
    """Return NumPy function -> implementation, for every module of NumPy whose functions dispatch."""
    found: dict[Any, Function] = {}
    for theirs_name, ours_name in MODULES.items():
        theirs = functools.reduce(getattr, theirs_name.split(".")[1:], np)
        ours = importlib.import_module(ours_name)
        for name in ours.__all__:
            function, implementation = getattr(theirs, name, None), getattr(ours, name)
            if callable(function) and implementation is not function and not isinstance(function, (type, np.ufunc)):
                found[function] = implementation_of(implementation)
    return found


def array_function(self: Any, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Implement `__array_function__`: NumPy calls it if a tensor is among the arguments of a function."""
    if package_name.package == "torch" and function not in SIZES and are_constants_of_torch(args, kwargs):
        return call_function(function, args, kwargs)
    implementation = table().get(function)
    for kind in types:
        if not issubclass(kind, (Variable, np.ndarray)):
            return NotImplemented  # an array of another library: it may implement the call
    if implementation is None:
        raise refusal(function)
    return implementation(*args, **kwargs)


def refusal(function: Any) -> TypeError:
    """Return the error of a function without an implementation."""
    name, module = function.__name__, getattr(function, "__module__", None) or "numpy"
    if name in REFUSED:
        return TypeError(f"{module}.{name}() does not take tensors: {REFUSED[name]}. [nd-no-derivative]")
    return TypeError(
        f"{module}.{name}() has no implementation for tensors, and NumPy's own would drop the graph. Write it with "
        "functions that dir(ndgrad.numpy) lists, or pass t.detach().numpy() if no gradient is meant to pass."
        f"{lift_line()} [nd-no-derivative]"
    )


