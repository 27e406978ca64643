"""The Wishart distribution: random covariance matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import ndgrad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributions import constraints
from ndgrad.distributions.chi2 import Chi2
from ndgrad.distributions.distribution import require
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.multivariate_normal import _cholesky_inverse, cholesky_of, one_of_three
from ndgrad.distributions.utils import _standard_normal, are_all, lazy_property

if TYPE_CHECKING:
    from ndgrad.distributions.utils import Parameter

__all__ = ["Wishart"]


_LOG_2 = math.log(2)


class Wishart(ExponentialFamily):
    """Wishart distribution: random covariance matrices, of mean `df` times the given covariance.

    A sample is the sum of `df` products x x^T of normal vectors with this covariance.

    Args:
        df: degrees of freedom, above n - 1, which may be fractional.
        covariance_matrix: covariance V of shape (..., n, n).
        precision_matrix: inverse of the covariance.
        scale_tril: Cholesky factor of the covariance. Exactly one of the three matrices is given.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> ndgrad.distributions.Wishart(ndgrad.tensor(3.0), ndgrad.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0.0
    df: Tensor

    def __init__(
        self,
        df: Parameter,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_of_three(covariance_matrix, precision_matrix, scale_tril)
        if matrix.ndim < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions: the shape of "
                f"{name} is {tuple(matrix.shape)}. [nd-ndim]"
            )
        n = matrix.shape[-1]
        df = ndgrad.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = ndgrad.broadcast_shapes(df.shape, matrix.shape[:-2])
        self.df = df.expand(batch_shape)
        require(
            df > n - 1,
            lambda: (
                f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}. Fewer make no density. "
                "[nd-distribution]"
            ),
        )
        setattr(self, name, matrix.expand((*batch_shape, n, n)))
        super().__init__(batch_shape, (n, n), validate_args=validate_args)
        if not are_all(df >= n):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._unbroadcasted_scale_tril = cholesky_of(name, matrix)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Wishart, _instance)
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in vars(self):
                setattr(new, name, getattr(self, name).expand((*batch_shape, *self._event_shape)))
        new.df = self.df.expand(tuple(batch_shape))
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return self._finish_expanded(Wishart, new, batch_shape)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @property
    def _n(self) -> int:
        return self._event_shape[-1]

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the normal vectors."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        inverse = _cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape)

    def _df(self) -> Tensor:
        """The degrees of freedom as a factor of matrices."""
        return self.df.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        return self._df() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._n - 1
        factor = ndgrad.where(factor <= 0, math.nan, factor)
        return factor.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self._df() * (V.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Return samples that are differentiable in the parameters, by Bartlett's decomposition.

        A sample is L A A^T L^T with normal numbers below the diagonal of A, and on it roots of chi-squared numbers of
        df, df - 1, ... degrees of freedom. Close to df = n - 1 rounding makes some samples singular, which are drawn
        again.

        Args:
            sample_shape: shape of the batch of samples.
            max_try_correction: largest number of such repetitions. The default is 3 in up to three dimensions, and 10
                otherwise.
        """
        shape = tuple(sample_shape)
        sample = self._bartlett(shape)
        tries = (3 if self._n <= 3 else 10) if max_try_correction is None else max_try_correction
        for _ in range(tries):
            valid = self.support.check(sample)
            if are_all(valid):
                return sample
            sample = ndgrad.where(valid[..., None, None], sample, self._bartlett(shape))
        if not are_all(self.support.check(sample)):
            warnings.warn("Singular sample detected: df is close to ndim - 1.", stacklevel=2)
        return sample

    def _bartlett(self, sample_shape: Sequence[int]) -> Tensor:
        n, shape = self._n, self._extended_shape(sample_shape)
        dtype, device = self.df.dtype, self.df.device
        freedom = self.df.unsqueeze(-1) - ndgrad.arange(n, dtype=dtype, device=device)
        squares = Chi2(freedom, validate_args=False).rsample(sample_shape)
        noise = squares.clamp(min=ndgrad.finfo(dtype).tiny).sqrt().diag_embed()
        noise = noise + _standard_normal(shape, dtype, device).tril(diagonal=-1)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, nu = self._n, self.df
        solved = ndgrad.cholesky_solve(value, self._unbroadcasted_scale_tril.expand((*value.shape[:-2], n, n)))
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (n * _LOG_2 / 2 + self._half_log_det())
            - ndgrad.mvlgamma(nu / 2, p=n)
            + (nu - n - 1) / 2 * ndgrad.linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        n, nu = self._n, self.df
        steps = ndgrad.arange(n, dtype=nu.dtype, device=nu.device)
        digammas = ndgrad.digamma((nu.unsqueeze(-1) - steps) / 2).sum(-1)
        return (
            (n + 1) * (n * _LOG_2 / 2 + self._half_log_det())
            + ndgrad.mvlgamma(nu / 2, p=n)
            - (nu - n - 1) / 2 * digammas
            + nu * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._n - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]  # as many as there are
        n = self._n
        return (y + (n + 1) / 2) * (-ndgrad.linalg.slogdet(-2 * x).logabsdet + _LOG_2 * n) + ndgrad.mvlgamma(
            y + (n + 1) / 2, p=n
        )
