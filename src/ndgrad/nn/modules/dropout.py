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
    """In training, zero each element with probability `p` and divide it by 1 - p otherwise; the identity in evaluation.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout(0.5).eval()(ndgrad.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zero whole channels of (N, C, L) or (C, L) with probability `p`, in training.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout1d(0.5)(ndgrad.ones(2, 3, 4)).shape
    ndgrad.Size([2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zero whole channels of (N, C, H, W) with probability `p`, in training.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout2d(0.5)(ndgrad.ones(2, 3, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with probability `p`, in training.

    >>> import ndgrad
    >>> ndgrad.nn.Dropout3d(0.5)(ndgrad.ones(2, 3, 4, 4, 4)).shape
    ndgrad.Size([2, 3, 4, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps the mean and variance of SELU's outputs.

    >>> import ndgrad
    >>> ndgrad.nn.AlphaDropout(0.5)(ndgrad.ones(2, 3)).shape
    ndgrad.Size([2, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> import ndgrad
    >>> ndgrad.nn.FeatureAlphaDropout(0.5)(ndgrad.ones(2, 3, 4)).shape
    ndgrad.Size([2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
