"""The table of singular points agrees with torch, except where it says that it does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.singular_points import gradients, rows


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.expression)
def test_table_agrees_with_torch(row):
    expected = [row.g] if row.h is None else [row.g, row.h]
    same = np.allclose(gradients(torch, row), expected, equal_nan=True)
    assert same != row.differs
