"""Vocabulary of the programs of transforms: functions of the library and its `func` that return the values to compare.

Their data come from NumPy. Random results are compared by their shapes and by the equality of samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any, Any], Any]
PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    """Enter a function of a library and its `func` into the list that the comparison runs."""
    PROGRAMS.append(f)
    return f


def vector(torch: Any, seed: int = 0) -> Any:
    return draw(torch, seed, 3)


def draw(torch: Any, seed: int, *shape: int, dtype: str = "float64") -> Any:
    return torch.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def draw_complex(torch: Any, seed: int, *shape: int) -> Any:
    random = np.random.default_rng(seed)
    return torch.tensor(random.normal(size=shape) + 1j * random.normal(size=shape))


def positive_definite(torch: Any, seed: int, *batch: int, n: int = 3) -> Any:
    a = np.random.default_rng(seed).normal(size=(*batch, n, n))
    return torch.tensor(a @ np.swapaxes(a, -1, -2) + n * np.eye(n))


def attempt(f: Callable[[], Any]) -> Any:
    """The value of f(), or the error that it raised."""
    try:
        return f()
    except Exception as error:
        return error.with_traceback(None)  # otherwise the tensors of its frames would stay


def all_equal(samples: Any) -> bool:
    """Whether all samples of a batch are the same."""
    return bool((samples == samples[:1]).all())
