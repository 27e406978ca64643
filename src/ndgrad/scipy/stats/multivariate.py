"""Distributions of vectors and matrices: normal, t, Dirichlet, multinomial, Wishart and its inverse, matrix normal.

Quadratic forms and determinants go through Cholesky factors, so covariance matrices must be positive definite; SciPy's
option for singular ones needs eigenvectors, whose derivative does not exist there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad.numpy.coercion import constant, values_of
from ndgrad.scipy.stats.distribution import S, real, scipys, wrap_member, write_docstring, xlogy

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, RandomState, Shape

_LOG_TWO_PI = math.log(2 * math.pi)


class _Parametrised:
    """Base class for freezing: the names of the parameters, in order."""

    names: tuple[str, ...] = ()

    def __init__(self, name: str, what: str, example: str) -> None:
        self.name, self.__module__ = name, "ndgrad.scipy.stats"  # the module under which pickles find it
        self.__doc__ = write_docstring(self, what, self.names, example)

    def __reduce__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwds: Any) -> FrozenVector:
        return FrozenVector(self, args, kwds)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return wrap_member(f"{self.name}.{name}", getattr(scipys(self.name), name))


class FrozenVector:
    """A distribution with its parameters."""

    def __init__(self, dist: _Parametrised, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        self._dist, self._args, self._kwds = dist, args, kwds

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a frozen distribution has no attribute {name!r}")
        method = getattr(self._dist, name)
        if name in ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf"):
            return lambda x: method(x, *self._args, **self._kwds)
        if name == "rvs":
            return lambda size=1, random_state=None: method(
                *self._args, **self._kwds, size=size, random_state=random_state
            )
        return lambda: method(*self._args, **self._kwds)


def _factor(cov: Array, what: str) -> Array:
    """Return the lower Cholesky factor of a covariance matrix; raise SciPy's error if there is none."""
    try:
        return S.cholesky(cov)
    except numpy.linalg.LinAlgError:
        raise numpy.linalg.LinAlgError(
            f"{what}: the input matrix must be symmetric positive definite, but is not (shape {cov.shape}). "
            "Singular ones (allow_singular=True) have no derivative here: add a small multiple of the identity. "
            "[nd-singular]"
        ) from None


def _log_det(factor: Array) -> Array:
    return 2.0 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)


def _squares(factor: Array, rest: Array) -> Array:
    """Return rest^T cov^-1 rest for vectors in the last axis."""
    flat = rest.reshape((-1, rest.shape[-1]))
    white = S.solve_triangular(factor, flat.T, upper=False)
    return (white * white).sum(axis=0).reshape(rest.shape[:-1])


def _squeeze(values: Array) -> Array:
    """Drop axes of length 1, as SciPy does: the density of one point is a number in every form of the point."""
    return values.reshape(tuple(n for n in values.shape if n != 1)) if 1 in values.shape else values


def _location_and_scatter(mean: ArrayLike | None, cov: ArrayLike, what: str) -> tuple[Array, Array]:
    m = None if mean is None else np.atleast_1d(real(mean))
    c = real(cov)
    d = m.shape[-1] if m is not None else 1 if c.ndim == 0 else c.shape[-1]
    if m is None:
        m = np.zeros(d)
    if c.ndim == 0:
        c = c * np.eye(d)
    elif c.ndim == 1:
        c = c[:, None] * np.eye(c.shape[0]) if d == c.shape[0] else c * np.eye(d)
    if m.shape != (d,) or c.shape != (d, d):
        raise ValueError(f"{what}: a mean of shape {m.shape} and a matrix of shape {c.shape} do not fit. [nd-shape]")
    return m, c


def _points(x: ArrayLike, d: int) -> Array:
    """Return vectors in the last axis: a number is a vector of one, a vector of another length than d is many of
    them.
    """
    p = real(x)
    if p.ndim == 0:
        return p[None]
    return p[:, None] if p.ndim == 1 and d == 1 else p


class MultivariateNormal(_Parametrised):
    """`multivariate_normal(mean, cov)`: density, entropy and draws."""

    names = ("mean", "cov")

    def logpdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1, allow_singular: bool = False,
    ) -> Array:  # fmt: skip
        m, c = _location_and_scatter(mean, cov, self.name)
        factor = _factor(c, self.name)
        rest = _points(x, m.shape[0]) - m
        return _squeeze(-0.5 * (m.shape[0] * _LOG_TWO_PI + _log_det(factor) + _squares(factor, rest)))

    def pdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1, allow_singular: bool = False,
    ) -> Array:  # fmt: skip
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: ArrayLike | None = None, cov: ArrayLike = 1, allow_singular: bool = False) -> Array:
        m, c = _location_and_scatter(mean, cov, self.name)
        return 0.5 * (m.shape[0] * (_LOG_TWO_PI + 1.0) + _log_det(_factor(c, self.name)))

    def rvs(
        self, mean: ArrayLike | None = None, cov: ArrayLike = 1, size: Shape | None = 1,
        random_state: RandomState = None, allow_singular: bool = False,
    ) -> Array:  # fmt: skip
        """Return the numbers that SciPy draws, as mean + L z: differentiable in both."""
        m, c = _location_and_scatter(mean, cov, self.name)
        plain = [values_of(t.detach()) for t in (m, c)]
        drawn = numpy.asarray(scipys(self.name).rvs(*plain, size=size, random_state=random_state))
        points = constant(drawn.reshape((-1, len(plain[0]))))
        z = S.solve_triangular(S.cholesky(constant(plain[1])), (points - constant(plain[0])).T, upper=False)
        return (m + (_factor(c, self.name) @ z).T).reshape(drawn.shape)


