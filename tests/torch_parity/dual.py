"""Vocabulary of the programs of forward mode by dual levels."""

from __future__ import annotations

import functools
import importlib
from typing import Any


def forward_ad(m: Any) -> Any:
    return importlib.import_module(f"{m.__name__}.autograd.forward_ad")


def values(m: Any) -> tuple[Any, Any]:
    return m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0])


def in_level(f: Any) -> Any:
    """A program that runs in a dual level, given the module, forward_ad, a primal and a tangent."""

    @functools.wraps(f)
    def run(m: Any) -> Any:
        fw = forward_ad(m)
        with fw.dual_level():
            return settle(f(m, fw, *values(m)))

    return run


def settle(value: Any) -> Any:
    """Named tuples as lists, so that a tangent of None can be compared."""
    return [settle(v) for v in value] if isinstance(value, (tuple, list)) else value
