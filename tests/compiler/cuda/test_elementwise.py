"""The source of elementwise kernels, and how dimensions are walked."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.compiler.cuda.elementwise import Kind, can_be_written, result_dtypes, source, walked
from ndgrad._src.ops.formulas import Formula


def gated():
    formula = Formula()
    x, y = formula.input(), formula.input()
    return formula.signature([formula.apply("where", x > 0.5, x * y, y)])


def test_operands_in_order_are_read_by_sixteen_bytes():
    text = source(Kind(gated(), "f", ("f", "f"), 0, 4))
    assert "const Pack<float, 4> r1 = *(const Pack<float, 4>*)(a.x1 + i);" in text
    assert "const bool v0 = e0 > p0;" in text
    assert text.count("put(") == 2 + text.count("inline void put(")


def test_halves_are_computed_with_in_single_precision():
    text = source(Kind(gated(), "E", ("E", "E"), 0, 8))
    assert "const float v1 = e0 * e1;" in text
    assert "const Brain* x0;" in text


def test_operands_that_broadcast_are_read_by_index():
    text = source(Kind(gated(), "d", ("d", "d"), 2, 1))
    assert "at = rest % a.sizes[1]; rest /= a.sizes[1];" in text
    assert "t1 += (long long)at * a.strides[1][0];" in text


def test_comparisons_give_booleans():
    formula = Formula()
    signature = formula.signature([formula.input() < 1.0])
    assert result_dtypes(signature, "f") == ["?"]


def test_what_has_no_formula_is_not_written():
    formula = Formula()
    assert not can_be_written(formula.signature([formula.apply("digamma", formula.input())]), "f")
    assert not can_be_written(gated(), "F")


@pytest.mark.parametrize(
    ("shapes", "sizes", "strides"),
    [
        (((4, 6), (4, 6)), [24], [[1], [1]]),
        (((4, 6), (6,)), [4, 6], [[6, 1], [0, 1]]),
        (((4, 6), ()), [24], [[1], [0]]),
        (((2, 1, 3), (2, 5, 3)), [2, 5, 3], [[3, 0, 1], [15, 3, 1]]),
        (((2, 5, 3), (3,)), [10, 3], [[3, 1], [0, 1]]),
        (((1, 1), (1, 1)), [1], [[0], [0]]),
    ],
)
def test_dimensions_that_can_be_walked_as_one_are_one(shapes, sizes, strides):
    arrays = [np.zeros(shape) for shape in shapes]
    assert walked(np.broadcast_shapes(*shapes), arrays) == (sizes, strides)


def test_a_transposed_operand_keeps_its_strides():
    assert walked((3, 4), [np.zeros((4, 3)).T, np.zeros((3, 4))]) == ([3, 4], [[1, 3], [4, 1]])
