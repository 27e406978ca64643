"""Integers with constants outside of their dtype: compiled as in eager code and NumPy."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.compiler.runtime.function import CompiledFunction

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
#: Limits of all dtypes, and their neighbours.
CONSTANTS = sorted({limit + step for d in DTYPES for limit in (np.iinfo(d).min, np.iinfo(d).max) for step in (-1, 0, 1)})
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def values(dtype: str) -> Any:
    limits = np.iinfo(dtype)
    return ndgrad.tensor(np.array([limits.min, limits.max, 0, 1, limits.max // 2 + 1], dtype))


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return [(t.dtype, t.tolist()) for t in f(*args)]
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_with_numbers(dtype: str) -> None:
    def f(x: Any) -> Any:
        made = [(compare(x, c), compare(c, x)) for compare in COMPARISONS for c in CONSTANTS]
        return [*itertools.chain(*made), *[compare(x, c) for compare in COMPARISONS for c in (0.5, 1e30, -1e30)]]

    compiled = CompiledFunction(f)
    assert outcome(compiled, values(dtype)) == outcome(f, values(dtype))
    assert compiled.entries[0].specialisation is not None
    expected = [compare(values(dtype).numpy(), c).tolist() for compare in COMPARISONS for c in CONSTANTS]
    assert [t.tolist() for t in compiled(values(dtype))[: 2 * len(expected) : 2]] == expected


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_comparisons_of_signed_and_unsigned_integers(dtype: str) -> None:
    other = {"uint64": "int64", "int64": "uint64"}[dtype]

    def f(x: Any, y: Any) -> Any:
        return [compare(x, y) for compare in COMPARISONS]

    x, y = values(dtype), values(other).flip(0)
    assert outcome(CompiledFunction(f), x, y) == outcome(f, x, y)


OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda x, c: [x + c, x - c, x * c, c - x],
    "division": lambda x, c: [x // c, x % c, x / c],
    "bits": lambda x, c: [x & c, x | c, x ^ c],
    "clamp": lambda x, c: [ndgrad.clamp(x, min=c), ndgrad.clamp(x, max=c)],
    "where": lambda x, c: [ndgrad.where(x > 0, x, c), x.masked_fill(x > 0, c)],
    "fill": lambda x, c: [ndgrad.full_like(x, c), x.clone().fill_(c)],
    "in place": lambda x, c: [x.clone().add_(c), x.clone().mul_(c)],
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_ops_give_or_raise_what_eager_code_does(name: str) -> None:
    for dtype, c in itertools.product(("uint8", "int32"), (-1, 255, 256, 2**40, True, 1.5)):

        def f(x: Any, c: Any = c) -> Any:
            return OTHERS[name](x, c)

        assert outcome(CompiledFunction(f), values(dtype)) == outcome(f, values(dtype)), (dtype, c)


def test_a_comparison_that_is_always_true_is_a_constant() -> None:
    text = """
program f(%0: uint8[3], %1: uint8[3])
  %2: bool[3] = lt(%0, 256)
  %3: bool[3] = ge(-1, %1)
  return %2, %3
"""
    program = simplify_program(parse_program(text))
    assert [i.op.name for i in program.instructions] == ["expand", "expand"]
