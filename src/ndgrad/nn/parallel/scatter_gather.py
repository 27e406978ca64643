"""torch's `nn.parallel.scatter_gather`: split arguments along a dimension over devices, and join results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.join import cat, stack

__all__ = ["gather", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """True for a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Return one structure per device: tensors are split along `dim` and moved, other values are repeated.

    >>> import ndgrad
    >>> from ndgrad.nn.parallel import scatter
    >>> scatter({"x": ndgrad.arange(3)}, ["cpu", "cpu"])
    [{'x': tensor([0, 1])}, {'x': tensor([2])}]
    """
    if isinstance(inputs, Variable):
        return [part.to(place) for part, place in zip(inputs.chunk(len(target_gpus), dim), target_gpus)]
    if isinstance(inputs, (tuple, list)) and inputs:
        columns = zip(*(scatter(item, target_gpus, dim) for item in inputs))
        make = (lambda c: type(inputs)(*c)) if is_namedtuple(inputs) else type(inputs)
        return [make(column) for column in columns]
    if isinstance(inputs, dict) and inputs:
        columns = zip(*(scatter(item, target_gpus, dim) for item in inputs.items()))
        return [type(inputs)(column) for column in columns]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: Any, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the positional and the keyword arguments of each device's call."""
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named: list[Any] = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(positional), len(named))
    positional += [() for _ in range(count - len(positional))]
    named += [{} for _ in range(count - len(named))]
    return tuple(positional), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Return one structure on a device, whose tensors are joined along `dim`; numbers become a vector.

    >>> import ndgrad
    >>> from ndgrad.nn.parallel import gather
    >>> gather([ndgrad.ones(1), ndgrad.zeros(2)], "cpu")
    tensor([1., 0., 0.])
    """
    first = outputs[0]
    if isinstance(first, Variable):
        moved = [t.to(target_device) for t in outputs]
        return stack(moved) if not first.dim() else cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError("All dicts must have the same number of keys. [nd-tree]")
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    columns = (gather(column, target_device, dim) for column in zip(*outputs))
    return type(first)(*columns) if is_namedtuple(first) else type(first)(columns)
