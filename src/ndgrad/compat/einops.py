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
        'ndgrad.compat.einops needs einops: pip install einops. [nd-install]'
    ) from error

__all__ = ["NdgradBackend"]


class NdgradBackend(AbstractBackend):  # type: ignore[misc]  # einops has no types
    """einops' backend for tensors. Results have the class of their arguments."""

    framework_name = "ndgrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """True for tensors.

        Args:
            tensor: any object.
        """
        return isinstance(tensor, Variable)

    def from_numpy(self, x: Any) -> Any:
        """Return an ndarray as a tensor.

        Args:
            x: ndarray.
        """
        return ndgrad.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        """Return the values of a tensor.

        Args:
            x: tensor.
        """
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Any:
        """Return a range of integers.

        Args:
            start: first integer.
            stop: end, which is left out.
        """
        return ndgrad.arange(start, stop)

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the shape of a tensor as a tuple.

        Args:
            x: tensor.
        """
        return tuple(x.shape)

    def transpose(self, x: Any, axes: Any) -> Any:
        """Return a tensor with permuted axes.

        Args:
            x: tensor.
            axes: axes in their new order.
        """
        return x.permute(*axes)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        """Reduce a tensor along axes.

        Args:
            x: tensor.
            operation: name of a reduction, such as `"sum"`.
            axes: axes to reduce.
        """
        return _like(x, getattr(np, operation)(to_array(x), axis=tuple(axes)))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        """Stack tensors along a new first axis.

        Args:
            tensors: tensors of one shape.
        """
        return _like(tensors[0], np.stack([to_array(t) for t in tensors]))

    def add_axis(self, x: Any, new_position: int) -> Any:
        """Return a tensor with a new axis of size 1.

        Args:
            x: tensor.
            new_position: position of the axis.
        """
        return x.unsqueeze(new_position)

    def tile(self, x: Any, repeats: tuple[int, ...]) -> Any:
        """Repeat a tensor along its axes.

        Args:
            x: tensor.
            repeats: number of copies along each axis.
        """
        return _like(x, np.tile(to_array(x), repeats))

    def concat(self, tensors: list[Any], axis: int) -> Any:
        """Join tensors along an axis.

        Args:
            tensors: tensors.
            axis: axis along which to join.
        """
        return _like(tensors[0], np.concatenate([to_array(t) for t in tensors], axis=axis))

    def is_float_type(self, x: Any) -> bool:
        """True if a tensor has a floating-point dtype.

        Args:
            x: tensor.
        """
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        """Return sums of products over named axes.

        Args:
            pattern: equation, such as `"ij,jk->ik"`.
            *x: tensors.
        """
        return _like(x[0], np.einsum(pattern, *map(to_array, x)))


def _like(x: Any, made: Any) -> Any:
    """Return the result in the class of an argument."""
    return made if isinstance(x, Array) else to_tensor(made)
