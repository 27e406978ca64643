"""Random indices for comparing x[...] with an oracle: ints, slices, None, Ellipsis, masks, integer arrays, and mixtures."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def random_case(seed: int, *, negative_steps: bool) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and an index for it, in which arrays stand as NumPy arrays. Some are out of range or do not broadcast."""
    choice = random.Random(seed)
    draw = np.random.default_rng(seed)
    shape = tuple(choice.choice([1, 2, 3, 4]) for _ in range(choice.randint(0, 4)))
    lead = choice.choice([(3,), (2, 3), (1,), (), (0,), (2,)])
    taken, d, items = choice.randint(0, len(shape)), 0, []
    while d < taken or choice.random() < 0.1:
        kind = choice.choice(["int", "slice", "array", "array", "mask", "None", "Ellipsis", "bool", "all"])
        size = shape[d] if d < len(shape) else 1
        if kind == "None":
            items.append(None)
        elif kind == "bool":
            items.append(choice.random() < 0.7)
        elif kind == "Ellipsis" and Ellipsis not in [i for i in items if not isinstance(i, np.ndarray)]:
            items.append(Ellipsis)
            d, taken = d + len(shape) - taken, len(shape)
        elif d >= taken:
            break
        elif kind == "int":
            items.append(choice.randint(-size, size - (choice.random() < 0.98)))
            d += 1
        elif kind == "slice":
            steps = [None, 1, 2, -1, -2] if negative_steps else [None, 1, 2]
            items.append(slice(choice.choice([None, 0, 1, -1, 2]), choice.choice([None, 1, 2, -1, 5]), choice.choice(steps)))
            d += 1
        elif kind == "mask" and d + 1 <= taken:
            covered = choice.randint(1, min(2, taken - d))
            items.append(draw.random(shape[d : d + covered]) < 0.6)
            d += covered
        elif kind == "array":
            items.append(draw.integers(-size, size + (choice.random() < 0.03), lead if choice.random() < 0.8 else (1,)))
            d += 1
        elif kind == "all":
            items.append(slice(None))
            d += 1
    return shape, tuple(items)


def random_value(seed: int, part: tuple[int, ...]) -> Any:
    """Something to assign to a part of this shape: a number, all of it, or what broadcasts to it; sometimes what does not."""
    choice = random.Random(seed)
    kind = choice.choice(["number", "whole", "whole", "broadcast", "wrong"])
    if kind == "number":
        return np.float64(7.0)
    shape = {"whole": part, "broadcast": tuple(1 if choice.random() < 0.5 else n for n in part), "wrong": tuple(n + 1 for n in part)}[kind]
    return np.random.default_rng(seed).random(shape)
