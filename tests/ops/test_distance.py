"""Distances between points that are close together, in single precision: their derivatives keep their digits."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

r = np.random.default_rng(3)
FAR = r.standard_normal((64, 60)).astype(np.float32) * 10
NEAR = FAR[:9] + r.standard_normal((9, 60)).astype(np.float32) * np.float32(1e-5)
WEIGHTS = r.standard_normal((9, 64))


def slopes(dtype):
    x, y = (ndgrad.tensor(a, dtype=dtype, requires_grad=True) for a in (NEAR, FAR))
    out = ndgrad.cdist(x, y)
    return [g.double().numpy() for g in ndgrad.autograd.grad((out * ndgrad.tensor(WEIGHTS, dtype=dtype)).sum(), (x, y))]


def test_gradients_of_points_close_together():
    """Each gradient is a sum of directions, of length 1 however close the points are."""
    for got, want in zip(slopes(ndgrad.float32), slopes(ndgrad.float64), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


def test_tangents_of_points_close_together():
    t = np.random.default_rng(4).standard_normal(NEAR.shape)

    def pushed(dtype):
        x, y, along = (ndgrad.tensor(a, dtype=dtype) for a in (NEAR, FAR, t))
        return ndgrad.func.jvp(lambda x: ndgrad.cdist(x, y), (x,), (along,))[1].double().numpy()

    np.testing.assert_allclose(pushed(ndgrad.float32), pushed(ndgrad.float64), atol=2e-4)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, float("inf")])
def test_points_without_coordinates_have_distance_zero(p):
    x = ndgrad.zeros(3, 0, requires_grad=True)
    out = ndgrad.cdist(x, ndgrad.zeros(2, 0), p)
    out.sum().backward()
    assert out.tolist() == [[0.0, 0.0]] * 3
    assert x.grad.shape == (3, 0)
    assert ndgrad.pdist(x, p).tolist() == [0.0] * 3
