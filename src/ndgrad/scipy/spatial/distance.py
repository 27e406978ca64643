"""`scipy.spatial.distance` with derivatives: distances between vectors, and between all rows of matrices.

A distance that is a root (Euclidean, cosine, ...) has the derivative 0 if both vectors are equal, like norms at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import ndgrad.numpy as dnp
from ndgrad.scipy._without_rules import floating, make_module_getattr, public_of

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Payload

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon",
    "mahalanobis", "minkowski", "pdist", "seuclidean", "sqeuclidean", "squareform",
]  # fmt: skip


# ----- distances of two vectors ---------------------------------------------------------------------------------------


def _vectors(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> tuple[Any, Any, Any]:
    a, b = floating(u), floating(v)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"Input vector should be 1-D: the shapes are {tuple(a.shape)} and {tuple(b.shape)}. [nd-ndim]")
    weights = None if w is None else floating(w)
    if weights is not None and (weights.detach() < 0).any():
        raise ValueError("Input weights should be all non-negative. [nd-values]")
    return a, b, weights


def _sum(values: Payload, w: Payload) -> Payload:
    return (values if w is None else values * w).sum(-1)


def _norm(values: Payload, p: float = 2.0) -> Payload:
    return dnp.linalg.norm(values, p, axis=-1)


def euclidean(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """The Euclidean distance of two vectors.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.euclidean([1.0, 0.0], [0.0, 1.0])
    array(1.41421356)
    """
    return minkowski(u, v, 2, w)


def sqeuclidean(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """The square of the Euclidean distance.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.sqeuclidean([1.0, 0.0], [0.0, 1.0])
    array(2.)
    """
    a, b, weights = _vectors(u, v, w)
    return _sum((a - b) ** 2, weights)


def minkowski(u: ArrayLike, v: ArrayLike, p: float = 2, w: ArrayLike | None = None) -> Array:
    """The p-norm of the difference.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        p: order of the norm, positive or infinity.
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.minkowski([1.0, 0.0], [0.0, 1.0], 1)
    array(2.)
    """
    if p <= 0:
        raise ValueError("p must be greater than 0 [nd-range]")
    a, b, weights = _vectors(u, v, w)
    difference = a - b
    return _norm(difference if weights is None or p == np.inf else weights ** (1 / p) * difference, p)


def cityblock(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """The sum of the absolute differences.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.cityblock([1.0, 0.0], [0.0, 2.0])
    array(3.)
    """
    a, b, weights = _vectors(u, v, w)
    return _sum(abs(a - b), weights)


def chebyshev(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """The largest absolute difference.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.chebyshev([1.0, 0.0], [0.0, 2.0])
    array(2.)
    """
    a, b, weights = _vectors(u, v, w)
    return _largest(a, b, weights)


def _largest(a: Payload, b: Payload, w: Payload = None) -> Payload:
    """Return the largest difference; weights select components."""
    gaps = abs(a - b)
    return (gaps if w is None else dnp.where(w.detach() > 0, gaps, 0.0)).max(-1)


def correlation(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None, centered: bool = True) -> Array:
    """One minus the correlation.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.
        centered: whether the means are subtracted.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.correlation([1.0, 0.0, 1.0], [1.0, 1.0, 0.0])
    array(1.5)
    """
    a, b, weights = _vectors(u, v, w)
    shares = None if weights is None else weights / weights.sum()
    if centered:
        a, b = (x - (x.mean() if shares is None else (x * shares).sum()) for x in (a, b))
    return _angle(a, b, shares)


def cosine(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """One minus the cosine of the angle.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.cosine([1.0, 0.0], [0.0, 1.0])
    array(1.)
    """
    return correlation(u, v, w, centered=False)


def _angle(a: Payload, b: Payload, w: Payload) -> Payload:
    if w is None:
        return 1 - (a * b).sum(-1) / (_norm(a) * _norm(b))
    return 1 - (a * b * w).sum(-1) / dnp.sqrt((a * a * w).sum(-1) * (b * b * w).sum(-1))


def braycurtis(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """The sum of absolute differences over that of absolute sums.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.braycurtis([1.0, 0.0], [0.0, 1.0])
    array(1.)
    """
    a, b, weights = _vectors(u, v, w)
    return _sum(abs(a - b), weights) / _sum(abs(a + b), weights)


def canberra(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Array:
    """The sum of absolute differences, each over the sum of absolute values.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        w: weights of the components, not negative. The default is ones.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.canberra([1.0, 0.0], [0.0, 1.0])
    array(2.)
    """
    a, b, weights = _vectors(u, v, w)
    return _canberra(a, b, weights)


def _canberra(a: Payload, b: Payload, w: Payload = None) -> Payload:
    sizes = abs(a) + abs(b)
    empty = sizes.detach() == 0
    return _sum(dnp.where(empty, 0.0, abs(a - b) / dnp.where(empty, 1.0, sizes)), w)


def mahalanobis(u: ArrayLike, v: ArrayLike, VI: ArrayLike) -> Array:
    """The distance in the metric of the inverse of a covariance.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        VI: inverse of the covariance, of shape (n, n).

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.mahalanobis([1.0, 0.0], [0.0, 1.0], np.eye(2))
    array(1.41421356)
    """
    a, b, _ = _vectors(u, v)
    difference = a - b
    return _root(difference @ floating(VI) @ difference)


def _root(square: Payload) -> Payload:
    """Return the square root, with derivative 0 at 0."""
    zero = square.detach() == 0
    return dnp.where(zero, 0.0, dnp.sqrt(dnp.where(zero, 1.0, square)))


def seuclidean(u: ArrayLike, v: ArrayLike, V: ArrayLike) -> Array:
    """The Euclidean distance with each component over its variance.

    Args:
        u: first vector, of shape (n,).
        v: second vector, of shape (n,).
        V: variances, of shape (n,).

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.seuclidean([1.0, 0.0], [0.0, 1.0], [0.5, 0.5])
    array(2.)
    """
    return euclidean(u, v, 1 / floating(V))


def jensenshannon(
    p: ArrayLike, q: ArrayLike, base: float | None = None, *, axis: int = 0, keepdims: bool = False
) -> Array:
    """The Jensen-Shannon distance of two distributions.

    Args:
        p: first distribution, which is divided by its sum.
        q: second distribution, which is divided by its sum.
        base: base of the logarithm. The default is e.
        axis: axis of the distributions.
        keepdims: whether the reduced axis stays, with size 1.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.jensenshannon([1.0, 0.0], [0.5, 0.5]).round(6)
    array(0.464501)
    """
    a, b = floating(p), floating(q)
    a, b = a / a.sum(axis=axis, keepdims=True), b / b.sum(axis=axis, keepdims=True)
    middle = (a + b) / 2.0
    both = sum(_relative_entropy(x, middle).sum(axis=axis, keepdims=keepdims) for x in (a, b))
    return _root((both if base is None else both / np.log(base)) / 2.0)


def _relative_entropy(x: Payload, y: Payload) -> Payload:
    empty = x.detach() == 0
    safe = dnp.where(empty, 1.0, x)
    return dnp.where(empty, 0.0, safe * dnp.log(safe / dnp.where(empty, 1.0, y)))


# ----- distances of all rows ------------------------------------------------------------------------------------------


def _power(p: float = 2.0, w: Payload = None) -> Callable[[Any, Any], Any]:
    return lambda a, b: _norm(a - b if w is None or p == np.inf else w ** (1 / p) * (a - b), p)


def _centre(x: Payload) -> Payload:
    return x - x.mean(-1, keepdims=True)


def _measure(a: Payload, b: Payload, inverse: Payload) -> Payload:
    gap = a - b
    return _root(((gap @ inverse) * gap).sum(-1))


#: Metric -> distance over the last dimensions of two Arrays, which broadcast.
_METRICS: dict[str, Callable[..., Any]] = {
    "euclidean": lambda a, b, w=None: _power(2.0, w)(a, b),
    "sqeuclidean": lambda a, b, w=None: _sum((a - b) ** 2, w),
    "cityblock": lambda a, b, w=None: _sum(abs(a - b), w),
    "chebyshev": lambda a, b, w=None: _largest(a, b, w),
    "minkowski": lambda a, b, p=2.0, w=None: _power(p, w)(a, b),
    "cosine": lambda a, b, w=None: _angle(a, b, w),
    "correlation": lambda a, b: _angle(_centre(a), _centre(b), None),
    "braycurtis": lambda a, b, w=None: _sum(abs(a - b), w) / _sum(abs(a + b), w),
    "canberra": lambda a, b, w=None: _canberra(a, b, w),
    "seuclidean": lambda a, b, V: _power(2.0, 1 / V)(a, b),
    "mahalanobis": lambda a, b, VI: _measure(a, b, VI),
}
_NAMES = {
    "l2": "euclidean", "sqeuclid": "sqeuclidean", "manhattan": "cityblock", "l1": "cityblock", "cheby": "chebyshev",
    "cheb": "chebyshev", "linf": "chebyshev", "mi": "minkowski", "pnorm": "minkowski", "cos": "cosine",
    "se": "seuclidean", "mahal": "mahalanobis",
}  # fmt: skip


def cdist(XA: ArrayLike, XB: ArrayLike, metric: str | Callable[..., Any] = "euclidean", **kwargs: Any) -> Array:
    """The distances of all rows of one matrix from all rows of another.

    Args:
        XA: matrix, of shape (m, d).
        XB: matrix, of shape (n, d).
        metric: name of a metric of this module, or a function of two vectors.
        kwargs: further arguments of the metric, such as `p`, `w`, `V` and `VI`.

    Returns:
        An array of shape (m, n).

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.cdist([[0.0, 0.0], [1.0, 0.0]], [[0.0, 2.0]])
    array([[2.        ],
           [2.23606798]])
    """
    a, b = floating(XA), floating(XB)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(
            f"XA and XB must be 2-D arrays with the same number of columns: their shapes are {tuple(a.shape)} and "
            f"{tuple(b.shape)}. [nd-ndim]"
        )
    if callable(metric):
        return dnp.stack([dnp.stack([floating(metric(x, y, **kwargs)) for y in b]) for x in a])
    return _distances(metric, a[:, None], b[None], dnp.concatenate([a, b]), kwargs)


def pdist(X: ArrayLike, metric: str | Callable[..., Any] = "euclidean", **kwargs: Any) -> Array:
    """The distances of the rows of a matrix from each other, each pair once.

    Args:
        X: matrix, of shape (m, d).
        metric: name of a metric of this module, or a function of two vectors.
        kwargs: further arguments of the metric, such as `p`, `w`, `V` and `VI`.

    Returns:
        An array of shape (m (m - 1) / 2,).

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.pdist([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    array([1.        , 2.        , 2.23606798])
    """
    x = floating(X)
    if x.ndim != 2:
        raise ValueError(f"A 2-dimensional array must be passed, and the shape is {tuple(x.shape)}. [nd-ndim]")
    first, second = np.triu_indices(len(x), 1)
    if callable(metric):
        return dnp.stack([floating(metric(x[i], x[j], **kwargs)) for i, j in zip(first, second)])
    return _distances(metric, x[first], x[second], x, kwargs)


def _distances(metric: str, a: Payload, b: Payload, rows: Payload, options: dict[str, Any]) -> Payload:
    name = _NAMES.get(metric.lower(), metric.lower())
    if name not in _METRICS:
        raise NotImplementedError(
            f"ndgrad.scipy.spatial.distance: the metric {metric!r} has no derivative here. There are "
            f"{', '.join(_METRICS)}; detach() the rows for any other of SciPy's. [nd-no-derivative]"
        )
    given = {k: floating(v) if k in ("w", "V", "VI") and v is not None else v for k, v in options.items() if k != "out"}
    if name == "seuclidean" and given.get("V") is None:
        given["V"] = rows.var(axis=0, ddof=1)
    if name == "mahalanobis" and given.get("VI") is None:
        given["VI"] = dnp.linalg.inv(dnp.cov(rows.T)).T
    return _METRICS[name](a, b, **given)


def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> Array:
    """Convert distances of pairs between a vector and a symmetric matrix.

    Args:
        X: distances of pairs, as a vector or a symmetric matrix.
        force: `"tovector"` or `"tomatrix"` to require this direction, or `"no"`.
        checks: whether a matrix that is not symmetric with a zero diagonal raises ValueError.

    >>> from ndgrad.scipy.spatial import distance
    >>> distance.squareform([1.0, 2.0, 3.0])
    array([[0., 1., 2.],
           [1., 0., 3.],
           [2., 3., 0.]])
    """
    x = floating(X)
    if x.ndim == 1 and force.lower() != "tovector":
        n = int(np.ceil(np.sqrt(2 * len(x))))
        if n * (n - 1) != 2 * len(x):
            raise ValueError(
                f"Incompatible vector size {len(x)}. It must be a binomial coefficient n choose 2. [nd-shape]"
            )
        n = max(n, 1)
        place = np.zeros((n, n), int)
        place[np.triu_indices(n, 1)] = np.arange(1, len(x) + 1)
        return dnp.concatenate([dnp.zeros(1), x])[place + place.T]
    if x.ndim != 2 or x.shape[0] != x.shape[1] or force.lower() == "tomatrix":
        raise ValueError(
            f"squareform takes a vector or a square matrix, and the shape is {tuple(x.shape)}. [nd-matrix]"
        )
    if checks and not (np.allclose(x.detach(), x.detach().T) and np.allclose(np.diagonal(x.detach()), 0)):
        raise ValueError("Distance matrix 'X' must be symmetric with a zero diagonal. [nd-values]")
    return x[np.triu_indices(len(x), 1)]


__getattr__ = make_module_getattr("spatial.distance", {})
__dir__ = public_of(__name__)
