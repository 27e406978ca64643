"""Estimated numbers of floating-point operations, counted as in torch: a multiplication and an addition are two."""

from __future__ import annotations

import math
from collections.abc import Callable

from ndgrad._src.ops.table import RulesOfOps

Shapes = list[tuple[int, ...]]

flops: RulesOfOps[Callable[[Shapes, tuple[int, ...]], int]] = RulesOfOps("floating-point operations")


def flops_of(name: str, shapes: Shapes, out: tuple[int, ...]) -> int:
    """Return the estimate for an op, or 0 if there is none."""
    rule = flops.get(name)
    return 0 if rule is None else int(rule(shapes, out))


@flops("add", "mul")
def _elements(shapes: Shapes, out: tuple[int, ...]) -> int:
    return math.prod(out)


@flops("matmul")
def _product(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Count a product: every element of the result is a sum over the last dimension of the first factor."""
    return 2 * math.prod(out) * shapes[0][-1] if shapes[0] else 0


@flops("linear", "addmm", "addbmm", "baddbmm", "addmv")
def _added_product(shapes: Shapes, out: tuple[int, ...]) -> int:
    return 2 * math.prod(out) * shapes[1][-1]


@flops("convolution")
def _convolution(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Count a convolution: every element of the result is a sum over the weights of its channel."""
    return 2 * math.prod(out) * math.prod(shapes[1][1:])


@flops("attention", "attention_with_logs")
def _attention(shapes: Shapes, out: tuple[int, ...]) -> int:
    """Count attention: the products of queries with keys, and of weights with values."""
    query, key, value = shapes[:3]
    batch = math.prod(query[:-2])
    return 2 * batch * query[-2] * key[-2] * (query[-1] + value[-1])
