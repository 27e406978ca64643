"""How many floating-point operations an op does, estimated as torch does: a multiplication and an addition count as two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Shapes = list[tuple[int, ...]]


def flops_of(name: str, shapes: Shapes, out: tuple[int, ...]) -> int:
    """The estimate for an op, 0 where there is none."""
    rule = _RULES.get(name)
    return 0 if rule is None else int(rule(shapes, out))


def _elements(shapes: Shapes, out: tuple[int, ...]) -> int:
    return math.prod(out)


def _product(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Every element of the result is a sum over the last dimension of the first factor."""
    return 2 * math.prod(out) * shapes[0][-1] if shapes[0] else 0


def _linear(shapes: Shapes, out: tuple[int, ...]) -> int:
    return 2 * math.prod(out) * shapes[1][-1]


def _added_product(shapes: Shapes, out: tuple[int, ...]) -> int:
    return 2 * math.prod(out) * shapes[1][-1]


def _convolution(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Every element of the result is a sum over the weights of its channel."""
    return 2 * math.prod(out) * math.prod(shapes[1][1:])


_RULES: dict[str, Callable[[Shapes, tuple[int, ...]], Any]] = {
    "add": _elements,
    "mul": _elements,
    "matmul": _product,
    "linear": _linear,
    "addmm": _added_product,
    "addbmm": _added_product,
    "baddbmm": _added_product,
    "addmv": _added_product,
    "convolution": _convolution,
}
