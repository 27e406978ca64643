"""einops on tensors: importing this module lets `rearrange`, `reduce`, `repeat`, `einsum`, `pack` and `unpack` accept
them.

einops looks for a backend among the subclasses of its `AbstractBackend`. (Its functions of the array API standard,
`einops.array_api`, need no backend and take tensors without this module.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.core.variable import Variable
from ndgrad.numpy._array import Array, to_array, to_tensor

try:
    from einops._backends import AbstractBackend
except ImportError as error:
    raise ImportError(
        'ndgrad.compat.einops needs einops: pip install "ndgrad[examples]", or einops alone. [nd-install]'
    ) from error

__all__ = ["NdgradBackend"]


class NdgradBackend(AbstractBackend):  # type: ignore[misc]  # einops has no types
    """einops' backend for tensors. Results have the class of their arguments."""

    framework_name = "ndgrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Variable)

    def from_numpy(self, x: Any) -> Any:
        return ndgrad.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Any:
        return ndgrad.arange(start, stop)

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)

    def transpose(self, x: Any, axes: Any) -> Any:
        return x.permute(*axes)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        return _like(x, getattr(np, operation)(to_array(x), axis=tuple(axes)))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return _like(tensors[0], np.stack(tensors))

    def add_axis(self, x: Any, new_position: int) -> Any:
        return x.unsqueeze(new_position)

    def tile(self, x: Any, repeats: tuple[int, ...]) -> Any:
        return _like(x, np.tile(to_array(x), repeats))

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return _like(tensors[0], np.concatenate(tensors, axis=axis))

    def is_float_type(self, x: Any) -> bool:
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        return _like(x[0], np.einsum(pattern, *x))


def _like(x: Any, made: Any) -> Any:
    """Return the result in the class of an argument."""
    return made if isinstance(x, Array) else to_tensor(made)
