"""Philox compared with the known answers of its authors (Random123, kat_vectors), and its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.arrays import philox

KNOWN = [
    ((0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((2**64 - 1, 2**64 - 1), 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ((0x85A308D3243F6A88, 0x0370734413198A2E), 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "want"), KNOWN, ids=["zeros", "ones", "pi"])
def test_known_answers(counter, key, want):
    block, number = counter
    made = philox.blocks(np, philox.Draw(key, number), np.array([block], np.uint64))
    assert " ".join(f"{int(word[0]):08x}" for word in made) == want


def test_numbers_follow_from_words():
    draw = philox.Draw(7, 3)
    words = np.concatenate([philox.words(np, draw, 5, 4).ravel()]).astype(np.uint64)
    np.testing.assert_array_equal(philox.unit(np, draw, 18, np.dtype(np.float32)), (words[:18] >> 8) / 2.0**24)
    pairs = words.reshape(-1, 2)
    np.testing.assert_array_equal(philox.words_64(np, draw, 10), pairs[:, 0] * 2**32 + pairs[:, 1])
    assert philox.open_unit(np, draw, 1000).min() > 0
    assert philox.open_unit(np, draw, 1000).max() < 1
    np.testing.assert_array_equal(philox.bernoulli(np, draw, 20, 0.5), words < 2**31)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_numbers_are_normal(dtype):
    stats = pytest.importorskip("scipy.stats")
    z = philox.normal(np, philox.Draw(1, 0), 20001, np.dtype(dtype))
    assert z.dtype == dtype
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(z[0:20000:2], z[1:20000:2])[0, 1]) < 0.03
