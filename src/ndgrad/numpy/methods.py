"""Array's methods that are NumPy functions of the array: one implementation under two names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad.api.arguments import torch_names
from ndgrad.autograd.inplace import write
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy import elementwise, indexing, products, reductions, shapes, sorting
from ndgrad.numpy._array import Array
from ndgrad.numpy.ufunc_objects import FUNCTIONS
from ndgrad.ops import fill as fill_ops

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
    self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None,
    descending: bool = False,
) -> None:  # fmt: skip
    """Sort in place (torch's `sort` returns a sorted copy)."""
    write(fill_ops.copy, self, (sorting.sort(self, axis, kind, order, stable=stable, descending=descending),), {})


def partition(self: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> None:
    """Partition in place."""
    write(fill_ops.copy, self, (sorting.partition(self, kth, axis, kind, order),), {})


def compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return indexing.compress(condition, self, axis, out)


def conjugate(self: Any) -> Any:
    """The complex conjugate; of real numbers the array itself, as NumPy's method has it and its function does not."""
    return FUNCTIONS["conjugate"](self) if np_dtype(self).kind == "c" else self


def install() -> None:
    """Give the methods their places on the class."""
    for module, names in _FUNCTIONS.items():
        for name in names.split():
            setattr(Array, name, torch_names(getattr(module, name)))
    own: dict[str, Callable[..., Any]] = {
        "sort": sort, "partition": partition, "compress": compress, "conjugate": conjugate, "conj": conjugate,
    }  # fmt: skip
    for name, method in own.items():
        setattr(Array, name, torch_names(method))
