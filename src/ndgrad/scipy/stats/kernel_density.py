"""`gaussian_kde`: a sum of normal densities around data, differentiable in data, weights, bandwidth and points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy

import ndgrad.numpy as np
from ndgrad.numpy.coercion import constant, values_of
from ndgrad.scipy.stats.distribution import S, real, scipys

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, RandomState, Shape


class gaussian_kde:
    """Estimate of a density from a sample by normal kernels, like SciPy's class of the same name.

    Args:
        dataset: sample, of shape (n,) or (d, n).
        bw_method: bandwidth: `"scott"`, `"silverman"`, a factor, or a function of the estimate. The default is
            `"scott"`.
        weights: weights of the data, of shape (n,). The default is equal weights.

    >>> from ndgrad.scipy.stats import gaussian_kde
    >>> import ndgrad.numpy as np
    >>> data = np.array([0.0, 1.0, 2.5]).requires_grad_()
    >>> gaussian_kde(data)([1.0]).sum().backward()
    >>> data.grad.shape
    (3,)
    """

    def __init__(
        self, dataset: ArrayLike, bw_method: ArrayLike | None = None, weights: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self.dataset = np.atleast_2d(real(dataset))
        if self.dataset.size <= 1:
            raise ValueError("`dataset` input should have multiple elements. [nd-too-few]")
        self.d, self.n = self.dataset.shape
        self._given = weights is not None
        w = real(numpy.full(self.n, 1.0)) if weights is None else real(weights)
        if w.shape != (self.n,):
            raise ValueError(f"`weights` input should be of length n ({self.n}), but has shape {w.shape}. [nd-shape]")
        self.weights = w / w.sum()
        self.neff = 1.0 / (self.weights**2).sum()
        self.set_bandwidth(bw_method)

    def scotts_factor(self) -> Array:
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Array:
        return (self.neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))

    def set_bandwidth(self, bw_method: ArrayLike | None = None) -> None:
        """Set the bandwidth: a rule by name, a number (which may carry a derivative), or a function of the estimate.

        Args:
            bw_method: `"scott"`, `"silverman"`, a factor, or a function of the estimate. The default is `"scott"`.
        """
        if bw_method is None or bw_method == "scott":
            self.factor = self.scotts_factor()
        elif isinstance(bw_method, str):
            if bw_method != "silverman":
                raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable. [nd-option]")
            self.factor = self.silverman_factor()
        elif callable(bw_method) and not hasattr(bw_method, "shape"):
            self.factor = bw_method(self)
        else:
            self.factor = real(bw_method)
        rest = self.dataset - (self.dataset * self.weights).sum(axis=1, keepdims=True)
        spread = (rest * self.weights) @ rest.T / (1.0 - (self.weights**2).sum())
        self.covariance = spread * self.factor**2
        try:
            self._factor = S.cholesky(self.covariance)
        except numpy.linalg.LinAlgError:
            raise numpy.linalg.LinAlgError(
                "gaussian_kde: the covariance of the data is not positive definite: the data lie in a subspace. "
                "Project them onto it, or add data. [nd-singular]"
            ) from None

    @property
    def inv_cov(self) -> Array:
        return S.inv(self.covariance)

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at points.

        Args:
            x: points, of shape (m,) or (d, m).
        """
        points = np.atleast_2d(real(x))
        if points.shape[0] != self.d:
            if self.d != 1 and points.shape == (1, self.d):
                points = points.T
            else:
                raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {self.d} [nd-shape]")
        white_data = S.solve_triangular(self._factor, self.dataset, upper=False)
        white = S.solve_triangular(self._factor, points, upper=False)
        squares = ((white[:, None, :] - white_data[:, :, None]) ** 2).sum(axis=0)
        scale = 0.5 * self.d * math.log(2 * math.pi) + np.log(np.diagonal(self._factor)).sum()
        terms = np.log(self.weights)[:, None] - 0.5 * squares - scale
        return S.logsumexp(terms, dim=(0,), keepdim=False)

    def evaluate(self, points: ArrayLike) -> Array:
        """Return the density at points.

        Args:
            points: points, of shape (m,) or (d, m).
        """
        return np.exp(self.logpdf(points))

    pdf = __call__ = evaluate

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Return the integral of a density of one dimension over an interval.

        Args:
            low: lower limit.
            high: upper limit.
        """
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs [nd-ndim]")
        spread = self._factor[0, 0]
        ends = [S.ndtr((real(e) - self.dataset[0]) / spread) for e in (low, high)]
        return (self.weights * (ends[1] - ends[0])).sum()

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Return the integral of the estimate times a normal density.

        Args:
            mean: mean of the normal density, of shape (d,).
            cov: covariance of the normal density, of shape (d, d).
        """
        m, c = np.atleast_1d(real(mean)), np.atleast_2d(real(cov))
        factor = S.cholesky(self.covariance + c)
        white = S.solve_triangular(factor, self.dataset - m[:, None], upper=False)
        scale = 0.5 * self.d * math.log(2 * math.pi) + np.log(np.diagonal(factor)).sum()
        return (self.weights * np.exp(-0.5 * (white**2).sum(axis=0) - scale)).sum()

    def resample(self, size: Shape | None = None, seed: RandomState = None) -> Array:
        """Draw numbers without a history: the choice of the datum is not a smooth function of anything.

        Args:
            size: number of points. The default is about the effective size of the sample.
            seed: seed or generator of NumPy.
        """
        plain = [values_of(t.detach()) for t in (self.dataset, self.weights, self.factor)]
        theirs = scipys("gaussian_kde")(plain[0], bw_method=float(plain[2]), weights=plain[1] if self._given else None)
        return constant(theirs.resample(size, seed))


__all__ = ["gaussian_kde"]
