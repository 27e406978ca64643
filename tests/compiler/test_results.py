"""Results of a compiled call for which passes find equal values."""

from __future__ import annotations

import numpy as np

import ndgrad
from ndgrad._src.compiler.runtime.function import CompiledFunction


def test_equal_results_are_memory_of_their_own() -> None:
    x = ndgrad.tensor([1.0, 2.0])
    a, b, c = CompiledFunction(lambda x: (x * 2, (x * 2).clone(), x.clone()), fullgraph=True)(x)
    a.add_(1)
    c.add_(1)
    np.testing.assert_array_equal(b.numpy(), [2.0, 4.0])
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])
