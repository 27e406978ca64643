"""Flattening dimensions into one, and one into several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Flatten a range of dimensions into one; by default all but the batch.

    Args:
        start_dim: first dimension.
        end_dim: last dimension.

    >>> import ndgrad
    >>> ndgrad.nn.Flatten()(ndgrad.ones(2, 3, 4)).shape
    ndgrad.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Flatten the input.

        Args:
            input: tensor of any shape.
        """
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return settings_text(self, "start_dim", "end_dim")


class Unflatten(Module):
    """Split one dimension into several.

    Args:
        dim: dimension to split.
        unflattened_size: new sizes, whose product is the old size. One of them may be -1.

    >>> import ndgrad
    >>> ndgrad.nn.Unflatten(1, (3, 4))(ndgrad.ones(2, 12)).shape
    ndgrad.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}. [nd-type]"
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}. [nd-type]"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Split the dimension.

        Args:
            input: tensor with a size at `dim` that fits.
        """
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return settings_text(self, "dim", "unflattened_size")
