"""Vocabulary of the programs for both libraries.

A program is a function of the module, torch or ndgrad. Its data come from NumPy, so that the libraries' generators play no part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enter a function of the module into the list that the comparison runs."""
    PROGRAMS.append(f)
    return f


def draw(torch: Any, seed: int, *shape: int, grad: bool = False, low: float = -1.0, high: float = 1.0) -> Any:
    return torch.tensor(np.random.default_rng(seed).uniform(low, high, shape), requires_grad=grad)


def draw_complex(torch: Any, seed: int, *shape: int, grad: bool = False) -> Any:
    random = np.random.default_rng(seed)
    return torch.tensor(random.normal(size=shape) + 1j * random.normal(size=shape), requires_grad=grad)


def raised(f: Callable[[], Any]) -> BaseException:
    """The error that f() must raise."""
    with pytest.raises(Exception) as caught:
        f()
    return caught.value
