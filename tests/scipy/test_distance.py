"""Distances against SciPy's, and their derivatives against differences of SciPy's own functions."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp

theirs = pytest.importorskip("scipy.spatial.distance")
from ndgrad.scipy.spatial import distance  # noqa: E402

RNG = np.random.default_rng(0)
U, V, W = RNG.uniform(0.2, 1.0, 4), RNG.uniform(0.2, 1.0, 4), RNG.uniform(0.5, 1.0, 4)
A, B = RNG.uniform(0.2, 1.0, (5, 3)), RNG.uniform(0.2, 1.0, (4, 3))


def numeric(f, x, step=1e-6):
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        out[place] = (f(up) - f(down)) / (2 * step)
    return out


OF_VECTORS = {
    **{
        n: (lambda m, u, v, n=n: getattr(m, n)(u, v))
        for n in "braycurtis canberra chebyshev cityblock correlation cosine euclidean jensenshannon sqeuclidean".split()
    },
    **{
        f"{n} weighted": (lambda m, u, v, n=n: getattr(m, n)(u, v, W))
        for n in "braycurtis canberra chebyshev cityblock correlation cosine euclidean sqeuclidean".split()
    },
    "minkowski": lambda m, u, v: m.minkowski(u, v, 3),
    "minkowski weighted": lambda m, u, v: m.minkowski(u, v, 1.5, W),
    "seuclidean": lambda m, u, v: m.seuclidean(u, v, W),
    "mahalanobis": lambda m, u, v: m.mahalanobis(u, v, np.diag(W) + 0.1),
    "jensenshannon in bits": lambda m, u, v: m.jensenshannon(u, v, 2.0),
}


@pytest.mark.parametrize("name", list(OF_VECTORS))
def test_distances_of_vectors(name):
    f = OF_VECTORS[name]
    u = dnp.array(U).requires_grad_()
    found = f(distance, u, V)
    np.testing.assert_allclose(float(found.detach()), f(theirs, U, V), rtol=1e-12)
    found.backward()
    np.testing.assert_allclose(np.asarray(u.grad), numeric(lambda x: f(theirs, x, V), U), rtol=1e-6, atol=1e-8)


METRICS = "euclidean sqeuclidean cityblock chebyshev cosine correlation braycurtis canberra seuclidean mahalanobis".split()


@pytest.mark.parametrize("metric", METRICS)
def test_distances_of_all_rows(metric):
    weights = RNG.normal(size=(5, 4))
    a = dnp.array(A).requires_grad_()
    found = distance.cdist(a, B, metric)
    np.testing.assert_allclose(np.asarray(found.detach()), theirs.cdist(A, B, metric), rtol=1e-10)
    (found * weights).sum().backward()
    np.testing.assert_allclose(np.asarray(a.grad), numeric(lambda x: (theirs.cdist(x, B, metric) * weights).sum(), A), rtol=1e-5, atol=1e-7)
    a = dnp.array(A).requires_grad_()
    found = distance.pdist(a, metric)
    np.testing.assert_allclose(np.asarray(found.detach()), theirs.pdist(A, metric), rtol=1e-10)
    found.sum().backward()
    np.testing.assert_allclose(np.asarray(a.grad), numeric(lambda x: theirs.pdist(x, metric).sum(), A), rtol=1e-5, atol=1e-7)


def test_options_and_functions_as_metrics():
    for options in (
        {"metric": "minkowski", "p": 3},
        {"metric": "euclidean", "w": W[:3]},
        {"metric": "mahalanobis", "VI": np.eye(3) * 2},
        {"metric": "chebyshev", "w": [1.0, 0.0, 2.0]},
    ):
        np.testing.assert_allclose(np.asarray(distance.cdist(A, B, **options)), theirs.cdist(A, B, **options), rtol=1e-12)
    own = lambda x, y: ((x - y) ** 4).sum()
    np.testing.assert_allclose(np.asarray(distance.cdist(dnp.array(A), B, own)), theirs.cdist(A, B, own), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(distance.pdist(dnp.array(A), own)), theirs.pdist(A, own), rtol=1e-12)


def test_square_forms_go_both_ways():
    x = dnp.array(np.arange(1.0, 7.0)).requires_grad_()
    square = distance.squareform(x)
    np.testing.assert_array_equal(np.asarray(square.detach()), theirs.squareform(np.arange(1.0, 7.0)))
    np.testing.assert_array_equal(np.asarray(distance.squareform(square).detach()), np.arange(1.0, 7.0))
    square.sum().backward()
    assert x.grad.tolist() == [2.0] * 6
    for wrong in (np.ones(4), np.ones((2, 3)), np.ones((2, 2))):
        with pytest.raises(ValueError):
            distance.squareform(wrong)


def test_equal_rows_have_no_nan():
    x = dnp.array(A[[0, 0]]).requires_grad_()
    for metric in ("euclidean", "cityblock", "mahalanobis"):
        options = {"VI": np.eye(3)} if metric == "mahalanobis" else {}
        (gradient,) = ndgrad.autograd.grad(distance.cdist(x, x, metric, **options).sum(), x)
        assert np.isfinite(np.asarray(gradient)).all()


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="1-D"):
        distance.euclidean(A, B)
    with pytest.raises(ValueError, match="columns"):
        distance.cdist(A, B[:, :2])
    with pytest.raises(ValueError, match="non-negative"):
        distance.cityblock(U, V, -W)
    with pytest.raises(NotImplementedError, match="'yule'"):
        distance.pdist(A, "yule")
    with pytest.raises(NotImplementedError, match=r"scipy\.spatial\.distance\.hamming"):
        distance.hamming(dnp.array(U).requires_grad_(), V)
    assert distance.hamming([1, 0], [1, 1]) == 0.5
