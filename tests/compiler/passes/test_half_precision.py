"""Casts of halves to and fro: what is left of them, and that nothing else has changed."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.attention import attention_gradients
from ndgrad._src.compiler.passes.half_precision import narrow
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from tests.compiler.traced import traced

ml_dtypes = pytest.importorskip("ml_dtypes")

BRAIN = np.dtype(ml_dtypes.bfloat16)


def draw(*shapes: tuple[int, ...], dtype: type = np.float32) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def program_of(function, arrays) -> Program:
    return simplify_program(traced(function, arrays))


def results(program: Program, arrays: list[np.ndarray]) -> list[np.ndarray]:
    ones = [np.cos(np.arange(v.size)).reshape(v.shape).astype(v.dtype) for v in program.inputs[len(arrays) :]]
    return [np.asarray(a).astype(np.float64) for a in Replay(program)([*arrays, *ones])]


def in_halves(x, w):
    x, w = x.to(ndgrad.bfloat16), w.to(ndgrad.bfloat16)
    return (x @ w).reshape(-1).permute(0).reshape(3, 2, 4).transpose(0, 1).float()


def test_products_of_widened_halves_are_products_of_halves():
    arrays = draw((6, 5), (5, 4))
    program = program_of(in_halves, arrays)
    assert any(i.op.name == "matmul" and i.result.dtype == np.float32 for i in program.instructions)
    narrowed = simplify_program(narrow(program))
    products = [i for i in narrowed.instructions if i.op.name == "matmul"]
    assert len(products) == 3
    assert {i.result.dtype for i in products} == {BRAIN}
    for got, want in zip(results(narrowed, arrays), results(program, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=0.01, atol=0.01)


def test_views_go_before_casts():
    def function(x):
        return x.to(ndgrad.bfloat16).float().reshape(4, 6).t()[1:].to(ndgrad.bfloat16).float()

    arrays = draw((24,))
    narrowed = simplify_program(narrow(program_of(function, arrays)))
    for got, want in zip(results(narrowed, arrays), results(program_of(function, arrays), arrays), strict=True):
        np.testing.assert_array_equal(got, want)
    widening = [i for i in narrowed.instructions if i.op.name == "cast" and i.arguments[0].dtype == BRAIN]
    assert all(v.size == 20 or v.size == 24 for i in widening for v in i.results)


def test_parts_in_another_order_are_put_there_at_once():
    def function(x):
        whole = ndgrad.stack([x, x * 2, x * 3])
        return (whole + 0.0).permute(1, 0, 2).contiguous()

    arrays = draw((4, 5))
    program = program_of(function, arrays)
    narrowed = narrow(program)
    assert any(i.op.name == "assembled" and i.result.shape == (4, 3, 5) for i in narrowed.instructions)
    for got, want in zip(results(narrowed, arrays), results(program, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_attention_are_one_op_again(is_causal):
    def function(q, k, v):
        return ndgrad.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    arrays = draw((2, 3, 6, 4), (2, 3, 6, 4), (2, 3, 6, 4))
    program = program_of(function, arrays)
    found = attention_gradients(program)
    names = [i.op.name for i in found.instructions]
    assert "attention_weights" in [i.op.name for i in program.instructions]
    assert "attention_weights" not in names
    assert names.count("attention_gradients") == names.count("attention_kept") == 1
    for got, want in zip(results(found, arrays), results(program, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_weights_that_somebody_else_reads_stay():
    def function(q, k, v):
        weights = ndgrad.softmax(q @ k.transpose(-1, -2), -1)
        return weights @ v + weights.sum()

    arrays = draw((2, 6, 4), (2, 6, 4), (2, 6, 4))
    program = program_of(function, arrays)
    assert attention_gradients(program) is program
