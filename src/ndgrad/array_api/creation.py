"""Arrays from numbers, sizes and other arrays."""

from __future__ import annotations

from typing import Any

from ndgrad.array_api.device_placement import placed, placed_like
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.numpy import creation as ours
from ndgrad.numpy import grids, shapes
from ndgrad.numpy.coercion import as_array

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like",
    "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

# ----- from data ---------------------------------------------------------------------------------------------------------


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """An array of numbers, of nested sequences or of another array; sequences that hold Arrays keep their graph."""
    made = ours.array(obj, dtype, copy=copy)
    if isinstance(obj, Variable):
        return _moved(made, device, copy)
    if not isinstance(made, Variable):
        raise TypeError(
            f"asarray(): {type(obj).__name__} gives an array of {made.dtype}, and the standard knows numbers and booleans only."
        )
    return placed(made, device)


def _moved(made: Any, device: Any, copy: bool | None) -> Any:
    elsewhere = placed_like(made, device)
    if copy is False and elsewhere.device != made.device:
        raise ValueError(f"asarray(): a move from {made.device} to {elsewhere.device} needs a copy, and copy=False forbids one.")
    return elsewhere


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of another library's array. Gradients do not pass: see `ndgrad.from_dlpack`."""
    return ours.from_dlpack(x, device=device, copy=copy)


# ----- constants -----------------------------------------------------------------------------------------------------------


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return placed(ours.zeros(shape, dtype), device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return placed(ours.ones(shape, dtype), device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return placed(ours.empty(shape, dtype), device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array filled with one number, or with a 0-d array, whose graph is kept."""
    return placed(ours.full(shape, fill_value, dtype), device)


def _like(x: Any, dtype: Any, device: Any) -> tuple[Any, Any, Any]:
    t = as_array(x)
    return tuple(t.shape), np_dtype(t) if dtype is None else dtype, t.device if device is None else device


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    shape, dtype, device = _like(x, dtype, device)
    return zeros(shape, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    shape, dtype, device = _like(x, dtype, device)
    return ones(shape, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    shape, dtype, device = _like(x, dtype, device)
    return empty(shape, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    shape, dtype, device = _like(x, dtype, device)
    return full(shape, fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    return placed(ours.eye(n_rows, n_cols, k, dtype), device)


# ----- ranges and grids ------------------------------------------------------------------------------------------------------


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """Evenly spaced numbers; differentiable in the start and in the step."""
    first, last = (0, start) if stop is None else (start, stop)
    return placed(ours.arange(first, last, step, dtype=dtype), device)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> Any:
    """A given number of evenly spaced numbers between two ends, in which they are differentiable."""
    return placed(ours.linspace(start, stop, num, endpoint, dtype=dtype), device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    return list(grids.meshgrid(*arrays, indexing=indexing))


# ----- triangles --------------------------------------------------------------------------------------------------------------


def tril(x: Any, /, *, k: int = 0) -> Any:
    return shapes.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    return shapes.triu(x, k)