class MultivariateT(_Parametrised):
    names = ("loc", "shape", "df")

    def logpdf(
        self, x: ArrayLike, loc: ArrayLike | None = None, shape: ArrayLike = 1, df: ArrayLike = 1,
        allow_singular: bool = False,
    ) -> Array:  # fmt: skip
        m, c = _location_and_scatter(loc, shape, self.name)
        factor, v, d = _factor(c, self.name), real(df), m.shape[0]
        squares = _squares(factor, _points(x, d) - m)
        endless = v == numpy.inf  # then it is the normal distribution
        v = np.where(endless, 1.0, v)
        scale = np.log(S.poch(v * 0.5, 0.5 * d)) - 0.5 * d * np.log(math.pi * v)
        tail = scale - (v + float(d)) * 0.5 * np.log1p(squares / v)
        return _squeeze(np.where(endless, -0.5 * (d * _LOG_TWO_PI + squares), tail) - 0.5 * _log_det(factor))

    def pdf(
        self, x: ArrayLike, loc: ArrayLike | None = None, shape: ArrayLike = 1, df: ArrayLike = 1,
        allow_singular: bool = False,
    ) -> Array:  # fmt: skip
        return np.exp(self.logpdf(x, loc, shape, df, allow_singular))


class Dirichlet(_Parametrised):
    names = ("alpha",)

    @staticmethod
    def _log_beta(a: Array) -> Array:
        return S.lgamma(a).sum(axis=-1) - S.lgamma(a.sum(axis=-1))

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        a, p = real(alpha), real(x)
        if p.shape[0] == a.shape[0] - 1:
            p = np.concatenate([p, (1.0 - p.sum(axis=0))[None]])
        if p.shape[0] != a.shape[0]:
            raise ValueError(f"dirichlet: x of shape {p.shape} does not fit alpha of shape {a.shape}. [nd-shape]")
        return _squeeze(xlogy((a - 1.0).reshape((-1, *(1,) * (p.ndim - 1))), p).sum(axis=0) - self._log_beta(a))

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        return np.exp(self.logpdf(x, alpha))

    def mean(self, alpha: ArrayLike) -> Array:
        a = real(alpha)
        return a / a.sum()

    def var(self, alpha: ArrayLike) -> Array:
        a = real(alpha)
        total = a.sum()
        return a * (total - a) / (total * total * (total + 1.0))

    def cov(self, alpha: ArrayLike) -> Array:
        a = real(alpha)
        total = a.sum()
        p = a / total
        return (p[:, None] * np.eye(a.shape[0]) - p[:, None] * p) / (total + 1.0)

    def entropy(self, alpha: ArrayLike) -> Array:
        a = real(alpha)
        total = a.sum()
        rest = (total - float(a.shape[-1])) * S.digamma(total) - ((a - 1.0) * S.digamma(a)).sum()
        return self._log_beta(a) + rest


class Multinomial(_Parametrised):
    names = ("n", "p")

    @staticmethod
    def _probabilities(p: ArrayLike) -> Array:
        """Return probabilities, the last one being the rest, as in SciPy."""
        given = real(p)
        return np.concatenate([given[..., :-1], (1.0 - given[..., :-1].sum(axis=-1))[..., None]], axis=-1)

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
        counts, total, q = real(x), real(n), self._probabilities(p)
        fits = (counts.sum(axis=-1) == total) & (counts >= 0).all(axis=-1)
        safe = np.where(fits[..., None], counts, 0.0)
        value = S.lgamma(total + 1.0) + (xlogy(safe, q) - S.lgamma(safe + 1.0)).sum(axis=-1)
        return np.where(fits, value, -numpy.inf)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
        return np.exp(self.logpmf(x, n, p))

    def mean(self, n: ArrayLike, p: ArrayLike) -> Array:
        return real(n)[..., None] * self._probabilities(p)

    def cov(self, n: ArrayLike, p: ArrayLike) -> Array:
        q = self._probabilities(p)
        return real(n)[..., None, None] * (q[..., :, None] * np.eye(q.shape[-1]) - q[..., :, None] * q[..., None, :])


