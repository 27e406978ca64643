"""Distances and similarities as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """Return the cosine of the angle between vectors along a dimension.

    Args:
        dim: dimension of the vectors.
        eps: smallest norm by which a vector is divided.

    >>> import ndgrad
    >>> ndgrad.nn.CosineSimilarity()(ndgrad.tensor([[1.0, 1.0]]), ndgrad.tensor([[1.0, 0.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines.

        Args:
            x1, x2: tensors that broadcast against each other.
        """
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Return the p-norm of `x1 - x2 + eps` along the last dimension.

    Args:
        p: order of the norm.
        eps: number added to each difference, which keeps gradients finite.
        keepdim: whether the last dimension stays, with size 1.

    >>> import ndgrad
    >>> ndgrad.nn.PairwiseDistance(eps=0.0)(ndgrad.tensor([[3.0, 4.0]]), ndgrad.zeros(1, 2))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances.

        Args:
            x1, x2: tensors that broadcast against each other.
        """
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
