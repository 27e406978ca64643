"""Sobol points: SciPy's points, and the even distribution of scrambled ones."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.quasirandom import SobolEngine

qmc = pytest.importorskip("scipy.stats").qmc


def test_points_are_those_of_scipy_in_pieces_too() -> None:
    expected = qmc.Sobol(5, scramble=False).random(32)
    engine = SobolEngine(5)
    parts = [engine.draw(n, dtype=ndgrad.float64) for n in (1, 4, 0, 11)]
    np.testing.assert_array_equal(ndgrad.cat(parts).numpy(), expected[:16])
    np.testing.assert_array_equal(engine.fast_forward(3).draw(2).numpy(), expected[19:21].astype(np.float32))
    np.testing.assert_array_equal(engine.reset().draw_base2(5, dtype=ndgrad.float64).numpy(), expected)


def test_scrambled_points_fill_every_interval() -> None:
    points = SobolEngine(4, scramble=True, seed=1).draw_base2(6, dtype=ndgrad.float64).numpy()
    assert not np.array_equal(points, SobolEngine(4, scramble=True, seed=2).draw(64, dtype=ndgrad.float64).numpy())
    for column in points.T:
        assert sorted((column * 64).astype(int)) == list(range(64))
    cells = (points[:, :2] * 8).astype(int)
    assert len({tuple(cell) for cell in cells}) == 64


def test_sizes_that_unbalance_the_points_are_refused() -> None:
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)
    with pytest.raises(ValueError, match="dimensionality"):
        SobolEngine(0)