def _multigammaln(a: Array, d: int) -> Array:
    return S.mvlgamma(a, p=d)


class Wishart(_Parametrised):
    """Densities of positive definite matrices x: one, or a stack of them in the last axis as in SciPy."""

    names = ("df", "scale")

    inverse = False

    def logpdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Array:
        m, v, c = real(x), real(df), np.atleast_2d(real(scale))
        d = c.shape[-1]
        if m.ndim == 0 or (m.ndim == 1 and d == 1):
            m = m.reshape((1, 1)) if m.ndim == 0 else m[None, None, :]
        points = np.moveaxis(m, -1, 0) if m.ndim == 3 else m
        fx, fc = S.cholesky(points), _factor(c, self.name)
        inner, outer = (fx, fc) if self.inverse else (fc, fx)
        lead = points.shape[:-2]
        white = S.solve_triangular(
            np.broadcast_to(inner, (*lead, d, d)), np.broadcast_to(outer, (*lead, d, d)), upper=False
        )
        trace = (white * white).sum(axis=(-2, -1))
        common = 0.5 * math.log(2) * d * v + _multigammaln(v * 0.5, d)
        if self.inverse:
            value = 0.5 * v * _log_det(fc) - 0.5 * trace - 0.5 * (v + float(d + 1)) * _log_det(fx) - common
        else:
            value = 0.5 * (v - float(d + 1)) * _log_det(fx) - 0.5 * trace - 0.5 * v * _log_det(fc) - common
        return _squeeze(value)

    def pdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Array:
        return np.exp(self.logpdf(x, df, scale))

    def mean(self, df: ArrayLike, scale: ArrayLike) -> Array:
        return real(df) * np.atleast_2d(real(scale))


class InverseWishart(Wishart):
    inverse = True

    def mean(self, df: ArrayLike, scale: ArrayLike) -> Array:
        c = np.atleast_2d(real(scale))
        return c / (real(df) - float(c.shape[-1] + 1))


class MatrixNormal(_Parametrised):
    names = ("mean", "rowcov", "colcov")

    def logpdf(
        self, X: ArrayLike, mean: ArrayLike | None = None, rowcov: ArrayLike = 1, colcov: ArrayLike = 1,
    ) -> Array:  # fmt: skip
        x = real(X)
        n, p = x.shape[-2:]
        rows, columns = (_location_and_scatter(np.zeros(k), c, self.name)[1] for k, c in ((n, rowcov), (p, colcov)))
        rest = x if mean is None else x - real(mean)
        left, right = _factor(rows, self.name), _factor(columns, self.name)
        lead = rest.shape[:-2]
        half = S.solve_triangular(np.broadcast_to(left, (*lead, n, n)), rest, upper=False)
        white = S.solve_triangular(np.broadcast_to(right, (*lead, p, p)), np.swapaxes(half, -1, -2), upper=False)
        return _squeeze(
            -0.5 * (n * p * _LOG_TWO_PI + p * _log_det(left) + n * _log_det(right) + (white * white).sum(axis=(-2, -1)))
        )

    def pdf(self, X: ArrayLike, mean: ArrayLike | None = None, rowcov: ArrayLike = 1, colcov: ArrayLike = 1) -> Array:
        return np.exp(self.logpdf(X, mean, rowcov, colcov))


multivariate_normal = MultivariateNormal(
    "multivariate_normal", "Vectors of normal variables.",
    "logpdf([0.0, 0.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]) -> array(-1.83787707)",
)  # fmt: skip
multivariate_t = MultivariateT(
    "multivariate_t", "Vectors of Student's t variables.",
    "pdf([0.0, 0.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 2.0) -> array(0.15915494)",
)  # fmt: skip
dirichlet = Dirichlet("dirichlet", "Shares that sum to 1.", "pdf([0.5, 0.5], [2.0, 2.0]) -> array(1.5)")
multinomial = Multinomial(
    "multinomial", "Counts of n trials among several outcomes.",
    "pmf([1, 1], 2, [0.5, 0.5]) -> array(0.5)",
)  # fmt: skip
wishart = Wishart("wishart", "Sums of squares of normal vectors.", "pdf([[1.0]], 2.0, [[1.0]]) -> array(0.30326533)")
invwishart = InverseWishart(
    "invwishart", "Inverses of Wishart's matrices.",
    "pdf([[1.0]], 2.0, [[1.0]]) -> array(0.30326533)",
)  # fmt: skip
matrix_normal = MatrixNormal(
    "matrix_normal", "Matrices of normal variables, with covariances of rows and of columns.",
    "pdf([[0.0, 0.0]], colcov=[[1.0, 0.0], [0.0, 1.0]]) -> array(0.15915494)",
)  # fmt: skip

__all__ = [
    "multivariate_normal", "multivariate_t", "dirichlet", "multinomial", "wishart", "invwishart", "matrix_normal",
]  # fmt: skip
