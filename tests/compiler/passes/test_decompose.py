"""Composite ops in terms of simpler ones: as accurate as the ops themselves, against the same in more precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.decompose import composites
from ndgrad._src.compiler.passes.decompose import decompose as decomposed
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.ops.table import table
from ndgrad._src.ops.vocabulary import load_all
from tests.compiler.traced import arrays_for, assert_same, run, traced
from tests.examples import few
from tests.op_programs import SAMPLES, program_of, various


def decompose(program: Program, names: list[str] | None = None) -> Program:
    return decomposed(program, names)[0]


def names_of(program: Program) -> set[str]:
    return {i.op.name for i in program.instructions}


load_all()
BODIES = {name for name, op in table.items() if op.body is not None}


@pytest.mark.parametrize("name", sorted({*composites.by_name, *BODIES}))
def test_samples_of_an_op_give_the_same_within_rounding(name: str) -> None:
    ran = False
    for sample in few(5, various([s for s in SAMPLES[name] if not any(isinstance(a, np.generic) for a in s.args)])):
        function, tensors = program_of(table[name], sample)
        arrays = [np.asarray(t._array) for t in tensors]
        try:
            program = simplify_program(traced(function, arrays))
        except GraphBreak:
            continue
        other = simplify_program(decompose(program))
        assert_same(program, other, arrays_for(program, arrays), ulps=512)
        ran |= name in names_of(program) and name not in names_of(other)
    # Indices are looked for only where one names an element of each row; a convolution stays one, without its bias.
    # Masks and sums change only behind the gradient of a pooling. What an index that is a constant overwrites is one, too.
    named = ("gather", "gather_backward", "convolution", "keep", "sum", "overwritten", "overwritten_along")
    assert ran or name in named


@pytest.mark.parametrize("stride", [2, 1])
def test_the_gradient_of_relu_and_bias_is_taken_before_it_is_spread_over_windows(stride: int) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (2, 3, 6, 8)).astype(float)  # with equal maxima, and maxima of zero
    x[1, 1, 2, 3] = np.nan

    def function(x: Any, b: Any) -> Any:
        return F.max_pool2d(ndgrad.relu(x + b.reshape(3, 1, 1)), 2, stride=stride)

    arrays = [x, np.array([0.0, 1.0, -1.0])]
    program = simplify_program(traced(function, arrays))
    other = simplify_program(decompose(program, ["keep", "sum"]))
    kept = [i for i in other.instructions if i.op.name in ("keep", "sum")]
    assert [i.result.shape for i in kept] == [(2, 3, 6 // stride - stride % 2, 8 // stride - stride % 2), (3,)]
    assert all(v.shape[-1] < 8 for i in kept for v in i.values())
    assert_same(program, other, arrays_for(program, arrays), ulps=8)


def test_the_bias_of_a_convolution_is_an_addition() -> None:
    r = np.random.default_rng(0)
    arrays = [r.standard_normal((2, 3, 5, 6)), r.standard_normal((4, 3, 2, 3)), r.standard_normal(4)]
    program = traced(lambda x, w, b: F.conv2d(x, w, b, padding=1), arrays)
    other = decompose(program)
    (convolution,) = [i for i in other.instructions if i.op.name == "convolution"]
    assert convolution.arguments[2] is None
    assert_same(program, other, arrays_for(program, arrays))


def test_one_element_of_each_row() -> None:
    def function(x: Any, index: Any) -> Any:
        return x.gather(1, index)

    arrays = [np.random.default_rng(0).standard_normal((3, 4)), np.array([[0], [3], [1]])]
    program = traced(function, arrays)
    other = decompose(program)
    assert not names_of(other) & {"gather", "gather_backward"}
    assert_same(program, other, arrays_for(program, arrays))


INFINITE = np.array([[1.0, np.inf, 2.0], [-np.inf, 0.0, 1.0], [-np.inf] * 3, [np.nan, 0.0, 1.0], [800.0, -800.0, 799.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_infinite_and_large_elements(name: str) -> None:
    function = {"softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1), "logsumexp": lambda x: x.logsumexp(1)}[name]
    program = traced(function, [INFINITE], gradients=False)
    other = decompose(program)
    assert name not in names_of(other)
    a, b = run(program, [INFINITE])[0], run(other, [INFINITE])[0]
    np.testing.assert_allclose(a, b, rtol=1e-15)


def test_the_variance_of_equal_numbers_is_zero() -> None:
    x = np.full((3, 7), 0.1)
    x[1] = 1e8 + np.arange(7) * 1e-7
    program = traced(lambda x: x.var(1), [x], gradients=False)
    other = decompose(program)
    assert "var" not in names_of(other)
    assert run(other, [x])[0][0] == 0
    assert_same(program, other, [x], ulps=4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_deviation_of_numbers_whose_squares_are_out_of_range(dtype: str, dim: int) -> None:
    limits = np.finfo(dtype)
    x = np.random.default_rng(0).standard_normal((6, 6)).astype(dtype)
    sizes = np.array([1.0, limits.max / 8, limits.tiny * 64, math.sqrt(limits.max), math.sqrt(limits.tiny), 1e-9], dtype)
    x = x * (sizes[:, None] if dim else sizes)
    program = traced(lambda x: ndgrad.std_mean(x, dim), [x], gradients=False)
    other = decompose(program)
    assert "std_mean" not in names_of(other)
    with np.errstate(all="ignore"):
        found, expected = run(other, [x]), run(program, [x])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=20 * limits.eps, atol=4 * limits.smallest_subnormal)
    np.testing.assert_allclose(found[0], np.std(x.astype(np.longdouble), axis=dim, ddof=1), rtol=20 * limits.eps)


def test_single_precision_is_as_accurate_as_the_op() -> None:
    x = (np.random.default_rng(0).standard_normal((40, 300)) * 3 + 100).astype(np.float32)
    for function in (
        lambda x: F.layer_norm(x, (300,)),
        lambda x: x.softmax(1),
        lambda x: x.var(1),
        lambda x: F.rms_norm(x, (300,)),
        lambda x: x.mean(1),
    ):
        program = traced(function, [x], gradients=False)
        exact = run(traced(function, [x.astype(np.float64)], gradients=False), [x.astype(np.float64)])[0]
        errors = [np.abs(run(p, [x])[0] - exact).max() for p in (program, decompose(program))]
        assert errors[1] <= 2 * errors[0] + 1e-6 * np.abs(exact).max() * 0.2


def test_only_some_are_decomposed() -> None:
    program = traced(lambda x: x.softmax(1).log_softmax(1), [np.ones((2, 3))])
    assert names_of(decompose(program, ["softmax"])) >= {"log_softmax", "amax"}
    assert "softmax" not in names_of(decompose(program, ["softmax"]))


def test_forward_and_backward_of_a_normalisation_share_what_both_need() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        return F.layer_norm(x, (4,), w, b)

    random = np.random.default_rng(0)
    program = traced(function, [random.standard_normal((3, 4)), random.standard_normal(4), random.standard_normal(4)])
    names = [i.op.name for i in simplify_program(decompose(program)).instructions]
    assert names.count("rsqrt") == 1
    assert names.count("sum") == 6  # mean, variance, two of the gradient's, and the gradients of weight and bias


def test_half_precision_and_complex_numbers_stay() -> None:
    x = ndgrad.tensor(np.ones((2, 3), np.float16))
    program = traced(lambda y: x.softmax(1) + y, [np.ones((2, 3), np.float16)], gradients=False)
    assert "softmax" in names_of(decompose(program))


def test_an_index_out_of_range_is_seen_by_a_check() -> None:
    def function(x: Any, target: Any) -> Any:
        return F.cross_entropy(x, target)

    x, target = np.random.default_rng(0).standard_normal((3, 4)), np.array([0, 3, 1])
    program, checks = decomposed(traced(function, [x, target], gradients=False))
    program.outputs = checks
    assert [float(c) for c in run(program, [x, target])] == [0.0] * len(checks)
    assert run(program, [x, np.array([0, 4, -1])])[0] == 2.0
