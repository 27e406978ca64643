"""Coordinates: grids made of axes, arrays of indices, and the short forms `r_`, `c_`, `mgrid`, `ogrid`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy.coercion import as_array, as_arrays, broadcast, flat, operands
from ndgrad.numpy.joining import concatenate
from ndgrad.numpy.shapes import swapaxes

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Dtype
    from ndgrad.numpy._array import Array

__all__ = [
    "c_", "diag_indices", "indices", "mask_indices", "meshgrid", "mgrid", "ogrid", "r_", "tril_indices", "triu_indices",
]  # fmt: skip


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate arrays of the grid that lines span.

    Args:
        *xi: coordinates along each axis.
        copy: whether the results are copies. Views of broadcast memory save space.
        sparse: whether the results have size 1 along all axes but their own.
        indexing: `"xy"` puts the first coordinate on the second axis, `"ij"` on the first.

    Returns:
        One Array for each argument.

    >>> import ndgrad.numpy as np
    >>> np.meshgrid(np.array([1, 2]), np.array([3, 4]))
    (array([[1, 2],
           [1, 2]]), array([[3, 3],
           [4, 4]]))
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'. [nd-option]")
    lines = [flat(as_array(x)) for x in xi]
    n = len(lines)
    grid = [shape_ops.reshape(t, shape=(*(1,) * k, t.size, *(1,) * (n - k - 1))) for k, t in enumerate(lines)]
    if indexing == "xy" and n > 1:
        grid = [swapaxes(t, 0, 1) for t in grid]
    if not sparse:
        shape = np.broadcast_shapes(*(t.shape for t in grid)) if grid else ()
        grid = [broadcast(t, shape) for t in grid]
    return tuple(t.copy() for t in grid) if copy else tuple(grid)


@overload
def indices(dimensions: Sequence[int], dtype: Dtype = int, sparse: Literal[False] = False) -> Array: ...
@overload
def indices(dimensions: Sequence[int], dtype: Dtype = int, *, sparse: Literal[True]) -> tuple[Array, ...]: ...
def indices(dimensions: Sequence[int], dtype: Dtype = int, sparse: bool = False) -> Any:
    """The coordinates of the elements of a grid: one array with a first axis for the dimensions, a tuple if `sparse`.

    Args:
        dimensions: shape of the grid.
        dtype: dtype of the result.
        sparse: whether the result is a tuple of arrays with size 1 along all axes but their own.

    >>> import ndgrad.numpy as np
    >>> np.indices((2, 2))[1]
    array([[0, 1],
           [0, 1]])
    """
    # The stubs require a literal sparse.
    return as_arrays(np.indices(dimensions, dtype, sparse))  # type: ignore[call-overload]


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an n x n x ... array.

    Args:
        n: number of rows and columns.
        ndim: number of axes.

    >>> import ndgrad.numpy as np
    >>> np.diag_indices(2)
    (array([0, 1]), array([0, 1]))
    """
    return as_arrays(np.diag_indices(n, ndim))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the lower triangle of an n x m matrix.

    Args:
        n: number of rows.
        k: last diagonal of the triangle: 0 for the main one, positive above it, negative below it.
        m: number of columns. None means n.

    >>> import ndgrad.numpy as np
    >>> np.tril_indices(2)
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    return as_arrays(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the upper triangle of an n x m matrix.

    Args:
        n: number of rows.
        k: first diagonal of the triangle: 0 for the main one, positive above it, negative below it.
        m: number of columns. None means n.

    >>> import ndgrad.numpy as np
    >>> np.triu_indices(2)
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    return as_arrays(np.triu_indices(n, k, m))


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0) -> tuple[Array, Array]:
    """The indices that a function such as `triu` keeps of an n x n matrix.

    Args:
        n: number of rows and columns.
        mask_func: function of a matrix and `k`, which sets elements to zero.
        k: second argument of `mask_func`, for `triu` and `tril` the number of the diagonal.

    >>> import ndgrad.numpy as np
    >>> np.mask_indices(2, np.triu, 1)
    (array([0]), array([1]))
    """
    found = mask_func(np.ones((n, n), int), k)
    return as_arrays(np.nonzero(found if not isinstance(found, Variable) else found.numpy()))


class _Grid:
    """Implementation of `mgrid` and `ogrid`: slices become coordinates, as full arrays or as lines that broadcast.

    >>> import ndgrad.numpy as np
    >>> np.ogrid[0:2, 0:3][0]
    array([[0],
           [1]])
    """

    def __init__(self, theirs: Any, name: str) -> None:
        self._theirs = theirs
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        return as_arrays(self._theirs[key])

    def __repr__(self) -> str:
        return f"<ndgrad.numpy.{self._name}>"


mgrid, ogrid = _Grid(np.mgrid, "mgrid"), _Grid(np.ogrid, "ogrid")


class _Joiner:
    """Implementation of `r_` and `c_`: slices become ranges, and everything is joined along an axis.

    >>> import ndgrad.numpy as np
    >>> np.r_[0:3, 7.0]
    array([0., 1., 2., 7.])
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int) -> None:
        self._name, self._axis, self._ndmin, self._trans1d = name, axis, ndmin, trans1d

    def __repr__(self) -> str:
        return f"<ndgrad.numpy.{self._name}>"

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, trans1d = self._axis, self._ndmin, self._trans1d
        matrix = None
        if items and isinstance(items[0], str):
            word, items = items[0], items[1:]
            if word in ("r", "c"):
                matrix, ndmin = word, 2
            else:
                numbers = [int(w) for w in word.split(",")]
                axis, ndmin, trans1d = (*numbers, *(axis, ndmin, trans1d)[len(numbers) :])
        if any(isinstance(i, str) for i in items):
            raise ValueError("special directives must be the first entry. [nd-index]")
        parts = []
        for item in items:
            t = _range(item) if isinstance(item, slice) else as_array(item)
            if matrix == "c" and t.ndim == 1:
                t = shape_ops.reshape(t, shape=(t.size, 1))
            parts.append(_add_dimensions(t, ndmin, trans1d))
        return concatenate(operands(*parts), axis)


def _range(piece: slice) -> Array:
    from ndgrad.numpy.creation import arange, linspace  # avoids an import cycle

    start, stop, step = 0 if piece.start is None else piece.start, piece.stop, 1 if piece.step is None else piece.step
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


def _add_dimensions(t: Array, ndmin: int, trans1d: int) -> Array:
    """Add dimensions to an array; its own begin at the position given by the directive."""
    if t.ndim == 0:
        t = shape_ops.reshape(t, shape=(1,))
    missing = ndmin - t.ndim
    if missing <= 0:
        return t
    before = missing if trans1d == -1 else trans1d if trans1d >= 0 else missing + 1 + trans1d
    return shape_ops.reshape(t, shape=(*(1,) * before, *t.shape, *(1,) * (missing - before)))


r_, c_ = _Joiner("r_", 0, 1, -1), _Joiner("c_", -1, 2, 0)
