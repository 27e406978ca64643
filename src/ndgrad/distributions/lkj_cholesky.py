"""Random correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.beta import Beta
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import _standard_normal, broadcast_all
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """LKJ distribution of Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009).

    The density of a correlation matrix R is proportional to `det(R) ** (eta - 1)`.

    Args:
        dim: number of rows of a matrix, at least 2.
        concentration: parameter eta, above 0. For 1 all correlation matrices are equally likely; larger values prefer
            the identity.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> factor = ndgrad.distributions.LKJCholesky(3, 0.5).sample()
    >>> (factor @ factor.T).diagonal().round(decimals=4)
    tensor([1., 1., 1.])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Tensor

    def __init__(self, dim: int, concentration: Parameter = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}. [nd-range]")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._expand_parameters(LKJCholesky, batch_shape, _instance)
        new.dim = self.dim
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, built row by row (the onion method). The i elements before the diagonal of row i are a vector
        in the unit ball, with a uniform direction and a squared length of Beta(i / 2, concentration + (dim - 1 - i) /
        2).

        Args:
            sample_shape: shape of the batch of samples.
        """
        with ndgrad.no_grad():
            shape, dim = self._extended_shape(sample_shape), self.dim
            concentration = self.concentration.expand(shape[:-2]).unsqueeze(-1)
            # Row 0 draws as row 1 does, without use: so the numbers are torch's.
            i = ndgrad.arange(dim, dtype=concentration.dtype, device=concentration.device).clamp(min=1)
            length = Beta(i / 2, concentration + (dim - 1 - i) / 2, validate_args=False).sample()[..., 1:, None]
            direction = _standard_normal(shape, concentration.dtype, concentration.device).tril(-1)[..., 1:, :]
            direction = direction / direction.norm(dim=-1, keepdim=True)
            rows = F.pad(length.sqrt() * direction, [0, 0, 1, 0], value=0.0)
            tiny = ndgrad.finfo(rows.dtype).tiny
            return rows + (1 - (rows**2).sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density, from that of the matrix and the Jacobian of its factor: powers of the diagonal.

        Args:
            value: Cholesky factors of shape (..., dim, dim).
        """
        if self._validate_args:
            self._validate_sample(value)
        eta, dim = self.concentration, self.dim
        k = ndgrad.arange(2, dim + 1, dtype=eta.dtype, device=eta.device)
        powers = 2 * (eta - 1).unsqueeze(-1) + dim - k
        unnormalised = (powers * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        n = dim - 1
        alpha = eta + 0.5 * n
        log_normalizer = 0.5 * n * math.log(math.pi) + ndgrad.mvlgamma(alpha - 0.5, n) - ndgrad.lgamma(alpha) * n
        return unnormalised - log_normalizer
