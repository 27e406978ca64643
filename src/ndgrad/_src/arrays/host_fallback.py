"""Functions that only NumPy and SciPy have, for arrays of other libraries: computed on the host.

CuPy lacks many special functions, factorisations and matrix equations. Two copies between device and host are slow, but
a slow op is more useful than a missing one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import graph_recording

if TYPE_CHECKING:
    from ndgrad._typing import Library


def to_host(value: Any) -> Any:
    """Convert an array of any library to NumPy's; numbers stay as they are."""
    if not hasattr(value, "get"):
        return value
    graph_recording.refuse("a computation on the host", "compute it before, and write it into a tensor by copy_().")
    return value.get()


#: Names of functions for which a warning has been given.
_warned: set[str] = set()


def warn_of_host(name: str) -> None:
    """Warn, once for each name, that a function of device arrays is computed on the host."""
    if name in _warned:
        return
    _warned.add(name)
    warnings.warn(
        f"{name} is computed on the host, with copies in both directions, because CuPy has no function for it. "
        "docs/gpu.md lists such functions.",
        UserWarning,
        stacklevel=3,
    )


def wrap_for_host(np: Library, function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """Wrap a function of NumPy arrays for arrays of the library `np`. Its results, one or a tuple, are copied back. The
    warning names it by `name`, or by its own name.
    """
    if np is numpy:
        return function

    known_as = getattr(function, "__name__", "a function") if name is None else name

    def call(*arguments: Any, **settings: Any) -> Any:
        warn_of_host(known_as)
        made = function(*map(to_host, arguments), **settings)
        return tuple(map(np.asarray, made)) if isinstance(made, tuple) else np.asarray(made)

    return call
