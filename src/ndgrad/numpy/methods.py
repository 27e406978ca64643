"""Array's methods that are NumPy functions of the array: one implementation under two names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.tensor.arguments import torch_names
from ndgrad.numpy import elementwise, indexing, products, reductions, shapes, sorting
from ndgrad.numpy._methods import ArrayMethods
from ndgrad.numpy.ufunc_objects import FUNCTIONS

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Axis, Out

#: File -> functions whose first argument is the array.
_FUNCTIONS = {
    reductions: "all any argmax argmin cumprod cumsum max mean min prod std sum var",
    shapes: "diagonal ravel repeat squeeze swapaxes trace",
    elementwise: "clip round",
    indexing: "choose nonzero put take",
    sorting: "argpartition argsort searchsorted",
    products: "dot",
}


def sort(
    self: Array,
    axis: Axis = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> None:
    """Sort in place (torch's `sort` returns a sorted copy).

    Args:
        axis: axis along which to sort. None is only possible for a line.
        kind: algorithm, as in NumPy: `"quicksort"`, `"mergesort"`, `"heapsort"` or `"stable"`. None means quicksort.
        order: accepted only as None, because Arrays have no fields.
        stable: whether equal elements keep their order. It excludes `kind`.
        descending: whether the largest elements come first. NumPy's method has no such option.

    >>> import ndgrad.numpy as np
    >>> x = np.array([3.0, 1.0, 2.0])
    >>> x.sort()
    >>> x
    array([1., 2., 3.])
    """
    write(fill_ops.copy, self, (sorting.sort(self, axis, kind, order, stable=stable, descending=descending),), {})


def partition(self: Array, kth: ArrayLike, axis: Axis = -1, kind: str = "introselect", order: None = None) -> None:
    """Partition in place: the kth element gets its sorted position, smaller numbers come before it.

    Args:
        kth: index or indices whose elements get their sorted positions.
        axis: axis along which to partition.
        kind: accepted as in NumPy, which has one algorithm. It has no effect.
        order: accepted only as None, because Arrays have no fields.

    >>> import ndgrad.numpy as np
    >>> x = np.array([3.0, 1.0, 2.0])
    >>> x.partition(0)
    >>> x[0]
    array(1.)
    """
    write(fill_ops.copy, self, (sorting.partition(self, kth, axis, kind, order),), {})


def compress(self: Array, condition: ArrayLike, axis: Axis = None, out: Out = None) -> Array:
    """Return the parts along an axis for which the condition holds.

    Args:
        condition: line of truth values, which may be shorter than the axis.
        axis: axis along which to choose. None chooses from the flattened array.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.array([1.0, 2.0, 3.0]).compress([True, False, True])
    array([1., 3.])
    """
    return indexing.compress(condition, self, axis, out)


def conjugate(self: Array) -> Array:
    """Return the complex conjugate; for real numbers the array itself, like NumPy's method and unlike its function.

    >>> import ndgrad.numpy as np
    >>> np.array([1.0 + 2.0j]).conj()
    array([1.-2.j])
    """
    return FUNCTIONS["conjugate"](self) if np_dtype(self).kind == "c" else self


#: Method -> function.
METHODS: dict[str, Callable[..., Any]] = {
    **{name: getattr(module, name) for module, names in _FUNCTIONS.items() for name in names.split()},
    "sort": sort, "partition": partition, "compress": compress, "conjugate": conjugate, "conj": conjugate,
}  # fmt: skip


def give_methods() -> None:
    """Add the methods to the class."""
    for name, function in METHODS.items():
        method = torch_names(function)
        method.__module__, method.__qualname__ = "ndgrad.numpy", f"Array.{name}"
        setattr(ArrayMethods, name, method)
