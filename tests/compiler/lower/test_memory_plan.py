"""The arena: values that live at the same time do not overlap, and memory is used again."""

from __future__ import annotations

import numpy as np

from ndgrad._src.compiler.lower.memory_plan import plan_memory
from ndgrad._src.compiler.program.program import Value


def test_values_that_live_together_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        spans = {}
        for _ in range(int(rng.integers(1, 30))):
            first = int(rng.integers(0, 20))
            value = Value((int(rng.integers(0, 200)),), np.dtype(rng.choice(["f4", "f8", "i1"])))
            spans[value] = (first, first + int(rng.integers(0, 6)))
        offsets, total = plan_memory(spans)
        for a, (a0, a1) in spans.items():
            assert offsets[a] % 64 == 0
            assert offsets[a] + a.nbytes <= total
            for b, (b0, b1) in spans.items():
                if a is not b and a0 <= b1 and b0 <= a1 and a.nbytes and b.nbytes:
                    assert offsets[a] + a.nbytes <= offsets[b] or offsets[b] + b.nbytes <= offsets[a]


def test_memory_is_used_again() -> None:
    values = [Value((1000,), np.dtype("f8")) for _ in range(50)]
    _, total = plan_memory({v: (i, i + 1) for i, v in enumerate(values)})
    assert total == 2 * 8000
