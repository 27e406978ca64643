"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Return x^T (L L^T)^-1 x for vectors x along the last dimension. One matrix for many vectors takes them as
    columns.
    """
    if bL.ndim == 2:
        columns = bx.reshape((-1, bx.shape[-1])).mT
        solved = ndgrad.linalg.solve_triangular(bL, columns, upper=False)
        return solved.pow(2).sum(-2).reshape(bx.shape[:-1])
    return ndgrad.linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Return products of matrices and vectors."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Return L with (L L^T)^-1 = P. The Cholesky factor of P with rows and columns in reverse order is, reversed again,
    an upper triangular U with U U^T = P, so L = U^-T.
    """
    factor = ndgrad.linalg.cholesky(P.flip((-2, -1)))
    inverse = factor.flip((-2, -1)).mT
    identity = ndgrad.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return ndgrad.linalg.solve_triangular(inverse, identity.expand(P.shape), upper=False)


def _cholesky_inverse(factor: Tensor) -> Tensor:
    """Return (L L^T)^-1."""
    n = factor.shape[-1]
    identity = ndgrad.eye(n, dtype=factor.dtype, device=factor.device).expand(factor.shape)
    inverse = ndgrad.linalg.solve_triangular(factor, identity, upper=False)
    return inverse.mT @ inverse


class MultivariateNormal(Distribution):
    """Multivariate normal distribution: normal vectors with any covariance.

    Args:
        loc: means of shape (..., n).
        covariance_matrix: covariance of shape (..., n, n).
        precision_matrix: inverse of the covariance.
        scale_tril: Cholesky factor of the covariance. Exactly one of the three matrices is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.MultivariateNormal(ndgrad.zeros(2), ndgrad.eye(2))
    >>> d.log_prob(ndgrad.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError(
                "loc must be at least one-dimensional. A sample is a vector, along its last dimension. [nd-ndim]"
            )
        name, matrix = one_of_three(covariance_matrix, precision_matrix, scale_tril)
        if matrix.ndim < 2:
            raise ValueError(
                f"{name}{' matrix' if name == 'scale_tril' else ''} must be at least two-dimensional, with optional "
                f"leading batch dimensions, but its shape is {tuple(matrix.shape)}. [nd-ndim]"
            )
        batch_shape = ndgrad.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch_shape, *loc.shape[-1:]))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_of(name, matrix)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._expand_parameters(MultivariateNormal, batch_shape, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        inverse = _cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape)


def one_of_three(
    covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None
) -> tuple[str, Tensor]:
    """Return the name and the value of the given one."""
    given = {
        name: value
        for name, value in (
            ("covariance_matrix", covariance_matrix), ("precision_matrix", precision_matrix),
            ("scale_tril", scale_tril),
        )
        if value is not None
    }  # fmt: skip
    if len(given) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified. "
            f"{len(given)} of them were given. [nd-exclusive]"
        )
    return next(iter(given.items()))


def cholesky_of(name: str, matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of the covariance, from the matrix of that name."""
    if name == "scale_tril":
        return matrix
    return ndgrad.linalg.cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)
