"""Gradients at singular points are what the docs say."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from tests.singular_points import rows


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.expression)
def test_gradient_is_what_the_table_says(row):
    from tests.singular_points import gradients

    expected = [row.g] if row.h is None else [row.g, row.h]
    np.testing.assert_allclose(gradients(ndgrad, row), expected, equal_nan=True)
