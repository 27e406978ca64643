"""Derivatives along a direction by differences, with a word on whether they can be believed.

A wrong gradient is wrong along almost every direction, so one direction drawn at random is enough, and costs seven runs
of the program. A slope is taken from four points around x with step h, and again with h / 2; and from the points on
either side alone. If these disagree, there is a kink, a jump or another branch nearby, and a smaller step is tried. A
point without any step that agrees is no place for a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = (2e-3, 2e-4, 2e-5)


class NotSmooth(Exception):
    """No difference can be believed here."""


def slope(f: Callable[[float], Any], middle: Any, tolerance: float) -> Any:
    """The derivative of `f` at 0, whose value there is `middle`.

    The errors are of order h^4 between the points around 0 and of h^2 between those on one side: the latter only tell
    kinks.
    """
    for h in STEPS:
        try:
            l2, l1, l0, r0, r1, r2 = (f(s * h) for s in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0))
        except (ArithmeticError, IndexError, ValueError, np.linalg.LinAlgError):
            continue
        if not all(np.shape(v) == np.shape(middle) and np.all(np.isfinite(v)) for v in (l2, l1, l0, r0, r1, r2)):
            continue
        wide = (8 * (r1 - l1) - (r2 - l2)) / (12 * h)
        narrow = (8 * (r0 - l0) - (r1 - l1)) / (6 * h)
        right, left = (4 * r0 - r1 - 3 * middle) / h, (3 * middle - 4 * l0 + l1) / h
        scale = 1.0 + np.max(np.abs(narrow), initial=0.0)
        if np.max(np.abs(wide - narrow), initial=0.0) < tolerance * scale / 10:
            if np.max(np.abs(right - left), initial=0.0) < tolerance * scale:
                return narrow
    raise NotSmooth


def move(inputs: list[Any], direction: list[Any], by: float) -> list[Any]:
    return [x + by * d for x, d in zip(inputs, direction)]


def directional(f: Callable[..., Any], inputs: list[Any], direction: list[Any], tolerance: float) -> Any:
    return slope(lambda by: f(*move(inputs, direction, by)), f(*inputs), tolerance)
