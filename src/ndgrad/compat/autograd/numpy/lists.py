"""NumPy's functions that accept a list as an array, which may contain Arrays: `mean([x, y])`.

NumPy dispatches calls with an Array among their arguments, but does not look into lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.triangle import diag_embed
from ndgrad.numpy import creation, grids
from ndgrad.numpy.coercion import holds_tensors

#: Functions of one array (or two), in NumPy and in its linalg.
OF_ARRAYS = (
    "all amax amin any append argmax argmin argsort average clip cross cumprod cumsum diff dot inner kron max "
    "mean median min "
    "outer prod ptp ravel repeat reshape roll round sort std sum take tensordot tile trace transpose var"
).split()
OF_MATRICES = (
    "cholesky cond det eig eigh eigvals eigvalsh inv matrix_power matrix_rank norm pinv qr slogdet solve svd".split()
)


def looking_into_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to convert a list that contains Arrays to an Array."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(a, (list, tuple)) and holds_tensors(a) for a in (*args, *kwargs.values())):
            args = tuple(_join_list(a) for a in args)
            kwargs = {k: _join_list(a) for k, a in kwargs.items()}
        return function(*args, **kwargs)

    return call


def _join_list(value: Any) -> Any:
    return creation.array(value) if isinstance(value, (list, tuple)) and holds_tensors(value) else value


class Concatenator:
    """Implementation of `r_` and `c_`: NumPy's, or ours if there are Arrays among the parts."""

    def __init__(self, name: str) -> None:
        self._theirs, self._ours = getattr(np, name), getattr(grids, name)

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        return (self._ours if holds_tensors(parts) else self._theirs)[key]


def where(*args: Any, **kwargs: Any) -> Any:
    """Same as `numpy.where`, also with keywords; a single bool selects one of the arguments unchanged.

    >>> from ndgrad.compat.autograd.numpy import where
    >>> where(True, x=1, y=2)
    1
    """
    given = dict(zip(("condition", "x", "y"), args), **kwargs)
    arrays = any(isinstance(value, (np.ndarray, np.generic, Variable)) for value in given.values())
    if isinstance(given["condition"], bool) and len(given) == 3 and not arrays:
        return given["x"] if given["condition"] else given["y"]
    return np.where(*(given[name] for name in ("condition", "x", "y") if name in given))


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return matrices with the last axis of `D` as their diagonal: the inverse of `numpy.diagonal`.

    >>> from ndgrad.compat.autograd.numpy import make_diagonal
    >>> make_diagonal([1.0, 2.0], axis1=-1, axis2=-2)
    array([[1., 0.],
           [0., 2.]])
    """
    made = diag_embed(creation.asarray(D), offset=offset, dim0=axis1 % (np.ndim(D) + 1), dim1=axis2 % (np.ndim(D) + 1))
    return made if holds_tensors((D,)) else np.asarray(made)


def read_one_triangle(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `eigh` or `eigvalsh` as a function of the triangle that it reads: the other one has no gradient."""

    @functools.wraps(function)
    def call(a: Any, UPLO: str = "L") -> Any:
        a = _join_list(a)
        if not holds_tensors((a,)):
            return function(a, UPLO)
        if UPLO not in ("L", "U"):
            raise ValueError(f"UPLO must be 'L' or 'U', but was {UPLO!r}. [nd-option]")
        part, rest = (np.tril(a), np.tril(a, -1)) if UPLO == "L" else (np.triu(a), np.triu(a, 1))
        return function(part + np.conjugate(np.swapaxes(rest, -1, -2)), UPLO)

    return call
