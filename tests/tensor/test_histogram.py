"""Histograms, positions of nonzero elements and segments, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

r = np.random.default_rng(6)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins", [1, 7, [-2.0, -0.5, 0.0, 1.0]])
def test_histogram_is_numpys(bins, density):
    x, w = r.standard_normal(50), r.uniform(size=50)
    given = bins if isinstance(bins, int) else ndgrad.tensor(bins)
    for weight in (None, w):
        hist, edges = ndgrad.histogram(ndgrad.tensor(x), given, weight=None if weight is None else ndgrad.tensor(weight), density=density)
        want, borders = np.histogram(x, bins, weights=weight, density=density)
        np.testing.assert_allclose(hist.numpy(), want)
        np.testing.assert_allclose(edges.numpy(), borders)


def test_histogram_in_two_dimensions_is_numpys():
    x, w = r.standard_normal((40, 2)), r.uniform(size=40)
    hist, edges = ndgrad.histogramdd(ndgrad.tensor(x), [3, 4], range=[-1.0, 1.0, -2.0, 0.5], weight=ndgrad.tensor(w))
    want, borders = np.histogramdd(x, [3, 4], range=[(-1.0, 1.0), (-2.0, 0.5)], weights=w)
    np.testing.assert_allclose(hist.numpy(), want)
    for ours, theirs in zip(edges, borders, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs)


def test_gradients_of_weights_and_of_edges():
    x, w = (ndgrad.tensor(a, requires_grad=True) for a in (r.standard_normal(9), r.uniform(size=9)))
    assert ndgrad.autograd.gradcheck(lambda w: ndgrad.histogram(x.detach(), 4, weight=w, density=True).hist, (w,), check_forward_ad=True)
    assert ndgrad.autograd.gradcheck(lambda x: ndgrad.histogram(x, 4).bin_edges, (x,), check_forward_ad=True)


def test_histograms_of_samples_under_vmap():
    x = ndgrad.tensor(r.standard_normal((3, 20)))
    got = ndgrad.func.vmap(lambda x: ndgrad.histogram(x, 5, range=(-1.0, 1.0)).hist)(x)
    np.testing.assert_array_equal(got.numpy(), np.stack([np.histogram(row, 5, (-1.0, 1.0))[0] for row in x.numpy()]))


@pytest.mark.parametrize("size", [0, 1, 3, 9])
def test_fixed_numbers_of_places_also_under_vmap(size):
    x = np.array([[[0, 1, 0], [2, 0, 3]], [[0, 0, 0], [0, 0, 4]]])
    want = np.full((2, size, 2), -7)
    for sample, rows in zip(x, want, strict=True):
        found = np.argwhere(sample)[:size]
        rows[: len(found)] = found
    got = ndgrad.func.vmap(lambda x: ndgrad.nonzero_static(x, size=size, fill_value=-7))(ndgrad.tensor(x))
    np.testing.assert_array_equal(got.numpy(), want)


def test_unravelled_places_are_numpys():
    places = np.array([[0, 5], [17, 23]])
    for ours, theirs in zip(ndgrad.unravel_index(ndgrad.tensor(places), (2, 3, 4)), np.unravel_index(places, (2, 3, 4)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_segments_and_their_derivatives(reduce):
    x = ndgrad.tensor(r.standard_normal((6, 2)), requires_grad=True)
    lengths = ndgrad.tensor([1, 3, 2])
    f = lambda x: ndgrad.segment_reduce(x, reduce, lengths=lengths)
    want = np.stack([getattr(np, reduce)(part, 0) for part in np.split(x.detach().numpy(), [1, 4])])
    np.testing.assert_allclose(f(x).detach().numpy(), want)
    assert ndgrad.autograd.gradcheck(f, (x,), check_forward_ad=True)
