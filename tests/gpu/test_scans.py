"""Running sums, products, extrema and logarithms of sums on a GPU beside the CPU, in every floating dtype."""

from __future__ import annotations

import pytest

import ndgrad
from tests.gpu.comparison import DTYPES, compare, draw

cupy = pytest.importorskip("cupy")


@DTYPES
@pytest.mark.parametrize(("shape", "dim"), [((19, 40), 1), ((3, 3000), 1), ((70, 33), 0), ((2, 50, 7), 1)])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_along_a_dimension(name, shape, dim, dtype):
    run = getattr(ndgrad, name)
    x = 1 + draw(*shape) / 100 if name == "cumprod" else draw(*shape) / 10
    compare((lambda x: run(x, dim)[0]) if name in ("cummax", "cummin") else (lambda x: run(x, dim)), [x], dtype)
