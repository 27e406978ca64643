"""Order of equal elements on NumPy's tensor class: that of NumPy, for every kind of sort."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad.array_api as xp
import ndgrad.numpy as dnp

KINDS = [{}, {"kind": "stable"}, {"kind": "heapsort"}, {"kind": "mergesort"}, {"stable": True}, {"stable": False}]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_equal_elements_keep_numpys_order(options, dtype):
    for shape in ((7,), (300,), (40, 50)):
        x = np.random.default_rng(0).integers(0, 4, shape).astype(dtype)
        for axis in (-1, 0, None):
            expected = np.argsort(x, axis=axis, **options)
            np.testing.assert_array_equal(dnp.argsort(x, axis=axis, **options), expected)
            np.testing.assert_array_equal(np.argsort(dnp.asarray(x), axis=axis, **options), expected)
            np.testing.assert_array_equal(dnp.sort(x, axis=axis, **options), np.sort(x, axis=axis, **options))


def test_the_array_api_sorts_stably_by_default():
    x = np.random.default_rng(0).integers(0, 3, 500)
    np.testing.assert_array_equal(xp.argsort(xp.asarray(x)), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("options", [{"kind": "nope"}, {"kind": "stable", "stable": True}])
def test_kinds_that_numpy_refuses_are_refused(options):
    with pytest.raises(ValueError):
        np.argsort(np.ones(2), **options)
    with pytest.raises(ValueError):
        dnp.argsort(dnp.ones(2), **options)
