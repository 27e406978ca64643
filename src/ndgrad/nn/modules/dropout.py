"""Dropout: elements or whole channels are set to zero at random in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}. [nd-range]")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Set elements to zero with probability `p` in training, and divide the others by 1 - p.

    Args:
        p: probability that an element is dropped.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout(0.5).eval()(ndgrad.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training; return the input itself in evaluation.

        Args:
            input: tensor of any shape.
        """
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Set whole channels to zero with probability `p` in training, and divide the others by 1 - p.

    Args:
        p: probability that a channel is dropped.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout1d(0.5)(ndgrad.ones(2, 3, 4)).shape
    ndgrad.Size([2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training; return the input itself in evaluation.

        Args:
            input: tensor of shape (N, C, L), or (C, L) for one sample.
        """
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Set whole channels to zero with probability `p` in training, and divide the others by 1 - p.

    Args:
        p: probability that a channel is dropped.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout2d(0.5)(ndgrad.ones(2, 3, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training; return the input itself in evaluation.

        Args:
            input: tensor of shape (N, C, H, W). A tensor of three dimensions is read as (N, C, L), with a warning.
        """
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Set whole channels to zero with probability `p` in training, and divide the others by 1 - p.

    Args:
        p: probability that a channel is dropped.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout3d(0.5)(ndgrad.ones(2, 3, 4, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training; return the input itself in evaluation.

        Args:
            input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        """
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Apply dropout that keeps the mean and the variance of SELU's outputs.

    Args:
        p: probability that an element is dropped.
        inplace: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> ndgrad.nn.AlphaDropout(0.5)(ndgrad.ones(2, 3)).shape
    ndgrad.Size([2, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training; return the input itself in evaluation.

        Args:
            input: tensor of any shape.
        """
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Apply `AlphaDropout` to whole channels.

    Args:
        p: probability that a channel is dropped.
        inplace: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> ndgrad.nn.FeatureAlphaDropout(0.5)(ndgrad.ones(2, 3, 4)).shape
    ndgrad.Size([2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout in training; return the input itself in evaluation.

        Args:
            input: tensor of shape (N, C, ...).
        """
        return F.feature_alpha_dropout(input, self.p, self.training)
