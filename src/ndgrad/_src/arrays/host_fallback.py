"""Functions that NumPy and SciPy alone have, for arrays of another library: computed on the host.

CuPy lacks many special functions, factorisations and matrix equations. Two copies between device and host are slow, but
an op that is slow there is of more use than one that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import graph_recording

if TYPE_CHECKING:
    from ndgrad._typing import Library


def to_host(value: Any) -> Any:
    """An array of any library as NumPy's; numbers as they are."""
    if not hasattr(value, "get"):
        return value
    graph_recording.refuse("what the host computes", "compute it before, and write it into a tensor by copy_().")
    return value.get()


def on_host(np: Library, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of arrays of the library `np`, which its results (one, or a tuple
    of them) come back to."""
    if np is numpy:
        return function

    def call(*arguments: Any, **settings: Any) -> Any:
        made = function(*map(to_host, arguments), **settings)
        return tuple(map(np.asarray, made)) if isinstance(made, tuple) else np.asarray(made)

    return call
