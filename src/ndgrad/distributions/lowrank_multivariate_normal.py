"""The multivariate normal distribution with a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv
from ndgrad.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """Return the Cholesky factor of I + W^T D^-1 W, a small matrix with which Woodbury's formulas invert W W^T + D."""
    scaled = W.mT / D.unsqueeze(-2)
    identity = ndgrad.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    return ndgrad.linalg.cholesky(identity + scaled @ W)


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return log det(W W^T + D) = log det C + log det D."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return x^T (W W^T + D)^-1 x = x^T D^-1 x - |C^-1/2 W^T D^-1 x|^2."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution with a covariance of low rank plus a diagonal: W W^T + D.

    Args:
        loc: means of shape (..., n).
        cov_factor: matrices W of shape (..., n, rank).
        cov_diag: positive diagonals D of shape (..., n).
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> factor = ndgrad.tensor([[1.0], [0.0]])
    >>> d = ndgrad.distributions.LowRankMultivariateNormal(ndgrad.zeros(2), factor, ndgrad.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1:
            raise ValueError(
                "loc must be at least one-dimensional. A sample is a vector, along its last dimension. [nd-ndim]"
            )
        event_shape = loc.shape[-1:]
        if cov_factor.ndim < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions, but its shape is "
                f"{tuple(cov_factor.shape)}. [nd-ndim]"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m, but its shape is "
                f"{tuple(cov_factor.shape)}. [nd-shape]"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(
                f"cov_diag must be a batch of vectors with shape {event_shape}, but its shape is "
                f"{tuple(cov_diag.shape)}. [nd-shape]"
            )
        try:
            batch_shape = ndgrad.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                "Incompatible batch shapes: "
                f"loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}. "
                "Sizes must agree or be 1. [nd-shape]"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._expand_parameters(LowRankMultivariateNormal, batch_shape, _instance)
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return new

    def _full(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The variance."""
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance: D^1/2 that of I + D^-1/2 W W^T D^-1/2."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        n = self._event_shape[0]
        identity = ndgrad.eye(n, dtype=scaled.dtype, device=scaled.device)
        return self._full(root * ndgrad.linalg.cholesky(identity + scaled @ scaled.mT))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        W = self._unbroadcasted_cov_factor
        return self._full(W @ W.mT + ndgrad.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: D^-1 - D^-1 W C^-1 W^T D^-1."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        A = ndgrad.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._full(ndgrad.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - A.mT @ A)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        dtype, device = self.loc.dtype, self.loc.device
        factors = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), dtype, device)
        own = _standard_normal(shape, dtype, device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, factors) + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc, self._capacitance_tril
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)
