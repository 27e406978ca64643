"""Sobol points: SciPy's points, their places after skipping, and the even distribution of scrambled ones."""

import numpy as np
import pytest

import ndgrad
from ndgrad.quasirandom import SobolEngine

qmc = pytest.importorskip("scipy.stats.qmc")


@pytest.mark.parametrize("dimension", [1, 2, 7, 150])
def test_points_are_those_of_scipy(dimension):
    ours = SobolEngine(dimension).draw(33, dtype=ndgrad.float64)
    with pytest.warns(UserWarning, match="balance"):
        theirs = qmc.Sobol(dimension, scramble=False, bits=30).random(33)
    np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("scramble", [False, True])
def test_any_division_into_draws_gives_the_same_points(scramble):
    whole = SobolEngine(3, scramble, seed=4).draw(40)
    engine = SobolEngine(3, scramble, seed=4)
    parts = [engine.draw(n) for n in (1, 0, 6, 1)]
    np.testing.assert_array_equal(ndgrad.cat(parts), whole[:8])
    np.testing.assert_array_equal(engine.fast_forward(12).draw(20), whole[20:])
    np.testing.assert_array_equal(engine.reset().draw_base2(5), whole[:32])


def test_scrambled_points_are_balanced_and_follow_the_seed():
    points = SobolEngine(4, scramble=True, seed=9).draw(256, dtype=ndgrad.float64).numpy()
    for column in points.T:  # one point in each of 256 intervals
        np.testing.assert_array_equal(np.sort((column * 256).astype(int)), np.arange(256))
    np.testing.assert_array_equal(points, SobolEngine(4, scramble=True, seed=9).draw(256, dtype=ndgrad.float64))
    assert not np.array_equal(points, SobolEngine(4, scramble=True, seed=10).draw(256, dtype=ndgrad.float64))


def test_results_are_written_to_out():
    out = ndgrad.empty(0, dtype=ndgrad.float64)
    assert SobolEngine(2).draw(3, out=out) is out
    np.testing.assert_array_equal(out, [[0, 0], [0.5, 0.5], [0.75, 0.25]])


def test_impossible_requests_raise():
    with pytest.raises(ValueError, match=r"range of dimensionality .* is \[1, 21201\]"):
        SobolEngine(0)
    engine = SobolEngine(1)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)
    with pytest.raises(ValueError, match="reset"):
        engine.draw(1 << 30)
    assert engine.num_generated == 3
